#!/usr/bin/env python3
"""Counts the code that the applications have for each level of the flash library, and puts it where it is used.

    python3 tools/level_lines.py            writes the table of docs/explanation/flash-library.md and what claim P6 reads
    python3 tools/level_lines.py --check    fails where either is out of date

A line of code is one that is neither empty nor a comment, outside of tests. What all engines of the cache share is counted once, beside them. File
system and graph engine have no files of their own for a level: there whole items are counted, and not the branches around them.
"""
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ENGINES = ROOT / "crates/kv/src/engine"
LIBRARY = ROOT / "crates/prism/src"
NUMBERS = ROOT / "crates/claims/src/prism/lines.csv"
DOCUMENT = ROOT / "docs/explanation/flash-library.md"
BEGIN, END = "<!-- made by tools/level_lines.py -->", "<!-- end -->"


@dataclass(frozen=True)
class Level:
    name: str
    published: int
    # Files of the cache that it has for this level and for no other, and what serves it in the library.
    application: tuple[str, ...]
    library: tuple[str, ...]
    decides: str
    runs_on: str


EVERYWHERE = "all four kinds of drive"
LEVELS = (
    Level("raw", 1450, ("blocks.rs", "access.rs"), ("raw.rs",),
          "block of each slab, time of erases, bad blocks, free reserve, data kept", EVERYWHERE),
    Level("function", 860, ("function.rs",), ("function",),
          "channel of each slab, free reserve, data kept", EVERYWHERE),
    Level("policy", 210, ("policy.rs",), ("policy",),
          "mapping and garbage collection of a range, by name", EVERYWHERE),
)


@dataclass(frozen=True)
class Other:
    """A further application of the paper's Table IV."""
    name: str
    level: str
    published: int
    # Files, and how the items in them begin that it has for this level and for no other; none: the whole file.
    sources: tuple[tuple[str, tuple[str, ...]], ...]
    decides: str


OTHERS = (
    Other("file system", "function", 660,
          (("crates/fs/src/library.rs", ()),
           ("crates/fs/src/volume.rs", ("pub struct FlashVolume", "impl FlashVolume")),
           ("crates/fs/src/backend.rs", ("pub struct FlashShape", "impl FlashShape", "pub struct FoundSegment", "pub enum Content", "impl Content"))),
          "channel and content of each segment, time of its release"),
    Other("graph engine", "policy", 490,
          (("crates/lab/src/application/graph.rs",
            ("type OnPolicy", "fn configured", "impl Storage for OnPolicy")),),
          "two ranges and the mapping of each"),
)
# The engine on a block drive: the policy engine is this and what is counted for it.
PLAIN = ("original.rs",)
SHARED = ("mod.rs", "writer.rs")


def code_lines(source: str) -> int:
    """Lines that hold code."""
    code = source.split("#[cfg(test)]\nmod tests")[0]
    stripped = (line.strip() for line in code.splitlines())
    return sum(1 for line in stripped if line and not line.startswith("//"))


def lines_of(folder: Path, names: tuple[str, ...]) -> int:
    found = [path for name in names for path in ([folder / name] if (folder / name).is_file() else sorted((folder / name).rglob("*.rs")))]
    if not found:
        raise SystemExit(f"{folder}: none of {', '.join(names)} is there")
    return sum(code_lines(path.read_text()) for path in found)


def item_lines(path: str, begins: str) -> int:
    """Lines of code of the item that begins so, to the brace in the first column that ends it."""
    lines = (ROOT / path).read_text().splitlines()
    starts = [at for at, line in enumerate(lines) if line.startswith(begins)]
    if len(starts) != 1:
        raise SystemExit(f"{path}: {len(starts)} items begin with {begins}")
    start = starts[0]
    one_line = lines[start].endswith(";")
    end = start if one_line else next(at for at in range(start, len(lines)) if lines[at] == "}")
    return code_lines("\n".join(lines[start:end + 1]))


def lines_of_other(other: Other) -> int:
    def of(path: str, items: tuple[str, ...]) -> int:
        return sum(item_lines(path, item) for item in items) if items else code_lines((ROOT / path).read_text())
    return sum(of(path, items) for path, items in other.sources)


def numbers() -> str:
    rows = [f"key-value cache,{level.name},{level.published},{lines_of(ENGINES, level.application)}" for level in LEVELS]
    rows += [f"{other.name},{other.level},{other.published},{lines_of_other(other)}" for other in OTHERS]
    return "\n".join(["application,level,published,lines", *rows]) + "\n"


def table() -> str:
    rows = [
        "| level | code of the cache | published | code of the library | decided by the cache | runs on |",
        "|---|---|---|---|---|---|",
    ]
    for level in LEVELS:
        application, library = lines_of(ENGINES, level.application), lines_of(LIBRARY, level.library)
        rows.append(f"| {level.name} | {application} | {level.published} | {library} | {level.decides} | {level.runs_on} |")
    plain, shared = lines_of(ENGINES, PLAIN), lines_of(ENGINES, SHARED)
    rows.append(f"| none: a block drive | {plain} | | | nothing | every block drive |")
    rows.append("")
    rows.append(f"Lines of code. The cache on the policy level is the cache for a block drive plus {lines_of(ENGINES, ('policy.rs',))} lines; "
                f"{shared} lines are shared by all engines.")
    rows += ["", "Each of the other two applications of Table IV uses one level. Only its items for that level are counted, not the branches around them:", "",
             "| application | level | code | published | decided by the application |", "|---|---|---|---|---|"]
    rows += [f"| {other.name} | {other.level} | {lines_of_other(other)} | {other.published} | {other.decides} |" for other in OTHERS]
    return "\n".join(rows)


def with_table(document: str) -> str:
    begin, end = document.index(BEGIN) + len(BEGIN), document.index(END)
    return f"{document[:begin]}\n{table()}\n{document[end:]}"


def out_of_date() -> list[str]:
    wanted = {NUMBERS: numbers(), DOCUMENT: with_table(DOCUMENT.read_text())}
    there = {path: path.read_text() if path.exists() else "" for path in wanted}
    return [str(path.relative_to(ROOT)) for path in wanted if there[path] != wanted[path]]


def main() -> int:
    if "--check" in sys.argv[1:]:
        stale = out_of_date()
        if stale:
            print(f"out of date: {', '.join(stale)}; python3 tools/level_lines.py writes them anew", file=sys.stderr)
        return 1 if stale else 0
    NUMBERS.write_text(numbers())
    DOCUMENT.write_text(with_table(DOCUMENT.read_text()))
    print(numbers(), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
