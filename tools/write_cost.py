#!/usr/bin/env python3
"""What a byte written costs over the size of requests and the number outstanding, in instructions: of the presets named, or of all.

    python3 tools/write_cost.py [--pellucid PATH] [PRESET...]

`make test` has those whose buffers, dies and SLC cache let the most requests wait; `make bench-curves` has all.

Instructions are counted by valgrind, so a verdict depends on the program alone and not on the machine. A run of one request is taken
off, so that what it costs to make the drive does not count. The buffer is small, so that a few megabytes fill it and most of what is
outstanding waits for it.
"""
import argparse
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import measure
from served import PELLUCID

PRESETS = measure.ROOT / "presets"
# For `make test`: the three that once walked over all that waits.
SHORT = ("client-qlc", "datacenter-tlc", "jasmine-optimized")
# No block namespace, so nothing that `run` could write to.
WITHOUT_BLOCKS = ("jasmine-ssc", "zoned")
BUFFER_ENTRIES = 512
WRITTEN_KIB = 8 * 1024
UNIT_KIB = 32
# Size of a request in KiB, and requests outstanding. The first is what the others are compared with.
FEW = (32, 4)
# In address order, and over and over in place, where requests wait for older ones to the same addresses.
PATTERNS = {
    "written in order": ([], (FEW, (32, 256), (2048, 4), (2048, 64))),
    "overwritten in place": (["--size", "2m"], (FEW, (2048, 64))),
}
FACTOR = 1.5
REFS = re.compile(r"I\s+refs:\s+([\d,]+)")


def instructions_of(command: list[str]) -> int:
    """Instructions of a command, which runs in the root of the sources. Cachegrind without its caches counts the same instructions as
    callgrind, which also follows calls and takes twice the time."""
    counted = ["valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null", *command]
    done = subprocess.run(
        counted, check=False, capture_output=True, text=True, timeout=measure.RUN_TIMEOUT_SECONDS, cwd=measure.ROOT
    )
    found = REFS.search(done.stderr)
    if done.returncode != 0 or not found:
        raise SystemExit(f"{' '.join(counted)}: exit status {done.returncode}\n{done.stderr[-2000:]}")
    return int(found[1].replace(",", ""))


def instructions(binary: str, preset: str, bs_kib: int, depth: int, requests: int, pattern: list[str]) -> int:
    """Instructions of one run."""
    command = [binary, "run", preset, "--json", "--rw", "write", "--bs", f"{bs_kib}k", "--iodepth", str(depth)]
    command += ["--number-ios", str(requests), *pattern, "--set", f"buffer.entries={BUFFER_ENTRIES}"]
    return instructions_of(command)


def curve(binary: str, preset: str, pattern: str) -> list[float]:
    """Instructions for each 32 KiB at every point of a pattern."""
    options, points = PATTERNS[pattern]
    one = instructions(binary, preset, UNIT_KIB, 1, 1, options)
    units = WRITTEN_KIB // UNIT_KIB - 1
    runs = (instructions(binary, preset, size, depth, WRITTEN_KIB // size, options) for size, depth in points)
    return [(run - one) / units for run in runs]


def names() -> list[str]:
    """All presets that can be written to."""
    found = sorted(path.stem for path in PRESETS.glob("*.toml"))
    if unknown := set(WITHOUT_BLOCKS) - set(found):
        raise SystemExit(f"no presets any more: {', '.join(sorted(unknown))}")
    return [name for name in found if name not in WITHOUT_BLOCKS]


def complaints(binary: str, presets) -> list[str]:
    """Those of the presets with which a byte costs more in large or many requests than in small and few."""
    if not shutil.which("valgrind"):
        print("cost of writes over size and depth: skipped, since valgrind, which counts instructions, is not installed")
        return []
    asked = [(preset, pattern) for pattern in PATTERNS for preset in presets]
    found = []
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        curves = pool.map(lambda of: curve(binary, *of), asked)
        for (preset, pattern), (first, *others) in zip(asked, curves):
            ratios = [other / first for other in others]
            points = PATTERNS[pattern][1][1:]
            shown = ", ".join(f"{size}k/{depth} x {ratio:.2f}" for (size, depth), ratio in zip(points, ratios))
            print(f"{preset}, {pattern}: {first:,.0f} instructions for each 32 KiB at 32k/4; {shown}", flush=True)
            if max(ratios) > FACTOR:
                found.append(f"{preset}, {pattern}: a byte costs {max(ratios):.2f} x as much; allowed: {FACTOR} x")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("presets", nargs="*", metavar="PRESET")
    parser.add_argument("--pellucid", default=str(PELLUCID))
    options = parser.parse_args()
    if unknown := set(options.presets) - set(names()):
        parser.error(f"{', '.join(sorted(unknown))}: allowed: {', '.join(names())}")
    found = complaints(options.pellucid, options.presets or names())
    for line in found:
        print(line, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
