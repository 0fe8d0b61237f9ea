"use strict";
// Figures of a report: plots over two axes are drawn with uPlot; every figure can be taken away as SVG and CSV. The model of a figure stands
// in report/src/plot/model.rs.
(() => {
  const models = JSON.parse(document.getElementById("figures").textContent);
  const css = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const digits = (value, most = 3) => value.toLocaleString("en", { maximumSignificantDigits: most, useGrouping: Math.abs(value) >= 1e5 });
  function scaled(value, units) {
    const [size, unit] = units.find(([size]) => Math.abs(value) >= size * 0.9995) || units[units.length - 1];
    return digits(value / size) + (unit && " " + unit);
  }
  const DECIMAL = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"], [1, ""]];
  const UNITS = {
    plain: value => digits(value),
    count: value => scaled(value, DECIMAL),
    ns: value => scaled(value, [[60e9, "min"], [1e9, "s"], [1e6, "ms"], [1e3, "us"], [1, "ns"]]),
    seconds: value => scaled(value, [[3600, "h"], [60, "min"], [1, "s"], [1e-3, "ms"], [1e-6, "us"]]),
    bytes: value => scaled(value, [[1e12, "TB"], [1e9, "GB"], [1e6, "MB"], [1e3, "kB"], [1, "B"]]),
    binary_bytes: value => scaled(value, [[2 ** 40, "TiB"], [2 ** 30, "GiB"], [2 ** 20, "MiB"], [1024, "KiB"], [1, "B"]]),
    bytes_per_second: value => scaled(value, [[1e12, "TB/s"], [1e9, "GB/s"], [1e6, "MB/s"], [1e3, "kB/s"], [1, "B/s"]]),
    share: value => digits(value * 100) + " %",
  };
  const words = (unit, value) => value === null || value === undefined ? "-" : value === 0 ? "0" : UNITS[unit](value);

  // ---- tables

  const field = value => value === null || value === undefined ? "" : /[",\n]/.test(value) ? '"' + String(value).replaceAll('"', '""') + '"' : String(value);
  const NAMES = { ns: "ns", seconds: "s", bytes: "bytes", binary_bytes: "bytes", bytes_per_second: "bytes/s", share: "share" };
  const head = ({ label, unit }) => NAMES[unit] ? label ? `${label} (${NAMES[unit]})` : NAMES[unit] : label;
  function table(model) {
    const lines = [];
    if (model.kind === "plot") {
      lines.push(["series", head(model.x), head(model.y)]);
      for (const series of model.series) (series.x || model.series[0].x).forEach((x, at) => lines.push([series.name, x, series.y[at]]));
    } else if (model.kind === "bars") {
      lines.push(["category", "series", head(model.value)]);
      for (const series of model.series) series.values.forEach((value, at) => lines.push([model.categories[at], series.name, value]));
    } else if (model.kind === "gantt") {
      lines.push(["row", "series", ...["begin", "end"].map(label => head({ label, unit: model.x.unit }))]);
      for (const series of model.series) series.row.forEach((row, at) => lines.push([model.rows[row], series.name, series.begin[at], series.end[at]]));
    } else {
      lines.push(["row", model.column_values ? head(model.column) : "column", head({ label: "value", unit: model.unit })]);
      const columns = model.column_values || model.columns;
      model.values.forEach((row, at) => row.forEach((value, column) => lines.push([model.rows[at], columns[column], value])));
    }
    return lines.map(line => line.map(field).join(",") + "\n").join("");
  }

  // The drawing as a file of its own, whose colours are written out for programs that know no custom properties.
  function drawing(svg) {
    const copy = svg.cloneNode(true), style = document.createElementNS("http://www.w3.org/2000/svg", "style");
    const rules = [...document.styleSheets].flatMap(sheet => [...sheet.cssRules]).filter(rule => rule.selectorText && rule.selectorText.startsWith(".plot"));
    style.textContent = rules.map(rule => rule.cssText.replace(/var\((--[a-z0-9]+)\)/g, (_, name) => css(name))).join("\n");
    const paper = document.createElementNS("http://www.w3.org/2000/svg", "rect");
    for (const [name, value] of [["class", "paper"], ["width", "100%"], ["height", "100%"]]) paper.setAttribute(name, value);
    copy.prepend(style, paper);
    copy.style.display = "";
    copy.removeAttribute("style");
    return new XMLSerializer().serializeToString(copy);
  }

  function button(label, file, kind, content) {
    const made = document.createElement("button");
    made.textContent = label;
    made.type = "button";
    made.dataset.file = file;
    made.content = content;
    made.onclick = () => {
      const link = document.createElement("a"), address = URL.createObjectURL(new Blob([content()], { type: kind }));
      [link.href, link.download] = [address, file];
      link.click();
      setTimeout(() => URL.revokeObjectURL(address), 10000);
    };
    return made;
  }

  // ---- plots

  // The axis of the values ends at the figure's limits, or, without limits, a little beyond the data.
  function range(axis) {
    if (axis.scale !== "linear") return undefined;
    return (_, low, high) => {
      const from = axis.from ?? low, to = axis.to ?? (high > from ? high + (high - from) * 0.04 : from + 1);
      return [from, to];
    };
  }

  // Places of ticks on a logarithmic axis: all digits of each decade, or the powers of two.
  function splits(axis, low, high) {
    const found = [], base = axis.scale === "doubling" ? 2 : 10;
    for (let power = base ** Math.floor(Math.log(low) / Math.log(base)); power <= high; power *= base)
      for (let digit = 1; digit < base; digit++) if (power * digit >= low * 0.9999 && power * digit <= high * 1.0001) found.push(power * digit);
    return found;
  }

  const first = value => Number(value.toExponential(6)[0]);
  function axisOf(axis, size, side) {
    const log = axis.scale !== "linear";
    const values = (_, all) => {
      const decades = axis.scale !== "log" || all.filter(value => first(value) === 1).length > 1;
      return all.map(value => value === null || (axis.scale === "log" && first(value) !== 1 && (decades || ![2, 5].includes(first(value)))) ? "" : words(axis.unit, value));
    };
    const grid = { stroke: css("--grid"), width: 1 }, space = side === 2 ? 56 : 30;
    const ticks = log ? { splits: (_, __, low, high) => splits(axis, low, high), filter: (_, all) => all } : { space };
    return { stroke: css("--soft"), grid, ticks: grid, font: "11px system-ui", labelFont: "11px system-ui", labelSize: 16, label: axis.label, size, side, values, ...ticks };
  }

  const MARKS = {
    line: () => ({}), dashed: () => ({ dash: [5, 4] }), dotted: () => ({ dash: [1, 4] }), area: colour => ({ fill: colour + "33" }),
    points: colour => ({ paths: () => null, points: { show: true, size: 7, fill: colour } }),
    columns: colour => ({ fill: colour + "aa", paths: uPlot.paths.stepped({ align: 1 }) }),
  };

  function chart(model, place) {
    const tables = model.series.map(series => [series.x || model.series[0].x, series.y]);
    // Plots without a scale for zero or less have gaps there.
    const usable = (axis, value) => axis.scale === "linear" || value > 0;
    const clean = tables.map(([xs, ys]) => {
      const kept = xs.map((x, at) => at).filter(at => xs[at] !== null && usable(model.x, xs[at]));
      return [kept.map(at => xs[at]), kept.map(at => usable(model.y, ys[at]) ? ys[at] : null)];
    });
    const series = model.series.map(one => {
      const colour = css("--c" + one.colour), named = one.name || model.y.label;
      return { label: named, stroke: colour, width: 1.4, points: { show: false }, spanGaps: false, value: (_, value) => words(model.y.unit, value), ...MARKS[one.mark](colour) };
    });
    const same = model.series.every(one => !one.x || one === model.series[0]);
    const data = same ? [clean[0][0], ...clean.map(([, ys]) => ys)] : uPlot.join(clean);
    if (!same) series.forEach(one => one.spanGaps = true);
    const distribution = axis => axis.scale === "linear" ? {} : { distr: 3, log: axis.scale === "log" ? 10 : 2 };
    const options = {
      title: model.title, width: place.clientWidth, height: Math.max(220, Math.min(300, place.clientWidth * 0.5)),
      // A zoomed range is shown unchanged.
      scales: { x: { time: false, ...distribution(model.x), range: (_, low, high) => low < high ? [low, high] : [low - 0.5, high + 0.5] }, y: { ...distribution(model.y), range: range(model.y) } },
      axes: [axisOf(model.x, 32, 2), axisOf(model.y, model.y.unit.startsWith("bytes") ? 80 : 66, 3)],
      series: [{ label: model.x.label || "x", value: (_, value) => words(model.x.unit, value) }, ...series],
      cursor: { drag: { x: true, y: false } },
    };
    return new uPlot(options, data, place);
  }

  const charts = [];
  for (const model of models) {
    const figure = document.querySelector('figure[data-figure="' + model.name + '"]');
    const svg = figure.querySelector("svg"), tools = document.createElement("div");
    tools.className = "tools";
    tools.append(button("download SVG", model.name + ".svg", "image/svg+xml", () => drawing(svg)), button("download CSV", model.name + ".csv", "text/csv", () => table(model)));
    figure.append(tools);
    if (model.kind !== "plot" || !model.series.length) continue;
    const place = document.createElement("div");
    place.className = "chart";
    figure.prepend(place);
    charts.push({ model, place, svg, made: null });
  }
  function draw() {
    for (const one of charts) {
      if (one.made) one.made.destroy();
      one.svg.style.display = "none";
      one.made = one.place.plot = chart(one.model, one.place);
    }
  }
  draw();
  let width = document.documentElement.clientWidth;
  addEventListener("resize", () => {
    if (document.documentElement.clientWidth === width) return;
    width = document.documentElement.clientWidth;
    draw();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  // On paper the drawings of the page stand.
  addEventListener("beforeprint", () => charts.forEach(one => { one.place.style.display = "none"; one.svg.style.display = ""; }));
  addEventListener("afterprint", () => charts.forEach(one => { one.place.style.display = ""; one.svg.style.display = "none"; }));
})();
