"""Drives in service: `pellucid serve` as a child of this process, broken on demand.

    with pl.serve("jasmine") as drive:
        disk = drive.open()
        disk.write(0, b"x" * 512)
        drive.fault("io-error:on=read,range=0-4096")
        drive.power_cut()
"""
from __future__ import annotations

import json
import os
import shutil
import socket
import struct
import subprocess
import tempfile
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from . import words
from ._pellucid import Error

#: A server that has not stopped by itself after this many seconds is killed.
STOP_SECONDS = 30
#: Lines of the log that are kept for messages.
LINES_KEPT = 200


def command() -> str:
    """The command `pellucid`: what PELLUCID names, what PATH has, or that of the checkout around the working directory."""
    if named := os.environ.get("PELLUCID"):
        return named
    if found := shutil.which("pellucid"):
        return found
    here = Path.cwd()
    for place in [here, *here.parents]:
        for profile in ("release", "debug"):
            built = place / "target" / profile / "pellucid"
            if built.is_file() and (place / "Cargo.toml").is_file():
                return str(built)
    raise Error("pellucid: the command was not found; allowed: PELLUCID=FILE, on PATH (make install), or built in this checkout (make build)")


class Served:
    """A drive in service. Made by `serve`."""

    def __init__(self, words_: list[str], directory: str, protocols: set[str]) -> None:
        self._control = os.path.join(directory, "control")
        self._child = subprocess.Popen(
            # A server whose parent is killed stops, as its input ends.
            [command(), "serve", *words_, "--control", self._control, "--log-format", "json", "--until-input-ends"],
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace",
        )
        self._reach: dict[str, dict[str, str]] = {}
        self._missing = set(protocols)
        self._ready = threading.Event()
        #: Events of the log, the newest last.
        self.events: list[dict[str, str]] = []
        self._said: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self._ready.wait()
        if self._missing:
            self.stop()
            why = "; ".join(self._said[-5:]) or f"exit status {self._child.returncode}"
            raise Error(f"serve: the drive is not reached over {', '.join(sorted(self._missing))}: {why}")

    def _read(self) -> None:
        """Reads the log to its end: a server whose log nobody reads drops lines of it."""
        for line in self._child.stderr or ():
            try:
                event = json.loads(line)
            except ValueError:
                self._said.append(line.strip())
                del self._said[:-LINES_KEPT]
                continue
            self.events.append(event)
            if event.get("event") == "reachable":
                self._reach.setdefault(event["protocol"], event)
                self._missing.discard(event["protocol"])
            elif event.get("event") == "ready":
                self._ready.set()
        self._ready.set()

    @property
    def uri(self) -> str:
        """The address for NBD clients, such as `nbd+unix:///jasmine?socket=...`."""
        if "nbd" not in self._reach:
            raise Error("uri: not served over NBD; allowed: with nbd=True")
        return self._reach["nbd"]["uri"]

    @property
    def nvme_connect(self) -> str:
        """The command that attaches it over NVMe/TCP."""
        if "nvme-tcp" not in self._reach:
            raise Error("nvme_connect: not served over NVMe/TCP; allowed: with nvme_tcp=PORT")
        return self._reach["nvme-tcp"]["command"]

    @property
    def pid(self) -> int:
        """The number of the server's process."""
        return self._child.pid

    def status(self) -> dict[str, Any]:
        """What the server and its drives count."""
        return self._ask("status")

    def power_cut(self, drive: str | None = None) -> dict[str, Any]:
        """Cuts the power and switches it on again; the drive has mounted when this returns."""
        return self._ask("power-cut", *(["--drive", drive] if drive else []))

    def fault(self, fault: str | None = None, *, drive: str | None = None, **options: Any) -> dict[str, Any]:
        """Breaks the drive from now on. `fault` is what hosts meet (`"io-error:on=write,rate=0.01,seed=7"`); options are those of
        `pellucid fault`: `program_fail=0.001`, `slow_die="5x20"`, `kill_die=5`, `wear_out=True`."""
        line = ["--drive", drive] if drive else []
        line += ["--inject", fault] if fault else []
        for key, value in options.items():
            name = f"--{key.replace('_', '-')}"
            line += [name] if value is True else [name, str(value)]
        return self._ask("fault", *line)

    def clear_faults(self) -> dict[str, Any]:
        """From now on hosts meet no fault of `fault("...")` any more."""
        return self._ask("fault", "--clear")

    def open(self) -> Disk:
        """The drive as a disk of this process, over NBD on a Unix socket."""
        name, _, path = self.uri.removeprefix("nbd+unix:///").partition("?socket=")
        if not path:
            raise Error(f"open: {self.uri}: allowed: a server on a Unix socket, as nbd=True makes it")
        return Disk(path, name)

    def _ask(self, *line: str) -> dict[str, Any]:
        done = subprocess.run(
            [command(), line[0], "--control", self._control, *line[1:]], capture_output=True, text=True, errors="replace"
        )
        if done.returncode != 0:
            raise Error(done.stderr.strip().removeprefix("error: "))
        return json.loads(done.stdout)

    def kill(self) -> None:
        """Ends the server at once, as if its machine had lost power."""
        self._child.kill()
        self._end()

    def stop(self) -> None:
        """Stops the server."""
        self._child.terminate()
        try:
            self._child.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._child.kill()
        self._end()

    def _end(self) -> None:
        self._child.wait()
        self._reader.join()
        for stream in (self._child.stdin, self._child.stderr):
            if stream:
                stream.close()


