#!/usr/bin/env python3
"""Small versions of the two benchmarks, so that they never rot: the report's keys and repeatability; what a
byte written costs over the size of requests and their number, for three presets (`write_cost.py`); and what requests cost in
instructions, beside the numbers that the tree keeps and on a drive with more blocks (`instructions.py`).

No clock is asked. The command is that of the other tests, with the checks of a debug build.
"""
import argparse
import sys

import instructions
import measure
import write_cost
from served import PELLUCID

HOST_KEYS = ("wall_seconds", "requests_per_wall_second", "peak_memory_bytes")
NEEDED_KEYS = (
    "requests",
    *HOST_KEYS,
    "simulated_seconds",
    "directions.read.requests",
    "directions.read.latency.p99_ns",
    "directions.read.stage_ns.media",
    "directions.write.requests",
    "directions.write.latency.p99_ns",
    "write_amplification.total",
    "write_amplification.programmed_bytes.gc",
)
# 1 GiB of media each.
SMALL = {
    "random-read": {"drive.media.blocks": 32, "drive.media.pages": 64, "job.number_ios": 50_000},
    "random-write": {"drive.media.blocks": 64, "job.number_ios": 50_000},
}


def missing(report: dict) -> list[str]:
    """The needed keys that a report does not have."""

    def has(path: str) -> bool:
        value = report
        for key in path.split("."):
            if not isinstance(value, dict) or key not in value:
                return False
            value = value[key]
        return True

    return [path for path in NEEDED_KEYS if not has(path)]


def without_host(report: dict) -> dict:
    """A report without the keys that say what the run cost here."""
    return {key: value for key, value in report.items() if key not in HOST_KEYS}


def complaints(name: str, run) -> list[str]:
    """What is wrong with one benchmark; `run` carries out a description and gives its report."""
    small = measure.variant(measure.load(name), SMALL[name])
    found = []
    first, second = run(small), run(small)
    if absent := missing(first):
        return [f"{name}: keys missing in the JSON report: {', '.join(absent)}"]
    if (requests := SMALL[name]["job.number_ios"]) != first["requests"]:
        found.append(f"{name}: {first['requests']} requests completed of {requests}")
    if without_host(first) != without_host(second):
        found.append(f"{name}: two equal runs gave different reports")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pellucid", default=PELLUCID)
    binary = parser.parse_args().pellucid
    found = [line for name in SMALL for line in complaints(name, lambda d: measure.run(binary, d))]
    found += write_cost.complaints(binary, write_cost.SHORT)
    found += instructions.complaints(binary)
    for line in found:
        print(line, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
