"""A host of skills (Skills extension) on fastmcp 4: lists every skill, reads all files of each, and lets fastmcp verify
length, digest and frontmatter. Prints what it saw as one line of JSON; ends with status 1 where anything is refused.

fastmcp_skills.py --url URL
"""

from fastmcp import Client
from fastmcp.skills import SkillsClientExtension

from run import read_arguments, run


async def use(arguments, summary):
    async with Client(arguments.url, extensions=[SkillsClientExtension()]) as client:
        summary["protocolVersion"] = client.protocol_version
        skills = summary["skills"] = {}
        for entry in await client.list_skills():
            skill = await client.read_skill(entry.uri)
            skills[entry.uri] = {"name": skill.name, "files": sorted(resource.uri for resource in entry.resources)}
            if len(skill.files) != len(entry.resources):
                raise ValueError(f"{entry.uri} has {len(skill.files)} files, and {len(entry.resources)} entries")


run(use, read_arguments())
