"""The report of a sweep: curves with intervals, Pareto fronts, small multiples, and a page with all of it.

Everything is drawn from the summary: mean and confidence interval over the seeds, for each combination of the axes.

    curves        each number over the first axis of numbers; without one, over the first axis
    fronts        for each pair of objectives, the combinations; those that none beats in both are joined
    multiples     from three axes on: a panel for each value of the third axis (columns) and the others (rows)
"""
from __future__ import annotations

import html
import io
import itertools
from typing import TYPE_CHECKING, Any

from ..plot import STYLE, WIDTH_INCHES
from ..words import number as shown

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from .plan import Plan

#: Endings of paths in the report of which more, or less, is better.
MORE = ("iops", "bytes_per_second")
LESS = ("_ns", "write_amplification.total", "erases.max", "stall_seconds")
PANEL_INCHES = (2.2, 1.8)
#: More panels than this are no figure that anybody reads.
PANELS_MAX = 100
Row = dict[str, Any]


def objective(path: str) -> str | None:
    """Which of two values of a number is the better one: "more", "less", or None where neither is."""
    if path.endswith(MORE):
        return "more"
    return "less" if path.endswith(LESS) else None


def front(points: list[tuple[float, float]], better: tuple[str, str]) -> list[int]:
    """The points that no other one beats: at least as good in both, and better in one. Ordered by the first number."""
    signed = [tuple(-value if way == "more" else value for value, way in zip(point, better)) for point in points]

    def beaten(mine: tuple[float, ...]) -> bool:
        return any(other != mine and all(one <= two for one, two in zip(other, mine)) for other in signed)

    return sorted((at for at, point in enumerate(signed) if not beaten(point)), key=lambda at: points[at])


class Drawn:
    """The figures of a sweep."""

    def __init__(self, plan: Plan, summary: list[Row]) -> None:
        self._plan = plan
        self._summary = summary
        self.numbers = [number for number in plan.keep if any(row["number"] == number for row in summary)]
        numeric = [
            axis for axis, values in plan.axes.items() if all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values)
        ]
        #: The axis along which curves go; None for a sweep without axes.
        self.along = next(iter([*numeric, *plan.axes]), None)
        self._is_numeric = bool(numeric)
        self._others = [axis for axis in plan.axes if axis != self.along]

    def figures(self) -> dict[str, Figure]:
        """All figures that the sweep has data for, by name."""
        drawn = {"curves": self.curves(), "fronts": self.fronts(), "multiples": self.multiples()}
        return {name: figure for name, figure in drawn.items() if figure is not None}

    def curves(self) -> Figure | None:
        """Each number along the first axis of numbers, a line with its intervals for each combination of the others."""
        if self.along is None or not self.numbers:
            return None
        figure, panels = _grid(len(self.numbers), 1, (WIDTH_INCHES[1], 2.2))
        for (axes,), number in zip(panels, self.numbers):
            count = self._lines(axes, [row for row in self._summary if row["number"] == number], self._others)
            axes.set(xlabel=self.along, ylabel=_short(number))
            if count > 1:
                axes.legend(fontsize=6, frameon=False)
        return figure

    def multiples(self) -> Figure | None:
        """A matrix of panels: lines for the values of the second axis, columns for those of the third, rows for numbers and further axes."""
        if len(self._others) < 2 or not self.numbers:
            return None
        colours, across, *down = self._others
        rows = list(itertools.product(self.numbers, *(self._plan.axes[axis] for axis in down)))
        columns = self._plan.axes[across]
        if len(rows) * len(columns) > PANELS_MAX:
            return None
        figure, panels = _grid(len(rows), len(columns), PANEL_INCHES, sharex=True, sharey="row")
        for line, (number, *values) in zip(panels, rows):
            for axes, column in zip(line, columns):
                chosen = {"number": number, across: column, **dict(zip(down, values))}
                self._lines(axes, [row for row in self._summary if all(row[key] == value for key, value in chosen.items())], [colours])
            named = ", ".join(f"{axis} = {value}" for axis, value in zip(down, values))
            line[0].set_ylabel(f"{_short(number)}\n{named}".strip())
        for axes, column in zip(panels[0], columns):
            axes.set_title(f"{across} = {column}", fontsize=8)
        for axes in panels[-1]:
            axes.set_xlabel(self.along)
        panels[0][0].legend(fontsize=6, frameon=False, title=colours, title_fontsize=6)
        return figure

    def fronts(self) -> Figure | None:
        """The means of each pair of objectives, with intervals; the combinations that no other one beats in both are joined and named."""
        pairs = self.pairs()
        if not pairs:
            return None
        figure, panels = _grid(len(pairs), 1, (WIDTH_INCHES[1], 2.6))
        for (axes,), pair in zip(panels, pairs):
            points = self._points(pair)
            for _, first, second in points:
                axes.errorbar(first["mean"], second["mean"], xerr=_half(first), yerr=_half(second), fmt="o", markersize=2.5, color="0.6", linewidth=0.6)
            best = [points[at] for at in self._best(pair, points)]
            axes.plot([first["mean"] for _, first, _ in best], [second["mean"] for _, _, second in best], "C3o-", markersize=3, drawstyle="steps-post")
            names: dict[tuple[float, float], list[str]] = {}
            for name, first, second in best:
                names.setdefault((first["mean"], second["mean"]), []).append(name)
            for place, equal in names.items():
                axes.annotate("\n".join(equal), place, fontsize=5, textcoords="offset points", xytext=(3, 3))
            axes.set(xlabel=f"{_short(pair[0])} ({objective(pair[0])} is better)", ylabel=f"{_short(pair[1])} ({objective(pair[1])} is better)")
        return figure

    def pairs(self) -> list[tuple[str, str]]:
        """The pairs of objectives among the numbers, where there is more than one combination to choose from."""
        objectives = [number for number in self.numbers if objective(number)]
        pairs = list(itertools.combinations(objectives, 2))
        return [pair for pair in pairs if len(self._points(pair)) > 1]

    def best(self, pair: tuple[str, str]) -> list[tuple[str, float, float]]:
        """The combinations that no other one beats in both numbers of a pair, with their means."""
        points = self._points(pair)
        return [(points[at][0], points[at][1]["mean"], points[at][2]["mean"]) for at in self._best(pair, points)]

    def _best(self, pair: tuple[str, str], points: list[tuple[str, Row, Row]]) -> list[int]:
        return front([(first["mean"], second["mean"]) for _, first, second in points], (objective(pair[0]) or "", objective(pair[1]) or ""))

    def _points(self, pair: tuple[str, str]) -> list[tuple[str, Row, Row]]:
        """The combinations that have both numbers."""
        found: dict[tuple[Any, ...], dict[str, Row]] = {}
        for row in self._summary:
            found.setdefault(tuple(row[axis] for axis in self._plan.axes), {})[row["number"]] = row
        return [
            (", ".join(map(str, chosen)), rows[pair[0]], rows[pair[1]])
            for chosen, rows in found.items() if pair[0] in rows and pair[1] in rows
        ]

    def _lines(self, axes: Any, rows: list[Row], by: list[str]) -> int:
        """Draws a line for each combination of the axes `by`, and says how many these are."""
        lines: dict[str, list[Row]] = {}
        for row in rows:
            lines.setdefault(", ".join(str(row[axis]) for axis in by), []).append(row)
        for label, line in lines.items():
            if self._is_numeric:
                line.sort(key=lambda row: row[self.along])
            xs = [row[self.along] if self._is_numeric else str(row[self.along]) for row in line]
            form = "-" if self._is_numeric else "o"
            axes.errorbar(xs, [row["mean"] for row in line], yerr=[_half(row) for row in line], fmt=form, label=label, capsize=2, linewidth=1, markersize=3)
        if self.along in self._plan.logarithmic:
            axes.set_xscale("log")
        return len(lines)


