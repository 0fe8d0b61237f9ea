"""Figures with matplotlib, in the sizes and fonts of two-column papers.

Every figure takes `columns=1` (3.33 inches wide) or `columns=2` (7 inches), and returns a `matplotlib.figure.Figure`: `save("x.pdf")` is
`figure.savefig("x.pdf")`.
"""
from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ._pellucid import Error
from .words import refuse

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from .result import Result

WIDTH_INCHES = {1: 3.33, 2: 7.0}
HEIGHT_INCHES = 2.2
STYLE = {
    "font.size": 8, "axes.labelsize": 8, "legend.fontsize": 7, "xtick.labelsize": 7, "ytick.labelsize": 7,
    "axes.linewidth": 0.6, "lines.linewidth": 1.0, "pdf.fonttype": 42, "ps.fonttype": 42, "axes.grid": True, "axes.axisbelow": True, "grid.linewidth": 0.3,
}


class Plot:
    """Figures of one result, or of several overlaid."""

    def __init__(self, results: Mapping[str, Result]) -> None:
        self._results = results

    def latency(self, *, columns: int = 1) -> Figure:
        """The share of requests within a latency, for each direction."""
        def draw(axes: Any) -> int:
            drawn = 0
            for name, result in self._results.items():
                for direction in ("read", "write"):
                    bins = result.report.directions[direction].distribution
                    if not bins.count:
                        continue
                    total, below, shares = sum(bins.count), 0, []
                    for count in bins.count:
                        below += count
                        shares.append(below / total)
                    axes.step([ns / 1000 for ns in bins.upper_ns], shares, where="post", label=self._label(name, direction))
                    drawn += 1
            axes.set(xscale="log", xlabel="latency (us)", ylabel="share of requests", ylim=(0, 1.02))
            return drawn

        return _figure(draw, columns, "no reads or writes completed")

    def stages(self, *, columns: int = 1) -> Figure:
        """The mean time of a request in each stage, for each direction."""
        def draw(axes: Any) -> int:
            bars = []
            for name, result in self._results.items():
                for direction in ("read", "write"):
                    part = result.report.directions[direction]
                    if part.latency.count:
                        bars.append((self._label(name, direction), part.stage_ns, part.latency.count))
            left = [0.0] * len(bars)
            # A stage has one colour in all figures.
            for number, stage in enumerate(bars[0][1] if bars else ()):
                widths = [stages[stage] / count / 1000 for _, stages, count in bars]
                if any(widths):
                    axes.barh([label for label, _, _ in bars], widths, left=left, color=f"C{number}", label=stage.replace("_", " "))
                    left = [begin + width for begin, width in zip(left, widths)]
            axes.set(xlabel="mean time of a request (us)")
            axes.invert_yaxis()
            return len(bars)

        return _figure(draw, columns, "no reads or writes completed", beside=True)

    def write_amplification(self, *, columns: int = 1) -> Figure:
        """Write amplification over time, and as a dashed line over the whole run."""
        def draw(axes: Any) -> int:
            drawn = 0
            for name, result in self._results.items():
                series, whole = result.report.series, result.report.write_amplification.total
                points = [(at, value) for at, value in zip(series.begin_seconds, series.write_amplification) if value is not None]
                if not points or whole is None:
                    continue
                (line,) = axes.plot(*zip(*points), label=name)
                axes.axhline(whole, color=line.get_color(), linestyle="--", linewidth=0.7)
                drawn += 1
            axes.set(xlabel="simulated time (s)", ylabel="write amplification")
            return drawn

        return _figure(draw, columns, "nothing was written")

    def _label(self, name: str, direction: str) -> str:
        return direction if len(self._results) == 1 else f"{name}, {direction}"


def _figure(draw: Any, columns: int, empty: str, beside: bool = False) -> Figure:
    """A figure in the size for so many columns. A figure without data is refused."""
    if columns not in WIDTH_INCHES:
        raise refuse("columns", columns, "1, 2")
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH_INCHES[columns], HEIGHT_INCHES), layout="constrained")
        axes = figure.subplots()
        if not draw(axes):
            raise Error(f"nothing to draw: {empty}")
        handles, _ = axes.get_legend_handles_labels()
        if len(handles) > 1:
            axes.legend(frameon=False, **({"loc": "center left", "bbox_to_anchor": (1, 0.5)} if beside else {}))
    return figure
