#!/usr/bin/env python3
"""Prints what a request costs over the capacity of the drive, the outstanding requests, and the length of the run.

Everything else is held fixed within a curve.
"""
import argparse

import measure

GIB_BLOCKS = {"random-read": 8, "random-write": 64}  # blocks of the description in 1 GiB
CAPACITIES_GIB = (1, 2, 4, 8, 16, 32, 64)
OUTSTANDING = (1, 4, 16, 64, 256, 1024, 4096, 16384, 65536)
REQUESTS = (62_500, 125_000, 250_000, 500_000, 1_000_000, 2_000_000, 4_000_000, 8_000_000)
MOST_OUTSTANDING = max(OUTSTANDING)


def curves(name: str):
    """The curves of one benchmark: name, unit of x, and changes to the description by x."""
    # The smallest drive has few blocks in a die, of which some must be spare.
    roomy = {"drive.ftl.over_provisioning": 0.3, "job.number_ios": 1_000_000}
    yield "capacity", "GiB", {
        gib: roomy | {"drive.media.blocks": gib * GIB_BLOCKS[name]} for gib in CAPACITIES_GIB
    }
    # The controller must not be what limits the outstanding requests.
    wide = {
        "drive.host.commands": MOST_OUTSTANDING,
        "drive.buffer.entries": 2 * MOST_OUTSTANDING,
        "job.number_ios": 1_000_000,
    }
    yield "outstanding", "requests", {depth: wide | {"job.iodepth": depth} for depth in OUTSTANDING}
    yield "length", "requests", {count: {"job.number_ios": count} for count in REQUESTS}


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("runs", nargs="?", type=int, default=3, help="runs of each point; the fastest counts")
    arguments.add_argument("--csv", action="store_true", help="benchmark,curve,x,ns_per_request,peak_memory_bytes")
    options = arguments.parse_args()
    runs, csv = options.runs, options.csv
    binary = measure.build()
    if csv:
        print("benchmark,curve,x,ns_per_request,peak_memory_bytes")
    for name in GIB_BLOCKS:
        base = measure.load(name)
        for curve, unit, points in curves(name):
            if not csv:
                print(f"\n{name}, {curve}\n{unit:>12} {'ns each':>9} {'x first':>8} {'peak memory':>13}")
            first = None
            for x, changes in points.items():
                reports = [measure.run(binary, measure.variant(base, changes)) for _ in range(runs)]
                best = min(reports, key=measure.cost_ns)
                cost, memory = measure.cost_ns(best), best["peak_memory_bytes"]
                first = first or cost
                if csv:
                    print(f"{name},{curve},{x},{cost:.1f},{memory}", flush=True)
                else:
                    print(f"{x:>12,} {cost:>9.0f} {cost / first:>8.2f} {memory / 2**20:>9.1f} MiB", flush=True)


if __name__ == "__main__":
    main()
