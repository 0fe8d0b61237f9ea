#!/usr/bin/env python3
"""Records the workloads of write clustering through our own server, in real time, and ships them as small traces.

    tools/record_workloads.py [--into examples/fire] [--only NAME ...]

`pellucid fire --record` stands in front of a file. ext4 is this machine's own: nbdfuse makes a file of the export, and a loop device mounts
it (needs root). FAT is that of a Linux guest (tools/guest/fat.sh). A trace has what the file system asked, before the buffer, with its times.
The requests depend on the kernel, so two recordings differ. Not part of make test.
"""
import argparse
import contextlib
import os
import random
import shutil
import sqlite3
import subprocess
import tempfile
import time
from pathlib import Path

from served import NQN_PREFIX, PELLUCID, ROOT, Server, Skip, free_port, program, run

MIB = 1 << 20
DEVICE = 1024 * MIB
# A large package of many files without scripts of its own.
PACKAGE = "linux-headers-6.1.0-56-common"
# Archives that `cargo fetch` has brought, the first of them by name.
ARCHIVES = 300
SONGS, SONG = 12, 7 * MIB
SITES, FILES = 100, 20


class Fire(Server):
    """`pellucid fire` in front of `device`, which records."""

    def __init__(self, directory, device, trace, nvme=False, pellucid=PELLUCID):
        self.device, self.trace = device, trace
        super().__init__(directory, drives=(), nvme=nvme, pellucid=pellucid)

    def start(self):
        self.command = [self.pellucid, "fire", "--device", str(self.device), "--nbd", f"unix:{self.socket}",
                        "--control", self.control, "--record", str(self.trace)]
        self.command += ["--nvme-tcp", str(self.port)] if self.port else []
        super().start()


@contextlib.contextmanager
def mounted(server, directory):
    """The ext4 file system of the export."""
    export, place = Path(directory) / "export", Path(directory) / "mnt"
    export.touch()
    place.mkdir(exist_ok=True)
    fuse = subprocess.Popen([program("nbdfuse"), str(export), server.uri()], stderr=subprocess.DEVNULL)
    loop = None
    try:
        end = time.monotonic() + 30
        while export.stat().st_size == 0:
            assert time.monotonic() < end and fuse.poll() is None, "nbdfuse does not start"
            time.sleep(0.05)
        loop = run("losetup", "--find", "--show", "--direct-io=on", export).strip()
        run("mount", "-t", "ext4", loop, place)
        try:
            yield place
            run("sync", "-f", place)
        finally:
            run("umount", place)
    finally:
        if loop:
            run("losetup", "--detach", loop)
        fuse.terminate()
        fuse.wait(30)


def archives() -> list[Path]:
    home = Path(os.environ.get("CARGO_HOME", "~/.cargo")).expanduser()
    found = sorted(home.glob("registry/cache/*/*.crate"))
    if len(found) < ARCHIVES:
        raise Skip("the archives of our dependencies are not there: cargo fetch")
    return found[:ARCHIVES]


def extract(place: Path, scratch: Path):
    """Source archives are extracted: those of our dependencies."""
    for archive in archives():
        run("tar", "xzf", archive, "-C", place)


def dpkg(place: Path, *words):
    state = place / "var/lib/dpkg"
    for folder in ("updates", "info", "triggers"):
        (state / folder).mkdir(parents=True, exist_ok=True)
    (state / "status").touch()
    run("dpkg", f"--root={place}", "--force-depends", "--force-not-root", "--no-triggers", *words, seconds=600)


def install(place: Path, scratch: Path):
    """A Debian package of thousands of files is installed."""
    dpkg(place, "--install", *scratch.glob("*.deb"))


def remove(place: Path, scratch: Path):
    """The package is removed again."""
    dpkg(place, "--purge", PACKAGE)


def songs(place: Path, scratch: Path):
    """Files of the size of songs are copied."""
    source = scratch / "song"
    source.write_bytes(random.Random(1).randbytes(SONG))
    for number in range(SONGS):
        shutil.copyfile(source, place / f"song{number}.mp3")


