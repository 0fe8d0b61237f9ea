#!/usr/bin/env python3
"""A real Linux host attaches a served drive over NVMe/TCP and works with it, or serves itself one (ublk).

Boots Debian's cloud kernel under QEMU (no KVM needed) with an initramfs of busybox and the programs of a theme, in a few
seconds. A theme is a shell script in tools/guest: its head says how the drive is served and what the guest needs, its
`step` lines are the tests. The kernel's package is fetched once; `# kernel: 6.12` asks for at least that one, which comes
from a newer Debian where this one's is older.

  tools/linux_guest.py                                  all themes, each with a drive of its own
  tools/linux_guest.py block --verbose                  one, with the guest's whole console
  tools/linux_guest.py block --connect 4420 --nqn nqn.2026-01.org.pellucid:mine     with a drive that is being served

One line for each step and a plain count; exit status 0 if nothing failed.
"""
import argparse
import collections
import lzma
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time

from served import NQN_PREFIX, PELLUCID, ROOT, SYSTEM_PATH, Count, Server, Skip, program, readme_commands, run

GUEST = ROOT / "tools/guest"
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "pellucid-guest"
NETWORK_MODULES = (
    "virtio_ring", "virtio", "virtio_pci_modern_dev", "virtio_pci_legacy_dev", "virtio_pci",
    "failover", "net_failover", "virtio_net", "crc32c_generic", "crc32c-intel", "libcrc32c",
)
HOST_ID = "2f1b1c5e-7a07-4f3e-9d53-0a9c1f1f7a11"
HOST_NQN = f"nqn.2014-08.org.nvmexpress:uuid:{HOST_ID}"
# An emulated machine on a busy one takes its time; this ends one that hangs.
GUEST_SECONDS = 1800
# Parts of the kernel that are no matter of ours and cost a quarter of an emulated boot.
UNTESTED = "mitigations=off nokaslr cryptomgr.notests audit=0 apparmor=0 selinux=0 no_timer_check"
# Tries to bring a kernel up.
BOOTS_MAX = 3
# Where kernels come from that are newer than this machine's Debian.
NEWER_SUITE = "deb http://deb.debian.org/debian trixie main"


class Theme:
    """A script with its head."""

    def __init__(self, name: str):
        self.name = name
        self.script = (GUEST / f"{name}.sh").read_text()
        self.serve = self.head("serve")
        self.file_store = re.search(r"^# file store$", self.script, re.M) is not None
        self.programs = self.head("programs")
        self.files = self.head("files")
        self.readme = self.head("readme")
        self.kernel = self.head("kernel")
        self.generic = re.search(r"^# generic kernel$", self.script, re.M) is not None
        self.secret = re.search(r"^# secret$", self.script, re.M) is not None
        self.boots = int(*self.head("boots") or ["1"])
        self.modules = [*NETWORK_MODULES, *self.head("modules")]

    def head(self, key: str) -> list[str]:
        line = re.search(rf"^# {key}: (.*)$", self.script, re.M)
        return line[1].split() if line else []


def themes() -> list[str]:
    return sorted(path.stem for path in GUEST.glob("*.sh") if path.stem != "init")


def newer_suite() -> list[str]:
    """Options with which apt sees a newer Debian, and nothing else; its signatures are checked as ever."""
    place = CACHE / "apt"
    (place / "lists/partial").mkdir(parents=True, exist_ok=True)
    (place / "sources.list").write_text(NEWER_SUITE + "\n")
    options = {"Dir::Etc::SourceList": place / "sources.list", "Dir::Etc::SourceParts": "/dev/null",
               "Dir::State::Lists": place / "lists", "Dir::Cache": place, "APT::Sandbox::User": "root"}
    options = [word for key, value in options.items() for word in ("-o", f"{key}={value}")]
    run("apt-get", *options, "update", seconds=300)
    return options


def kernel_name(flavour: str, *options: str) -> str:
    """The package of the newest kernel."""
    depends = run("apt-cache", *options, "depends", f"linux-image-{flavour}")
    return re.search(rf"linux-image-\S*-{flavour}$", depends.split("Depends:", 1)[1], re.M).group(0)


def version(name: str) -> tuple[int, ...]:
    """6.12 of linux-image-6.12.107+deb13-cloud-amd64 as numbers."""
    return tuple(map(int, re.search(r"(\d+)\.(\d+)", name).groups()))


def kernel_package(least: list[str], generic: bool) -> pathlib.Path:
    """Directory with the unpacked package of a kernel, at least of the version named; fetched once. The generic kernel is larger than
    the cloud kernel, and has file systems that the cloud kernel has not."""
    flavour = "amd64" if generic else "cloud-amd64"
    name, options = kernel_name(flavour), []
    if least and version(name) < version(least[0]):
        fetched = [path for path in CACHE.glob("linux-image-*-amd64") if ("-cloud-" in path.name) != generic]
        fetched.sort(key=lambda path: version(path.name))
        if fetched and version(fetched[-1].name) >= version(least[0]):
            return fetched[-1]
        options = newer_suite()
        name = kernel_name(flavour, *options)
    unpacked = CACHE / name
    if not unpacked.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE) as scratch:
            run("apt-get", *options, "download", name, cwd=scratch, seconds=300)
            (package,) = pathlib.Path(scratch).glob("*.deb")
            partial = pathlib.Path(scratch) / "unpacked"
            run("dpkg-deb", "-x", package, partial)
            partial.rename(unpacked)
    return unpacked


