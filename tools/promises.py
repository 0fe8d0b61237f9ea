#!/usr/bin/env python3
"""A served drive keeps exactly what it announces: every preset, every kind of store, every way to stop.

Each drive is written, trimmed and flushed at random while an oracle follows; then it is stopped, started again, and compared:

  announced to hosts                              what must be there
  NBD: FLUSH, FUA; NVMe: VWC                      what was flushed or forced; of the rest each sector old or new
  NBD: FLUSH, FUA; NVMe: no VWC                   the same (block), or everything acknowledged (zones, chunks)
  neither                                         nothing; the log and `status` have to say so

Ways to stop: SIGTERM and SIGINT (a clean end keeps everything acknowledged), SIGKILL at rest and under load, SIGKILL of a start
before it serves, power-cut. A drive in memory has only the last.

  tools/promises.py                       two stops for each drive (part of make test)
  tools/promises.py --stops 15 --seed 7   fifteen
  tools/promises.py --only zoned
"""
import argparse
import functools
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

import nvme_client as nvme
from durability import Checker, Lost, connector
from nbd_client import Client, Disconnected
from served import HANG_SECONDS, NQN_PREFIX, PELLUCID, ROOT, Count, Server

# NBD's transmission flags.
SEND_FLUSH, SEND_FUA = 1 << 2, 1 << 3
BLOCK_BYTES = 4096
DOCUMENT = ROOT / "docs/reference/durability.md"
FULL_STATE = 0xE
BLOCKS = 32
# Drives that forget: the key of whichever translation a drive has.
VOLATILE = ("drive.ftl.durability=volatile", "host.ftl.durability=volatile")
# Room for garbage collection, in whichever of these a drive has a translation for: a key without effect is refused.
ROOM = ("drive.ftl.over_provisioning=0.4", "host.ftl.over_provisioning=0.4")
# An SLC cache takes half of a small drive; log blocks, too.
ROOMY = {"client-qlc": 64, **dict.fromkeys(("netbook-ssd-1", "netbook-ssd-2", "netbook-ssd-3", "laptop-ssd-5"), 160)}
# Zones whose buffer forgets.
UNPROTECTED = 'drive.namespace=[{ interface = "zoned", open_max = 14, active_max = 14 }]'
CANARY_CUTS = 12


def takes(preset: str, *sets: str) -> bool:
    """Whether every override has an effect on a preset; one that has none is refused."""
    words = [word for value in sets for word in ("--set", value)]
    return subprocess.run([PELLUCID, "show", preset, *words], capture_output=True, check=False).returncode == 0


@functools.cache
def small(preset: str, *sets: str) -> list[str]:
    """Overrides that make a preset with `sets` start quickly and collect garbage soon; everything else is as the preset has it."""
    sets = (f"drive.media.blocks={ROOMY.get(preset, BLOCKS)}", *sets)

    return [*sets, *(key for key in ROOM if takes(preset, *sets, key))]


class BlockWork:
    """The checker of the long run, over NBD."""

    name = "block"

    def __init__(self, server, rng, _nqn):
        self.server, self.rng = server, rng
        self.checker = Checker(connector(server.socket), rng.getrandbits(32), 0, 1500, BLOCK_BYTES)
        self.checker.open()
        flags = self.checker.clients[0].flags
        promised = SEND_FLUSH | SEND_FUA
        assert flags & promised in (0, promised), f"NBD: flags {flags:#x}"
        self.keeps = flags & promised == promised
        # An NVMe host is told that there is no cache, and does not flush.
        self.checker.through = server.ask(do="status")["drives"][0]["keeps"] == "acknowledged"

    def work(self):
        end = self.requests() + self.rng.randint(600, 1500)
        last = time.monotonic() + 2
        self.checker.work(lambda: self.requests() >= end or time.monotonic() > last)

    def requests(self) -> int:
        return sum(self.checker.count[key] for key in ("reads", "writes", "fua_writes", "trims", "flushes"))

    def rest(self, clean: bool):
        """Nothing is under way any more; a clean end keeps what was acknowledged."""
        self.checker.drain()
        if clean:
            for block in self.checker.blocks:
                block.settle(block.acknowledged)

    def cut(self, do):
        self.checker.cut(do)

    def again(self):
        self.checker.close()
        self.checker.open()
        self.checker.verify_after_cut()

    def close(self):
        self.checker.close()

    def count(self) -> str:
        count = self.checker.count
        return f"{count['verified']} blocks verified, {count['undone']} unflushed ones undone"


