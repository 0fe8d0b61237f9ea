#!/usr/bin/env python3
"""A drive in service for a long time, with faults: no acknowledged and flushed write may be lost.

Round by round: fio works on one part of a drive and verifies what it wrote, while a checker of our own (durability.py) writes,
trims, flushes and reads another; programs, erases and reads of the flash fail by chance. Then, while the checker has requests
under way, power is cut, or the server killed, and both parts are verified. A drive that has lost too many blocks is replaced.
At the start the checker has to find the loss that a drive without journal makes, so that its silence means something.

  tools/long_run.py --seconds 60
  tools/long_run.py --seconds 1800 --time x4 --seed 7
"""
import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time

from durability import Checker, Lost, connector
from served import HANG_SECONDS, PELLUCID, ROOT, SYSTEM_PATH, Count, Server, Skip, program

DRIVE = ROOT / "bench/long-run.toml"
MIB = 1 << 20
# The drive from its start: fio's two files, then the checker's blocks.
FIO_BYTES = 12 * MIB
CHECKED_BLOCKS = 3500
BAD_BLOCKS_MAX = 24
KILL_EVERY = 4
CANARY_ROUNDS = 20


# What has to happen in a run.
WANTED = ("power_cuts", "kills", "program_failures", "erases")


class LongRun:
    """One drive after the other, each for as many rounds as it lasts."""

    def __init__(self, options, directory: str):
        self.options, self.directory = options, directory
        self.random = random.Random(options.seed)
        self.total = dict.fromkeys(("drives", "rounds", "power_cuts", "kills", "fio_bytes", "program_failures",
                                    "erase_failures", "read_retries", "grown_bad_blocks", "erases"), 0)
        self.checked = {}
        self.server = self.checker = self.last = None

    def new_drive(self, sets=()):
        image = f"{self.directory}/drive-{self.total['drives']}"
        sets = [f"media.store=file:{image}", f"media.seed={self.random.getrandbits(32)}", *sets]
        self.server = Server(self.directory, [DRIVE], sets, self.options.time, options=["--quiet"],
                             pellucid=self.options.pellucid)
        self.image, self.last = image, {}
        self.checker = Checker(connector(self.server.socket), self.random.getrandbits(32), 2 * FIO_BYTES, CHECKED_BLOCKS)
        self.checker.open()
        self.total["drives"] += 1

    def retire_drive(self):
        self.tally()
        self.checker.close()
        self.server.stop()
        os.remove(self.image)
        for key, value in self.checker.count.items():
            self.checked[key] = self.checked.get(key, 0) + value

    def tally(self):
        """Adds what the drive has counted since the last time; the counts of a killed server are lost with it."""
        drive = self.server.ask(do="status")["drives"][0]
        drive["erases"] = sum(drive["erases"])
        for key in ("program_failures", "erase_failures", "read_retries", "grown_bad_blocks", "erases"):
            self.total[key] += max(drive[key] - self.last.get(key, 0), 0)
        self.last = drive
        return drive

    def faults(self):
        """Chances of failure for the next round; now and then all is well."""
        if self.random.random() < 0.2:
            chances = (0, 0, 0)
        else:
            chances = (self.random.choice((1e-4, 5e-4, 2e-3)), self.random.choice((0, 5e-3)), self.random.choice((1e-3, 0.02)))
        self.server.ask(do="faults", **dict(zip(("program_fail", "erase_fail", "read_fail"), chances)))

    def fio(self, seed: int, verify_only: bool):
        """Starts fio: a mix that it verifies itself, and data that are verified after the power cut."""
        common = ["--ioengine=nbd", f"--uri={self.server.uri()}", "--bs=16k", f"--size={FIO_BYTES}", "--iodepth=8",
                  f"--randseed={seed}", "--verify=crc32c", "--verify_fatal=1", "--verify_state_save=0"]
        kept = ["--name=kept", "--rw=randwrite", f"--offset={FIO_BYTES}"]
        kept += ["--verify_only"] if verify_only else ["--do_verify=0", "--end_fsync=1"]
        mixed = [] if verify_only else ["--name=mixed", "--rw=randrw", "--rwmixread=40", "--fsync=64"]
        command = [program("fio"), *common, *mixed, *kept]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=self.directory,
                                env={**os.environ, "PATH": SYSTEM_PATH})

    @staticmethod
    def fio_ended(process):
        output = process.communicate(timeout=HANG_SECONDS)[0]
        if process.returncode:
            raise Lost(f"fio: status {process.returncode}\n{output}")

    def round(self):
        seed, checker = self.random.getrandbits(31), self.checker
        self.faults()
        fio = self.fio(seed, verify_only=False)
        try:
            checker.work(lambda: fio.poll() is not None)
            self.fio_ended(fio)
        finally:
            fio.kill()
        end = time.monotonic() + self.random.uniform(0, 0.3)
        checker.work(lambda: time.monotonic() >= end)
        drive = self.tally()
        if self.total["rounds"] % KILL_EVERY == KILL_EVERY - 1:
            checker.cut(self.server.kill)
            self.server.start()
            self.last = {"grown_bad_blocks": self.last["grown_bad_blocks"]}
            self.total["kills"] += 1
        else:
            checker.cut(lambda: self.server.ask(do="power-cut"))
            self.total["power_cuts"] += 1
        checker.close()
        checker.open()
        checker.verify_after_cut()
        self.fio_ended(self.fio(seed, verify_only=True))
        self.total["rounds"] += 1
        self.total["fio_bytes"] += 2 * FIO_BYTES
        return drive["grown_bad_blocks"] >= BAD_BLOCKS_MAX or drive["read_only"]

    def was_interrupted(self) -> bool:
        return all(self.total[what] for what in ("power_cuts", "kills"))

    def run(self):
        began = shown = time.monotonic()
        self.new_drive()
        # On a slow machine it goes on until there was a cut and a kill.
        while (ran := time.monotonic() - began) < self.options.seconds or (ran < HANG_SECONDS and not self.was_interrupted()):
            if self.round():
                self.retire_drive()
                self.new_drive()
            if time.monotonic() - shown > 60:
                shown = time.monotonic()
                print(f"    {shown - began:.0f} s: {json.dumps(self.total)}", flush=True)
        self.retire_drive()
        print(f"    {time.monotonic() - began:.0f} s, seed {self.options.seed}: {json.dumps(self.total | self.checked)}")
        for what in WANTED:
            assert self.total[what], f"no {what} in this run, so that it proves less than it says; run it for longer"
        assert self.checked["undone"], "no write was under way in any cut, so that nothing was put to the test"
        return f"{self.total['rounds']} rounds, {self.total['power_cuts']} power cuts, {self.total['kills']} kills, " \
               f"{self.checked['verified']} blocks verified after them, 0 lost"

    def canary(self):
        """A drive without journal forgets everything in a power cut: the checker must say so."""
        self.new_drive(["ftl.durability=volatile"])
        # It announces no flush; the checker expects what was acknowledged.
        self.checker.through = self.checker.bare = True
        try:
            for _ in range(CANARY_ROUNDS):
                end = time.monotonic() + 0.5
                self.checker.work(lambda: time.monotonic() >= end)
                self.checker.cut(lambda: self.server.ask(do="power-cut"))
                self.checker.verify_after_cut()
        except Lost as why:
            return str(why)
        finally:
            self.server.kill()
        raise AssertionError(f"{CANARY_ROUNDS} power cuts of a drive without journal, and the checker finds no loss")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pellucid", default=PELLUCID)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--time", default="paced", help="as pellucid serve --time; xN leaves more of the processor to others")
    parser.add_argument("--seed", type=int, default=time.time_ns() & 0xFFFF_FFFF)
    options = parser.parse_args()
    count = Count("long run")
    try:
        program("fio")
        command = options.pellucid
        for name, test in (("canary", LongRun.canary), ("no flushed write lost", LongRun.run)):
            with tempfile.TemporaryDirectory() as directory:
                # Servers come and go for a long time; a build that goes on beside must not change them.
                options.pellucid = shutil.copy(command, directory)
                run = LongRun(options, directory)
                try:
                    count.attempt(f"{name} (seed {options.seed})", lambda: test(run))
                finally:
                    if run.server and run.server.process.poll() is None:
                        run.server.kill()
    except Skip as why:
        count.skip("long run", str(why))
    sys.exit(0 if count.end() else 1)


if __name__ == "__main__":
    main()