def libraries(binary: str) -> list[str]:
    return re.findall(r"(/\S+\.so\S*)", run("ldd", binary))


def initramfs(theme: Theme, kernel: pathlib.Path, settings: dict, pellucid: str, path: pathlib.Path):
    """Writes an initramfs: busybox, the programs with their libraries, the modules, init and the theme."""
    with tempfile.TemporaryDirectory() as scratch:
        root = pathlib.Path(scratch)
        for directory in ("bin", "sbin", "etc", "proc", "sys", "dev", "tmp", "modules"):
            (root / directory).mkdir()
        shutil.copy(program("busybox"), root / "bin/busybox")
        for name in theme.programs:
            binary = str(pellucid) if name == "pellucid" else program(name)
            shutil.copy(binary, root / "sbin" / name)
            for library in libraries(binary):
                place = root / library.lstrip("/")
                place.parent.mkdir(parents=True, exist_ok=True)
                if not place.exists():
                    shutil.copy(library, place)
        for module in theme.modules:
            for found in kernel.rglob(f"{module}.ko"):
                shutil.copy(found, root / "modules")
            for found in kernel.rglob(f"{module}.ko.xz"):
                (root / "modules" / f"{module}.ko").write_bytes(lzma.decompress(found.read_bytes()))
        for name in theme.files:
            (root / "files").mkdir(exist_ok=True)
            (root / "files" / pathlib.Path(name).stem).write_bytes(
                subprocess.run([program("zstd"), "-dc", ROOT / name], check=True, capture_output=True).stdout)
        if os.path.exists("/etc/mke2fs.conf"):
            shutil.copy("/etc/mke2fs.conf", root / "etc")
        shutil.copy(GUEST / "init.sh", root / "init")
        (root / "init").chmod(0o755)
        (root / "theme.sh").write_text(theme.script)
        commands = [command for part in theme.readme for command in readme_commands(part)]
        (root / "readme").write_text("".join(f"{command}\n" for command in commands))
        (root / "settings").write_text("".join(f"{key}='{value}'\n" for key, value in settings.items()))
        names = "\n".join(str(p.relative_to(root)) for p in sorted(root.rglob("*")))
        archive = subprocess.run([program("busybox"), "cpio", "-o", "-H", "newc"], cwd=root, input=names.encode(),
                                 check=True, capture_output=True).stdout
        path.write_bytes(archive)


class Guest:
    """A running guest: the lines of its console, and a way to answer it."""

    def __init__(self, kernel: pathlib.Path, initrd: pathlib.Path):
        (image,) = kernel.glob("boot/vmlinuz-*")
        # A plain processor: with all that QEMU 7.2 can emulate, Linux 6.12 now and then dies in memory of its own.
        command = [
            program("qemu-system-x86_64"), "-machine", "q35,accel=tcg", "-cpu", "Nehalem,-cx16", "-smp", "2", "-m", "512",
            "-display", "none", "-vga", "none", "-serial", "stdio", "-monitor", "none", "-no-reboot",
            "-kernel", str(image), "-initrd", str(initrd), "-append", f"console=ttyS0 quiet panic=-1 {UNTESTED}",
            "-netdev", "user,id=n", "-device", "virtio-net-pci,netdev=n,romfile=",
        ]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        errors="replace", env={**os.environ, "PATH": SYSTEM_PATH})
        self.alarm = threading.Timer(GUEST_SECONDS, self.process.kill)
        self.alarm.start()

    def lines(self):
        for line in self.process.stdout:
            yield line.rstrip()

    def tell(self, text: str):
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()

    def end(self):
        self.alarm.cancel()
        self.process.kill()
        self.process.wait()


def host_action(server: Server, action: str) -> str:
    """What a guest asks of its host."""
    if action.startswith("pellucid "):
        # As it stands in the README, where the server's sockets are in the current directory.
        words = action.replace("mine.control", "control").split()[1:]
        run(server.pellucid, *words, cwd=server.directory)
        return "done @"
    if action == "restart":
        server.kill()
        server.start()
        return "done @"
    if action == "power-cut":
        server.ask(do="power-cut")
        return "done @"
    if action == "programmed":
        return f"done @ {server.programmed_sectors()}"
    return f"refused @ {action}: unknown; allowed: programmed, restart, power-cut, power-off, pellucid ..."


