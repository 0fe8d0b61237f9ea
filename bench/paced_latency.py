#!/usr/bin/env python3
"""Latency of a served drive: does a host see in real time what virtual time says?

cosmos-plus with fewer blocks, filled once; random reads of 16 KiB, one outstanding. The same image goes through three measurements,
the last two in several turns:

    virtual   pellucid run: no clock, no host
    drive     pellucid serve, paced: the drive's own latency, and how late completions were handed out
    client    what a client of that server sees: spdk_nvme_perf over NVMe/TCP if --perf names it, else fio over NBD

    bench/paced_latency.py --pellucid target/release/pellucid --lead-us 0,10

The server measures the cost of handing out a completion and hands it out that much early. --lead-us adds the cost of the client and of
the way to it; with "measured" the server measures that too, which is right here because both clients ask again at once. The target is a
difference of at most 3 % between virtual and client.
"""

import argparse
import http.client
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
HOST = "nqn.2014-08.org.nvmexpress:uuid:2f1b1c5e-7a07-4f3e-9d53-0a9c1f1f7a11"
NQN = "nqn.2026-01.org.pellucid:cosmos-plus"
NVME_PORT, MONITOR_PORT = 14430, 14431
# One block of every die is full: 256 MiB, lower and upper pages alike.
DRIVE = ["--set", "media.store=ram", "--set", "media.blocks=8", "--set", "ftl.over_provisioning=700%"]


def virtual(options, image):
    """Mean and p50 in us."""
    command = [options.pellucid, "run", "--image", image, "--rw", "randread", "--bs", "16k", "--iodepth", "1",
               "--norandommap", "--number-ios", "20000", "--json", "--quiet"]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=300)
    latency = json.loads(done.stdout)["directions"]["read"]["latency"]
    return latency["mean_ns"] / 1e3, latency["p50_ns"] / 1e3


def nvme_client(options):
    """Mean and p50 in us, by spdk_nvme_perf."""
    command = [
        options.perf, "-c", hex(1 << options.client_core), "-s", "256", "-q", "1", "-o", "16384", "-w", "randread",
        "-t", str(options.seconds), "-L", "-r",
        f"trtype:TCP adrfam:IPv4 traddr:127.0.0.1 trsvcid:{NVME_PORT} subnqn:{NQN} hostnqn:{HOST}",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=options.seconds + 60)
    if done.returncode:
        sys.exit(f"spdk_nvme_perf: {done.stdout}{done.stderr}")
    total = re.search(r"^Total\s*:\s*[\d.]+\s+[\d.]+\s+([\d.]+)", done.stdout, re.M)
    return float(total[1]), float(re.search(r"^\s*50\.00000%\s*:\s*([\d.]+)us", done.stdout, re.M)[1])


def nbd_client(options, socket):
    """Mean and p50 in us, by fio."""
    command = [
        "taskset", "-c", str(options.client_core), "fio", "--name=b", "--ioengine=nbd",
        f"--uri=nbd+unix:///?socket={socket}", "--rw=randread", "--bs=16k", "--iodepth=1", "--norandommap",
        "--time_based", f"--runtime={options.seconds}", "--output-format=json",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=options.seconds + 60)
    if done.returncode:
        sys.exit(f"fio: {done.stdout}{done.stderr}")
    # The engine prints a greeting before the JSON.
    latency = json.loads(done.stdout[done.stdout.index("{"):])["jobs"][0]["read"]["clat_ns"]
    return latency["mean"] / 1e3, latency["percentile"]["50.000000"] / 1e3


def snapshot():
    connection = http.client.HTTPConnection("127.0.0.1", MONITOR_PORT, timeout=5)
    connection.request("GET", "/snapshot.json")
    return json.loads(connection.getresponse().read())


def quantile(bins, share):
    """In us; up to a sixteenth too large."""
    rank, seen = share * sum(bins["weight"]), 0
    for upper, weight in zip(bins["upper"], bins["weight"]):
        seen += weight
        if seen >= rank:
            return upper / 1e3
    return float("nan")


def turn(options, image, lead, directory):
    """Client's mean and p50, the drive's mean, and lateness p50 and p99, all in us."""
    socket = f"{directory}/nbd"
    command = ["taskset", "-c", str(options.server_core), options.pellucid, "serve", image, "--poll-us", "100",
               "--monitor", str(MONITOR_PORT), "--quiet", "--nbd", f"unix:{socket}", "--nvme-tcp", str(NVME_PORT)]
    server = subprocess.Popen(command + ["--lead-us", lead])
    try:
        for _ in range(100):
            time.sleep(0.1)
            try:
                snapshot()
                break
            except OSError:
                pass
        mean, p50 = nvme_client(options) if options.perf else nbd_client(options, socket)
        shown = snapshot()
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(30)
    read = shown["drives"][0]["watched"]["commands"]["read"]["latency"]
    late = shown["serving"]["lateness"]["bins"]
    return mean, p50, read["sum"] / sum(read["weight"]) / 1e3, quantile(late, 0.5), quantile(late, 0.99)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pellucid", default=str(ROOT / "target/release/pellucid"))
    parser.add_argument("--perf", help="spdk_nvme_perf; without it fio over NBD")
    parser.add_argument("--image", help="of the aged drive; made if it is not there")
    parser.add_argument("--lead-us", default="0,6,measured", help="values of --lead-us, with commas between")
    parser.add_argument("--seconds", type=int, default=3, help="of one measurement")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--server-core", type=int, default=0)
    parser.add_argument("--client-core", type=int, default=1)
    options = parser.parse_args()
    if not options.perf and not shutil.which("fio"):
        print("skipped: needs --perf or fio")
        return
    with tempfile.TemporaryDirectory() as directory:
        image = options.image or f"{directory}/cosmos-plus.pellucid"
        if not Path(image).exists():
            age = [options.pellucid, "age", "cosmos-plus", *DRIVE, "--fill", "100%", "--overwrite", "0", "-o", image]
            subprocess.run(age + ["--quiet"], check=True, stdout=subprocess.DEVNULL, timeout=600)
        mean, p50 = virtual(options, image)
        print(f"virtual time: mean {mean:.1f} us, p50 {p50:.1f} us")
        print(f"{'lead us':>8} {'drive mean':>16} {'client mean':>16} {'client p50':>16} {'late p50':>9} {'late p99':>9}")
        for lead in options.lead_us.split(","):
            rows = [turn(options, image, lead, directory) for _ in range(options.turns)]
            client_mean, client_p50, drive, late50, late99 = (statistics.median(row[i] for row in rows) for i in range(5))
            cells = [f"{value:.1f} ({value / of - 1:+.1%})".rjust(16)
                     for value, of in ((drive, mean), (client_mean, mean), (client_p50, p50))]
            print(f"{lead:>8} {' '.join(cells)} {late50:>9.1f} {late99:>9.1f}", flush=True)


if __name__ == "__main__":
    main()
