"""Links and file names in the documents lead somewhere."""

import re
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def documents() -> list[Path]:
    return sorted(path for pattern in ("*.md", "docs/**/*.md", "examples/**/*.md", "fuzz/*.md") for path in ROOT.glob(pattern))


def anchors(document: Path) -> set[str]:
    """The names that headings get, as hosts of repositories make them."""
    headings = re.findall(r"^#+ (.*)$", document.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-") for heading in headings}


def broken_links(document: Path) -> list[str]:
    broken = []
    for link in re.findall(r"\]\(([^)\s]+)\)", document.read_text()):
        path, _, anchor = link.partition("#")
        if re.match(r"[a-z]+:", link):
            continue
        target = (document.parent / path).resolve() if path else document
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(target)):
            broken.append(link)
    return broken


def missing_files(document: Path) -> list[str]:
    """Source files named in passing: `crate/src/file.rs` from `crates` on, or a name that exists somewhere."""
    names = set(re.findall(r"`([\w./-]+\.(?:rs|py|sh))`", document.read_text()))
    places = [ROOT, ROOT / "crates", document.parent]
    rooms = [ROOT / "crates", ROOT / "tools", ROOT / "examples", ROOT / "bench"]
    found = lambda name: any((place / name).exists() for place in places) or any(any(room.rglob(name)) for room in rooms)
    return sorted(name for name in names if not found(name))


class Documents(unittest.TestCase):
    def test_every_link_resolves(self):
        self.assertEqual({str(d): broken_links(d) for d in documents() if broken_links(d)}, {})

    def test_every_file_that_is_named_exists(self):
        self.assertEqual({str(d): missing_files(d) for d in documents() if missing_files(d)}, {})

    def test_what_leads_nowhere_is_found(self):
        with tempfile.TemporaryDirectory() as directory:
            document = Path(directory, "document.md")
            document.write_text("[a](gone.md) [b](#nowhere) [c](#here) `gone.rs`\n# Here\n")
            self.assertEqual(broken_links(document), ["gone.md", "#nowhere"])
            self.assertEqual(missing_files(document), ["gone.rs"])


if __name__ == "__main__":
    unittest.main()
