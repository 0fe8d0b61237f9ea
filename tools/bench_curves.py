#!/usr/bin/env python3
"""Prints what a request costs over outstanding requests, capacity, request size and dies: in instructions, or in nanoseconds of real time.

    python3 tools/bench_curves.py [--pellucid PATH] [--csv] [CURVE...]      instructions, by valgrind
    python3 tools/bench_curves.py --ns [RUNS] [--csv] [CURVE...]            nanoseconds of the fastest of RUNS (3)

Everything else is held fixed within a curve. Instructions are a difference of two runs, so what it costs to make and fill a drive is taken
off; they depend on the program alone, but do not show what the processor's caches miss. Nanoseconds do. So that a drive of terabytes can be
filled, its work lies in a part of the same size everywhere.
"""
import argparse
import os
import pathlib
import tempfile
from concurrent.futures import ThreadPoolExecutor

import measure
from write_cost import instructions_of

BLOCKS_OF_A_GIB = {"random-read": 8, "random-write": 64}
CAPACITIES_GIB = (4, 16, 64, 256, 1024, 4096)
OUTSTANDING = (1, 16, 256, 4096, 65536)
SIZES_KIB = (0.5, 4, 32, 256, 2048, 16384)
DIES = {1: (1, 1), 8: (8, 1), 64: (8, 8), 512: (16, 32), 4096: (64, 64)}
# What a run works on where the drive is larger than it can fill in reasonable time.
PART_GIB = 0.25
MOST_OUTSTANDING = max(OUTSTANDING)


def part_of(gib: float) -> dict:
    """A drive of which only a part is filled and worked on."""
    return {"precondition.fill": PART_GIB / gib, "precondition.overwrite": 0.0, "job.size": str(int(PART_GIB * 2**30))}


def curves(name: str):
    """The curves of one benchmark: name, unit of x, and by x: changes to the description, and requests of the longer run."""
    # Each die of a small drive must have some blocks to spare.
    roomy = {"drive.ftl.over_provisioning": 0.3}
    few = roomy | {"drive.media.blocks": 4 * BLOCKS_OF_A_GIB[name]} | part_of(4)
    # The controller must not be what limits the outstanding requests.
    wide = few | {"drive.host.commands": MOST_OUTSTANDING, "drive.buffer.entries": 2 * MOST_OUTSTANDING}
    yield "outstanding", "requests", {depth: (wide | {"job.iodepth": depth}, max(8_000, 2 * depth)) for depth in OUTSTANDING}
    yield "capacity", "GiB", {
        gib: (roomy | {"drive.media.blocks": gib * BLOCKS_OF_A_GIB[name]} | part_of(gib), 8_000) for gib in CAPACITIES_GIB
    }
    sectors = {"drive.media.sector_size": 512, "job.iodepth": 16}
    yield "size", "KiB", {
        kib: (few | sectors | {"job.bs": f"{int(kib * 1024)}"}, max(32, min(8_000, int(65_536 / kib)))) for kib in SIZES_KIB
    }
    shape = roomy | {"drive.media.dies": 1, "drive.media.planes": 1, "drive.media.pages": 64}
    yield "dies", "dies", {
        dies: (
            shape
            | {"drive.media.channels": channels, "drive.media.ways": ways, "drive.media.blocks": max(32, 16_384 // dies)}
            | {"precondition.fill": 0.2, "precondition.overwrite": 0.0, "job.size": "20%"},
            8_000,
        )
        for dies, (channels, ways) in DIES.items()
    }


class Instructions:
    """Instructions of a request: of so many more of them as the longer of two runs has."""

    unit = "instructions each"

    def __init__(self, binary: str):
        self._binary = binary

    def cost(self, description: dict, requests: int) -> float:
        numbers = (requests // 4, requests)
        shorter, longer = (self._of(measure.variant(description, {"job.number_ios": n})) for n in numbers)
        return (longer - shorter) / (numbers[1] - numbers[0])

    def _of(self, description: dict) -> int:
        with tempfile.TemporaryDirectory() as directory:
            path = pathlib.Path(directory) / "bench.toml"
            path.write_text(measure.to_toml(description))
            return instructions_of([self._binary, "run", str(path), "--json"])


class Nanoseconds:
    """Nanoseconds of real time of a request: of the fastest of some runs, alone on the machine."""

    unit = "ns each"

    def __init__(self, binary: str, runs: int):
        self._binary, self._runs = pathlib.Path(binary), runs

    def cost(self, description: dict, requests: int) -> float:
        changed = measure.variant(description, {"job.number_ios": 50 * requests})
        return min(measure.cost_ns(measure.run(self._binary, changed)) for _ in range(self._runs))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("curves", nargs="*", help="outstanding, capacity, size, dies (all)")
    parser.add_argument("--pellucid", help="the binary (built in release)")
    parser.add_argument("--ns", nargs="?", type=int, const=3, metavar="RUNS", help="real time instead of instructions")
    parser.add_argument("--csv", action="store_true", help="benchmark,curve,x,cost")
    options = parser.parse_args()
    binary = options.pellucid or str(measure.build())
    meter = Nanoseconds(binary, options.ns) if options.ns else Instructions(binary)
    if options.csv:
        print(f"benchmark,curve,x,{meter.unit.replace(' ', '_')}")
    # Real time is measured alone.
    with ThreadPoolExecutor(1 if options.ns else os.cpu_count()) as pool:
        for name in BLOCKS_OF_A_GIB:
            base = measure.load(name)
            for curve, unit, points in curves(name):
                if options.curves and curve not in options.curves:
                    continue
                if not options.csv:
                    print(f"\n{name}, {curve}\n{unit:>10} {meter.unit:>18} {'x first':>8}", flush=True)
                costs = pool.map(lambda point: meter.cost(measure.variant(base, point[0]), point[1]), points.values())
                first = None
                for x, cost in zip(points, costs):
                    # Of a larger request: what 4 KiB of it cost.
                    cost /= max(1, x / 4) if curve == "size" else 1
                    first = first or cost
                    if options.csv:
                        print(f"{name},{curve},{x},{cost:.1f}", flush=True)
                    else:
                        print(f"{x:>10,} {cost:>18,.0f} {cost / first:>8.2f}", flush=True)


if __name__ == "__main__":
    main()
