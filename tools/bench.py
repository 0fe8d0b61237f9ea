#!/usr/bin/env python3
"""Runs bench/random-read.toml and bench/random-write.toml and prints what the simulation cost.

usage: bench.py [RUNS]    RUNS of each (3 by default); the fastest counts, since nothing makes a run faster than it is
"""
import sys

import measure


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    binary = measure.build()
    print(f"{'benchmark':14} {'requests':>10} {'wall':>9} {'requests/s':>12} {'ns each':>8} {'peak memory':>12} {'WA':>6}")
    for name in ("random-read", "random-write"):
        reports = [measure.run(binary, measure.load(name)) for _ in range(runs)]
        best = min(reports, key=lambda r: r["wall_seconds"])
        amplification = best["write_amplification"]["total"]
        print(
            f"{name:14} {best['requests']:>10,} {best['wall_seconds']:>7.3f} s {best['requests_per_wall_second']:>12,.0f}"
            f" {measure.cost_ns(best):>8.0f} {best['peak_memory_bytes'] / 2**20:>8.1f} MiB"
            f" {'-' if amplification is None else f'{amplification:.2f}':>6}"
        )


if __name__ == "__main__":
    main()
