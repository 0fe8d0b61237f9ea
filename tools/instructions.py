#!/usr/bin/env python3
"""What requests and preconditioning cost in instructions, compared with the numbers in bench/instructions.toml.

    python3 tools/instructions.py [--pellucid PATH] [--write]

`make bench-small`, a part of `make test`, fails if a cost is more than 3 % above its number. A commit that makes one dearer runs this with
`--write`, which puts today's costs into the file, and says why. One that makes a cost lower does the same, so that the gain stays.

valgrind counts, so a verdict depends on the program alone and not on the machine. The command is that of the other tests, built with the
dev profile; the numbers are of that profile. The cost of making and filling a drive is taken off: each cost is a difference of two runs.
"""
import argparse
import os
import pathlib
import shutil
import sys
import tomllib
from concurrent.futures import ThreadPoolExecutor

import measure
from served import PELLUCID
from write_cost import instructions_of

KEPT = measure.ROOT / "bench" / "instructions.toml"
BOUND = 1.03
# A drive of so many times the blocks, and how much more a request may cost there. A cost in proportion to capacity exceeds it.
LARGER, GROWTH = 2, 1.4
HEAD = """# Instructions for each request, and for each unit of preconditioning, of the command as the dev profile builds it.
# Written by `python3 tools/instructions.py --write`.

"""
# Requests of the shorter and of the longer run: far enough apart that what a longer report takes, whose series have more intervals up to a bound, weighs little.
REQUESTS = (10_000, 40_000)
READ = ["bench/random-read.toml", "--set", "media.pages=16", "--set", "media.blocks=32"]
WRITE = ["bench/random-write.toml", "--set", "media.pages=32", "--set", "media.blocks=128"]
DATACENTER = ["datacenter-tlc", "--rw", "randread", "--bs", "4k", "--iodepth", "32", "--size", "2%"]
DATACENTER += ["--set", "media.blocks=64", "--set", "precondition.fill=0.02"]


def requests(options: list[str], number: int) -> list[str]:
    """Options of a run of this many requests."""
    return [*options, "--number-ios", str(number)]


def on_larger(options: list[str]) -> list[str]:
    """Options of the same work on a drive with more blocks, of which they name the number last."""
    *rest, blocks = options
    return [*rest, f"media.blocks={LARGER * int(blocks.removeprefix('media.blocks='))}"]


# By name: two runs, and how many requests or units the second has more than the first.
COSTS = {
    name: ([requests(options, number) for number in REQUESTS], REQUESTS[1] - REQUESTS[0])
    for name, options in {"random-read": READ, "random-write": WRITE, "datacenter-tlc-read": DATACENTER}.items()
}
# Compared with the costs of the smaller drives, not with kept numbers.
ON_LARGER = {name: f"{name}, {LARGER} x the blocks" for name in ("random-read", "random-write")}
COSTS |= {
    ON_LARGER[name]: ([requests(on_larger(options), number) for number in REQUESTS], REQUESTS[1] - REQUESTS[0])
    for name, options in {"random-read": READ, "random-write": WRITE}.items()
}
# Units of the media, less over-provisioning, 90 % of them, written twice.
UNITS_WRITTEN = 2 * int(8 * 2 * 128 * 32 / 1.2 * 0.9)
EMPTY = ["--set", "precondition.fill=0.0", "--set", "precondition.overwrite=0.0"]
COSTS["preconditioning"] = ([requests([*WRITE, *options], 1) for options in (EMPTY, [])], UNITS_WRITTEN)


def costs(binary: str) -> dict[str, int]:
    """Every cost, by name."""
    runs = {(name, at): run for name, (pair, _) in COSTS.items() for at, run in enumerate(pair)}
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        counted = dict(zip(runs, pool.map(lambda run: instructions_of([binary, "run", *run, "--json"]), runs.values())))
    return {name: round((counted[name, 1] - counted[name, 0]) / more) for name, (_, more) in COSTS.items()}


def complaints(binary: str) -> list[str]:
    """What has become too dear."""
    if not shutil.which("valgrind"):
        print("cost in instructions: skipped, since valgrind, which counts them, is not installed")
        return []
    counted = costs(str(binary))
    return compared(counted, tomllib.loads(KEPT.read_text())) + growing(counted)


def compared(counted: dict[str, int], kept: dict[str, int]) -> list[str]:
    """Costs that are more than the bound above their numbers."""
    found = []
    for name, number in kept.items():
        cost = counted[name]
        print(f"{name}: {cost:,} instructions; kept: {number:,} ({cost / number:.3f} x)", flush=True)
        if cost > number * BOUND:
            found.append(
                f"{name}: {cost:,} instructions; allowed: {number * BOUND:,.0f}, 3 % above bench/instructions.toml; "
                "if it has to be so, `python3 tools/instructions.py --write`, and the commit says why"
            )
    return found


def growing(counted: dict[str, int]) -> list[str]:
    """Costs that grow with the capacity of the drive."""
    found = []
    for name, larger in ON_LARGER.items():
        ratio = counted[larger] / counted[name]
        print(f"{larger}: {counted[larger]:,} instructions ({ratio:.2f} x)", flush=True)
        if ratio > GROWTH:
            found.append(f"{larger}: a request costs {ratio:.2f} x as much; allowed: {GROWTH} x")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pellucid", default=str(PELLUCID))
    parser.add_argument("--write", action="store_true", help="put today's costs into bench/instructions.toml")
    options = parser.parse_args()
    binary = str(pathlib.Path(options.pellucid).resolve())
    if options.write:
        lines = (f"{name} = {cost}\n" for name, cost in costs(binary).items() if name not in ON_LARGER.values())
        KEPT.write_text(HEAD + "".join(lines))
        return 0
    found = complaints(binary)
    for line in found:
        print(line, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
