#!/usr/bin/env python3
"""Fails if a package that we depend on has a licence, a source or a version requirement that deny.toml does not allow.

`cargo metadata` lists every package of Cargo.lock, for all features and platforms. The rules are those of deny.toml, which
`make advisories` reads too; a rule of it that is not known here is refused, so that none is silently ignored. Two versions
of one crate are named and allowed.
"""
import collections
import json
import pathlib
import re
import subprocess
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent
KNOWN_RULES = {
    "graph": {"all-features"},
    "advisories": {"yanked"},
    "licenses": {"allow", "unused-allowed-license", "confidence-threshold"},
    "bans": {"multiple-versions", "wildcards", "allow-wildcard-paths"},
    "sources": {"unknown-registry", "unknown-git", "allow-registry"},
}


def is_allowed(expression: str, allowed: set[str]) -> bool:
    """Whether an SPDX licence expression can be met with the allowed licences alone.

    `A/B` is the old spelling of `A OR B`; `A WITH x` is one licence; AND binds closer than OR."""
    tokens = re.findall(r"[()]|[^\s()]+", expression.replace("/", " OR "))

    def either() -> bool:
        met = both()
        while tokens and tokens[0] == "OR":
            tokens.pop(0)
            met = both() or met
        return met

    def both() -> bool:
        met = one()
        while tokens and tokens[0] == "AND":
            tokens.pop(0)
            met = one() and met
        return met

    def one() -> bool:
        if not tokens or tokens[0] in (")", "AND", "OR", "WITH"):
            raise ValueError(expression)
        name = tokens.pop(0)
        if name == "(":
            met = either()
            if not tokens or tokens.pop(0) != ")":
                raise ValueError(expression)
            return met
        if len(tokens) > 1 and tokens[0] == "WITH":
            name = f"{name} WITH {tokens[1]}"
            del tokens[:2]
        return name in allowed

    met = either()
    if tokens:
        raise ValueError(expression)
    return met


def unknown_rules(rules: dict) -> list[str]:
    """Rules of deny.toml that this check does not know."""
    return [
        f"deny.toml: {table}.{key}: unknown to {pathlib.Path(__file__).name}"
        for table, keys in rules.items()
        for key in keys
        if key not in KNOWN_RULES.get(table, set())
    ]


def complaints(metadata: dict, rules: dict) -> list[str]:
    """What is wrong with the packages described by `cargo metadata`, one line each."""
    found = unknown_rules(rules)
    allowed = set(rules["licenses"]["allow"])
    registries = {f"registry+{url}" for url in rules["sources"]["allow-registry"]}
    for package in metadata["packages"]:
        name = f"{package['name']} {package['version']}"
        licence = package["license"]
        try:
            if licence is None:
                found.append(f"{name}: names no licence")
            elif not is_allowed(licence, allowed):
                found.append(f"{name}: licence {licence}: not allowed; allowed: {', '.join(sorted(allowed))}")
        except ValueError:
            found.append(f"{name}: licence {licence}: not an SPDX expression")
        if package["source"] is not None and package["source"] not in registries:
            found.append(f"{name}: source {package['source']}: not allowed; allowed: {', '.join(sorted(registries))}")
        if package["source"] is None:
            for dependency in package["dependencies"]:
                if dependency["req"] == "*" and not dependency.get("path"):
                    found.append(f"{name} -> {dependency['name']}: any version (*) is not allowed")
    return found


def several_versions(metadata: dict) -> list[str]:
    """Crates of which there is more than one version, one line each."""
    versions = collections.defaultdict(list)
    for package in metadata["packages"]:
        versions[package["name"]].append(package["version"])
    return [f"{name}: {', '.join(sorted(found))}" for name, found in sorted(versions.items()) if len(found) > 1]


def main() -> int:
    rules = tomllib.loads((ROOT / "deny.toml").read_text())
    command = ["cargo", "metadata", "--format-version", "1", "--all-features", "--locked"]
    metadata = json.loads(subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout)
    found = complaints(metadata, rules)
    for line in found:
        print(f"packages: {line}", file=sys.stderr)
    for line in several_versions(metadata):
        print(f"packages: several versions of {line}")
    if not found:
        print(f"packages: {len(metadata['packages'])} of allowed licence and source")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
