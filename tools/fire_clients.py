#!/usr/bin/env python3
"""Real clients over NBD against `pellucid fire` on a plain file: fio with its data verified, ext4 with e2fsck, SIGKILL in between, a device
that fails.

    tools/fire_clients.py [--pellucid target/debug/pellucid] [--only NAME]

One line for each test and a plain count; exit status 1 if any has failed.
"""
import contextlib
import os
import random
import re
import subprocess
import tempfile
import time
from pathlib import Path

from served import HANG_SECONDS, ROOT, Server, Unavailable, main, program, run, served, wait_for

MIB = 1 << 20
WORK = ["--size=48M", "--iodepth=8", "--verify=crc32c", "--verify_fatal=1"]


class Fire(Server):
    """`pellucid fire` in front of a file, with its sockets and its log in `directory`."""

    def __init__(self, directory, size=128 * MIB, options=(), pellucid=None, device=None):
        self.device = device or Path(directory) / "device.img"
        if device is None:
            with self.device.open("wb") as file:
                file.truncate(size)
        self.fire_options = options
        super().__init__(directory, drives=(), pellucid=pellucid)

    def start(self):
        self.command = [self.pellucid, "fire", "--device", str(self.device), "--nbd", f"unix:{self.socket}",
                        "--control", self.control, *self.fire_options]
        self.command += [] if "--memory" in self.fire_options else ["--memory", "12MiB"]
        super().start()


@contextlib.contextmanager
def fire(pellucid, **named):
    with tempfile.TemporaryDirectory() as directory:
        server = Fire(directory, pellucid=pellucid, **named)
        try:
            yield server
        except BaseException:
            server.kill()
            raise
        server.stop()


def fio_verify(pellucid):
    """Random writes of several sizes, with flushes, verified; after a detach the file alone has all of it."""
    with tempfile.TemporaryDirectory() as directory:
        server = Fire(directory, pellucid=pellucid)
        server.fio("mixed", "--rw=randwrite", "--bsrange=512-64k", "--fsync=50", *WORK)
        server.fio("small", "--rw=randwrite", "--bs=4k", "--randseed=9", *WORK)
        server.fio("again", "--rw=randrw", "--bs=4k", "--offset=64M", *WORK)
        server.stop()
        run("fio", "--name=small", "--rw=randwrite", "--bs=4k", "--randseed=9", *WORK, "--verify_only", "--ioengine=psync",
            f"--filename={server.device}", "--verify_state_save=0", cwd=directory)


JOURNAL = ["--journal", "48MiB", "--make-journal", "--set", "host.cluster_buffer.journal_use=always"]


def kill_and_return_with_a_journal(pellucid):
    """The same where flushes are journalled: the next start brings back what was. Without its journal the device is refused."""
    kill_and_return(pellucid, options=JOURNAL)


def ext4_and_kill_with_a_journal(pellucid):
    """The same where flushes are journalled."""
    ext4_and_kill(pellucid, options=JOURNAL)


def kill_and_return(pellucid, options=()):
    """What was flushed survives SIGKILL in strict mode."""
    with fire(pellucid, options=options) as server:
        for seed in range(3):
            work = ["--bs=4k", "--rw=randwrite", f"--randseed={seed}", *WORK]
            server.fio("kept", *work, "--do_verify=0", "--end_fsync=1")
            server.kill()
            server.start()
            server.fio("kept", *work, "--verify_only")
        if options:
            words = [pellucid, "fire", "--device", str(server.device), "--nbd", f"unix:{server.directory}/other"]
            done = subprocess.run(words, capture_output=True, text=True, timeout=HANG_SECONDS)
            assert done.returncode == 2 and "allowed: --journal" in done.stderr, done.stderr


@contextlib.contextmanager
def as_file(server):
    """The export as a file of this machine, through FUSE."""
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        raise Unavailable("no /dev/fuse")
    point = server.directory / "export"
    point.touch()
    fuse = subprocess.Popen([program("nbdfuse"), str(point), server.uri()], stderr=subprocess.DEVNULL)
    try:
        end = time.monotonic() + HANG_SECONDS
        while point.stat().st_size == 0:
            assert time.monotonic() < end and fuse.poll() is None, "nbdfuse does not start"
            time.sleep(0.05)
        yield point
    finally:
        # Which unmounts it.
        fuse.terminate()
        fuse.wait(HANG_SECONDS)


