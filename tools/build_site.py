#!/usr/bin/env python3
"""Builds the site: the pages of docs/, the pages that they link, the generated reference, and every figure; then mdBook makes it HTML.

    python3 tools/build_site.py --pellucid target/release/pellucid      all figures: half an hour the first time
    python3 tools/build_site.py --quick                                 without those of long runs: seconds

    docs/README.md ─► order of the pages ─┐
    docs/**, linked pages and files ──────┼─► target/site/src ─► mdBook ─► target/site/html
    the program, the Python sources ──────┘   (generated pages, figures)

Two comments in a page are filled in here; readers of the repository do not see them:

    <!-- site: TEXT -->                 TEXT, such as a row of a table that links a page which only the site has
    <!-- film: COMMAND -->              a still of the film that COMMAND records, which leads to it
    <!-- figures: COMMAND -->           the figures of the report that COMMAND writes; `figures, slow:` for minutes of work;
                                        `figures "Title":` for the one whose title begins so

A command of a figure runs in a folder of its own with `examples` in it. Figures of slow commands are kept in target/site/figures, by the
command and the program that made them.
"""
import argparse
import hashlib
import html
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import python_reference

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "target/site"
INDEX = "docs/README.md"
# Pages of the reference that the program prints: `pellucid reference NAME`.
PRINTED = ("keys", "workload", "commands", "statuses", "causes", "metrics")
LINK = re.compile(r"(\]\()([^)\s]+)(\))")
FENCE = re.compile(r"^(```.*?^```)", re.MULTILINE | re.DOTALL)
SITE = re.compile(r"<!-- site: (.*?) -->")
FIGURES = re.compile(r'^<!-- figures(?P<slow>, slow)?(?: "(?P<title>[^"]*)")?: (?P<command>.*?) -->$', re.MULTILINE)
FILM = re.compile(r"^<!-- film: (?P<command>.*?) -->$", re.MULTILINE)
DRAWN = re.compile(r"<figure[^>]*>(<svg.*?</svg>)(?:<figcaption>(.*?)</figcaption>)?</figure>", re.DOTALL)
BOOK = """\
[book]
title = "Pellucid"
description = "An open SSD in software"
language = "en"
src = "src"
[build]
build-dir = "html"
create-missing = false
use-default-preprocessors = false
[output.html]
no-section-label = true
[output.html.fold]
enable = true
level = 1
[output.html.print]
enable = false
[output.html.search]
limit-results = 20
"""


class SiteError(Exception):
    """Something in the pages cannot be built; the text names page and thing."""


def site_path(path: str) -> str:
    """Where a file of the repository stands in the site."""
    if path == INDEX:
        return "index.md"
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    if path.endswith(".md"):
        name = path.removesuffix("/README.md").removesuffix(".md").lower().replace("/", "-")
        return f"project/{name if name != 'readme' else 'tour'}.md"
    return f"files/{path}"


def relative(page: str, target: str) -> str:
    """The link from one path of the site to another."""
    return "../" * page.count("/") + target


def prose(text: str):
    """The text in parts, each with whether it is prose: fenced code is none."""
    for at, part in enumerate(FENCE.split(text)):
        yield part, at % 2 == 0


def title(text: str) -> str:
    """The heading of a page, without code marks."""
    found = re.search(r"^# (.*)$", text, re.MULTILINE)
    if not found:
        raise SiteError(f"a page without a heading: {text[:60]!r}")
    name = found[1].replace("`", "").removeprefix("Tutorial: ").strip()
    return name[:1].upper() + name[1:]


@dataclass
class Layout:
    """The pages and files of the site by their path in it; a page that is linked brings in the pages that it links."""

    pages: dict[str, str] = field(default_factory=dict)
    files: dict[str, Path] = field(default_factory=dict)

    def add(self, path: str, text: str | None = None) -> None:
        """Takes a page of the repository, with its links rewritten, and all that it links."""
        place = site_path(path)
        if place in self.pages:
            return
        self.pages[place] = ""
        text = (ROOT / path).read_text() if text is None else text
        text = SITE.sub(r"\1", text)
        parts = [LINK.sub(lambda link: self.link(path, link), part) if plain else part for part, plain in prose(text)]
        self.pages[place] = "".join(parts)

    def link(self, path: str, link: re.Match) -> str:
        target, _, anchor = link[2].partition("#")
        if not target or re.match(r"[a-z]+:", target):
            return link[0]
        found = (ROOT / path).parent / target
        name = str(found.resolve().relative_to(ROOT))
        if found.is_dir():
            name = self.folder(name)
        elif name.endswith(".md") and found.exists():
            self.add(name)
        elif found.is_file():
            self.files[site_path(name)] = found
        elif not name.startswith("docs/"):
            raise SiteError(f"{path}: {link[2]}: no such file")
        # A page below docs that is not there is generated, or mdBook's result has a broken link.
        return f"{link[1]}{relative(site_path(path), site_path(name))}{'#' if anchor else ''}{anchor}{link[3]}"

    def folder(self, name: str) -> str:
        """The page of a folder: its README, or the list of its files."""
        readme = f"{name}/README.md"
        if (ROOT / readme).exists():
            self.add(readme)
        else:
            files = sorted(path.name for path in (ROOT / name).iterdir() if path.is_file())
            self.add(readme, f"# {name}\n\n" + "".join(f"- [{file}]({file})\n" for file in files))
        return readme


