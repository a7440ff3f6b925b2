"""A client on the official Python SDK v1, which speaks the handshake era only."""

from mcp import ClientSession
from mcp.client.streamable_http import streamablehttp_client
from mcp.types import PaginatedRequestParams

from run import list_tools, outcome, read_arguments, run


async def use(arguments, summary):
    async with (
        streamablehttp_client(arguments.url) as (incoming, outgoing, _),
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
