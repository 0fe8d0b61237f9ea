"use strict";
// Blocks of a drive as a map: decodes frames (their format stands in film/src/lib.rs) and draws cells. One die beside the other, a row for
// each channel; in a die, cells from left to right and down.
const MAP_MODES = [["valid", "valid data"], ["stream", "stream"], ["wear", "wear"], ["age", "age of data"]];
const USE = { FREE: 0, FULL: 1, OPEN: 2, BAD: 3, ERASING: 4, VICTIM: 5 };
const LEVEL_MAX = 15;
const mapDark = () => matchMedia("(prefers-color-scheme: dark)").matches;
const blend = (a, b, share) => a.map((from, i) => Math.round(from + (b[i] - from) * share));
const rgb = hex => [1, 3, 5].map(at => parseInt(hex.slice(at, at + 2), 16));
// A colour between some; `share` from 0 to 1.
function between(colours, share) {
  const at = Math.min(Math.max(share, 0), 1) * (colours.length - 1), low = Math.min(Math.floor(at), colours.length - 2), part = at - low;
  return blend(rgb(colours[low]), rgb(colours[low + 1]), part);
}
function mapColours() {
  const dark = mapDark();
  return {
    free: rgb(dark ? "#1c232c" : "#e9edf2"), bad: rgb(dark ? "#000000" : "#3b4048"), before: rgb(dark ? "#4a5563" : "#b6c0cc"),
    full: dark ? ["#20344d", "#2f6bb5", "#9cc7ff"] : ["#dbe8f8", "#5f9be0", "#123f80"],
    open: dark ? ["#1d4a3f", "#3fd0a8"] : ["#a9e3d1", "#0b8a68"],
    empty: rgb(dark ? "#4b3a22" : "#f4e2c4"),
    victim: rgb("#e0283c"), erasing: rgb("#ff8a1f"), erased: rgb("#ff3fa4"),
    wear: dark ? ["#25304a", "#7a4fb3", "#f28a4b", "#ffe27a"] : ["#f2edd9", "#f0a35c", "#b2357b", "#2c125f"],
    age: dark ? ["#ffe27a", "#3fa7a0", "#2b3f6b"] : ["#ffd34d", "#2f9a93", "#26386b"],
    streams: (dark ? ["#1c232c", "#6ea8ff", "#3f6fb3", "#ff9d4d", "#f07cc6", "#a98bff", "#3fcfb4", "#e3bd3a", "#6ea8ff"]
      : ["#e9edf2", "#2468d8", "#8fb4ee", "#d4620a", "#b8338f", "#7450d8", "#0b8a76", "#a87f00", "#2468d8"]).map(rgb),
    // None of them is the colour of another stream.
    handles: ["#cf3a3a", "#5d8a1a", "#00a3c7", "#80502c", "#e8729a", "#4a4fa3", "#64748b", "#b5c200"].map(rgb),
  };
}

class DriveMap {
  // `grid`, `uses` and `streams` are those of the film or frame.
  constructor(canvas, { grid, uses, streams }) {
    Object.assign(this, { canvas, grid, uses, streams });
    this.count = grid.channels * grid.dies_per_channel * grid.cells_per_die;
    // About twice as wide as high.
    const wide = Math.sqrt(2 * grid.cells_per_die * grid.channels / Math.max(1, grid.dies_per_channel));
    this.columns = Math.min(grid.cells_per_die, Math.max(1, Math.round(wide)));
    this.rows = Math.ceil(grid.cells_per_die / this.columns);
    this.gap = Math.max(1, Math.round(Math.min(this.columns, this.rows) / 16));
    this.width = grid.dies_per_channel * (this.columns + this.gap) - this.gap;
    this.height = grid.channels * (this.rows + this.gap) - this.gap;
    this.pixels = document.createElement("canvas");
    [this.pixels.width, this.pixels.height] = [this.width, this.height];
    this.reset();
  }

  reset() {
    this.level = new Uint8Array(this.count);
    this.usage = new Uint8Array(this.count);
    this.stream = new Uint8Array(this.count);
    this.erases = new Uint32Array(this.count);
    this.born = new Float64Array(this.count).fill(-1);
    this.mark = new Int32Array(this.count).fill(-1);
    this.frame = -1;
  }

