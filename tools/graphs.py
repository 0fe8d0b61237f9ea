#!/usr/bin/env python3
"""`pellucid graph` against networkx, and against kills, full disks and its own memory limit.

    tools/graphs.py [--pellucid target/debug/pellucid] [--only NAME] [--long]

Graphs: random ones of several shapes, one without edges but a loop, a long path, the dependencies between Debian's packages (of this machine's
package lists, if it has them: the first 4,000, as networkx takes a minute for all) and R-MAT. Each program runs in memory and out of core,
with one thread and with two; results have to be networkx's, and the same bit for bit however they were computed. `--long` takes all of
Debian's packages, kills every program in every phase, fills the disk in every phase that writes, and kills at some 50 random moments; without
it, two programs that have all phases, and some 10 moments. One line for each test and a plain count; exit status 1 if any has failed.
"""

import contextlib
import csv
import gzip
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import graph_phases
from served import Skip, main

# The least memory that a graph may take: everything but toys is cut into windows.
LITTLE = "17MiB"


def run(binary, *words, check=True, **more):
    done = subprocess.run([binary, "graph", *map(str, words)], capture_output=True, text=True, timeout=600, **more)
    assert not check or done.returncode == 0, f"{words}: exit {done.returncode}: {done.stderr}"
    return done


def rows(path):
    with open(path) as file:
        lines = csv.reader(file)
        next(lines)
        return [None if value == "" else float(value) for _, value in lines]


def debian(rng, packages=1 << 32):
    """Package depends on package, by numbers, of this many packages at most; [] without package lists."""
    words = subprocess.run(["apt-cache", "dumpavail"], capture_output=True, text=True, errors="replace")
    names, edges, name = {}, [], None
    for line in words.stdout.splitlines():
        if match := re.match(r"Package: (\S+)", line):
            name = names.setdefault(match[1], len(names))
        elif line.startswith(("Depends:", "Pre-Depends:")):
            for other in re.findall(r"(?:^|[,|])\s*([a-z0-9][a-z0-9+.-]+)", line.split(":", 1)[1]):
                edges.append((name, names.setdefault(other, len(names))))
    edges = [edge for edge in edges if max(edge) < packages]
    rng.shuffle(edges)
    return edges


def graphs():
    rng = random.Random(20)
    yield "loop", [(3, 3)]
    yield "path", [(v + 1, v) for v in range(3000)]
    for count, edges in (40, 100), (2000, 1500), (2000, 20000):
        yield f"random-{count}-{edges}", [(rng.randrange(count), rng.randrange(count)) for _ in range(edges)]
    # networkx takes a minute for all of them.
    packages = debian(rng, 4_000)
    if packages:
        yield "debian", packages
    yield "rmat", [rmat(rng, 12) for _ in range(16 << 12)]


def rmat(rng, scale):
    """An edge of an R-MAT graph, by the parameters of Graph 500."""
    quadrants = rng.choices([(0, 0), (0, 1), (1, 0), (1, 1)], [57, 19, 19, 5], k=scale)
    return tuple(sum(pair[end] << at for at, pair in enumerate(quadrants)) for end in (0, 1))


def expected(nx, edges):
    """What networkx says of the graph with duplicates and loops."""
    count = max(map(max, edges)) + 1
    many = nx.MultiDiGraph()
    many.add_nodes_from(range(count))
    many.add_edges_from(edges)
    # A duplicate edge counts as often as it is there: as weight.
    weighted = nx.DiGraph()
    weighted.add_nodes_from(range(count))
    for a, b in edges:
        weighted.add_edge(a, b, weight=weighted.get_edge_data(a, b, {"weight": 0})["weight"] + 1)
    ranks = pagerank(weighted, count)
    labels = [0] * count
    for part in nx.weakly_connected_components(many):
        least = min(part)
        for vertex in part:
            labels[vertex] = least
    plain = nx.Graph((a, b) for a, b in edges if a != b)
    triangles = sum(nx.triangles(plain).values()) // 3
    source = edges[0][0]
    far = nx.single_source_shortest_path_length(many, source)
    lightest = nx.DiGraph()
    for a, b in edges:
        weight = weight_of(a, b)
        known = lightest.get_edge_data(a, b)
        lightest.add_edge(a, b, weight=min(weight, known["weight"]) if known else weight)
    heavy = nx.single_source_dijkstra_path_length(lightest, source)
    return count, ranks, labels, triangles, source, far, heavy


