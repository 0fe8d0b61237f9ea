#!/usr/bin/env python3
"""`pellucid fs mount` against programs that nobody here wrote, and against kills, cuts and a full disk.

    tools/fs_trials.py [--pellucid target/debug/pellucid] [--only NAME]

The file system is mounted by FUSE on a plain file; without /dev/fuse, or without the right to mount, everything is skipped. FS_TRIALS=long runs
each trial at full length (minutes), otherwise all of them together take about one. fsx and pjdfstest are built from crates.io into .tools
at the first run, dbench is Debian's. One line for each test and a plain count; exit status 1 if any has failed.
"""

import contextlib
import errno
import filecmp
import fcntl
import hashlib
import mmap
import os
import random
import re
import shutil
import signal
import socket
import sqlite3
import stat
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path

from fire_clients import as_file
from served import HANG_SECONDS, ROOT, main, program, run, served, Skip, Unavailable, wait_for

LONG = os.environ.get("FS_TRIALS") == "long"
TOOLS = ROOT / ".tools"
# Of the tests of pjdfstest those that are skipped are the ones that remount the file system read-only.
PJDFSTEST = "0.2.2"
FSX = "0.3.2"


def pick(short, long):
    return long if LONG else short


class Mount:
    """A file system on an image file or a modelled drive, and the process that serves it."""

    def __init__(self, pellucid, folder, size, options=(), drive=(), image=None):
        self.pellucid, self.folder, self.options = str(pellucid), Path(folder), [str(word) for word in options]
        self.drive = [str(word) for word in drive]
        self.image, self.path, self.log_path = image or self.folder / "image", self.folder / "mnt", self.folder / "log"
        self.path.mkdir()
        self.process = None
        done = self.ask("format", self.image, *(self.drive or (["--size", size] if size else [])))
        assert done.returncode == 0, done.stderr

    def ask(self, *words, **more):
        """One of the other commands."""
        return subprocess.run([self.pellucid, "fs", *map(str, words)], capture_output=True, text=True, timeout=HANG_SECONDS, **more)

    def start(self):
        with self.log_path.open("a") as log:
            words = [self.pellucid, "fs", "mount", self.image, self.path, *self.drive, *self.options]
            self.process = subprocess.Popen(words, stdout=log, stderr=log)
        end = time.monotonic() + HANG_SECONDS
        while not os.path.ismount(self.path):
            assert self.process.poll() is None, f"not mounted: {self.log()}"
            assert time.monotonic() < end, f"not mounted after {HANG_SECONDS} s: {self.log()}"
            time.sleep(0.01)

    def log(self):
        return self.log_path.read_text()

    def kill(self):
        """Ends the process without a chance to put anything away, and takes the dead mount away."""
        self.process.kill()
        self.process.wait()
        self.detach()

    def detach(self):
        # A dead mount answers ENOTCONN, which is no mount to `ismount`.
        subprocess.run([program("umount"), "-l", self.path], capture_output=True)

    def stop(self, how="umount"):
        """Unmounts; everything has to be durable and the process ended without a complaint."""
        if how == "umount":
            end = time.monotonic() + HANG_SECONDS
            while subprocess.run([program("umount"), self.path], capture_output=True).returncode:
                assert time.monotonic() < end, f"umount: busy for {HANG_SECONDS} s"
                time.sleep(0.05)
        else:
            self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(HANG_SECONDS)
        assert status == 0 and "panicked" not in self.log(), f"mount: status {status}\n{self.log()[-2000:]}"
        assert not os.path.ismount(self.path), "still mounted"

    def check(self):
        done = self.ask("check", self.image, *self.drive)
        assert done.returncode == 0, f"fs check: status {done.returncode}\n{done.stdout}{done.stderr}"


def needs_fuse():
    if not os.access("/dev/fuse", os.R_OK | os.W_OK) or os.geteuid() != 0:
        raise Unavailable("mounting needs /dev/fuse and root")


@contextlib.contextmanager
def mounted(pellucid, size="256MiB", options=(), drive=()):
    """A mounted file system; at the end it is unmounted and checked."""
    needs_fuse()
    with tempfile.TemporaryDirectory(prefix="pellucid-fs-") as folder:
        os.chmod(folder, 0o755)
        mount = Mount(pellucid, folder, size, options, drive)
        try:
            mount.start()
            yield mount
            mount.stop()
            mount.check()
        except BaseException:
            if "panicked" in mount.log():
                print(f"the mount's log ends with\n{mount.log()[:2500]}", flush=True)
            raise
        finally:
            if mount.process and mount.process.poll() is None:
                mount.kill()
            mount.detach()


def built(name, version):
    """A program from crates.io."""
    path = TOOLS / "bin" / name
    if not path.exists():
        environment = os.environ | {"CARGO_PROFILE_DEV_DEBUG": "0"}
        words = ["cargo", "install", "--debug", "--quiet", "--locked", "--root", str(TOOLS), f"{name}@{version}"]
        done = subprocess.run(words, capture_output=True, text=True, cwd="/", env=environment)
        if done.returncode:
            raise Skip(f"{name} cannot be built: {done.stderr.strip().splitlines()[-1]}")
    return path


def pjdfstest(pellucid):
    """System calls and their errors; ext4 passes all that run."""
    binary = built("pjdfstest", PJDFSTEST)
    with mounted(pellucid) as mount, tempfile.NamedTemporaryFile("w", suffix=".toml") as config:
        config.write("[features]\nposix_fallocate = {}\nrename_ctime = {}\nutimensat = {}\nutime_now = {}\n"
                     "[settings]\nnaptime = 0.01\nallow_remount = false\n"
                     '[dummy_auth]\nentries = [["nobody", "nogroup"], ["daemon", "daemon"]]\n')
        config.flush()
        mount.path.chmod(0o755)
        words = [binary, "-c", config.name, "-p", mount.path, "-s", "/dev/shm"]
        done = subprocess.run(words, capture_output=True, text=True, timeout=600)
        summary = re.search(r"(\d+) failed, (\d+) skipped, (\d+) passed", done.stdout)
        assert summary, f"{done.stdout[-2000:]}{done.stderr}"
        failed = re.findall(r"(\S+)\s+FAILED", done.stdout)
        assert summary[1] == "0", f"{summary[1]} failed: {', '.join(sorted(set(failed)))}"
        assert int(summary[3]) > 350, summary[0]
        return summary[0]


