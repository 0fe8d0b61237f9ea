#!/usr/bin/env python3
"""Runs the steps of `make test`, one after the other, and names at the end which of them failed.

    python3 tools/steps.py STEP...        each STEP is a target of the Makefile

A failing step hides nothing that comes after it. A step marked with a `!` in front is a condition of all that follow: without it nothing
else can work, so the run ends there. The exit status is 1 if any step failed.
"""
import subprocess
import sys
import time


def run(steps: list[str], call=None) -> list[str]:
    """Runs the steps in order; the names of those that failed."""
    call = call or (lambda step: subprocess.run(["make", "--no-print-directory", step]).returncode)
    failed = []
    for step in steps:
        name = step.removeprefix("!")
        began = time.monotonic()
        status = call(name)
        print(f"step {name}: {'done' if status == 0 else 'FAILED'} after {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
        if status != 0:
            failed.append(name)
            if step.startswith("!"):
                break
    return failed


def main(arguments: list[str]) -> int:
    if not arguments:
        print("steps: no step is named", file=sys.stderr)
        return 2
    failed = run(arguments)
    if failed:
        print(f"steps that failed: {', '.join(failed)}; run one alone with make STEP", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
