#!/usr/bin/env python3
"""Crowds, slow and vanished peers against a served drive: nobody else is kept waiting, and memory stays bounded.

    tools/hostile.py [--pellucid target/debug/pellucid] [--only NAME]

What single peers can say wrong is tested beside the code (crates/serve: hostile.rs) and fuzzed; this is about many, with a
process of its own to measure. One line for each test with what was measured, and a plain count.
"""
import contextlib
import resource
import socket
import struct
import subprocess
import threading
import time
from pathlib import Path

from nbd_client import READ, WRITE, Client
from served import HANG_SECONDS, ROOT, Skip, free_port, main, program, served

DRIVE = ROOT / "bench/serve-ram.toml"
CROWD = 1000
MIB = 1 << 20
WORK_BYTES = 16 << 10
# What a connection may cost that says nothing, and one that has 16 KiB under way.
IDLE_BYTES_MAX = 8 << 10
BUSY_BYTES_MAX = IDLE_BYTES_MAX + 2 * WORK_BYTES
# Servers close connections that come to nothing after 10 s.
DOOR_SECONDS = 10
# How often an honest client must be answered while hostile ones are there. A server that waits for one of them answers once or twice.
TURNS_MIN = 20
# Writes of which the end never comes: how many, how long each, and what all of them may hold (the bound of 256 MiB, and what else a
# server takes besides: kept buffers, data of the drive).
HALF, PAYLOAD, HALF_SECONDS = 10, 32 * MIB, 7
HELD_BYTES_MAX = (256 + 64) * MIB
QUESTIONS = 2000
# Small reads beside large ones, and what may be read between two of them: a quarter of what the others have outstanding, for which a small
# one waits if it has no turn of its own.
SMALL, LARGE_BYTES_MAX = 300, 64 * MIB
NBD_FLAGS = struct.pack(">I", 3)
NVME_IC_REQ = bytes([0, 0, 128, 0, 128, 0, 0, 0]) + bytes(120)


def many_descriptors(count: int = 3 * CROWD):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < count:
        raise Skip(f"only {hard} open files are allowed; {count} are needed")
    if soft < count:
        resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))


@contextlib.contextmanager
def server(pellucid, *options, sets=()):
    """A server with an NBD port beside its Unix socket, and NVMe/TCP."""
    port = free_port()
    options = ["--nbd", str(port), *options]
    with served([DRIVE], sets, "instant", nvme=True, options=options, pellucid=pellucid) as server:
        server.nbd_port = port
        yield server


def resident_bytes(server) -> int:
    pages = Path(f"/proc/{server.process.pid}/statm").read_text().split()[1]
    return int(pages) * resource.getpagesize()


def connections(server) -> int:
    """As the server counts them, without the one that asks."""
    return server.ask(do="status")["connections"] - 1


def until(server, wanted: int):
    end = time.monotonic() + HANG_SECONDS
    while (found := connections(server)) != wanted:
        assert time.monotonic() < end, f"{found} connections, not {wanted}, after {HANG_SECONDS} s"
        time.sleep(0.05)


def dial(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), 20)


class Witness:
    """An honest client. How long it waits is told, not judged: that is the machine's doing, too."""

    def __init__(self, server):
        self.client, self.longest, self.count = Client(server.socket), 0.0, 0

    def look(self):
        data = self.count.to_bytes(8, "little") * 512
        began = time.monotonic()
        self.client.send(WRITE, 0, 4096, self.expect(b""), data)
        self.client.send(READ, 0, 4096, self.expect(data))
        self.client.drain()
        self.longest, self.count = max(self.longest, time.monotonic() - began), self.count + 1

    @staticmethod
    def expect(data):
        def answered(error, found):
            assert error == 0 and found == data, "the honest client is served wrongly"

        return answered

    def verdict(self) -> str:
        return f"an honest client waited {self.longest * 1e3:.1f} ms at most ({self.count} turns)"


def crowd(pellucid):
    """A thousand connections that all work, leave and come again: memory per connection, and none that stays behind."""
    many_descriptors()
    with server(pellucid, "--connections", str(CROWD + 10), sets=["media.blocks=32"]) as serving:
        witness = Witness(serving)
        fresh = resident_bytes(serving)
        clients = [Client(serving.socket) for _ in range(CROWD)]
        until(serving, CROWD + 1)
        idle = (resident_bytes(serving) - fresh) / CROWD
        for client in clients:
            client.close()
        # The drive keeps in memory what its flash holds; every block of it has been written before more is measured.
        for turn in range(2):
            for offset in range(0, witness.client.bytes - MIB, MIB):
                witness.client.send(WRITE, offset, MIB, Witness.expect(b""), bytes([turn]) * MIB)
                witness.client.drain()
        witness.look()
        until(serving, 1)
        before, peaks, rests = resident_bytes(serving), [], []
        for _ in range(3):
            peaks.append(work_together(serving, witness))
            until(serving, 1)
            rests.append(resident_bytes(serving))
            witness.look()
        growth, busy = (rests[2] - rests[0]) / CROWD, (max(peaks) - before) / CROWD
        assert idle < IDLE_BYTES_MAX, f"{idle:.0f} bytes for an idle connection"
        assert growth < IDLE_BYTES_MAX, f"{growth:.0f} bytes more per connection after two more crowds: {rests}"
        assert busy < BUSY_BYTES_MAX, f"{busy:.0f} bytes for a connection at work"
        return f"{idle:.0f} bytes for an idle connection, {busy:.0f} for one at work (16 KiB each), {growth:.0f} left " \
               f"behind; {witness.verdict()}"


