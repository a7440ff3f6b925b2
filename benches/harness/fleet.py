"""What a large fleet costs: lists, search, calls and changes with up to 10,000 tools and 1,000 streams."""

import contextlib
import json
import re
import subprocess
import tempfile
from pathlib import Path
from statistics import median
from typing import NamedTuple, Optional

from . import hops, nginx
from .process import Process

# Servers and tools of each, of the fleets that are compared.
FLEETS = {10: (1, 10), 1_000: (2, 500), 10_000: (20, 500)}
LARGEST = max(FLEETS)
PAGE = 100
CONNECTIONS = 16
STREAMS = 1_000

# How long the streams are given to open before it is measured, in seconds.
OPENING = 4

# Changes, and seconds between them.
CHANGES, PAUSE = 4, 2

FEDERATION = """\
apiVersion: mcpfleet.dev/v1alpha1
kind: MCPFederation
metadata:
  name: bench
spec:
  members:
    - name: all
      selector: {}
  limits:
    pageSize: %d
  access:
    anonymous: {}
"""

# The same with everything found by search alone.
SEARCHED = FEDERATION.replace("selector: {}", "selector: {}\n      visibility: Discoverable")


class Row(NamedTuple):
    """One line of the table."""

    what: str
    value: str
    goal: str
    # None: nothing is demanded.
    met: Optional[bool]


def measure(programs, arguments):
    """All rows."""
    with contextlib.ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mcpfleet-bench.")))
        fleets = {tools: start(stack, programs, directory, tools) for tools in FLEETS}
        rows = [built(directory / str(LARGEST) / "log")]
        rows += lists(stack, programs, fleets[LARGEST], directory, arguments)
        rows += calls(programs, fleets, arguments)
    with contextlib.ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mcpfleet-bench.")))
        rows.append(search(stack, programs, directory, arguments))
    with contextlib.ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mcpfleet-bench.")))
        rows += streams(stack, programs, directory)
    return rows


def start(stack, programs, directory, tools, federation=FEDERATION):
    """A gateway before servers that have so many tools together."""
    directory = directory / str(tools)
    directory.mkdir()
    count, each = FLEETS[tools]
    remotes = {
        f"s{number:02}": hops.start_upstream(stack, programs, ["--tools", str(each), "--threads", "1"])
        for number in range(count)
    }
    log = stack.enter_context(open(directory / "log", "w"))
    return hops.start_gateway(stack, programs, remotes, directory, federation % PAGE, log)[0]


def built(log):
    """How long the index of all tools took to build, the last time."""
    micros = re.findall(r"built the index.*micros=(\d+)|micros=(\d+).*built the index", log.read_text())
    if not micros:
        return Row(f"index of {LARGEST:,} tools built", "not told", "≤ 200 ms", False)
    took = int(max(micros[-1])) / 1000
    return Row(f"index of {LARGEST:,} tools built", f"{took:.0f} ms", "≤ 200 ms", took <= 200)


def lists(stack, programs, gateway, directory, arguments):
    """The first page over and over, next to nginx with a file of the same size."""
    options = ["--connections", str(CONNECTIONS), "--duration", str(arguments.seconds), "--pid", str(gateway.pid)]
    listing = ["--url", gateway.url, "--era", "legacy", "--method", "tools/list"]
    size = load(programs, [*listing, "--connections", "1", "--duration", "0.2", "--warm-up", "0"])["bytes"]
    static = nginx.start(stack, directory, size)
    ours, ratios = [], []
    for _ in range(arguments.rounds):
        ours.append(load(programs, [*listing, *options]))
        if static is not None:
            theirs = load(programs, ["--url", static, "--get", *options[:4]])
            if theirs["bytes"] != size:
                raise SystemExit(f"nginx serves {theirs['bytes']} bytes, not {size}")
            ratios.append(ours[-1]["calls_per_second"] / theirs["calls_per_second"])
    rate, slowest = median(r["calls_per_second"] for r in ours), median(r["p99_ms"] for r in ours)
    page = f"tools/list, page of {PAGE} of {LARGEST:,} ({size / 1024:.0f} KiB), {CONNECTIONS} connections"
    rows = [Row(page, f"{rate:.0f}/s, p99 {slowest:.2f} ms", "", None)]
    if ratios:
        rows.append(Row("the same ÷ nginx with a static file", f"{median(ratios):.2f}", "≥ 0.8", median(ratios) >= 0.8))
    else:
        rows.append(Row("the same ÷ nginx with a static file", "skipped: no nginx here", "≥ 0.8", None))
    return rows


