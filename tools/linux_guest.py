#!/usr/bin/env python3
"""A real Linux host attaches a served drive over NVMe/TCP: connects, asks everything, makes a file system, reads it back.

Boots Debian's cloud kernel under QEMU (no KVM needed) with an initramfs of busybox, nvme-cli and e2fsprogs, in a few seconds.
Needs: qemu-system-x86_64, busybox (static), nvme, mkfs.ext4, fsck.ext4, apt-get (to fetch the kernel package, once).

  tools/linux_guest.py --pellucid target/release/pellucid
  tools/linux_guest.py --connect 4420 --nqn nqn.2026-01.org.pellucid:mine     # a drive that is being served already

Prints one PASS or FAIL line for each step; exit status 0 if all passed.
"""
import argparse
import contextlib
import gzip
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "pellucid-guest"
MODULES = (
    "virtio_ring", "virtio", "virtio_pci_modern_dev", "virtio_pci_legacy_dev", "virtio_pci",
    "failover", "net_failover", "virtio_net", "crc32c_generic", "crc32c-intel", "libcrc32c",
    "nvme-fabrics", "nvme-tcp",
)
PROGRAMS = ("nvme", "mkfs.ext4", "fsck.ext4")
HOST_NQN = "nqn.2014-08.org.nvmexpress:uuid:2f1b1c5e-7a07-4f3e-9d53-0a9c1f1f7a11"
HOST_ID = "2f1b1c5e-7a07-4f3e-9d53-0a9c1f1f7a11"
GUEST_SECONDS = 240

# What runs in the guest. `step NAME COMMAND...` runs a command and says how it went.
SCRIPT = r"""#!/bin/busybox sh
export PATH=/bin:/sbin
/bin/busybox mkdir -p /proc /sys; /bin/busybox mount -t proc proc /proc; /bin/busybox --install -s /bin
mount -t sysfs sysfs /sys; mount -t devtmpfs dev /dev; mount -t tmpfs tmp /tmp
ln -sf /proc/mounts /etc/mtab
step() { name=$1; shift; if "$@" >/tmp/out 2>&1; then echo "STEP PASS $name"; else echo "STEP FAIL $name ($?)"; head -c 1500 /tmp/out; return 1; fi; }
show() { echo "SHOW $1"; cat /tmp/out; echo "SHOWN"; }
same() { [ "$(cat $1 | md5sum)" = "$(cat $2 | md5sum)" ]; }
wait_device() { i=0; while [ ! -b /dev/nvme0n1 ]; do i=$((i+1)); [ $i -gt 100 ] && return 1; usleep 100000; done; }
for module in @MODULES@; do [ -f /modules/$module.ko ] && insmod /modules/$module.ko; done
ip link set lo up; ip link set eth0 up; ip addr add 10.0.2.15/24 dev eth0; ip route add default via 10.0.2.2
conn() { nvme connect -t tcp -a 10.0.2.2 -s @PORT@ -n @NQN@ --hostnqn=@HOST_NQN@ --hostid=@HOST_ID@ "$@" && wait_device; }
D=/dev/nvme0; N=/dev/nvme0n1
state() { cat /sys/class/nvme/nvme0/state 2>/dev/null; }
state_until() { i=0; while [ "$(state)" != "$1" ] && [ $i -lt $2 ]; do i=$((i+1)); usleep 50000; done; [ "$(state)" = "$1" ]; }
state_after() { i=0; while [ "$(state)" = "$1" ] && [ $i -lt $2 ]; do i=$((i+1)); usleep 50000; done; [ "$(state)" != "$1" ]; }
step discover nvme discover -t tcp -a 10.0.2.2 -s @PORT@ --hostnqn=@HOST_NQN@ --hostid=@HOST_ID@
cp /tmp/out /tmp/found
step discover-finds-it grep -q "@NQN@" /tmp/found
step connect conn -i 2 --reconnect-delay=1 || { dmesg | tail -20; poweroff -f; }
step list nvme list
show list
step id-ctrl nvme id-ctrl $D
step id-ns nvme id-ns $N
step ns-descs nvme ns-descs $N
step list-ns nvme list-ns $D
step smart-log nvme smart-log $D
step error-log nvme error-log $D
step fw-log nvme fw-log $D
step effects-log nvme effects-log $D
step supported-log-pages nvme supported-log-pages $D
step changed-ns-list-log nvme changed-ns-list-log $D
step get-features nvme get-feature $D -f 7 -H
step write-cache nvme get-feature $D -f 6
step show-regs nvme show-regs $D
step vendor-log nvme get-log $D --log-id=0xc0 --log-len=4096 -b
step mkfs mkfs.ext4 -q -F $N
mkdir -p /mnt
step mount mount -t ext4 $N /mnt
dd if=/dev/urandom of=/tmp/data bs=1M count=@MIB@ 2>/dev/null
step write cp /tmp/data /mnt/data
mkdir /mnt/many; for i in $(seq 1 200); do head -c 3000 /tmp/data > /mnt/many/$i; done
step sync sync
step umount umount /mnt
echo 3 > /proc/sys/vm/drop_caches
step remount mount -t ext4 $N /mnt
step compare cmp /tmp/data /mnt/data
step files sh -c '[ $(ls /mnt/many | wc -l) = 200 ]'
if [ @RESTART@ = 1 ]; then
    echo "GUEST RESTART"
    step connection-lost state_after live 400
    step reconnected state_until live 800
    echo 3 > /proc/sys/vm/drop_caches
    step compare-after-restart cmp /tmp/data /mnt/data
    step write-after-restart cp /tmp/data /mnt/data-again
fi
step trim fstrim /mnt
rm /mnt/many/*; sync
step umount-again umount /mnt
step fsck fsck.ext4 -f -n $N
dd if=/tmp/data of=/tmp/part bs=64k count=1 2>/dev/null
step nvme-write nvme write $N -s 0 -c 127 -z 65536 -d /tmp/part
step nvme-read nvme read $N -s 0 -c 127 -z 65536 -d /tmp/back
step nvme-read-same same /tmp/part /tmp/back
step nvme-compare nvme compare $N -s 0 -c 127 -z 65536 -d /tmp/part
step nvme-verify nvme verify $N -s 0 -c 127
step nvme-write-zeroes nvme write-zeroes $N -s 0 -c 63
step nvme-compare-differs sh -c "! nvme compare $N -s 0 -c 127 -z 65536 -d /tmp/part"
step nvme-dsm nvme dsm $N -d -s 64 -b 64
step nvme-flush nvme flush $N
step persistent-event-log nvme persistent-event-log $D -a 1
step persistent-event-log-read nvme persistent-event-log $D -a 0
show events
step persistent-event-log-release nvme persistent-event-log $D -a 2
step reset nvme reset $D
step after-reset wait_device
step read-after-reset dd if=$N of=/dev/null bs=64k count=16
step format nvme format $N -f
dd if=$N of=/tmp/zeros bs=64k count=1 2>/dev/null; dd if=/dev/zero of=/tmp/zero bs=64k count=1 2>/dev/null
step format-zeros same /tmp/zero /tmp/zeros
step disconnect nvme disconnect -n @NQN@
step connect-digests conn -i 1 --hdr-digest --data-digest
step write-digests dd if=/tmp/data of=$N bs=1M count=4 conv=fsync
echo 3 > /proc/sys/vm/drop_caches
dd if=$N of=/tmp/again bs=1M count=4 2>/dev/null; dd if=/tmp/data of=/tmp/first bs=1M count=4 2>/dev/null
step read-digests same /tmp/first /tmp/again
step smart-moved sh -c "nvme smart-log $D | grep -i 'data_units_written\|Data Units Written' | grep -qv ': *0 *$'"
nvme smart-log $D > /tmp/out; show smart
step disconnect-digests nvme disconnect -n @NQN@
step wrong-name sh -c "! nvme connect -t tcp -a 10.0.2.2 -s @PORT@ -n nqn.2026-01.org.pellucid:no-such --hostnqn=@HOST_NQN@ --hostid=@HOST_ID@"
dmesg | grep -i "nvme" | tail -40 > /tmp/out; show dmesg
step no-kernel-error sh -c "! dmesg | grep -i 'I/O error\|Call Trace\|data digest error'"
echo GUEST DONE
poweroff -f
"""


