#!/usr/bin/env python3
"""Counts how often each branch of the command is taken, for the compiler to lay the command out by (profile-guided optimisation).

usage: train.py    needs `rustup component add llvm-tools`; writes bench/trained-RUST.profdata.gz, which `make build` uses with that Rust

The counts come from the two benchmarks of the simulator at a smaller size, mixed work on two presets, and a drive that is served over NBD
and NVMe/TCP. What is compiled is the same program: reports are the same bit for bit.
"""
import gzip
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile

import measure
import nbd_client as nbd
import nvme_client as nvme
import served

TARGET = measure.ROOT / "target" / "train"
# Enough for the counts to settle; a run takes seconds even where everything is counted.
REQUESTS = 300_000
MIXED = ["--rw", "randrw", "--bs", "4k", "--iodepth", "32", "--size", "1g", "--number-ios", "50000", "--quiet"]
SERVED_REQUESTS, DEPTH = 20_000, 32
REQUEST_BYTES, SERVED_BYTES = 4096, 64 << 20


def rustc(*what: str) -> str:
    return subprocess.run(["rustc", *what], check=True, cwd=measure.ROOT, stdout=subprocess.PIPE, text=True).stdout


def version() -> str:
    """Rust's, as it stands in the name of the counts: those of another one fit no function."""
    return rustc("--version").split()[1]


def merger() -> pathlib.Path:
    """LLVM's program that adds counts up."""
    (host,) = (line.removeprefix("host: ") for line in rustc("-vV").splitlines() if line.startswith("host: "))
    program = pathlib.Path(rustc("--print", "sysroot").strip()) / "lib" / "rustlib" / host / "bin" / "llvm-profdata"
    if not program.exists():
        sys.exit(f"{program} is not there; `rustup component add llvm-tools` brings it")
    return program


def build(counts: pathlib.Path) -> pathlib.Path:
    """The command that counts."""
    command = ["cargo", "build", "--release", "--locked", "--bin", "pellucid", "--target-dir", str(TARGET)]
    subprocess.run(command, check=True, cwd=measure.ROOT, env={**os.environ, "RUSTFLAGS": f"-Cprofile-generate={counts}"})
    return TARGET / "release" / "pellucid"


def simulate(binary: pathlib.Path) -> None:
    for name, blocks in (("random-read", 48), ("random-write", 256)):
        changes = {"drive.media.blocks": blocks, "job.number_ios": REQUESTS}
        measure.run(binary, measure.variant(measure.load(name), changes))
    for preset in ("cosmos-plus", "datacenter-tlc"):
        command = [str(binary), "run", preset, *MIXED, "--set", "drive.media.blocks=64", "--json"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=measure.RUN_TIMEOUT_SECONDS)


def serve(binary: pathlib.Path) -> None:
    """Random reads and writes at depth over both protocols, on a drive in memory with its whole model."""
    rng, data, ends = random.Random(1), bytes(REQUEST_BYTES), []
    places = SERVED_BYTES // REQUEST_BYTES

    def ended(*end):
        ends.append(end[0])

    def exchange(client, send) -> None:
        for _ in range(SERVED_REQUESTS):
            send(rng.randrange(places), rng.random() < 0.3)
            while len(client.pending) >= DEPTH:
                client.receive()
        client.drain()

    with tempfile.TemporaryDirectory() as directory:
        server = served.Server(directory, ["datacenter-tlc"], ("media.blocks=64", "media.store=ram"), "instant", nvme=True, pellucid=binary)
        client = nbd.Client(server.socket)
        kinds = {True: (nbd.WRITE, data), False: (nbd.READ, b"")}
        exchange(client, lambda place, write: client.send(kinds[write][0], place * REQUEST_BYTES, REQUEST_BYTES, ended, kinds[write][1]))
        client.close()
        control = nvme.Controller(server.port, f"{served.NQN_PREFIX}datacenter-tlc")
        sectors = REQUEST_BYTES // server.ask(do="status")["drives"][0]["sector_bytes"]
        carries = {True: (nvme.WRITE, {"data": data}), False: (nvme.READ, {"read": REQUEST_BYTES})}
        exchange(control.io, lambda place, write: control.io.send(
            carries[write][0], ended, nvme.at(place * sectors, sectors), 1, **carries[write][1]))
        control.close()
        server.stop()
    if len(ends) != 2 * SERVED_REQUESTS or any(ends):
        sys.exit(f"the served drive ended {len(ends)} of {2 * SERVED_REQUESTS} requests, {sum(map(bool, ends))} with an error")


def main() -> None:
    program = merger()
    counts, merged = TARGET / "counts", TARGET / "merged.profdata"
    binary = build(counts)
    # What build scripts have counted is of no use.
    shutil.rmtree(counts, ignore_errors=True)
    simulate(binary)
    serve(binary)
    subprocess.run([str(program), "merge", "-sparse", "-o", str(merged), str(counts)], check=True)
    for old in (measure.ROOT / "bench").glob("trained-*.profdata.gz"):
        old.unlink()
    out = measure.ROOT / "bench" / f"trained-{version()}.profdata.gz"
    # Without a time or a name in it: equal counts are an equal file.
    out.write_bytes(gzip.compress(merged.read_bytes(), 9, mtime=0))
    print(f"{out.relative_to(measure.ROOT)}: {out.stat().st_size / 1000:,.0f} kB")


if __name__ == "__main__":
    main()
