#!/usr/bin/env python3
"""Real clients against a served drive: fio, qemu-img, qemu-io, nbdinfo, nbdcopy, each with its data verified.

    tools/real_clients.py --pellucid target/release/pellucid

A step whose program is not installed is skipped and says so (Debian: fio, qemu-utils, libnbd-bin). Exit status 1 if any
step that ran has failed.
"""

import argparse
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PRESET = "cosmos-plus"
SETS = ["media.store=ram", "media.blocks=32", "ftl.durability=journal"]


class Skip(Exception):
    """A step cannot run here."""


def run(*command, seconds=120):
    if not shutil.which(command[0]) and not Path(command[0]).exists():
        raise Skip(f"{command[0]} is not installed")
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds)
    if done.returncode:
        raise AssertionError(f"{' '.join(map(str, command))}: status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


class Server:
    """pellucid serve on sockets in `directory`."""

    def __init__(self, pellucid, directory, drive=PRESET, sets=SETS, time_mode="paced", record=None):
        self.pellucid, self.socket, self.control = pellucid, f"{directory}/nbd", f"{directory}/control"
        command = [pellucid, "serve", drive, "--nbd", f"unix:{self.socket}", "--control", self.control]
        command += ["--time", time_mode, "--quiet"] + [word for value in sets for word in ("--set", value)]
        command += ["--record", record] if record else []
        self.process = subprocess.Popen(command)
        for _ in range(200):
            if os.path.exists(self.control):
                return
            assert self.process.poll() is None, "the server ended at once"
            time.sleep(0.02)
        raise AssertionError("the server does not listen")

    @property
    def uri(self):
        return f"nbd+unix:///?socket={self.socket}"

    def end(self, how=signal.SIGTERM):
        if self.process.poll() is None:
            self.process.send_signal(how)
        return self.process.wait(30)

    def fio(self, name, *options):
        return run("fio", f"--name={name}", "--ioengine=nbd", f"--uri={self.uri}", *options)


def information(pellucid, directory):
    server = Server(pellucid, directory)
    try:
        info = json.loads(run("nbdinfo", "--json", server.uri))["exports"][0]
        assert info["can_fua"] and info["can_multi_conn"] and info["can_trim"] and info["can_zero"], info
        image = json.loads(run("qemu-img", "info", "--output=json", f"nbd:unix:{server.socket}:exportname={PRESET}"))
        assert image["virtual-size"] == info["export-size"], image
    finally:
        assert server.end() == 0, "SIGTERM is a good end"


def fio_verify(pellucid, directory):
    """Random writes and trims, every block verified, with the model's latency kept."""
    server = Server(pellucid, directory)
    try:
        verify = ["--bs=16k", "--size=32M", "--iodepth=16", "--verify=crc32c", "--verify_fatal=1"]
        server.fio("write", "--rw=randwrite", *verify)
        server.fio("trim", "--rw=randtrimwrite", "--bs=16k", "--size=16M", "--offset=64M", "--iodepth=8")
        server.fio("again", "--rw=randrw", *verify, "--numjobs=1", "--fsync=32")
    finally:
        assert server.end() == 0


def fio_power_cut(pellucid, directory):
    """What was flushed before the power cut is verified after it."""
    server = Server(pellucid, directory)
    try:
        work = ["--bs=16k", "--size=24M", "--iodepth=16", "--verify=crc32c", "--randseed=5", "--rw=randwrite"]
        server.fio("before", *work, "--do_verify=0", "--end_fsync=1")
        run(pellucid, "power-cut", "--control", server.control)
        server.fio("before", *work, "--verify_only", "--verify_fatal=1")
        status = json.loads(run(pellucid, "status", "--control", server.control))
        assert status["drives"][0]["power_cuts"] == 1, status
        print(f"    lateness of completions: {status['lateness_ns']}")
    finally:
        assert server.end() == 0


def copies(pellucid, directory):
    """An image goes in with qemu-img, comes out with nbdcopy, and compares."""
    server = Server(pellucid, directory, time_mode="instant")
    try:
        size = json.loads(run("nbdinfo", "--json", server.uri))["exports"][0]["export-size"]
        source, back = Path(directory, "source"), Path(directory, "back")
        with source.open("wb") as out:
            out.write(random.Random(3).randbytes(8 << 20))
            out.seek(20 << 20)
            out.write(random.Random(4).randbytes(4 << 20))
            out.truncate(size)
        nbd = f"nbd:unix:{server.socket}:exportname={PRESET}"
        run("qemu-img", "convert", "-n", "-f", "raw", "-O", "raw", str(source), nbd)
        run("qemu-img", "compare", "-f", "raw", "-F", "raw", str(source), nbd)
        run("nbdcopy", server.uri, str(back))
        digests = [hashlib.sha256(path.read_bytes()).hexdigest() for path in (source, back)]
        assert digests[0] == digests[1], "nbdcopy brings other data"
        holes = json.loads(run("nbdinfo", "--map", "--json", server.uri))
        data = sum(extent["length"] for extent in holes if extent["type"] == 0)
        assert 12 << 20 <= data < size, f"{data} bytes of data in the map"
        run("qemu-io", "-f", "raw", "-c", "write -P 0x5a 1M 64k", "-c", "discard 0 512k", "-c", "flush",
            "-c", "read -P 0x5a 1M 64k", "-c", "read -P 0 0 512k", nbd)
    finally:
        assert server.end() == 0


def kill_and_return(pellucid, directory):
    """With a file store, what was flushed survives SIGKILL of the server."""
    sets = SETS[1:] + ["media.store=file", f"media.path={directory}/image"]
    server = Server(pellucid, directory, sets=sets, time_mode="instant")
    work = ["--bs=16k", "--size=24M", "--iodepth=16", "--verify=crc32c", "--randseed=6", "--rw=randwrite"]
    try:
        server.fio("kept", *work, "--do_verify=0", "--end_fsync=1")
        server.end(signal.SIGKILL)
        os.remove(server.control)
        server = Server(pellucid, directory, sets=sets, time_mode="instant")
        server.fio("kept", *work, "--verify_only", "--verify_fatal=1")
    finally:
        assert server.end() == 0


def recording(pellucid, directory):
    """What was recorded is a trace that replay reads."""
    trace = f"{directory}/trace.log"
    server = Server(pellucid, directory, record=trace)
    try:
        server.fio("some", "--rw=randrw", "--bs=16k", "--size=8M", "--iodepth=8")
    finally:
        assert server.end() == 0
    sets = [word for value in SETS for word in ("--set", value)]
    report = json.loads(run(pellucid, "replay", PRESET, trace, "--json", *sets))
    assert report["requests"] >= 512, report["requests"]


STEPS = [information, fio_verify, fio_power_cut, copies, kill_and_return, recording]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pellucid", default="target/release/pellucid")
    parser.add_argument("--only", help="the name of one step")
    options = parser.parse_args()
    failed = False
    for step in STEPS:
        if options.only and step.__name__ != options.only:
            continue
        with tempfile.TemporaryDirectory() as directory:
            try:
                step(os.path.abspath(options.pellucid), directory)
                print(f"ok       {step.__name__}", flush=True)
            except Skip as why:
                print(f"skipped  {step.__name__}: {why}", flush=True)
            except (AssertionError, subprocess.TimeoutExpired) as why:
                failed = True
                print(f"FAILED   {step.__name__}: {why}", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
