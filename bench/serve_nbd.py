#!/usr/bin/env python3
"""Compares servers of memory over NBD: pellucid serve --time instant and nbdkit's memory plugin, measured with fio.

    bench/serve_nbd.py --pellucid target/release/pellucid --seconds 3 --turns 7
    bench/serve_nbd.py --before .../pellucid          # beside another binary of ours, and nothing else

Contenders: ours with a drive that has next to no model (bench/serve-ram.toml), ours with a whole model (`--model datacenter-tlc`),
nbdkit as it comes, and nbdkit with allocator=malloc and one thread. All disks have the same size (for the model: `ftl.capacity`) and are
written once before. The servers share one core and sleep unless measured; fio runs on another. Turns: bench/turns.py.

fio's engine reads a structured reply with four system calls and a simple one with two, and spends most of the time there. --simple turns
structured replies off, as nbdkit's `--no-sr` does.
"""
import argparse
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import turns

MIB = 1 << 20


def missing():
    return [program for program in ("fio", "nbdkit", "nbdinfo", "taskset") if not shutil.which(program)]


class Server:
    """A server in a process of its own, at a Unix socket or a port of 127.0.0.1."""

    def __init__(self, name, core, command, address):
        self.name, self.address = name, address
        self.process = subprocess.Popen(["taskset", "-c", str(core), *command])
        for _ in range(1500):
            if self.answers():
                return
            if self.process.poll() is not None:
                sys.exit(f"{name} ended with status {self.process.returncode}")
            time.sleep(0.02)
        sys.exit(f"nothing answers at {address}")

    def answers(self):
        kind, where = (socket.AF_INET, ("127.0.0.1", self.address)) if isinstance(self.address, int) \
            else (socket.AF_UNIX, self.address)
        with socket.socket(kind, socket.SOCK_STREAM) as client:
            # A server that sends a greeting fails if the connection is gone by then.
            return client.connect_ex(where) == 0 and len(client.recv(18)) > 0

    def uri(self):
        at = self.address
        return f"nbd://127.0.0.1:{at}" if isinstance(at, int) else f"nbd+unix:///?socket={at}"

    def bytes(self):
        done = subprocess.run(["nbdinfo", "--size", self.uri()], capture_output=True, text=True, check=True, timeout=60)
        return int(done.stdout)

    def cpu_us(self):
        """Its processor time so far, in user and system mode."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) * 1e6 / os.sysconf("SC_CLK_TCK")

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(120)


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def fio(server, core, *options, seconds=300):
    command = ["taskset", "-c", str(core), "fio", "--name=b", "--ioengine=nbd", f"--uri={server.uri()}",
               "--randrepeat=1", "--norandommap", "--output-format=json", *options]
    with tempfile.TemporaryDirectory() as directory:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds + 60, cwd=directory)
    if done.returncode:
        sys.exit(f"fio: {done.stdout}{done.stderr}")
    # The engine prints a greeting before the JSON.
    return json.loads(done.stdout[done.stdout.index("{"):])["jobs"][0]


def measure(options, server, span, depth):
    """Requests a second, median latency in us, and the server's processor time for a request in us."""
    before = server.cpu_us()
    job = fio(server, options.client_core, f"--rw={options.rw}", f"--bs={options.bs}", f"--iodepth={depth}", f"--size={span}",
              "--time_based", f"--runtime={options.seconds}", f"--numjobs={options.jobs}", "--group_reporting",
              seconds=options.seconds)
    side = job["read" if options.rw.endswith("read") else "write"]
    cpu = (server.cpu_us() - before) / side["total_ios"]
    return side["iops"], side["clat_ns"]["percentile"]["50.000000"] / 1e3, cpu


def start(options, directory):
    """The contenders, ours first, and their common size."""
    servers = []

    def add(name, command, listen):
        address = free_port() if options.tcp else f"{directory}/{len(servers)}"
        servers.append(Server(name, options.server_core, [*command, *listen(address)], address))
        return servers[-1]

    def ours(pellucid, name, drive, *more):
        command = [pellucid, "serve", drive, "--set", "media.store=ram", *more, "--time", "instant", "--poll-us",
                   str(options.poll_us), "--quiet"] + ["--nbd-simple-replies"] * options.simple
        return add(name, command, lambda at: ["--nbd", str(at) if options.tcp else f"unix:{at}"])

    def theirs(name, span, threads, *more):
        command = ["nbdkit", "--foreground", "--threads", str(threads)] + ["--no-sr"] * options.simple
        listen = lambda at: (["-i", "127.0.0.1", "-p", str(at)] if options.tcp else ["-U", at]) + ["memory", str(span), *more]
        return add(name, command, listen)

    try:
        span = ours(options.pellucid, "pellucid", options.drive).bytes()
        if options.before:
            ours(options.before, "before", options.drive)
        else:
            # A part of the real capacity: the work for a request does not depend on it.
            ours(options.pellucid, f"pellucid, {options.model}", options.model, "--set", f"ftl.capacity={span}")
            theirs("nbdkit", span, 16)
            theirs("nbdkit, malloc, 1 thread", span, 1, "allocator=malloc")
        for server in servers:
            # Every block is written once, so that reads find data and not holes.
            fio(server, options.client_core, "--rw=write", "--bs=256k", "--iodepth=8", f"--size={span}")
    except BaseException:
        for server in servers:
            server.process.kill()
        raise
    return servers, span


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pellucid", default="target/release/pellucid")
    parser.add_argument("--before", help="another binary of ours, to compare with instead of the others")
    parser.add_argument("--drive", default=str(Path(__file__).parent / "serve-ram.toml"))
    parser.add_argument("--model", default="datacenter-tlc", help="a drive that is served with all of its model")
    parser.add_argument("--seconds", type=int, default=3, help="of one measurement")
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--depths", default="1,32,128")
    parser.add_argument("--jobs", type=int, default=1, help="connections")
    parser.add_argument("--rw", default="randread", choices=["randread", "randwrite"])
    parser.add_argument("--bs", default="4k", help="bytes of a request, as fio writes them")
    parser.add_argument("--simple", action="store_true", help="without structured replies")
    parser.add_argument("--tcp", action="store_true", help="over 127.0.0.1, not a Unix socket")
    parser.add_argument("--poll-us", type=int, default=100)
    parser.add_argument("--server-core", type=int, default=0)
    parser.add_argument("--client-core", type=int, default=1)
    options = parser.parse_args()
    if missing():
        print(f"skipped: needs {', '.join(missing())}")
        return
    title = f"{options.bs} {options.rw}, {options.jobs} connection(s) over {'TCP' if options.tcp else 'a Unix socket'}; medians of " \
            f"{options.turns} turns of {options.seconds} s after {turns.WARM_UP_TURNS} of warm-up (least to most).\n{turns.machine()}"
    with tempfile.TemporaryDirectory() as directory:
        servers, span = start(options, directory)
        try:
            rows = []
            for depth in map(int, options.depths.split(",")):
                found = turns.take(servers, options.turns, lambda server: measure(options, server, span, depth))
                first = found[servers[0]]
                for server, results in found.items():
                    ratio = "" if server is servers[0] else turns.ratios(first, results)
                    rows.append([str(depth), server.name, turns.rates(results), f"{turns.median(results, 1):.1f}",
                                 f"{turns.median(results, 2):.2f}", ratio])
            heads = ["outstanding", "server", "requests/s", "p50 us", "server's CPU us/request", f"{servers[0].name} is times this"]
            turns.table(f"{title}; disks of {span // MIB} MiB.", heads, rows)
        finally:
            for server in servers:
                server.end()


if __name__ == "__main__":
    main()