def work_together(serving, witness) -> int:
    """A crowd in which each writes and reads 16 KiB and leaves. Memory at its height."""
    clients = [Client(serving.socket) for _ in range(CROWD)]
    for number, client in enumerate(clients):
        client.send(WRITE, (1 + number) * WORK_BYTES, WORK_BYTES, Witness.expect(b""), bytes([number % 251]) * WORK_BYTES)
    witness.look()
    for number, client in enumerate(clients):
        client.drain()
        client.send(READ, (1 + number) * WORK_BYTES, WORK_BYTES, Witness.expect(bytes([number % 251]) * WORK_BYTES))
    for client in clients:
        client.drain()
    peak = resident_bytes(serving)
    for client in clients:
        client.close()
    return peak


def no_descriptors(pellucid):
    """More peers than the server may have open files: it goes on, and waiting peers are served when others leave."""
    many_descriptors()
    with server(pellucid) as serving:
        resource.prlimit(serving.process.pid, resource.RLIMIT_NOFILE, (64, 64))
        witness = Witness(serving)
        crowd = [dial(serving.nbd_port) for _ in range(150)]
        # When the server gets to the crowd, and the line to the log, is the machine's business.
        end = time.monotonic() + HANG_SECONDS
        while witness.count < TURNS_MIN or "event=accept-failed" not in serving.log():
            assert time.monotonic() < end, "the test must run out of files"
            witness.look()
        for stream in crowd:
            stream.close()
        last = dial(serving.nbd_port)
        last.settimeout(HANG_SECONDS)
        assert last.recv(18)[:8] == b"NBDMAGIC", "served when the others have left"
        last.close()
        return witness.verdict()