  // Applies the changes of the next frame, which is one of the moment `at`.
  apply(bytes, at) {
    this.frame++;
    let next = 0;
    const varint = () => {
      for (let value = 0, shift = 1; ; shift *= 128) {
        const byte = bytes[next++];
        value += (byte & 127) * shift;
        if (byte < 128) return value;
      }
    };
    for (let cell = 0; next < bytes.length;) {
      cell += varint();
      const head = varint(), content = bytes[next++], first = this.frame === 0;
      const stream = head & 1 ? bytes[next++] : -1, erases = head & 2 ? varint() : -1;
      for (const end = cell + (head >>> 2); cell < end; cell++) this.change(cell, content >> 3, content & 7, stream, erases, first, at);
    }
  }

  change(cell, level, usage, stream, erases, first, at) {
    const wiped = erases >= 0 && !first;
    if (wiped) this.mark[cell] = this.frame;
    if (!first && (wiped || (usage === USE.OPEN && this.usage[cell] !== USE.OPEN))) this.born[cell] = at;
    [this.level[cell], this.usage[cell]] = [level, usage];
    if (stream >= 0) this.stream[cell] = stream;
    if (erases >= 0) this.erases[cell] = erases;
  }

  // A whole frame in place of what there is, where frames do not follow each other; what differs has happened since.
  replace(bytes, at) {
    const now = new DriveMap(this.canvas, this);
    now.apply(bytes, at);
    if (this.frame < 0) this.frame = 0, this.copy(now);
    else {
      this.frame++;
      for (let cell = 0; cell < this.count; cell++) {
        const erases = now.erases[cell] !== this.erases[cell] ? now.erases[cell] : -1;
        this.change(cell, now.level[cell], now.usage[cell], now.stream[cell], erases, false, at);
      }
    }
  }

  copy(other) {
    for (const part of ["level", "usage", "stream", "erases"]) this[part].set(other[part]);
  }

  wearRange() {
    let [least, most] = [Infinity, 0];
    for (let cell = 0; cell < this.count; cell++) if (this.usage[cell] !== USE.BAD) {
      least = Math.min(least, this.erases[cell]);
      most = Math.max(most, this.erases[cell]);
    }
    return [least === Infinity ? 0 : least, most];
  }

  colour(cell, mode, colours, at, [least, most]) {
    // Blocks erased since the last frame are marked over their present contents.
    if (this.frame > 0 && this.mark[cell] === this.frame) return blend(this.held(cell, mode, colours, at, [least, most]), colours.erased, 0.6);
    return this.held(cell, mode, colours, at, [least, most]);
  }

  // The colour of what a cell holds.
  held(cell, mode, colours, at, [least, most]) {
    const usage = this.usage[cell];
    if (usage === USE.BAD) return colours.bad;
    if (mode === "wear") return between(colours.wear, (this.erases[cell] - least) / Math.max(1, most - least));
    if (usage === USE.VICTIM) return colours.victim;
    if (usage === USE.ERASING) return colours.erasing;
    if (usage === USE.FREE && !this.level[cell]) return colours.free;
    if (mode === "stream") {
      const code = this.stream[cell], named = colours.streams.length;
      return code < named ? colours.streams[code] : colours.handles[(code - named) % colours.handles.length];
    }
    if (mode === "age") {
      if (this.born[cell] < 0) return colours.before;
      return between(colours.age, Math.sqrt((at - this.born[cell]) / Math.max(1, at)));
    }
    if (usage === USE.OPEN) return between(colours.open, this.level[cell] / LEVEL_MAX);
    return this.level[cell] ? between(colours.full, (this.level[cell] - 1) / (LEVEL_MAX - 1)) : colours.empty;
  }

  // Place of a cell in the drawing.
  place(cell) {
    const { cells_per_die, dies_per_channel } = this.grid, die = Math.floor(cell / cells_per_die), at = cell % cells_per_die;
    const x = die % dies_per_channel * (this.columns + this.gap) + at % this.columns;
    return [x, Math.floor(die / dies_per_channel) * (this.rows + this.gap) + Math.floor(at / this.columns)];
  }

