"""Comparisons over several seeds: means with intervals, and whether a difference is larger than chance."""
from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .result import FIGURES, Comparison, Result
from .statistics import interval
from .words import number

#: Share of means that lie in their interval.
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Difference:
    """The difference of a number from that of the first drive, over the seeds that both had."""

    mean: float
    half: float

    @property
    def is_larger_than_chance(self) -> bool:
        """Whether the interval of the difference leaves out 0."""
        return abs(self.mean) > self.half


class Repeated(Mapping):
    """Comparisons of the same drives under the same work, by seed.

    A seed gives every drive the same requests, so drives are compared seed by seed: the differences are averaged, and their interval is
    Student's t.
    """

    def __init__(self, comparisons: Mapping[int, Comparison]) -> None:
        self._comparisons = dict(comparisons)
        self.drives = list(next(iter(self._comparisons.values())))

    def __getitem__(self, seed: int) -> Comparison:
        return self._comparisons[seed]

    def __iter__(self):
        return iter(self._comparisons)

    def __len__(self) -> int:
        return len(self._comparisons)

    def results(self, drive: str) -> list[Result]:
        """The results of a drive, in the order of the seeds."""
        return [comparison[drive] for comparison in self._comparisons.values()]

    def values(self, drive: str, path: str) -> list[float | None]:  # type: ignore[override]
        """A number of the report, such as `write_amplification.total`, for each seed."""
        return [result.report.at(path) for result in self.results(drive)]

    def interval(self, drive: str, path: str) -> tuple[float, float | None] | None:
        """The mean of a number, and half the width of its 95 % interval; None where a report does not have it."""
        values = _numbers(self.values(drive, path))
        return None if values is None else interval(values, CONFIDENCE)

    def difference(self, drive: str, path: str) -> Difference | None:
        """How a number differs from that of the first drive; None where a report does not have it."""
        ours, first = _numbers(self.values(drive, path)), _numbers(self.values(self.drives[0], path))
        if ours is None or first is None:
            return None
        mean, half = interval([one - other for one, other in zip(ours, first)], CONFIDENCE)
        return Difference(mean, half or 0.0)

    def _rows(self) -> list[list[str]]:
        rows = []
        for label, path in FIGURES.items():
            cells = [self._cell(drive, path) for drive in self.drives]
            if any(cells):
                rows.append([label, *cells])
        return rows

    def _cell(self, drive: str, path: str) -> str:
        found = self.interval(drive, path)
        if found is None:
            return ""
        mean, half = found
        text = f"{number(mean)} ± {half:.2g}"
        difference = None if drive == self.drives[0] else self.difference(drive, path)
        if difference is None:
            return text
        return f"{text}  {'differs' if difference.is_larger_than_chance else 'within chance'}"

    def __str__(self) -> str:
        rows = [[f"{len(self)} seeds", *self.drives], *self._rows()]
        widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
        return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows) + "\n"

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{html.escape(name)}</th>" for name in (f"{len(self)} seeds", *self.drives))
        cells = ("".join(f"<td>{html.escape(cell)}</td>" for cell in row) for row in self._rows())
        return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(f'<tr>{row}</tr>' for row in cells)}</tbody></table>"


def _numbers(values: Sequence[float | None]) -> list[float] | None:
    return None if any(value is None for value in values) else [float(value) for value in values if value is not None]
