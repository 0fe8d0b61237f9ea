#!/usr/bin/env python3
"""Fits the constants of `presets/cosmos-plus.toml` that no table of the Cosmos+ paper gives.

Measured are the visible columns of its Table 7: 16 KiB reads and writes one after the other, in SLC and in MLC mode, with
1, 4, 16 and 64 outstanding, 8 channels x 8 ways, no buffer hits. The system latency and its three parts are compared:

  host interface     stage link
  firmware           stages queue, firmware, buffer, wait for way (in the reservation station)
  storage controller stages wait for channel, media, transfer, retry

All constants are shared by the four workloads. What is not fitted: everything in `PARAMETERS`' complement, so the times of
the flash, the bus rates and the structure of the loop. Coordinate descent: one constant at a time, by a factor that shrinks.

  tools/fit_cosmos.py              print measured against published, with the presets as they are
  tools/fit_cosmos.py --fit 600    fit for at most so many seconds, then print the keys to put in the preset
  tools/fit_cosmos.py --set K=V    the same with an override
"""
import argparse
import concurrent.futures
import json
import math
import os
import pathlib
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import measure  # noqa: E402

DEPTHS = (1, 4, 16, 64)
# Table 7: per workload and number of outstanding I/Os: system latency, host interface, firmware, storage controller, in us.
PUBLISHED = {
    ("read", "slc"): ((239.9, 22.7, 7.3, 209.9), (254.4, 27.0, 9.8, 217.6), (352.0, 39.3, 24.9, 287.8), (972.2, 68.0, 312.0, 592.2)),
    ("read", "mlc"): ((214.8, 22.8, 7.3, 184.7), (227.8, 26.8, 9.4, 191.6), (341.1, 38.9, 24.7, 277.5), (978.0, 69.1, 310.0, 598.9)),
    ("write", "slc"): ((611.8, 24.2, 6.4, 581.2), (624.7, 27.2, 8.0, 589.5), (641.5, 29.6, 10.2, 601.7), (871.1, 44.9, 71.6, 754.6)),
    ("write", "mlc"): ((1531.2, 25.0, 6.4, 1499.8), (1544.4, 27.3, 7.8, 1509.3), (1566.8, 30.4, 10.3, 1526.1), (1823.2, 42.5, 131.2, 1649.5)),
}
PARTS = (
    ("link",),
    ("queue", "firmware", "buffer", "wait_for_way"),
    ("wait_for_channel", "media", "transfer", "retry"),
)
NAMES = ("system", "host interface", "firmware", "storage controller")
PRESETS = {"slc": "cosmos-plus-slc", "mlc": "cosmos-plus"}
# Fewer blocks than the preset, so that filling the drive takes no time; the mechanism does not see the difference.
SMALL = ["media.blocks=32", "ftl.over_provisioning=0.2"]
# Key, unit of the override, start, least, most. Register accesses last "hundreds of ns" (section 7.1).
PARAMETERS = {
    "host.dma_latency": ("ns", 10000, 0, 30000),
    "host.dma_overhead": ("ns", 300, 0, 2000),
    "scheduler.decode": ("ns", 12000, 0, 25000),
    "firmware.slice.cycles": ("", 1200, 0, 8000),
    "firmware.dma.cycles": ("", 300, 0, 4000),
    "firmware.issue.fixed": ("ns", 500, 100, 3000),
    "firmware.status.cycles": ("", 300, 0, 4000),
    "firmware.poll.fixed": ("ns", 250, 100, 900),
    "firmware.visit.cycles": ("", 60, 10, 800),
    "firmware.complete.cycles": ("", 200, 0, 4000),
    "media.timing.command": ("ns", 300, 100, 4000),
    "media.timing.status": ("ns", 300, 100, 4000),
    "media.timing.die_spread": ("spread", 200, 0, 500),
    "media.timing.op_spread": ("spread", 200, 0, 500),
}


def override(key, value):
    unit = PARAMETERS[key][0]
    if unit == "spread":  # In units of 1/10,000.
        return f"{key}={value / 10000}"
    return f'{key}="{round(value)}ns"' if unit == "ns" else f"{key}={round(value)}"


