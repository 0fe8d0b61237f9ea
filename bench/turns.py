"""Measures servers in turns, so that other load on the machine affects all of them alike.

Each turn measures every contender once. The first turns warm up and do not count. The order is reversed from turn to turn, so that no
contender is always first. The result is the ratio of contenders within a turn, as the median of all turns with its spread. Medians of
rates are shown as well; they say less on a machine whose speed changes.
"""
import datetime
import os
import platform
import re
import statistics
from pathlib import Path

WARM_UP_TURNS = 1


def take(contenders, turns, measure):
    """Measures `contenders` in `turns` turns. `measure(contender)` returns a tuple of numbers; the result has a list of them for each."""
    found = {contender: [] for contender in contenders}
    for turn in range(-WARM_UP_TURNS, turns):
        for contender in contenders if turn % 2 == 0 else reversed(contenders):
            result = measure(contender)
            if turn >= 0:
                found[contender].append(result)
    return found


def median(rows, column):
    return statistics.median(row[column] for row in rows)


def spread(values, show):
    """Median and, in brackets, the least and the most."""
    values = sorted(values)
    return f"{show(statistics.median(values))} ({show(values[0])} to {show(values[-1])})"


def rates(rows):
    return spread([row[0] for row in rows], lambda value: f"{value:,.0f}")


def ratios(rows, others):
    """Ratios of neighbours: of the same turn."""
    return spread([ours[0] / theirs[0] for ours, theirs in zip(rows, others)], lambda value: f"{value:.2f}")


def machine():
    """The machine and its load: part of every table."""
    model = re.search(r"^model name\s*:\s*(.*)$", Path("/proc/cpuinfo").read_text(), re.M)
    load = " ".join(f"{value:.1f}" for value in os.getloadavg())
    now = datetime.datetime.now(datetime.timezone.utc)
    return f"{os.cpu_count()} cores of {model[1] if model else platform.machine()}, Linux {platform.release()}, " \
           f"{now:%d %B %Y %H:%M} UTC, load average at the start {load}"


def table(title, heads, rows):
    """A table in Markdown."""
    print(f"\n{title}\n\n| {' | '.join(heads)} |\n|{'---|' * len(heads)}")
    for row in rows:
        print(f"| {' | '.join(row)} |", flush=True)
