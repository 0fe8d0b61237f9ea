#!/usr/bin/env python3
"""Fails if files of a crate import each other in a circle that is not listed here with its reason, or a listed one is gone.

A circle is a strongly connected set of modules by their `use` lines, without tests, and without the arrows between a module and those below it.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

PATHS = "paths of one state machine, which hand work to each other: a read may have to evict, an eviction to write"
# Crate, a module of the circle, number of its modules, why it stays.
KNOWN = [
    ("claims", "bench", 8, "the bench keeps the studies that several claims share, and they run on it, some by the files of `described`"),
    ("cli", "args", 4, "the table of commands is what the parser parses"),
    ("cli", "subject", 4, "a run keeps what it came from, and is found again by it"),
    ("device", "shared", 3, "probes and timeline watch commands and operations, which carry their marks"),
    ("device", "direct::chunks", 2, "the refresh of chunks is a part of their namespace"),
    ("device", "block::core", 19, PATHS),
    ("device", "direct::zone_actions", 3, PATHS),
    ("film", "film", 2, "the recorder makes the film, which keeps its clock"),
    ("ftl", "translation", 2, "handles are streams of a translation"),
    ("ftl", "gc", 2, "GC asks for a victim, and the choice looks at what GC owns"),
    ("ftl", "zones", 2, "a mount makes the zones"),
    ("ftl", "log_block::core", 9, PATHS),
    ("ftl", "log_block::bast", 3, PATHS),
    ("ftl", "nameless_machine::core", 6, PATHS),
    ("ftl", "page_map::core", 5, "the core keeps its table, by which it is compiled, and both number pages by its shape"),
    ("graph-files", "tables", 3, "tables are read and written with the errors of input and output"),
    ("host", "cache::shape", 3, "the shape of a cache is that of its records and its head, which are cut by it"),
    ("host", "cache::core", 3, PATHS),
    ("host", "cache::fill", 2, PATHS),
    ("host", "cluster_buffer::config", 2, "memory is divided by the sizes of the table, which is made by the division"),
    ("lab", "drive::target", 3, "targets are drives of the driver, and it runs on them"),
    ("media", "config", 2, "integrity is configured, and knows the cells of the configuration"),
    ("media", "media", 3, "blocks, their states, and the store that keeps them"),
    ("prism", "function::io", 3, PATHS),
    ("prism", "monitor::route", 5, PATHS),
    ("prism", "policy::block_map::write", 2, PATHS),
    ("serve", "remote::connect", 4, "a connection finds out which command sets it carries, and they are sent over it"),
    ("spec", "schema", 4, "the description is read by its schema, and lists it"),
    ("target", "nvme::io", 10, "command sets, and the queues and pages that know them all"),
    ("target", "nvme::logs", 2, "discovery is a log page with entries of the controller"),
    ("wire", "memcached::text", 2, "meta commands are words of the text protocol"),
    ("workload", "values", 2, "a key of a chunk job is a value like others"),
    ("workload", "trace::reader", 2, "a reader recognises its format, which is told by reading"),
]


def modules(source: pathlib.Path) -> dict[str, pathlib.Path]:
    """The modules of a crate by their paths; the root is the empty path."""
    found = {}
    for path in sorted(source.rglob("*.rs")):
        parts = list(path.relative_to(source).with_suffix("").parts)
        if "tests" in parts:
            continue
        if parts[-1] == "mod" or parts in (["lib"], ["main"]):
            parts.pop()
        found["::".join(parts)] = path
    return found


def imports(text: str) -> list[list[str]]:
    """The paths of the `use` lines of a file, without its tests."""
    text = text.split("#[cfg(test)]\nmod tests {")[0]
    paths = []

    def expand(prefix: str, body: str):
        if "{" not in body:
            paths.append((prefix + body).split("::"))
            return
        head, rest = body.split("{", 1)
        depth, item = 0, ""
        for char in rest[: rest.rindex("}")] + ",":
            if char == "," and depth == 0:
                if item:
                    expand(prefix + head, item)
                item = ""
                continue
            depth += {"{": 1, "}": -1}.get(char, 0)
            item += char

    for body in re.findall(r"^ *(?:pub(?:\([^)]*\))? )?use ([\w:{}*, \n]+);", text, re.MULTILINE):
        expand("", re.sub(r"\s+", "", body))
    return paths


def arrows(source: pathlib.Path) -> dict[str, set[str]]:
    """Which modules each module imports from, but those above and below it."""
    known = modules(source)

    def is_above(one: str, other: str) -> bool:
        return one == "" or other.startswith(one + "::")

    graph = {module: set() for module in known}
    for module, path in known.items():
        here = module.split("::") if module else []
        for parts in imports(path.read_text()):
            if parts[0] == "crate":
                parts = parts[1:]
            elif parts[0] in ("super", "self"):
                base = list(here)
                while parts and parts[0] in ("super", "self"):
                    base = base[:-1] if parts[0] == "super" else base
                    parts = parts[1:]
                parts = base + parts
            elif "::".join([*here, parts[0]]) in known:
                parts = here + parts
            else:
                continue
            while parts and "::".join(parts) not in known:
                parts = parts[:-1]
            target = "::".join(parts)
            if target != module and not is_above(target, module) and not is_above(module, target):
                graph[module].add(target)
    return graph


def circles(graph: dict[str, set[str]]) -> list[set[str]]:
    """The sets of modules that reach each other."""

    def reached(start: str) -> set[str]:
        seen, left = set(), [start]
        while left:
            for target in graph[left.pop()] - seen:
                seen.add(target)
                left.append(target)
        return seen

    reach = {module: reached(module) for module in graph}
    found = []
    for module in sorted(graph):
        circle = {other for other in reach[module] if module in reach[other]}
        if len(circle) > 1 and circle not in found:
            found.append(circle)
    return found


def complaints(crates: pathlib.Path, known: list[tuple[str, str, int, str]]) -> list[str]:
    """What differs between the circles of all crates and those that are known, one line each."""
    told = []
    left = list(known)
    for crate in sorted(path.parent.name for path in crates.glob("*/src")):
        for circle in circles(arrows(crates / crate / "src")):
            match = next((entry for entry in left if entry[0] == crate and entry[1] in circle), None)
            if match is None:
                told.append(f"{crate}: a circle of {', '.join(sorted(circle))}; allowed: those of KNOWN in tools/check_circles.py")
                continue
            left.remove(match)
            if len(circle) != match[2]:
                told.append(f"{crate}: the circle of {match[1]} has {len(circle)} modules, not {match[2]}: {', '.join(sorted(circle))}")
    return told + [f"{crate}: no circle of {module} any more; take it off KNOWN in tools/check_circles.py" for crate, module, _, _ in left]


def main() -> int:
    told = complaints(ROOT / "crates", KNOWN)
    for line in told:
        print(f"circles: {line}", file=sys.stderr)
    if not told:
        print(f"circles: {len(KNOWN)}, each with its reason")
    return 1 if told else 0


if __name__ == "__main__":
    sys.exit(main())