def summary(index: str) -> list[tuple[str, list[tuple[str, list[str]]]]]:
    """Parts of the site, with their entries and what stands below each: from the tables of the index page.

    Links in the first cell of a row are entries; those in later cells stand below the last of these.
    """
    parts, seen = [], set()
    for block in re.split(r"^## ", index, flags=re.MULTILINE)[1:]:
        name, _, body = block.partition("\n")
        entries = []
        for row in re.findall(r"^\| (.*) \|$", body, re.MULTILINE):
            for at, cell in enumerate(row.split(" | ")):
                for _, target, _ in LINK.findall(cell):
                    target = target.partition("#")[0]
                    if target in seen or not target.endswith(".md"):
                        continue
                    seen.add(target)
                    if at == 0 or not entries:
                        entries.append((target, []))
                    else:
                        entries[-1][1].append(target)
        if entries:
            parts.append((name, entries))
    return parts


def write_summary(pages: dict[str, str]) -> str:
    """SUMMARY.md: every page once; those of no table stand under "Project"."""
    parts = summary(pages["index.md"])
    listed = {page for _, entries in parts for entry, below in entries for page in [entry, *below]}
    lost = sorted(listed - pages.keys())
    if lost:
        raise SiteError(f"listed in {INDEX} and not there: {', '.join(lost)}")
    rest = [(page, []) for page in sorted(pages) if page not in listed | {"index.md"}]
    out = "# Summary\n\n[Start](index.md)\n"
    for name, entries in [*parts, ("Project", rest)]:
        out += f"\n# {name}\n\n"
        for entry, below in entries:
            out += f"- [{title(pages[entry])}]({entry})\n"
            out += "".join(f"  - [{title(pages[page])}]({page})\n" for page in below)
    return out


@dataclass
class Program:
    """The program, and the figures that it has drawn."""

    path: Path
    quick: bool
    drawn: dict[str, list[tuple[str, str]]] = field(default_factory=dict)

    def run(self, arguments: list[str], where: Path = ROOT) -> str:
        done = subprocess.run([str(self.path), *arguments], cwd=where, capture_output=True, text=True)
        if done.returncode != 0:
            raise SiteError(f"pellucid {shlex.join(arguments)}: exit status {done.returncode}\n{done.stderr}")
        return done.stdout

    def kept(self, command: str) -> Path:
        """The folder of a command's figures."""
        of = hashlib.sha256(command.encode() + self.path.read_bytes()).hexdigest()[:16]
        return OUT / "figures" / of

    def figures(self, command: str) -> list[tuple[str, str]]:
        """The drawings and captions of the report that the command writes, each drawing with its style."""
        if command not in self.drawn:
            folder = self.kept(command)
            if not (folder / "done").exists():
                self.draw(command, folder)
            self.drawn[command] = drawings((folder / "index.html").read_text())
        return self.drawn[command]

    def film(self, command: str) -> tuple[str, str]:
        """The page of the film that the command records, and its last frame."""
        self.figures(command)
        folder = self.kept(command)
        if not (folder / "film.html").exists():
            raise SiteError(f"film: {command}: the command records none; allowed: with --film")
        # The site has no report beside it.
        page = re.sub(r'<p><a href="index.html">.*?</a></p>', "", (folder / "film.html").read_text(), count=1)
        return page, (folder / "film.svg").read_text()

    def draw(self, command: str, folder: Path) -> None:
        name, *arguments = shlex.split(command)
        if name != "pellucid":
            raise SiteError(f"figures: {command}: allowed: a command of pellucid")
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        (folder / "examples").symlink_to(ROOT / "examples")
        print(f"figures: {command}", flush=True)
        self.run([*arguments, *([] if arguments == ["demo"] else ["--report", "report"])], folder)
        report = folder / ("demo-report" if arguments == ["demo"] else "report")
        for name in ("index.html", "film.html", "film.svg"):
            if (report / name).exists():
                (report / name).rename(folder / name)
        (folder / "done").touch()


