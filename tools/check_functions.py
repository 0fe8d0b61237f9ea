#!/usr/bin/env python3
"""Fails if a function is longer than 70 lines and not listed here with its reason, or a listed one is gone.

Lines count from the `fn` to its closing brace. Tests do not count.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

LINES_MAX = 70
# Crate and file, function, why it stays.
KNOWN = [
    ("report/src/sample.rs", "report", "a literal with a value for each field of a report"),
    ("serve/src/event/fields.rs", "fields", "an arm for each event: the compiler sees that none is missing"),
    ("workload/src/keys.rs", "apply", "an arm for each key of a job"),
]

HEAD = re.compile(r"^( *)(?:pub(?:\([^)]*\))? )?(?:const )?(?:unsafe )?(?:extern \"C\" )?fn (\w+)")


def functions(text: str) -> list[tuple[str, int]]:
    """The functions of a file with a body, and the lines of each."""
    lines = text.split("#[cfg(test)]\nmod tests {")[0].split("\n")
    found = []
    for first, line in enumerate(lines):
        head = HEAD.match(line)
        # A head may have a line for each parameter.
        opens = next((at for at in range(first, len(lines)) if lines[at].endswith(("{", ";", "}"))), None) if head else None
        if head is None or opens is None or not lines[opens].endswith("{"):
            continue
        last = next((at for at in range(opens, len(lines)) if lines[at] == head[1] + "}"), opens)
        found.append((head[2], last - first + 1))
    return found


def is_test(path: pathlib.Path) -> bool:
    return any(part.removesuffix(".rs") == "tests" or part.endswith("_tests.rs") for part in path.parts)


def complaints(crates: pathlib.Path, known: list[tuple[str, str, str]]) -> list[str]:
    """Functions that are too long, and exceptions that are none any more."""
    told, left = [], {(file, name) for file, name, _ in known}
    for path in sorted(crates.glob("*/src/**/*.rs")):
        inside = path.relative_to(crates)
        if is_test(inside):
            continue
        for name, lines in functions(path.read_text()):
            if lines <= LINES_MAX:
                continue
            key = (inside.as_posix(), name)
            if key in left:
                left.remove(key)
            else:
                told.append(f"{key[0]}: {name} has {lines} lines; allowed: {LINES_MAX}, or a reason in KNOWN of tools/check_functions.py")
    return told + [f"{file}: {name} is not too long; take it off KNOWN in tools/check_functions.py" for file, name in sorted(left)]


def main() -> int:
    told = complaints(ROOT / "crates", KNOWN)
    for line in told:
        print(f"functions: {line}", file=sys.stderr)
    if not told:
        print(f"functions: none is longer than {LINES_MAX} lines, but {len(KNOWN)} with a reason")
    return 1 if told else 0


if __name__ == "__main__":
    sys.exit(main())