def run(*command, **options):
    return subprocess.run(command, check=True, text=True, capture_output=True, **options).stdout


def kernel_package():
    """Directory with the unpacked kernel package; fetched once."""
    depends = run("apt-cache", "depends", "linux-image-cloud-amd64")
    name = re.search(r"linux-image-\S*-cloud-amd64$", depends.split("Depends:", 1)[1], re.M).group(0)
    unpacked = CACHE / name
    if not unpacked.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE) as scratch:
            run("apt-get", "download", name, cwd=scratch)
            (package,) = pathlib.Path(scratch).glob("*.deb")
            partial = pathlib.Path(scratch) / "unpacked"
            run("dpkg-deb", "-x", str(package), str(partial))
            partial.rename(unpacked)
    return unpacked


def libraries(program):
    return re.findall(r"(/\S+\.so\S*)", run("ldd", program))


def initramfs(kernel, script, path):
    """Writes an initramfs: busybox, the programs with their libraries, the modules, the script as init."""
    with tempfile.TemporaryDirectory() as scratch:
        root = pathlib.Path(scratch)
        for directory in ("bin", "sbin", "etc", "proc", "sys", "dev", "tmp", "modules"):
            (root / directory).mkdir()
        shutil.copy(shutil.which("busybox"), root / "bin/busybox")
        for name in PROGRAMS:
            program = shutil.which(name, path=os.environ["PATH"] + ":/usr/sbin:/sbin")
            if not program:
                sys.exit(f"{name}: not installed")
            shutil.copy(program, root / "sbin" / name)
            for library in libraries(program):
                place = root / library.lstrip("/")
                place.parent.mkdir(parents=True, exist_ok=True)
                if not place.exists():
                    shutil.copy(library, place)
        for module in MODULES:
            for found in kernel.rglob(f"{module}.ko"):
                shutil.copy(found, root / "modules")
        (root / "etc/mke2fs.conf").write_text(pathlib.Path("/etc/mke2fs.conf").read_text())
        init = root / "init"
        init.write_text(script)
        init.chmod(0o755)
        names = "\n".join(str(p.relative_to(root)) for p in sorted(root.rglob("*")))
        archive = subprocess.run(["busybox", "cpio", "-o", "-H", "newc"], cwd=root, input=names.encode(), check=True,
                                 capture_output=True).stdout
        path.write_bytes(gzip.compress(archive, 1))


