"""What all Python clients share: their arguments, and the one summary line they end with."""

import argparse
import asyncio
import json
import sys
import traceback

STDIO = "stdio:"


def read_arguments(modes=None):
    """Reads `--url URL`, or `stdio:` and a JSON array of words to start a program by, any number of `--call NAME=JSON`, and `--mode` where there are modes to choose from."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--url", required=True)
    parser.add_argument("--call", action="append", default=[], type=read_call, metavar="NAME=JSON")
    if modes:
        parser.add_argument("--mode", required=True, choices=modes)
    return parser.parse_args()


def command(url):
    """The words of the program that is to be started; None where there is an address."""
    return json.loads(url.removeprefix(STDIO)) if url.startswith(STDIO) else None


def run(use, arguments):
    """Lets `use` fill the summary, prints it as one line of JSON, and ends the process.

    The status is 0, or 1 with the error in that line; argparse itself ends with 2 on a wrong command line.
    """
    summary = {}
    try:
        asyncio.run(use(arguments, summary))
    except Exception as error:
        traceback.print_exc()
        summary["error"] = describe(error)
    print(json.dumps(summary), flush=True)
    sys.exit(1 if "error" in summary else 0)


def describe(error):
    """An error in one line; of a group, the errors in it."""
    if isinstance(error, BaseExceptionGroup):
        return "; ".join(describe(inner) for inner in error.exceptions)
    return f"{type(error).__name__}: {error}"


async def list_tools(list_page):
    """All tools' names, page after page; `list_page` takes a cursor or None."""
    names, cursor = [], None
    while True:
        page, cursor = await list_page(cursor)
        names.extend(tool.name for tool in page.tools)
        if cursor is None:
            return names


def outcome(name, result, is_error):
    """One call as the summary shows it."""
    text = "".join(getattr(block, "text", "") for block in result.content)
    return {"name": name, "isError": bool(is_error), "text": text}


def read_call(text):
    name, separator, arguments = text.partition("=")
    if not name or not separator:
        raise argparse.ArgumentTypeError(f"{text} is not NAME=JSON")
    return name, json.loads(arguments)
