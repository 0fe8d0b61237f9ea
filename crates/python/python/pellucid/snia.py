"""Tests of SNIA's Solid State Storage Performance Test Specification (PTS 2.0.2) on modelled drives.

    result = pl.snia.iops("cosmos-plus")
    print(result)                          # conditions, steady state, the table of the report
    result.plot.convergence()              # the tracked variables over the rounds
    result.plot.steady_state()             # the measurement window with its average, bounds and slope
    result.plot.measured()                 # IOPS, throughput or latency by block size and read/write mix

The procedure: the drive is new (purged); two capacities are written sequentially with 128 KiB; then rounds follow until the tracked
variables are steady, 25 at most. A round does the test's work once for each read/write mix and block size, a minute of simulated
time each. The write saturation test begins with the new drive, and writes 4 KiB at random until four capacities are written or a
day is over.

Steady state is judged over a measurement window of five rounds: the range of the values is at most 20 % of their average, and the line
that fits them best rises or falls over the window by at most 10 % of the average.

Some things are not as on a test bench: the write cache is what the drive's description says, as are entropy and temperature; block
sizes below the drive's sector are left out, and named.
"""
from __future__ import annotations

import html
import math
import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .drive import Drive
from .words import number, refuse
from .work import Job

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from .result import Result

#: Rounds of a measurement window, and the most that a test takes.
WINDOW = 5
ROUNDS_MAX = 25
#: Shortest time of simulated work at each mix and block size.
ROUND_SECONDS_MIN = 0.001
#: Largest range of the values of a window, and largest rise of their best line over it, as parts of their average.
RANGE_MAX = 0.20
SLOPE_MAX = 0.10
#: What a day has of minutes: the most rounds of write saturation.
SATURATION_ROUNDS_MAX = 24 * 60
SATURATION_CAPACITIES = 4.0
KIB = 1024
#: A read/write mix in percent of reads, and a block size in bytes.
Point = tuple[int, int]


@dataclass(frozen=True)
class Window:
    """A measurement window: five rounds, and whether a value was steady in them."""

    #: The rounds, counted from 1, and their values.
    rounds: tuple[int, ...]
    values: tuple[float, ...]
    average: float
    #: Largest value less the smallest.
    range: float
    #: Change of the best line from one round to the next.
    slope: float

    @classmethod
    def of(cls, values: Sequence[float], last: int | None = None) -> Window | None:
        """The window that ends with round `last`, by default the newest; None with fewer rounds than a window has."""
        last = len(values) if last is None else last
        if last < WINDOW:
            return None
        chosen = tuple(values[last - WINDOW:last])
        average = math.fsum(chosen) / WINDOW
        middle = (WINDOW - 1) / 2
        slope = math.fsum((at - middle) * value for at, value in enumerate(chosen)) / math.fsum((at - middle) ** 2 for at in range(WINDOW))
        return cls(tuple(range(last - WINDOW + 1, last + 1)), chosen, average, max(chosen) - min(chosen), slope)

    @property
    def excursion(self) -> float:
        """Largest value of the best line in the window less its smallest."""
        return abs(self.slope) * (WINDOW - 1)

    @property
    def is_steady(self) -> bool:
        """Whether the range is at most 20 % of the average, and the best line moves by at most 10 % of it. Nothing done is never steady."""
        return self.average > 0 and self.range <= RANGE_MAX * self.average and self.excursion <= SLOPE_MAX * self.average


def steady_at(values: Sequence[float]) -> int | None:
    """The first round, counted from 1, whose window is steady; None without one."""
    windows = ((last, Window.of(values, last)) for last in range(WINDOW, len(values) + 1))
    return next((last for last, window in windows if window and window.is_steady), None)


@dataclass(frozen=True)
class Test:
    """What a test does, and what it measures."""

    #: pytest collects classes of this name.
    __test__ = False

    name: str
    title: str
    unit: str
    #: Percents of reads, and block sizes in bytes, in the order of a round.
    mixes: tuple[int, ...]
    blocks: tuple[int, ...]
    is_random: bool
    #: What the steady state is judged by.
    tracked: tuple[Point, ...]
    value: Callable[[Cell], float]
    iodepth: int
    threads: int


