#!/usr/bin/env python3
"""Real clients of the memcached protocol against `pellucid kv`, and memcached itself beside it.

    tools/kv_clients.py [--pellucid target/debug/pellucid] [--only NAME]

One line for each test and a plain count; exit status 1 if any has failed. KV_SECONDS is the length of the mixed load with kills (20).
"""
import contextlib
import fcntl
import os
import pty
import random
import shutil
import signal
import ssl
import struct
import subprocess
import sys
import tempfile
import termios
import time
import zlib
from pathlib import Path

from kv_commands import CASES, Client, answers, counts, is_counted_apart, masked
from served import HANG_SECONDS, ROOT, Skip, Unavailable, free_port, main, program

DRIVE = ROOT / "bench/serve-kv.toml"
SMALL = ["drive.media.blocks=16", "drive.media.pages=64", "kv.memory=16MiB"]
SECONDS = float(os.environ.get("KV_SECONDS", "20"))
GO_CLIENT = "github.com/bradfitz/gomemcache@v0.0.0-20250403215159-8d39553ac7cf"
GO_TEST = """package main

import (
	"bytes"
	"fmt"
	"os"

	"github.com/bradfitz/gomemcache/memcache"
)

func check(err error, what string) {
	if err != nil {
		fmt.Println(what, err)
		os.Exit(1)
	}
}

func main() {
	client := memcache.New(os.Args[1])
	value := bytes.Repeat([]byte("pellucid"), 10000)
	check(client.Set(&memcache.Item{Key: "go", Value: value, Flags: 7}), "set")
	found, err := client.Get("go")
	check(err, "get")
	if !bytes.Equal(found.Value, value) || found.Flags != 7 {
		check(fmt.Errorf("another value"), "get")
	}
	found.Value = []byte("1")
	check(client.CompareAndSwap(found), "cas")
	if err := client.CompareAndSwap(found); err != memcache.ErrCASConflict {
		check(fmt.Errorf("no conflict: %v", err), "cas")
	}
	if number, err := client.Increment("go", 41); err != nil || number != 42 {
		check(fmt.Errorf("%d, %v", number, err), "incr")
	}
	if err := client.Add(&memcache.Item{Key: "go", Value: value}); err != memcache.ErrNotStored {
		check(fmt.Errorf("stored: %v", err), "add")
	}
	check(client.Touch("go", 100), "touch")
	many, err := client.GetMulti([]string{"go", "gone"})
	check(err, "gets")
	if len(many) != 1 {
		check(fmt.Errorf("%d items", len(many)), "gets")
	}
	check(client.Delete("go"), "delete")
	if _, err := client.Get("go"); err != memcache.ErrCacheMiss {
		check(fmt.Errorf("no miss: %v", err), "get")
	}
}
"""


class Server:
    """A server as a child process."""

    def __init__(self, command, port, log):
        self.command, self.port, self.log_path = [str(word) for word in command], port, Path(log)
        self.start()

    def start(self):
        with self.log_path.open("a") as log:
            self.process = subprocess.Popen(self.command, stderr=log, stdout=log)
        end = time.monotonic() + HANG_SECONDS
        while True:
            assert self.process.poll() is None, f"the server did not start: {self.log_path.read_text()}"
            assert time.monotonic() < end, "the server does not listen"
            with contextlib.suppress(ConnectionError):
                Client(("127.0.0.1", self.port)).socket.close()
                return
            time.sleep(0.02)

    @property
    def address(self):
        return ("127.0.0.1", self.port)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(HANG_SECONDS)
        log = self.log_path.read_text()
        assert status == 0 and "panicked" not in log, f"server: status {status}\n{log[-2000:]}"


@contextlib.contextmanager
def cache(pellucid, *options, sets=()):
    with tempfile.TemporaryDirectory() as directory:
        port = free_port()
        words = [word for value in [*SMALL, *sets] for word in ("--set", value)]
        server = Server([pellucid, "kv", DRIVE, "--listen", port, *words, *options], port, f"{directory}/log")
        try:
            yield server
        except BaseException:
            server.process.kill()
            raise
        server.stop()


def memccapable(pellucid):
    """memcached's own score of the text protocol."""
    found = program("memccapable")
    with cache(pellucid) as server:
        done = subprocess.run([found, "-h", "127.0.0.1", "-p", str(server.port), "-a"], capture_output=True, text=True, timeout=HANG_SECONDS)
        passed = done.stdout.count("[pass]")
        assert done.returncode == 0 and passed == 27, f"{passed} of 27\n{done.stdout}{done.stderr}"
        return f"{passed} of 27"


