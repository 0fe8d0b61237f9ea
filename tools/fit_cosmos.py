#!/usr/bin/env python3
"""Fits the constants of `presets/cosmos-plus.toml` that no table of the Cosmos+ paper gives.

Measured are the visible columns of its Table 7, and nothing else: 16 KiB reads and writes one after the other, in SLC and in
MLC mode, with 1, 4, 16 and 64 outstanding, means over SEEDS; each system latency and its three parts, as `pellucid reproduce C6` measures
them. All constants are shared by all workloads; everything that is not in PARAMETERS stays as the preset has it. What the
published storage controller takes of an MLC write more than of an SLC write on the same path (RESIDUE) has no mechanism
here, so the fit does not see it. Damped Gauss-Newton (Levenberg-Marquardt) on relative errors over targets, until no step
improves, then one constant after the other; the same start gives the same result if there is time for all of it.

  tools/fit_cosmos.py                   print measured against published, with the presets as they are
  tools/fit_cosmos.py --fit 600         fit for at most so many seconds; print both, before and after, and the constants
  tools/fit_cosmos.py --fit 600 --write the same, and put the constants into the presets
  tools/fit_cosmos.py --set K=V         the same with an override, as of pellucid run
"""
import argparse
import concurrent.futures
import json
import math
import pathlib
import re
import subprocess
import sys
import time
import tomllib

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import measure  # noqa: E402

PRESETS = pathlib.Path(__file__).resolve().parent.parent / "presets"
PRESET = PRESETS / "cosmos-plus.toml"
# Section 7.5: to take a command of the open-channel drive costs so much more, in ns.
OPEN_CHANNEL = PRESETS / "cosmos-plus-open-channel.toml"
ADDRESSES = 1400
NAMES = ("system", "host interface", "firmware", "storage controller")
# Drives that are measured: which dies are slow, and in which phase channels are, is an accident of each.
SEEDS = (1, 2, 3)
# What counts as an error of 1. The storage controller is most of the latency, so it is held closer than the small parts.
TARGETS = (0.009, 0.10, 0.10, 0.05)
# Table 5, 6, 7: storage controller of a write, beyond bus and array, MLC less SLC, in ns.
RESIDUE = (1499.8 - 90.24 - 1388) * 1000 - (581.2 - 90.24 - 486) * 1000
# Key: unit, size of a step where the value is small, least, most.
PARAMETERS = {
    "host.dma_latency": ("ns", 2000, 0, 30000),
    "host.dma_request": ("ns", 1000, 0, 10000),
    "scheduler.drain": ("ns", 2000, 0, 20000),
    "firmware.fetch.fixed": ("ns", 500, 100, 8000),
    "firmware.issue.cycles": ("", 100, 0, 3000),
    "firmware.register.fixed": ("ns", 30, 20, 400),
    "firmware.complete.cycles": ("", 300, 0, 4000),
    "firmware.visit.cycles": ("", 40, 10, 800),
    # Section 7.1: hundreds of ns.
    "firmware.poll.fixed": ("ns", 100, 100, 999),
    # Section 6.4: a deviation up to tens of us, as a standard deviation (1 / sqrt 3 of a spread) below 100 us of 1,388 us, the mean write
    # (MLC), of the mean of a device.
    "media.timing.die_spread": ("share", 0.01, 0.0, 0.12),
}


# One number of cycles to hand over a DMA, to issue, and for an end that was found.
ISSUE, AS_ISSUE = "firmware.issue.cycles", ("firmware.dma.cycles", "firmware.status.cycles")

# Section 7.1: the processor and the central interconnect follow the processor's clock, the other buses do not. An access is taken to
# be as many cycles on each bus that it crosses (Table 6), so this part of it, at 1 GHz, is cycles of the processor. A
# register: buses 7 (333 MHz), 9 and 10 or 11 (100 MHz).
REGISTER = (1 / 333 + 1 / 100) / (1 / 333 + 2 / 100)
# Cost: that part, and the cycles beside the accesses.
ACCESSES = {
    "firmware.fetch": (REGISTER, 700),
    "firmware.poll": (REGISTER, 0),
    "firmware.register": (REGISTER, 0),
}


def settings(values):
    """The constants as keys of a drive and their TOML; an access is fitted as a whole, at 1 GHz."""
    for key, value in values.items():
        cost = key.removesuffix(".fixed")
        if cost in ACCESSES:
            share, beside = ACCESSES[cost]
            cycles = round(value * share)
            yield f"{cost}.cycles", str(cycles + beside)
            yield key, text_of(key, value - cycles)
        else:
            yield key, text_of(key, value)
            if key == ISSUE:
                yield from ((other, text_of(key, value)) for other in AS_ISSUE)


def text_of(key, value):
    """A constant as TOML."""
    unit = PARAMETERS[key][0]
    if unit == "share":
        return f"{value:.4f}"
    return f'"{round(value)}ns"' if unit == "ns" else str(round(value))


