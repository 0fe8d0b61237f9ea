"""What the tests with real clients share: `pellucid serve` as a child process, the programs they need, and plain counts.

A test that needs a program that is not there is skipped and says so; where CI=true it fails instead, because there
`tools/client_tools.sh` has installed everything.
"""
import argparse
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PELLUCID = ROOT / "target/debug/pellucid"
SYSTEM_PATH = os.environ["PATH"] + ":/usr/sbin:/sbin"
NQN_PREFIX = "nqn.2026-01.org.pellucid:"
# How long anything is waited for that must come. Its only purpose is that a hang ends; a slow machine is no failure.
HANG_SECONDS = 900


class Skip(Exception):
    """A test cannot run here."""


class Unavailable(Skip):
    """What a test needs comes from no package of Debian's: it is skipped where CI=true, too."""


def program(name: str) -> str:
    """The path of a program; without it the test is skipped."""
    found = shutil.which(str(name), path=SYSTEM_PATH)
    if not found:
        raise Skip(f"{name} is not installed; see tools/client_tools.sh")
    return found


def wait_for(condition, complaint):
    """Waits for what another process does in its own time, such as a line of its log."""
    end = time.monotonic() + HANG_SECONDS
    while not condition():
        assert time.monotonic() < end, complaint
        time.sleep(0.01)


