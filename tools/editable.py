#!/usr/bin/env python3
"""Installs the Python package of this checkout where it is, into the environment whose Python runs this.

    python3 tools/editable.py target/debug/lib_pellucid.so

It gives what `pip install --editable .` gives, but from an engine that is compiled already. A build of the package alone would select other
features of the libraries that it shares with the command, and so compile the engine a second time. `make wheel` goes the way of users.
"""
import pathlib
import shutil
import sys
import sysconfig
import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[1]


def entry_points(project: dict) -> str:
    """The text of entry_points.txt, as the packaging specification has it."""
    groups = project.get("entry-points", {})
    return "".join(f"[{group}]\n" + "".join(f"{name} = {what}\n" for name, what in names.items()) for group, names in groups.items())


def install(library: pathlib.Path, packages: pathlib.Path):
    """Puts the library beside the Python sources, and names both to the environment."""
    tool = tomllib.loads((ROOT / "pyproject.toml").read_text())
    project, maturin = tool["project"], tool["tool"]["maturin"]
    version = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]
    sources = ROOT / maturin["python-source"]
    module = sources / (maturin["module-name"].replace(".", "/") + ".abi3.so")
    # Never written in place: a process may have it mapped.
    new = module.with_suffix(".new")
    shutil.copyfile(library, new)
    new.replace(module)
    for old in packages.glob(f"{project['name']}-*.dist-info"):
        shutil.rmtree(old)
    about = packages / f"{project['name']}-{version}.dist-info"
    about.mkdir()
    about.joinpath("METADATA").write_text(
        f"Metadata-Version: 2.4\nName: {project['name']}\nVersion: {version}\nRequires-Python: {project['requires-python']}\n")
    about.joinpath("INSTALLER").write_text("editable.py\n")
    about.joinpath("entry_points.txt").write_text(entry_points(project))
    packages.joinpath(f"{project['name']}.pth").write_text(f"{sources}\n")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: editable.py LIBRARY")
    install(pathlib.Path(sys.argv[1]), pathlib.Path(sysconfig.get_path("purelib")))
