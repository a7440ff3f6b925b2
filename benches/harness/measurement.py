"""Rounds of measurements, interleaved so that a disturbance hits all hops alike."""

import json
import subprocess
import sys
from typing import NamedTuple

# How long each measurement runs before it counts, in seconds.
WARM_UP = 1


class Case(NamedTuple):
    upstream: str
    era: str
    connections: int
    hop: str


def measure(load, hops, arguments):
    """Every case in every round: a list of reports for each. `hops` are those before each kind of server."""
    reports = {}
    cases = [
        (upstream, era, connections)
        for upstream in hops
        for era in arguments.eras
        for connections in arguments.connections
        # What differs between kinds of servers shows under load.
        if upstream == "both eras" or connections == max(arguments.connections)
    ]
    for number in range(arguments.rounds):
        for upstream, era, connections in cases:
            turn = number % len(hops[upstream])
            for hop in hops[upstream][turn:] + hops[upstream][:turn]:
                if not hop.serves(era, upstream):
                    continue
                report = run(load, hop, era, connections, arguments.seconds)
                reports.setdefault(Case(upstream, era, connections, hop.name), []).append(report)
                rate = round(report["calls_per_second"])
                told = f"{upstream}, {era} client, {connections} connections, {hop.name}"
                print(f"round {number + 1}: {told}: {rate} calls/s", flush=True)
    return reports


def run(load, hop, era, connections, seconds):
    command = [load, "--url", hop.url, "--tool", hop.tool, "--era", era]
    command += ["--connections", str(connections), "--duration", str(seconds), "--warm-up", str(WARM_UP)]
    if hop.pid is not None:
        command += ["--pid", str(hop.pid)]
    requests, calls = hop.upstream_counts()
    ended = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=seconds + 60)
    if ended.returncode != 0:
        sys.exit(f"{hop.name}, {era}, {connections} connections: wrong answers: {ended.stdout}")
    report = json.loads(ended.stdout)
    requests_after, calls_after = hop.upstream_counts()
    report["upstream_requests_per_call"] = (requests_after - requests) / max(calls_after - calls, 1)
    return report
