#!/usr/bin/env python3
"""The key-value server beside memcached: gets and sets per second, and processor time for each request, in fair turns.

    bench/serve_kv.py [--keys 1500000] [--requests 1000000] [--turns 5] [--quick]

Every server has one core, the client (crates/serve/examples/kv_load.rs) another: 8 connections with 4 requests outstanding each, values of
1 KiB, random keys, each connection with a seed of its own. All servers run from the beginning and are filled in turn; each turn asks one
after the other, in an order that rotates. Medians, and the spread from the lowest to the highest turn. memcached is that of Debian: from
RAM and, where it knows `-o ext_path`, with extstore. Needs a release build: cargo build --release -p pellucid-cli -p pellucid-serve --examples
--bins. On a busy machine judge by the processor time and the ratios.
"""
import argparse
import json
import os
import shutil
import signal
import socket
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RELEASE = ROOT / "target/release"
VALUE_BYTES, CONNECTIONS, PIPELINE = 1024, 8, 4


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Peer:
    """A server on the first core."""

    def __init__(self, name, command, log):
        self.name, self.port = name, free_port()
        words = ["taskset", "-c", "0", *(str(word).replace("PORT", str(self.port)) for word in command)]
        self.process = subprocess.Popen(words, stdout=log, stderr=log)
        for _ in range(3000):
            assert self.process.poll() is None, f"{name} did not start; see {log.name}"
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
                return
            except ConnectionError:
                time.sleep(0.02)
        raise SystemExit(f"{name} does not listen")

    def cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(") ", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def load(self, mode, keys, requests, seed) -> dict:
        """One run of the client, with the processor time of the server for each request."""
        before = self.cpu_seconds()
        words = [RELEASE / "examples/kv_load", f"127.0.0.1:{self.port}", mode, keys, VALUE_BYTES, CONNECTIONS, PIPELINE, requests, seed]
        output = subprocess.run(["taskset", "-c", "1", *map(str, words)], check=True, stdout=subprocess.PIPE).stdout
        result = json.loads(output)
        result["cpu_us"] = (self.cpu_seconds() - before) * 1e6 / result["requests"]
        return result


def peers(directory, log) -> list:
    found = [Peer("pellucid", [RELEASE / "pellucid", "kv", ROOT / "bench/serve-kv.toml", "--listen", "PORT", "--time", "instant", "-q"], log)]
    memcached = shutil.which("memcached")
    if not memcached:
        print("memcached is not installed: no peer (Debian: apt install memcached)")
        return found
    # In the foreground, on loopback, one thread; as root it wants a user.
    common = [memcached, "-l", "127.0.0.1", "-p", "PORT", "-U", "0", "-t", "1", *(["-u", "root"] if os.getuid() == 0 else [])]
    found.append(Peer("memcached, RAM", [*common, "-m", "3000"], log))
    if "ext_path" in subprocess.run([memcached, "-h"], capture_output=True, text=True).stdout:
        extstore = f"ext_path={directory}/extstore:3G,ext_item_age=0,ext_threads=1"
        # With less memory it drops items while it is filled: gets would miss, and be quick.
        found.append(Peer("memcached, extstore", [*common, "-m", "1024", "-o", extstore], log))
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=1_500_000)
    parser.add_argument("--requests", type=int, default=1_000_000)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="a hundredth of it, to see that it works")
    options = parser.parse_args()
    if options.quick:
        options.keys, options.requests, options.turns = 15_000, 10_000, 2
    with tempfile.TemporaryDirectory() as directory, open(f"{directory}/log", "w") as log:
        servers = peers(directory, log)
        try:
            for server in servers:
                server.load("fill", options.keys, 0, 1)
            for mode in ("get", "set"):
                results = {server.name: [] for server in servers}
                for turn in range(options.turns):
                    at = turn % len(servers)
                    for server in servers[at:] + servers[:at]:
                        results[server.name].append(server.load(mode, options.keys, options.requests, turn + 2))
                print(f"{mode}, medians of {options.turns} turns [lowest to highest]")
                for name, found in results.items():
                    rates = sorted(result["per_second"] for result in found)
                    cpu, p99 = (statistics.median(result[key] for result in found) for key in ("cpu_us", "p99_us"))
                    hits = sum(result["hits"] for result in found) / max(1, sum(result["gets"] for result in found))
                    note = f", {hits:.1%} hits" if mode == "get" else ""
                    print(f"  {name:20} {statistics.median(rates):9,.0f} a second [{rates[0]:,.0f} to {rates[-1]:,.0f}], "
                          f"{cpu:.2f} us of processor time each, p99 {p99:.0f} us{note}")
        finally:
            for server in servers:
                server.process.send_signal(signal.SIGTERM)
                server.process.wait()


if __name__ == "__main__":
    main()