def ext4_and_kill(pellucid, options=()):
    """An ext4 file system of many files is made through the buffer and flushed; the program is killed; e2fsck finds nothing wrong on the bare
    file, and the files are as they were."""
    with tempfile.TemporaryDirectory() as files, fire(pellucid, options=options) as server:
        rng = random.Random(7)
        for number in range(400):
            name = Path(files) / f"d{number % 20}" / f"f{number}"
            name.parent.mkdir(exist_ok=True)
            name.write_bytes(rng.randbytes(rng.randrange(1, 60_000)))
        with as_file(server) as export:
            run("mkfs.ext4", "-q", "-F", "-d", files, export)
            with export.open("rb+") as there:
                os.fsync(there.fileno())
        server.kill()
        if options:
            # What is in the journal is brought back by a start.
            server.start()
            server.stop()
        run("e2fsck", "-f", "-n", server.device)
        back = server.directory / "back"
        back.mkdir()
        run("debugfs", "-R", f"rdump / {back}", server.device)
        (back / "lost+found").rmdir()
        run("diff", "-r", files, back)
        server.start()
        run("e2fsck", "-f", "-n", server.device)


def metadata(pellucid):
    """The metadata that --bypass-metadata finds is what dumpe2fs and debugfs list, to the block; and writes into it pass the buffer by."""
    for options in (["-t", "ext4"], ["-t", "ext3"], ["-t", "ext2"], ["-t", "ext4", "-b", "4096", "-O", "meta_bg,^resize_inode"],
                    ["-t", "ext4", "-b", "1024", "-O", "sparse_super2"], ["-t", "ext4", "-O", "^sparse_super,^flex_bg,^resize_inode"]):
        with tempfile.TemporaryDirectory() as directory:
            device = Path(directory) / "device.img"
            with device.open("wb") as file:
                file.truncate(700 * MIB)
            run("mkfs.ext4", "-q", "-F", *options, device)
            listed = run("dumpe2fs", device)
            block = int(re.search(r"Block size:\s+(\d+)", listed)[1])
            places = r"(?:superblock|[Gg]roup descriptors?|Reserved GDT blocks|Block bitmap|Inode bitmap|Inode table) at (\d+)(?:-(\d+))?"
            blocks = set(range(int(re.search(r"First block:\s+(\d+)", listed)[1]) + 1))
            for found in re.finditer(places, listed):
                blocks.update(range(int(found[1]), int(found[2] or found[1]) + 1))
            if "has_journal" in listed:
                blocks.update(map(int, run("debugfs", "-R", "blocks <8>", device).split()))
            server = Fire(directory, device=device, options=["--bypass-metadata", "--memory", "64MiB"], pellucid=pellucid)
            # Lines of the log are written by a thread of their own.
            wait_for(lambda server=server: "writes into" in server.log(), f"{options}: nothing is said of metadata")
            server.kill()
            told = re.search(r"writes into (\d+) bytes", server.log())
            assert told and int(told[1]) == len(blocks) * block, (options, told and told[0], len(blocks) * block)


def detach(pellucid):
    """What was written and not flushed is on the device after SIGTERM."""
    with tempfile.TemporaryDirectory() as directory:
        server = Fire(directory, options=["--set", "host.cluster_buffer.idle=never"], pellucid=pellucid)
        server.fio("late", "--rw=randwrite", "--bs=4k", "--size=4M", "--do_verify=0", "--verify=crc32c")
        server.stop()
        run("fio", "--name=late", "--rw=randwrite", "--bs=4k", "--size=4M", "--verify=crc32c", "--verify_only", "--verify_fatal=1",
            "--ioengine=psync", f"--filename={server.device}", "--verify_state_save=0", cwd=directory)


