"""A sweep in its directory: points as files, one tidy table, and a report.

    DIR/plan.toml              the plan
    DIR/points/ID.json         a point that is done: complete or absent
    DIR/points/ID.error.txt    a point that failed; it is tried again by the next run
    DIR/results.csv            tidy: a column for each axis, the seed, and each number that is kept (results.parquet with pyarrow)
    DIR/summary.csv            mean and confidence interval over the seeds, for each combination of the axes
    DIR/report.html            with matplotlib: a page with figures, means and plan
    DIR/curves.svg             the numbers over the first axis of numbers, with intervals
    DIR/fronts.svg             Pareto fronts of pairs of objectives
    DIR/multiples.svg          a matrix of small multiples, from three axes on
"""
from __future__ import annotations

import collections
import concurrent.futures
import csv
import io
import json
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from .._pellucid import Error
from ..result import Report
from . import engines, report
from .plan import Plan
from .points import Point, write_whole
from ..statistics import interval

#: Share of means that lie in their interval.
CONFIDENCE = 0.95
#: Files of points that are on their way to the disk at once.
WRITERS = 8


class Sweep:
    """A sweep with its points, as far as they are done."""

    def __init__(self, plan: Plan, directory: str | os.PathLike[str]) -> None:
        self.plan = plan
        self.directory = Path(directory)
        self.failed: dict[int, str] = {}

    def file(self, point: Point) -> Path:
        """The file of a point."""
        return self.directory / "points" / f"{point.id}.json"

    def error_file(self, point: Point) -> Path:
        """The file that says why a point failed."""
        return self.directory / "points" / f"{point.id}.error.txt"

    def left(self) -> list[Point]:
        """Points that are not done."""
        return [point for point in self.plan.points if not self.file(point).exists()]

    def run(self, on: str = "local", progress: Callable[[str], None] | None = None) -> Sweep:
        """Runs what is left of the sweep, and writes tables and report. Points that fail are in `failed`."""
        (self.directory / "points").mkdir(parents=True, exist_ok=True)
        write_whole(self.directory / "plan.toml", self.plan.text.encode())
        self.failed.clear()
        left = self.left()
        done, lock = len(self.plan.points) - len(left), threading.Lock()

        def keep(point: Point, content: bytes | None, error: str | None) -> None:
            nonlocal done
            self._keep(point, content, error)
            with lock:
                done += 1
                if content is None:
                    self.failed[point.number] = str(error)
                if progress:
                    failed = f", {len(self.failed)} failed" if self.failed else ""
                    progress(f"{len(self.plan.points)} points, {done} done{failed}")

        # To wait for the disk after each point would be most of what a point costs the driver.
        with concurrent.futures.ThreadPoolExecutor(WRITERS) as writers:
            writing: collections.deque[concurrent.futures.Future[None]] = collections.deque()
            for ended in engines.on(on, left):
                writing.append(writers.submit(keep, *ended))
                if len(writing) > WRITERS:
                    # A driver that is killed loses no more than these.
                    writing.popleft().result()
            for one in writing:
                one.result()
        self.write()
        return self

    def _keep(self, point: Point, content: bytes | None, error: str | None) -> None:
        """Writes the file of a point, or why there is none."""
        if content is not None:
            write_whole(self.file(point), content)
            self.error_file(point).unlink(missing_ok=True)
        else:
            write_whole(self.error_file(point), f"point {point.number}: {point.name}\n{error}\n".encode())

    def _done(self) -> Iterator[tuple[Point, dict[str, Any]]]:
        """The points that are done, with what their files hold. A file that a point cannot have left is refused."""
        for point in self.plan.points:
            file = self.file(point)
            try:
                content = json.loads(file.read_bytes())
            except FileNotFoundError:
                continue
            except ValueError as error:
                raise Error(f"{file}: damaged: {error}; allowed: without this file, so that the next run does the point again") from None
            whole = isinstance(content, dict) and all(isinstance(content.get(key), dict) for key in ("point", "kept", "report"))
            about = whole and content["point"] == point.chosen and content.get("seed") == point.seed
            told = Report(content["report"]) if about else Report()
            if not about or set(content["kept"]) != set(point.keep) or any(told.at(path) not in (None, kept) for path, kept in content["kept"].items()):
                raise Error(f"{file}: not the result of {point.name}; allowed: without this file, so that the next run does the point again")
            yield point, content

    def rows(self) -> list[dict[str, Any]]:
        """The tidy table: a row for each point that is done."""
        return [{**content["point"], "seed": content["seed"], **content["kept"]} for _, content in self._done()]

    def unsteady(self) -> int:
        """How many points that are done were to go on until they are steady and did not become so."""
        states = (content["report"].get("steady_state") for _, content in self._done())
        return sum(1 for state in states if state and not state["reached"])

    def warned(self) -> list[tuple[Point, str]]:
        """The points that are done and were warned of something, each with its first warning."""
        return [(point, content["warnings"][0]) for point, content in self._done() if content.get("warnings")]

    def frame(self) -> Any:
        """The tidy table as a data frame of pandas."""
        import pandas

        return pandas.DataFrame(self.rows(), columns=[*self.plan.columns, *self.plan.keep])

    def summary(self, confidence: float = CONFIDENCE, rows: list[dict[str, Any]] | None = None) -> list[dict[str, Any]]:
        """For each combination of the axes and each number: mean, bounds of its confidence interval, and how many seeds. `rows`: the tidy
        table, if it is at hand."""
        groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
        for row in self.rows() if rows is None else rows:
            groups.setdefault(tuple(row[axis] for axis in self.plan.axes), []).append(row)
        summary = []
        for chosen, rows in groups.items():
            for number in self.plan.keep:
                values = [row[number] for row in rows if row[number] is not None]
                if values:
                    mean, half = interval(values, confidence)
                    low, high = (None, None) if half is None else (mean - half, mean + half)
                    summary.append({
                        **dict(zip(self.plan.axes, chosen)), "number": number, "mean": mean, "low": low, "high": high, "seeds": len(values),
                    })
        return summary

    def write(self, directory: str | os.PathLike[str] | None = None) -> None:
        """Writes tables and report of what is done into a directory, or beside the points. Without a point that is done there is nothing to
        write."""
        directory = self.directory if directory is None else Path(directory)
        rows = self.rows()
        if not rows:
            return
        directory.mkdir(parents=True, exist_ok=True)
        columns = [*self.plan.columns, *self.plan.keep]
        write_whole(directory / "results.csv", _csv(columns, rows))
        summary = self.summary(rows=rows)
        write_whole(directory / "summary.csv", _csv([*self.plan.axes, "number", "mean", "low", "high", "seeds"], summary))
        self._write_parquet(directory, columns, rows)
        self._write_figures(directory, summary)

    def _write_parquet(self, directory: Path, columns: list[str], rows: list[dict[str, Any]]) -> None:
        try:
            import pyarrow
            import pyarrow.parquet
        except ImportError:
            warnings.warn("results.parquet is not written, results.csv is: pyarrow is missing (pip install 'pellucid[frames]')", stacklevel=2)
            return
        table = pyarrow.table({column: _of_one_type([row[column] for row in rows]) for column in columns})
        out = io.BytesIO()
        pyarrow.parquet.write_table(table, out)
        write_whole(directory / "results.parquet", out.getvalue())

    def _write_figures(self, directory: Path, summary: list[dict[str, Any]]) -> None:
        try:
            import matplotlib  # noqa: F401
        except ImportError:
            warnings.warn("report.html and its figures are not written: matplotlib is missing (pip install 'pellucid[plot]')", stacklevel=2)
            return
        drawn = report.Drawn(self.plan, summary)
        drawings = {name: report.svg(figure) for name, figure in drawn.figures().items()}
        for name in report.TITLES:
            file = directory / f"{name}.svg"
            if name in drawings:
                write_whole(file, drawings[name].encode())
            else:
                # One of an earlier plan would be taken for one of this.
                file.unlink(missing_ok=True)
        missing = len(self.left())
        state = f"{len(self.plan.points)} points" + (f", of which {missing} are not done." if missing else ", all done.")
        write_whole(directory / "report.html", report.page(self.plan, drawn, summary, drawings, state, CONFIDENCE).encode())

    def curves(self) -> Any:
        """Each number along the first axis of numbers, with intervals, as a figure of matplotlib; None without axes."""
        return report.Drawn(self.plan, self.summary()).curves()

    def fronts(self) -> Any:
        """Pairs of objectives with their Pareto fronts, as a figure of matplotlib; None without two objectives."""
        return report.Drawn(self.plan, self.summary()).fronts()

    def multiples(self) -> Any:
        """A matrix of small multiples, as a figure of matplotlib; None with fewer than three axes."""
        return report.Drawn(self.plan, self.summary()).multiples()

    def answer(self) -> dict[str, Any]:
        """What the command prints with --json: where the points are, how many of them are done, and the means."""
        return {
            "directory": str(self.directory),
            "points": len(self.plan.points),
            "done": len(self.plan.points) - len(self.left()),
            "failed": {str(number): error for number, error in sorted(self.failed.items())},
            "unsteady": self.unsteady(),
            "summary": self.summary(),
        }

    def __str__(self) -> str:
        """The report: mean and interval for each combination."""
        lines, summary = [], self.summary()
        for number in self.plan.keep:
            rows = [row for row in summary if row["number"] == number]
            if rows:
                lines += ["", f"{number}: mean and {CONFIDENCE:.0%} interval over the seeds"]
            for row in rows:
                name = ", ".join(f"{axis} = {row[axis]}" for axis in self.plan.axes) or "all"
                half = "" if row["high"] is None else f" ± {row['high'] - row['mean']:.3g}"
                lines.append(f"  {name:50} {row['mean']:.6g}{half}  ({row['seeds']} seeds)")
        return "\n".join(lines).lstrip("\n")


