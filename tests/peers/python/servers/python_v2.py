"""A server on the official Python SDK v2, both eras, over Streamable HTTP or stdio."""

import asyncio
from typing import Annotated

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from pydantic import Field

from serve import read_arguments, serve

server = MCPServer("python-v2-server", instructions="A server for tests.")


@server.tool()
def echo(message: str) -> str:
    """Echo"""
    return message


@server.tool()
async def slow(steps: int, delayMs: int, context: Context) -> str:
    """Slow, with progress"""
    for step in range(1, steps + 1):
        await asyncio.sleep(delayMs / 1000)
        await context.report_progress(step, steps, f"step {step}")
    return f"done {steps}"


@server.tool()
def execute_sql(region: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})], query: str) -> str:
    """One argument goes to a header"""
    return f"{region}: {query}"


@server.tool()
async def add_tool(context: Context) -> str:
    """Adds a tool"""
    server.add_tool(lambda: "added", name=f"added_{len(await server.list_tools())}")
    await context.notify_tools_changed()
    return "added"


@server.resource("test://static-text")
def static() -> str:
    return "static"


arguments = read_arguments()
if arguments.stdio:
    server.run("stdio")
else:
    serve(server.streamable_http_app(), arguments.port)
