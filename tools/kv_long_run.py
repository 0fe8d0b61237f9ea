#!/usr/bin/env python3
"""Mixed load on `pellucid kv` for a long time, with SIGKILL or SIGTERM and a restart again and again.

    tools/kv_long_run.py [--minutes 10] [--pellucid target/release/pellucid] [--engine NAME] [--seed 1]

Clients, each with keys of its own, set, append, increment, remove, touch and read; what is read must be the newest value, or nothing. The
drive is in a file and `kv.warm_restart` is on: after SIGTERM items are there again, after SIGKILL the cache is empty. Without --engine all
engines on open-channel flash have their turn. Exit status 1 where a value is wrong, the server does not start again, or nothing is found after a good stop.
"""
import argparse
import random
import sys
import tempfile
import threading
import time
import zlib

from kv_clients import SMALL, Server
from kv_commands import Client
from served import ROOT, free_port

CLIENTS, KEYS = 8, 200
LENGTHS = [0, 10, 300, 1000, 5000, 60_000, 500_000]


class Failed(Exception):
    pass


class Worker:
    """A client with its own keys, and what it knows of them."""

    def __init__(self, number, seed):
        self.number, self.rng, self.known = number, random.Random(seed * 1000 + number), {}
        self.gets = self.hits = 0

    def ask(self, client, command):
        client.socket.sendall(command)
        return self.answers.readline()

    def step(self, client):
        key = b"c%d:%d" % (self.number, self.rng.randrange(KEYS))
        kind = self.rng.random()
        if kind < 0.3:
            body = self.rng.randbytes(self.rng.choice(LENGTHS))
            value = key + b":%08x:" % zlib.crc32(body) + body
            # Not known until it is answered: the old or the new value may be there after a kill; a crash empties the cache.
            self.known[key] = None
            answer = self.ask(client, b"set %s 0 0 %d\r\n%s\r\n" % (key, len(value), value))
            self.known[key] = value if answer == b"STORED\r\n" else None
        elif kind < 0.4:
            if self.ask(client, b"append %s 0 0 3\r\nabc\r\n" % key) == b"STORED\r\n" and self.known.get(key) is not None:
                self.known[key] += b"abc"
        elif kind < 0.5:
            self.ask(client, b"delete %s\r\n" % key)
            self.known[key] = None
        elif kind < 0.55:
            self.ask(client, b"touch %s 0\r\n" % key)
        else:
            self.read(client, key)

    def read(self, client, key):
        self.gets += 1
        head = self.ask(client, b"get %s\r\n" % key)
        if head == b"END\r\n":
            return
        length = int(head.split()[3])
        value = self.answers.read(length + 7)[:length]
        if value != self.known.get(key):
            raise Failed(f"{key}: {value[:40]}, not {(self.known.get(key) or b'nothing')[:40]}")
        self.hits += 1

    def run(self, address, until, failures):
        try:
            client = Client(address)
            self.answers = client.socket.makefile("rb")
            while time.monotonic() < until:
                self.step(client)
            client.socket.close()
        except Failed as failure:
            failures.append(str(failure))
        except OSError as error:
            failures.append(f"the connection: {error}")


def rounds(options, engine, end, rng):
    """Rounds of load on one engine; how many, and the gets and hits."""
    workers, count = [Worker(number, options.seed) for number in range(CLIENTS)], 0
    with tempfile.TemporaryDirectory() as directory:
        port = free_port()
        sets = [*SMALL, f"media.store=file:{directory}/media", "kv.warm_restart=true"]
        words = [word for value in sets for word in ("--set", value)]
        command = [options.pellucid, "kv", ROOT / "bench/serve-kv.toml", "--engine", engine, "--listen", port, *words]
        server = Server(command, port, f"{directory}/log")
        try:
            while time.monotonic() < end:
                failures = []
                until = min(end, time.monotonic() + rng.uniform(1, 5))
                threads = [threading.Thread(target=worker.run, args=(server.address, until, failures)) for worker in workers]
                [thread.start() for thread in threads]
                [thread.join() for thread in threads]
                if failures:
                    raise Failed(f"{engine}: {failures[0]}")
                count += 1
                kill = rng.random() < 0.5
                server.process.kill() if kill else server.stop()
                server.process.wait()
                if kill:
                    for worker in workers:
                        worker.known.clear()
                server.start()
        finally:
            server.process.kill()
            server.process.wait()
    return count, sum(worker.gets for worker in workers), sum(worker.hits for worker in workers)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--pellucid", default=ROOT / "target/release/pellucid")
    parser.add_argument("--engine", choices=["policy", "function", "raw", "direct"])
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    engines = [options.engine] if options.engine else ["direct", "raw", "function", "policy"]
    rng = random.Random(options.seed)
    for engine in engines:
        end = time.monotonic() + options.minutes * 60 / len(engines)
        try:
            count, gets, hits = rounds(options, engine, end, rng)
        except (Failed, AssertionError) as failure:
            sys.exit(f"FAILED: {failure}")
        print(f"{engine:10} {count} rounds, {hits} of {gets} gets were hits", flush=True)
        if hits == 0:
            sys.exit(f"FAILED: {engine}: nothing was ever found")


if __name__ == "__main__":
    main()