def run_point(binary, direction, mode, depth, sets):
    # The pages of a block alternate between fast and slow, 64 writes at a time: many such periods.
    ios = {"read": 2000, "write": {"slc": 2500, "mlc": 6400}[mode]}[direction] * (1 if depth < 16 else 4)
    ramp = {"read": "20ms", "write": "60ms"}[direction]
    command = [str(binary), "run", PRESETS[mode], "--json", f"--rw={direction}", "--bs=16k", f"--iodepth={depth}"]
    command += [f"--number_ios={ios + (1100 if direction == 'write' else 0)}", f"--ramp_time={ramp}"]
    fill = ["precondition.fill=1.0"] if direction == "read" else []
    for item in SMALL + fill + sets:
        command += ["--set", item]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120)
    if done.returncode:
        sys.exit(f"{' '.join(command)}: {done.stderr}")
    result = json.loads(done.stdout)["directions"][direction]
    count = result["latency"]["count"]
    parts = [sum(result["stage_ns"][s] for s in part) / count / 1000 for part in PARTS]
    return [result["latency"]["mean_ns"] / 1000, *parts]


def run_all(binary, sets):
    points = [(d, m, q) for (d, m) in PUBLISHED for q in DEPTHS]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        rows = pool.map(lambda p: run_point(binary, *p, sets), points)
    return dict(zip(points, rows))


def published(point):
    direction, mode, depth = point
    return PUBLISHED[direction, mode][DEPTHS.index(depth)]


def rms(values):
    return math.sqrt(sum(v * v for v in values) / len(values))


def errors(rows):
    """Relative errors of all points: of the system latency and of each part."""
    return [[measured[i] / published(p)[i] - 1 for p, measured in rows.items()] for i in range(4)]


def loss(rows):
    """Mean squares against the targets: 0.9 % for the system latency, 10 % for a part; ratios count both ways alike."""
    total = 0.0
    for i, target in enumerate((0.009, 0.10, 0.10, 0.10)):
        total += sum(math.log(max(m[i], 0.1) / published(p)[i]) ** 2 for p, m in rows.items()) / len(rows) / target**2
    return total


def show(rows):
    print(f"{'us: measured / published':26}" + "".join(f"{n:>22}" for n in NAMES) + "   system")
    for point, measured in rows.items():
        cells = "".join(f"{m:12.1f} /{p:8.1f}" for m, p in zip(measured, published(point)))
        print(f"{' '.join(map(str, point)):26}{cells}   {100 * (measured[0] / published(point)[0] - 1):+6.2f} %")
    for name, values in zip(NAMES, errors(rows)):
        print(f"{name}: rms {100 * rms(values):.2f} %, worst {100 * max(values, key=abs):+.2f} %")
    print(f"loss {loss(rows):.3f}", flush=True)


def fit(binary, sets, seconds):
    end = time.monotonic() + seconds
    values = {key: float(parameter[1]) for key, parameter in PARAMETERS.items()}
    trial = lambda v: loss(run_all(binary, sets + [override(k, x) for k, x in v.items()]))  # noqa: E731
    best, step, direction = trial(values), 0.4, dict.fromkeys(values, 1)
    while step > 0.02:
        improved = False
        for key, (_, start, least, most) in PARAMETERS.items():
            for _ in range(2):
                if time.monotonic() > end:
                    return values
                change = direction[key] * step * max(values[key], 0.2 * start)
                tried = values | {key: min(max(values[key] + change, least), most)}
                score = math.inf if tried == values else trial(tried)
                if score < best:
                    best, values, improved = score, tried, True
                    print(f"{best:8.3f}  {override(key, values[key])}", file=sys.stderr, flush=True)
                    break
                direction[key] = -direction[key]
        step = step if improved else step / 2
    return values


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fit", type=float, metavar="SECONDS", help="fit for at most so long")
    parser.add_argument("--start", action="append", default=[], metavar="KEY=NUMBER", help="where the fit starts")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="override, as of pellucid run")
    parser.add_argument("--binary", type=pathlib.Path, help="a built pellucid; without it one is built")
    options = parser.parse_args()
    binary = (options.binary or measure.build()).resolve()
    for item in options.start:
        key, number = item.split("=")
        unit, _, least, most = PARAMETERS[key]
        PARAMETERS[key] = (unit, float(number), least, most)
    sets = options.set
    if options.fit:
        found = fit(binary, sets, options.fit)
        sets = sets + [override(k, x) for k, x in found.items()]
        print("\n".join(sets))
    show(run_all(binary, sets))


if __name__ == "__main__":
    main()
