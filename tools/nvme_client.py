"""An NVMe/TCP host of the tests' own: one controller, one I/O queue, and what a test needs of three command sets.

Data go to the drive when it asks for them (R2T), never in the capsule, but for those of Connect. No digests. Commands may be
pipelined; each is answered by a call with its status and what came back. One thread.
"""
import socket
import struct

from nbd_client import Disconnected

FLUSH, WRITE, READ, WRITE_ZEROES, DSM, ZONE_SEND, ZONE_RECEIVE, APPEND = 0x00, 0x01, 0x02, 0x08, 0x09, 0x79, 0x7A, 0x7D
FINISH_ZONE, RESET_ZONE = 2, 4
# Of a cache (docs/reference/namespaces.md).
WRITE_CLEAN, WRITE_DIRTY, EVICT, CLEAN, EXISTS, ABSENT = 0xA1, 0xA5, 0xA8, 0xAC, 0xAE, 0x7C0
IDENTIFY, GEOMETRY, FABRICS = 0x06, 0xE2, 0x7F
FUA, DEALLOCATE = 1 << 30, 1 << 2
IC_REQ, IC_RESP, COMMAND, RESPONSE, H2C_DATA, C2H_DATA, R2T = 0, 1, 4, 5, 6, 7, 9
# Of a C2HData: the command ended well, and no response follows.
SUCCESS = 1 << 3
# Transport SGL data block: the data come and go in PDUs of their own. In the capsule: data block with an offset.
TRANSPORT, IN_CAPSULE = 0x5A, 0x01
# CC: enabled, entries of 64 and 16 bytes; all command sets that the drive has.
ENABLE, ALL_SETS = 1 | 6 << 16 | 4 << 20, 6 << 4
HOST_NQN = b"nqn.2014-08.org.nvmexpress:uuid:00000000-0000-4000-8000-000000000008"
DEPTH = 64


class Failed(AssertionError):
    """A command that had to succeed."""


class Queue:
    """A connection: the admin queue, or an I/O queue."""

    def __init__(self, port: int, seconds: float):
        self.pending, self.cid, self.input = {}, 0, bytearray()
        try:
            self.socket = socket.create_connection(("127.0.0.1", port), timeout=seconds)
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.socket.sendall(struct.pack("<BBBBIHBBI", IC_REQ, 0, 128, 0, 128, 0, 0, 0, 0) + bytes(112))
            self.data_max = struct.unpack_from("<I", self.exactly(128), 12)[0]
        except OSError as why:
            raise Disconnected(str(why)) from why

    def exactly(self, length: int) -> bytes:
        while len(self.input) < length:
            try:
                more = self.socket.recv(1 << 20)
            except ConnectionError as why:
                raise Disconnected(str(why)) from why
            if not more:
                raise Disconnected("the drive closed the connection")
            self.input += more
        taken = bytes(self.input[:length])
        del self.input[:length]
        return taken

    def put(self, data: bytes):
        try:
            self.socket.sendall(data)
        except ConnectionError as why:
            raise Disconnected(str(why)) from why

    def send(self, opcode: int, answered, words: dict = {}, nsid: int = 0, data: bytes = b"", read: int = 0, inline=False,
             field: bytes = b""):
        """`words`: command dwords by number; `field`: bytes from dword 10 on, of fabrics commands (from byte 40). `answered(status,
        result, data)` is called from `receive`."""
        self.cid = (self.cid + 1) % 0xFFF0
        while self.cid in self.pending:
            self.cid = (self.cid + 1) % 0xFFF0
        entry = bytearray(64)
        struct.pack_into("<BBHI", entry, 0, opcode, 0x40, self.cid, nsid)
        length = max(len(data), read)
        struct.pack_into("<QIHBB", entry, 24, 0, length, 0, 0, IN_CAPSULE if inline else TRANSPORT)
        for number, word in words.items():
            struct.pack_into("<I", entry, 4 * number, word & 0xFFFFFFFF)
        entry[40:40 + len(field)] = field
        self.pending[self.cid] = (answered, data, bytearray(read))
        inside = data if inline else b""
        header = struct.pack("<BBBBI", COMMAND, 0, 72, 72 if inside else 0, 72 + len(inside))
        self.put(header + entry + inside)

    def receive(self):
        """Takes the next PDU; a command that it ends is answered."""
        kind, flags, header, offset, length = struct.unpack("<BBBBI", self.exactly(8))
        body = self.exactly(length - 8)
        if kind == RESPONSE:
            result, cid, status = struct.unpack_from("<Q4xHH", body, 0)
            answered, _, data = self.pending.pop(cid)
            answered(status >> 1 & 0x7FF, result, bytes(data))
        elif kind == C2H_DATA:
            cid, at, size = struct.unpack_from("<H2xII", body, 0)
            self.pending[cid][2][at:at + size] = body[offset - 8:offset - 8 + size]
            if flags & SUCCESS:
                answered, _, data = self.pending.pop(cid)
                answered(0, 0, bytes(data))
        elif kind == R2T:
            cid, tag, at, size = struct.unpack_from("<HHII", body, 0)
            data, end = self.pending[cid][1], at + size
            while at < end:
                part = data[at:min(end, at + self.data_max)]
                last = 4 if at + len(part) == end else 0
                self.put(struct.pack("<BBBBIHHII4x", H2C_DATA, last, 24, 24, 24 + len(part), cid, tag, at, len(part)) + part)
                at += len(part)
        else:
            raise Disconnected(f"the drive ended the connection: PDU {kind}")

    def ask(self, opcode: int, **what) -> tuple[int, int, bytes]:
        """One command and its end: status, result, data."""
        ends = []
        self.send(opcode, lambda *end: ends.append(end), **what)
        while not ends:
            self.receive()
        return ends[0]

    def must(self, opcode: int, **what) -> tuple[int, bytes]:
        status, result, data = self.ask(opcode, **what)
        if status:
            raise Failed(f"opcode {opcode:#x} {what.get('words')}: status {status:#x}")
        return result, data

    def drain(self):
        while self.pending:
            self.receive()

    def connect(self, nqn: str, queue: int, controller: int) -> int:
        data = bytearray(1024)
        struct.pack_into("<16sH", data, 0, b"pellucid-durable", controller)
        data[256:256 + len(nqn)] = nqn.encode()
        data[512:512 + len(HOST_NQN)] = HOST_NQN
        field = struct.pack("<HHHBxI", 0, queue, DEPTH - 1, 0, 0)
        return self.must(FABRICS, nsid=1, data=bytes(data), inline=True, field=field)[0] & 0xFFFF