def weight_of(a, b):
    # Sums of quarters are exact in 32 bits.
    return ((a * 7 + b * 13) % 40) / 4


def pagerank(graph, count):
    """networkx's own loop without scipy; 100 iterations at most, as ours is asked."""
    try:
        from networkx.algorithms.link_analysis.pagerank_alg import _pagerank_python
    except ImportError:
        from networkx.algorithms.link_analysis.pagerank_alg import pagerank as _pagerank_python
    found = _pagerank_python(graph, alpha=0.85, max_iter=1000, tol=1e-15)
    return [found[vertex] for vertex in range(count)]


def compare(nx, binary, name, edges, folder):
    count, ranks, labels, triangles, source, far, heavy = expected(nx, edges)
    path, out = os.path.join(folder, "edges.txt"), os.path.join(folder, "out.csv")
    with open(path, "w") as file:
        file.writelines(f"{a} {b} {weight_of(a, b)}\n" for a, b in edges)
    seen = {}
    for memory in "1GiB", LITTLE:
        for threads in 1, 2:
            how = ["--memory", memory, "--threads", threads, "--out", out, "--json"]
            told = json.loads(run(binary, "pagerank", path, *how, "--iterations", 200, "--tolerance", 1e-9).stdout)
            assert told["vertices"] == count and told["edges"] == len(edges), (name, told)
            found = rows(out)
            worst = max(abs(a - b) / b for a, b in zip(found, ranks, strict=True))
            assert worst < 1e-4, f"{name}: ranks differ by {worst}"
            assert seen.setdefault("ranks", found) == found, f"{name}: ranks with {how} differ from those before"
            run(binary, "components", path, *how)
            assert rows(out) == labels, f"{name}: components with {how}"
            run(binary, "bfs", path, "--from", source, *how)
            assert rows(out) == [far.get(v) for v in range(count)], f"{name}: bfs with {how}"
            # A distance by weights takes 8 bytes.
            run(binary, "sssp", path, "--from", source, *("18MiB" if word == LITTLE else word for word in how))
            assert rows(out) == [heavy.get(v) for v in range(count)], f"{name}: sssp with {how}"
            told = json.loads(run(binary, "triangles", path, *how[:4], "--json").stdout)
            assert told["count"] == triangles, f"{name}: {told['count']} triangles, networkx finds {triangles}"
        left = set(os.listdir(folder)) - {"edges.txt", "out.csv"}
        assert not left, f"{name}: {left} are left behind"


def big(folder, vertices=100_000, edges=600_000):
    """Large enough to be out of core for seconds."""
    rng, path = random.Random(3), os.path.join(folder, "big.txt")
    with open(path, "w") as file:
        file.writelines(f"{rng.randrange(vertices)} {int(vertices * rng.random() ** 3)}\n" for _ in range(edges))
    return path


@contextlib.contextmanager
def scratch():
    with tempfile.TemporaryDirectory(prefix="pellucid-graphs-") as folder:
        yield folder


def networkx():
    try:
        # Debian's package lies there, whichever Python this is.
        sys.path.append("/usr/lib/python3/dist-packages")
        import networkx as nx
    except ImportError:
        raise Skip("there is no networkx") from None
    return nx


def as_networkx(binary):
    """Every program on every graph."""
    nx, names = networkx(), []
    with scratch() as folder:
        for name, edges in graphs():
            compare(nx, binary, name, edges, folder)
            names.append(f"{name} ({len(edges)})" if name == "debian" else name)
    return f"{len(names)} graphs: {', '.join(names)}"


def all_of_debian(binary):
    """Every program on the dependencies between all packages of Debian."""
    nx, edges = networkx(), debian(random.Random(20))
    if not edges:
        raise Skip("no package lists")
    with scratch() as folder:
        compare(nx, binary, "debian", edges, folder)
    return f"{len(edges)} edges"


def kills(binary):
    """Killed at any moment and asked again, a run gives what an undisturbed one gives."""
    with scratch() as folder:
        return kill_all(binary, folder, 12)


def many_kills(binary):
    """The same, until about 50 are killed."""
    with scratch() as folder:
        return kill_all(binary, folder, 64)


