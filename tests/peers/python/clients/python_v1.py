"""A client on the official Python SDK v1, which speaks the handshake era only."""

from mcp import ClientSession
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamablehttp_client
from mcp.types import PaginatedRequestParams

from run import command, list_tools, outcome, read_arguments, run


def connect(url):
    if words := command(url):
        return stdio_client(StdioServerParameters(command=words[0], args=words[1:]))
    return streamablehttp_client(url)


async def use(arguments, summary):
    async with (
        connect(arguments.url) as (incoming, outgoing, *_),
        ClientSession(incoming, outgoing) as client,
    ):
        answer = await client.initialize()
        summary["protocolVersion"] = answer.protocolVersion

        async def list_page(cursor):
            page = await client.list_tools(params=PaginatedRequestParams(cursor=cursor))
            return page, page.nextCursor

        summary["tools"] = await list_tools(list_page)
        summary["calls"] = []
        for name, given in arguments.call:
            result = await client.call_tool(name, given)
            summary["calls"].append(outcome(name, result, result.isError))


run(use, read_arguments())
