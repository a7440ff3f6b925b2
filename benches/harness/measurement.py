"""Rounds of measurements, interleaved so that a disturbance hits all hops alike."""

import json
import subprocess
import sys
from typing import NamedTuple

# How long each measurement runs before it counts, in seconds.
WARM_UP = 1


class Case(NamedTuple):
    era: str
    connections: int
    hop: str


def measure(load, hops, arguments):
    """Every case in every round: a list of reports of the load generator for each."""
    reports = {}
    cases = [(era, connections) for era in arguments.eras for connections in arguments.connections]
    for number in range(arguments.rounds):
        for era, connections in cases:
            turn = number % len(hops)
            for hop in hops[turn:] + hops[:turn]:
                report = run(load, hop, era, connections, arguments.seconds)
                reports.setdefault(Case(era, connections, hop.name), []).append(report)
                rate = round(report["calls_per_second"])
                print(f"round {number + 1}: {era}, {connections} connections, {hop.name}: {rate} calls/s", flush=True)
    return reports


def run(load, hop, era, connections, seconds):
    command = [load, "--url", hop.url, "--tool", hop.tool, "--era", era]
    command += ["--connections", str(connections), "--duration", str(seconds), "--warm-up", str(WARM_UP)]
    if hop.pid is not None:
        command += ["--pid", str(hop.pid)]
    ended = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=seconds + 60)
    if ended.returncode != 0:
        sys.exit(f"{hop.name}, {era}, {connections} connections: wrong answers: {ended.stdout}")
    return json.loads(ended.stdout)
