#!/usr/bin/env python3
"""Runs suites at the same time, in lanes: those of one lane one after the other, two lanes beside each other.

    tools/side_by_side.py SUITE [ARGUMENT ...] + SUITE ... // SUITE ...

`//` begins another lane, `+` the next suite of a lane. The output of a lane is shown whole when the lane has ended, so that lines of two suites
never mix. All suites run, also behind one that failed; the exit status is 0 if none did.
"""
import pathlib
import subprocess
import sys
import threading
import time

TOOLS = pathlib.Path(__file__).resolve().parent


def split(words: list[str], at: str) -> list[list[str]]:
    """The parts of `words` between separators."""
    parts: list[list[str]] = [[]]
    for word in words:
        if word == at:
            parts.append([])
        else:
            parts[-1].append(word)
    return parts


def run_lane(suites: list[list[str]], show: threading.Lock, failed: list[str]):
    """Runs the suites of one lane in turn."""
    output = []
    for name, *arguments in suites:
        began = time.monotonic()
        command = [sys.executable, str(TOOLS / name), *arguments]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        output.append(done.stdout)
        output.append(f"{name}: status {done.returncode} after {time.monotonic() - began:.0f} s\n".encode())
        if done.returncode:
            failed.append(name)
    with show:
        sys.stdout.buffer.write(b"".join(output))
        sys.stdout.flush()


def main() -> int:
    lanes = [split(lane, "+") for lane in split(sys.argv[1:], "//")]
    if not all(suite for lane in lanes for suite in lane):
        print(__doc__, file=sys.stderr)
        return 2
    show, failed = threading.Lock(), []
    threads = [threading.Thread(target=run_lane, args=(lane, show, failed)) for lane in lanes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