  // Draws the cells as they were at the moment `at`; `range`: erases of the least and the most worn cell of the scale.
  draw(mode, at, range = this.wearRange()) {
    const image = new ImageData(this.width, this.height), colours = mapColours(), seen = new Map();
    for (let cell = 0; cell < this.count; cell++) {
      const marked = this.frame > 0 && this.mark[cell] === this.frame;
      const key = mode === "age" || marked ? -1 : mode === "wear" ? this.erases[cell] * 8 + this.usage[cell]
        : (this.stream[cell] * 16 + this.level[cell]) * 8 + this.usage[cell];
      let colour = key === -1 ? undefined : seen.get(key);
      if (!colour) seen.set(key, colour = this.colour(cell, mode, colours, at, range));
      const [x, y] = this.place(cell), offset = (y * this.width + x) * 4;
      [image.data[offset], image.data[offset + 1], image.data[offset + 2], image.data[offset + 3]] = [...colour, 255];
    }
    this.pixels.getContext("2d").putImageData(image, 0, 0);
    const canvas = this.canvas, room = (canvas.parentElement.clientWidth || 600) * (window.devicePixelRatio || 1);
    const scale = Math.max(1, Math.min(14, Math.floor(room / this.width)));
    [canvas.width, canvas.height] = [this.width * scale, this.height * scale];
    canvas.style.imageRendering = this.width > room ? "auto" : "pixelated";
    const context = canvas.getContext("2d");
    context.imageSmoothingEnabled = false;
    context.drawImage(this.pixels, 0, 0, canvas.width, canvas.height);
  }

  // The cell under a pointer; `null`: none.
  under(event) {
    const box = this.canvas.getBoundingClientRect(), { cells_per_die, dies_per_channel, channels } = this.grid;
    const x = Math.floor((event.clientX - box.left) / box.width * this.width), y = Math.floor((event.clientY - box.top) / box.height * this.height);
    const [way, channel] = [Math.floor(x / (this.columns + this.gap)), Math.floor(y / (this.rows + this.gap))];
    const [column, row] = [x % (this.columns + this.gap), y % (this.rows + this.gap)], at = row * this.columns + column;
    const inside = column < this.columns && row < this.rows && at < cells_per_die && way >= 0 && way < dies_per_channel && channel >= 0 && channel < channels;
    return inside ? (channel * dies_per_channel + way) * cells_per_die + at : null;
  }

  // Describes a cell in words; `age` describes a difference of times.
  words(cell, at, age) {
    const { cells_per_die, dies_per_channel, blocks_per_cell, blocks_per_die } = this.grid;
    const die = Math.floor(cell / cells_per_die), first = cell % cells_per_die * blocks_per_cell;
    const last = Math.min(first + blocks_per_cell, blocks_per_die) - 1, usage = this.usage[cell];
    const share = this.level[cell] === LEVEL_MAX ? "all" : this.level[cell] ? "about " + Math.round((this.level[cell] - 0.5) / (LEVEL_MAX - 1) * 100) + " %" : "nothing";
    const code = this.stream[cell], stream = this.streams[code] || "placement handle " + (code - this.streams.length + 1);
    const parts = ["channel " + Math.floor(die / dies_per_channel) + ", way " + die % dies_per_channel + ", block" + (first === last ? " " + first : "s " + first + "-" + last) + ": " + this.uses[usage]];
    if (usage !== USE.FREE || this.level[cell]) parts.push(share + " valid", stream);
    parts.push("erased " + (this.erases[cell] / (last - first + 1)).toLocaleString("en", { maximumFractionDigits: 1 }) + " times");
    if (usage !== USE.FREE && this.born[cell] >= 0 && age) parts.push("opened " + age(at - this.born[cell]) + " ago");
    return parts.join(", ");
  }
}

// The legend of a mode's colours, as elements.
function mapLegend(mode, streams, used, range) {
  const colours = mapColours(), css = c => "rgb(" + c.join(",") + ")", items = [];
  const item = (words, background) => {
    const mark = document.createElement("i"), label = document.createElement("span");
    mark.style.background = background;
    label.append(mark, words);
    items.push(label);
  };
  const ramp = list => "linear-gradient(90deg," + list.join(",") + ")";
  if (mode !== "wear") item("free", css(colours.free));
  if (mode === "valid") {
    item("full, few to all units valid", ramp(colours.full));
    item("nothing valid", css(colours.empty));
    item("takes data", ramp(colours.open));
  }
  if (mode === "stream") {
    for (const code of used) {
      const named = colours.streams.length, colour = code < named ? colours.streams[code] : colours.handles[(code - named) % colours.handles.length];
      if (code > 0) item(streams[code] || "placement handle " + (code - streams.length + 1), css(colour));
    }
  }
  if (mode === "wear") item("erases per cell, " + range[0] + " to " + range[1], ramp(colours.wear));
  if (mode === "age") {
    item("young to old", ramp(colours.age));
    item("opened before the first look", css(colours.before));
  }
  if (mode !== "wear") item("victim, being emptied", css(colours.victim));
  item("erased just now", css(colours.erased));
  item("bad", css(colours.bad));
  return items;
}
