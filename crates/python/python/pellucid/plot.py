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
                series, whole = result.report.series, result.report.at("write_amplification.total")
                points = [(at, value) for at, value in zip(series.begin_seconds, series.write_amplification) if value is not None]
                if not points or whole is None:
                    continue
                (line,) = axes.plot(*zip(*points), label=name)
                axes.axhline(whole, color=line.get_color(), linestyle="--", linewidth=0.7)
                drawn += 1
            axes.set(xlabel="simulated time (s)", ylabel="write amplification")
            return drawn

        return _figure(draw, columns, "nothing was written")

    def figure(self, name: str, *, columns: int = 1) -> Figure:
        """A figure of the report's page by its name, such as `read-latency-over-time`; of one result."""
        if len(self._results) != 1:
            raise refuse("figure", name, "of one result: compared[NAME].plot.figure")
        figures = next(iter(self._results.values())).figures
        if name not in figures:
            raise refuse("figure", name, ", ".join(figures))
        return draw(figures[name], columns=columns)

    def _label(self, name: str, direction: str) -> str:
        return direction if len(self._results) == 1 else f"{name}, {direction}"


#: Units of axes in a figure's model: what a value is divided by, and what stands behind the label.
UNITS = {
    "plain": (1, ""), "count": (1, ""), "ns": (1000, "us"), "seconds": (1, "s"), "bytes": (1e6, "MB"), "binary_bytes": (1024, "KiB"),
    "bytes_per_second": (1e6, "MB/s"), "share": (0.01, "%"),
}
_MARKS: dict[str, dict[str, Any]] = {
    "line": {}, "area": {}, "columns": {"drawstyle": "steps-post"}, "dashed": {"linestyle": "--"}, "dotted": {"linestyle": ":"},
    "points": {"linestyle": "", "marker": "o", "markersize": 2.5},
}


def draw(model: Mapping[str, Any], *, columns: int = 1) -> Figure:
    """Draws a figure of a report: one of `figures.json`, or of `result.figures`."""
    kinds = {"plot": _draw_plot, "bars": _draw_bars, "gantt": _draw_gantt, "heat": _draw_heat}
    if model.get("kind") not in kinds:
        raise refuse("kind", model.get("kind"), ", ".join(kinds))
    return _figure(lambda axes: kinds[model["kind"]](axes, model), columns, "the figure has no data", beside=model["kind"] == "bars")


def _named(axis: Mapping[str, Any]) -> tuple[float, str]:
    """What values of an axis are divided by, and its label with the unit."""
    size, unit = UNITS[axis["unit"]]
    return size, f"{axis['label']} ({unit})" if unit else axis["label"]


def _scaled(values: list[float | None], size: float) -> list[float]:
    return [float("nan") if value is None else value / size for value in values]


def _draw_plot(axes: Any, model: Mapping[str, Any]) -> int:
    (x_size, x_label), (y_size, y_label) = _named(model["x"]), _named(model["y"])
    for series in model["series"]:
        x = _scaled(series.get("x", model["series"][0]["x"]), x_size)
        y = _scaled(series["y"], y_size)
        axes.plot(x, y, color=f"C{series['colour']}", label=series["name"] or None, **_MARKS[series["mark"]])
        if series["mark"] in ("area", "columns"):
            axes.fill_between(x, y, alpha=0.25, color=f"C{series['colour']}", step="post" if series["mark"] == "columns" else None)
    axes.set(xlabel=x_label, ylabel=y_label)
    for axis, size, set_scale, limit in ((model["x"], x_size, axes.set_xscale, axes.set_xlim), (model["y"], y_size, axes.set_yscale, axes.set_ylim)):
        if axis["scale"] != "linear":
            set_scale("log", base=2 if axis["scale"] == "doubling" else 10)
        elif "from" in axis or "to" in axis:
            limit(axis["from"] / size if "from" in axis else None, axis["to"] / size if "to" in axis else None)
    return len(model["series"])


def _draw_bars(axes: Any, model: Mapping[str, Any]) -> int:
    size, label = _named(model["value"])
    places = list(range(len(model["categories"])))
    offsets, wide = [0.0] * len(places), 0.8 / (1 if model["stacked"] else max(1, len(model["series"])))
    for number, series in enumerate(model["series"]):
        values = [0.0 if value != value else value for value in _scaled(series["values"], size)]
        look = {"color": f"C{series['colour']}", "label": series["name"] or None}
        if model["stacked"]:
            axes.barh(places, values, left=offsets, height=0.7, **look)
            offsets = [begin + value for begin, value in zip(offsets, values)]
        else:
            axes.bar([place + (number + 0.5) * wide - 0.4 for place in places], values, width=wide, **look)
    if model["stacked"]:
        axes.set_yticks(places, model["categories"])
        axes.invert_yaxis()
        axes.set_xlabel(label)
    else:
        axes.set_xticks(places, model["categories"], rotation=30, ha="right")
        axes.set_ylabel(label)
    if model["value"]["scale"] != "linear":
        (axes.set_xscale if model["stacked"] else axes.set_yscale)("log")
    return len(model["series"])


def _draw_gantt(axes: Any, model: Mapping[str, Any]) -> int:
    size, label = _named(model["x"])
    for series in model["series"]:
        begins, ends = _scaled(series["begin"], size), _scaled(series["end"], size)
        widths = [end - begin for begin, end in zip(begins, ends)]
        axes.barh(series["row"], widths, left=begins, height=0.9, color=f"C{series['colour']}", label=series["name"])
    every = max(1, len(model["rows"]) // 12)
    axes.set_yticks(range(0, len(model["rows"]), every), model["rows"][::every])
    axes.set_ylim(len(model["rows"]) - 0.5, -0.5)
    axes.set(xlabel=label, xlim=(model["x"]["from"] / size, model["x"]["to"] / size))
    return len(model["series"])


def _draw_heat(axes: Any, model: Mapping[str, Any]) -> int:
    size, unit = UNITS[model["unit"]]
    wide = max((len(row) for row in model["values"]), default=0)
    values = [_scaled(row, size) + [float("nan")] * (wide - len(row)) for row in model["values"]]
    if not wide:
        return 0
    image = axes.imshow(values, aspect="auto", cmap="Blues", vmin=0, interpolation="nearest")
    axes.grid(False)
    for names, ticks in ((model["columns"], axes.set_xticks), (model["rows"], axes.set_yticks)):
        every = max(1, len(names) // 6)
        ticks(range(0, len(names), every), names[::every])
    axes.figure.colorbar(image, ax=axes, label=unit)
    return len(values)


def _figure(draw: Any, columns: int, empty: str, beside: bool = False) -> Figure:
    """A figure in the size for this many columns. A figure without data is refused."""
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
