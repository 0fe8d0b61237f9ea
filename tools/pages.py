#!/usr/bin/env python3
"""Opens the pages that the command writes in a real browser: nothing may be wrong on the console, and figures and film do what they promise.

    python3 tools/pages.py [--pellucid target/debug/pellucid] [--pictures DIR]
"""
import argparse
import csv
import io
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from xml.etree import ElementTree

from browser import Browser

ROOT = Path(__file__).resolve().parent.parent
SMALL = ["--set", "media.blocks=48", "--set", "media.channels=2", "--set", "media.ways=4"]
WORK = ["--rw", "randrw", "--bs", "16k", "--iodepth", "32", "--number-ios", "40000", "--precondition", "fill", "--quiet"]
WIDTHS = (360, 1280)


class Pages:
    """The pages of one run and one comparison, and what was found wrong with them."""

    def __init__(self, browser: Browser, pictures: Path | None):
        self.browser, self.pictures, self.wrong = browser, pictures, []

    def expect(self, holds: bool, sentence: str):
        if not holds:
            self.wrong.append(f"{self.page}: {sentence}")

    def equal(self, found, wanted, what: str):
        self.expect(found == wanted, f"{what} is {found!r}, not {wanted!r}")

    def visit(self, page: Path, anchor: str = ""):
        """Opens a page at each width, light and dark: it must fit, and say nothing on the console."""
        self.page = page.name
        for width in WIDTHS:
            for dark in (False, True):
                self.browser.size(width, 900, dark)
                self.browser.open(page.resolve().as_uri() + anchor)
                wide = self.browser.run("document.documentElement.scrollWidth")
                self.expect(wide <= width, f"{wide} pixels wide in a window of {width}")
                if self.pictures:
                    name = f"{page.parent.name}-{page.stem}-{width}{'-dark' if dark else ''}.png"
                    self.browser.picture(self.pictures / name)
        self.browser.size(1280, 900)
        self.browser.open(page.resolve().as_uri() + anchor)

    def silent(self):
        for said in self.browser.said:
            self.wrong.append(f"{self.page}: the console says: {said}")
        self.browser.said.clear()

    def film(self, page: Path, drives: int):
        """The film has a map for each drive, scrubs, steps and plays, and its colours can be chosen."""
        self.visit(page)
        run = self.browser.run
        self.equal(run("document.querySelectorAll('.panel canvas.map').length"), drives, "the number of maps")
        frames = run("JSON.parse(document.getElementById('films').textContent).map(film => film.at.length)")
        self.expect(all(count > 10 for count in frames), f"films of {frames} frames")
        drawn = "[...document.querySelectorAll('canvas.map')].map(c => c.toDataURL()).join()"
        shown = "[...document.querySelectorAll('.panel')].map(p => Number(p.dataset.frame))"
        scrub = "(at => { const t = document.getElementById('time'); t.value = at; t.dispatchEvent(new Event('input')); })"
        self.equal(run(shown), [0] * drives, "the first frame")
        first = run(drawn)
        run(scrub + "(1000)")
        self.equal(run(shown), [count - 1 for count in frames], "the last frame")
        last = run(drawn)
        self.expect(first != last, "the map is the same at both ends")
        run(scrub + "(0)")
        self.equal(run(drawn) == first, True, "the map after scrubbing back, compared with the first one,")
        run("document.getElementById('step').click()")
        self.expect(max(run(shown)) == 1, "a step does not lead to the next frame")
        for mode in ("stream", "wear", "age", "valid"):
            run(f"(() => {{ const m = document.getElementById('mode'); m.value = '{mode}'; m.onchange(); }})()")
            self.expect(run("document.getElementById('legend').children.length") > 1, f"no legend for {mode}")
        run(scrub + "(0)")
        run("document.getElementById('speed').value = '3'; document.getElementById('play').click()")
        # As many turns as it takes.
        run("new Promise(done => { const look = () => document.documentElement.dataset.shown.endsWith(' 0') ? requestAnimationFrame(look) : done(); look(); })")
        self.equal(run("document.getElementById('play').textContent"), "Pause", "the button of a film that plays")
        run("document.getElementById('play').click()")
        self.equal(run("document.getElementById('play').textContent"), "Play", "the button of a film that waits")
        point = "(() => { const c = document.querySelector('canvas.map'), b = c.getBoundingClientRect(); c.dispatchEvent(new PointerEvent('pointermove', { clientX: b.left + 2, clientY: b.top + 2 })); })()"
        run(point)
        words = run("document.querySelector('.where').textContent")
        self.expect(words.startswith("channel 0, way 0, block 0: "), f"a block is called {words!r}")
        self.equal(run("document.querySelectorAll('.strip .uplot').length"), 2 * drives, "the number of plots")
        self.silent()


    def figures(self, page: Path, folder: Path):
        """Every figure is there, none is blank, plots can be hovered and zoomed, and what is taken away is the data of `figures.json`."""
        self.visit(page)
        run = self.browser.run
        models = json.loads((page.parent / "figures.json").read_text())
        self.equal(run("[...document.querySelectorAll('figure')].map(f => f.dataset.figure)"), [model["name"] for model in models], "the list of figures")
        taken = run("[...document.querySelectorAll('.tools button')].map(b => [b.dataset.file, b.content()])")
        files = dict(taken)
        self.equal(len(files), 2 * len(models), "the number of files to take away")
        for model in models:
            name = model["name"]
            lines = [list(map(read, line)) for line in csv.reader(io.StringIO(files[f"{name}.csv"]))][1:]
            self.expect(lines == table(model), f"the table of {name} has other data than figures.json")
            svg = files[f"{name}.svg"]
            ElementTree.fromstring(svg)
            self.expect("var(" not in svg and "<style" in svg, f"the drawing of {name} depends on the page")
            self.equal(run(f"({SHOWN})('{name}')"), "plot" if model["kind"] == "plot" else "svg", f"the figure {name}")
        saved = self.browser.download("document.querySelector('.tools button:last-child').click()", folder)
        self.equal(saved.read_text(), files[saved.name], "the file that is saved")
        name = next(model["name"] for model in models if model["kind"] == "plot")
        hovered = run(f"({HOVER})('{name}')")
        self.expect(hovered and all(words not in ("", "--") for words in hovered), f"hovering over {name} says {hovered}")
        for name in (model["name"] for model in models if model["kind"] == "plot"):
            whole = run(f"({LENGTH})('{name}')")
            self.browser.drag(f'figure[data-figure="{name}"] .u-over', 0.3, 0.6)
            zoomed = run(f"({LENGTH})('{name}')")
            self.expect(zoomed < whole / 1.5, f"zooming into {name} shows {zoomed} of {whole}")
        self.silent()


