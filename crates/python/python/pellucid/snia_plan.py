"""SNIA's tests as plans, which `pellucid sweep` runs: `snia` says which test.

    snia = "iops"                         # iops, throughput, latency, write-saturation
    drive = "cosmos-plus"                 # a preset, or a description beside the plan
    round_seconds = 0.1                   # of simulated time for each mix and block size; SNIA: 60
    rounds_max = 25
    seed = 0

    [overrides]
    "media.blocks" = 32

What it leaves in the plan's name with .sweep:

    rounds.csv                 a row for each round, mix and block size
    report.html                tables and figures of the report; it needs no other file. Without matplotlib: tables
    convergence.svg, steady_state.svg, measured.svg
    report.txt                 the tables
"""
from __future__ import annotations

import csv
import html
import io
import tomllib
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from . import snia
from ._pellucid import Error
from .drive import Drive
from .sweep.points import write_whole
from .sweep.report import PAGE_STYLE, svg
from .words import refuse

TESTS: dict[str, Callable[..., snia.Measured]] = {
    "iops": snia.iops, "throughput": snia.throughput, "latency": snia.latency, "write-saturation": snia.write_saturation,
}
#: Options of a test, and what they take.
OPTIONS: dict[str, tuple[tuple[type, ...], str]] = {
    "round_seconds": ((int, float), "seconds above 0"),
    "iodepth": ((int,), "a whole number from 1 on"),
    "threads": ((int,), "a whole number from 1 on"),
    "rounds_max": ((int,), "a whole number from 5 on"),
    "seed": ((int,), "a whole number from 0 on"),
}
KEYS = ["snia", "drive", "overrides", *OPTIONS]
FIGURES = {"convergence": "Convergence", "steady_state": "Steady state: measurement window", "measured": "Measured"}


class SniaPlan:
    """A plan of one of SNIA's tests, read and checked."""

    def __init__(self, text: str, directory: Path) -> None:
        self.text = text
        plan = tomllib.loads(text)
        for key in plan:
            if key not in KEYS:
                raise refuse(key, plan[key], "a key of " + ", ".join(KEYS))
        self.name = plan["snia"]
        if self.name not in TESTS:
            raise refuse("snia", self.name, ", ".join(TESTS))
        if not isinstance(plan.get("drive"), str):
            raise refuse("drive", plan.get("drive"), "a preset or a description")
        overrides = plan.get("overrides", {})
        if not isinstance(overrides, dict):
            raise refuse("overrides", overrides, "a table of keys of the description")
        self.options = {key: plan[key] for key in OPTIONS if key in plan}
        for key, value in self.options.items():
            kinds, allowed = OPTIONS[key]
            if not isinstance(value, kinds) or isinstance(value, bool) or value < 0:
                raise refuse(key, value, allowed)
        if self.name == "latency" and (given := {"iodepth", "threads"} & set(self.options)):
            raise refuse(min(given), self.options[min(given)], "without it: the latency test has one request at a time")
        file = directory / plan["drive"]
        self.drive = Drive(file if file.is_file() else plan["drive"], overrides=overrides)

    def run(self) -> snia.Measured:
        """Does the test."""
        return TESTS[self.name](self.drive, **self.options)


def is_snia(text: str) -> bool:
    """Whether the text of a plan is that of one of SNIA's tests."""
    try:
        return "snia" in tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return False


def write(plan: SniaPlan, measured: snia.Measured, directory: Path) -> None:
    """Writes tables, figures and page."""
    directory.mkdir(parents=True, exist_ok=True)
    write_whole(directory / "plan.toml", plan.text.encode())
    write_whole(directory / "rounds.csv", _csv(measured.rows()))
    write_whole(directory / "report.txt", str(measured).encode())
    drawings = _drawings(measured)
    for name in FIGURES:
        if name in drawings:
            write_whole(directory / f"{name}.svg", drawings[name].encode())
        else:
            (directory / f"{name}.svg").unlink(missing_ok=True)
    write_whole(directory / "report.html", _page(plan, measured, drawings).encode())


def _drawings(measured: snia.Measured) -> dict[str, str]:
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        warnings.warn("figures are not drawn: matplotlib is missing (pip install 'pellucid[plot]')", stacklevel=2)
        return {}
    drawn = {name: svg(getattr(measured.plot, name)(columns=2)) for name in FIGURES if name != "measured" or len(measured.rounds[0]) > 1}
    return drawn if measured.test is not snia.WRITE_SATURATION else {"convergence": drawn["convergence"]}


def _csv(rows: list[dict[str, Any]]) -> bytes:
    out = io.StringIO()
    writer = csv.DictWriter(out, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue().encode()


def _page(plan: SniaPlan, measured: snia.Measured, drawings: dict[str, str]) -> str:
    figures = "".join(f"<h4>{FIGURES[name]}</h4>{drawing[drawing.index('<svg'):]}" for name, drawing in drawings.items())
    title = html.escape(f"SNIA PTS, {measured.test.title}: {measured.drive}")
    body = f"{measured._repr_html_()}{figures}<h4>Plan</h4><pre>{html.escape(plan.text)}</pre>"
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{title}</title>\n<style>{PAGE_STYLE}</style>'
    return f'<!doctype html>\n<html lang="en">{head}\n<h1>{title}</h1>\n{body}\n</html>\n'


def main(text: str, beside: Path, out: Path, given_report: bool) -> int:
    """Runs a plan: 0; 1 when the drive did not become steady. Raises `Error` when something was asked for that cannot be."""
    if given_report:
        raise Error("--report: a plan of SNIA's is run as a whole; allowed: without it")
    plan = SniaPlan(text, beside)
    measured = plan.run()
    write(plan, measured, out)
    print(measured, end="")
    print(f"report  {out / 'report.html'}")
    # Write saturation has no steady state to reach.
    return 0 if measured.is_steady or measured.test is snia.WRITE_SATURATION else 1
