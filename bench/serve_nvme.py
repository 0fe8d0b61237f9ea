#!/usr/bin/env python3
"""Compares servers of memory over NVMe/TCP: pellucid serve --time instant and SPDK's nvmf_tgt, measured with spdk_nvme_perf.

    bench/serve_nvme.py --perf .../build/bin/spdk_nvme_perf --spdk-target .../build/bin/nvmf_tgt --turns 9

Contenders: ours with a drive that has next to no model (bench/serve-ram.toml), ours with a whole model (`--model datacenter-tlc`, with
`ftl.capacity` for the size), and, with --spdk-target, SPDK's target with a memory disk of the same size, without and with zero copy
(`zcopy` of its transport). The work is 4 KiB random reads of written data over the loopback, server and client on a core each. Targets
poll, so only the measured one runs: it starts in each turn, is filled, and warms up. Turns: bench/turns.py.

Needs SPDK built from source (https://spdk.io; no distribution packages it) and huge pages for it: sysctl vm.nr_hugepages=1100.
"""
import argparse
import json
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import turns

ROOT = Path(__file__).resolve().parent.parent
MIB = 1 << 20
START_SECONDS = 60
HOST = "nqn.2014-08.org.nvmexpress:uuid:2f1b1c5e-7a07-4f3e-9d53-0a9c1f1f7a11"
SPDK_NQN = "nqn.2016-06.io.spdk:cnode1"
NQN_PREFIX = "nqn.2026-01.org.pellucid:"
OUR_PORT, SPDK_PORT = 14420, 14421


def spdk_config(sectors, zcopy):
    """A memory disk that every host may use."""
    address = {"trtype": "TCP", "adrfam": "IPv4", "traddr": "127.0.0.1", "trsvcid": str(SPDK_PORT)}
    nvmf = [
        ("nvmf_create_transport", {"trtype": "TCP", "zcopy": zcopy}),
        ("nvmf_create_subsystem", {"nqn": SPDK_NQN, "allow_any_host": True, "serial_number": "S1"}),
        ("nvmf_subsystem_add_ns", {"nqn": SPDK_NQN, "namespace": {"bdev_name": "M0", "nsid": 1}}),
        ("nvmf_subsystem_add_listener", {"nqn": SPDK_NQN, "listen_address": address}),
    ]
    disk = {"method": "bdev_malloc_create", "params": {"name": "M0", "num_blocks": sectors, "block_size": 512}}
    methods = [{"method": method, "params": parameters} for method, parameters in nvmf]
    return {"subsystems": [{"subsystem": "bdev", "config": [disk]}, {"subsystem": "nvmf", "config": methods}]}


def perf(options, port, nqn, depth, seconds, rw, connections=1, warm_up=0):
    """Requests/s, p50 and p99 in us."""
    command = [
        options.perf, "-c", hex(1 << options.client_core), "-s", "256", "-q", str(depth), "-o", "4096", "-w", rw,
        "-t", str(seconds), "-P", str(connections), "-L", *(["-a", str(warm_up)] if warm_up else []), "-r",
        f"trtype:TCP adrfam:IPv4 traddr:127.0.0.1 trsvcid:{port} subnqn:{nqn} hostnqn:{HOST}",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds + warm_up + 60)
    if done.returncode:
        sys.exit(f"spdk_nvme_perf: {done.stdout}{done.stderr}")
    total = re.search(r"^Total\s*:\s*([\d.]+)", done.stdout, re.M)
    percentile = {p: re.search(rf"^\s*{p}\.00000%\s*:\s*([\d.]+)us", done.stdout, re.M) for p in (50, 99)}
    return float(total[1]), *(float(percentile[p][1]) for p in (50, 99))


def drive_facts(options, drive):
    """Name and size in bytes of a drive, as its server reports them."""
    with tempfile.TemporaryDirectory() as directory:
        control = f"{directory}/control"
        command = [options.pellucid, "serve", drive, "--set", "media.store=ram", "--nbd", f"unix:{directory}/nbd", "--control",
                   control, "--quiet"]
        process = subprocess.Popen(command)
        try:
            wait_for(process, lambda: Path(control).exists(), drive)
            done = subprocess.run([options.pellucid, "status", "--control", control], capture_output=True, text=True,
                                  timeout=60)
            found = json.loads(done.stdout)["drives"][0]
            return found["name"], found["bytes"]
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)


