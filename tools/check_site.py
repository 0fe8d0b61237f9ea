#!/usr/bin/env python3
"""Checks a built site: its links and anchors, that nothing of it comes from another host, and that its search finds.

    python3 tools/check_site.py [target/site/html]
"""
import ast
import json
import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

ROOT = Path(__file__).resolve().parent.parent
SITE = ROOT / "target/site/html"
# Words, and the pages where a search for them must lead. Words are stems already, as the index holds them.
FOUND = {
    "victim": "reference/keys.html",
    "fuse": "how-to/mount-a-file-system.html",
    "nbdkit": "how-to/come-from/nbdkit.html",
    "lightnvm": "explanation/papers/lightnvm.html",
    "pytest": "reference/python.html",
    "wd1502faex": "reference/preset-descriptions.html",
    "prism_open": "reference/prism-c.html",
    "pellucid_uptime_second": "reference/metrics.html",
    "tutori": "index.html",
}
# Pages of mdBook's own that stand outside: the error page has addresses from the root of a host.
OUTSIDE = {"404.html"}
# Films have no text to search.
FILMS = "figures/"


class Page(HTMLParser):
    """Anchors, links and loaded files of a page; `turns` are the links to the next and the last page, which every page has."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.twice: set[str] = set()
        self.links: list[str] = []
        self.turns: list[str] = []
        self.loaded: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        for name in {values[key] for key in ("id", "name") if values.get(key) and (key == "id" or tag == "a")}:
            (self.twice if name in self.anchors else self.anchors).add(name)
        if tag == "a" and "href" in values:
            turns = re.search(r"\b(next|prev)\b", values.get("rel", ""))
            (self.turns if turns else self.links).append(values["href"])
        elif "src" in values:
            self.loaded.append(values["src"])
        elif tag == "link" and "href" in values:
            self.loaded.append(values["href"])


def pages(site: Path) -> dict[str, Page]:
    """All pages by their path in the site."""
    found = sorted(path for path in site.rglob("*.html") if path.name not in OUTSIDE)
    return {str(path.relative_to(site)): Page(path.read_text()) for path in found}


def target(site: Path, page: str, link: str) -> tuple[str, str]:
    """The path in the site that a link names, and the anchor."""
    path, _, anchor = link.partition("#")
    path = unquote(path)
    where = (site / page).parent / path if path else site / page
    where = where.resolve()
    return (str(where.relative_to(site.resolve())) if where.is_relative_to(site.resolve()) else "../" + path), unquote(anchor)


def broken(site: Path, all_pages: dict[str, Page]) -> list[str]:
    """Links that lead nowhere, files that are missing, and what another host would have to deliver."""
    found = []
    for name, page in all_pages.items():
        found += [f"{name}: anchor #{anchor} is there twice" for anchor in sorted(page.twice)]
        for link in [*page.links, *page.turns, *page.loaded]:
            if re.match(r"[a-z]+:", link) or link.startswith("//"):
                if link in page.loaded and not link.startswith("data:"):
                    found.append(f"{name}: loads {link} from another host")
                continue
            path, anchor = target(site, name, link)
            if path.startswith("..") or not (site / path).is_file():
                found.append(f"{name}: {link}: no such file")
            elif anchor and path in all_pages and anchor not in all_pages[path].anchors:
                found.append(f"{name}: {link}: no such anchor")
    return found


def unreachable(site: Path, all_pages: dict[str, Page]) -> list[str]:
    """Pages that no chain of links in the text leads to from the start; the list of all pages at the side is made by a script."""
    seen, queue = set(), ["index.html"]
    while queue:
        name = queue.pop()
        if name in seen or name not in all_pages:
            continue
        seen.add(name)
        queue += [target(site, name, link)[0] for link in all_pages[name].links if not re.match(r"[a-z]+:", link)]
    return sorted(set(all_pages) - seen - {"toc.html"})


class Search:
    """The index that the pages search: words as a tree of letters, with the sections that hold each."""

    def __init__(self, site: Path) -> None:
        files = sorted(site.glob("searchindex-*.js"))
        if len(files) != 1:
            raise SystemExit(f"{site}: {len(files)} search indexes; one is allowed")
        text = re.search(r"JSON\.parse\(('.*')\)", files[0].read_text(), re.DOTALL)[1]
        index = json.loads(ast.literal_eval(text))
        self._urls = index["doc_urls"]
        self._fields = index["index"]["index"]

    def find(self, word: str) -> set[str]:
        """The pages with a word that begins so."""
        found = set()
        for field in self._fields.values():
            node = field["root"]
            for letter in word:
                node = node.get(letter, {})
            found |= {self._urls[int(section)].partition("#")[0] for section in sections(node)}
        return found

    def covered(self) -> set[str]:
        """The pages that the index knows."""
        return {url.partition("#")[0] for url in self._urls}


def sections(node: dict) -> set[str]:
    """The sections of a node and of all below it."""
    found = set(node.get("docs", {}))
    for letter, below in node.items():
        if letter not in ("docs", "df"):
            found |= sections(below)
    return found


def lost_words(search: Search, words: dict[str, str]) -> list[str]:
    """Words whose page the search does not find."""
    return [f"search: {word}: {page} is not found" for word, page in words.items() if page not in search.find(word)]


def main() -> int:
    site = Path(sys.argv[1]) if len(sys.argv) > 1 else SITE
    all_pages = pages(site)
    if len(all_pages) < 50:
        print(f"{site}: {len(all_pages)} pages: too few to be the site", file=sys.stderr)
        return 1
    search = Search(site)
    found = broken(site, all_pages)
    found += [f"{page}: no link leads there" for page in unreachable(site, all_pages)]
    found += lost_words(search, FOUND)
    searched = {page for page in all_pages if not page.startswith(FILMS)} - {"toc.html"}
    found += [f"{page}: the search does not know it" for page in sorted(searched - search.covered())]
    for line in found:
        print(line, file=sys.stderr)
    links = sum(len(page.links) for page in all_pages.values())
    print(f"site: {len(all_pages)} pages, {links} links, {len(FOUND)} words searched: {len(found)} defects")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
