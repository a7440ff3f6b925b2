"""What can stand between the load generator and the server."""

import json
import re
import string
import time
import urllib.request
from pathlib import Path
from typing import NamedTuple, Optional

from .process import Process, free_port

NAMES = ("direct", "envoy", "gateway")

# Worker threads of Envoy: as many as cores of the machine that the goals are for.
ENVOY_CONCURRENCY = 2

# How long the gateway is left alone before its idle memory is read, in seconds.
IDLE = 5


# What the server behind the hops speaks, and how it is told so.
UPSTREAMS = {"both eras": [], "Legacy only": ["--era", "legacy", "--sessions"]}


class Hop(NamedTuple):
    name: str
    url: str
    tool: str
    pid: Optional[int]
    # The server behind it.
    upstream: str

    def serves(self, era, upstream):
        """Whether a client of this era can be served: only the gateway translates."""
        return self.name == "gateway" or era == "legacy" or upstream == "both eras"

    def upstream_counts(self):
        """How many requests the server got, and how many of them were calls."""
        with urllib.request.urlopen(self.upstream.replace("/mcp", "/stats"), timeout=5) as answer:
            counts = json.load(answer)
        return counts["requests"], counts["tool_calls"]


def start(stack, programs, names, directory, upstream):
    """Starts a server and the named hops before it; `stack` ends them."""
    directory.mkdir()
    url = start_upstream(stack, programs, UPSTREAMS[upstream])
    hops = []
    for name in names:
        if name == "direct":
            hops.append(Hop(name, url, "echo", None, url))
        elif name == "envoy":
            hops.append(start_envoy(stack, programs, url, directory))
        else:
            hops.append(start_gateway(stack, programs, {"echo": url}, directory)[0])
    return hops


def idle_memory(stack, programs, directory):
    """Resident memory of a gateway with three remote servers and nothing to do, in KiB."""
    remotes = {f"remote-{number}": start_upstream(stack, programs) for number in range(3)}
    process = start_gateway(stack, programs, remotes, directory)[1]
    time.sleep(IDLE)
    return process.rss_kib()


def start_upstream(stack, programs, arguments=()):
    process = stack.enter_context(Process("echo-upstream", [programs.upstream, *arguments]))
    return process.wait_for("its address", lambda line: after("listening on ", line))


def start_envoy(stack, programs, upstream, directory):
    port = free_port()
    template = string.Template((Path(__file__).parent.parent / "envoy.yaml").read_text())
    config = directory / "envoy.yaml"
    config.write_text(template.substitute(port=port, upstream_port=re.search(r":(\d+)/", upstream)[1]))
    options = ["--concurrency", str(ENVOY_CONCURRENCY), "--disable-hot-restart", "--log-level", "error"]
    process = stack.enter_context(Process("envoy", [programs.envoy, "--config-path", config, *options]))
    process.wait_for_port(port)
    return Hop("envoy", f"http://127.0.0.1:{port}/mcp", "echo", process.pid, upstream)


def start_gateway(stack, programs, remotes, directory, federation=None, log=None):
    """`mcpfleet up` with a federation of these servers, once it has read all their catalogs. `log` is a file that takes
    what it logs, in detail."""
    manifest = directory / "fleet.yaml"
    manifest.write_text("---\n".join([*(remote(*item) for item in remotes.items()), federation or FEDERATION]))
    command = [programs.gateway, "up", manifest, "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"]
    details = {"RUST_LOG": "info,mcpfleet::fleet=debug"} if log else None
    process = stack.enter_context(Process("mcpfleet up", command, details, log))
    url = process.wait_for("its endpoint", lambda line: re.search(r"http://\S+/default/bench/mcp", line))[0]
    for name in remotes:
        process.wait_for(f"server {name}", lambda line, name=name: re.match(rf"server {name} ready\b", line))
    name, upstream = next(iter(remotes.items()))
    return Hop("gateway", url, f"{name}__echo", process.pid, upstream), process


def remote(name, url):
    return f"""\
apiVersion: mcpfleet.dev/v1alpha1
kind: MCPServer
metadata:
  name: {name}
spec:
  remote:
    url: {url}
"""


FEDERATION = """\
apiVersion: mcpfleet.dev/v1alpha1
kind: MCPFederation
metadata:
  name: bench
spec:
  members:
    - name: all
      selector: {}
  access:
    anonymous: {}
"""


def after(prefix, line):
    return line[len(prefix) :] if line.startswith(prefix) else None
