"""The result as a page of Markdown."""

import os
import platform
import re
from statistics import median

BEGIN = "<!-- the following is written by benches/run --write -->"
END = "<!-- the end of what benches/run --write writes -->"

HEAD = """\
| server | client | connections | hop | calls/s | p50 ms | p99 ms | CPU µs/call | RSS MiB | requests/call | calls/s ÷ Envoy | CPU ÷ Envoy |
|---|---|---:|---|---:|---:|---:|---:|---:|---:|---:|---:|"""


def render(rounds, idle, arguments, command):
    """The table, the memory and the machine; `idle` is in KiB."""
    lines = [HEAD, *(row(case, reports, rounds) for case, reports in rounds.items())]
    times = f"{arguments.rounds} rounds of {arguments.seconds:g} s, medians, of ratios too"
    lines += ["", f"`{command.strip()}`: {times}. {machine()}"]
    if idle is not None:
        lines += ["", f"Idle `mcpfleet up` with three remote servers: {idle / 1024:.1f} MiB resident."]
    return "\n".join(lines) + "\n"


def render_fleet(rows):
    """The table of what a large fleet costs."""
    marks = {True: "met", False: "missed", None: ""}
    lines = ["| large fleet | measured | goal | |", "|---|---|---|---|"]
    lines += [f"| {row.what} | {row.value} | {row.goal} | {marks[row.met]} |" for row in rows]
    return "\n".join(lines) + "\n"


def row(case, reports, rounds):
    def middle(key):
        values = [report[key] for report in reports if report[key] is not None]
        return median(values) if values else None

    def shown(key, digits, scale=1):
        value = middle(key)
        return "–" if value is None else f"{value / scale:.{digits}f}"

    cells = [case.upstream, case.era.capitalize(), str(case.connections), case.hop]
    cells += [shown("calls_per_second", 0), shown("p50_ms", 2), shown("p99_ms", 2)]
    cells += [shown("cpu_micros_per_call", 0), shown("rss_kib", 1, 1024)]
    cells.append(shown("upstream_requests_per_call", 2))
    envoy = rounds.get(case._replace(hop="envoy"))
    if envoy is None:
        # Where Envoy cannot serve this client, it is compared by the one that it can serve.
        envoy = rounds.get(case._replace(hop="envoy", era="legacy"))
    cells += [ratio(reports, envoy, key) for key in ("calls_per_second", "cpu_micros_per_call")]
    return f"| {' | '.join(cells)} |"


def ratio(reports, envoy, key):
    """The median of each round's ratio: rounds differ in speed, and what ran in the same one is comparable."""
    pairs = [(ours[key], theirs[key]) for ours, theirs in zip(reports, envoy or [])]
    ratios = [ours / theirs for ours, theirs in pairs if ours is not None and theirs]
    return f"{median(ratios):.2f}" if ratios else "–"


def machine():
    """The machine in one sentence."""
    with open("/proc/cpuinfo") as cpuinfo:
        models = re.findall(r"^model name\s*: (.*)$", cpuinfo.read(), re.MULTILINE)
    model = models[0] if models else platform.machine()
    cores = len(os.sched_getaffinity(0))
    return f"{cores} cores, {model}, Linux {platform.release()}; server and load generator on the same cores."


def write(page, text):
    """Puts `text` between the marks of a page."""
    before, begin, rest = page.read_text().partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"{page} lacks the lines {BEGIN} and {END}")
    page.write_text(f"{before}{BEGIN}\n\n{text}\n{END}{after}")
    print(f"written to {page}")
