"""A client on the official Python SDK v2, which speaks both eras."""

from mcp import Client
from mcp.client.stdio import StdioServerParameters

from run import command, list_tools, outcome, read_arguments, run

MODES = {"legacy": "legacy", "auto": "auto", "modern": "2026-07-28"}


def target(url):
    words = command(url)
    return StdioServerParameters(command=words[0], args=words[1:]) if words else url


async def use(arguments, summary):
    async with Client(target(arguments.url), mode=MODES[arguments.mode]) as client:
        summary["protocolVersion"] = client.protocol_version

        async def list_page(cursor):
            page = await client.list_tools(cursor=cursor)
            return page, page.next_cursor

        summary["tools"] = await list_tools(list_page)
        summary["calls"] = []
        for name, given in arguments.call:
            result = await client.call_tool(name, given)
            summary["calls"].append(outcome(name, result, result.is_error))


run(use, read_arguments(MODES))
