"""A server on fastmcp 4, both eras, over Streamable HTTP or stdio."""

import asyncio

from fastmcp import Context, FastMCP

from serve import read_arguments, serve

server = FastMCP("fastmcp-server")


@server.tool
def echo(message: str) -> str:
    """Echo"""
    return message


@server.tool
async def slow(steps: int, delayMs: int, context: Context) -> str:
    """Slow, with progress"""
    for step in range(1, steps + 1):
        await asyncio.sleep(delayMs / 1000)
        await context.report_progress(step, steps)
    return f"done {steps}"


arguments = read_arguments()
if arguments.stdio:
    server.run(show_banner=False)
else:
    serve(server.http_app(path="/mcp"), arguments.port)
