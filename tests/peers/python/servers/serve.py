"""What the Python servers share: a listener whose address is printed once it is open."""

import argparse
import socket

import uvicorn


def read_arguments():
    """Reads `--stdio`, or `--port N`, where 0, the default, takes a free one, and `--sse` for those that speak it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--stdio", action="store_true")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--sse", action="store_true")
    return parser.parse_args()


def serve(app, port, path="/mcp"):
    """Serves an ASGI application on loopback until the process is ended."""
    listener = socket.create_server(("127.0.0.1", port))
    print(f"listening on http://127.0.0.1:{listener.getsockname()[1]}{path}", flush=True)
    uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[listener])
