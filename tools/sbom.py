#!/usr/bin/env python3
"""Writes a software bill of materials (CycloneDX 1.5, JSON) of the command: every package that goes into it, from `cargo metadata`.

Packages that only tests, build machines of other systems, or other programs of the workspace need are left out. The bill holds no date and no
random number, so equal sources give equal bytes.
Usage: sbom.py [OUT]
"""
import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = "pellucid-cli"
# Scripts that are inside the program's pages, beside their licences.
CARRIED = ROOT / "crates/report/vendor/uplot/README.md"


def metadata(host: str) -> dict:
    command = ["cargo", "metadata", "--format-version", "1", "--locked", "--filter-platform", host]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, cwd=ROOT).stdout)


def host() -> str:
    text = subprocess.run(["rustc", "-vV"], check=True, stdout=subprocess.PIPE, text=True).stdout
    return next(line.split()[1] for line in text.splitlines() if line.startswith("host:"))


def needed(data: dict) -> dict[str, list[str]]:
    """Packages in the program by their identifiers, each with those that it depends on; dependencies of tests do not count."""
    nodes = {node["id"]: node for node in data["resolve"]["nodes"]}
    (first,) = (package["id"] for package in data["packages"] if package["name"] == PROGRAM)
    found, waiting = {}, [first]
    while waiting:
        package = waiting.pop()
        if package in found:
            continue
        kinds = ((dep["pkg"], {kind["kind"] for kind in dep["dep_kinds"]}) for dep in nodes[package]["deps"])
        found[package] = sorted(other for other, kind in kinds if kind & {None, "build"})
        waiting += found[package]
    return found


def reference(package: dict) -> str:
    return f"pkg:cargo/{package['name']}@{package['version']}"


def component(package: dict) -> dict:
    entry = {"type": "library", "bom-ref": reference(package), "name": package["name"], "version": package["version"]}
    if package["license"]:
        entry["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
    if package["source"]:
        entry["purl"] = reference(package)
    if package["repository"]:
        entry["externalReferences"] = [{"type": "vcs", "url": package["repository"]}]
    return entry


def carried() -> dict:
    """The plotting library of the pages, by the first line of its README: `uPlot 1.6.32 by Leon Sorokin, MIT (LICENSE): ...`."""
    name, version, licence = re.match(r"(\S+) (\S+) by [^,]*, (\S+) ", CARRIED.read_text()).groups()
    found = f"pkg:npm/{name.lower()}@{version}"
    return {"type": "library", "bom-ref": found, "name": name, "version": version, "licenses": [{"expression": licence}], "purl": found}


def bill(data: dict) -> dict:
    packages = {package["id"]: package for package in data["packages"]}
    found = needed(data)
    (program,) = (packages[package] for package in found if packages[package]["name"] == PROGRAM)
    order = sorted(found, key=lambda package: reference(packages[package]))
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {**component(program), "type": "application"}},
        "components": [*(component(packages[package]) for package in order if packages[package] is not program), carried()],
        "dependencies": [
            {"ref": reference(packages[package]), "dependsOn": [reference(packages[other]) for other in found[package]]} for package in order
        ],
    }


def main() -> int:
    text = json.dumps(bill(metadata(host())), indent=1) + "\n"
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(text)
    else:
        print(text, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
