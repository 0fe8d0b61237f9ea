#!/usr/bin/env python3
"""`pellucid fs mount` beside libfuse's passthrough_hp and the bare file system: operations per second, in fair turns.

    bench/fs_mount.py [--files 10000] [--threads 8] [--seconds 10] [--turns 5] [--loads fileserver,webserver,varmail]

The loads are those of crates/mount/examples/file_load.rs. Everything lies on tmpfs, the image too. passthrough_hp is built here
from Debian's source package of fuse3, where its library and a compiler are installed (apt install libfuse3-dev g++ pkg-config). Each turn
measures every contender once, in an order that reverses; the ratio within a turn is what counts. Needs root, /dev/fuse and a release build: cargo build
--release -p pellucid-cli -p pellucid-mount --bins --examples.
"""
import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import turns

ROOT = Path(__file__).resolve().parent.parent
RELEASE = ROOT / "target/release"


def mounted(process, path):
    for _ in range(3000):
        if os.path.ismount(path):
            return process
        assert process.poll() is None, f"{path}: not mounted"
        time.sleep(0.01)
    raise SystemExit(f"{path}: not mounted")


def passthrough(folder, source, path):
    """passthrough_hp over a directory; None where it cannot be built."""
    binary = folder / "hp"
    try:
        code = next(debian_source(folder).glob("fuse-*/example/passthrough_hp.cc"))
        flags = subprocess.run(["pkg-config", "--cflags", "--libs", "fuse3"], check=True, capture_output=True, text=True).stdout
        subprocess.run(["g++", "-O2", "-std=c++14", "-o", binary, code, *flags.split()], check=True, stderr=subprocess.DEVNULL)
    except (StopIteration, OSError, subprocess.CalledProcessError) as why:
        print(f"passthrough_hp: {why}", file=sys.stderr)
        return None
    # It has a descriptor for each file that the kernel remembers.
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    limit = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    return mounted(subprocess.Popen([binary, "--foreground", source, path], stdout=subprocess.DEVNULL, preexec_fn=limit), path)


def debian_source(folder):
    """libfuse's source as Debian has it, without a change to this machine's package lists."""
    lists, place = Path("/etc/apt/sources.list.d/debian.sources"), folder / "apt"
    (place / "lists/partial").mkdir(parents=True)
    (place / "source.sources").write_text(lists.read_text().replace("Types: deb\n", "Types: deb-src\n"))
    where = [f"Dir::Etc::sourcelist={place}/source.sources", "Dir::Etc::sourceparts=/dev/null", f"Dir::State::lists={place}/lists"]
    how = [word for option in where for word in ("-o", option)]
    for words in (["update"], ["source", "--download-only", "fuse3"]):
        subprocess.run(["apt-get", "-q", *how, *words], check=True, cwd=place, capture_output=True)
    archive = next(place.glob("fuse3_*.orig.tar.*z"))
    subprocess.run(["tar", "xf", archive], check=True, cwd=place)
    return place


class Contender:
    """A directory that is measured, and the processes that serve it."""

    def __init__(self, name, folder, options):
        self.name, self.folder, self.process = name, folder / name, None
        self.path = self.folder / "mnt"
        self.path.mkdir(parents=True)
        if name == "passthrough_hp":
            (self.folder / "source").mkdir()
            self.process = passthrough(folder, self.folder / "source", self.path)
            self.there = self.process is not None
            return
        self.there = True
        if name == "pellucid":
            pellucid, image = RELEASE / "pellucid", self.folder / "image"
            # The memory behind the image has been used before, as that which tmpfs takes and gives back all the time: the first use
            # of memory in a virtual machine costs more than everything else here, and a log goes once through all of it.
            with image.open("wb") as file:
                for _ in range(6 << 10):
                    file.write(bytes(1 << 20))
            subprocess.run([pellucid, "fs", "format", image, "--size", "6GiB"], check=True, stdout=subprocess.DEVNULL)
            words = [pellucid, "fs", "mount", image, self.path, *options]
            self.process = mounted(subprocess.Popen(words, stdout=subprocess.DEVNULL), self.path)

    def cpu(self):
        if not self.process:
            return 0.0
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(") ", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def run(self, load, options, seed):
        before, place = self.cpu(), self.path / load
        place.mkdir(exist_ok=True)
        words = [RELEASE / "examples/file_load", place, load, options.files, options.threads, options.seconds, seed]
        result = json.loads(subprocess.run(list(map(str, words)), check=True, stdout=subprocess.PIPE).stdout)
        rate = result["operations"] / result["seconds"]
        return rate, (self.cpu() - before) / max(1, result["operations"]) * 1e6

    def end(self):
        if self.process:
            subprocess.run(["umount", self.path], check=False)
            self.process.wait(120)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--threads", type=int, default=8)
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--loads", default="fileserver,webserver,varmail")
    parser.add_argument("--only", help="measure this contender alone")
    parser.add_argument("--mount", default="", help="options of `pellucid fs mount`")
    options = parser.parse_args()
    print(f"{turns.machine()}; {options.files} files, {options.threads} threads", flush=True)
    names = [options.only] if options.only else ["pellucid", "passthrough_hp", "tmpfs"]
    for load in options.loads.split(","):
        # Each load has file systems of its own: passthrough_hp keeps a descriptor of every file.
        with tempfile.TemporaryDirectory(prefix="pellucid-bench-", dir="/dev/shm") as folder:
            contenders = [Contender(name, Path(folder), options.mount.split()) for name in names]
            try:
                measure([contender for contender in contenders if contender.there], load, options)
            finally:
                for contender in contenders:
                    contender.end()


def measure(contenders, load, options):
    for contender in contenders:
        # The files are made before the clock runs.
        contender.run(load, argparse.Namespace(**{**vars(options), "seconds": 0}), 1)
    found = turns.take(contenders, options.turns, lambda contender: contender.run(load, options, 7))
    rows = []
    for contender in contenders:
        micros, ours = f"{turns.median(found[contender], 1):.1f}", found[contenders[0]]
        rows.append([contender.name, turns.rates(found[contender]), micros, turns.ratios(ours, found[contender])])
    title = f"{load}: {contenders[0].name} beside the others" if contenders else f"{load}: nothing to measure"
    turns.table(title, ["", "operations per second", "processor us each", "so many times as fast"], rows)


if __name__ == "__main__":
    main()
