#!/usr/bin/env python3
"""Applies the patches of docs/how-to/extend to a copy of the tree, and compiles the copy with all its tests.

    python3 tools/recipes.py [--try PATCH]

Every page there that says how to extend Pellucid has a patch that does it, so a list of files can not become wrong unseen: each patch applies
alone to the tree as it is, and all together compile. With --try, only that patch is applied, and the copy is left for a look at what it does.
"""
import argparse
import os
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
RECIPES = ROOT / "docs" / "how-to" / "extend"
TREE = ROOT / "target" / "recipes"


def patches() -> list[pathlib.Path]:
    """All patches, by name."""
    return sorted(RECIPES.glob("*.patch"))


def copy_tree(to: pathlib.Path):
    """Copies what git knows or would add, as it is in the work tree."""
    listed = subprocess.run(["git", "ls-files", "-z", "-co", "--exclude-standard"], cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout
    shutil.rmtree(to, ignore_errors=True)
    for name in filter(None, listed.decode().split("\0")):
        source = ROOT / name
        if source.is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, to / name)


def applied(patch: pathlib.Path, tree: pathlib.Path, *options: str) -> str:
    """Applies a patch; what git complains of, or nothing."""
    # Where no repository is above the copy, git applies a patch to plain files.
    environment = os.environ | {"GIT_CEILING_DIRECTORIES": str(tree.parent)}
    done = subprocess.run(["git", "apply", *options, str(patch)], cwd=tree, env=environment, capture_output=True, text=True)
    return done.stderr.strip() if done.returncode else ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--try", dest="one", type=pathlib.Path, metavar="PATCH")
    options = parser.parse_args()
    chosen = [options.one.resolve()] if options.one else patches()
    if not chosen:
        print(f"{RECIPES}: no patch", file=sys.stderr)
        return 1
    copy_tree(TREE)
    alone = [(patch, applied(patch, TREE, "--check")) for patch in chosen]
    failed = [f"{patch.name}: does not apply: {why}" for patch, why in alone if why]
    for patch in chosen:
        why = not failed and applied(patch, TREE)
        if why:
            failed.append(f"{patch.name}: does not apply beside those before it: {why}")
    if failed:
        print("\n".join(failed), file=sys.stderr)
        return 1
    names = ", ".join(patch.stem for patch in chosen)
    print(f"compiling a copy with {names}", flush=True)
    command = ["cargo", "check", "--quiet", "--workspace", "--all-targets", "--locked", "--target-dir", str(ROOT / "target")]
    status = subprocess.run(command, cwd=TREE).returncode
    if not options.one and status == 0:
        shutil.rmtree(TREE)
    return 1 if status else 0


if __name__ == "__main__":
    sys.exit(main())
