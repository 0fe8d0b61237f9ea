"""An NBD client of the tests' own: requests are pipelined, and each is answered by a call with its outcome.

Fixed newstyle, NBD_OPT_EXPORT_NAME, simple replies: the least that a test needs, and nothing that a library would hide.
One connection; not for several threads.
"""
import socket
import struct

READ, WRITE, DISCONNECT, FLUSH, TRIM, WRITE_ZEROES = 0, 1, 2, 3, 4, 6
FUA = 1
REPLY_BYTES = 16


class Disconnected(Exception):
    """The server has gone."""


class Client:
    """A connection in transmission."""

    def __init__(self, path: str, export: str = "", seconds: float = 900):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(seconds)
        self.input = bytearray()
        self.pending, self.cookie = {}, 0
        try:
            self.socket.connect(path)
            greeting = self.exactly(18)
            assert greeting[:16] == b"NBDMAGICIHAVEOPT", greeting
            # Fixed newstyle, no zeroes; then option 1, the export's name.
            name = export.encode()
            self.socket.sendall(struct.pack(">I8sII", 3, b"IHAVEOPT", 1, len(name)) + name)
            self.bytes, self.flags = struct.unpack(">QH", self.exactly(10))
        except OSError as why:
            raise Disconnected(str(why)) from why

    def exactly(self, length: int) -> bytes:
        while len(self.input) < length:
            self.fill()
        taken = bytes(self.input[:length])
        del self.input[:length]
        return taken

    def fill(self):
        try:
            more = self.socket.recv(1 << 20)
        except ConnectionError as why:
            raise Disconnected(str(why)) from why
        if not more:
            raise Disconnected("the server closed the connection")
        self.input += more

    def send(self, command: int, offset: int, length: int, answered, data: bytes = b"", flags: int = 0):
        """Sends a request. `answered(error, data)` is called from `receive` with its outcome."""
        self.cookie += 1
        self.pending[self.cookie] = (answered, length if command == READ else 0)
        try:
            self.socket.sendall(struct.pack(">IHHQQI", 0x25609513, flags, command, self.cookie, offset, length) + data)
        except ConnectionError as why:
            raise Disconnected(str(why)) from why

    def receive(self):
        """Waits for the next reply and hands it to its caller."""
        magic, error, cookie = struct.unpack(">IIQ", self.exactly(REPLY_BYTES))
        assert magic == 0x67446698, hex(magic)
        answered, length = self.pending.pop(cookie)
        answered(error, self.exactly(length) if error == 0 else b"")

    def drain(self):
        """Waits for all replies."""
        while self.pending:
            self.receive()

    def close(self):
        self.socket.close()
