#!/usr/bin/env python3
"""NBD from memory, side by side: pellucid serve --time instant and nbdkit's memory plugin, measured with fio.

Both serve one Unix socket each (--tcp: a port of 127.0.0.1) on one core; fio runs on another. The two take turns, several
times over, so that whatever else the machine does hits both; the table shows the median of the turns and their spread.

    bench/serve_nbd.py --pellucid target/release/pellucid --seconds 3 --turns 3

fio's engine reads a structured reply with four system calls and a simple one with two, and most of the time is spent there; --simple
has ours answer in the short form.
"""

import argparse
import json
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SIZE = "1G"


def missing():
    return [program for program in ("fio", "nbdkit", "taskset") if not shutil.which(program)]


def answers(address):
    """Whether a server accepts at `address`: the path of a Unix socket, or a port of 127.0.0.1."""
    kind, where = (socket.AF_INET, ("127.0.0.1", address)) if isinstance(address, int) else (socket.AF_UNIX, address)
    with socket.socket(kind, socket.SOCK_STREAM) as client:
        # A server that greets takes it ill when nobody waits for that.
        return client.connect_ex(where) == 0 and len(client.recv(18)) > 0


def wait_for(address, process):
    for _ in range(200):
        if answers(address):
            return
        if process.poll() is not None:
            sys.exit(f"the server ended with status {process.returncode}")
        time.sleep(0.02)
    sys.exit(f"nothing answers at {address}")


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def uri(address):
    return f"nbd://127.0.0.1:{address}" if isinstance(address, int) else f"nbd+unix:///?socket={address}"


def fio(address, core, rw, depth, seconds, jobs):
    command = [
        "taskset", "-c", str(core), "fio", "--name=b", "--ioengine=nbd", f"--uri={uri(address)}",
        f"--rw={rw}", "--bs=4k", f"--iodepth={depth}", f"--size={SIZE}", "--time_based", f"--runtime={seconds}",
        f"--numjobs={jobs}", "--group_reporting", "--randrepeat=1", "--norandommap", "--output-format=json",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds + 60)
    if done.returncode:
        sys.exit(f"fio: {done.stdout}{done.stderr}")
    # The engine says hello on standard output, before the JSON.
    side = json.loads(done.stdout[done.stdout.index("{"):])["jobs"][0]["read" if rw.endswith("read") else "write"]
    return side["iops"], side["clat_ns"]["percentile"]["50.000000"] / 1e3, side["total_ios"]


def cpu_us(process):
    """Processor time that a server has used, in user and system mode."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) * 1e6 / os.sysconf("SC_CLK_TCK")


def fill(address, core):
    """Every block is written once, so that reads find data and not holes."""
    command = [
        "taskset", "-c", str(core), "fio", "--name=f", "--ioengine=nbd", f"--uri={uri(address)}",
        "--rw=write", "--bs=256k", "--iodepth=8", f"--size={SIZE}", "--output-format=json",
    ]
    subprocess.run(command, check=True, capture_output=True, timeout=300)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pellucid", default="target/release/pellucid")
    parser.add_argument("--drive", default=str(Path(__file__).parent / "serve-ram.toml"))
    parser.add_argument("--seconds", type=int, default=3, help="of one measurement")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--depths", default="1,32,128")
    parser.add_argument("--jobs", type=int, default=1, help="connections")
    parser.add_argument("--rw", default="randread", choices=["randread", "randwrite"])
    parser.add_argument("--simple", action="store_true", help="without structured replies (--nbd-simple-replies)")
    parser.add_argument("--tcp", action="store_true", help="over 127.0.0.1, not a Unix socket")
    parser.add_argument("--poll-us", type=int, default=100)
    parser.add_argument("--server-core", type=int, default=0)
    parser.add_argument("--client-core", type=int, default=1)
    options = parser.parse_args()
    if missing():
        print(f"skipped: needs {', '.join(missing())}")
        return
    with tempfile.TemporaryDirectory() as directory:
        on = ["taskset", "-c", str(options.server_core)]
        ours, theirs = (free_port(), free_port()) if options.tcp else (f"{directory}/ours", f"{directory}/theirs")
        commands = {
            ours: on + [
                options.pellucid, "serve", options.drive, "--time", "instant",
                "--nbd", f"127.0.0.1:{ours}" if options.tcp else f"unix:{ours}",
                "--poll-us", str(options.poll_us), "--quiet",
            ] + ["--nbd-simple-replies"] * options.simple,
            theirs: on + ["nbdkit", "--foreground"] + (
                ["-i", "127.0.0.1", "-p", str(theirs)] if options.tcp else ["-U", theirs]) + ["memory", SIZE],
        }
        servers = []
        try:
            for address, command in commands.items():
                servers.append(subprocess.Popen(command))
                wait_for(address, servers[-1])
                fill(address, options.client_core)
            measure(options, ours, theirs, dict(zip(commands, servers)))
        finally:
            for server in servers:
                server.send_signal(signal.SIGTERM)
                server.wait(30)


def measure(options, ours, theirs, servers):
    way = "TCP" if options.tcp else "a Unix socket"
    print(f"4 KiB {options.rw}, {options.jobs} connection(s) over {way}, {options.turns} turns of {options.seconds} s")
    print("median IOPS (spread), p50 latency in us, server's processor time per request in us")
    print(f"{'depth':>5}  {'pellucid':>28} {'p50':>7} {'cpu':>6}  {'nbdkit memory':>28} {'p50':>7} {'cpu':>6}  ratio")
    for depth in map(int, options.depths.split(",")):
        found = {ours: [], theirs: []}
        for turn in range(options.turns):
            for address in (ours, theirs) if turn % 2 == 0 else (theirs, ours):
                before = cpu_us(servers[address])
                iops, p50, count = fio(address, options.client_core, options.rw, depth, options.seconds, options.jobs)
                found[address].append((iops, p50, (cpu_us(servers[address]) - before) / count))
        cells, medians = [], []
        for address in (ours, theirs):
            iops = sorted(value for value, _, _ in found[address])
            medians.append(statistics.median(iops))
            spread = f"({iops[0]:,.0f}-{iops[-1]:,.0f})"
            p50, cpu = (statistics.median(row[i] for row in found[address]) for i in (1, 2))
            cells.append(f"{medians[-1]:>8,.0f} {spread:>19} {p50:>7.1f} {cpu:>6.2f}")
        print(f"{depth:>5}  {cells[0]}  {cells[1]}  {medians[0] / medians[1]:>5.2f}", flush=True)


if __name__ == "__main__":
    main()
