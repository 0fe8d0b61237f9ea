#!/usr/bin/env python3
"""Fails if a room of the workspace depends on one that it may not know.

The arrows are those of ARCHITECTURE.md ("The rooms"). Every kind of dependency counts, for tests and builds too: a room
whose tests need a drive is tested by the room that owns drives. A crate that is not in the table is refused, so that a new
room has to say where it stands.
"""
import json
import subprocess
import sys

PREFIX = "pellucid-"
ANYTHING = None
ALLOWED = {
    "setting-derive": set(),
    "setting": {"setting-derive", "text"},
    "flash": {"setting"},
    "text": set(),
    "output": set(),
    "media": {"flash", "setting"},
    "ftl": {"flash", "setting"},
    "wire": {"flash"},
    "device": {"media", "ftl", "flash", "setting"},
    "film": {"flash"},
    "host": {"ftl", "flash", "setting"},
    "prism": {"host", "ftl", "flash"},
    "kv": {"prism", "host", "flash", "setting"},
    "fs": {"prism", "host", "flash"},
    "graph": {"prism", "host", "flash"},
    "mount": {"fs", "prism", "host", "flash"},
    "graph-files": {"graph", "prism", "host", "flash"},
    "monitor": {"film", "device", "flash"},
    "target": {"text", "kv", "device", "host", "wire", "media", "ftl", "flash"},
    "serve": {"target", "monitor", "text", "kv", "prism", "device", "host", "wire", "media", "ftl", "flash"},
    "report": {"film", "output", "text", "device", "ftl", "flash"},
    "parquet-log": {"report", "flash"},
    "workload": {"report", "text", "flash", "ftl", "setting"},
    "spec": {"workload", "text", "kv", "device", "host", "media", "ftl", "flash", "setting"},
    "lab": {"spec", "workload", "report", "film", "output", "text", "kv", "fs", "graph", "prism", "device", "host", "media", "ftl", "flash"},
    "testing": {"lab", "spec", "workload", "report", "output", "prism", "device", "host", "media", "ftl", "flash"},
    "claims": {
        "testing", "lab", "spec", "workload", "report", "text", "kv", "fs", "graph", "prism", "device", "host", "media", "ftl", "flash",
    },
    "prism-c": ANYTHING,
    "cli": ANYTHING,
    "python": ANYTHING,
}


def room(crate: str) -> str | None:
    """The room of a crate of ours; None for a crate of others."""
    return crate.removeprefix(PREFIX) if crate.startswith(PREFIX) else None


def complaints(metadata: dict) -> list[str]:
    """What is wrong with the workspace described by `cargo metadata --no-deps`, one line each."""
    found = []
    for package in metadata["packages"]:
        name = package["name"]
        if room(name) not in ALLOWED:
            found.append(f"{name}: not a room; allowed: {', '.join(PREFIX + r for r in ALLOWED)}")
            continue
        allowed = ALLOWED[room(name)]
        if allowed is ANYTHING:
            continue
        for dependency in package["dependencies"]:
            target = room(dependency["name"])
            if target is not None and target not in allowed:
                kind = f" ({dependency['kind']}-dependency)" if dependency["kind"] else ""
                names = ", ".join(sorted(PREFIX + r for r in allowed)) or "none of the workspace"
                found.append(f"{name} -> {dependency['name']}{kind}: not allowed; allowed: {names}")
    return found


def main() -> int:
    command = ["cargo", "metadata", "--format-version", "1", "--no-deps", "--locked"]
    metadata = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    found = complaints(metadata)
    for line in found:
        print(f"dependency direction: {line}", file=sys.stderr)
    if not found:
        print(f"dependency direction: {len(metadata['packages'])} crates, no forbidden arrow")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
