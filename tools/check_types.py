#!/usr/bin/env python3
"""Fails if a type has its methods in more than three files, or more than 50, is not listed here with its reason, or a listed one is gone.

A file is not an owner: a type whose methods are spread over files is several objects, and so is one with very many. Methods of traits and of
tests do not count.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

FILES_MAX = 3
# Crate, file of the type, type, number of files, why it stays.
KNOWN: list[tuple[str, str, str, int, str]] = []

METHODS_MAX = 50
# Crate, file of the type, type, number of methods, why it stays.
LARGE: list[tuple[str, str, str, int, str]] = [
    ("device", "device.rs", "Device", 62, "what tools ask of a whole drive; what goes on inside, namespaces and busy times are types of their own"),
]

DEFINITION = re.compile(r"^ *(?:pub(?:\([^)]*\))? )?(?:struct|enum|union) (\w+)", re.MULTILINE)
IMPL = re.compile(r"^impl(?:<[^{;]*?>)? (\w+)(?:<[^{;]*?>)?(?:\s+where[^{]*)?\s*\{$(.*?)^\}", re.MULTILINE | re.DOTALL)
METHOD = re.compile(r"^    (?:pub(?:\([^)]*\))? )?(?:const )?(?:unsafe )?fn ", re.MULTILINE)


def sources(source: pathlib.Path) -> dict[pathlib.PurePath, str]:
    """The files of a crate by their path below `src`, without tests."""
    found = {}
    for path in sorted(source.rglob("*.rs")):
        inside = path.relative_to(source)
        if "tests" not in inside.with_suffix("").parts:
            found[inside] = path.read_text().split("#[cfg(test)]\nmod tests {")[0]
    return found


def owner(path: pathlib.PurePath, homes: list[pathlib.PurePath]) -> pathlib.PurePath:
    """The definition that an impl in `path` is for: of several types of one name the nearest."""

    def nearness(home: pathlib.PurePath) -> tuple[bool, int, int]:
        here, there = path.with_suffix("").parts, home.with_suffix("").parts
        there = there[:-1] if there[-1] == "mod" else there
        common = next((at for at, pair in enumerate(zip(here, there)) if pair[0] != pair[1]), min(len(here), len(there)))
        return home == path, common, -len(there)

    return max(homes, key=nearness)


def files_of_types(source: pathlib.Path) -> dict[tuple[str, str], dict[str, int]]:
    """Of each type of a crate, by file of its definition and name: the files with methods of it, and how many."""
    files = sources(source)
    homes: dict[str, list[pathlib.PurePath]] = {}
    for path, text in files.items():
        for match in DEFINITION.finditer(text):
            homes.setdefault(match[1], []).append(path)
    types: dict[tuple[str, str], dict[str, int]] = {}
    for path, text in files.items():
        for match in IMPL.finditer(text):
            methods = len(METHOD.findall(match[2]))
            if match[1] in homes and methods > 0:
                found = types.setdefault((owner(path, homes[match[1]]).as_posix(), match[1]), {})
                found[path.as_posix()] = found.get(path.as_posix(), 0) + methods
    return types


def complaints(crates: pathlib.Path, known: list[tuple[str, str, str, int, str]], large: list[tuple[str, str, str, int, str]]) -> list[str]:
    """What differs between the types of all crates and the rules, one line each."""
    told = []
    left, left_large = ({(crate, home, name): count for crate, home, name, count, _ in listed} for listed in (known, large))
    for crate in sorted(path.parent.name for path in crates.glob("*/src")):
        for (home, name), files in sorted(files_of_types(crates / crate / "src").items()):
            key, methods = (crate, home, name), sum(files.values())
            if len(files) > FILES_MAX:
                allowed = left.pop(key, FILES_MAX)
                if len(files) != allowed:
                    told.append(f"{crate}: {name} of {home} has methods in {len(files)} files: {', '.join(sorted(files))}; allowed: {allowed}, or the number in KNOWN of tools/check_types.py")
            if methods > METHODS_MAX:
                allowed = left_large.pop(key, METHODS_MAX)
                if methods != allowed:
                    told.append(f"{crate}: {name} of {home} has {methods} methods; allowed: {allowed}, or the number in LARGE of tools/check_types.py")
    told += [f"{crate}: {name} of {home} has methods in no more than {FILES_MAX} files; take it off KNOWN in tools/check_types.py" for crate, home, name in left]
    return told + [f"{crate}: {name} of {home} has no more than {METHODS_MAX} methods; take it off LARGE in tools/check_types.py" for crate, home, name in left_large]


def main() -> int:
    told = complaints(ROOT / "crates", KNOWN, LARGE)
    for line in told:
        print(f"types: {line}", file=sys.stderr)
    if not told:
        print(f"types: none has its methods in more than {FILES_MAX} files, but {len(KNOWN)} with a reason; none has more than {METHODS_MAX}, but {len(LARGE)} with a reason")
    return 1 if told else 0


if __name__ == "__main__":
    sys.exit(main())