def kill_all(binary, folder, turns):
    path, work = big(folder), os.path.join(folder, "work")
    outs = [os.path.join(folder, name) for name in ("calm.csv", "killed.csv")]
    words = ["pagerank", path, "--memory", "18MiB", "--iterations", 8, "--tolerance", 0, "--work", work, "--json"]
    began = time.monotonic()
    calm = json.loads(run(binary, *words, "--out", outs[0]).stdout)
    whole = time.monotonic() - began
    assert not calm["in_memory"]
    rng, killed, resumed = random.Random(7), 0, 0
    for turn in range(10 * turns):
        if turn >= turns and killed > turns // 2 and resumed:
            break
        process = subprocess.Popen([binary, "graph", *map(str, words), "--out", outs[1]], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            process.wait(whole * rng.random())
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL if turn % 3 else signal.SIGTERM)
            process.wait()
            killed += 1
        if turn % 2:
            told = json.loads(run(binary, *words, "--out", outs[1]).stdout)
            resumed += told["reopened"]
            with open(outs[0]) as one, open(outs[1]) as other:
                assert one.read() == other.read(), f"turn {turn}: other ranks after a kill"
            assert not os.path.exists(work), "the work directory is left behind"
    assert killed > turns // 2 and resumed > 0, f"{killed} kills, {resumed} resumed: nothing was tried"
    return f"{killed} kills, {resumed} resumed"


def phases(binary):
    """Killed in each phase of the engine by name, and asked again: PageRank and triangles, which have all phases between them."""
    return kill_phases(binary, ["pagerank", "triangles"])


def all_phases(binary):
    """The same for every program and storage."""
    return kill_phases(binary, graph_phases.PROGRAMS)


def kill_phases(binary, names):
    with scratch() as folder:
        path = big(folder)
        found = [(name, graph_phases.kill_each(binary, name, path, folder)) for name in names]
    return "; ".join(f"{name}: {len(killed)} phases" for name, killed in found)


def full_disk(binary):
    """A disk that is full from any phase on ends the run with a sentence, leaves no half result, and loses nothing that was prepared."""
    return fill_phases(binary, ["pagerank", "triangles"])


def all_full_disks(binary):
    """The same for every program and storage."""
    return fill_phases(binary, graph_phases.PROGRAMS)


def fill_phases(binary, names):
    notes = []
    for name in names:
        with scratch() as folder:
            notes.append(graph_phases.fill_each(binary, name, big(folder), folder))
    return "; ".join(notes)


def memory(binary):
    """The whole process never has more memory than it is allowed."""
    with scratch() as folder:
        big(folder, 300_000, 3_000_000)
        return limit(binary, folder)


def limit(binary, folder):
    path, out = os.path.join(folder, "big.txt"), os.path.join(folder, "out.parquet")
    # What the allowance for the program itself lacks where the binary is not the release build.
    idle = run(binary, "components", tiny(folder), "--memory", "17MiB", "--json")
    own = max(0, json.loads(idle.stdout)["peak_memory_bytes"] - (14 << 20))
    compressed = f"{path}.gz"
    with open(path, "rb") as plain, gzip.open(compressed, "wb", 1) as packed:
        shutil.copyfileobj(plain, packed)
    programs = [["pagerank"], ["components"], ["bfs", "--from", 5], ["sssp", "--from", 5], ["triangles"]]
    nearest, runs = 0, 0
    for program, *more in programs:
        for mebibytes in 20, 28, 64:
            for edges in path, compressed:
                rows = [] if program == "triangles" else ["--out", out]
                done = run(binary, program, edges, *more, *rows, "--memory", f"{mebibytes}MiB", "--json", check=False)
                if done.returncode:
                    assert done.returncode == 2 and "--memory" in done.stderr, done
                    continue
                taken = json.loads(done.stdout)["peak_memory_bytes"] - own
                assert taken <= mebibytes << 20, f"{program} {edges}: {taken} bytes for {mebibytes} MiB"
                nearest, runs = max(nearest, taken / (mebibytes << 20)), runs + 1
    assert runs >= 20, f"only {runs} runs"
    return f"{runs} runs with 20 to 64 MiB; the nearest took {nearest:.0%}"


def tiny(folder):
    path = os.path.join(folder, "tiny.txt")
    with open(path, "w") as file:
        file.write("0 1\n")
    return path


if __name__ == "__main__":
    main("graphs", __doc__, [as_networkx, phases, kills, full_disk, memory], [all_of_debian, all_phases, many_kills, all_full_disks])
