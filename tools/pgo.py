#!/usr/bin/env python3
"""Builds `pellucid` twice: once to count how often each branch is taken, and once with these counts (profile-guided optimisation).

usage: pgo.py    needs `rustup component add llvm-tools`; the binary's place is printed at the end

The counts come from the two benchmarks of the simulator at a smaller size, and from mixed work on two presets. What is compiled is the
same program: reports are the same bit for bit.
"""
import os
import pathlib
import shutil
import subprocess
import sys

import measure

TARGET = measure.ROOT / "target" / "pgo"
# Enough for the counts to settle; a run takes seconds even where everything is counted.
REQUESTS = 300_000
MIXED = ["--rw", "randrw", "--bs", "4k", "--iodepth", "32", "--size", "1g", "--number-ios", "50000", "--quiet"]


def rustc(*what: str) -> str:
    return subprocess.run(["rustc", *what], check=True, cwd=measure.ROOT, stdout=subprocess.PIPE, text=True).stdout


def host() -> str:
    (line,) = (line for line in rustc("-vV").splitlines() if line.startswith("host: "))
    return line.removeprefix("host: ")


def build(triple: str, flag: str) -> pathlib.Path:
    """For a target that is named, so that build scripts are compiled without the flag."""
    command = ["cargo", "build", "--release", "--locked", "--bin", "pellucid", "--target", triple, "--target-dir", str(TARGET)]
    subprocess.run(command, check=True, cwd=measure.ROOT, env={**os.environ, "RUSTFLAGS": flag})
    return TARGET / triple / "release" / "pellucid"


def train(binary: pathlib.Path) -> None:
    for name, blocks in (("random-read", 48), ("random-write", 256)):
        changes = {"drive.media.blocks": blocks, "job.number_ios": REQUESTS}
        measure.run(binary, measure.variant(measure.load(name), changes))
    for preset in ("cosmos-plus", "datacenter-tlc"):
        command = [str(binary), "run", preset, *MIXED, "--set", "drive.media.blocks=64", "--json"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=measure.RUN_TIMEOUT_SECONDS)


def main() -> None:
    triple = host()
    profdata = pathlib.Path(rustc("--print", "sysroot").strip()) / "lib" / "rustlib" / triple / "bin" / "llvm-profdata"
    if not profdata.exists():
        sys.exit(f"{profdata} is not there; `rustup component add llvm-tools` brings it")
    counts, merged = TARGET / "counts", TARGET / "merged.profdata"
    shutil.rmtree(counts, ignore_errors=True)
    train(build(triple, f"-Cprofile-generate={counts}"))
    subprocess.run([str(profdata), "merge", "-o", str(merged), str(counts)], check=True)
    print(build(triple, f"-Cprofile-use={merged}"))


if __name__ == "__main__":
    main()