def as_memcached(pellucid):
    """Commands, good and bad, are answered as memcached answers them, and counted as it counts them."""
    found = program("memcached")
    with tempfile.TemporaryDirectory() as directory, cache(pellucid) as ours:
        port = free_port()
        theirs = Server([found, "-u", "nobody", "-l", "127.0.0.1", "-p", port, "-U", 0, "-t", 1], port, f"{directory}/log")
        try:
            for case in CASES:
                before = [counts(server.address) for server in (theirs, ours)]
                wanted, given = (masked(answers(server.address, case)) for server in (theirs, ours))
                assert wanted == given, f"{case[:100]}: memcached says {wanted[:300]}, pellucid {given[:300]}"
                since = [{name: number - was[name] for name, number in counts(server.address).items() if number != was[name]}
                         for server, was in zip((theirs, ours), before)]
                assert since[0] == since[1] or is_counted_apart(case), f"{case[:100]}: memcached counts {since[0]}, pellucid {since[1]}"
        finally:
            theirs.process.kill()
            theirs.process.wait()
    return f"{len(CASES)} cases"


def engines(pellucid):
    """Every storage engine serves the same."""
    for engine in ("direct", "raw", "function", "policy"):
        with cache(pellucid, "--engine", engine) as server:
            client = Client(server.address)
            for number in range(2000):
                client.socket.sendall(b"set k%d 0 0 1000 noreply\r\n%s\r\n" % (number, b"%03d" % (number % 1000) * 333 + b"."))
            client.socket.sendall(b"get k1999\r\nmn\r\n")
            found = client.until(b"MN\r\n")
            assert b"999" * 333 in found, (engine, found[:100])


def pymemcache(pellucid):
    """The usual client of Python."""
    # Debian's package lies there, whichever Python this is.
    sys.path.append("/usr/lib/python3/dist-packages")
    try:
        from pymemcache.client.base import Client as PyClient
    except ImportError:
        raise Skip("pymemcache is not installed (Debian: python3-pymemcache)") from None
    with cache(pellucid) as server:
        client = PyClient(server.address, default_noreply=False)
        assert client.set("a", b"x" * 1_000_000) and client.get("a") == b"x" * 1_000_000
        assert client.add("a", b"y") is False and client.replace("a", b"1") and client.incr("a", 41) == 42
        value, version = client.gets("a")
        assert value == b"42" and client.cas("a", b"7", version) and client.cas("a", b"8", version) is False
        assert client.append("a", b"!") and client.prepend("a", b"<") and client.get("a") == b"<7!"
        assert client.set_many({f"k{n}": b"%d" % n for n in range(500)}) == []
        assert client.get_many([f"k{n}" for n in range(600)]) == {f"k{n}": b"%d" % n for n in range(500)}
        assert client.touch("a", 100) and client.delete("a") and client.get("a") is None
        assert client.set("gone", b"x", expire=-1) and client.get("gone") is None
        assert int(client.stats()[b"cmd_set"]) >= 500 and client.version().startswith(b"1.6")
        assert client.flush_all() and client.get("k1") is None


def gomemcache(pellucid):
    """The usual client of Go, where there is a Go toolchain and its module proxy."""
    go = shutil.which("go") or shutil.which("/usr/local/go/bin/go")
    if not go:
        raise Unavailable("no Go toolchain")
    with tempfile.TemporaryDirectory() as directory, cache(pellucid) as server:
        (Path(directory) / "main.go").write_text(GO_TEST)
        for words in (["mod", "init", "check"], ["get", GO_CLIENT]):
            done = subprocess.run([go, *words], cwd=directory, capture_output=True, text=True, timeout=HANG_SECONDS)
            if done.returncode:
                raise Unavailable(f"go {words[0]} {words[1]}: {done.stderr.strip().splitlines()[-1]}")
        done = subprocess.run([go, "run", ".", f"127.0.0.1:{server.port}"], cwd=directory, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stdout + done.stderr


def tls(pellucid):
    """Only clients that speak TLS are served; values of all sizes come back through it, and a client that does not read costs nobody anything."""
    found = program("openssl")
    with tempfile.TemporaryDirectory() as directory:
        words = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=localhost",
                 "-keyout", f"{directory}/server-key.pem", "-out", f"{directory}/server-cert.pem"]
        subprocess.run([found, *words], check=True, capture_output=True)
        context = ssl.create_default_context(cafile=f"{directory}/server-cert.pem")
        with cache(pellucid, "--tls", directory) as server:
            def client():
                one = Client(server.address)
                one.socket = context.wrap_socket(one.socket, server_hostname="localhost")
                return one
            first, value = client(), random.Random(1).randbytes(1_000_000)
            for length in (0, 1, 16_383, 16_384, 100_000, 1_000_000):
                first.socket.sendall(b"set k%d 0 0 %d\r\n%s\r\n" % (length, length, value[:length]))
                assert first.until(b"\r\n") == b"STORED\r\n"
            silent = client()
            silent.socket.sendall(b"get k1000000\r\n" * 200)
            for length in (0, 1, 16_383, 16_384, 100_000, 1_000_000):
                first.socket.sendall(b"get k%d\r\nmn\r\n" % length)
                wanted = b"VALUE k%d 0 %d\r\n%s\r\nEND\r\nMN\r\n" % (length, length, value[:length])
                assert first.until(b"END\r\nMN\r\n") == wanted, f"another value of {length} bytes"
            first.socket.sendall(b"get " + b" ".join(b"k%d" % n for n in range(5000)) + b"\r\n")
            assert first.until(b"END\r\n").startswith(b"VALUE k0 0 0\r\n")
            plain = Client(server.address)
            plain.socket.sendall(b"version\r\n")
            assert b"VERSION" not in plain.until(b"\r\n")
            plain.socket.close()
            silent.socket.close()


