#!/usr/bin/env python3
"""NVMe/TCP from memory: pellucid serve --time instant, measured with SPDK's spdk_nvme_perf, a client that is not ours.

4 KiB random reads over loopback, the server on one core, the client on another. With --spdk-target the same client measures
SPDK's own nvmf_tgt with a memory disk of the same size in turn, so that whatever else the machine does hits both.

    bench/serve_nvme.py --perf .../build/bin/spdk_nvme_perf --spdk-target .../build/bin/nvmf_tgt

Needs SPDK built from source (https://spdk.io; no distribution packages it) and huge pages for it:
sysctl vm.nr_hugepages=1100. The table shows the median of the turns and their spread.
"""

import argparse
import json
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SECTORS = 1_600_000
HOST = "nqn.2014-08.org.nvmexpress:uuid:2f1b1c5e-7a07-4f3e-9d53-0a9c1f1f7a11"
SPDK_NQN = "nqn.2016-06.io.spdk:cnode1"
PELLUCID_NQN = "nqn.2026-01.org.pellucid:serve-ram"


def spdk_config(port):
    """A memory disk, offered to every host."""
    address = {"trtype": "TCP", "adrfam": "IPv4", "traddr": "127.0.0.1", "trsvcid": str(port)}
    nvmf = [
        ("nvmf_create_transport", {"trtype": "TCP"}),
        ("nvmf_create_subsystem", {"nqn": SPDK_NQN, "allow_any_host": True, "serial_number": "S1"}),
        ("nvmf_subsystem_add_ns", {"nqn": SPDK_NQN, "namespace": {"bdev_name": "M0", "nsid": 1}}),
        ("nvmf_subsystem_add_listener", {"nqn": SPDK_NQN, "listen_address": address}),
    ]
    disk = {"method": "bdev_malloc_create", "params": {"name": "M0", "num_blocks": SECTORS, "block_size": 512}}
    methods = [{"method": method, "params": parameters} for method, parameters in nvmf]
    return {"subsystems": [{"subsystem": "bdev", "config": [disk]}, {"subsystem": "nvmf", "config": methods}]}


def perf(options, port, nqn, depth, seconds, rw, connections=1):
    """Requests/s, p50 and p99 in us."""
    command = [
        options.perf, "-c", hex(1 << options.client_core), "-s", "256", "-q", str(depth), "-o", "4096", "-w", rw,
        "-t", str(seconds), "-P", str(connections), "-L", "-r",
        f"trtype:TCP adrfam:IPv4 traddr:127.0.0.1 trsvcid:{port} subnqn:{nqn} hostnqn:{HOST}",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds + 60)
    if done.returncode:
        sys.exit(f"spdk_nvme_perf: {done.stdout}{done.stderr}")
    total = re.search(r"^Total\s*:\s*([\d.]+)", done.stdout, re.M)
    percentile = {p: re.search(rf"^\s*{p}\.00000%\s*:\s*([\d.]+)us", done.stdout, re.M) for p in (50, 99)}
    return float(total[1]), *(float(percentile[p][1]) for p in (50, 99))


def servers(options, directory):
    """Name, command, port and subsystem of each."""
    on = ["taskset", "-c", str(options.server_core)]
    ours = on + [options.pellucid, "serve", options.drive, "--nvme-tcp", "14420", "--time", "instant",
                 "--poll-us", str(options.poll_us), "--quiet"]
    yield "pellucid", ours, 14420, PELLUCID_NQN
    if options.spdk_target:
        config = Path(directory, "spdk.json")
        config.write_text(json.dumps(spdk_config(14421)))
        theirs = [options.spdk_target, "-m", hex(1 << options.server_core), "-s", "1500", "-c", str(config)]
        yield "SPDK nvmf_tgt", theirs, 14421, SPDK_NQN


def measure(options, server, cases, found):
    name, command, port, nqn = server
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        time.sleep(4)
        if process.poll() is not None:
            sys.exit(f"{name} ended with status {process.returncode}")
        # Written once as a whole, so that reads find data and not holes.
        perf(options, port, nqn, 32, options.fill_seconds, "write")
        for depth, connections in cases:
            result = perf(options, port, nqn, depth, options.seconds, "randread", connections)
            found.setdefault((name, depth, connections), []).append(result)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pellucid", default=str(ROOT / "target/release/pellucid"))
    parser.add_argument("--drive", default=str(ROOT / "bench/serve-ram.toml"))
    parser.add_argument("--perf", default="spdk_nvme_perf")
    parser.add_argument("--spdk-target", help="nvmf_tgt, to compare with")
    parser.add_argument("--seconds", type=int, default=3, help="of one measurement")
    parser.add_argument("--fill-seconds", type=int, default=4)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--poll-us", type=int, default=100)
    parser.add_argument("--server-core", type=int, default=0)
    parser.add_argument("--client-core", type=int, default=1)
    options = parser.parse_args()
    if not shutil.which(options.perf):
        print(f"skipped: {options.perf} is not there; it comes with SPDK (https://spdk.io), built from source")
        return
    cases = [(1, 1), (32, 1), (128, 1), (32, 4)]
    found = {}
    with tempfile.TemporaryDirectory() as directory:
        for _ in range(options.turns):
            for server in servers(options, directory):
                measure(options, server, cases, found)
    print(f"{'server':<14} {'depth':>5} {'queues':>6} {'IOPS (spread)':>30} {'p50 us':>8} {'p99 us':>8}")
    for (name, depth, connections), rows in sorted(found.items(), key=lambda item: (item[0][2], item[0][1])):
        iops = sorted(row[0] for row in rows)
        p50, p99 = (statistics.median(row[i] for row in rows) for i in (1, 2))
        spread = f"{statistics.median(iops):,.0f} ({iops[0]:,.0f}-{iops[-1]:,.0f})"
        print(f"{name:<14} {depth:>5} {connections:>6} {spread:>30} {p50:>8.1f} {p99:>8.1f}")


if __name__ == "__main__":
    main()
