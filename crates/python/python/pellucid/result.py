"""Results: a report with attributes, tables, text for a terminal, a table for a notebook, figures."""
from __future__ import annotations

import html
import json
from collections.abc import Mapping
from typing import Any

from ._pellucid import Outcome, compare_text
from .table import Table
from .words import number


class Report(dict):
    """A report, or a part of one: a dict whose keys are attributes, too. Keys: docs/reference/report-schema.md."""

    def __getattr__(self, key: str) -> Any:
        try:
            return self[key]
        except KeyError:
            raise AttributeError(f"{key}: not in the report; there are: {', '.join(self)}") from None

    def at(self, path: str) -> Any:
        """The value at a path such as `directions.write.latency.p99_ns`; None where the report has none."""
        value: Any = self
        for name in path.split("."):
            if isinstance(value, Mapping):
                value = value.get(name)
            elif isinstance(value, list) and name.isdigit() and int(name) < len(value):
                value = value[int(name)]
            else:
                return None
        return value


#: Rows of a result in a notebook: label and path in the report.
FIGURES = {
    "requests": "requests",
    "simulated seconds": "simulated_seconds",
    "read IOPS": "directions.read.iops",
    "read mean, ns": "directions.read.latency.mean_ns",
    "read p99, ns": "directions.read.latency.p99_ns",
    "write IOPS": "directions.write.iops",
    "write mean, ns": "directions.write.latency.mean_ns",
    "write p99, ns": "directions.write.latency.p99_ns",
    "write amplification": "write_amplification.total",
    "blocks erased": "gc.erased_blocks.gc",
    "most erases": "wear.erases.max",
}


class Result:
    """What a run has left: the report, and tables in Arrow."""

    def __init__(self, outcome: Outcome) -> None:
        self._outcome = outcome
        self._report: Report | None = None

    @property
    def report(self) -> Report:
        """The report, as attributes and as a dict: `result.report.write_amplification.total`."""
        if self._report is None:
            self._report = json.loads(self.json(), object_hook=Report)
        return self._report

    def json(self, cost: bool = True) -> str:
        """The report as `pellucid run --json` prints it; without `cost`, equal runs give equal bytes."""
        return self._outcome.json(cost)

    def html(self) -> str:
        """The report as a page with drawings, which opens offline."""
        return self._outcome.html()

    @property
    def figures(self) -> dict[str, dict[str, Any]]:
        """The figures of that page as data, by name; `plot.figure(name)` draws one."""
        return {model["name"]: model for model in json.loads(self._outcome.figures())}

    @property
    def command_line(self) -> str:
        """The command that prints this report; empty for a drive with a past."""
        return self.report.workload.command_line

    @property
    def requests(self) -> Table:
        """Each request with its time in each stage."""
        return Table(self._outcome.table("requests"))

    @property
    def series(self) -> Table:
        """The run over time."""
        return Table(self._outcome.table("series"))

    @property
    def operations(self) -> Table:
        """Flash operations by cause."""
        return Table(self._outcome.table("operations"))

    @property
    def blocks(self) -> Table:
        """The blocks at the end: die, health, erases."""
        return Table(self._outcome.table("blocks"))

    @property
    def dies(self) -> Table:
        """The dies, and the share of time that each was busy."""
        return Table(self._outcome.table("dies"))

    @property
    def latency(self) -> Latency:
        """The latencies of each direction, and their figure: `result.latency.write.p99_ns`, `result.latency.plot()`."""
        return Latency({self.report.drive.name: self})

    @property
    def plot(self) -> Any:
        """Figures with matplotlib, in the sizes of two-column papers."""
        from .plot import Plot

        return Plot({self.report.drive.name: self})

    def __str__(self) -> str:
        return self._outcome.text()

    def __repr__(self) -> str:
        return f"<Result of {self.report.drive.name}: {self.report.workload.summary}, {self.report.requests} requests>"

    def _repr_html_(self) -> str:
        return _table({self.report.drive.name: self})


class Latency:
    """The latencies of one result, or of several drives."""

    def __init__(self, results: Mapping[str, Result]) -> None:
        self._results = results

    def plot(self, *, columns: int = 1) -> Any:
        """The share of requests within a latency, for each direction, as a figure of matplotlib; the same as `result.plot.latency()`."""
        from .plot import Plot

        return Plot(self._results).latency(columns=columns)

    def __getattr__(self, direction: str) -> Any:
        found = {name: result.report.directions.get(direction) for name, result in self._results.items()}
        if direction.startswith("_") or not all(found.values()):
            first = next(iter(self._results.values()))
            raise AttributeError(f"{direction}: no direction; there are: {', '.join(first.report.directions)}")
        latencies = {name: part.latency for name, part in found.items()}
        return latencies if len(latencies) > 1 else next(iter(latencies.values()))

    def _repr_html_(self) -> str:
        return _table(self._results)


class Comparison(Mapping):
    """The results of several drives under the same work, by name."""

    def __init__(self, results: dict[str, Result]) -> None:
        self.results = dict(results)

    def __getitem__(self, name: str) -> Result:
        return self.results[name]

    def __iter__(self):
        return iter(self.results)

    def __len__(self) -> int:
        return len(self.results)

    @property
    def latency(self) -> Latency:
        """The latencies of the drives, by name, and their figure: `compared.latency.plot()`."""
        return Latency(self.results)

    @property
    def plot(self) -> Any:
        """Figures with matplotlib, the drives overlaid."""
        from .plot import Plot

        return Plot(self.results)

    def __str__(self) -> str:
        return compare_text(list(self.results), [result._outcome for result in self.results.values()])

    def _repr_html_(self) -> str:
        return _table(self.results)


def _table(results: Mapping[str, Result]) -> str:
    """The figures of results, a column each; rows that none of them has are left out."""
    def cell(value: Any) -> str:
        return "-" if value is None else number(value)

    head = "".join(f"<th>{html.escape(name)}</th>" for name in results)
    body = ""
    for label, path in FIGURES.items():
        values = [result.report.at(path) for result in results.values()]
        if any(value is not None for value in values):
            body += f"<tr><th>{label}</th>{''.join(f'<td>{cell(value)}</td>' for value in values)}</tr>"
    return f"<table><thead><tr><th></th>{head}</tr></thead><tbody>{body}</tbody></table>"