FSX_WEIGHTS = """flen = {length}
[opsize]
max = 65536
[weights]
close_open = 1
read = 10
write = 10
mapread = 10
mapwrite = 10
invalidate = 1
truncate = 5
fsync = 0.5
fdatasync = 0.5
posix_fallocate = 1
punch_hole = 3
sendfile = 1
"""


def fsx(pellucid):
    """Random reads, writes, maps, holes and sizes of one file, compared with memory; several files at once."""
    binary = built("fsx", FSX)
    operations, files = pick(3_000, 250_000), 4
    with mounted(pellucid) as mount:
        config = mount.folder / "fsx.toml"
        config.write_text(FSX_WEIGHTS.format(length=4 << 20))
        words = [[binary, "-f", config, "-N", operations, "-S", seed, "-P", mount.folder, mount.path / f"fsx-{seed}"]
                 for seed in range(1, files + 1)]
        running = [subprocess.Popen([*map(str, word)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for word in words]
        for one in running:
            output = one.communicate(timeout=3600)[0]
            assert one.returncode == 0, f"{' '.join(map(str, one.args))}: status {one.returncode}\n{output[-3000:]}"
    return f"{files} files, {operations * files} operations"


def dbench(pellucid):
    """A file server's load of eight clients."""
    loads = sorted(Path("/usr/share/dbench").glob("client.txt")) + sorted(Path("/usr/share/doc/dbench").glob("*client.txt*"))
    binary = program("dbench")
    seconds = pick(5, 60)
    with mounted(pellucid, size="1GiB") as mount:
        words = [binary, "-D", str(mount.path), "-t", str(seconds), *(["-c", str(loads[0])] if loads else []), "8"]
        done = subprocess.run(words, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0 and " failed" not in done.stdout, f"status {done.returncode}\n{done.stdout[-2000:]}{done.stderr}"
        return re.search(r"Throughput .*", done.stdout)[0]


def git(pellucid):
    """A clone of this repository, checked by git, across a mount."""
    if not (ROOT / ".git").exists():
        raise Unavailable("this is no checkout")
    environment = os.environ | {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*"}
    with mounted(pellucid, size="1GiB") as mount:
        clone = mount.path / "clone"
        run("git", "clone", "-q", "--no-hardlinks", ROOT, clone, env=environment, seconds=600)
        for _ in range(2):
            run("git", "-C", clone, "fsck", "--full", "--strict", env=environment, seconds=600)
            assert not run("git", "-C", clone, "status", "--porcelain", env=environment)
            mount.stop()
            mount.start()
        if LONG:
            run("git", "-C", clone, "gc", "-q", "--aggressive", env=environment, seconds=1200)
            run("git", "-C", clone, "fsck", "--full", "--strict", env=environment, seconds=600)
        return f"{len(run('git', '-C', clone, 'ls-files', env=environment).splitlines())} files"


def trees(one, other):
    """Compares two trees by names, kinds, modes, targets, times and content; counts files."""
    count = 0
    for (folder, folders, files), (_, folders_too, files_too) in zip(sorted(os.walk(one)), sorted(os.walk(other)), strict=True):
        assert sorted(folders) == sorted(folders_too) and sorted(files) == sorted(files_too), folder
        for name in files:
            path = Path(folder, name)
            twin = Path(other, path.relative_to(one))
            here, there = path.lstat(), twin.lstat()
            assert here.st_mode == there.st_mode and here.st_mtime_ns == there.st_mtime_ns, path
            if stat.S_ISLNK(here.st_mode):
                assert os.readlink(path) == os.readlink(twin), path
            else:
                assert here.st_size == there.st_size and filecmp.cmp(path, twin, shallow=False), path
            count += 1
    return count


def tree(pellucid):
    """A large tree of sources, copied, compared, mounted again and compared again."""
    sources = sorted(Path.home().glob(".cargo/registry/src/*"))
    if not sources:
        raise Unavailable("no sources of crates are here")
    with mounted(pellucid, size="4GiB") as mount:
        chosen = sorted(path for path in sources[0].iterdir() if path.is_dir())[: pick(40, 100_000)]
        origin = mount.folder / "origin"
        origin.mkdir()
        for path in chosen:
            (origin / path.name).symlink_to(path)
        run("cp", "-a", *chosen, mount.path, seconds=1800)
        counts = []
        for _ in range(2):
            counts.append(sum(trees(path, mount.path / path.name) for path in chosen))
            mount.stop()
            mount.start()
        for path in chosen[::2]:
            shutil.rmtree(mount.path / path.name)
        assert sum(trees(path, mount.path / path.name) for path in chosen[1::2]) < counts[0]
        return f"{counts[0]} files"


def limits(pellucid):
    """Names of 255 bytes and more, paths of 4,096, sparse files, maps, attributes, links, locks: errors as ext4's."""
    with mounted(pellucid) as mount, tempfile.TemporaryDirectory() as other:
        os.chmod(other, 0o755)
        outcomes = [limit_outcomes(Path(place)) for place in (mount.path, other)]
        for (name, ours), (_, theirs) in zip(*outcomes, strict=True):
            assert ours == theirs, f"{name}: {ours} here, {theirs} on the system's file system"
        return f"{len(outcomes[0])} outcomes"


def limit_outcomes(place):
    """What a series of odd requests gives, by name."""
    found = []

    def attempt(name, work):
        try:
            found.append((name, work()))
        except OSError as error:
            found.append((name, error.errno))

    name, umlauts = "n" * 255, "ü" * 127 + "x"
    attempt("255", lambda: (place / name).write_text("x"))
    attempt("255 bytes of UTF-8", lambda: (place / umlauts).write_text("x"))
    attempt("256", lambda: (place / (name + "n")).write_text("x"))
    for call in os.mkdir, os.unlink, os.rmdir, os.listdir, os.stat:
        attempt(f"256 {call.__name__}", lambda call=call: call(place / (name + "n")))
    attempt("rename to 256", lambda: os.rename(place / name, place / (name + "n")))
    attempt("symlink of 4095", lambda: (os.symlink("t" * 4095, place / "link"), len(os.readlink(place / "link")))[1])
    attempt("symlink of 4096", lambda: os.symlink("t" * 4096, place / "longer"))
    # Deeper than a path may say: step by step.
    back, depth = os.open(".", os.O_RDONLY), 0
    try:
        os.chdir(place)
        for depth in range(20):
            os.mkdir("d" * 250)
            os.chdir("d" * 250)
        attempt("path of 4096", lambda: os.stat(place / "/".join(["d" * 250] * 20)))
        attempt("deep file", lambda: Path("file").write_text("deep"))
    finally:
        os.fchdir(back)
        os.close(back)
    attempt("not empty", lambda: os.rmdir(place / ("d" * 250)))
    attempt("no directory", lambda: os.listdir(place / name))
    attempt("under a file", lambda: os.stat(place / name / "x"))
    attempt("rename into itself", lambda: os.rename(place / ("d" * 250), place / ("d" * 250) / "x"))
    attempt("hard link of a directory", lambda: os.link(place / ("d" * 250), place / "hard"))
    file = os.open(place / "sparse", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        attempt("far", lambda: os.pwrite(file, b"far", 5 << 30))
        attempt("size", lambda: os.fstat(file).st_size)
        attempt("sparse", lambda: os.fstat(file).st_blocks < 100)
        attempt("hole", lambda: os.pread(file, 3, 1 << 30))
        attempt("data", lambda: os.lseek(file, 0, os.SEEK_DATA))
        attempt("hole after", lambda: os.lseek(file, 5 << 30, os.SEEK_HOLE))
        attempt("no data after", lambda: os.lseek(file, 6 << 30, os.SEEK_DATA))
        attempt("negative", lambda: os.pread(file, 3, -1))
        attempt("truncate negative", lambda: os.ftruncate(file, -1))
        for far in (1 << 63) - 1, 1 << 44, ((1 << 32) - 1) << 12, (((1 << 32) - 1) << 12) + 1:
            attempt(f"truncate to {far}", lambda far=far: (os.ftruncate(file, far), os.fstat(file).st_size)[1])
        attempt("write behind the largest file", lambda: os.pwrite(file, b"far", 1 << 44))
        attempt("fallocate", lambda: (os.posix_fallocate(file, 0, 1 << 20), os.fstat(file).st_size)[1])
        attempt("fallocate reserves", lambda: os.fstat(file).st_blocks >= 2048)
        attempt("fallocate negative", lambda: os.posix_fallocate(file, 0, -5))
        attempt("truncate", lambda: (os.ftruncate(file, 10_000), os.fstat(file).st_size)[1])
        with mmap.mmap(file, 8192) as both:
            both[4090:4100] = b"0123456789"
            attempt("map", lambda: os.pread(file, 10, 4090))
            both.flush()
        attempt("lock", lambda: fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB))
        attempt("flock", lambda: fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB))
        attempt("lock of another", lambda: locked_by_another(place / "sparse"))
        attempt("unlinked", lambda: (os.unlink(place / "sparse"), os.pread(file, 10, 4090), os.fstat(file).st_nlink)[1:])
    finally:
        os.close(file)
    plain = place / "attributes"
    plain.write_text("x")
    attempt("xattr", lambda: (os.setxattr(plain, "user.a", b"b"), os.getxattr(plain, "user.a"), os.listxattr(plain))[1:])
    attempt("xattr create", lambda: os.setxattr(plain, "user.a", b"c", os.XATTR_CREATE))
    attempt("xattr replace", lambda: os.setxattr(plain, "user.none", b"c", os.XATTR_REPLACE))
    attempt("xattr none", lambda: os.getxattr(plain, "user.none"))
    attempt("xattr empty", lambda: (os.setxattr(plain, "user.empty", b""), os.getxattr(plain, "user.empty"))[1])
    attempt("xattr removed", lambda: (os.removexattr(plain, "user.a"), os.listxattr(plain))[1])
    attempt("xattr namespace", lambda: os.setxattr(plain, "nonsense.a", b"c"))
    attempt("xattr name of 256", lambda: os.setxattr(plain, "user." + "x" * 251, b"c"))
    attempt("xattr of 64 KiB and more", lambda: os.setxattr(plain, "user.big", b"c" * 65537))
    attempt("times", lambda: (os.utime(plain, ns=(123_456_789, 987_654_321)), plain.stat().st_atime_ns, plain.stat().st_mtime_ns)[1:])
    attempt("times before 1970", lambda: (os.utime(plain, ns=(-5_500_000_000, -1)), plain.stat().st_mtime_ns)[1])
    attempt("fifo", lambda: (os.mkfifo(place / "fifo"), stat.S_ISFIFO((place / "fifo").stat().st_mode))[1])
    attempt("device", lambda: (os.mknod(place / "null", 0o600 | stat.S_IFCHR, os.makedev(1, 3)), (place / "null").stat().st_rdev)[1])
    attempt("links", lambda: (os.link(plain, place / "two"), plain.stat().st_nlink)[1])
    attempt("directory links", lambda: (os.mkdir(place / "sub"), os.mkdir(place / "sub/sub"), (place / "sub").stat().st_nlink)[2])
    attempt("setuid goes with a write", lambda: suid(place / "suid"))
    return found


def locked_by_another(path):
    code = "import fcntl,sys\nfile = open(sys.argv[1], 'r+')\ntry: fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)\nexcept OSError as e: print(e.errno)"
    return run("python3", "-c", code, path)


def suid(path):
    """The mode of a set-user-id file after somebody else has written to it."""
    path.write_text("x")
    path.chmod(0o6777)
    subprocess.run(["sh", "-c", 'printf y > "$0"', path], user=65534, group=65534, extra_groups=[], check=True)
    return oct(path.stat().st_mode)


def many(pellucid):
    """A directory of a million entries (short form: 30,000): listed once each, found, and emptied."""
    count = pick(30_000, 1_000_000)
    with mounted(pellucid, size="1GiB") as mount:
        folder = mount.path / "many"
        folder.mkdir()
        for number in range(count):
            os.close(os.open(folder / f"{number}", os.O_CREAT | os.O_WRONLY))
        assert sorted(map(int, os.listdir(folder))) == list(range(count))
        mount.stop()
        mount.start()
        names = [entry.name for entry in os.scandir(folder)]
        assert len(names) == count and len(set(names)) == count
        for number in random.Random(5).sample(range(count), 1000):
            (folder / f"{number}").stat()
        # A listing that goes on while entries go away shows each at most once, and all that stay.
        seen = []
        for place, entry in enumerate(os.scandir(folder)):
            seen.append(entry.name)
            if place % 3 == 0:
                os.unlink(entry.path)
        assert len(seen) == len(set(seen)) == count, f"{len(seen)} of {count} seen, {len(set(seen))} different"
        shutil.rmtree(folder)
    return f"{count} entries"


def full(pellucid):
    """A full file system says so, stays readable and consistent, and lets one delete."""
    with mounted(pellucid, size="48MiB") as mount:
        for turn in range(pick(3, 12)):
            kept, content = [], os.urandom(1 << 20)
            free = os.statvfs(mount.path)
            promised = free.f_bavail * free.f_frsize
            try:
                for number in range(1000):
                    path = mount.path / f"{turn}-{number}"
                    with path.open("wb") as file:
                        kept.append(path)
                        file.write(content)
                        file.flush()
                        os.fsync(file.fileno())
                raise AssertionError("never full")
            except OSError as error:
                assert error.errno == 28, error
            whole = [path for path in kept if path.stat().st_size == len(content)]
            written = len(whole) << 20
            assert written >= promised * 0.9 - (2 << 20), f"df promised {promised}, {written} could be written"
            for path in whole:
                assert path.read_bytes() == content, path
            if turn % 2:
                mount.stop()
                mount.start()
            for path in kept:
                path.unlink()
            os.sync()
        # Small files until it is full, too.
        numbers = 0
        with contextlib.suppress(OSError):
            for numbers in range(1_000_000):
                (mount.path / f"small-{numbers}").write_bytes(content[:100])
        mount.stop()
        mount.check()
        mount.start()
        for path in mount.path.iterdir():
            path.unlink()
        (mount.path / "again").write_bytes(content)
    return f"{numbers} small files"


CRASHER = """
import hashlib, os, random, sys
folder, told, seed = sys.argv[1], open(sys.argv[2], "a", buffering=1), int(sys.argv[3])
rng = random.Random(seed)
for number in range(1_000_000):
    data = rng.randbytes(rng.choice([10, 4096, 5000, 300_000]))
    path = f"{folder}/{seed}-{number % 50}"
    file = os.open(path + ".new", os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
    os.write(file, data)
    os.fsync(file)
    os.close(file)
    told.write(f"renames {path} {hashlib.sha256(data).hexdigest()}\\n")
    os.rename(path + ".new", path)
    parent = os.open(folder, os.O_RDONLY)
    os.fsync(parent)
    os.close(parent)
    told.write(f"synced {path} {hashlib.sha256(data).hexdigest()}\\n")
"""


def host_full(pellucid):
    """The disk below an image is full: the mount becomes read-only, says why at once, and what was synced can be read."""
    needs_fuse()
    with tempfile.TemporaryDirectory(prefix="pellucid-host-") as small:
        run(program("mount"), "-t", "tmpfs", "-o", "size=12m", "none", small)
        try:
            with mounted_on(pellucid, Path(small) / "image", size="256MiB") as mount:
                synced(mount.path / "first", b"first")
                becomes_read_only(mount)
                said_once(mount, "cannot write: No space left on device (os error 28); it is read-only")
                assert (mount.path / "first").read_bytes() == b"first"
                mount.kill()
        finally:
            run(program("umount"), small)


def said_once(mount, words):
    """The mount's log has these words, once; they may come after the answer that they are about."""
    wait_for(lambda: words in mount.log(), f"the log does not say: {words}")
    assert mount.log().count(words) == 1, mount.log()


def promised(told):
    """By path, which contents it may have: the one that was synced last, or one whose rename has begun since."""
    allowed = {}
    for line in told.read_text().splitlines():
        words = line.split()
        if len(words) == 3 and len(words[2]) == 64:
            if words[0] == "synced":
                allowed[words[1]] = {words[2]}
            else:
                allowed.setdefault(words[1], {None}).add(words[2])
    return allowed


def kept(mount, told):
    """Everything that was promised is there."""
    allowed = promised(told)
    for path, digests in allowed.items():
        digest = hashlib.sha256(Path(path).read_bytes()).hexdigest() if os.path.exists(path) else None
        assert digest in digests, f"{path}: {digest} is none of {digests}"
    return len(allowed)


def kills(pellucid):
    """The process is killed under load, again and again: the next mount has all that was synced."""
    turns = pick(4, 60)
    with mounted(pellucid, size="256MiB") as mount:
        return f"{turns} kills, {killed(mount, turns)} files"


# Small drives: with the block one the process's end is a power cut, with the other all that was acknowledged is on the flash.
SETS = [word for set in ["media.channels=4", "media.ways=1", "media.blocks=48", "media.pages=64"] for word in ("--set", set)]
DRIVES = {
    "block": ["--drive", "cosmos-plus", *SETS],
    "function level": ["--drive", "memblaze", *SETS, "--set", 'drive.namespace=[{ interface = "open-channel" }]'],
    "names": ["--drive", "memblaze", *SETS, "--set", 'drive.namespace=[{ interface = "nameless" }]', "--set", "media.sector_size=4KiB"],
    # The FTL of names in the host.
    "split": ["--drive", "jasmine-nameless", "--set", "media.blocks=48"],
}


def drives(pellucid):
    """On modelled drives, on blocks, on flash and on names: a stop, kills, a read-only mount, and refusals."""
    turns, found = pick(3, 40), []
    for name, drive in DRIVES.items():
        with mounted(pellucid, options=["--time", "instant"], drive=drive) as mount:
            # Longer than what the drive buffers, so that a kill meets writes under way.
            (mount.path / "large").write_bytes(b"large" * 1_000_000)
            mount.stop(signal.SIGTERM)
            mount.check()
            told(mount.ask("format", mount.image, *drive), "format over a file system")
            told(mount.ask("check", mount.image, *drive, "--set", "media.blocks=49"), "another description")
            told(mount.ask("check", mount.folder / "absent", *drive), "no such file")
            assert not (mount.folder / "absent").exists()
            mount.options.append("--read-only")
            mount.start()
            assert (mount.path / "large").read_bytes() == b"large" * 1_000_000
            try:
                (mount.path / "new").write_text("x")
                raise AssertionError("a read-only mount takes writes")
            except OSError as error:
                assert error.errno == errno.EROFS, error
            mount.stop()
            mount.options.pop()
            mount.start()
            found.append(f"{name} {killed(mount, turns)} files")
            assert (mount.path / "large").read_bytes() == b"large" * 1_000_000
    # In real time: what is synced waits for the drive's programs.
    with mounted(pellucid, drive=[*DRIVES["function level"], "--set", 'media.timing.program=["20ms", "20ms"]']) as mount:
        began = time.monotonic()
        file = os.open(mount.path / "slow", os.O_CREAT | os.O_WRONLY)
        os.write(file, b"slow")
        os.fsync(file)
        os.close(file)
        assert time.monotonic() - began > 0.02, "a program takes 20 ms"
    return f"{turns} kills each, {', '.join(found)}"


def crashers(mount, told, seeds):
    """Programs that write files and note what was promised; each has begun when this returns."""
    before = told.read_text() if told.exists() else ""
    loads = [subprocess.Popen(["python3", "-c", CRASHER, mount.path, told, str(seed)], stderr=subprocess.DEVNULL) for seed in seeds]
    promises = lambda: told.exists() and told.read_text()[len(before):]
    # A busy machine may take long until the first file is synced.
    wait_for(lambda: (text := promises()) and all(f"synced {mount.path}/{seed}-" in text for seed in seeds), "nothing was synced")
    return loads


def killed(mount, turns):
    """Kills under load; the files that were promised and are there."""
    rng, told, files = random.Random(11), mount.folder / "told", 0
    for turn in range(turns):
        loads = crashers(mount, told, [turn * 10 + seed for seed in range(3)])
        time.sleep(0.1 + rng.random())
        mount.kill()
        for load in loads:
            load.kill()
            load.wait()
        mount.check()
        mount.start()
        files = kept(mount, told)
    assert files > 3, f"{files} files: nothing was tried"
    return files


def cuts(pellucid):
    """Power cuts: what was not synced to the image is partly lost; a copy of it mounts and has what was promised."""
    rng, turns = random.Random(12), pick(4, 60)
    with mounted(pellucid, size="96MiB") as mount:
        told, folder, found = mount.folder / "told", mount.folder, 0
        loads = crashers(mount, told, range(3))
        try:
            for turn in range(turns):
                time.sleep(0.2 + rng.random())
                cut(mount, folder / "copy", folder / "told-then", told)
                copy = Path(folder, "copy")
                found = inspect(mount, copy, folder / "told-then")
        finally:
            for load in loads:
                load.kill()
                load.wait()
        return f"{turns} cuts, {found} files"


def cut(mount, copy, told_then, told):
    """A copy of the image as it was at one moment: the process stands still meanwhile."""
    mount.process.send_signal(signal.SIGSTOP)
    # Each of its threads stops when it comes back from the kernel.
    tasks = Path(f"/proc/{mount.process.pid}/task")
    while any(task.joinpath("stat").read_text().rsplit(")", 1)[1].split()[0] != "T" for task in tasks.iterdir()):
        time.sleep(0.001)
    try:
        shutil.copyfile(told, told_then)
        shutil.copyfile(mount.image, copy)
    finally:
        mount.process.send_signal(signal.SIGCONT)


def inspect(mount, image, told):
    """Mounts a copy elsewhere and looks for what was promised."""
    there = mount.folder / "there"
    there.mkdir(exist_ok=True)
    twin = object.__new__(Mount)
    twin.__dict__.update(mount.__dict__, image=image, path=there, process=None)
    twin.check()
    twin.start()
    try:
        elsewhere = mount.folder / "told-there"
        elsewhere.write_text(told.read_text().replace(str(mount.path), str(there)))
        found = kept(twin, elsewhere)
        twin.stop()
        twin.check()
        return found
    finally:
        if twin.process.poll() is None:
            twin.kill()


SQLITE = """
import os, sqlite3, sys
database = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=900)
database.execute(f"pragma journal_mode={sys.argv[3]}")
# With "full" a commit is the removal of the journal, which no fsync follows: a power cut may undo the last one.
database.execute("pragma synchronous=extra")
database.execute("create table if not exists t (n integer primary key, square integer, filler blob)")
told = open(sys.argv[2], "a", buffering=1)
at = database.execute("select coalesce(max(n), 0) from t").fetchone()[0]
while True:
    database.execute("begin")
    for n in range(at + 1, at + 11):
        database.execute("insert into t values (?, ?, randomblob(700))", (n, n * n))
    database.execute("delete from t where n <= ?", (at - 2000,))
    database.execute("commit")
    at += 10
    # A directory that cannot be opened any more, SQLite does not sync, and calls the commit done: only a file system that still answers counts.
    os.statvfs(sys.argv[1])
    told.write(f"{at}\\n")
"""


def sqlite(pellucid):
    """SQLite is killed with the file system under it, on a file, and on a drive that loses its power with the process: no committed row is lost,
    and SQLite's own check finds nothing."""
    turns, found = pick(3, 30), []
    for name, drive in ("file", ()), ("drive", DRIVES["block"]):
        with mounted(pellucid, size="128MiB", options=["--time", "instant"] if drive else (), drive=drive) as mount:
            found += [f"{name} {mode} {committed(mount, mode, turns)}" for mode in ("delete", "wal")]
    return f"{turns} kills each; rows committed: {', '.join(found)}"


def committed(mount, mode, turns):
    """Kills under transactions; the last row that was committed."""
    path, told, rng = mount.path / f"{mode}.db", mount.folder / f"told-{mode}", random.Random(13)
    for _ in range(turns):
        before = told.stat().st_size if told.exists() else 0
        load = subprocess.Popen(["python3", "-c", SQLITE, path, told, mode], stderr=subprocess.DEVNULL)
        # A slow machine may take long until the first commit.
        wait_for(lambda: told.exists() and told.stat().st_size > before, "no row was committed")
        time.sleep(0.1 + rng.random())
        mount.kill()
        load.kill()
        load.wait()
        mount.check()
        mount.start()
        with contextlib.closing(sqlite3.connect(path)) as database:
            assert database.execute("pragma integrity_check").fetchone()[0] == "ok"
            found = database.execute("select max(n), sum(square != n * n), max(n) - min(n) + 1 - count(*) from t").fetchone()
            last = int(told.read_text().split()[-1])
            assert found[0] in (last, last + 10) and found[1:] == (0, 0), f"{mode}: {last} was committed, {found} found"
    return last


def breaks(pellucid):
    """A drive in service breaks under the mount. A die dies: what is lost is EIO for the files that had it, all others can be read, and new ones
    written. Then nothing can be written any more: the mount becomes read-only, and so does the next one."""
    # Of 16 dies the others hold what the drive has, so that it goes on.
    sets = ["media.store=ram", "media.channels=4", "media.ways=4", "media.blocks=24", "media.pages=64", "ftl.over_provisioning=0.4"]
    with served(["cosmos-plus"], sets, time_mode="instant", pellucid=pellucid) as server:
        with as_file(server) as export, mounted_on(pellucid, export) as mount:
            rng, contents = random.Random(17), {}
            for number in range(200):
                path = mount.path / f"file-{number}"
                contents[path] = rng.randbytes(rng.randrange(1, 200_000))
                path.write_bytes(contents[path])
            mount.stop()
            mount.start()
            lost = set(readable(contents))
            assert not lost, f"{len(lost)} files lost on a drive that works"
            mount.stop()
            mount.start()
            ask(pellucid, "fault", "--control", server.control, "--kill-die", 1)
            lost = set(readable(contents))
            assert 0 < len(lost) < len(contents), f"{len(lost)} of {len(contents)} files lost with one of 16 dies"
            new = {mount.path / f"new-{number}": rng.randbytes(50_000) for number in range(20)}
            for path, content in new.items():
                with path.open("wb") as file:
                    file.write(content)
                    file.flush()
                    os.fsync(file.fileno())
            assert not set(readable(new)), "what is written after the failure can be read"
            for path in lost:
                path.unlink()
            assert not set(readable({path: content for path, content in contents.items() if path not in lost}))
            mount.stop()
            mount.start()
            assert not set(readable(new)), "the next mount recovers"
            ask(pellucid, "fault", "--control", server.control, "--wear-out")
            refused = becomes_read_only(mount)
            assert not set(readable(new)), "a read-only drive can be read"
            with contextlib.suppress(AssertionError):
                # What could not be written is told.
                mount.stop()
            mount.start()
            assert not set(readable(new)), "a read-only drive can be mounted and read"
            assert becomes_read_only(mount) == 0, "a read-only drive takes writes"
            with contextlib.suppress(AssertionError):
                mount.stop()
    return f"{len(lost)} of {len(contents)} files lost with a die; {refused} writes until read-only"


def service(pellucid):
    """The drive under a mount is in service: it is watched, a planned fault strikes, its power is cut, and it is told to stop. What was synced is there
    at the next mount."""
    for name, drive in DRIVES.items():
        with mounted(pellucid, drive=drive) as mount:
            mount.stop()
            in_service(pellucid, mount, name)
            mount.options = ["--time", "instant"]
            mount.start()
    with mounted(pellucid, size="32MiB") as mount:
        told(mount.ask("mount", mount.image, mount.folder, "--control", mount.folder / "control"), "--control without --drive")
    return f"{len(DRIVES)} kinds of drives"


def in_service(pellucid, mount, name):
    control = mount.folder / "control"
    words = ["--time", "instant", "--control", control, "--monitor", "0", "--fault", "read-fail=0.0001@50ops"]
    mount.options = [str(word) for word in words]
    mount.start()
    rng, contents = random.Random(3), {}
    for number in range(60):
        contents[mount.path / f"file-{number}"] = rng.randbytes(rng.randrange(1, 60_000))
    for path, content in contents.items():
        synced(path, content)
    assert b'"ok":true' in said(control, '{"do":"status"}'), name
    assert "read-fail=0.0001" in mount.log(), mount.log()
    monitor = re.search(r"http://[^ \"]*/", mount.log()).group(0)

    def figure(metric):
        shown = urllib.request.urlopen(monitor + "metrics", timeout=HANG_SECONDS).read().decode()
        found = re.search(rf"^pellucid_layer_fs_{metric}_total\{{[^}}]*\}} (\d+)$", shown, re.MULTILINE)
        return found and int(found[1])

    # A page may be as old as the last question of another reader.
    wait_for(lambda: (figure("data_blocks") or 0) >= len(contents), f"{name}: the metrics show what the file system has written")
    assert figure("gc_pauses") == 0, f"{name}: nothing has been cleaned yet"
    (mount.path / "unsynced").write_bytes(b"unsynced")
    ask(pellucid, "power-cut", "--control", control)
    for late in [lambda: (mount.path / "late").write_bytes(b"late"), lambda: list(mount.path.iterdir())]:
        try:
            late()
            raise AssertionError(f"{name}: a mount goes on with a drive that has lost what was not flushed")
        except OSError as error:
            assert error.errno == errno.EIO, error
    wait_for(lambda: len(set(readable(contents))) == len(contents), f"{name}: the kernel goes on with what it caches")
    said_once(mount, "has lost its power")
    with contextlib.suppress(AssertionError):
        # What could not be written is told.
        mount.stop()
    mount.start()
    assert not set(readable(contents)), f"{name}: what was synced is there after a power cut"
    synced(mount.path / "more", b"more")
    said(control, '{"do":"stop"}')
    assert mount.process.wait(HANG_SECONDS) == 0 and not os.path.ismount(mount.path), f"{name}: {mount.log()[-2000:]}"
    mount.start()
    assert (mount.path / "more").read_bytes() == b"more" and not set(readable(contents)), name
    mount.stop()
    if name == "block":
        # A drive that loses its power while it is read is no damaged file system. On the function level the fifth operation comes after the mount.
        words = ["--time", "instant", "--fault", "power-cut@5ops"]
        cut = mount.ask("mount", mount.image, mount.path, *mount.drive, *words)
        told_why = "the drive lost its power while the file system was read; mount it again" in cut.stderr
        assert cut.returncode == 1 and told_why and "cannot be read" not in cut.stderr, f"{name}: {cut.stderr[-2000:]}"
        mount.check()


def said(control, line):
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(control))
        connection.sendall(line.encode() + b"\n")
        return connection.recv(4096)


def synced(path, content):
    file = os.open(path, os.O_CREAT | os.O_WRONLY)
    try:
        os.write(file, content)
        os.fsync(file)
    finally:
        os.close(file)


def damage(pellucid):
    """After a kill one bit of a block is another, at blocks of the log: a file is right or EIO, never absent or old; if anything is lost the mount is
    read-only and check says what, until a repair."""
    lost, named, turns = 0, 0, 0
    with mounted(pellucid, size="48MiB") as mount:
        contents = {mount.path / f"file-{n}": b"%d " % n * 5000 for n in range(20)}
        for path, content in contents.items():
            synced(path, content)
        mount.kill()
        image = mount.image.read_bytes()
        # Behind the first checkpoint, whose one node of the tree has no copy.
        blocks = [at for at in range(1 << 20, len(image), 4096) if any(image[at : at + 4096])]
        for at in blocks[:: pick(4, 1)]:
            turns += 1
            data = bytearray(image)
            data[at + 40] ^= 1
            mount.image.write_bytes(data)
            checked = mount.ask("check", mount.image)
            mount.start()
            unreadable = set(readable(contents))
            try:
                (mount.path / "new").write_text("new")
                changes = True
            except OSError as error:
                assert error.errno == errno.EROFS, error
                changes = False
            assert changes == (checked.returncode == 0), f"block {at // 4096}: {checked.stdout}"
            assert changes or "damage" in mount.log() or "cannot be read" in mount.log(), mount.log()
            lost, named = lost + len(unreadable), named + (not changes)
            mount.stop()
            if not changes:
                mount.ask("check", mount.image, "--repair")
                mount.start()
                (mount.path / "new").write_text("new")
                assert set(readable(contents)) <= unreadable
                mount.stop()
        mount.image.write_bytes(image)
        mount.start()
    return f"{turns} blocks: {named} named, {lost} files EIO"


def overlay(pellucid):
    """A mount is the upper directory of an overlay: files of the lower one are changed, renamed and removed."""
    with mounted(pellucid, size="64MiB") as mount:
        lower, merged = mount.folder / "lower", mount.folder / "merged"
        upper, work = mount.path / "upper", mount.path / "work"
        for place in lower, merged, upper, work:
            place.mkdir()
        for name in "changed", "removed", "renamed":
            (lower / name).write_text(name)
        options = f"lowerdir={lower},upperdir={upper},workdir={work}"
        done = subprocess.run([program("mount"), "-t", "overlay", "overlay", "-o", options, merged], capture_output=True, text=True)
        if done.returncode:
            raise Unavailable(f"no overlay: {done.stderr.strip()}")
        try:
            (merged / "changed").write_text("other")
            (merged / "removed").unlink()
            (merged / "renamed").rename(merged / "new name")
            assert sorted(path.name for path in merged.iterdir()) == ["changed", "new name"]
        finally:
            run("umount", merged)
        whiteouts = {path.name for path in upper.iterdir() if stat.S_ISCHR(path.lstat().st_mode) and path.lstat().st_rdev == 0}
        assert whiteouts == {"removed", "renamed"}, whiteouts
        assert (upper / "changed").read_text() == "other" and (upper / "new name").read_text() == "renamed"


def protected(pellucid):
    """A block device that takes no writes is mounted read-only, and says so."""
    with mounted(pellucid, size="32MiB") as mount:
        (mount.path / "file").write_text("here")
        mount.stop()
        try:
            device = run("losetup", "--find", "--show", "--read-only", mount.image).strip()
        except AssertionError as why:
            raise Unavailable(f"no loop device: {why}") from None
        image, mount.image = mount.image, device
        try:
            mount.start()
            wait_for(lambda: "mounted read-only" in mount.log(), "it does not say that it is read-only")
            assert (mount.path / "file").read_text() == "here" and becomes_read_only(mount) == 0
            mount.stop()
        finally:
            mount.image = image
            run("losetup", "--detach", device)
        mount.start()
        (mount.path / "file").write_text("again")


def readable(contents):
    """Files that cannot be read, with EIO; all others have what they should have."""
    for path, content in contents.items():
        try:
            assert path.read_bytes() == content, f"{path}: other data than were written"
        except OSError as error:
            assert error.errno == errno.EIO, error
            yield path


def becomes_read_only(mount):
    """Writes until the file system takes no more."""
    for number in range(2000):
        try:
            file = os.open(mount.path / f"late-{number}", os.O_CREAT | os.O_WRONLY)
            try:
                os.write(file, b"late" * 10_000)
                os.fsync(file)
            finally:
                os.close(file)
        except OSError as error:
            assert error.errno in (errno.EROFS, errno.EIO), error
            try:
                (mount.path / "directory").mkdir()
            except OSError as again:
                assert again.errno == errno.EROFS, again
                return number
    raise AssertionError("2,000 files were synced to a drive that takes no writes")


def ask(pellucid, *words):
    run(str(pellucid), *words)


@contextlib.contextmanager
def mounted_on(pellucid, export, size=None):
    """A file system on something that is there already."""
    with tempfile.TemporaryDirectory(prefix="pellucid-fs-") as folder:
        os.chmod(folder, 0o755)
        mount = Mount(pellucid, folder, size, drive=(), image=export)
        try:
            mount.start()
            yield mount
        finally:
            if mount.process and mount.process.poll() is None:
                mount.kill()
            mount.detach()


def builds(pellucid):
    """A tree of C sources is built on the mount; each object file is the same as of a build elsewhere, byte for byte."""
    compiler, make = program("gcc"), program("make")
    crates = sorted(Path.home().glob(".cargo/registry/src/*/ring-*"))
    if not crates:
        raise Unavailable("no crate with C sources is here")
    rules = "objects = $(patsubst %.c,%.o,$(wildcard crypto/*.c crypto/*/*.c third_party/*/*.c))\nall: $(objects)\n%.o: %.c\n\t@$(CC) -O1 -w -Iinclude -Ipregenerated -c $< -o $@\n"
    with mounted(pellucid, size="1GiB") as mount, tempfile.TemporaryDirectory() as other:
        built_here = []
        for place in mount.path, Path(other):
            shutil.copytree(crates[-1], place / "tree", symlinks=True)
            (place / "tree" / "rules.mk").write_text(rules)
            # What does not compile alone does not in either place.
            subprocess.run([make, "-k", "-j", "4", "-f", "rules.mk", f"CC={compiler}"], cwd=place / "tree", capture_output=True, timeout=600)
            built_here.append({path.relative_to(place): path.read_bytes() for path in (place / "tree").rglob("*.o")})
        assert len(built_here[1]) > 10 and built_here[0] == built_here[1], [len(one) for one in built_here]
        mount.stop()
        mount.start()
        assert all((mount.path / path).read_bytes() == content for path, content in built_here[1].items())
    return f"{len(built_here[1])} object files"


def refusals(pellucid):
    """What cannot be mounted is refused with one sentence and status 2, and nothing is lost."""
    with mounted(pellucid, size="32MiB") as mount:
        (mount.path / "file").write_text("here")
        folder, where = mount.folder, mount.folder / "elsewhere"
        where.mkdir()
        foreign, short, absent = folder / "foreign", folder / "short", folder / "absent"
        foreign.write_bytes(os.urandom(1 << 20))
        refused = [
            ("mount", mount.image, where),                   # in use by this mount
            ("mount", foreign, where),
            ("mount", absent, where),
            ("mount", folder, where),                        # a directory
            ("mount", foreign, folder / "nowhere"),
            ("format", mount.image, "--size", "32MiB"),      # in use
            ("format", folder / "tiny", "--size", "1KiB"),
            ("format", folder / "odd", "--size", "much"),
            ("check", foreign), ("check", absent), ("dump", foreign), ("stat", foreign),
        ]
        mount_again = ("mount", short, where)
        for words in refused:
            told(mount.ask(*words), words)
        assert (mount.path / "file").read_text() == "here"
        mount.stop()
        shutil.copyfile(mount.image, short)
        os.truncate(short, 20 << 20)
        told(mount.ask(*mount_again), mount_again)
        # Something on it is not overwritten unasked.
        told(mount.ask("format", mount.image, "--size", "32MiB"), "format over a file system")
        told(mount.ask("mount", mount.image, folder / "image"), "a file as mount point")
        mount.start()
        told(mount.ask("mount", short, mount.path), "busy mount point")
        assert (mount.path / "file").read_text() == "here"
    return f"{len(refused) + 4} refusals"


def told(done, what):
    text = done.stderr.strip()
    assert done.returncode == 2 and text.startswith("error: ") and "\n" not in text, f"{what}: {done}"


def ends(pellucid):
    """SIGTERM, Ctrl-C and umount each unmount cleanly, also while a program has files open."""
    with mounted(pellucid, size="32MiB") as mount:
        for number, how in enumerate([signal.SIGTERM, signal.SIGINT, None]):
            (mount.path / f"{number}").write_text("x" * 100_000)
            if how is None:
                mount.stop()
            else:
                mount.process.send_signal(how)
                assert mount.process.wait(HANG_SECONDS) == 0, mount.log()
                assert not os.path.ismount(mount.path)
            mount.check()
            mount.start()
            assert (mount.path / f"{number}").read_text() == "x" * 100_000
        with (mount.path / "open").open("wb") as file:
            file.write(b"y" * 100_000)
            file.flush()
            mount.process.send_signal(signal.SIGTERM)
            assert mount.process.wait(HANG_SECONDS) == 0, mount.log()
        mount.check()
        mount.start()
        assert (mount.path / "open").read_bytes() == b"y" * 100_000


if __name__ == "__main__":
    main("fs", __doc__, [refusals, ends, limits, pjdfstest, fsx, dbench, git, tree, builds, many, full, host_full, kills, drives, cuts, sqlite, breaks, service, damage, overlay, protected])