def shorter_device(pellucid):
    """A device that loses its end while it is used: errors and a sentence, and the program goes on."""
    with tempfile.TemporaryDirectory() as directory:
        server = Fire(directory, options=["--set", "host.cluster_buffer.idle=never"], pellucid=pellucid)
        server.fio("there", "--rw=write", "--bs=64k", "--size=4M", "--do_verify=0", "--verify=crc32c")
        os.truncate(server.device, 1 * MIB)
        try:
            server.fio("gone", "--rw=randwrite", "--bs=64k", "--offset=64M", "--size=32M", "--end_fsync=1")
            raise AssertionError("writes to what is gone succeed")
        except AssertionError as why:
            assert "Input/output error" in str(why) or "error" in str(why).lower(), why
        assert server.process.poll() is None, server.log()
        assert "device.img" in server.log(), server.log()
        server.kill()


def fewer_programs_than_the_device_alone(pellucid):
    """A recorded workload (FAT, songs and browsing) on the modelled drive of a netbook, which is a file of
    this machine through FUSE. All of it is flushed in the end."""
    with tempfile.TemporaryDirectory() as directory:
        trace = Path(directory) / "trace"
        trace.write_text(run("zstd", "-dc", ROOT / "examples/fire/fat-songs-browse.fio.zst"))
        sets = ["drive.media.blocks=1024", "drive.media.store=ram"]
        programmed = {}
        with served(drives=["netbook-ssd-2"], sets=sets, pellucid=pellucid) as slow, as_file(slow) as device:
            for name in ("fire", "alone"):
                place = Path(directory) / name
                place.mkdir()
                server = slow
                if name == "fire":
                    server = Fire(place, pellucid=pellucid, device=device, options=["--memory", "32MiB"])
                before = slow.programmed_sectors()
                server.fio("recorded", f"--read_iolog={trace}", "--replay_no_stall=1", "--end_fsync=1", f"--replay_redirect={place}/x")
                if name == "fire":
                    server.stop()
                programmed[name] = slow.programmed_sectors() - before
        assert programmed["fire"] < 0.8 * programmed["alone"], programmed
        return f"{programmed['fire']} sectors programmed, without the buffer {programmed['alone']}"


def unit_of_systemd(pellucid):
    """The unit of docs/how-to/fire.md is one that systemd takes."""
    text = (ROOT / "docs/how-to/fire.md").read_text()
    unit = re.search(r"```ini\n(.*?)```", text, re.S)[1].replace("/usr/bin/pellucid", str(pellucid))
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "pellucid-fire@sdX.service"
        file.write_text(unit)
        done = subprocess.run([program("systemd-analyze"), "verify", "--man=no", str(file)], capture_output=True, text=True, timeout=HANG_SECONDS)
        said = [line for line in done.stderr.splitlines() if "pellucid-fire" in line]
        assert done.returncode == 0 and not said, done.stderr


def refusals(pellucid):
    """Bad input gets one sentence and status 2."""
    with tempfile.TemporaryDirectory() as directory:
        device = Path(directory) / "small.img"
        device.write_bytes(bytes(4 * MIB))
        for words, said in [
            (["--device", str(device)], "--nbd"),
            (["--device", str(device), "--nbd", "0", "--memory", "1MiB"], "allowed: at least"),
            (["--device", str(device), "--nbd", "0", "--cluster", "1000"], "allowed: a multiple of the sector"),
            (["--device", str(device), "--nbd", "0", "--flush", "never"], "strict, paper"),
            (["--device", directory, "--nbd", "0"], "allowed: a regular file, a block device"),
            (["--device", f"{directory}/none", "--nbd", "0"], "none"),
            (["--probe", str(device)], "allowed: at least"),
        ]:
            done = subprocess.run([pellucid, "fire", *words], capture_output=True, text=True, timeout=HANG_SECONDS)
            assert done.returncode in (1, 2) and said in done.stderr, (words, done.returncode, done.stderr)
        assert device.read_bytes() == bytes(4 * MIB)


TESTS = [fio_verify, metadata, kill_and_return, kill_and_return_with_a_journal, ext4_and_kill, ext4_and_kill_with_a_journal, detach, shorter_device, fewer_programs_than_the_device_alone, unit_of_systemd, refusals]

if __name__ == "__main__":
    main("fire clients", __doc__, TESTS)
