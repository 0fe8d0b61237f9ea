"""Servers measured in turn, so that whatever else the machine does hits all of them.

Each turn measures every contender once. The first turns warm up and do not count; from one turn to the next the order is reversed, so
that none is always first. What is compared are contenders of the same turn: the ratio of a turn, and of all turns the median with its
spread. Medians of rates are shown as well, but a machine whose speed changes makes them say less.
"""
import datetime
import os
import platform
import re
import statistics
from pathlib import Path

WARM_UP_TURNS = 1


def take(contenders, turns, measure):
    """Measures `contenders` in `turns` turns; `measure(contender)` gives a tuple of numbers. A list of tuples for each."""
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
    """What has been measured on, and what else ran: part of every table."""
    model = re.search(r"^model name\s*:\s*(.*)$", Path("/proc/cpuinfo").read_text(), re.M)
    load = " ".join(f"{value:.1f}" for value in os.getloadavg())
    now = datetime.datetime.now(datetime.timezone.utc)
    return f"{os.cpu_count()} cores of {model[1] if model else platform.machine()}, Linux {platform.release()}, " \
           f"{now:%d %B %Y %H:%M} UTC, load average at the start {load}"


def table(title, heads, rows):
    """A table that can be put into a page as it is."""
    print(f"\n{title}\n\n| {' | '.join(heads)} |\n|{'---|' * len(heads)}")
    for row in rows:
        print(f"| {' | '.join(row)} |", flush=True)
