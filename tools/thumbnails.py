#!/usr/bin/env python3
"""Draws a thumbnail of each experiment of examples/papers: the rate of its reads and writes over its time, and its result in a line.

    python3 tools/thumbnails.py target/release/pellucid [FILE.toml ...]

Without files all are run, a few minutes on two cores. The drawings go to examples/papers/thumbnails, which the index shows. They hold
colours of their own, so that every viewer draws them alike.
"""

import html
import json
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent / "examples/papers"
WIDTH, HEIGHT, FOOT = 220, 64, 16
COLOURS = {"read": "#2b6cb0", "write": "#c05621"}
# Programs whose result is a time.
GRAPHS = ("pagerank", "components", "bfs", "sssp", "triangles")
# No more columns than can be told apart.
COLUMNS = 110


def rate(bytes_per_second: float) -> str:
    """A rate with three digits and its unit."""
    for unit, size in (("GB/s", 1e9), ("MB/s", 1e6), ("kB/s", 1e3)):
        if bytes_per_second >= size:
            return f"{bytes_per_second / size:.3g} {unit}"
    return f"{bytes_per_second:.3g} B/s"


def latency(ns: float) -> str:
    """A time with three digits and its unit."""
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if ns >= size:
            return f"{ns / size:.3g} {unit}"
    return f"{ns:.3g} ns"


def columns(values: list[float], lengths: list[float]) -> list[float]:
    """Rates of at most COLUMNS columns of equal length in time."""
    whole = sum(lengths)
    count = min(COLUMNS, len(values)) or 1
    sums = [0.0] * count
    at = 0.0
    for value, length in zip(values, lengths, strict=True):
        # An interval lies in the column of its middle.
        sums[min(count - 1, int((at + length / 2) / whole * count))] += value
        at += length
    return [total * count / whole for total in sums]


def line(report: dict) -> str:
    """The result in one line: of the application if there is one, else of the requests."""
    for application in report.get("applications", []):
        phases = [phase for phase in application["phases"] if phase.get("seconds")]
        if application["name"] in GRAPHS and phases:
            return f"{application['name']}: " + ", ".join(f"{phase['phase']} {latency(phase['seconds'] * 1e9)}" for phase in phases)
        return f"{application['name']}: {application['operations_per_second']:,.0f} operations/s"
    parts = []
    for direction in COLOURS:
        measured = report["directions"].get(direction) or {}
        if measured.get("requests"):
            mean = measured["latency"]["mean_ns"]
            parts.append(f"{direction} {rate(measured['throughput_bytes_per_second'])}, {latency(mean)}")
    return "; ".join(parts)


def thumbnail(report: dict) -> str:
    """The drawing of a report, as SVG."""
    series = report["series"]
    lengths = series["length_seconds"]
    lanes = {name: columns(series[name]["bytes"], lengths) for name in COLOURS if any(series[name]["bytes"])}
    top = max((max(lane) for lane in lanes.values()), default=1.0)
    room = HEIGHT - FOOT
    drawn = [f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>']
    for name, lane in lanes.items():
        step = WIDTH / len(lane)
        points = " ".join(f"L{i * step:.1f} {room - value / top * (room - 4):.1f} h{step:.1f}" for i, value in enumerate(lane))
        path = f"M0 {room} {points} L{WIDTH} {room} Z"
        drawn.append(f'<path d="{path}" fill="{COLOURS[name]}" fill-opacity="0.35" stroke="{COLOURS[name]}"/>')
    drawn.append(f'<path d="M0 {room} H{WIDTH}" stroke="#718096"/>')
    text = html.escape(line(report))
    drawn.append(f'<text x="2" y="{HEIGHT - 4}" font-family="sans-serif" font-size="9" fill="#1a202c">{text}</text>')
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" role="img"'
    return f'{head} aria-label="{text}">\n' + "\n".join(drawn) + "\n</svg>\n"


def main() -> int:
    if len(sys.argv) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    program = Path(sys.argv[1]).resolve()
    files = [Path(name).resolve() for name in sys.argv[2:]] or sorted(FOLDER.glob("*.toml"))
    (FOLDER / "thumbnails").mkdir(exist_ok=True)
    for file in files:
        done = subprocess.run([program, "run", file.name, "--json", "-q"], cwd=FOLDER, capture_output=True, text=True)
        if done.returncode != 0:
            print(f"{file.name}: exit status {done.returncode}\n{done.stderr}", file=sys.stderr)
            return 1
        (FOLDER / "thumbnails" / f"{file.stem}.svg").write_text(thumbnail(json.loads(done.stdout)))
        print(file.stem, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
