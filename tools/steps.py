#!/usr/bin/env python3
"""Runs the steps of `make test`, and names at the end which of them failed.

    python3 tools/steps.py STEP...        each STEP is a target of the Makefile
    python3 tools/steps.py 'A B // C'     one argument: A and then B, with C beside them

Arguments run one after the other. Beside each other run steps that leave a core idle now and then; what such a step prints is shown whole when it
has ended, so that lines of two steps never mix. How long a step took is said, and how much of the processor it and all that it waited for used.

A failing step hides nothing that comes after it. A step marked with a `!` in front is a condition of all that follow: without it nothing
else can work, so the run ends there. The exit status is 1 if any step failed.
"""
import dataclasses
import os
import subprocess
import sys
import threading
import time

MAKE = ["make", "--no-print-directory"]


@dataclasses.dataclass
class Ended:
    """How a step ended: its status, the seconds of all processors that it used, and what it printed if that is still to be shown."""
    status: int
    processor_seconds: float = 0.0
    output: bytes = b""


class Steps:
    """Runs steps, and keeps the names of those that failed."""

    def __init__(self, call=None, call_beside=None):
        self.failed: list[str] = []
        self._call = call or run
        self._call_beside = call_beside or run_quietly
        self._show = threading.Lock()

    def run(self, arguments: list[str]) -> list[str]:
        """Runs all of them in order; the names of those that failed."""
        for argument in arguments:
            if "//" in argument:
                self._run_lanes([lane.split() for lane in argument.split("//")])
            elif not self._run_one(argument.removeprefix("!")) and argument.startswith("!"):
                break
        return self.failed

    def _run_one(self, name: str) -> bool:
        began = time.monotonic()
        return self._ended(name, self._call(name), began)

    def _run_lanes(self, lanes: list[list[str]]):
        threads = [threading.Thread(target=self._run_lane, args=(lane,)) for lane in lanes]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _run_lane(self, lane: list[str]):
        for name in lane:
            began = time.monotonic()
            with self._show:
                print(f"step {name}: begins; what it prints is shown when it has ended", file=sys.stderr, flush=True)
            ended = self._call_beside(name)
            with self._show:
                sys.stdout.buffer.write(ended.output)
                sys.stdout.flush()
                self._ended(name, ended, began)

    def _ended(self, name: str, ended: Ended, began: float) -> bool:
        word = "done" if ended.status == 0 else "FAILED"
        print(f"step {name}: {word} after {time.monotonic() - began:.0f} s, {ended.processor_seconds:.0f} s of processors",
              file=sys.stderr, flush=True)
        if ended.status != 0:
            self.failed.append(name)
        return ended.status == 0


def run(step: str) -> Ended:
    """Runs a step that prints as it goes."""
    return wait(subprocess.Popen([*MAKE, step]), b"")


def run_quietly(step: str) -> Ended:
    """Runs a step whose output is shown later."""
    process = subprocess.Popen([*MAKE, step], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return wait(process, process.stdout.read())


def wait(process: subprocess.Popen, output: bytes) -> Ended:
    """Waits for a process: its usage counts what its own children used, if it waited for them."""
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return Ended(process.returncode, usage.ru_utime + usage.ru_stime, output)


def main(arguments: list[str]) -> int:
    if not arguments:
        print("steps: no step is named", file=sys.stderr)
        return 2
    failed = Steps().run(arguments)
    if failed:
        print(f"steps that failed: {', '.join(failed)}; run one alone with make STEP", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
