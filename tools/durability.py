"""Whether a drive keeps what it promised: self-describing blocks, versions, and what may be read when.

Each block has versions 1, 2, 3, ...; a version is data that name block and version, or a trim, which reads as zeros. One
request to a block is under way at a time, so that versions are ordered:

    durable <= acknowledged <= issued

    durable        covered by a flush that was acknowledged (and sent after the version's own acknowledgement), or by FUA
    acknowledged   the drive has said yes
    issued         sent; perhaps acknowledged, perhaps refused by a power cut

A read brings a version from `acknowledged` (when the read was sent) to `issued` (when it was answered). After a power cut or
the death of the server it brings one from `durable` on, whole: an older one is a lost write, anything else is corruption.
What was seen after a cut is on the media, so it becomes the new `durable`, and the versions that were not seen then must
never be seen again.

A request may reach the drive before or after a cut that happens while it is under way. So from the moment at which a cut is
asked for, nothing new is sent, a flush proves nothing, and a read may bring what was durable when it was sent.
"""
import random

from nbd_client import FLUSH, FUA, READ, TRIM, WRITE, WRITE_ZEROES, Client, Disconnected


class Lost(AssertionError):
    """The drive has broken its promise."""


class Block:
    """What is known about one block."""

    __slots__ = ("durable", "acknowledged", "issued", "busy", "trims", "survivor", "void")

    def __init__(self):
        self.durable = self.acknowledged = self.issued = 0
        # The version that the last cut left, and the last one issued before it.
        self.survivor = self.void = 0
        self.busy = False
        # Versions that read as zeros; version 0 is a fresh drive's. One that a later version has made durable stays: a read
        # that was sent before may still bring it.
        self.trims = {0}

    def settle(self, durable: int):
        self.durable = max(self.durable, durable)


