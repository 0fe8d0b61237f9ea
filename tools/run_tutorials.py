#!/usr/bin/env python3
"""Does what the tutorials say, and compares what comes out with what they show.

    python3 tools/run_tutorials.py [--pellucid target/debug/pellucid] [PAGE...]

A page of docs/tutorial is done from its first line to its last in a folder of its own, where `examples` is that of the repository:

- A block of code after "Save this as `NAME`" becomes that file.
- In a block without a language, a line that begins with `$ ` is a command; a `\\` at its end continues it. The lines below it must come
  out in this order; others may come out between them. Spaces count as one; `...` at the end of a line stands for any rest, and a line
  `...` for any lines.
- A command must succeed, unless a line below it begins with `error:`.
- A command that ends with `&` is a server: it is waited for until its `--control` answers, and ended with the page.

A page whose first line of a comment names programs, `<!-- needs: qemu-io -->`, is skipped where they are missing; not where CI=true.
"""
import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TUTORIALS = ROOT / "docs/tutorial"
# A bound for what hangs, far beyond what any command takes.
SECONDS_MAX = 1800


class Wrong(Exception):
    """The page says something else than what happened."""


@dataclass(frozen=True)
class File:
    """A file that the reader saves."""

    name: str
    text: str


@dataclass(frozen=True)
class Command:
    """A command, and the lines that the page shows below it."""

    line: str
    shown: tuple[str, ...]


def steps(page: str) -> list[File | Command]:
    """The steps of a page, in order."""
    found: list[File | Command] = []
    before = ""
    for part in re.split(r"(^```[a-z]*\n.*?^```$)", page, flags=re.MULTILINE | re.DOTALL):
        fence = re.match(r"```([a-z]*)\n(.*?)```$", part, re.DOTALL)
        if not fence:
            before = part
            continue
        saved = re.search(r"Save this as `([^`]+)`[^`]*$", before)
        if saved:
            found.append(File(saved[1], fence[2]))
        elif not fence[1]:
            found += commands(fence[2])
        before = ""
    return found


def commands(block: str) -> list[Command]:
    """The commands of a block; lines above the first are no output of any."""
    found = []
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        lines = part.splitlines()
        command = lines.pop(0)
        while command.endswith("\\"):
            command = command[:-1] + lines.pop(0).strip()
        found.append(Command(command, tuple(line for line in lines if line.strip())))
    return found


def missing_line(shown: tuple[str, ...], out: str) -> str | None:
    """The first line that does not come out in its place; None if all do."""
    lines = iter([" ".join(line.split()) for line in out.splitlines()])
    for line in shown:
        want = " ".join(line.split())
        if want == "...":
            continue
        start = want.removesuffix("...").rstrip()
        if not any(got == want or (want != start and got.startswith(start)) for got in lines):
            return line
    return None


class Reader:
    """Someone who does what a page says, in a folder of their own."""

    def __init__(self, pellucid: Path, folder: Path) -> None:
        self._folder = folder
        self._servers: list[subprocess.Popen] = []
        programs = folder / ".bin"
        programs.mkdir()
        (programs / "pellucid").symlink_to(pellucid)
        (folder / "examples").symlink_to(ROOT / "examples")
        self._environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}:/usr/sbin:/sbin"}

    def do(self, step: File | Command) -> None:
        if isinstance(step, File):
            (self._folder / step.name).write_text(step.text)
        elif step.line.endswith("&"):
            self.serve(step.line.removesuffix("&"))
        else:
            self.run(step)

    def run(self, step: Command) -> None:
        done = subprocess.run(["bash", "-c", step.line], cwd=self._folder, env=self._environment, text=True, timeout=SECONDS_MAX,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        fails = any(line.startswith("error:") for line in step.shown)
        lost = missing_line(step.shown, done.stdout)
        if lost is not None or (done.returncode != 0) != fails:
            about = f"this line is missing: {lost}" if lost is not None else f"exit status {done.returncode}"
            raise Wrong(f"$ {step.line}\n{about}\nIt printed:\n{done.stdout}")

    def serve(self, line: str) -> None:
        control = re.search(r"--control (\S+)", line)
        if not control:
            raise Wrong(f"$ {line}&\na server without --control cannot be waited for")
        server = subprocess.Popen(["bash", "-c", f"exec {line}"], cwd=self._folder, env=self._environment,
                                  stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self._servers.append(server)
        until = time.monotonic() + SECONDS_MAX
        ask = ["pellucid", "status", "--control", control[1]]
        while subprocess.run(ask, cwd=self._folder, env=self._environment, capture_output=True).returncode != 0:
            if server.poll() is not None or time.monotonic() > until:
                server.kill()
                raise Wrong(f"$ {line}&\nit serves nothing: {server.stderr.read()}")
            time.sleep(0.05)

    def stop(self) -> None:
        for server in self._servers:
            server.send_signal(signal.SIGTERM)
        for server in self._servers:
            try:
                server.communicate(timeout=SECONDS_MAX)
            except subprocess.TimeoutExpired:
                server.kill()


def lacks(page: str) -> list[str]:
    """The programs that the page needs and that are not there."""
    needs = re.search(r"<!-- needs: (.*?) -->", page)
    path = os.environ["PATH"] + ":/usr/sbin:/sbin"
    return [name for name in (needs[1].split() if needs else []) if not shutil.which(name, path=path)]


def follow(page: Path, pellucid: Path) -> int:
    """Does a whole page; the number of its commands."""
    found = steps(page.read_text())
    count = sum(isinstance(step, Command) for step in found)
    if count == 0:
        raise Wrong("no command")
    with tempfile.TemporaryDirectory() as folder:
        reader = Reader(pellucid, Path(folder))
        try:
            for step in found:
                reader.do(step)
        finally:
            reader.stop()
    return count


def main() -> int:
    parser = argparse.ArgumentParser(description="Does what the tutorials say.")
    parser.add_argument("--pellucid", type=Path, default=ROOT / "target/debug/pellucid")
    parser.add_argument("pages", nargs="*", type=Path)
    arguments = parser.parse_args()
    passed = failed = skipped = 0
    for page in arguments.pages or sorted(TUTORIALS.glob("*.md")):
        missing = lacks(page.read_text())
        if missing and os.environ.get("CI") != "true":
            print(f"{page.name}: skipped: {', '.join(missing)} missing")
            skipped += 1
            continue
        began = time.monotonic()
        try:
            count = follow(page, arguments.pellucid.resolve())
        except Wrong as wrong:
            print(f"{page.name}: FAILED\n{wrong}")
            failed += 1
            continue
        print(f"{page.name}: {count} commands, {time.monotonic() - began:.0f} s")
        passed += 1
    print(f"tutorials: {passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed or passed == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
