#!/usr/bin/env python3
"""Runs the steps of `make test`, and names at the end which of them failed.

    python3 tools/steps.py STEP...        each STEP is a target of the Makefile
    python3 tools/steps.py 'A B // C'     one argument: A and then B, with C beside them

Arguments run one after the other. Beside each other run steps that leave a core idle now and then; what such a step prints is shown whole when it
has ended, so that lines of two steps never mix.

A failing step hides nothing that comes after it. A step marked with a `!` in front is a condition of all that follow: without it nothing
else can work, so the run ends there. The exit status is 1 if any step failed.
"""
import subprocess
import sys
import threading
import time

MAKE = ["make", "--no-print-directory"]


class Steps:
    """Runs steps, and keeps the names of those that failed."""

    def __init__(self, call=None, call_beside=None):
        self.failed: list[str] = []
        self._call = call or (lambda step: subprocess.run([*MAKE, step]).returncode)
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
            status, output = self._call_beside(name)
            with self._show:
                sys.stdout.buffer.write(output)
                sys.stdout.flush()
                self._ended(name, status, began)

    def _ended(self, name: str, status: int, began: float) -> bool:
        word = "done" if status == 0 else "FAILED"
        print(f"step {name}: {word} after {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
        if status != 0:
            self.failed.append(name)
        return status == 0


def run_quietly(step: str) -> tuple[int, bytes]:
    """Runs a step whose output is shown later: its status, and what it printed."""
    done = subprocess.run([*MAKE, step], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return done.returncode, done.stdout


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
