#!/usr/bin/env python3
"""Fits the constants of `presets/cosmos-plus.toml` that no table of the Cosmos+ paper gives.

Measured are the visible columns of its Table 7: 16 KiB reads and writes one after the other, in SLC and in MLC mode, with
1, 4, 16 and 64 outstanding, 8 channels x 8 ways, no buffer hits; each system latency and its three parts, as
`pellucid reproduce C6` cuts them. Beside them stand three numbers of section 6: 1,275 MB/s of reads, throughput in
proportion to channels, and IOPS of small requests. All constants are shared by all workloads; everything that is not in
PARAMETERS stays as the preset has it. Damped Gauss-Newton (Levenberg-Marquardt) on relative errors over targets, until no
step improves; the same start gives the same result.

  tools/fit_cosmos.py                   print measured against published, with the presets as they are
  tools/fit_cosmos.py --fit 600         fit for at most so many seconds; print both, before and after, and the constants
  tools/fit_cosmos.py --fit 600 --write the same, and put the constants into the preset
  tools/fit_cosmos.py --set K=V         the same with an override, as of pellucid run
"""
import argparse
import concurrent.futures
import json
import math
import os
import pathlib
import re
import subprocess
import sys
import time
import tomllib

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import measure  # noqa: E402

PRESET = pathlib.Path(__file__).resolve().parent.parent / "presets/cosmos-plus.toml"
DEPTHS = (1, 4, 16, 64)
# Table 7: per workload and number of outstanding I/Os: system latency, host interface, firmware, storage controller, in us.
PUBLISHED = {
    ("read", "slc"): ((239.9, 22.7, 7.3, 209.9), (254.4, 27.0, 9.8, 217.6), (352.0, 39.3, 24.9, 287.8), (972.2, 68.0, 312.0, 592.2)),
    ("read", "mlc"): ((214.8, 22.8, 7.3, 184.7), (227.8, 26.8, 9.4, 191.6), (341.1, 38.9, 24.7, 277.5), (978.0, 69.1, 310.0, 598.9)),
    ("write", "slc"): ((611.8, 24.2, 6.4, 581.2), (624.7, 27.2, 8.0, 589.5), (641.5, 29.6, 10.2, 601.7), (871.1, 44.9, 71.6, 754.6)),
    ("write", "mlc"): ((1531.2, 25.0, 6.4, 1499.8), (1544.4, 27.3, 7.8, 1509.3), (1566.8, 30.4, 10.3, 1526.1), (1823.2, 42.5, 131.2, 1649.5)),
}
NAMES = ("system", "host interface", "firmware", "storage controller")
# What counts as an error of 1. The storage controller is most of the latency, so it is held closer than the small parts.
TARGETS = (0.012, 0.10, 0.10, 0.05)
PRESETS = {"slc": "cosmos-plus-slc", "mlc": "cosmos-plus"}
REQUESTS = {1: 2048, 4: 4096, 16: 10240, 64: 25600}
# Fewer blocks than the preset, so that filling the drive takes no time; the mechanism does not see the difference.
SMALL = ["media.blocks=64", "ftl.over_provisioning=0.2"]
SEQUENTIAL = "--rw=read --bs=128k --iodepth=16 --number_ios=2500"
RANDOM = "--rw=randread --bs=4k --iodepth=128 --number_ios=16000"
# Key: unit, size of a step where the value is small, least, most.
PARAMETERS = {
    "host.dma_latency": ("ns", 2000, 0, 30000),
    "host.dma_overhead": ("ns", 50, 0, 2000),
    "scheduler.decode": ("ns", 2000, 0, 25000),
    "scheduler.drain": ("ns", 1000, 0, 12000),
    "firmware.fetch.fixed": ("ns", 300, 300, 8000),
    "firmware.dma.cycles": ("", 50, 0, 4000),
    "firmware.issue.cycles": ("", 50, 0, 3000),
    "firmware.register.fixed": ("ns", 20, 20, 500),
    "firmware.status.cycles": ("", 30, 0, 4000),
    "firmware.visit.cycles": ("", 10, 10, 800),
    "firmware.complete.cycles": ("", 100, 0, 4000),
    "firmware.arrival.fixed": ("ns", 150, 0, 5000),
    "media.timing.die_spread": ("share", 0.004, 0.0, 0.15),
    "media.timing.op_deviation": ("ns", 5000, 0, 58000),
}


