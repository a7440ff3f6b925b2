"""A server on the official Python SDK v1, the handshake era only, over Streamable HTTP with sessions or over stdio."""

from mcp.server.fastmcp import FastMCP

from serve import read_arguments, serve

server = FastMCP("python-v1-server")


@server.tool()
def echo(message: str) -> str:
    """Echo"""
    return message


arguments = read_arguments()
if arguments.stdio:
    server.run("stdio")
else:
    serve(server.streamable_http_app(), arguments.port)