def overrides(values):
    return [f"{key}={text}" for key, text in settings(values)]


def presets_values():
    """The constants as the preset has them."""
    units = {"ns": 1, "us": 1e3, "ms": 1e6}
    drive = tomllib.loads(PRESET.read_text())["drive"]

    def number(key):
        value = drive
        for part in key.split("."):
            value = value[part]
        time = re.fullmatch(r"([0-9.]+)(ns|us|ms)", value) if isinstance(value, str) else None
        return float(time[1]) * units[time[2]] if time else float(value)

    values = {key: number(key) for key in PARAMETERS}
    for cost, (_, beside) in ACCESSES.items():
        values[f"{cost}.fixed"] += number(f"{cost}.cycles") - beside
    return values


def put(preset, section, name, text):
    """Puts a value into a preset; comments stay."""
    whole = preset.read_text()
    start = whole.index(f"[drive.{section}]")
    end = whole.find("\n[", start) % (len(whole) + 1)
    line = re.compile(rf"^{re.escape(name)} = [^#]*", re.MULTILINE)
    body = line.sub(f"{name} = {text}".ljust(36), whole[start:end])
    preset.write_text(whole[:start] + body + whole[end:])


def write(values):
    for key, text in settings(values):
        section, name = ("media.timing", key[13:]) if key.startswith("media.timing.") else key.split(".", 1)
        put(PRESET, section, name, text)
    fetch = dict(settings({"firmware.fetch.fixed": values["firmware.fetch.fixed"] + ADDRESSES}))
    for key, text in fetch.items():
        put(OPEN_CHANNEL, "firmware", key.removeprefix("firmware."), text)


def evaluate(binary, sets):
    """Table 7: by cell, published and measured values of NAMES in ns, the latter means over SEEDS drives."""
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        drives = list(pool.map(lambda seed: evaluate_one(binary, sets, seed), SEEDS))
    mean = lambda cell, name: sum(rows[cell][name][1] for rows in drives) / len(drives)  # noqa: E731
    first = drives[0]
    return {cell: {name: (first[cell][name][0], mean(cell, name)) for name in NAMES} for cell in first}


def evaluate_one(binary, sets, seed):
    """The same of one drive: its dies, and what deviates, are drawn with this seed."""
    words = ["--seed", str(seed), *(word for item in sets for word in ("--set", item))]
    command = [str(binary), "reproduce", "C6", "--json", *words]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=600)
    if done.returncode not in (0, 1):
        sys.exit(f"{' '.join(command)}: {done.stderr}")
    rows = {}
    for check in json.loads(done.stdout)["claims"][0]["checks"]:
        cell = re.fullmatch(r"((?:SLC|MLC) (?:read|write), \d+ outstanding)(?:, (.*))?", check["what"])
        if cell and (cell[2] or "system") in NAMES:
            rows.setdefault(cell[1], {})[cell[2] or "system"] = (check["published"], check["measured"])
    assert len(rows) == 16 and all(len(row) == len(NAMES) for row in rows.values()), "Table 7 has 16 cells"
    return rows


def residuals(rows):
    values = []
    for cell, row in rows.items():
        for name, target in zip(NAMES, TARGETS):
            published, measured = row[name]
            if cell.startswith("MLC write") and name in ("system", "storage controller"):
                published -= RESIDUE
            values.append(math.log(max(measured, 100) / published) / target)
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
    return polish(trial, values, now, end)


def polish(trial, values, now, end):
    """One constant after the other, up and down by a share of itself that is halved when nothing improves any more."""
    share = 0.2
    while share > 0.02 and time.monotonic() < end:
        better = False
        for key, (_, step, least, most) in PARAMETERS.items():
            for sign in (1, -1):
                value = min(max(values[key] + sign * share * max(values[key], step), least), most)
                if value == values[key] or time.monotonic() > end:
                    continue
                then = trial(values | {key: value})
                if loss(then) < loss(now):
                    values, now, better = values | {key: value}, then, True
                    print(f"loss {loss(now):.1f}  {' '.join(overrides(values))}", file=sys.stderr, flush=True)
                    break
        share = share if better else share / 2
    return values


def rms(values):
    return math.sqrt(sum(value * value for value in values) / len(values))


def show(title, rows):
    print(f"{title + ': us, measured / published':36}" + "".join(f"{name:>22}" for name in NAMES) + "   system")
    for cell, row in rows.items():
        cells = "".join(f"{m / 1000:12.1f} /{p / 1000:8.1f}" for p, m in (row[name] for name in NAMES))
        published, measured = row["system"]
        print(f"{cell:36}{cells}   {100 * (measured / published - 1):+6.2f} %")
    for name in NAMES:
        errors = [row[name][1] / row[name][0] - 1 for row in rows.values()]
        print(f"{name}: rms {100 * rms(errors):.2f} %, worst {100 * max(errors, key=abs):+.2f} %")
    print(f"loss {loss(residuals(rows)):.1f}", flush=True)


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
