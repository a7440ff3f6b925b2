"""A server of the skills in a directory (Skills extension), on fastmcp 4, over Streamable HTTP.

fastmcp_skills.py --directory DIR     The address is printed once it listens.
"""

import argparse

from fastmcp import FastMCP
from fastmcp.skills.provider import SkillsDirectoryProvider

from serve import serve

parser = argparse.ArgumentParser()
parser.add_argument("--directory", required=True)
arguments = parser.parse_args()

server = FastMCP("skills")
server.add_provider(SkillsDirectoryProvider(arguments.directory))
serve(server.http_app(path="/mcp"), 0)