# How a figure is shown: as a plot that is not blank, or as a drawing.
SHOWN = """name => {
  const figure = document.querySelector(`figure[data-figure="${name}"]`), canvas = figure.querySelector('canvas'), svg = figure.querySelector('svg');
  if (!canvas) return svg.getBoundingClientRect().width > 100 ? 'svg' : 'nothing';
  const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
  const colours = new Set();
  for (let at = 0; at < data.length; at += 4) if (data[at + 3]) colours.add(data[at] << 16 | data[at + 1] << 8 | data[at + 2]);
  return colours.size > 3 && svg.style.display === 'none' ? 'plot' : 'a blank plot';
}"""
HOVER = """name => {
  const figure = document.querySelector(`figure[data-figure="${name}"]`), over = figure.querySelector('.u-over'), box = over.getBoundingClientRect();
  const at = { clientX: box.left + box.width / 2, clientY: box.top + box.height / 2, bubbles: true };
  over.dispatchEvent(new MouseEvent('mouseenter', at));
  over.dispatchEvent(new MouseEvent('mousemove', at));
  return new Promise(done => requestAnimationFrame(() => done([...figure.querySelectorAll('.u-legend .u-value')].map(v => v.textContent))));
}"""
# Length of the axis that can be zoomed.
LENGTH = """name => { const { min, max } = document.querySelector(`figure[data-figure="${name}"] .chart`).plot.scales.x; return max - min; }"""


def read(field: str) -> str | float | None:
    """A field of a table: a number, a gap, or text."""
    try:
        return float(field) if field else None
    except ValueError:
        return field


def table(model: dict) -> list[list]:
    """The lines of a figure's table, as they follow from its model."""
    lines: list[list] = []
    match model["kind"]:
        case "plot":
            first = model["series"][0]["x"]
            lines = [[s["name"] or None, x, y] for s in model["series"] for x, y in zip(s.get("x", first), s["y"])]
        case "bars":
            lines = [[c, s["name"] or None, v] for s in model["series"] for c, v in zip(model["categories"], s["values"])]
        case "gantt":
            lines = [[model["rows"][r], s["name"], b, e] for s in model["series"] for r, b, e in zip(s["row"], s["begin"], s["end"])]
        case "heat":
            columns = model.get("column_values", model["columns"])
            lines = [[r, c, v] for r, row in zip(model["rows"], model["values"]) for c, v in zip(columns, row)]
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pellucid", type=Path, default=ROOT / "target/debug/pellucid")
    parser.add_argument("--pictures", type=Path, help="write pictures of the pages here")
    options = parser.parse_args()
    program = options.pellucid.resolve()
    if options.pictures:
        options.pictures.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="pellucid-pages-") as folder, Browser() as browser:
        folder = Path(folder)
        subprocess.run([program, "run", "cosmos-plus", *SMALL, *WORK, "--report", folder / "one", "--film"], check=True, stdout=subprocess.DEVNULL)
        subprocess.run([program, "compare", "cosmos-plus", "cosmos-plus,ftl.victim=fifo", *SMALL, *WORK, "--report", folder / "two", "--film"], check=True,
                       stdout=subprocess.DEVNULL)
        pages = Pages(browser, options.pictures)
        pages.film(folder / "one/film.html", 1)
        pages.film(folder / "two/film.html", 2)
        for page in (folder / "one/index.html", folder / "two/index.html"):
            pages.figures(page, folder)
    for wrong in pages.wrong:
        print(f"pages: {wrong}", file=sys.stderr)
    if not pages.wrong:
        print("pages: report, comparison and films in a browser, nothing wrong")
    return 1 if pages.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
