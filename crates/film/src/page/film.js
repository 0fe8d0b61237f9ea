// Plays films: one clock for all drives of the page.
(() => {
  const $ = id => document.getElementById(id);
  const make = (name, className, ...content) => {
    const element = document.createElement(name);
    if (className) element.className = className;
    element.append(...content);
    return element;
  };
  const scaled = (value, units) => {
    const [size, unit] = units.find(([size]) => Math.abs(value) >= size) || units[units.length - 1];
    return (value / size).toLocaleString("en", { maximumSignificantDigits: 3 }) + unit;
  };
  const time = ns => ns === null || ns === undefined ? "-" : scaled(ns, [[6e10, " min"], [1e9, " s"], [1e6, " ms"], [1e3, " us"], [1, " ns"]]);
  const bytes = n => scaled(n, [[1e12, " TB"], [1e9, " GB"], [1e6, " MB"], [1e3, " kB"], [1, " B"]]);
  const count = n => n.toLocaleString("en");

  // A film takes so long at speed 1.
  const PLAY_MS = 30000, STEPS = 1000;
  const films = JSON.parse($("films").textContent);
  const by_time = films[0].clock === "simulated_ns", tell = by_time ? time : n => bytes(n) + " written";
  const end = Math.max(...films.map(film => film.at[film.at.length - 1]), 1);
  let now = 0, playing = false, panels = [];

  const css = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const COLOURS = { "read p99": "--c0", "read p50": "--c4", "write p99": "--c1", "write p50": "--c5" };

  // The last place of a rising list whose value is at most `x`.
  function placeOf(list, x) {
    let low = 0, high = list.length;
    while (high - low > 1) {
      const middle = low + high >> 1;
      if (list[middle] <= x) low = middle; else high = middle;
    }
    return low;
  }

  class Panel {
    constructor(film) {
      this.film = film;
      const raw = Uint8Array.from(atob(film.frames), c => c.charCodeAt(0));
      let from = 0;
      this.frames = film.frame_bytes.map(length => raw.subarray(from, from += length));
      const canvas = make("canvas", "map");
      canvas.setAttribute("role", "img");
      canvas.setAttribute("aria-label", "Blocks of " + film.name + ", a row for each channel");
      this.where = make("p", "where", "point at a block");
      this.facts = make("dl", "facts");
      this.latency = make("div", "strip");
      this.work = make("div", "strip");
      const grid = film.grid, cell = grid.blocks_per_cell > 1 ? "; a cell is " + grid.blocks_per_cell + " blocks" : "";
      const shape = count(grid.channels * grid.dies_per_channel * grid.blocks_per_die) + " blocks; rows: " + grid.channels + " channels, columns: " + grid.dies_per_channel + " dies of each" + cell;
      this.element = make("section", "panel card", make("h2", "", film.name), make("p", "soft", shape), make("div", "frame", canvas), this.where, this.facts, this.latency, this.work);
      $("panels").append(this.element);
      this.map = new DriveMap(canvas, film);
      this.used = new Set();
      this.to(this.frames.length - 1);
      this.range = this.map.wearRange();
      this.map.reset();
      this.to(0);
      canvas.addEventListener("pointermove", event => { this.cell = this.map.under(event); this.point(); });
    }

    // Brings the cells to a frame.
    to(frame) {
      if (frame < this.map.frame) this.map.reset();
      while (this.map.frame < frame) {
        const next = this.map.frame + 1;
        this.map.apply(this.frames[next], this.film.at[next]);
        if (this.range === undefined) for (const code of this.map.stream) this.used.add(code);
      }
    }

    show(moment, mode) {
      const film = this.film, frame = placeOf(film.at, moment);
      this.to(frame);
      this.element.dataset.frame = frame;
      this.map.draw(mode, film.at[frame], this.range);
      this.point();
      const gained = column => film[column][frame] - film[column][Math.max(0, frame - 1)];
      const written = gained("host_written_bytes");
      const facts = [["victims", count(gained("victims"))], ["units copied", count(gained("copied_units"))], ["blocks erased", count(gained("erases"))],
        ["write amplification", written > 0 ? (gained("programmed_bytes") / written).toFixed(2) : "-"], ["free blocks", count(film.free_blocks[frame])]];
      const curves = film.curves, at = curves.seconds.length ? placeOf(curves.seconds, moment / 1e9) : 0;
      for (const curve of curves.curves) facts.push([curve.name, time(curve.ns[at])]);
      this.facts.replaceChildren(...facts.map(([name, value]) => make("div", "", make("dt", "", name), make("dd", "", value))));
      for (const plot of [this.latencyPlot, this.workPlot])
        if (plot) plot.setCursor({ left: plot.valToPos(moment / 1e9, "x"), top: 0 }, false);
    }

    point() {
      this.where.textContent = this.cell === null || this.cell === undefined ? "point at a block" : this.map.words(this.cell, this.film.at[this.map.frame], tell);
    }

    // Draws the strips; again when the width or the colours have changed.
    strips() {
      [this.latencyPlot, this.workPlot].forEach(plot => plot && plot.destroy());
      const { film } = this, width = Math.max(240, this.latency.clientWidth || this.element.clientWidth - 32);
      const axis = { stroke: css("--soft"), grid: { stroke: css("--grid"), width: 1 }, ticks: { stroke: css("--grid"), width: 1 }, font: "11px system-ui" };
      const hold = { cursor: { y: false, drag: { x: false, y: false }, bind: { mousemove: () => null, mouseleave: () => null } }, legend: { live: false } };
      const seek = plot => plot.over.addEventListener("click", event => set(plot.posToVal(event.offsetX, "x") * 1e9));
      const x = { time: false, range: [0, end / 1e9] };
      const curves = film.curves.curves;
      if (curves.length) {
        const series = curves.map(curve => ({ label: curve.name, stroke: css(COLOURS[curve.name] || "--c7"), width: 1.2, points: { show: false }, spanGaps: true }));
        this.latencyPlot = new uPlot({ ...hold, width, height: 150, title: "", scales: { x, y: { distr: 3 } },
          axes: [{ ...axis, size: 30, values: (_, all) => all.map(s => time(s * 1e9)) }, { ...axis, size: 62, values: (_, all) => all.map(ns => ns === null || Math.log10(ns) % 1 ? "" : time(ns)) }],
          series: [{}, ...series] }, [film.curves.seconds, ...curves.map(curve => curve.ns)], this.latency);
        seek(this.latencyPlot);
      }
      const difference = (list, at) => list[at] - list[at - 1], frames = film.at.map((_, at) => at);
      const ratio = frames.map(at => at && difference(film.host_written_bytes, at) > 0 ? difference(film.programmed_bytes, at) / difference(film.host_written_bytes, at) : null);
      // Ageing counts no writes of the host.
      const writes = ratio.some(value => value !== null);
      const victims = frames.map(at => at ? difference(film.victims, at) : null);
      this.workPlot = new uPlot({ ...hold, width, height: 150, scales: { x, y: { range: (_, __, most) => [0, Math.max(1, most * 1.05)] }, n: { range: (_, __, most) => [0, Math.max(1, most * 1.05)] } },
        axes: [{ ...axis, size: 30, values: (_, all) => all.map(v => by_time ? time(v * 1e9) : bytes(v * 1e9)) }, { ...axis, size: 62 }, { ...axis, side: 1, scale: "n", size: 46, grid: { show: false } }],
        series: [{}, { label: "write amplification", stroke: css("--c1"), width: 1.4, points: { show: false } },
          { label: "victims (right)", stroke: css("--c3"), width: 1, scale: "n", points: { show: false } }].filter((_, at) => at !== 1 || writes) },
        [film.at.map(at => at / 1e9), ratio, victims].filter((_, at) => at !== 1 || writes), this.work);
      seek(this.workPlot);
    }
  }

  function show() {
    const mode = $("mode").value;
    panels.forEach(panel => panel.show(now, mode));
    $("time").value = Math.round(now / end * STEPS);
    $("clock").textContent = tell(now) + " of " + tell(end);
    document.documentElement.dataset.shown = mode + " " + Math.round(now / end * STEPS);
  }
  function legend() {
    const used = [...new Set(panels.flatMap(panel => [...panel.used]))].sort((a, b) => a - b);
    const range = [Math.min(...panels.map(p => p.range[0])), Math.max(...panels.map(p => p.range[1]))];
    panels.forEach(panel => panel.range = range);
    $("legend").replaceChildren(...mapLegend($("mode").value, films[0].streams, used, range));
  }
  function set(moment) {
    now = Math.min(Math.max(moment, 0), end);
    show();
  }
  function play(on) {
    playing = on;
    $("play").textContent = on ? "Pause" : "Play";
    if (!on) return;
    if (now >= end) now = 0;
    let last = performance.now();
    const turn = moment => {
      if (!playing) return;
      set(now + (moment - last) / PLAY_MS * end * Number($("speed").value));
      last = moment;
      if (now >= end) play(false); else requestAnimationFrame(turn);
    };
    requestAnimationFrame(turn);
  }
  const redraw = () => { panels.forEach(panel => panel.strips()); legend(); show(); };

  for (const [value, words] of MAP_MODES) $("mode").append(new Option(words, value));
  $("time").max = STEPS;
  $("play").onclick = () => play(!playing);
  $("time").oninput = () => { play(false); set($("time").value / STEPS * end); };
  $("mode").onchange = () => { legend(); show(); };
  $("step").onclick = () => {
    play(false);
    const later = panels.map(panel => panel.film.at.find(at => at > now)).filter(at => at !== undefined);
    if (later.length) set(Math.min(...later));
  };
  panels = films.map(film => new Panel(film));
  // `#valid@0.5`: colour and share of the time to begin with.
  const wanted = /^#(?:([a-z]+)@)?([0-9.]+)$/.exec(location.hash);
  if (wanted && MAP_MODES.some(([value]) => value === wanted[1])) $("mode").value = wanted[1];
  if (wanted) now = Math.min(1, Number(wanted[2]) || 0) * end;
  redraw();
  addEventListener("resize", redraw);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
})();