class Controller:
    """A subsystem's controller with an I/O queue, `io`."""

    def __init__(self, port: int, nqn: str, zoned: bool = False, seconds: float = 60):
        self.admin = Queue(port, seconds)
        controller = self.admin.connect(nqn, 0, 0xFFFF)
        # Property Set is fabrics command type 0: CC.
        self.admin.must(FABRICS, nsid=0, field=struct.pack("<B3xIQ", 0, 0x14, ENABLE | (ALL_SETS if zoned else 0)))
        self.io = Queue(port, seconds)
        self.io.connect(nqn, 1, controller)

    def identify(self, cns: int, nsid: int = 0, csi: int = 0) -> bytes:
        return self.admin.must(IDENTIFY, nsid=nsid, words={10: cns, 11: csi << 24}, read=4096)[1]

    def write_cache(self) -> bool:
        """VWC: there is a volatile write cache, and a flush empties it."""
        return self.identify(1)[525] & 1 == 1

    def geometry(self) -> bytes:
        return self.admin.must(GEOMETRY, nsid=1, read=4096)[1]

    def close(self):
        for queue in (self.admin, self.io):
            queue.socket.close()


def at(lba: int, sectors: int, flags: int = 0) -> dict:
    """Dwords 10 to 12 of a command on a range."""
    return {10: lba & 0xFFFFFFFF, 11: lba >> 32, 12: sectors - 1 | flags}


def zone_send(zone_lba: int, action: int) -> dict:
    return {10: zone_lba & 0xFFFFFFFF, 11: zone_lba >> 32, 13: action}


class Zone:
    """A zone as the drive reports it."""

    def __init__(self, descriptor: bytes):
        self.state, self.capacity, self.start, self.pointer = \
            descriptor[1] >> 4, *struct.unpack_from("<QQQ", descriptor, 8)
        self.written = 0 if self.state == 1 else self.capacity if self.state == 0xE else self.pointer - self.start


def report_zones(queue: Queue, first: int, count: int) -> list[Zone]:
    """`count` zones from sector `first` on."""
    length = 64 + 64 * count
    words = {10: first & 0xFFFFFFFF, 11: first >> 32, 12: length // 4 - 1, 13: 1 << 16}
    data = queue.must(ZONE_RECEIVE, nsid=1, words=words, read=length)[1]
    told = min(struct.unpack_from("<Q", data)[0], count)
    return [Zone(data[64 + 64 * i:128 + 64 * i]) for i in range(told)]