def visit(theme: Theme, port: int, nqn: str, count: Count, options, server: Server | None, boot: int = 1,
          secret: str = ""):
    """Boots a guest that runs a theme against the drive behind a port; `boot` counts from 1."""
    kernel = kernel_package(theme.kernel, theme.generic)
    settings = {"PORT": port, "NQN": nqn, "HOST_NQN": HOST_NQN, "HOST_ID": HOST_ID, "MIB": options.mib,
                "MODULES": " ".join(theme.modules), "HOST": int(server is not None), "BOOT": boot, "SECRET": secret}
    with tempfile.TemporaryDirectory() as scratch:
        initrd = pathlib.Path(scratch) / "initrd"
        initramfs(theme, kernel, settings, options.pellucid, initrd)
        # Under emulation a kernel now and then dies before it comes to its init, which tells nothing of us.
        for attempt in range(1, BOOTS_MAX + 1):
            if follow(theme, kernel, initrd, count, options, server, boot):
                return
            print(f"     guest-{theme.name}: its kernel did not come up (try {attempt})", flush=True)
        count.fail(f"guest-{theme.name}", f"its kernel did not come up in {BOOTS_MAX} tries")


def follow(theme: Theme, kernel: pathlib.Path, initrd: pathlib.Path, count: Count, options, server: Server | None,
           boot: int) -> bool:
    """Runs a guest to its end and counts its steps; `False` if it never came to its init and may be tried again."""
    guest, init, done, explain, began = Guest(kernel, initrd), False, False, 0, time.monotonic()
    answers, last = {}, collections.deque(maxlen=20)
    try:
        for line in guest.lines():
            last.append(line)
            init |= "GUEST BEGINS" in line
            if step := re.search(r"STEP (PASS|FAIL) (.*)", line):
                explain = 0 if step[1] == "PASS" else 40
                name = f"guest-{theme.name}{f' (boot {boot})' if theme.boots > 1 else ''}: {step[2]}"
                count.ok(name) if step[1] == "PASS" else count.fail(name, "")
            elif re.search(r"\bHOST \d+ power-off$", line):
                # The machine first: what it would do behind the drive's cut, no machine without power does.
                guest.end()
                server.ask(do="power-cut")
                done = True
            elif asked := re.search(r"\bHOST (\d+) (.+)$", line):
                if asked[1] not in answers:
                    answers[asked[1]] = host_action(server, asked[2])
                guest.tell(answers[asked[1]].replace("@", asked[1]))
            elif options.verbose or explain > 0:
                explain -= 1
                print(f"     {line}", flush=True)
            done |= "GUEST DONE" in line
    finally:
        guest.end()
    if not done:
        seconds = time.monotonic() - began
        if init:
            count.fail(f"guest-{theme.name}", f"did not come to its end in {seconds:.0f} s; its last lines:")
        print("\n".join(f"     {line}" for line in last), flush=True)
    return done or init


def serve_and_visit(theme: Theme, count: Count, options):
    if not theme.serve:
        return visit(theme, 0, "", count, options, None)
    with tempfile.TemporaryDirectory() as directory:
        drive, *rest = theme.serve
        secret = ""
        if theme.secret:
            secret = run("nvme", "gen-dhchap-key", "--hmac=1", f"--nqn={HOST_NQN}").strip()
            file = pathlib.Path(directory) / "secret"
            file.touch(mode=0o600)
            file.write_text(secret + "\n")
            rest += ["--dhchap", f"{HOST_NQN}={file}"]
        sets = [f"media.store=file:{directory}/drive"] if theme.file_store else []
        time_mode = rest.pop(rest.index("--time") + 1) if "--time" in rest else "paced"
        rest = [word for word in rest if word != "--time"]
        drive = ROOT / drive if drive.endswith(".toml") else drive
        server = Server(directory, [drive], sets, time_mode, nvme=True, options=rest, pellucid=options.pellucid)
        try:
            for boot in range(1, theme.boots + 1):
                visit(theme, server.port, NQN_PREFIX + pathlib.Path(drive).stem, count, options, server, boot,
                      secret)
        except BaseException:
            server.kill()
            raise
        count.attempt(f"guest-{theme.name}: server ran to its end", server.stop)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("theme", nargs="*", help=f"of {', '.join(themes())}; all if none is given")
    parser.add_argument("--pellucid", default=PELLUCID, help="the command to serve with")
    parser.add_argument("--connect", type=int, metavar="PORT", help="attach a drive that is served already")
    parser.add_argument("--nqn", help="name of its subsystem")
    parser.add_argument("--mib", type=int, default=32, help="size of the file that is written")
    parser.add_argument("--verbose", action="store_true", help="show the whole console")
    options = parser.parse_args()
    if unknown := set(options.theme) - set(themes()):
        parser.error(f"theme {', '.join(sorted(unknown))}: unknown; allowed: {', '.join(themes())}")
    count, began = Count("linux guest"), time.monotonic()
    for name in options.theme or themes():
        try:
            if options.connect:
                visit(Theme(name), options.connect, options.nqn, count, options, None)
            else:
                serve_and_visit(Theme(name), count, options)
        except Skip as why:
            count.skip(f"guest-{name}", str(why))
        except AssertionError as why:
            count.fail(f"guest-{name}", str(why))
    print(f"{time.monotonic() - began:.0f} s")
    sys.exit(0 if count.end() else 1)


if __name__ == "__main__":
    main()