class Sequential:
    """A zone or a chunk: it is written from its start, and forgotten as a whole."""

    def __init__(self, number: int, start: int, sectors: int):
        self.number, self.start, self.sectors = number, start, sectors
        # Of its life: data change with every reset.
        self.life = 0
        # Sectors from the start: they must be there, they were acknowledged, they were sent.
        self.durable = self.acknowledged = self.issued = 0
        self.busy = self.resetting = self.finishing = self.finished = False
        # An append that came after a power cut went elsewhere.
        self.astray = False

    def begin(self):
        self.life += 1
        self.durable = self.acknowledged = self.issued = 0
        self.finished = False

    def left(self) -> int:
        return 0 if self.finished else self.sectors - self.issued


class SequentialWork:
    """Zones or chunks over NVMe/TCP, one request to each at a time."""

    zoned = False

    def __init__(self, server, rng, nqn):
        self.server, self.rng, self.nqn = server, rng, nqn
        self.seed = rng.getrandbits(32)
        self.control = nvme.Controller(server.port, nqn, self.zoned)
        self.cached, self.keeps = self.control.write_cache(), True
        self.sector_bytes = server.ask(do="status")["drives"][0]["sector_bytes"]
        self.tally = dict.fromkeys(("writes", "forced", "flushes", "resets", "finished", "verified"), 0)
        self.cutting = False
        self.parts = self.layout()

    def content(self, part, first: int, sectors: int) -> bytes:
        def sector(at):
            head = struct.pack("<IIIQ", self.seed, part.number, part.life, at)
            return (head * (self.sector_bytes // len(head) + 1))[:self.sector_bytes]
        return b"".join(sector(first + i) for i in range(sectors))

    def refused(self, status: int, what: str) -> bool:
        if status and not self.cutting:
            raise Lost(f"{what}: status {status:#x} without a power cut")
        return status != 0

    def send_write(self, part, sectors: int, force: bool, append: bool = False):
        first, life = part.issued, part.life
        part.busy = True
        part.issued += sectors

        def answered(status, result, _data):
            part.busy = False
            if append and not status and result != part.start + first:
                assert self.cutting, f"append to zone {part.number}: at {result}, where {part.start + first} was next"
                part.astray = True
                return
            if self.refused(status, f"write to {self.name} {part.number} at {first}"):
                return
            assert part.life == life
            part.acknowledged = first + sectors
            self.tally["forced" if force else "writes"] += 1
            if force or not self.cached:
                part.durable = part.acknowledged

        where = part.start if append else part.start + first
        self.control.io.send(nvme.APPEND if append else nvme.WRITE, answered, nsid=1, data=self.content(part, first, sectors),
                             words=nvme.at(where, sectors, nvme.FUA if force else 0))

    def flush(self):
        covered = [(part, part.life, part.acknowledged) for part in self.parts]

        def answered(status, _result, _data):
            if self.refused(status, "flush") or self.cutting:
                return
            self.tally["flushes"] += 1
            for part, life, acknowledged in covered:
                if part.life == life:
                    part.durable = max(part.durable, acknowledged)

        self.control.io.send(nvme.FLUSH, answered, nsid=1)

    def work(self):
        last, left = time.monotonic() + 2, self.rng.randint(40, 160)
        while left and time.monotonic() < last:
            free = [part for part in self.parts if not part.busy]
            if free and len(self.control.io.pending) < 16:
                self.act(self.rng.choice(free))
                left -= 1
            else:
                self.control.io.receive()

    def rest(self, clean: bool):
        self.control.io.drain()
        if clean:
            for part in self.parts:
                part.durable = part.acknowledged

    def cut(self, do):
        self.cutting = True
        do()
        try:
            self.control.io.drain()
        except (Disconnected, TimeoutError):
            pass

    def again(self):
        self.control.close()
        self.control = nvme.Controller(self.server.port, self.nqn, self.zoned)
        self.cutting = False
        for part in self.parts:
            self.verify(part)
            part.busy = part.resetting = part.finishing = False
            self.tally["verified"] += 1

    def compare(self, part, sectors: int):
        """The first `sectors` must be what was written."""
        for first in range(0, sectors, 32):
            count = min(32, sectors - first)
            status, _, data = self.control.io.ask(nvme.READ, nsid=1, read=count * self.sector_bytes,
                                                  words=nvme.at(part.start + first, count))
            what = f"{self.name} {part.number}, life {part.life}, sectors {first} and on of {sectors} " \
                   f"({part.durable=} {part.acknowledged=} {part.issued=})"
            if status:
                raise Lost(f"{what}: status {status:#x}")
            if data != self.content(part, first, count):
                raise Lost(f"{what}: {self.differs(part, first, data)}")

    def differs(self, part, first: int, data: bytes) -> str:
        """The first sector that is not what was written."""
        for at in range(len(data) // self.sector_bytes):
            sector = data[at * self.sector_bytes:(at + 1) * self.sector_bytes]
            if sector != self.content(part, first + at, 1):
                seed, number, life, offset = struct.unpack_from("<IIIQ", sector)
                whose = f"{self.name} {number}, life {life}, sector {offset}" if seed == self.seed else sector[:16].hex()
                return f"sector {first + at} has what was {whose}"
        return "nothing"

    def close(self):
        self.control.close()

    def count(self) -> str:
        return ", ".join(f"{number} {what}" for what, number in self.tally.items())


class ZoneWork(SequentialWork):
    """Zones: writes of any length, appends, flushes, finishes, resets."""

    name, zoned = "zone", True

    def layout(self):
        zones = nvme.report_zones(self.control.io, 0, 6)
        # A zone behind the others makes the write pointers of the first ones rise sooner: few, so that they come to be full.
        return [Sequential(i, zone.start, zone.capacity) for i, zone in enumerate(zones)]

    def act(self, part):
        kind = self.rng.random()
        if kind < 0.06:
            self.flush()
        elif kind < 0.10 or (part.left() == 0 and kind < 0.8):
            self.reset(part)
        elif kind < 0.12 and part.issued and not part.finished:
            self.finish(part)
        elif part.left():
            sectors = min(self.rng.choice((1, 2, 7, 32, 64, 250)), part.left(), 250_000 // self.sector_bytes)
            self.send_write(part, sectors, self.rng.random() < 0.2, self.rng.random() < 0.2 and sectors <= 2)

    def action(self, part, action: int, done):
        part.busy = True

        def answered(status, _result, _data):
            part.busy = False
            if not self.refused(status, f"action {action} on zone {part.number}"):
                done()

        self.control.io.send(nvme.ZONE_SEND, answered, nsid=1, words=nvme.zone_send(part.start, action))

    def reset(self, part):
        part.resetting = True

        def done():
            part.resetting = False
            part.begin()
            self.tally["resets"] += 1

        self.action(part, nvme.RESET_ZONE, done)

    def finish(self, part):
        part.finishing = True

        def done():
            part.finishing, part.finished = False, True
            self.tally["finished"] += 1
            # What a finished zone holds is on the media.
            part.durable = part.acknowledged

        self.action(part, nvme.FINISH_ZONE, done)

    def verify(self, part):
        [zone] = nvme.report_zones(self.control.io, part.start, 1)
        what = f"zone {part.number}, life {part.life}: state {zone.state:#x}, {zone.written} sectors " \
               f"({part.durable=} {part.acknowledged=} {part.issued=} {part.finished=} {part.resetting=})"
        if part.resetting and zone.written == 0:
            return part.begin()
        if part.astray:
            part.astray = False
            self.control.io.must(nvme.ZONE_SEND, nsid=1, words=nvme.zone_send(part.start, nvme.RESET_ZONE))
            return part.begin()
        full_by_writes = part.issued == part.sectors
        if zone.state == FULL_STATE and not full_by_writes:
            if not (part.finished or part.finishing):
                raise Lost(f"{what}: full, and nobody finished it")
            part.finished = True
            # Nobody tells how much of a full zone was written.
            self.compare(part, part.durable)
            part.issued = part.acknowledged = part.durable
            return None
        if part.finished:
            raise Lost(f"{what}: a finished zone is open again")
        if not part.durable <= zone.written <= part.issued:
            raise Lost(f"{what}: {part.durable} to {part.issued} are due")
        self.compare(part, zone.written)
        part.durable = part.acknowledged = part.issued = zone.written
        return None


class ChunkWork(SequentialWork):
    """Chunks of an open-channel namespace: whole superpages, durable when acknowledged."""

    name = "chunk"

    def layout(self):
        geometry = self.control.geometry()
        self.least = struct.unpack_from("<I", geometry, 128)[0]
        sectors = struct.unpack_from("<I", geometry, 72)[0]
        chunk_bits, block_bits = geometry[10], geometry[11]
        units = struct.unpack_from("<H", geometry, 66)[0]
        return [Sequential(i, ((i % units) << chunk_bits | i // units) << block_bits, sectors) for i in range(6)]

    def act(self, part):
        if part.left() < self.least or (part.issued and self.rng.random() < 0.04):
            return self.reset(part)
        if self.rng.random() < 0.05:
            return self.flush()
        return self.send_write(part, self.least, self.rng.random() < 0.2)

    def reset(self, part):
        part.busy = part.resetting = True

        def answered(status, _result, _data):
            part.busy = False
            if not self.refused(status, f"reset of chunk {part.number}"):
                part.resetting = False
                part.begin()
                self.tally["resets"] += 1

        ranges = struct.pack("<IIQ", 0, part.sectors, part.start)
        self.control.io.send(nvme.DSM, answered, nsid=1, data=ranges, words={10: 0, 11: nvme.DEALLOCATE})

    def verify(self, part):
        if not part.resetting:
            self.compare(part, part.durable)
        if part.resetting or part.busy or part.issued != part.acknowledged:
            # Where its write pointer is nobody knows here; perhaps it is free, and the reset is refused.
            self.control.io.ask(nvme.DSM, nsid=1, data=struct.pack("<IIQ", 0, part.sectors, part.start),
                                 words={10: 0, 11: nvme.DEALLOCATE})
            part.begin()


class Cached:
    """A block of a cache. A state is a set of what may be there: (kind, version), of dirty, clean and absent blocks."""

    def __init__(self, number: int):
        self.number, self.version, self.busy = number, 0, False
        # What the last cut left, and what each command since then would make of it.
        self.states = [{("absent", 0)}]
        # States from which on one must be there: durable, acknowledged.
        self.durable = self.acknowledged = 0

    def may_be(self, first: int) -> set:
        return set().union(*self.states[first:])


class CacheWork:
    """A solid-state cache over NVMe/TCP: dirty blocks are there, clean ones may be absent, nothing is stale."""

    BLOCKS = 1500

    def __init__(self, server, rng, nqn):
        self.server, self.rng, self.nqn = server, rng, nqn
        self.seed, self.cutting, self.cached = rng.getrandbits(32), False, True
        self.control = nvme.Controller(server.port, nqn)
        self.keeps = self.control.write_cache()
        namespace = self.control.identify(0, 1)
        assert namespace[384] == 2, "no cache"
        self.sectors, = struct.unpack_from("<I", namespace, 388)
        units, = struct.unpack_from("<Q", namespace, 0)
        self.bytes = self.sectors * server.ask(do="status")["drives"][0]["sector_bytes"]
        # Some side by side, some anywhere in the address space.
        numbers = set(range(self.BLOCKS // 2))
        while len(numbers) < self.BLOCKS:
            numbers.add(rng.randrange(units // self.sectors))
        self.blocks = [Cached(number) for number in sorted(numbers)]
        self.tally = dict.fromkeys(("writes", "evicted", "cleaned", "reads", "misses", "flushes", "verified", "undone"), 0)

    def content(self, block, version: int) -> bytes:
        head = struct.pack("<IQQ", self.seed, block.number, version)
        return (head * (self.bytes // len(head) + 1))[:self.bytes]

    def where(self, block, flags=0) -> dict:
        return nvme.at(block.number * self.sectors, self.sectors, flags)

    def refused(self, status: int, what: str) -> bool:
        if status and not self.cutting:
            raise Lost(f"{what}: status {status:#x} without a power cut")
        return status != 0

    def change(self, block, opcode: int, state: set, key: str, data=b"", force=False):
        block.states.append(state)
        block.busy, number = True, len(block.states) - 1

        def answered(status, _result, _data):
            block.busy = False
            if not self.refused(status, f"opcode {opcode:#x}, block {block.number}"):
                self.tally[key] += 1
                block.acknowledged = number
                if force or not self.cached:
                    block.durable = number

        self.control.io.send(opcode, answered, nsid=1, data=data, words=self.where(block, nvme.FUA if force else 0))

    def act(self, block):
        kind, force = self.rng.random(), self.rng.random() < 0.1
        if kind < 0.03:
            self.flush()
        elif kind < 0.3 or block.busy:
            self.read(block)
        elif kind < 0.4:
            self.change(block, nvme.EVICT, {("absent", 0)}, "evicted", force=force)
        elif kind < 0.5:
            cleaned = {("clean" if what == "dirty" else what, version) for what, version in block.states[-1]}
            self.change(block, nvme.CLEAN, cleaned, "cleaned")
        else:
            block.version += 1
            opcode, what = self.rng.choice(((nvme.WRITE_CLEAN, "clean"), (nvme.WRITE_DIRTY, "dirty")))
            self.change(block, opcode, {(what, block.version)}, "writes", self.content(block, block.version), force)

    def flush(self):
        covered = [(block, block.acknowledged) for block in self.blocks]

        def answered(status, _result, _data):
            if not self.refused(status, "flush") and not self.cutting:
                self.tally["flushes"] += 1
                for block, state in covered:
                    block.durable = max(block.durable, state)

        self.control.io.send(nvme.FLUSH, answered, nsid=1)

    def read(self, block):
        first, durable = block.acknowledged, block.durable

        def answered(status, _result, data):
            if status != nvme.ABSENT and self.refused(status, f"read of block {block.number}"):
                return
            self.tally["reads"] += 1
            self.judge(block, durable if self.cutting else first, None if status else data)

        self.control.io.send(nvme.READ, answered, nsid=1, read=self.bytes, words=self.where(block))

    def judge(self, block, first: int, data) -> set:
        """What the block may be, as it read so: one of the states from `first` on."""
        may_be = block.may_be(first)
        if data is None:
            self.tally["misses"] += 1
            fits = {state for state in may_be if state[0] != "dirty"}
        else:
            fits = {state for state in may_be if state[0] != "absent" and data == self.content(block, state[1])}
        if not fits:
            seed, number, version = struct.unpack_from("<IQQ", data or bytes(20))
            whose = f"block {number}, version {version}" if seed == self.seed else "other data"
            raise Lost(f"block {block.number} is {whose if data else 'absent'}, where one of {sorted(may_be)} is due")
        return fits

    def work(self):
        last, left = time.monotonic() + 2, self.rng.randint(600, 1500)
        while left and time.monotonic() < last:
            if len(self.control.io.pending) < 16:
                self.act(self.rng.choice(self.blocks))
                left -= 1
            else:
                self.control.io.receive()

    def rest(self, clean: bool):
        self.control.io.drain()
        if clean:
            for block in self.blocks:
                block.durable = block.acknowledged

    def cut(self, do):
        self.cutting = True
        do()
        try:
            self.control.io.drain()
        except (Disconnected, TimeoutError):
            pass

    def again(self):
        self.control.close()
        self.control = nvme.Controller(self.server.port, self.nqn)
        self.cutting = False
        for block in self.blocks:
            self.verify(block)

    def verify(self, block):
        status, _, data = self.control.io.ask(nvme.READ, nsid=1, read=self.bytes, words=self.where(block))
        if status not in (0, nvme.ABSENT):
            raise Lost(f"block {block.number}: status {status:#x}")
        fits = self.judge(block, block.durable, None if status else data)
        words = nvme.at(block.number * self.sectors, self.sectors + 1)
        _, told = self.control.io.must(nvme.EXISTS, nsid=1, read=1, words=words)
        if (told[0] == 0) != (status != 0):
            raise Lost(f"block {block.number}: a read says {status:#x}, Exists {told[0]}")
        self.tally["verified"] += 1
        self.tally["undone"] += not fits & block.states[-1]
        block.busy, block.durable, block.acknowledged = False, 0, 0
        block.states = [fits]

    def close(self):
        self.control.close()

    def count(self) -> str:
        return ", ".join(f"{number} {what}" for what, number in self.tally.items())


class Case:
    """One drive: a preset, how it is told to be, where it keeps its data, and how it is spoken to."""

    def __init__(self, name, drive, sets, work, store):
        self.name, self.drive, self.sets, self.work, self.store = name, drive, sets, work, store

    def stops(self):
        return STOPS if self.store == "file" else ["power-cut"]


STOPS = ["SIGKILL under load", "SIGTERM", "power-cut", "SIGKILL", "SIGINT", "SIGKILL while mounting", "SIGTERM under load"]


# Those that hosts do not speak to as to a block drive.
WORK = {"zoned": ZoneWork, "jasmine-ssc": CacheWork}


# They announce that they keep nothing, and are not asked for more.
FORGETFUL = {"jasmine-nameless"}


def presets(pellucid) -> list[str]:
    """The drives of flash among them: a hard disk is not served."""
    lines = subprocess.run([pellucid, "presets"], capture_output=True, text=True, check=True).stdout.splitlines()
    files = {line.split()[0]: ROOT / f"presets/{line.split()[0]}.toml" for line in lines if line.split()}
    return [name for name, file in files.items() if file.exists() and 'kind = "disk"' not in file.read_text()]


def cases(pellucid) -> list[Case]:
    """Every preset with both stores; drives with chunks also without their host FTL; unprotected zones."""
    made = []
    for preset in presets(pellucid):
        if preset in FORGETFUL:
            continue
        for store in ("file", "ram"):
            made.append(Case(f"{preset} ({store})", preset, small(preset), WORK.get(preset, BlockWork), store))
            if "open-channel" in preset:
                made.append(Case(f"{preset}, chunks ({store})", preset, small(preset, "host.layers=[]"), ChunkWork, store))
            if preset == "zoned":
                made.append(Case(f"{preset}, unprotected ({store})", preset, small(preset, UNPROTECTED), ZoneWork, store))
                log = small(preset, 'host.layers=["zone-log"]')
                made.append(Case(f"{preset}, host FTL ({store})", preset, log, BlockWork, store))
    return made


def serve(case: Case, directory: str, pellucid):
    store = f"file:{directory}/drive.img" if case.store == "file" else "ram"
    # Big drives of which little is written.
    sets = [f"drive.media.store={store}", "drive.name=kept", *case.sets]
    return Server(directory, [case.drive], sets, "instant", nvme=True, options=["--quiet"], pellucid=pellucid)


def stop(how: str, server, work, rng, times=("instant",)):
    """Ends the drive or its power, and brings it back."""
    if how == "power-cut":
        return work.cut(lambda: server.ask(do="power-cut"))
    if "load" not in how:
        work.rest(clean="TERM" in how or "INT" in how)
    if how.startswith("SIGKILL"):
        work.cut(server.kill)
    else:
        work.cut(lambda: server.process.send_signal(signal.SIGINT if "INT" in how else signal.SIGTERM))
        status = server.process.wait(HANG_SECONDS)
        assert status == 0, f"the server ended with {status}: {server.log()[-2000:]}"
    if how == "SIGKILL while mounting":
        for _ in range(3):
            strangle(server, rng.uniform(0, 1.2) * server.start_seconds)
    server.command[server.command.index("--time") + 1] = rng.choice(times)
    began = time.monotonic()
    server.start()
    server.start_seconds = time.monotonic() - began
    return None


def strangle(server, seconds: float):
    """Starts the server and kills it before it serves, or soon after."""
    with server.log_path.open("a") as log:
        process = subprocess.Popen(server.command, stderr=log)
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def keep(case: Case, stops: int, rng, pellucid) -> str:
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as directory:
        began = time.monotonic()
        server = serve(case, directory, pellucid)
        server.start_seconds = time.monotonic() - began
        try:
            work = case.work(server, rng, f"{NQN_PREFIX}kept")
            assert work.keeps, "it announces neither FLUSH nor FUA"
            ways = list(case.stops())
            # With the modelled times more is under way when the end comes, and every start takes longer.
            times = ("instant", "x1") if stops > 2 else ("instant",)
            had = []
            # In memory there is one way only.
            for number in range(stops if case.store == "file" else (stops + 1) // 2):
                work.work()
                # The first way is the hardest one; the others come in any order.
                how = ways[number] if number < min(len(ways), stops // 2) else rng.choice(ways)
                had.append(how)
                try:
                    stop(how, server, work, rng, times)
                    work.again()
                except Lost as why:
                    raise Lost(f"stop {number + 1}, {how}: {why}") from None
            note = work.count()
            work.close()
            server.stop()
        except BaseException:
            server.kill()
            raise
        return f"{', '.join(sorted(set(had)))}; {note}; start {server.start_seconds:.1f} s"


def forgetful(pellucid) -> str:
    """A volatile drive promises nothing, and says so everywhere."""
    for preset, key in (("cosmos-plus", "drive.ftl.durability"), ("open-channel", "host.ftl.durability")):
        for store in ("file", "ram"):
            case = Case("volatile", preset, small(preset, f"{key}=volatile"), BlockWork, store)
            with tempfile.TemporaryDirectory() as directory:
                server = serve(case, directory, pellucid)
                try:
                    client = Client(server.socket)
                    assert client.flags & (SEND_FLUSH | SEND_FUA) == 0, f"{preset}: NBD flags {client.flags:#x}"
                    client.close()
                    control = nvme.Controller(server.port, f"{NQN_PREFIX}kept")
                    assert not control.write_cache(), f"{preset}: VWC is set"
                    control.close()
                    assert server.ask(do="status")["drives"][0]["keeps"] == "nothing"
                finally:
                    server.kill()
    return "no FLUSH, no FUA, no VWC, status"


def canary(pellucid) -> str:
    """The oracles find the loss that there is where more is expected than was announced."""
    found = []
    volatile = Case("volatile", "cosmos-plus", small("cosmos-plus", "ftl.durability=volatile"), BlockWork, "ram")
    unprotected = Case("unprotected", "zoned", small("zoned", UNPROTECTED), ZoneWork, "ram")
    cache = Case("cache", "jasmine-ssc", small("jasmine-ssc"), CacheWork, "ram")
    for case in (volatile, unprotected, cache):
        rng = random.Random(case.name)
        with tempfile.TemporaryDirectory() as directory:
            server = serve(case, directory, pellucid)
            try:
                work = case.work(server, rng, f"{NQN_PREFIX}kept")
                expect_everything(work)
                for _ in range(CANARY_CUTS):
                    work.work()
                    stop("power-cut", server, work, rng)
                    work.again()
            except Lost as why:
                found.append(str(why).split(",")[0])
            finally:
                server.kill()
    assert len(found) == 3, f"{CANARY_CUTS} power cuts of drives that forget, and the oracles find {found}"
    return "; ".join(found)


def expect_everything(work):
    """More than the drive announces: everything that was acknowledged."""
    work.cached = False
    if isinstance(work, BlockWork):
        work.checker.through = work.checker.bare = True


def announced(pellucid) -> list[str]:
    """The rows of the table in docs/reference/durability.md, as the drives themselves tell."""
    rows = []
    for preset in presets(pellucid):
        wishes = [("as it is", [])]
        volatile = [key for key in VOLATILE if takes(preset, key)]
        if volatile:
            wishes.append(("volatile", volatile))
        elif preset == "zoned":
            wishes.append(("buffer = volatile", [UNPROTECTED]))
        for wish, sets in wishes:
            told = set()
            for store in ("file", "ram"):
                with tempfile.TemporaryDirectory() as directory:
                    server = serve(Case("", preset, [*small(preset), *sets], None, store), directory, pellucid)
                    try:
                        told.add(row(server, preset))
                    finally:
                        server.kill()
            assert len(told) == 1, f"{preset}: the stores announce different things: {told}"
            rows.append(f"| `{preset}` | {wish} | file, ram | {told.pop()} |")
    return rows


def row(server, preset: str) -> str:
    flags = "-"
    if preset not in WORK:
        client = Client(server.socket)
        names = [name for name, bit in (("FLUSH", SEND_FLUSH), ("FUA", SEND_FUA)) if client.flags & bit]
        flags = " ".join(names) or "none"
        client.close()
    control = nvme.Controller(server.port, f"{NQN_PREFIX}kept", preset == "zoned")
    cached = control.write_cache()
    control.close()
    keeps = server.ask(do="status")["drives"][0]["keeps"]
    return f"{flags} | {'1' if cached else '0'} | {keeps}"


TABLE = ("<!-- announced: checked by tools/promises.py -->\n", "\n<!-- end -->")


def document(pellucid) -> str:
    rows = announced(pellucid)
    text = DOCUMENT.read_text()
    begin = text.index(TABLE[0]) + len(TABLE[0])
    table = text[begin:text.index(TABLE[1], begin)].splitlines()[2:]
    assert table == rows, "docs/reference/durability.md; it should be\n" + "\n".join(rows)
    return f"{len(rows)} rows"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pellucid", default=PELLUCID)
    parser.add_argument("--stops", type=int, default=2)
    parser.add_argument("--only", default="", help="drives whose name has this in it")
    parser.add_argument("--seed", type=int, default=time.time_ns() & 0xFFFF_FFFF)
    options = parser.parse_args()
    count = Count("promises")
    with tempfile.TemporaryDirectory() as directory:
        # A build that goes on beside must not change it.
        pellucid = shutil.copy(options.pellucid, directory)
        for case in cases(pellucid):
            if options.only in case.name:
                rng = random.Random(f"{options.seed} {case.name}")
                count.attempt(f"{case.name} (seed {options.seed})", lambda: keep(case, options.stops, rng, pellucid))
        if options.only in "announcements":
            count.attempt("canary", lambda: canary(pellucid))
            count.attempt("volatile drives", lambda: forgetful(pellucid))
            count.attempt("announcements", lambda: document(pellucid))
    sys.exit(0 if count.end() else 1)


if __name__ == "__main__":
    main()
