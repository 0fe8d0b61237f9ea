#!/usr/bin/env python3
"""`pellucid cache` keeps what it promises: it is killed, stopped and detached in a loop under load, while the checker of durability.py follows.

  tools/cache_promises.py                     both modes, a file as cache drive; write-back on a modelled solid-state cache
  tools/cache_promises.py --stops 30 --seed 7

After each start every block is read: what was flushed or forced is there, as a whole, and what was once read anew never changes back. At the
end the cache is detached, and the backing store alone must have everything.
"""
import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time

from durability import Checker, Lost, connector
from served import HANG_SECONDS, PELLUCID

BLOCK_BYTES = 4096
BLOCKS = 3000
BACKING_BYTES = 48 << 20
# Smaller than the blocks that are written, so that blocks leave.
FILE = ["file:{directory}/flash.img,size=6MiB"]
SSC = ["jasmine-ssc", "--set", "media.store=file", "--set", "media.path={directory}/flash.img", "--set", "media.channels=1", "--set", "media.ways=2",
       "--set", "media.blocks=32", "--set", "media.pages=8", "--set", "ftl.over_provisioning=0.55", "--time", "instant"]
RUNS = {"file": (FILE, "write-back"), "file-through": (FILE, "write-through"), "solid-state": (SSC, "write-back")}


class Cache:
    """A cache in service."""

    def __init__(self, directory: str, drive: list[str], mode: str):
        self.directory, self.mode = directory, mode
        self.drive = [word.format(directory=directory) for word in drive]
        self.socket, self.control = f"{directory}/nbd", f"{directory}/control"
        self.backing = f"{directory}/disk.img"
        with open(self.backing, "wb") as file:
            file.truncate(BACKING_BYTES)
        self.process = None

    def start(self):
        for path in (self.socket, self.control):
            if os.path.exists(path):
                os.unlink(path)
        command = [PELLUCID, "cache", "--backing", self.backing, "--drive", *self.drive, "--mode", self.mode,
                   "--nbd", f"unix:{self.socket}", "--control", self.control, "--dirty", "30", "--sequential-kib", "64", "--fallow", "1"]
        self.log = open(f"{self.directory}/log", "ab")
        self.process = subprocess.Popen([str(word) for word in command], stderr=self.log)
        end = time.monotonic() + HANG_SECONDS
        while not os.path.exists(self.control):
            if self.process.poll() is not None or time.monotonic() > end:
                raise Lost(f"the cache does not start: {open(self.log.name).read()[-600:]}")
            time.sleep(0.01)

    def end(self, how: int):
        self.process.send_signal(how)
        code = self.process.wait(HANG_SECONDS)
        self.log.close()
        if how == signal.SIGTERM and code not in (0, 130):
            raise Lost(f"SIGTERM: status {code}: {open(self.log.name).read()[-600:]}")


def run(name: str, stops: int, seed: int) -> str:
    rng = random.Random(f"{seed}/{name}")
    with tempfile.TemporaryDirectory(prefix="cache-") as directory:
        cache = Cache(directory, *RUNS[name])
        cache.start()
        checker = Checker(connector(cache.socket), rng.getrandbits(32), 0, BLOCKS, BLOCK_BYTES)
        checker.open()
        for stop in range(stops):
            end = time.monotonic() + 0.3 + rng.random()
            checker.work(lambda: time.monotonic() > end)
            if stop % 3 == 2:
                checker.drain()
                for block in checker.blocks:
                    block.settle(block.acknowledged)
                cache.end(signal.SIGTERM)
            else:
                checker.cut(lambda: cache.end(signal.SIGKILL))
            cache.start()
            checker.close()
            checker.open()
            checker.verify_after_cut()
        checker.drain()
        answer = subprocess.run([str(PELLUCID), "detach", "--control", cache.control], capture_output=True, text=True, timeout=HANG_SECONDS)
        if answer.returncode:
            raise Lost(f"detach: {answer.stderr}")
        # Flushed by the detach.
        for block in checker.blocks:
            block.settle(block.acknowledged)
        checker.close()
        cache.end(signal.SIGKILL)
        with open(cache.backing, "rb") as backing:
            for number in range(BLOCKS):
                block = checker.blocks[number]
                checker.version_of(number, backing.read(BLOCK_BYTES), block.acknowledged)
        count = checker.count
        return f"{name}: {stops} stops, {count['verified']} blocks verified, {count['undone']} unflushed ones undone, " \
               f"{count['writes']} writes, {count['flushes']} flushes"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stops", type=int, default=6)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    for name in RUNS:
        try:
            print(run(name, options.stops, options.seed), flush=True)
        except Lost as lost:
            print(f"{name}, --seed {options.seed}: {lost}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