def wait_for(process, is_there, name, said=None):
    end = time.monotonic() + START_SECONDS
    while not is_there():
        if process.poll() is not None:
            last = "".join(f"\n    {line}" for line in Path(said).read_text().splitlines()[-5:]) if said else ""
            sys.exit(f"{name} ended with status {process.returncode}{last}")
        if time.monotonic() > end:
            sys.exit(f"{name} does not listen after {START_SECONDS} s")
        time.sleep(0.05)


def listens(port):
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def contenders(options, directory):
    """Name, command, port and subsystem of each."""
    on = ["taskset", "-c", str(options.server_core)]
    name, size = drive_facts(options, options.drive)

    def ours(title, drive, name, *more):
        command = on + [options.pellucid, "serve", drive, "--set", "media.store=ram", *more, "--nvme-tcp", str(OUR_PORT), "--time",
                        "instant", "--poll-us", str(options.poll_us), "--quiet"]
        return title, command, OUR_PORT, NQN_PREFIX + name

    yield ours("pellucid", options.drive, name)
    model, _ = drive_facts(options, options.model)
    # A part of the real capacity: the work for a request does not depend on it.
    yield ours(f"pellucid, {options.model}", options.model, model, "--set", f"ftl.capacity={size}")
    for zcopy in (False, True) if options.spdk_target else ():
        config = Path(directory, f"spdk-{zcopy}.json")
        config.write_text(json.dumps(spdk_config(size // 512, zcopy)))
        memory = str(size // MIB + 700)
        command = on + [options.spdk_target, "-m", hex(1 << options.server_core), "-s", memory, "-c", str(config)]
        yield "SPDK nvmf_tgt" + ", zcopy" * zcopy, command, SPDK_PORT, SPDK_NQN


def measure(options, contender, cases, directory):
    """Results of all cases, one after the other."""
    name, command, port, nqn = contender
    said = Path(directory, "server.log")
    with said.open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        wait_for(process, lambda: listens(port), name, said)
        # Written before, so that reads find data and not holes.
        perf(options, port, nqn, 32, options.fill_seconds, "write")
        return [perf(options, port, nqn, depth, options.seconds, "randread", connections, warm_up=1)
                for depth, connections in cases]
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pellucid", default=str(ROOT / "target/release/pellucid"))
    parser.add_argument("--drive", default=str(ROOT / "bench/serve-ram.toml"))
    parser.add_argument("--model", default="datacenter-tlc", help="a drive that is served with all of its model")
    parser.add_argument("--perf", default="spdk_nvme_perf")
    parser.add_argument("--spdk-target", help="nvmf_tgt, to compare with")
    parser.add_argument("--seconds", type=int, default=3, help="of one measurement")
    parser.add_argument("--fill-seconds", type=int, default=4)
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--poll-us", type=int, default=100)
    parser.add_argument("--server-core", type=int, default=0)
    parser.add_argument("--client-core", type=int, default=1)
    options = parser.parse_args()
    if not shutil.which(options.perf):
        print(f"skipped: {options.perf} is not there; it comes with SPDK (https://spdk.io), built from source")
        return
    title = f"4 KiB random reads over the loopback; medians of {options.turns} turns of {options.seconds} s after " \
            f"{turns.WARM_UP_TURNS} of warm-up (least to most).\n{turns.machine()}"
    cases = [(1, 1), (32, 1), (128, 1), (32, 4)]
    with tempfile.TemporaryDirectory() as directory:
        all_of_them = {contender[0]: contender for contender in contenders(options, directory)}
        found = turns.take(list(all_of_them), options.turns, lambda name: measure(options, all_of_them[name], cases, directory))
    rows = []
    for at, (depth, connections) in enumerate(cases):
        of = {name: [results[at] for results in all_turns] for name, all_turns in found.items()}
        for name, results in of.items():
            ratio = "" if name == "pellucid" else turns.ratios(of["pellucid"], results)
            rows.append([str(depth), str(connections), name, turns.rates(results), f"{turns.median(results, 1):.1f}",
                         f"{turns.median(results, 2):.1f}", ratio])
    turns.table(title, ["outstanding", "connections", "server", "requests/s", "p50 us", "p99 us", "pellucid is times this"], rows)


if __name__ == "__main__":
    main()