class Checker:
    """Writes, trims, reads and flushes blocks of a range over several connections, and judges what comes back."""

    def __init__(self, connect, seed: int, first_byte: int, blocks: int, block_bytes: int = 16384, connections: int = 2,
                 depth: int = 8):
        self.connect, self.connections, self.depth = connect, connections, depth
        self.first_byte, self.block_bytes = first_byte, block_bytes
        self.random, self.seed = random.Random(seed), seed
        self.blocks = [Block() for _ in range(blocks)]
        self.clients = []
        # The drive has no volatile cache: a write that was acknowledged is durable.
        self.through = False
        # It announces neither FLUSH nor FUA.
        self.bare = False
        self.cutting = False
        self.count = dict.fromkeys(("reads", "writes", "fua_writes", "trims", "flushes", "refused", "verified",
                                    "survivors", "undone"), 0)

    def content(self, block: int, version: int) -> bytes:
        body = random.Random(f"{self.seed}/{block}/{version}").randbytes(self.block_bytes - 16)
        return block.to_bytes(8, "little") + version.to_bytes(8, "little") + body

    def open(self):
        self.clients = [self.connect() for _ in range(self.connections)]

    def close(self):
        for client in self.clients:
            client.close()
        self.clients = []

    def offset(self, block: int) -> int:
        return self.first_byte + block * self.block_bytes

    def act(self, client):
        """Sends one request of a random kind."""
        number = self.random.randrange(len(self.blocks))
        block, kind = self.blocks[number], self.random.random()
        if kind < 0.02 and not self.bare:
            self.flush(client)
        elif kind < 0.35 or block.busy:
            self.read(client, number)
        elif kind < 0.42:
            self.forget(client, number)
        else:
            self.write(client, number, WRITE, FUA if kind < 0.47 and not self.bare else 0)

    def forget(self, client, number: int):
        """Trims a few blocks, or writes zeros to them, one time of four with FUA."""
        count = 1
        while count < self.random.choice((1, 4, 64)) and number + count < len(self.blocks) and not self.blocks[number + count].busy:
            count += 1
        flags = FUA if self.random.random() < 0.25 and not self.bare else 0
        self.write(client, number, self.random.choice((TRIM, WRITE_ZEROES)), flags, count)

    def write(self, client, number: int, command: int, flags: int, count: int = 1):
        """Writes a block, or forgets `count` of them with one request."""
        versions = []
        for block in self.blocks[number:number + count]:
            block.issued += 1
            block.busy = True
            versions.append((block, block.issued))
            if command != WRITE:
                block.trims.add(block.issued)

        def answered(error, _):
            for block, _ in versions:
                block.busy = False
            if self.refused(error):
                return
            self.count["fua_writes" if flags and command == WRITE else "writes" if command == WRITE else "trims"] += 1
            for block, version in versions:
                block.acknowledged = version
                if flags or (self.through and command == WRITE):
                    block.settle(version)

        data = self.content(number, versions[0][1]) if command == WRITE else b""
        client.send(command, self.offset(number), self.block_bytes * count, answered, data, flags)

    def refused(self, error: int) -> bool:
        """Whether a request failed, which only a cut may cause."""
        if error and not self.cutting:
            raise Lost(f"a request fails with error {error} without a power cut")
        self.count["refused"] += error != 0
        return error != 0

    def flush(self, client):
        covered = [(block, block.acknowledged) for block in self.blocks if block.acknowledged > block.durable]

        def answered(error, _):
            if self.refused(error) or self.cutting:
                return
            self.count["flushes"] += 1
            for block, version in covered:
                block.settle(version)

        client.send(FLUSH, 0, 0, answered)

    def read(self, client, number: int):
        block = self.blocks[number]
        durable, oldest = block.durable, block.acknowledged

        def answered(error, data):
            if self.refused(error):
                return
            self.count["reads"] += 1
            self.version_of(number, data, durable if self.cutting else oldest)

        client.send(READ, self.offset(number), self.block_bytes, answered)

    def version_of(self, number: int, data: bytes, oldest: int) -> int:
        """The version that was read, which must be `oldest` or later."""
        block, version = self.blocks[number], int.from_bytes(data[8:16], "little")
        what = f"block {number}, {block.durable=}, {block.acknowledged=}, {block.issued=}"
        if not any(data):
            zeros = [v for v in block.trims if v >= oldest]
            if not zeros:
                raise Lost(f"{what}: zeros, where version {oldest} or later is due; trims: {sorted(block.trims)}")
            # Several trims look the same; the earliest claims least.
            return min(zeros)
        if int.from_bytes(data[:8], "little") != number or not 0 < version <= block.issued or version in block.trims:
            raise Lost(f"{what}: foreign data, which call themselves block {data[:8].hex()} version {version}")
        if data != self.content(number, version):
            raise Lost(f"{what}: version {version} is not whole")
        if version < oldest:
            raise Lost(f"{what}: version {version}, where {oldest} or later is due")
        if version <= block.void and version != block.survivor:
            raise Lost(f"{what}: version {version} is back, after {block.survivor} was read behind a power cut")
        return version

    def work(self, until):
        """Keeps requests under way until `until()`."""
        while not until():
            for client in self.clients:
                while len(client.pending) < self.depth:
                    self.act(client)
                client.receive()

    def drain(self):
        for client in self.clients:
            client.drain()

    def cut(self, do):
        """`do` cuts the power, or ends the server, while requests are under way."""
        self.cutting = True
        do()
        try:
            self.drain()
        except Disconnected:
            pass
        for block in self.blocks:
            block.busy = False

    def verify_after_cut(self):
        """Reads every block and takes what it finds as the new state."""
        self.cutting = False
        client = self.clients[0]
        for number in range(len(self.blocks)):
            client.send(READ, self.offset(number), self.block_bytes, self.survived(number))
            if len(client.pending) >= self.depth:
                client.receive()
        client.drain()

    def survived(self, number: int):
        block = self.blocks[number]

        def answered(error, data):
            if error:
                raise Lost(f"block {number}: cannot be read after a power cut, error {error}")
            found = self.version_of(number, data, block.durable)
            self.count["verified"] += 1
            self.count["survivors"] += found > block.durable
            self.count["undone"] += found < block.acknowledged
            block.acknowledged = block.durable = block.survivor = found
            block.void = block.issued
            block.trims = set() if any(data) else {found}

        return answered


def connector(path: str, export: str = ""):
    return lambda: Client(path, export)