def slow_and_silent(pellucid):
    """Slow loris: a thousand that say nothing, stop half-way, or drip byte by byte are disconnected in time."""
    many_descriptors()
    with server(pellucid, "--connections", str(CROWD + 10)) as serving:
        witness = Witness(serving)
        silent = [dial(serving.nbd_port) for _ in range(CROWD // 4)]
        stalled = [dial(serving.port) for _ in range(CROWD // 4)]
        half = [dial(serving.nbd_port) for _ in range(CROWD // 4)]
        dripping = [dial(serving.nbd_port) for _ in range(CROWD // 4)]
        for stream in stalled:
            stream.sendall(NVME_IC_REQ)
        for stream in half:
            stream.sendall(NBD_FLAGS + b"IHAVE")
            stream.shutdown(socket.SHUT_WR)
        until(serving, 1 + 3 * CROWD // 4)
        began, drops = time.monotonic(), NBD_FLAGS + b"IHAVEOPT" + struct.pack(">II", 1, 4000) + bytes(4000)
        turn, beside = 0, 0
        while connections(serving) > 1:
            assert time.monotonic() - began < DOOR_SECONDS + HANG_SECONDS, f"{connections(serving) - 1} are still there"
            for stream in dripping:
                with contextlib.suppress(OSError):
                    stream.send(drops[turn:turn + 1])
            turn += 1
            witness.look()
            beside += connections(serving) > CROWD // 2
        took = time.monotonic() - began
        for stream in silent + stalled + half + dripping:
            stream.close()
        assert beside >= TURNS_MIN, f"the honest client had {beside} turns beside all the others"
        assert took > DOOR_SECONDS / 2, f"all gone after {took:.1f} s, which is too soon to have tested anything"
        return f"all gone after {took:.1f} s; {witness.verdict()}"


def half_received(pellucid):
    """Payloads of which the last bytes never come, of more than all may hold together: memory stays within the bound, an honest
    client is served meanwhile, one with large writes has its turn, and peers that send nothing have to leave."""
    with server(pellucid) as serving:
        witness, before = Witness(serving), resident_bytes(serving)
        writers = []
        for _ in range(HALF):
            writer = Client(serving.socket)
            writer.socket.setblocking(False)
            request = struct.pack(">IHHQQI", 0x25609513, 0, WRITE, 1, 0, PAYLOAD) + bytes(PAYLOAD - 4096)
            # A view: what is left is not copied for each send.
            writers.append([writer, memoryview(request)])
        held, moved_at = 0, time.monotonic()
        # As long as somebody takes more, and some time after.
        while time.monotonic() < moved_at + HALF_SECONDS:
            for writer in writers:
                with contextlib.suppress(OSError):
                    sent = writer[0].socket.send(writer[1][:MIB])
                    writer[1] = writer[1][sent:]
                    moved_at = time.monotonic() if sent else moved_at
            witness.look()
            held = max(held, resident_bytes(serving) - before)
            if held > HELD_BYTES_MAX:
                break
        assert held < HELD_BYTES_MAX, f"{held / MIB:.0f} MiB are held of writes that are not complete"
        large = Client(serving.socket, seconds=HANG_SECONDS)
        large.send(WRITE, 0, 8 * MIB, Witness.expect(b""), bytes(8 * MIB))
        large.drain()
        assert "sends no data while others wait" in serving.log(), "somebody has to leave"
        for writer, _ in writers:
            writer.close()
        until(serving, 2)
        assert serving.ask(do="status")["bytes_held"] == 0, "room that nobody gives back"
        return f"{HALF} writes of {PAYLOAD // MIB} MiB hold {held / MIB:.0f} MiB; {witness.verdict()}"


def pipelined_status(pellucid):
    """Thousands of questions on the control socket at once: they are answered beside the others, not before them."""
    with server(pellucid) as serving:
        witness = Witness(serving)
        with socket.socket(socket.AF_UNIX) as control:
            control.connect(serving.control)
            answers = Lines(control)
            control.sendall(b'{"do":"status"}\n' * QUESTIONS)
            while answers.count < QUESTIONS:
                witness.look()
        assert witness.count >= TURNS_MIN, f"an honest client had {witness.count} turns beside {QUESTIONS} questions"
        return witness.verdict()


class Lines:
    """Counts the lines that come on a stream."""

    def __init__(self, stream):
        self.stream, self.count = stream, 0
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        while part := self.stream.recv(1 << 16):
            self.count += part.count(b"\n")


def drain(stream):
    with contextlib.suppress(OSError):
        while stream.recv(1 << 16):
            pass


def endless_options(pellucid):
    """A peer that goes on choosing options has to choose an export in the same time as others, and keeps no other waiting."""
    with server(pellucid) as serving:
        witness = Witness(serving)
        flood = dial(serving.nbd_port)
        flood.sendall(NBD_FLAGS)
        threading.Thread(target=lambda: drain(flood), daemon=True).start()
        began, options = time.monotonic(), (b"IHAVEOPT" + struct.pack(">II", 3, 0)) * 4096

        def push():
            with contextlib.suppress(OSError):
                while True:
                    flood.sendall(options)

        pushing = threading.Thread(target=push, daemon=True)
        pushing.start()
        while pushing.is_alive():
            assert time.monotonic() - began < HANG_SECONDS, "it goes on choosing"
            witness.look()
        flood.close()
        return f"gone after {time.monotonic() - began:.1f} s; {witness.verdict()}"


def fair_turns(pellucid):
    """One that reads 4 KiB at a time, beside four that keep 64 reads of 1 MiB each outstanding (fio)."""
    program("fio")
    with server(pellucid) as serving:
        filler = Client(serving.socket)
        for offset in range(0, 64 * MIB, MIB):
            filler.send(WRITE, offset, MIB, Witness.expect(b""), bytes(MIB))
        filler.drain()
        readers = [subprocess.Popen(
            ["fio", "--name=big", "--ioengine=nbd", f"--uri={serving.uri()}", "--rw=read", "--bs=1M", "--iodepth=64",
             "--size=64M", "--time_based", f"--runtime={HANG_SECONDS}", "--thread"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=serving.directory) for _ in range(4)]
        read_bytes = lambda: serving.ask(do="status")["drives"][0]["host_read_sectors"] * 512
        # Until they are under way.
        until(serving, 5)
        before = read_bytes()
        while (began := read_bytes()) < before + 256 * MIB:
            time.sleep(0.01)
        small, took = Client(serving.socket), []
        for _ in range(SMALL):
            sent = time.monotonic()
            small.send(READ, 0, 4096, lambda error, _: None)
            small.drain()
            took.append(time.monotonic() - sent)
        between = (read_bytes() - began) / SMALL
        assert all(reader.poll() is None for reader in readers), "a reader has ended"
        for reader in readers:
            reader.kill()
            reader.wait()
        took.sort()
        p50, p99 = (took[int(len(took) * part)] * 1e3 for part in (0.5, 0.99))
        note = f"{between / MIB:.1f} MiB read between two of {SMALL} reads of 4 KiB; p50 {p50:.1f} ms, p99 {p99:.1f} ms"
        assert between < LARGE_BYTES_MAX, note
        return note


def vanished(pellucid):
    """Half-open: the kernel asks after a silent peer (TCP keep-alive), so that one whose machine died is found out."""
    with server(pellucid) as serving:
        with dial(serving.nbd_port) as peer, dial(serving.port) as host:
            until(serving, 2)
            timers = {}
            for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
                fields = line.split()
                timers[fields[1].split(":")[1], fields[2].split(":")[1]] = fields[5].split(":")[0]
            for stream in (peer, host):
                local, remote = (f"{address[1]:04X}" for address in (stream.getpeername(), stream.getsockname()))
                # 02: the keep-alive timer of proc(5)'s net/tcp.
                assert timers[local, remote] == "02", f"timer {timers[local, remote]} on the server's end"


TESTS = [crowd, no_descriptors, slow_and_silent, half_received, pipelined_status, endless_options, fair_turns, vanished]


if __name__ == "__main__":
    main("hostile clients", __doc__, TESTS)
