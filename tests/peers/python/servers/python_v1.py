"""A server on the official Python SDK v1, the handshake era only, over Streamable HTTP with sessions, HTTP+SSE or stdio."""

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
elif arguments.sse:
    serve(server.sse_app(), arguments.port, "/sse")
else:
    serve(server.streamable_http_app(), arguments.port)