def _half(row: Row) -> float:
    return 0.0 if row["high"] is None else row["high"] - row["mean"]


def _short(number: str) -> str:
    return number.removeprefix("directions.")


def _grid(rows: int, columns: int, panel: tuple[float, float], **options: Any) -> tuple[Figure, Any]:
    """A figure of this many panels, each of a size in inches."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(panel[0] * columns, panel[1] * rows), layout="constrained")
        return figure, figure.subplots(rows, columns, squeeze=False, **options)


def svg(figure: Figure) -> str:
    """A figure as SVG: the same text for the same data."""
    import matplotlib

    out = io.StringIO()
    with matplotlib.rc_context({**STYLE, "svg.hashsalt": "pellucid"}):
        figure.savefig(out, format="svg", metadata={"Date": None})
    return out.getvalue()


TITLES = {
    "curves": "Curves",
    "fronts": "Pareto fronts: joined are the combinations that no other one beats in both numbers",
    "multiples": "Small multiples",
}
PAGE_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #222; background: #fff }
table { border-collapse: collapse; display: block; overflow-x: auto } th, td { text-align: left; padding: .15rem .8rem .15rem 0 }
td.n { text-align: right; font-variant-numeric: tabular-nums } tbody tr:nth-child(odd) { background: #f4f4f4 }
svg { max-width: 100%; height: auto } pre { overflow-x: auto; background: #f4f4f4; padding: .6rem }
"""


def page(plan: Plan, drawn: Drawn, summary: list[Row], drawings: dict[str, str], state: str, confidence: float) -> str:
    """The page: figures, the combinations that none beats, the summary and the plan. It needs no other file."""
    parts = [f"<p>{html.escape(state)} Intervals are of {confidence:.0%} over the seeds, by Student's t.</p>"]
    for name, drawing in drawings.items():
        parts.append(f"<h2>{TITLES[name]}</h2>{drawing[drawing.index('<svg'):]}")
    for pair in drawn.pairs():
        rows = [[name, shown(one), shown(two)] for name, one, two in drawn.best(pair)]
        parts.append(_table([", ".join(plan.axes), *map(_short, pair)], rows))
    rows = [
        [*(str(row[axis]) for axis in plan.axes), _short(row["number"]), shown(row["mean"]), "" if row["high"] is None else f"± {shown(_half(row))}", str(row["seeds"])]
        for row in summary
    ]
    parts.append("<h2>Means</h2>" + _table([*plan.axes, "number", "mean", "interval", "seeds"], rows))
    parts.append(f"<h2>Plan</h2><pre>{html.escape(plan.text)}</pre>")
    body = "\n".join(parts)
    return f'<!doctype html>\n<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Sweep</title>\n<style>{PAGE_STYLE}</style>\n<h1>Sweep</h1>\n{body}\n</html>\n'


def _table(head: list[str], rows: list[list[str]]) -> str:
    first = "".join(f"<th>{html.escape(cell)}</th>" for cell in head)
    lines = ("".join(f"<td>{html.escape(cell)}</td>" for cell in row) for row in rows)
    return f"<table><thead><tr>{first}</tr></thead><tbody>{''.join(f'<tr>{line}</tr>' for line in lines)}</tbody></table>"