def boot(kernel, initrd):
    """Runs the guest and yields the lines of its console."""
    (image,) = kernel.glob("boot/vmlinuz-*")
    command = [
        "qemu-system-x86_64", "-machine", "q35,accel=tcg", "-cpu", "max", "-smp", "2", "-m", "512", "-nographic",
        "-no-reboot", "-kernel", str(image), "-initrd", str(initrd),
        "-append", "console=ttyS0 quiet panic=-1 mitigations=off",
        "-netdev", "user,id=n", "-device", "virtio-net-pci,netdev=n,romfile=", "-monitor", "none",
    ]
    guest = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, errors="replace")
    signal.signal(signal.SIGALRM, lambda *_: guest.kill())
    signal.alarm(GUEST_SECONDS)
    try:
        for line in guest.stdout:
            yield line.rstrip()
    finally:
        signal.alarm(0)
        guest.kill()
        guest.wait()


class Served:
    """A drive served by `pellucid` from a file, so that it outlives the server."""

    def __init__(self, pellucid, directory):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.nqn = "nqn.2026-01.org.pellucid:serve-ram"
        self.command = [pellucid, "serve", str(ROOT / "bench/serve-ram.toml"), "--set", f"media.store=file:{directory}/drive",
                        "--nvme-tcp", str(self.port), "--time", "instant"]
        self.start()

    def start(self):
        self.log = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(self.command, stderr=self.log)
        for _ in range(200):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
                return
            if self.process.poll() is not None:
                self.log.seek(0)
                sys.exit(f"the server did not start: {self.log.read()}")
            time.sleep(0.05)
        sys.exit("the server does not listen")

    def kill_and_restart(self):
        """The process dies without a chance to put anything away, and comes back."""
        self.process.kill()
        self.process.wait()
        self.start()

    def stop(self):
        """Whether it ran until now and ends in order."""
        alive = self.process.poll() is None
        self.process.terminate()
        status = self.process.wait(20)
        self.log.seek(0)
        log = self.log.read()
        good = alive and status == 0 and "panicked" not in log
        print("PASS server" if good else f"FAIL server: status {status}\n{log}")
        return good


def attach(port, nqn, mib, verbose, restart=None):
    kernel = kernel_package()
    script = SCRIPT
    for key, value in (("MODULES", " ".join(MODULES)), ("PORT", port), ("NQN", nqn), ("HOST_NQN", HOST_NQN),
                       ("HOST_ID", HOST_ID), ("MIB", mib), ("RESTART", int(restart is not None))):
        script = script.replace(f"@{key}@", str(value))
    with tempfile.TemporaryDirectory() as scratch:
        initrd = pathlib.Path(scratch) / "initrd.gz"
        initramfs(kernel, script, initrd)
        started, passed, failed, done = time.monotonic(), 0, 0, False
        for line in boot(kernel, initrd):
            step = re.search(r"STEP (PASS|FAIL) (.*)", line)
            if step:
                print(f"{step[1]} {step[2]}", flush=True)
                passed, failed = passed + (step[1] == "PASS"), failed + (step[1] == "FAIL")
            elif "GUEST RESTART" in line:
                restart()
            elif verbose or failed:
                print(f"     {line}", flush=True)
            done |= "GUEST DONE" in line
    print(f"{passed} passed, {failed} failed in {time.monotonic() - started:.0f} s")
    if not done:
        print("FAIL the guest did not come to its end")
    return done and failed == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pellucid", default=str(ROOT / "target/release/pellucid"), help="the command to serve with")
    parser.add_argument("--connect", type=int, metavar="PORT", help="attach a drive that is served already")
    parser.add_argument("--nqn", help="name of its subsystem")
    parser.add_argument("--mib", type=int, default=32, help="size of the file that is written")
    parser.add_argument("--verbose", action="store_true", help="show the whole console")
    options = parser.parse_args()
    if options.connect:
        good = attach(options.connect, options.nqn, options.mib, options.verbose)
    else:
        with tempfile.TemporaryDirectory() as directory:
            served = Served(options.pellucid, directory)
            good = attach(served.port, served.nqn, options.mib, options.verbose, served.kill_and_restart)
            good = served.stop() and good
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