def calls(programs, fleets, arguments):
    """CPU of a call, by how many tools there are."""
    spent = {tools: [] for tools in fleets}
    for number in range(arguments.rounds):
        order = list(fleets)
        for tools in order[number % len(order) :] + order[: number % len(order)]:
            gateway = fleets[tools]
            options = ["--url", gateway.url, "--tool", gateway.tool, "--era", "modern", "--pid", str(gateway.pid)]
            options += ["--connections", str(CONNECTIONS), "--duration", str(arguments.seconds)]
            spent[tools].append(load(programs, options)["cpu_micros_per_call"])
    middle = {tools: median(values) for tools, values in spent.items()}
    spread = max(middle.values()) / min(middle.values()) - 1
    rows = [Row(f"CPU of a call with {tools:,} tools", f"{value:.1f} µs", "", None) for tools, value in middle.items()]
    return [*rows, Row("the most ÷ the least of these", f"+{spread * 100:.0f} %", "≤ 10 %", spread <= 0.1)]


def search(stack, programs, directory, arguments):
    """tool_search, where there is one."""
    what = f"tool_search among {LARGEST:,}, {CONNECTIONS} connections"
    gateway = start(stack, programs, directory, LARGEST, SEARCHED)
    options = ["--url", gateway.url, "--era", "legacy", "--tool", "tool_search", "--expect", ""]
    options += ["--arguments", json.dumps({"query": "filler number 123 echo"})]
    probe = [*options, "--connections", "1", "--duration", "0.2", "--warm-up", "0"]
    if load(programs, probe, may_fail=True)["errors"]:
        return Row(what, "skipped: tool_search cannot be called here", "", None)
    found = load(programs, [*options, "--connections", str(CONNECTIONS), "--duration", str(arguments.seconds)])
    return Row(what, f"{found['calls_per_second']:.0f}/s, p99 {found['p99_ms']:.2f} ms", "", None)


def streams(stack, programs, directory):
    """Many streams beside calls: what they take, and how soon a change reaches them."""
    remote = hops.start_upstream(stack, programs, ["--sessions"])
    gateway, _ = hops.start_gateway(stack, programs, {"echo": remote}, directory)
    options = ["--url", gateway.url, "--tool", gateway.tool, "--listeners", str(STREAMS), "--pid", str(gateway.pid)]
    options += ["--warm-up", str(OPENING), "--duration", str(CHANGES * PAUSE), "--bump", remote.replace("/mcp", "/admin/bump")]
    legacy = load(programs, [*options, "--era", "legacy", "--connections", "1"])
    heard = legacy["told"] == STREAMS * CHANGES
    mib = legacy["rss_kib"] / 1024
    told = f"{mib:.1f} MiB, {legacy['told']:,} of {STREAMS * CHANGES:,} notices, calls p99 {legacy['p99_ms']:.1f} ms"
    rows = [Row(f"{STREAMS:,} Legacy sessions with open streams", told, "≤ 40 MiB, all told", mib <= 40 and heard)]
    mixed = load(programs, [*options, "--era", "legacy", "--mixed", "--connections", "0"])
    heard = mixed["told"] == STREAMS * CHANGES
    times = f"p50 {mixed['told_p50_ms']:.0f} ms, p99 {mixed['told_p99_ms']:.0f} ms, {mixed['told']:,} notices"
    what = f"a server's change told to {STREAMS:,} clients, half Legacy, half Modern"
    return [*rows, Row(what, times, "p99 ≤ 100 ms", mixed["told_p99_ms"] <= 100 and heard)]


def load(programs, options, may_fail=False):
    """What the load generator reports."""
    ended = subprocess.run([programs.load, *options], stdout=subprocess.PIPE, text=True, timeout=120)
    if ended.returncode != 0 and not may_fail:
        raise SystemExit(f"mcpload {' '.join(map(str, options))}: {ended.stdout}")
    return json.loads(ended.stdout)