def top(pellucid):
    """`pellucid top` shows a cache."""
    with tempfile.TemporaryDirectory() as directory, cache(pellucid, "--control", f"{directory}/control") as server:
        client = Client(server.address)
        client.socket.sendall(b"set a 0 0 1\r\nx\r\nget a\r\nmn\r\n")
        client.until(b"MN\r\n")
        main_end, other_end = pty.openpty()
        fcntl.ioctl(other_end, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        words = [str(pellucid), "top", "--control", f"{directory}/control"]
        process = subprocess.Popen(words, stdin=other_end, stdout=other_end, stderr=other_end, env={**os.environ, "TERM": "xterm"})
        os.close(other_end)
        shown, end = b"", time.monotonic() + HANG_SECONDS
        while b"serve-kv" not in shown and time.monotonic() < end:
            shown += os.read(main_end, 1 << 16)
        os.write(main_end, b"q")
        with contextlib.suppress(OSError):
            while os.read(main_end, 1 << 16):
                pass
        os.close(main_end)
        assert process.wait(HANG_SECONDS) == 0 and b"serve-kv" in shown, shown[-2000:]


def value_of(key: int, version: int, length: int) -> bytes:
    """A value that says whose it is and whether it is whole."""
    head = b"%d:%d:" % (key, version)
    body = head + random.Random(version).randbytes(length)
    return body + b"%08x" % zlib.crc32(body)


def kills(pellucid):
    """Mixed load with SIGKILL and restarts on a drive in a file: an item may be lost, a value is never another or an older one."""
    rng, kills, gets, hits = random.Random(1), 0, 0, 0
    with tempfile.TemporaryDirectory() as directory:
        sets = [f"media.store=file:{directory}/image"]
        end = time.monotonic() + SECONDS
        with cache(pellucid, sets=sets) as server:
            versions, serial = {}, 0
            while time.monotonic() < end:
                client = Client(server.address)
                for _ in range(rng.randrange(100, 400)):
                    key = rng.randrange(300)
                    if rng.random() < 0.4:
                        serial += 1
                        value = value_of(key, serial, rng.choice([10, 1000, 5000, 60_000]))
                        client.socket.sendall(b"set %d 0 0 %d\r\n%s\r\n" % (key, len(value), value))
                        assert client.until(b"\r\n") == b"STORED\r\n"
                        versions[key] = serial
                    else:
                        client.socket.sendall(b"get %d\r\n" % key)
                        found, gets = client.until(b"END\r\n"), gets + 1
                        if found == b"END\r\n":
                            continue
                        body = found.split(b"\r\n", 1)[1].removesuffix(b"\r\nEND\r\n")
                        assert b"%08x" % zlib.crc32(body[:-8]) == body[-8:], f"key {key}: a broken value"
                        assert body.startswith(b"%d:%d:" % (key, versions.get(key, 0))), f"key {key}: {body[:20]}, not {versions.get(key)}"
                        hits += 1
                client.socket.close()
                server.process.kill()
                server.process.wait()
                server.start()
                kills += 1
    return f"{kills} kills, {hits} of {gets} gets were hits"


if __name__ == "__main__":
    main("kv clients", __doc__, [memccapable, as_memcached, engines, pymemcache, gomemcache, tls, top, kills])
