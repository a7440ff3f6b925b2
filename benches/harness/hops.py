"""What can stand between the load generator and the server."""

import re
import string
import time
from pathlib import Path
from typing import NamedTuple, Optional

from .process import Process, free_port

NAMES = ("direct", "envoy", "gateway")

# Worker threads of Envoy: as many as cores of the machine that the goals are for.
ENVOY_CONCURRENCY = 2

# How long the gateway is left alone before its idle memory is read, in seconds.
IDLE = 5


class Hop(NamedTuple):
    name: str
    url: str
    tool: str
    pid: Optional[int]


def start(stack, programs, names, directory):
    """Starts the server and the named hops before it; `stack` ends them."""
    upstream = start_upstream(stack, programs)
    hops = []
    for name in names:
        if name == "direct":
            hops.append(Hop(name, upstream, "echo", None))
        elif name == "envoy":
            hops.append(start_envoy(stack, programs, upstream, directory))
        else:
            hops.append(start_gateway(stack, programs, {"echo": upstream}, directory)[0])
    return hops


def idle_memory(stack, programs, directory):
    """Resident memory of a gateway with three remote servers and nothing to do, in KiB."""
    remotes = {f"remote-{number}": start_upstream(stack, programs) for number in range(3)}
    process = start_gateway(stack, programs, remotes, directory)[1]
    time.sleep(IDLE)
    return process.rss_kib()


def start_upstream(stack, programs):
    process = stack.enter_context(Process("echo-upstream", [programs.upstream]))
    return process.wait_for("its address", lambda line: after("listening on ", line))


def start_envoy(stack, programs, upstream, directory):
    port = free_port()
    template = string.Template((Path(__file__).parent.parent / "envoy.yaml").read_text())
    config = directory / "envoy.yaml"
    config.write_text(template.substitute(port=port, upstream_port=re.search(r":(\d+)/", upstream)[1]))
    options = ["--concurrency", str(ENVOY_CONCURRENCY), "--disable-hot-restart", "--log-level", "error"]
    process = stack.enter_context(Process("envoy", [programs.envoy, "--config-path", config, *options]))
    process.wait_for_port(port)
    return Hop("envoy", f"http://127.0.0.1:{port}/mcp", "echo", process.pid)


def start_gateway(stack, programs, remotes, directory):
    """`mcpfleet up` with a federation of these servers, once it has read all their catalogs."""
    manifest = directory / "fleet.yaml"
    manifest.write_text("---\n".join([*(remote(*item) for item in remotes.items()), FEDERATION]))
    listeners = ["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"]
    process = stack.enter_context(Process("mcpfleet up", [programs.gateway, "up", manifest, *listeners]))
    url = process.wait_for("its endpoint", lambda line: re.search(r"http://\S+/default/bench/mcp", line))[0]
    for name in remotes:
        process.wait_for(f"server {name}", lambda line, name=name: re.match(rf"server {name} ready\b", line))
    return Hop("gateway", url, f"{next(iter(remotes))}__echo", process.pid), process


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