def drawings(page: str) -> list[tuple[str, str]]:
    """The figures of a report: SVG files of their own, and captions."""
    styles = re.findall(r"<style>(.*?)</style>", page, re.DOTALL)
    style = "\n".join(line for line in "".join(styles).splitlines() if not line.startswith(("*", "body", "main", "header")))
    found = []
    for drawing, caption in DRAWN.findall(page):
        head, rest = drawing.split(">", 1)
        if "xmlns=" not in head:
            head = head.replace("<svg", '<svg xmlns="http://www.w3.org/2000/svg"', 1)
        found.append((f'{head}><style>{style}</style><rect class="paper" width="100%" height="100%"/>{rest}', caption))
    return found


def fill_figures(page: str, text: str, program: Program, files: dict[str, str]) -> str:
    """The page with its figures; new drawings go into `files`, by their path in the site."""

    def fill(found: re.Match) -> str:
        command = found["command"]
        if found["slow"] and program.quick and not (program.kept(command) / "done").exists():
            return f"*Figures of `{html.escape(command)}`: a long run, left out of this quick build (`make site` has them).*"
        drawn = [one for one in program.figures(command) if f'aria-label="{found["title"] or ""}' in one[0]]
        if not drawn:
            raise SiteError(f"{page}: {found[0]}: the report has no such figure")
        out = []
        for svg, caption in drawn:
            path = f"figures/{hashlib.sha256(svg.encode()).hexdigest()[:16]}.svg"
            files[path] = svg
            label = re.search(r'aria-label="([^"]*)"', svg)[1].partition(".")[0]
            out.append(f"![{label}]({relative(page, path)})\n\n*{label}. {caption}* (`{command}`)\n")
        return "\n".join(out)

    def play(found: re.Match) -> str:
        film, still = program.film(found["command"])
        of = hashlib.sha256(film.encode()).hexdigest()[:16]
        files[f"figures/{of}.html"], files[f"figures/{of}.svg"] = film, still
        link, image = relative(page, f"figures/{of}.html"), relative(page, f"figures/{of}.svg")
        return f"[![Blocks of a drive by their valid data]({image})]({link})\n\n*[The film]({link}): what each block held over time.* (`{found['command']}`)\n"

    return FIGURES.sub(fill, FILM.sub(play, text))


def presets_page(program: Program) -> str:
    """Every preset with its whole description."""
    names = re.findall(r"^(\S+)  +(\S.*)$", program.run(["presets"]), re.MULTILINE)
    if len(names) < 5:
        raise SiteError("pellucid presets lists too few drives")
    out = "# Descriptions of the presets\n\nPrinted by `pellucid show PRESET`: every key, its value, and the source of the value.\n"
    for name, about in names:
        out += f"\n## {name}\n\n{about}\n\n```toml\n{program.run(['show', name]).rstrip()}\n```\n"
    return out


def generated(program: Program) -> dict[str, str]:
    """Pages that the build makes, by their place in the site."""
    pages = {f"reference/{name}.md": program.run(["reference", name]) for name in PRINTED}
    pages["reference/python.md"] = python_reference.page(ROOT / "crates/python/python/pellucid")
    pages["reference/preset-descriptions.md"] = presets_page(program)
    return pages


def build(program: Program, mdbook: Path) -> Path:
    """Lays out the sources and has mdBook make the site; the folder of the HTML."""
    layout = Layout()
    layout.add(INDEX)
    pages = layout.pages | generated(program)
    texts = {"SUMMARY.md": write_summary(pages)}
    for page, text in pages.items():
        texts[page] = fill_figures(page, text, program, texts)
    source = OUT / "src"
    shutil.rmtree(source, ignore_errors=True)
    for path, text in texts.items():
        (source / path).parent.mkdir(parents=True, exist_ok=True)
        (source / path).write_text(text)
    for path, origin in layout.files.items():
        (source / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(origin, source / path)
    (OUT / "book.toml").write_text(BOOK)
    subprocess.run([str(mdbook), "build", str(OUT)], check=True, stdout=subprocess.DEVNULL)
    print(f"site: {len(pages)} pages, {sum(path.endswith('.svg') for path in texts)} figures: {OUT / 'html/index.html'}")
    return OUT / "html"


def main() -> int:
    parser = argparse.ArgumentParser(description="Builds the site in target/site.")
    parser.add_argument("--pellucid", type=Path, default=ROOT / "target/debug/pellucid")
    parser.add_argument("--mdbook", type=Path, default=ROOT / ".tools/bin/mdbook")
    parser.add_argument("--quick", action="store_true", help="leave out figures of long runs that are not there yet")
    arguments = parser.parse_args()
    try:
        build(Program(arguments.pellucid.resolve(), arguments.quick), arguments.mdbook.resolve())
    except (SiteError, subprocess.CalledProcessError) as error:
        print(f"site: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