def run(command: str, *arguments, seconds: float = HANG_SECONDS, **options) -> str:
    """Output of a command that has to succeed. What is no text in it, as nbdinfo prints where there is no file(1), is replaced."""
    words = [program(command), *map(str, arguments)]
    done = subprocess.run(words, capture_output=True, text=True, errors="replace", timeout=seconds, **options)
    if done.returncode:
        raise AssertionError(f"{' '.join(words)}: status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """`pellucid serve` with its sockets and its log in `directory`."""

    def __init__(self, directory, drives=("cosmos-plus",), sets=(), time_mode="paced", nvme=False, options=(),
                 pellucid=PELLUCID):
        self.pellucid, self.directory = str(pellucid), Path(directory)
        self.socket, self.control = f"{directory}/nbd", f"{directory}/control"
        self.port = free_port() if nvme else None
        self.command = [self.pellucid, "serve", *map(str, drives), "--nbd", f"unix:{self.socket}"]
        self.command += ["--control", self.control]
        # Files and remote drives take the time that they take.
        if any(not str(drive).startswith("file:") for drive in drives):
            self.command += ["--time", time_mode]
        self.command += options
        self.command += ["--nvme-tcp", str(self.port)] if nvme else []
        self.command += [word for value in sets for word in ("--set", value)]
        self.log_path = self.directory / "log"
        self.process = None
        self.start()

    def start(self):
        """Starts it; returns when it listens everywhere: the control socket is the last."""
        with contextlib.suppress(FileNotFoundError):
            os.remove(self.control)
        with self.log_path.open("a") as log:
            self.process = subprocess.Popen(self.command, stderr=log)
        end = time.monotonic() + HANG_SECONDS
        while not os.path.exists(self.control):
            assert self.process.poll() is None, f"the server did not start: {self.log()}"
            assert time.monotonic() < end, f"the server does not listen: {self.log()}"
            time.sleep(0.02)

    def log(self) -> str:
        return self.log_path.read_text()

    def uri(self, export="") -> str:
        return f"nbd+unix:///{export}?socket={self.socket}"

    def ask(self, **request) -> dict:
        """One request to the control socket."""
        with socket.socket(socket.AF_UNIX) as control:
            control.settimeout(HANG_SECONDS)
            control.connect(self.control)
            control.sendall(json.dumps(request).encode() + b"\n")
            answer = json.loads(control.makefile().readline())
        assert answer["ok"], answer
        return answer

    def programmed_sectors(self) -> int:
        """Sectors that its first drive has programmed, for whatever cause."""
        return sum(self.ask(do="status")["drives"][0]["programmed_sectors"].values())

    def kill(self):
        """Ends the process without a chance to put anything away."""
        self.process.kill()
        self.process.wait()

    def stop(self):
        """Ends it as a service manager does, and checks that it ran until now and left nothing wrong in its log."""
        alive = self.process.poll() is None
        if alive:
            self.process.send_signal(signal.SIGTERM)
        try:
            status = self.process.wait(HANG_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"SIGTERM does not end the server\n{self.log()}") from None
        assert alive and status == 0 and "panicked" not in self.log(), f"server: status {status}\n{self.log()}"

    def fio(self, name, *options, seconds=HANG_SECONDS):
        """A fio job over NBD; what fio leaves behind stays in our directory. Where it fails, what the server logged comes first."""
        try:
            return run("fio", f"--name={name}", "--ioengine=nbd", f"--uri={self.uri()}", "--verify_state_save=0",
                       *options, seconds=seconds, cwd=self.directory)
        except AssertionError as why:
            raise AssertionError(f"the server's log ends with\n{self.log()[-2000:]}\n{why}") from None


@contextlib.contextmanager
def served(*positional, **named):
    """A server for the length of a block; its directory goes with it."""
    with tempfile.TemporaryDirectory() as directory:
        server = Server(named.pop("directory", directory), *positional, **named)
        try:
            yield server
        except BaseException:
            server.kill()
            raise
        server.stop()


def readme_commands(part: str) -> list[str]:
    """The commands of a part of README's tour."""
    text = (ROOT / "README.md").read_text()
    block = text.split(f"<!-- tour: {part} -->\n```\n", 1)[1].split("\n```", 1)[0]
    return block.splitlines()


class Count:
    """How tests went, one line each and a plain count at the end."""

    def __init__(self, what: str):
        self.what, self.passed, self.failed, self.skipped = what, 0, 0, 0

    def ok(self, name: str, note: str = ""):
        self.passed += 1
        print(f"ok       {name}{note and f'  ({note})'}", flush=True)

    def fail(self, name: str, why: str):
        self.failed += 1
        print(f"FAILED   {name}: {why}", flush=True)

    def skip(self, name: str, why: str):
        if os.environ.get("CI") == "true":
            return self.fail(name, f"{why} (where CI=true nothing may be skipped)")
        self.skipped += 1
        print(f"skipped  {name}: {why}", flush=True)

    def attempt(self, name: str, test):
        """Runs one test."""
        began = time.monotonic()
        try:
            note = test() or ""
            self.ok(name, f"{time.monotonic() - began:.1f} s{note and f'; {note}'}")
        except Unavailable as why:
            self.skipped += 1
            print(f"skipped  {name}: {why}", flush=True)
        except Skip as why:
            self.skip(name, str(why))
        except Exception as why:  # whatever goes wrong in a test fails it, and the others go on
            self.fail(name, f"{type(why).__name__}: {why}")

    def end(self) -> bool:
        """Prints the count; whether nothing failed."""
        print(f"{self.what}: {self.passed} passed, {self.failed} failed, {self.skipped} skipped", flush=True)
        return self.failed == 0


def main(what: str, about: str, tests: list, long_tests: list = ()):
    """The command of a suite: runs its tests, or the one named, each with the path of the `pellucid` under test. `long_tests` run where
    they are named, or asked for with --long."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pellucid", default=PELLUCID)
    parser.add_argument("--only", choices=[test.__name__ for test in [*tests, *long_tests]], help="the name of one test")
    if long_tests:
        parser.add_argument("--long", action="store_true", help="the long tests, too")
    options = parser.parse_args()
    pellucid, count = Path(options.pellucid).resolve(), Count(what)
    chosen = [*tests, *long_tests] if options.only or vars(options).get("long") else tests
    for test in chosen:
        if options.only in (None, test.__name__):
            count.attempt(test.__name__, lambda test=test: test(pellucid))
    sys.exit(0 if count.end() else 1)
