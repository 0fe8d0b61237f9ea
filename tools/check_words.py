#!/usr/bin/env python3
"""Refuses, in doc comments and documents, openings and words that slow a reader down; CONTRIBUTING.md says why ("Words").

A doc comment begins with a verb or a noun and is complete by itself. Where the field has a word, that word is used. Pages that the program
generates are left out, and code inside of comments and pages is no prose.

To allow one place, add it to EXCEPTIONS with its reason.
"""

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

GENERATED = re.compile(r"Generated from the code by `pellucid|This page is made from the sources")
OPENING = re.compile(r"(Those|The same|What|That|Whether|Who|Whoever|Of)\b")

# A pattern, and what to write instead.
WORDS = [
    (r"\bstripes?\b", "superpage; of data over channels: spread"),
    (r"\bwhoever\b", "the caller, the client, the host"),
    (r"\b(guest room|last resort)\b", "GC reserve, emergency"),
    (r"\b(condemned|buried)\b", "retired, failed"),
    (r"\btaps?\b", "probe, meter; as a verb: observe"),
    (r"\btrespass\w*", "out of range"),
    (r"\brelocat\w+", "GC copy"),
    (r"(?<!garbage )(?<!Garbage )\bcollections?\b", "garbage collection (GC)"),
    (r"\bledger\b", "in-flight table"),
    (r"\b(un)?mended\b", "corrected (bits), repaired (state), fixed (bug)"),
    (r"\b(bring|brings|brought) near\b", "prefetch"),
    (r"\bforgetting\b", "discard"),
    (r"\bbegins? rest\b", "quiesce"),
    (r"\bways? of an? (write|read|request|command)\b", "write path, read path"),
    (r"\blets? in\b", "admit, submit"),
    (r"\bin vain\b", "without effect; say which effect is missing"),
    (r"\beverybody\b", "all clients, all readers"),
    (r"\bwhat (lies|moves|stands)\b", "a noun: the data, the block, the layer"),
]
WORDS = [(re.compile(pattern, re.IGNORECASE), instead) for pattern, instead in WORDS]

# (file, text of the match): why it may stay.
EXCEPTIONS: dict[tuple[str, str], str] = {
    ("docs/explanation/papers/beyond.md", "collection"): "the text of claim B1 in crates/claims/src/table.rs",
}


@dataclass(frozen=True)
class Prose:
    """A paragraph: the line on which it begins, and its text; `opens`: it begins a comment, or a paragraph of a page."""

    line: int
    text: str
    opens: bool


def without_code(text: str) -> str:
    """The text without code and the targets of links."""
    return re.sub(r"\]\([^)]*\)", "]", re.sub(r"`[^`]*`", "``", text))


def comments(source: str) -> Iterator[Prose]:
    """The paragraphs of doc comments."""
    start, lines, fenced, opens = 0, [], False, False
    for number, line in enumerate([*source.splitlines(), ""], 1):
        found = re.match(r"\s*//[/!] ?(.*)", line)
        body = found[1].strip() if found else ""
        if body.startswith("```"):
            fenced, body = not fenced, ""
        if not found:
            fenced = False
        if found and body and not fenced:
            if not lines:
                start = number
            lines.append(body)
        elif lines:
            yield Prose(start, " ".join(lines), True)
            lines = []


def pages(page: str) -> Iterator[Prose]:
    """The paragraphs and list items of a document; rows of tables open nothing."""
    start, lines, fenced = 0, [], False
    for number, line in enumerate([*page.splitlines(), ""], 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
            line = ""
        body = "" if fenced else line.strip()
        item = re.match(r"(?:[-*]|\d+\.) +(.*)", body)
        if lines and (not body or item or body.startswith(("|", "#"))):
            yield Prose(start, " ".join(lines), True)
            lines = []
        if body.startswith(("|", "#", "<!--")):
            yield Prose(number, body, False)
        elif body:
            if not lines:
                start = number
            lines.append(item[1] if item else body)


def complaints(name: str, text: str) -> list[str]:
    """Everything wrong in a file, one line each."""
    if name.endswith(".md") and GENERATED.search(text):
        return []
    found = []
    for prose in comments(text) if name.endswith(".rs") else pages(text):
        opening = OPENING.match(prose.text.lstrip("*"))
        if opening and prose.opens and not prose.text.endswith("?"):
            found.append(f"{name}:{prose.line}: begins with {opening[1]!r}: begin with a verb (functions) or a noun (types, fields)")
        plain = without_code(prose.text)
        for pattern, instead in WORDS:
            for match in pattern.finditer(plain):
                if (name, match[0]) not in EXCEPTIONS:
                    found.append(f"{name}:{prose.line}: {match[0]!r}: write {instead}")
    return found


def files() -> Iterator[Path]:
    yield from sorted((ROOT / "crates").rglob("*.rs"))
    for pattern in ("*.md", "docs/**/*.md", "examples/**/*.md", "bench/*.md", "fuzz/*.md"):
        yield from sorted(ROOT.glob(pattern))


def main() -> int:
    checked = list(files())
    found = [line for path in checked for line in complaints(str(path.relative_to(ROOT)), path.read_text())]
    for line in found:
        print(line, file=sys.stderr)
    if not found:
        print(f"words: {len(checked)} files, nothing to rewrite")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