def _of_one_type(values: list[Any]) -> list[Any]:
    """The values of a column of Parquet: all as text, unless they are all numbers or all of one type."""
    kinds = {type(value) for value in values if value is not None}
    alike = len(kinds) < 2 or kinds == {int, float}
    return values if alike else [None if value is None else str(value) for value in values]


def _csv(columns: list[str], rows: list[dict[str, Any]]) -> bytes:
    out = io.StringIO()
    writer = csv.DictWriter(out, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue().encode()


def run(
    plan: Plan | str | os.PathLike[str],
    directory: str | os.PathLike[str] | None = None,
    on: str = "local",
    progress: Callable[[str], None] | None = None,
) -> Sweep:
    """Runs a plan, or what is left of it, in a directory: by default the plan's name with `.sweep`. Scripts call this below
    `if __name__ == "__main__":`, because processes of the engine `local` import them."""
    if not isinstance(plan, Plan):
        directory = directory or Path(plan).with_suffix(".sweep")
        plan = Plan.read(plan)
    if directory is None:
        raise Error("directory: missing; allowed: where the points are to be written")
    sweep = Sweep(plan, directory).run(on, progress)
    if len(sweep.left()) == len(sweep.plan.points):
        number, error = min(sweep.failed.items())
        raise Error(f"none of {len(sweep.plan.points)} points is done; point {number} failed: {error}")
    return sweep


def main(arguments: list[str]) -> int:
    """`python -m pellucid sweep PLAN`: 0; 1 when points failed; 2 when something was asked for that cannot be."""
    import argparse

    parser = argparse.ArgumentParser(prog="python -m pellucid sweep", description="Run a plan, or what is left of it.")
    parser.add_argument("plan", help="the plan, in TOML")
    parser.add_argument("--on", default="local", metavar="ENGINE", help="local, local:N, dask:ADDRESS, ray:ADDRESS [default: local]")
    parser.add_argument("--out", metavar="DIR", help="where the points are written [default: the plan's name with .sweep]")
    parser.add_argument(
        "--report", nargs="?", const="", metavar="DIR", help="write tables, figures and report.html of what is done, and run nothing [default: beside the points]",
    )
    parser.add_argument("--json", action="store_true", help="print the answer as JSON, alone on standard output")
    parser.add_argument("--quiet", "-q", action="store_true", help="no progress")
    given = parser.parse_args(arguments)
    if threading.current_thread() is threading.main_thread():
        for ends in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(ends, signal.default_int_handler)
    out = Path(given.out or Path(given.plan).with_suffix(".sweep"))
    try:
        if (status := _of_snia(given, out)) is not None:
            return status
        plan = Plan.read(given.plan)
        sweep = Sweep(plan, out)
        if given.report is not None:
            sweep.write(given.report or None)
        else:
            sweep.run(given.on, None if given.quiet else _say)
        if given.json:
            print(json.dumps(sweep.answer()))
        return _told(sweep, given)
    except Error as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"error: {error.filename or out}: {error.strerror or error}; the points that are done stay, and the next run goes on", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted; the points that are done stay, and the next run goes on", file=sys.stderr)
        return 130


def _told(sweep: Sweep, given: Any) -> int:
    """Prints what came of a sweep; its exit status."""
    points, left = len(sweep.plan.points), len(sweep.left())
    if left == points:
        print(f"error: none of {points} points is done", file=sys.stderr)
    elif not given.json:
        print(sweep)
    if given.report is not None and 0 < left < points:
        print(f"warning: {left} of {points} points are not done", file=sys.stderr)
    if (warned := sweep.warned()) and not given.quiet:
        print(f"warning: {len(warned)} of {points} points, the first is {warned[0][0].number}: {warned[0][1]}", file=sys.stderr)
    alike: dict[str, list[int]] = {}
    for number, error in sorted(sweep.failed.items()):
        alike.setdefault(error, []).append(number)
    for error, numbers in alike.items():
        which = f"point {numbers[0]}" if len(numbers) == 1 else f"{len(numbers)} points, the first is {numbers[0]},"
        print(f"{which} failed: {error}", file=sys.stderr)
    if unsteady := sweep.unsteady():
        print(f"error: {unsteady} of {points} points did not become steady (run.steady_state)", file=sys.stderr)
    return 1 if sweep.failed or unsteady or left == points else 0


def _of_snia(given: Any, out: Path) -> int | None:
    """Runs a plan of one of SNIA's tests; None for other plans."""
    from .. import snia_plan

    try:
        text = Path(given.plan).read_text()
    except (OSError, UnicodeDecodeError):
        return None
    if not snia_plan.is_snia(text):
        return None
    if given.on != "local":
        raise Error(f"--on {given.on}: a test of SNIA's is one run; allowed: without it")
    if given.json:
        raise Error(f"--json: a test of SNIA's prints its tables; allowed: without it, its numbers are in {out / 'rounds.csv'}")
    try:
        return snia_plan.main(text, Path(given.plan).resolve().parent, out, given.report is not None)
    except KeyboardInterrupt:
        print("interrupted; a test of SNIA's is one run, and the next begins anew", file=sys.stderr)
        return 130


def _say(text: str) -> None:
    """Progress, on a terminal only."""
    if sys.stderr.isatty():
        print(f"\r{text}", end="", file=sys.stderr, flush=True)