@dataclass(frozen=True)
class Cell:
    """What one round has measured at one mix and block size."""

    iops: float
    bytes_per_second: float
    mean_us: float
    max_us: float
    written_bytes: int

    @classmethod
    def of(cls, result: Result) -> Cell:
        """Reads and writes of a run together."""
        report = result.report
        both = [report.directions[name] for name in ("read", "write")]
        count = sum(one.latency.count for one in both)
        total_ns = math.fsum((one.latency.mean_ns or 0.0) * one.latency.count for one in both)
        return cls(
            iops=math.fsum(one.iops for one in both),
            bytes_per_second=math.fsum(one.throughput_bytes_per_second for one in both),
            mean_us=total_ns / count / 1000 if count else math.nan,
            max_us=max(one.latency.max_ns or 0 for one in both) / 1000,
            written_bytes=report.directions.write.bytes,
        )


IOPS = Test(
    "iops", "IOPS", "IOPS", (100, 95, 65, 50, 35, 5, 0), tuple(size * KIB // 2 for size in (2048, 256, 128, 64, 32, 16, 8, 1)), True,
    ((0, 4 * KIB), (65, 64 * KIB), (100, 1024 * KIB)), lambda cell: cell.iops, 32, 4,
)
THROUGHPUT = Test(
    "throughput", "Throughput", "MB/s", (100, 0), (128 * KIB, 1024 * KIB), False,
    ((0, 1024 * KIB),), lambda cell: cell.bytes_per_second / 1e6, 32, 1,
)
LATENCY = Test(
    "latency", "Latency", "us", (100, 65, 0), (8 * KIB, 4 * KIB, KIB // 2), True, ((0, 4 * KIB),), lambda cell: cell.mean_us, 1, 1,
)
WRITE_SATURATION = Test(
    "write saturation", "Write saturation", "IOPS", (0,), (4 * KIB,), True, ((0, 4 * KIB),), lambda cell: cell.iops, 32, 4,
)


@dataclass
class Measured:
    """The rounds of a test, and the report on them."""

    test: Test
    drive: str
    capacity_bytes: int
    #: How the test was done, in words.
    conditions: dict[str, str]
    rounds: list[dict[Point, Cell]] = field(default_factory=list)

    def values(self, point: Point) -> list[float]:
        """What the test measures at a mix and block size, for each round."""
        return [self.test.value(cells[point]) for cells in self.rounds]

    @property
    def tracked(self) -> list[Point]:
        """What the steady state is judged by, as far as the drive has it."""
        return [point for point in self.test.tracked if self.rounds and point in self.rounds[0]]

    def window(self, point: Point) -> Window | None:
        """The measurement window of a tracked variable: the last five rounds."""
        return Window.of(self.values(point))

    @property
    def is_steady(self) -> bool:
        """Whether every tracked variable was steady in the last five rounds."""
        windows = [self.window(point) for point in self.tracked]
        return bool(windows) and all(window is not None and window.is_steady for window in windows)

    def average(self, point: Point, value: Callable[[Cell], float] | None = None) -> float:
        """The average over the measurement window; over all rounds if there are fewer."""
        cells = [cells[point] for cells in self.rounds[-WINDOW:]]
        return math.fsum((value or self.test.value)(cell) for cell in cells) / len(cells)

    def rows(self) -> list[dict[str, Any]]:
        """A tidy table: a row for each round, mix and block size."""
        return [
            {
                "round": at, "read_percent": mix, "block_bytes": block, "iops": cell.iops, "bytes_per_second": cell.bytes_per_second,
                "mean_us": cell.mean_us, "max_us": cell.max_us, "written_bytes": cell.written_bytes,
            }
            for at, cells in enumerate(self.rounds, 1) for (mix, block), cell in cells.items()
        ]

    def frame(self) -> Any:
        """The tidy table as a data frame of pandas."""
        import pandas

        return pandas.DataFrame(self.rows())

    @property
    def plot(self) -> Plot:
        """The figures of the report, with matplotlib."""
        return Plot(self)

    def _tables(self) -> list[tuple[str, list[list[str]]]]:
        conditions = [["drive", self.drive], *([key, value] for key, value in self.conditions.items())]
        tables = [(f"SNIA PTS: {self.test.title}", conditions), (self._verdict(), self._verification())]
        if self.test is WRITE_SATURATION:
            return [*tables, ("Rounds", self._saturation())]
        title = f"{self.test.title} ({self.test.unit}), average of the measurement window"
        tables.append((title, self._matrix(self.test.value)))
        if self.test is LATENCY:
            tables.append(("Latency (us), largest of the measurement window", self._matrix(lambda cell: cell.max_us, largest=True)))
        return tables

    def _verdict(self) -> str:
        if self.test is WRITE_SATURATION:
            first = steady_at(self.values(self.test.tracked[0]))
            before = "none before was" if first in (None, len(self.rounds)) else f"the first steady one ended with round {first}"
            state = "steady" if self.is_steady else "not steady"
            written = sum(cell.written_bytes for cells in self.rounds for cell in cells.values()) / self.capacity_bytes
            cut = "" if written >= SATURATION_CAPACITIES else f"; ended by the number of rounds, after {written:.2f} of {SATURATION_CAPACITIES:g} capacities"
            return f"Measurement window {len(self.rounds) - WINDOW + 1} to {len(self.rounds)}, the last: {state}; {before}{cut}"
        if self.is_steady:
            return f"Steady state: reached in round {len(self.rounds)}, measurement window {len(self.rounds) - WINDOW + 1} to {len(self.rounds)}"
        return f"Steady state: not reached in {len(self.rounds)} rounds"

    def _verification(self) -> list[list[str]]:
        rows = [["tracked", "average", f"range (at most {RANGE_MAX:.0%})", f"slope (at most {SLOPE_MAX:.0%})", "steady"]]
        for point in self.tracked:
            window = self.window(point)
            if window:
                rows.append([
                    _point(point), number(window.average), f"{window.range / window.average:.1%}", f"{window.excursion / window.average:.1%}",
                    "yes" if window.is_steady else "no",
                ])
        return rows

    def _matrix(self, value: Callable[[Cell], float], largest: bool = False) -> list[list[str]]:
        points = self.rounds[0]
        mixes, blocks = list(dict.fromkeys(mix for mix, _ in points)), list(dict.fromkeys(block for _, block in points))

        def cell(mix: int, block: int) -> str:
            if largest:
                return number(max(value(cells[mix, block]) for cells in self.rounds[-WINDOW:]))
            return number(self.average((mix, block), value))

        head = ["block", *(f"{mix}/{100 - mix}" for mix in mixes)]
        return [head, *([_size(block), *(cell(mix, block) for mix in mixes)] for block in blocks)]

    def _saturation(self) -> list[list[str]]:
        rows, written = [["round", "IOPS", "mean (us)", "max (us)", "written (GB)", "capacities"]], 0
        for at, cells in enumerate(self.rounds, 1):
            cell = cells[WRITE_SATURATION.tracked[0]]
            written += cell.written_bytes
            rows.append([
                str(at), number(cell.iops), number(cell.mean_us), number(cell.max_us), number(written / 1e9), f"{written / self.capacity_bytes:.2f}",
            ])
        return rows

    def __str__(self) -> str:
        return "\n".join(f"{title}\n{_text(rows)}" for title, rows in self._tables())

    def _repr_html_(self) -> str:
        def table(rows: list[list[str]]) -> str:
            return "".join(f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}</tr>" for row in rows)

        return "".join(f"<h4>{html.escape(title)}</h4><table>{table(rows)}</table>" for title, rows in self._tables())


def _size(block: int) -> str:
    return f"{block // KIB} KiB" if block >= KIB else f"{block / KIB:g} KiB"


def _point(point: Point) -> str:
    return f"{point[0]}/{100 - point[0]} {_size(point[1])}"


def _text(rows: list[list[str]]) -> str:
    columns = max(len(row) for row in rows)
    widths = [max(len(row[at]) for row in rows if at < len(row)) for at in range(columns)]
    return "".join("  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() + "\n" for row in rows)


class Bench:
    """A new drive under a test: every piece of work goes on from the one before it, with a seed of its own."""

    def __init__(self, drive: Drive | str | os.PathLike[str], test: Test, round_seconds: float, iodepth: int | None, threads: int | None, seed: int) -> None:
        drive = drive if isinstance(drive, Drive) else Drive(drive)
        if drive.past is not None:
            raise refuse("drive", drive.name, "a drive without a past: the test begins with a new one")
        if not isinstance(round_seconds, int | float) or not round_seconds >= ROUND_SECONDS_MIN:
            raise refuse("round_seconds", round_seconds, f"a number of seconds from {ROUND_SECONDS_MIN} on")
        for key, value in (("iodepth", iodepth), ("threads", threads)):
            if value is not None and (not isinstance(value, int) or value < 1):
                raise refuse(key, value, "a whole number from 1 on")
        self._drive = drive.age(fill=0.0, overwrite=0)
        self._test = test
        self._seconds = round_seconds
        self._iodepth, self._threads = iodepth or test.iodepth, threads or test.threads
        self._seed = seed
        about = self._run(rw="randread", bs="4k", number_ios=1).report.drive
        self.blocks = [block for block in test.blocks if block % about.sector_bytes == 0]
        left_out = [_size(block) for block in test.blocks if block not in self.blocks]
        self.measured = Measured(test, drive.name, about.capacity_bytes, {
            "outstanding requests of a thread": str(self._iodepth), "threads": str(self._threads),
            "work at each mix and block size": f"{round_seconds:g} s of simulated time",
            **({"left out, below the drive's sector": ", ".join(left_out)} if left_out else {}),
        })

    def _run(self, **job: Any) -> Result:
        self._seed += 1
        with warnings.catch_warnings():
            # One piece of the work is not what the test is about, and too short to be steady.
            warnings.simplefilter("ignore", RuntimeWarning)
            return self._drive.run(Job(**job), seed=self._seed, requests=False)

    def precondition(self) -> None:
        """Writes two capacities sequentially with 128 KiB, whatever is measured later."""
        self._run(rw="write", bs="128k", iodepth=self._iodepth, loops=2)

    def round(self) -> None:
        """Does the test's work once for each mix and block size."""
        kind = "rand" if self._test.is_random else ""
        cells = {}
        for mix in self._test.mixes:
            rw = {100: f"{kind}read", 0: f"{kind}write"}.get(mix, f"{kind}rw")
            of_mix = {"rwmixread": mix} if rw.endswith("rw") else {}
            overlapping = {"norandommap": True} if self._test.is_random else {}
            for block in self.blocks:
                result = self._run(
                    rw=rw, bs=str(block), iodepth=self._iodepth, numjobs=self._threads, runtime=f"{round(self._seconds * 1e9)}ns",
                    time_based=True, **of_mix, **overlapping,
                )
                cells[mix, block] = Cell.of(result)
        self.measured.rounds.append(cells)


def _until_steady(
    test: Test, drive: Drive | str | os.PathLike[str], round_seconds: float, iodepth: int | None, threads: int | None, rounds_max: int, seed: int
) -> Measured:
    if rounds_max < WINDOW:
        raise refuse("rounds_max", rounds_max, f"{WINDOW}, which a measurement window has, or more")
    bench = Bench(drive, test, round_seconds, iodepth, threads, seed)
    bench.precondition()
    while len(bench.measured.rounds) < rounds_max and not bench.measured.is_steady:
        bench.round()
    return bench.measured


def iops(
    drive: Drive | str | os.PathLike[str], *, round_seconds: float = 60.0, iodepth: int | None = None, threads: int | None = None,
    rounds_max: int = ROUNDS_MAX, seed: int = 0,
) -> Measured:
    """The IOPS test: random requests of seven mixes and eight block sizes. Steady by 4 KiB writes, 64 KiB at 65/35, and 1 MiB reads."""
    return _until_steady(IOPS, drive, round_seconds, iodepth, threads, rounds_max, seed)


def throughput(
    drive: Drive | str | os.PathLike[str], *, round_seconds: float = 60.0, iodepth: int | None = None, threads: int | None = None,
    rounds_max: int = ROUNDS_MAX, seed: int = 0,
) -> Measured:
    """The throughput test: sequential reads and writes of 128 KiB and 1 MiB. Steady by writes of 1 MiB."""
    return _until_steady(THROUGHPUT, drive, round_seconds, iodepth, threads, rounds_max, seed)


def latency(drive: Drive | str | os.PathLike[str], *, round_seconds: float = 60.0, rounds_max: int = ROUNDS_MAX, seed: int = 0) -> Measured:
    """The latency test: one random request at a time, three mixes and three block sizes. Steady by the mean of 4 KiB writes."""
    return _until_steady(LATENCY, drive, round_seconds, None, None, rounds_max, seed)


def write_saturation(
    drive: Drive | str | os.PathLike[str], *, round_seconds: float = 60.0, iodepth: int | None = None, threads: int | None = None,
    rounds_max: int = SATURATION_ROUNDS_MAX, seed: int = 0,
) -> Measured:
    """The write saturation test: random writes of 4 KiB to a new drive, until four capacities are written or a day is over."""
    if rounds_max < WINDOW:
        raise refuse("rounds_max", rounds_max, f"{WINDOW}, which a measurement window has, or more")
    bench = Bench(drive, WRITE_SATURATION, round_seconds, iodepth, threads, seed)
    if not bench.blocks:
        raise refuse("drive", bench.measured.drive, "one with sectors of 4 KiB or less")
    measured, written = bench.measured, 0
    while written < SATURATION_CAPACITIES * measured.capacity_bytes and len(measured.rounds) < rounds_max:
        bench.round()
        written += sum(cell.written_bytes for cell in measured.rounds[-1].values())
    return measured


class Plot:
    """The figures of a test's report. `columns` as of `Result.plot`."""

    def __init__(self, measured: Measured) -> None:
        self._measured = measured

    def convergence(self, *, columns: int = 1) -> Figure:
        """What is measured over the rounds: each tracked variable; with write saturation over the capacities written."""
        def draw(axes: Any) -> int:
            measured = self._measured
            rounds: Sequence[float] = range(1, len(measured.rounds) + 1)
            if measured.test is WRITE_SATURATION:
                rounds, written = [], 0
                for cells in measured.rounds:
                    written += sum(cell.written_bytes for cell in cells.values())
                    rounds.append(written / measured.capacity_bytes)
            for point in measured.tracked:
                axes.plot(rounds, measured.values(point), "o-", markersize=2, label=_point(point))
            axes.set(xlabel="capacities written" if measured.test is WRITE_SATURATION else "round", ylabel=measured.test.unit, ylim=(0, None))
            return len(measured.tracked)

        return _figure(draw, columns)

    def steady_state(self, *, columns: int = 1) -> Figure:
        """The measurement window of each tracked variable, as parts of its average, with the bounds of 110 % and 90 % and its best line."""
        def draw(axes: Any) -> int:
            windows = [(point, self._measured.window(point)) for point in self._measured.tracked]
            found = [(point, window) for point, window in windows if window]
            for at, (point, window) in enumerate(found):
                axes.plot(window.rounds, [value / window.average for value in window.values], "o", markersize=3, color=f"C{at}", label=_point(point))
                ends = [1 + window.slope / window.average * (end - (WINDOW - 1) / 2) for end in (0, WINDOW - 1)]
                axes.plot([window.rounds[0], window.rounds[-1]], ends, color=f"C{at}")
            for bound in (1 - RANGE_MAX / 2, 1, 1 + RANGE_MAX / 2):
                axes.axhline(bound, color="0.4", linestyle="-" if bound == 1 else "--", linewidth=0.6)
            axes.set(xlabel="round", ylabel="part of the average")
            return len(found)

        return _figure(draw, columns)

    def measured(self, *, columns: int = 1) -> Figure:
        """The averages of the measurement window by block size, a line for each mix."""
        def draw(axes: Any) -> int:
            points = self._measured.rounds[0]
            for mix in dict.fromkeys(mix for mix, _ in points):
                blocks = sorted(block for one, block in points if one == mix)
                axes.plot([block / KIB for block in blocks], [self._measured.average((mix, block)) for block in blocks], "o-", markersize=2, label=f"{mix}/{100 - mix}")
            axes.set_xscale("log", base=2)
            axes.set(xlabel="block size (KiB)", ylabel=self._measured.test.unit, yscale="log" if self._measured.test is IOPS else "linear")
            return len(points)

        return _figure(draw, columns, beside=True)


def _figure(draw: Any, columns: int, beside: bool = False) -> Figure:
    from .plot import _figure as figure

    return figure(draw, columns, "no rounds were measured", beside=beside)
