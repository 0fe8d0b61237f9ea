"""Runs and comparisons over several seeds: means with intervals, and whether a difference is larger than chance.

A seed gives every drive the same requests, so drives are compared seed by seed (a paired t-test): what a seed adds to all of them
cancels out. Each number is judged by itself: of twenty that do not differ, one is expected to seem so.
"""
from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ._pellucid import seeds_text
from .result import FIGURES, Comparison, Result
from .statistics import interval
from .words import number, refuse

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


def seed_numbers(seeds: int | Iterable[int]) -> list[int]:
    """The seeds that are asked for: 5 is 1 to 5."""
    numbers = list(range(1, seeds + 1)) if isinstance(seeds, int) else list(dict.fromkeys(seeds))
    if len(numbers) < 2:
        raise refuse("seeds", seeds, "at least two, which intervals need")
    return numbers


class Runs(Mapping):
    """Runs of a drive under the same work, by seed."""

    def __init__(self, results: Mapping[int, Result]) -> None:
        self._results = dict(results)

    def __getitem__(self, seed: int) -> Result:
        return self._results[seed]

    def __iter__(self):
        return iter(self._results)

    def __len__(self) -> int:
        return len(self._results)

    def values(self, path: str) -> list[float | None]:  # type: ignore[override]
        """A number of the report, such as `write_amplification.total`, for each seed."""
        return [result.report.at(path) for result in self._results.values()]

    def interval(self, path: str) -> tuple[float, float | None] | None:
        """The mean of a number, and half the width of its 95 % interval; None where a report does not have it."""
        values = _numbers(self.values(path))
        return None if values is None else interval(values, CONFIDENCE)

    def __str__(self) -> str:
        return _text(list(self), {self[next(iter(self))].report.drive.name: list(self._results.values())})

    def _rows(self) -> list[list[str]]:
        found = ((label, self.interval(path)) for label, path in FIGURES.items())
        return [[label, _plus_minus(*interval)] for label, interval in found if interval]

    def _head(self) -> list[str]:
        return [f"{len(self)} seeds", next(iter(self._results.values())).report.drive.name]

    def _repr_html_(self) -> str:
        return _html(self._head(), self._rows())


class Repeated(Mapping):
    """Comparisons of the same drives under the same work, by seed. Differences are taken seed by seed."""

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
        text = _plus_minus(*found)
        difference = None if drive == self.drives[0] else self.difference(drive, path)
        if difference is None:
            return text
        return f"{text}  {'differs' if difference.is_larger_than_chance else 'within chance'}"

    def _head(self) -> list[str]:
        return [f"{len(self)} seeds", *self.drives]

    def __str__(self) -> str:
        return _text(list(self), {drive: self.results(drive) for drive in self.drives})

    def _repr_html_(self) -> str:
        return _html(self._head(), self._rows())


def _plus_minus(mean: float, half: float | None) -> str:
    return f"{number(mean)} ± {half or 0.0:.2g}"


def _text(seeds: list[int], drives: Mapping[str, list[Result]]) -> str:
    return seeds_text(seeds, [(name, [result._outcome for result in results]) for name, results in drives.items()])


def _html(names: list[str], rows: list[list[str]]) -> str:
    head = "".join(f"<th>{html.escape(name)}</th>" for name in names)
    cells = ("".join(f"<td>{html.escape(cell)}</td>" for cell in row) for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(f'<tr>{row}</tr>' for row in cells)}</tbody></table>"


def _numbers(values: Sequence[float | None]) -> list[float] | None:
    return None if any(value is None for value in values) else [float(value) for value in values if value is not None]