def text_of(key, value):
    """A constant as TOML."""
    unit = PARAMETERS[key][0]
    if unit == "share":
        return f"{value:.4f}"
    return f'"{round(value)}ns"' if unit == "ns" else str(round(value))


def overrides(values):
    return [f"{key}={text_of(key, value)}" for key, value in values.items()]


def presets_values():
    """The constants as the preset has them."""
    units = {"ns": 1, "us": 1e3, "ms": 1e6}
    values = {}
    for key in PARAMETERS:
        value = tomllib.loads(PRESET.read_text())["drive"]
        for part in key.split("."):
            value = value[part]
        number = re.fullmatch(r"([0-9.]+)(ns|us|ms)", value) if isinstance(value, str) else None
        values[key] = float(number[1]) * units[number[2]] if number else float(value)
    return values


def write(values):
    """Puts the constants into the preset; comments stay."""
    text = PRESET.read_text()
    for key, value in values.items():
        section, name = ("media.timing", key[13:]) if key.startswith("media.timing.") else key.split(".", 1)
        start = text.index(f"[drive.{section}]")
        end = text.find("\n[", start) % (len(text) + 1)
        line = re.compile(rf"^{re.escape(name)} = [^#]*", re.MULTILINE)
        body = line.sub(f"{name} = {text_of(key, value)}".ljust(36), text[start:end])
        text = text[:start] + body + text[end:]
    PRESET.write_text(text)


def run(binary, preset, job, sets):
    command = [str(binary), "run", preset, "--json", *job.split()]
    for item in SMALL + sets:
        command += ["--set", item]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=300)
    if done.returncode:
        sys.exit(f"{' '.join(command)}: {done.stderr}")
    return json.loads(done.stdout)


def cell(binary, point, sets):
    """System latency and parts of a cell of Table 7, in us: from the firmware's taking of the command until it sees the last DMA."""
    direction, mode, depth = point
    # The buffer fills before the measurement begins.
    more, ramp = (1100, "60ms") if direction == "write" else (0, "20ms")
    job = f"--rw={direction} --bs=16k --iodepth={depth} --number_ios={REQUESTS[depth] + more} --ramp_time={ramp}"
    filled = ["precondition.fill=1.0"] if direction == "read" else []
    report = run(binary, PRESETS[mode], job, filled + sets)
    result = report["directions"][direction]
    count = result["latency"]["count"] * 1000
    stage = {name: time / count for name, time in result["stage_ns"].items()}
    # Counted over all requests, the first ones too.
    host = stage["link"] + report["utilisation"]["dma_unseen_ns"] / (REQUESTS[depth] + more) / 1000
    firmware = stage["firmware"] + stage["buffer"] + stage["wait_for_way"]
    storage = stage["wait_for_channel"] + stage["media"] + stage["transfer"] + stage["retry"]
    return [host + firmware + storage, host, firmware, storage]


def throughputs(binary, sets):
    """Section 6: reads in MB/s, 8 channels over 1, and IOPS of 4 KiB over throughput / 16 KiB."""
    rate = lambda job, more: run(binary, PRESETS["slc"], job, ["precondition.fill=1.0", *sets, *more])["directions"]["read"][  # noqa: E731
        "throughput_bytes_per_second"
    ]
    eight, one = rate(SEQUENTIAL, []), rate(SEQUENTIAL, ["media.channels=1", "media.blocks=512"])
    return [eight / 1e6, eight / one, 4 * rate(RANDOM, []) / eight]


def evaluate(binary, sets):
    points = [(d, m, q) for (d, m) in PUBLISHED for q in DEPTHS]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        totals = pool.submit(throughputs, binary, sets)
        rows = pool.map(lambda p: cell(binary, p, sets), points)
        return dict(zip(points, rows)), totals.result()


def published(point):
    direction, mode, depth = point
    return PUBLISHED[direction, mode][DEPTHS.index(depth)]


def residuals(result):
    rows, (reads, channels, small) = result
    values = [(reads / 1275 - 1) / 0.02, min(0, channels - 7.55) / 0.03, min(0, small - 0.915) / 0.01]
    for point, measured in rows.items():
        ratios = [max(m, 0.1) / p for m, p in zip(measured, published(point))]
        values += [math.log(ratio) / target for ratio, target in zip(ratios, TARGETS)]
    return values


