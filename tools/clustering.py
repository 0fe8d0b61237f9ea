#!/usr/bin/env python3
"""Where write clustering helps today and where it hurts: the recorded workloads on several drives, without and with the cluster buffer.

    tools/clustering.py [--pellucid target/release/pellucid] [--only DRIVE]

Simulated time of a replay with one request outstanding, so the numbers are the same on any machine. `journal` is an estimate of a buffer whose
flushes append what is dirty to a journal on the drive: the time of `paper`, and that of the appends alone. Nothing here does so.
"""
import argparse
import json
import subprocess
import tempfile
from pathlib import Path

from served import ROOT, run

TRACES = ROOT / "examples/fire"
PRESETS = {
    "netbook-ssd-2": ("netbook-ssd-2", {}),
    "client-qlc": ("client-qlc", {"drive.media.blocks": 512}),
    "with FDP": ("datacenter-tlc", {"drive.media.blocks": 128, "drive.ftl.handles": 4}),
    "zoned, host FTL": ("zoned", {"drive.media.blocks": 128}),
}
# What stands on a drive already.
LAYERS = {"zoned, host FTL": ["zone-log"]}
MODES = ("strict", "paper")
# The ring of the journal, behind the recorded device; a record begins with a block that names its sectors.
RING_AT, RING, BLOCK, REQUEST = 1 << 30, 64 << 20, 4096, 1 << 20


def journal_of(trace: Path, into: Path):
    """The appends that a journal would take: at each flush what was written since the last one, once."""
    lines, at, dirty = ["fio version 3 iolog", "0 stream.0 add", "0 stream.0 open"], 0, set()
    for line in run("zstd", "-dc", trace).splitlines():
        words = line.split()
        if len(words) == 5 and words[2] == "write":
            first, count = int(words[3]) // BLOCK, -(-int(words[4]) // BLOCK)
            dirty.update(range(first, first + count))
        elif len(words) > 2 and words[2] == "sync" and dirty:
            left = (len(dirty) + 1) * BLOCK
            while left > 0:
                size = min(left, REQUEST, RING - at)
                lines.append(f"0 stream.0 write {RING_AT + at} {size}")
                at, left = (at + size) % RING, left - size
            lines.append("0 stream.0 sync 0 0")
            dirty.clear()
    into.write_text("\n".join([*lines, "0 stream.0 close", ""]))


def seconds(options, name: str, trace: Path, mode: str | None) -> float:
    """Simulated seconds of a replay."""
    preset, sets = PRESETS[name]
    layers = (["cluster-buffer"] if mode else []) + LAYERS.get(name, [])
    words = [options.pellucid, "replay", preset, str(trace), "--closed-loop", "1", "--json", "--quiet", "--precondition", "fill"]
    sets = {**sets, "host.layers": json.dumps(layers)} if layers else sets
    sets = {**sets, "host.cluster_buffer.flush": mode, "host.cpu.submit": "1us", "host.cpu.sector": "50ns"} if mode else sets
    words += [word for key, value in sets.items() for word in ("--set", f"{key}={value}")]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, f"{' '.join(words)}\n{done.stderr}"
    return json.loads(done.stdout)["simulated_seconds"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pellucid", default=ROOT / "target/release/pellucid")
    parser.add_argument("--only", choices=list(PRESETS))
    options = parser.parse_args()
    options.pellucid = str(Path(options.pellucid).resolve())
    print("| drive | workload | without, s | strict | paper | journal, estimated |\n|---|---|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory() as scratch:
        for name in [options.only] if options.only else PRESETS:
            for trace in sorted(TRACES.glob("*.fio.zst")):
                appends = Path(scratch) / "journal.fio"
                journal_of(trace, appends)
                alone = seconds(options, name, trace, None)
                strict, paper = (seconds(options, name, trace, mode) for mode in MODES)
                journal = paper + seconds(options, name, appends, None)
                shares = " | ".join(f"{100 * value / alone:.0f} %" for value in (strict, paper, journal))
                print(f"| {name} | {trace.name.split('.')[0]} | {alone:.3g} | {shares} |", flush=True)


if __name__ == "__main__":
    main()
