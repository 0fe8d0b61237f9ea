#!/usr/bin/env python3
"""Where write clustering helps today and where it hurts: the recorded workloads on several drives, without and with the cluster buffer.

    tools/clustering.py [--pellucid target/release/pellucid] [--only DRIVE]

Simulated time of a replay with one request outstanding, so the numbers are the same on any machine. `journal` is strict with a
journal of 64 MiB on the drive, used when it is cheaper; `always`, whenever there is space in it.
"""
import argparse
import json
import subprocess
from pathlib import Path

from served import ROOT

TRACES = ROOT / "examples/fire"
PRESETS = {
    "netbook-ssd-2": ("netbook-ssd-2", {}),
    "client-qlc": ("client-qlc", {"drive.media.blocks": 512}),
    "with FDP": ("datacenter-tlc", {"drive.media.blocks": 128, "drive.ftl.handles": 4}),
    "zoned, host FTL": ("zoned", {"drive.media.blocks": 128}),
}
# What stands on a drive already.
LAYERS = {"zoned, host FTL": ["zone-log"]}
# How flushes are done: settings of the buffer.
JOURNAL = {"flush": "strict", "journal": "64MiB"}
MODES = {"strict": {"flush": "strict"}, "journal": JOURNAL, "always": {**JOURNAL, "journal_use": "always"}, "paper": {"flush": "paper"}}


def seconds(options, name: str, trace: Path, mode: str | None) -> float:
    """Simulated seconds of a replay."""
    preset, sets = PRESETS[name]
    layers = (["cluster-buffer"] if mode else []) + LAYERS.get(name, [])
    words = [options.pellucid, "replay", preset, str(trace), "--closed-loop", "1", "--json", "--quiet", "--precondition", "fill"]
    sets = {**sets, "host.layers": json.dumps(layers)} if layers else sets
    if mode:
        keys = {f"host.cluster_buffer.{key}": value for key, value in MODES[mode].items()}
        sets = {**sets, **keys, "host.cpu.submit": "1us", "host.cpu.sector": "50ns"}
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
    print(f"| drive | workload | without, s | {' | '.join(MODES)} |\n|---|---|{'---|' * (len(MODES) + 1)}", flush=True)
    for name in [options.only] if options.only else PRESETS:
        for trace in sorted(TRACES.glob("*.fio.zst")):
            alone = seconds(options, name, trace, None)
            shares = " | ".join(f"{100 * seconds(options, name, trace, mode) / alone:.0f} %" for mode in MODES)
            print(f"| {name} | {trace.name.split('.')[0]} | {alone:.3g} | {shares} |", flush=True)


if __name__ == "__main__":
    main()