def loss(values):
    return sum(value * value for value in values)


def solve(matrix, vector):
    """Gauss elimination with pivots."""
    rows = [row + [value] for row, value in zip(matrix, vector)]
    size = len(rows)
    for i in range(size):
        pivot = max(range(i, size), key=lambda k: abs(rows[k][i]))
        rows[i], rows[pivot] = rows[pivot], rows[i]
        for k in range(i + 1, size):
            factor = rows[k][i] / rows[i][i]
            rows[k] = [a - factor * b for a, b in zip(rows[k], rows[i])]
    for i in reversed(range(size)):
        rows[i][size] = (rows[i][size] - sum(rows[i][j] * rows[j][size] for j in range(i + 1, size))) / rows[i][i]
    return [row[size] for row in rows]


def fit(binary, sets, values, seconds):
    end = time.monotonic() + seconds
    keys = list(PARAMETERS)
    trial = lambda v: residuals(evaluate(binary, sets + overrides(v)))  # noqa: E731
    now, damping = trial(values), 0.5
    print(f"loss {loss(now):.1f}", file=sys.stderr, flush=True)
    while time.monotonic() < end:
        scale = {key: max(values[key], PARAMETERS[key][1]) for key in keys}
        slopes = []
        for key in keys:
            step = 0.25 * scale[key] * (1 if values[key] + 0.25 * scale[key] <= PARAMETERS[key][3] else -1)
            changed = trial(values | {key: values[key] + step})
            slopes.append([(a - b) / (step / scale[key]) for a, b in zip(changed, now)])
        normal = [[sum(a * b for a, b in zip(one, other)) for other in slopes] for one in slopes]
        descent = [-sum(a * b for a, b in zip(one, now)) for one in slopes]
        for _ in range(5):
            damped = [[a + (damping * (a + 1) if i == j else 0) for j, a in enumerate(row)] for i, row in enumerate(normal)]
            moved = {}
            for key, move in zip(keys, solve(damped, descent)):
                _, _, least, most = PARAMETERS[key]
                moved[key] = min(max(values[key] + max(-0.6, min(0.6, move)) * scale[key], least), most)
            then = trial(moved)
            if loss(then) < loss(now):
                values, now, damping = moved, then, max(damping / 3, 0.01)
                print(f"loss {loss(now):.1f}  {' '.join(overrides(values))}", file=sys.stderr, flush=True)
                break
            damping *= 3
        else:
            break
    return values


def rms(values):
    return math.sqrt(sum(value * value for value in values) / len(values))


def show(title, result):
    rows, (reads, channels, small) = result
    print(f"{title + ': us, measured / published':36}" + "".join(f"{name:>22}" for name in NAMES) + "   system")
    for point, measured in rows.items():
        cells = "".join(f"{m:12.1f} /{p:8.1f}" for m, p in zip(measured, published(point)))
        print(f"{' '.join(map(str, point)):36}{cells}   {100 * (measured[0] / published(point)[0] - 1):+6.2f} %")
    for i, name in enumerate(NAMES):
        errors = [measured[i] / published(point)[i] - 1 for point, measured in rows.items()]
        print(f"{name}: rms {100 * rms(errors):.2f} %, worst {100 * max(errors, key=abs):+.2f} %")
    print(f"reads {reads:.0f} MB/s of 1275; 8 channels / 1 {channels:.2f}; 4 KiB IOPS / (throughput / 16 KiB) {small:.3f}")
    print(f"loss {loss(residuals(result)):.1f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fit", type=float, metavar="SECONDS", help="fit for at most so long")
    parser.add_argument("--write", action="store_true", help="put what was fitted into the preset")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="override, as of pellucid run")
    parser.add_argument("--binary", type=pathlib.Path, help="a built pellucid; without it one is built")
    options = parser.parse_args()
    binary = (options.binary or measure.build()).resolve()
    show("before" if options.fit else "now", evaluate(binary, options.set))
    if options.fit:
        found = fit(binary, options.set, presets_values(), options.fit)
        show("after", evaluate(binary, options.set + overrides(found)))
        print("\n".join(overrides(found)))
        if options.write:
            write(found)


if __name__ == "__main__":
    main()