def browse(place: Path, scratch: Path):
    """A browser's cache: small files, some of which are read again, and a history that is committed."""
    rng = random.Random(2)
    (place / "cache").mkdir()
    with contextlib.closing(sqlite3.connect(place / "history.sqlite")) as history:
        history.execute("create table visits (site text, at real)")
        for site in range(SITES):
            for number in range(FILES):
                folder = place / "cache" / f"{rng.randrange(64):02x}"
                folder.mkdir(exist_ok=True)
                (folder / f"{site}-{number}").write_bytes(rng.randbytes(int(2_000 + rng.expovariate(1 / 12_000))))
            history.execute("insert into visits values (?, ?)", (f"https://site{site}.example/", time.time()))
            history.commit()
            older = sorted((place / "cache").rglob("*-*"))
            for file in rng.sample(older, min(4, len(older))):
                file.read_bytes()


def shrink(trace: Path, into: Path, limit: int | None):
    """Compresses a trace, cut behind a number of requests if there are more; returns what became of it."""
    lines = trace.read_text().splitlines(keepends=True)
    requests = [line for line in lines if line.split()[2] in ("read", "write", "trim", "sync")] if len(lines) > 1 else []
    kept, cut = lines, ""
    if limit and len(requests) > limit:
        last = lines.index(requests[limit - 1])
        kept, cut = lines[:last + 1], f", the first {limit} of {len(requests)}"
    plain = trace.with_suffix(".cut")
    plain.write_text("".join(kept))
    run("zstd", "-q", "-19", "--force", plain, "-o", into)
    sums = {kind: sum(1 for line in kept if f" {kind}" in line) for kind in ("read", "write", "trim", "sync")}
    wrote = sum(int(line.split()[4]) for line in kept if " write " in line)
    counted = ", ".join(f"{number} {kind}s" for kind, number in sums.items() if number)
    return f"{into.name}: {counted}; {wrote / 1e6:.0f} MB written{cut}; {into.stat().st_size // 1024} KiB"


def record_ext4(into: Path, only, pellucid):
    if only and not any(name.startswith("ext4-") for name in only):
        return
    with tempfile.TemporaryDirectory() as scratch:
        scratch = Path(scratch)
        run("apt-get", "download", PACKAGE, seconds=300, cwd=scratch)
        device = scratch / "device.img"
        for name, work in [("extract", extract), ("install", install), ("remove", remove), ("songs", songs), ("browse", browse)]:
            if name != "remove":
                with device.open("wb") as file:
                    file.truncate(DEVICE)
                run("mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0", device)
            with tempfile.TemporaryDirectory() as directory:
                trace = scratch / f"{name}.log"
                server = Fire(directory, device, trace, pellucid=pellucid)
                try:
                    with mounted(server, directory) as place:
                        work(place, scratch)
                except BaseException:
                    server.kill()
                    raise
                server.stop()
            if not only or f"ext4-{name}" in only:
                print(shrink(trace, into / f"ext4-{name}.fio.zst", LIMIT), flush=True)


def record_fat(into: Path, only, pellucid):
    if only and "fat-songs-browse" not in only:
        return
    with tempfile.TemporaryDirectory() as directory:
        device, trace = Path(directory) / "device.img", Path(directory) / "trace.log"
        with device.open("wb") as file:
            file.truncate(DEVICE // 4)
        server = Fire(directory, device, trace, nvme=True, pellucid=pellucid)
        try:
            print(run("python3", ROOT / "tools/linux_guest.py", "fat", "--connect", server.port, "--nqn",
                      f"{NQN_PREFIX}device", seconds=600), flush=True)
        except BaseException:
            server.kill()
            raise
        server.stop()
        print(shrink(trace, into / "fat-songs-browse.fio.zst", LIMIT), flush=True)


# Requests of a trace at most.
LIMIT = 20_000


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pellucid", default=PELLUCID)
    parser.add_argument("--into", type=Path, default=ROOT / "examples/fire")
    parser.add_argument("--only", nargs="*", help="names of traces")
    parser.add_argument("--no-guest", action="store_true", help="leave FAT out, which needs a guest")
    options = parser.parse_args()
    options.into.mkdir(parents=True, exist_ok=True)
    pellucid = Path(options.pellucid).resolve()
    record_ext4(options.into, options.only, pellucid)
    if not options.no_guest:
        record_fat(options.into, options.only, pellucid)


if __name__ == "__main__":
    main()
