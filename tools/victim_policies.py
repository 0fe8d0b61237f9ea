#!/usr/bin/env python3
"""A page-mapped log in a page of Python: what a victim policy costs, to judge the drive's policies by.

One die of `blocks` blocks of `pages` pages holds `user` logical pages. The host overwrites them at random, uniformly or with a hot
part. Pages go to an open block, of the host or (`separated`) of garbage collection (GC) for what it copies. The last free block is
for GC: a host that is not throttled writes until it would need that one. Then a victim is chosen, full or not, and its valid pages are
copied, and it gives its block back before the next one is chosen. Time does not exist. Nothing here comes from the drive that it judges.

    tools/victim_policies.py random --blocks 512 --pages 64 --op 0.28
    tools/victim_policies.py --compare target/release/pellucid     # the drive, through `pellucid run`, beside this
"""

import argparse
import json
import math
import random
import subprocess
import sys
import tempfile
from collections import namedtuple
from concurrent.futures import ThreadPoolExecutor

Case = namedtuple("Case", "policy op pages blocks hot separated", defaults=(0.28, 64, 512, None, False))
POLICIES = ["greedy", "fifo", "lru", "random", "d-choices:2", "d-choices:10", "cost-benefit"]


class Log:
    """The die. `hot`: (share of the pages, share of the writes) of the hot part, or None."""

    def __init__(self, blocks, pages, user, policy, hot=None, separated=False, seed=1):
        self.pages, self.user, self.hot, self.separated = pages, user, hot, separated
        self.policy, _, d = policy.partition(":")
        self.d = int(d or 1)
        self.random = random.Random(seed)
        self.place = [-1] * user  # of each logical page
        self.owner = [-1] * (blocks * pages)  # logical page last written there
        self.valid = [0] * blocks
        self.closed_at, self.touched_at = [0] * blocks, [0] * blocks
        self.free, self.closed = list(range(blocks - 1, -1, -1)), {}
        self.open = {}  # stream -> [block, next page]
        self.programs = self.written = 0

    def program(self, page, stream):
        if stream not in self.open:
            self.open[stream] = [self.free.pop(), 0]
        block, at = self.open[stream]
        old = self.place[page]
        if old >= 0:
            self.valid[old // self.pages] -= 1
            self.touched_at[old // self.pages] = self.programs
        self.place[page] = block * self.pages + at
        self.owner[block * self.pages + at] = page
        self.valid[block] += 1
        self.programs += 1
        self.open[stream][1] += 1
        if at + 1 == self.pages:
            del self.open[stream]
            self.closed[block] = True
            self.closed_at[block] = self.touched_at[block] = self.programs

    def victim(self):
        """Fewest of the key first; ties go to the first that was closed."""
        valid, pages, now = self.valid, self.pages, self.programs
        if self.policy in ("random", "d-choices"):
            closed = list(self.closed)
            return min((self.random.choice(closed) for _ in range(self.d)), key=valid.__getitem__)
        key = {
            "greedy": valid.__getitem__,
            "fifo": self.closed_at.__getitem__,
            "lru": self.touched_at.__getitem__,
            "cost-benefit": lambda b: -(now - self.closed_at[b] + 1) * (pages - valid[b]) / (2 * valid[b] + 1e-9),
        }[self.policy]
        return min(self.closed, key=key)

    def collect(self):
        block = self.victim()
        del self.closed[block]
        for at in range(block * self.pages, (block + 1) * self.pages):
            page = self.owner[at]
            if page >= 0 and self.place[page] == at:
                self.program(page, "gc" if self.separated else "host")
        self.free.insert(0, block)

    def has_room(self):
        if "host" in self.open:
            return self.separated or len(self.free) > 0
        return len(self.free) > 1

    def write(self, page):
        while not self.has_room():
            self.collect()
        self.written += 1
        self.program(page, "host")

    def next_page(self):
        if self.hot is None:
            return self.random.randrange(self.user)
        share, writes = self.hot
        border = int(self.user * share)
        if self.random.random() < writes:
            return self.random.randrange(border)
        return self.random.randrange(border, self.user)

    def amplification(self, settle=4.0, measure=2.0):
        """Programs for each page of the host, in steady state: the log is filled, and overwritten `settle` times before."""
        for page in range(self.user):
            self.write(page)
        for _ in range(int(settle * self.user)):
            self.write(self.next_page())
        programs, written = self.programs, self.written
        for _ in range(int(measure * self.user)):
            self.write(self.next_page())
        return (self.programs - programs) / (self.written - written)


def fifo(op):
    """Uniform writes, blocks in turn: a / (a + W0(-a e^-a)), a = 1 + op. In the limit of many pages in a block, greedy's as well."""
    a, w = 1 + op, -0.5
    for _ in range(60):
        w -= (w * math.exp(w) + a * math.exp(-a)) / (math.exp(w) * (w + 1))
    return a / (a + w)


def choices(op, pages, d=math.inf):
    """Uniform writes, the emptiest of d random blocks (all, for greedy): the mean field of many blocks of this many pages.

    m[i] is the share of blocks with i valid pages. A victim with j of them leaves room for pages - j writes, each of which takes
    a page of a block in proportion to its valid ones; the victim is full then. Random (d = 1) gives (1 + op) / op."""
    m, mean = [0.0] * (pages + 1), pages / (1 + op)
    m[int(mean)], m[int(mean) + 1] = int(mean) + 1 - mean, mean - int(mean)
    step, chosen = 0.2 / pages, [0.0] * (pages + 1)
    for _ in range(int(40 * pages)):
        above, left = 1.0, 1.0
        for i in range(pages + 1):
            below = max(above - m[i], 0.0)
            # Of the emptiest, at most as many as there are can be taken in one step.
            chosen[i] = min(m[i] / step, left) if d == math.inf else above**d - below**d
            above, left = below, left - chosen[i]
        writes = sum((pages - i) * p for i, p in enumerate(chosen))
        rate = step * writes / mean
        flow = [rate * i * m[i] for i in range(pages + 1)] + [0.0]
        for i in range(pages + 1):
            m[i] += flow[i + 1] - flow[i] - step * chosen[i] + (step if i == pages else 0.0)
    return pages / writes


DRIVE = """
[drive.media]
channels = 1
ways = 1
blocks = {blocks}
pages = {pages}
page_size = "4KiB"
sector_size = 4096
unit_size = "4KiB"
cell = "slc"
store = "none"
[drive.media.timing]
read = "50us"
program = "500us"
erase = "3ms"
channel_rate = "400MB/s"
[drive.ftl]
capacity = {capacity}
victim = "{policy}"
separation = "{separation}"
gc_low = 1
wear.dynamic = false
durability = "volatile"
[drive.buffer]
entries = 64
write = "write-through"
retain = false
[precondition]
fill = 1.0
overwrite = {overwrite}
[[job]]
rw = "randwrite"
bs = "4k"
iodepth = 64
number_ios = {writes}
{distribution}
"""


def user_pages(case):
    """One block is no spare: when a victim is chosen, the one for GC is free and all others are closed."""
    return int((case.blocks - 1) * case.pages / (1 + case.op))


def simulated(case):
    log = Log(case.blocks, case.pages, user_pages(case), case.policy, case.hot, case.separated)
    return log.amplification()


def run(program, case, overwrite, times):
    """What the command `run` reports of so many overwrites of the capacity, after some at random that take no time."""
    user = user_pages(case)
    share, writes = case.hot or (1, 1)
    zones = f"{100 * writes:g}/{100 * share:g}:{100 * (1 - writes):g}/{100 * (1 - share):g}"
    text = DRIVE.format(
        blocks=case.blocks,
        pages=case.pages,
        capacity=user * 4096,
        policy=case.policy,
        separation="gc-copies" if case.separated else "off",
        overwrite=overwrite,
        writes=times * user,
        distribution=f'random_distribution = "zoned:{zones}"' if case.hot else "",
    )
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
        file.write(text)
        file.flush()
        ran = subprocess.run([program, "run", file.name, "--json"], capture_output=True, text=True)
    if ran.returncode != 0:
        sys.exit(f"{' '.join(map(str, ran.args))}: {ran.stderr}")
    report = json.loads(ran.stdout)
    bytes_of = report["write_amplification"]
    emergencies = report["gc"].get("emergency_victims")
    return bytes_of["programmed_bytes_total"], bytes_of["host_written_bytes"], emergencies


def measured(program, case):
    """Write amplification and emergencies of the drive. Skewed writes have to settle in the run: the shorter one is its beginning."""
    if case.hot is None:
        programmed, written, emergencies = run(program, case, 4.0, 2)
        return programmed / written, emergencies
    before, after = (run(program, case, 0.0, times) for times in (4, 6))
    return (after[0] - before[0]) / (after[1] - before[1]), after[2]


def cases():
    for policy in POLICIES:
        for op in (0.07, 0.14, 0.28):
            yield Case(policy, op)
        for pages in (16, 256):
            yield Case(policy, 0.14, pages, 256 if pages == 256 else 1024)
        for separated in (False, True):
            yield Case(policy, 0.14, hot=(0.2, 0.8), separated=separated)


def compare(program, wanted):
    print(f"{'policy':13} {'OP':>5} {'pages':>5} {'writes':>9} {'GC':>7} {'drive':>7} {'plain':>7} {'ratio':>7}  emergencies")
    worst = 0.0

    def both(case):
        return case, measured(program, case), simulated(case)

    with ThreadPoolExecutor(1) as pool:
        for case, (drive, emergencies), plain in pool.map(both, wanted):
            worst = max(worst, abs(drive / plain - 1))
            traffic = "uniform" if case.hot is None else f"{case.hot[1]:.0%}/{case.hot[0]:.0%}"
            apart = "apart" if case.separated else "shared"
            print(
                f"{case.policy:13} {case.op:5.0%} {case.pages:5} {traffic:>9} {apart:>7} {drive:7.3f} {plain:7.3f} "
                f"{drive / plain:7.3f}  {emergencies}",
                flush=True,
            )
    print(f"worst: {worst:.1%}")
    return worst


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("policy", nargs="?", default="greedy", help=", ".join(POLICIES))
    parser.add_argument("--blocks", type=int, default=512)
    parser.add_argument("--pages", type=int, default=64)
    parser.add_argument("--op", type=float, default=0.28, help="spare / user pages, without the block for GC")
    parser.add_argument("--hot", nargs=2, type=float, metavar=("SHARE", "WRITES"), help="a hot part, such as 0.2 0.8")
    parser.add_argument("--separated", action="store_true", help="GC has an open block of its own")
    parser.add_argument("--compare", metavar="PELLUCID", help="run the drive beside it, all cases")
    parser.add_argument("--only", default="", help="of these, the policies that begin so")
    options = parser.parse_args()
    if options.compare:
        wanted = [case for case in cases() if case.policy.startswith(options.only)]
        sys.exit(compare(options.compare, wanted) > 0.03)
    hot = tuple(options.hot) if options.hot else None
    case = Case(options.policy, options.op, options.pages, options.blocks, hot, options.separated)
    print(f"{simulated(case):.3f}")


if __name__ == "__main__":
    main()