class serve:
    """Serves a drive as long as a `with` block lasts: `with serve("jasmine", faults=["power-cut@1000ops"]) as drive:`.

    `drive` is a preset, a TOML file, an image or `file:PATH,size=...`. `nbd=True` listens on a Unix socket of its own; an address is
    taken as `--nbd` takes it, `nvme_tcp` likewise. A modelled drive keeps its data in memory unless `media.store` says otherwise.
    `time` is `instant`, `paced` or `x10`.
    """

    def __init__(
        self,
        drive: str | os.PathLike[str],
        *,
        nbd: bool | str = True,
        nvme_tcp: int | str | None = None,
        faults: Iterable[str] = (),
        time: str = "instant",
        overrides: Mapping[str, Any] | None = None,
        **tables: Any,
    ) -> None:
        if not nbd and nvme_tcp is None:
            raise Error("serve: nothing to listen on; allowed: nbd=True, nvme_tcp=PORT")
        name = os.fspath(drive)
        sets = words.sets(overrides or {}) + words.sets(tables)
        if not name.startswith("file:") and not any(one.startswith(("media.store=", "drive.media.store=")) for one in sets):
            sets.append("media.store=ram")
        self._line = [name, "--time", time]
        for one in sets:
            self._line += ["--set", one]
        for fault in [faults] if isinstance(faults, str) else faults:
            self._line += ["--fault", fault]
        self._nbd, self._nvme_tcp = nbd, nvme_tcp
        self._directory: tempfile.TemporaryDirectory[str] | None = None
        self._served: Served | None = None

    def start(self) -> Served:
        """Starts the server, for programs without a `with` block; `stop()` ends it."""
        self._directory = tempfile.TemporaryDirectory(prefix="pellucid-")
        line, protocols = list(self._line), set()
        if self._nbd:
            line += ["--nbd", f"unix:{self._directory.name}/nbd" if self._nbd is True else self._nbd]
            protocols.add("nbd")
        if self._nvme_tcp is not None:
            line += ["--nvme-tcp", str(self._nvme_tcp)]
            protocols.add("nvme-tcp")
        try:
            self._served = Served(line, self._directory.name, protocols)
        except BaseException:
            self._directory.cleanup()
            raise
        return self._served

    def stop(self) -> None:
        """Stops the server."""
        if self._served:
            self._served.stop()
        if self._directory:
            self._directory.cleanup()

    def __enter__(self) -> Served:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()


class Disk:
    """A disk over NBD, enough of the protocol for tests. What the drive answers with an error is an OSError."""

    _READ, _WRITE, _DISCONNECT, _FLUSH, _TRIM = range(5)

    def __init__(self, path: str, name: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(path)
        magic, have_option, _ = struct.unpack(">8sQH", self._receive(18))
        if magic != b"NBDMAGIC":
            raise Error(f"{path}: no NBD server")
        encoded = name.encode()
        # Fixed newstyle, no zeroes behind the answer; then the export by its name.
        self._socket.sendall(struct.pack(">IQII", 3, have_option, 1, len(encoded)) + encoded)
        #: Bytes of the disk.
        self.size, _ = struct.unpack(">QH", self._receive(10))

    def _receive(self, count: int) -> bytes:
        data = bytearray()
        while len(data) < count:
            part = self._socket.recv(count - len(data))
            if not part:
                raise ConnectionError("the drive has gone away")
            data += part
        return bytes(data)

    def _ask(self, kind: int, offset: int, length: int, data: bytes = b"") -> bytes:
        self._socket.sendall(struct.pack(">IHHQQI", 0x25609513, 0, kind, 0, offset, length) + data)
        _, error, _ = struct.unpack(">IIQ", self._receive(16))
        if error:
            raise OSError(error, os.strerror(error))
        return self._receive(length) if kind == self._READ else b""

    def read(self, offset: int, length: int) -> bytes:
        """Reads bytes; offset and length are whole sectors."""
        return self._ask(self._READ, offset, length)

    def write(self, offset: int, data: bytes) -> None:
        """Writes bytes; offset and length are whole sectors."""
        self._ask(self._WRITE, offset, len(data), data)

    def flush(self) -> None:
        """Makes earlier writes durable."""
        self._ask(self._FLUSH, 0, 0)

    def trim(self, offset: int, length: int) -> None:
        """Has the drive forget bytes."""
        self._ask(self._TRIM, offset, length)

    def close(self) -> None:
        """Ends the connection."""
        self._socket.sendall(struct.pack(">IHHQQI", 0x25609513, 0, self._DISCONNECT, 0, 0, 0))
        self._socket.close()

    def __enter__(self) -> Disk:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
