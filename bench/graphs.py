#!/usr/bin/env python3
"""Speed of `pellucid graph pagerank` on a random graph: in memory, out of core, and beside memory-mapped edges under the same limit.

    bench/graphs.py [--pellucid target/release/pellucid] [--rounds 5] [--scale 20] [--folder DIR]

The graph is R-MAT with 16 edges for each vertex, as text and as binary list; 4 iterations. Out of core, `--memory` is a quarter of the binary
list. The last rows have it enforced by a cgroup, which counts cached files too (memory-mapped edges are files): that needs root, and
is skipped without. Rounds alternate
between the cases, so that a busy machine is busy for all of them; what is shown is the median, the least and the most.

Preprocessing is what a run with one iteration takes without that iteration, in processor time (user and system) of all threads.
"""

import argparse
import contextlib
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
EDGES_OF_A_VERTEX = 16
ITERATIONS = 4
# What a small graph gets: the program itself needs 16 MiB.
LEAST = 32 << 20


def generate(folder, scale):
    """The graph as text and as binary list."""
    paths = {}
    for kind, name in ("text", "rmat.txt"), ("binary", "rmat.bin"):
        paths[kind] = os.path.join(folder, name)
        words = ["cargo", "run", "--release", "--quiet", "--locked", "-p", "pellucid-graph", "--example", "rmat", "--", scale, EDGES_OF_A_VERTEX, 1, kind]
        with open(paths[kind], "wb") as file:
            subprocess.run(list(map(str, words)), stdout=file, cwd=ROOT, check=True)
    return paths


@contextlib.contextmanager
def limit(size):
    """What a child has to do to be limited to so many bytes with its files; `None` without root or cgroups."""
    old, new = "/sys/fs/cgroup/memory", "/sys/fs/cgroup"
    own = f"pellucid-bench-{os.getpid()}"
    controls = os.path.join(new, "cgroup.controllers")
    try:
        if os.path.exists(os.path.join(old, "memory.limit_in_bytes")):
            group, settings = os.path.join(old, own), {"memory.limit_in_bytes": size}
        elif os.path.exists(controls) and "memory" in open(controls).read().split():
            group, settings = os.path.join(new, own), {"memory.max": size}
        else:
            raise OSError("no cgroup counts memory")
        os.mkdir(group)
    except OSError as error:
        print(f"out of core: skipped, {error}")
        yield None
        return
    try:
        for name, value in settings.items():
            with open(os.path.join(group, name), "w") as file:
                file.write(str(value))

        def enter():
            with open(os.path.join(group, "cgroup.procs"), "w") as file:
                file.write(str(os.getpid()))

        yield enter
    finally:
        os.rmdir(group)


def run(binary, folder, edges, kind, iterations=ITERATIONS, memory=None, storage="windows", enter=None):
    """What the run says of itself, and its processor time."""
    words = [binary, "graph", "pagerank", edges, "--iterations", iterations, "--tolerance", 0, "--json", "--storage", storage]
    words += ["--work", os.path.join(folder, "work")]
    words += ["--format", "binary"] if kind == "binary" else []
    words += ["--memory", memory] if memory else []
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, preexec_fn=enter, timeout=1800)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, words))}: {done.stderr}")
    told = json.loads(done.stdout)
    told["processor"] = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return told


class Series:
    def __init__(self):
        self.values = {}

    def add(self, name, value):
        self.values.setdefault(name, []).append(value)

    def median(self, name):
        return statistics.median(self.values[name])

    def show(self):
        width = max(map(len, self.values))
        for name, values in self.values.items():
            print(f"{name:<{width}}  {statistics.median(values):9.3f}  {min(values):9.3f}  {max(values):9.3f}")


def measure(binary, folder, paths, rounds):
    series = Series()
    quarter = max(os.path.getsize(paths["binary"]) // 4, LEAST)
    edges = os.path.getsize(paths["binary"]) // 8
    with limit(quarter) as enter:
        for _ in range(rounds):
            for kind, path in paths.items():
                told = run(binary, folder, path, kind)
                assert told["in_memory"] and told["edges"] == edges, told
                series.add(f"in memory, {kind}: elapsed s", told["wall_seconds"])
                series.add(f"in memory, {kind}: processor s", told["processor"])
                told = run(binary, folder, path, kind, memory=quarter)
                assert not told["in_memory"], told
                series.add(f"out of core, {kind}: elapsed s", told["wall_seconds"])
                series.add(f"out of core, {kind}: processor s", told["processor"])
                for memory in None, quarter:
                    few, many = (run(binary, folder, path, kind, count, memory)["processor"] for count in (1, 5))
                    preparing = few - (many - few) / 4
                    place = "out of core" if memory else "in memory"
                    series.add(f"{place}, {kind}: preprocessing, million edges/s a core", edges / preparing / 1e6)
            for storage in ("windows", "mmap") if enter else ():
                told = run(binary, folder, paths["binary"], "binary", memory=quarter, storage=storage, enter=enter)
                name = f"{quarter / 2**20:.0f} MiB, {storage}"
                series.add(f"{name}: elapsed s", told["wall_seconds"])
                series.add(f"{name}: iterations s", told["compute_seconds"])
                series.add(f"{name}: processor s", told["processor"])
    print(f"{edges / 1e6:.1f} million edges, {ITERATIONS} iterations; median, least and most of {rounds}")
    series.show()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pellucid", default=os.path.join(ROOT, "target/release/pellucid"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--scale", type=int, default=20)
    parser.add_argument("--folder", help="where the graph is made and kept; else it is made anew")
    args = parser.parse_args()
    with contextlib.ExitStack() as stack:
        folder = args.folder or stack.enter_context(tempfile.TemporaryDirectory(prefix="pellucid-bench-"))
        os.makedirs(folder, exist_ok=True)
        paths = {kind: os.path.join(folder, name) for kind, name in (("text", "rmat.txt"), ("binary", "rmat.bin"))}
        if not all(map(os.path.exists, paths.values())):
            paths = generate(folder, args.scale)
        measure(os.path.abspath(args.pellucid), folder, paths, args.rounds)


if __name__ == "__main__":
    main()
