"""Links and file names lead somewhere: in the documents, and from the sources into the documents."""

import re
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
INDEX = ROOT / "docs/README.md"
# Sources that name documents: in comments, in messages, in what tests read.
SOURCES = (".rs", ".py", ".sh", ".toml", ".yml", ".service", "Makefile", "Containerfile")


def documents() -> list[Path]:
    return sorted(path for pattern in ("*.md", "docs/**/*.md", "examples/**/*.md", "bench/*.md", "fuzz/*.md") for path in ROOT.glob(pattern))


def sources() -> list[Path]:
    rooms = [ROOT / room for room in ("crates", "tools", "presets", "examples", "bench", "fuzz/targets", "fuzz/fuzz_targets")]
    files = (path for room in rooms for path in room.rglob("*") if path.is_file() and path.name.endswith(SOURCES))
    return [ROOT / "Makefile", *sorted(files)]


def links(document: Path) -> list[str]:
    """Links to files of ours; what stands in code, or in a comment for the site, is no link."""
    text = re.sub(r"^```.*?^```|<!--.*?-->", "", document.read_text(), flags=re.MULTILINE | re.DOTALL)
    return [link for link in re.findall(r"\]\(([^)\s]+)\)", text) if not re.match(r"[a-z]+:", link)]


def anchors(document: Path) -> set[str]:
    """The names that headings get, as hosts of repositories make them."""
    headings = re.findall(r"^#+ (.*)$", document.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-") for heading in headings}


def broken_links(document: Path) -> list[str]:
    broken = []
    for link in links(document):
        path, _, anchor = link.partition("#")
        target = (document.parent / path).resolve() if path else document
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(target)):
            broken.append(link)
    return broken


def missing_files(document: Path) -> list[str]:
    """Source files named in passing: `crate/src/file.rs` from `crates` on, or a name that exists somewhere, or that the page's patch makes."""
    names = set(re.findall(r"`([\w./-]+\.(?:rs|py|sh))`", document.read_text()))
    places = [ROOT, ROOT / "crates", document.parent]
    rooms = [ROOT / "crates", ROOT / "tools", ROOT / "examples", ROOT / "bench"]
    patch = document.with_suffix(".patch")
    made = set(re.findall(r"^--- /dev/null\n\+\+\+ b/(\S+)$", patch.read_text(), re.MULTILINE)) if patch.exists() else set()
    found = lambda name: name in made or any((place / name).exists() for place in places) or any(any(room.rglob(name)) for room in rooms)
    return sorted(name for name in names if not found(name))


def missing_documents(source: Path) -> list[str]:
    """Pages that a source names by their path."""
    names = set(re.findall(r"\bdocs/[\w./-]+\.(?:md|svg)\b", source.read_text()))
    return sorted(name for name in names if not (ROOT / name).exists())


def unlisted_pages(index: Path) -> list[str]:
    """Pages beside an index and below that it does not link."""
    listed = {(index.parent / link.partition("#")[0]).resolve() for link in links(index)}
    return sorted(str(page) for page in index.parent.rglob("*.md") if page != index and page.resolve() not in listed)


class Documents(unittest.TestCase):
    def test_every_link_resolves(self):
        self.assertEqual({str(d): broken_links(d) for d in documents() if broken_links(d)}, {})

    def test_every_file_that_is_named_exists(self):
        self.assertEqual({str(d): missing_files(d) for d in documents() if missing_files(d)}, {})

    def test_every_page_that_a_source_names_exists(self):
        found = {str(s): missing_documents(s) for s in sources() if s.name != Path(__file__).name}
        self.assertEqual({name: missing for name, missing in found.items() if missing}, {})

    def test_the_index_lists_every_page(self):
        self.assertEqual(unlisted_pages(INDEX), [])

    def test_what_leads_nowhere_is_found(self):
        with tempfile.TemporaryDirectory() as directory:
            document = Path(directory, "document.md")
            document.write_text("[a](gone.md) [b](#nowhere) [c](#here) `gone.rs`\n# Here\n```\n[d](code.md)\n```\n")
            self.assertEqual(broken_links(document), ["gone.md", "#nowhere"])
            self.assertEqual(missing_files(document), ["gone.rs"])
            self.assertEqual(unlisted_pages(document), [])
            page = Path(directory, "below", "page.md")
            page.parent.mkdir()
            page.write_text("# Page\n")
            self.assertEqual(unlisted_pages(document), [str(page)])
            source = Path(directory, "source.rs")
            source.write_text("//! See docs/README.md and docs/gone.md.\n")
            self.assertEqual(missing_documents(source), ["docs/gone.md"])


if __name__ == "__main__":
    unittest.main()
