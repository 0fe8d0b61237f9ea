"""What the benchmark scripts share: the release binary, variants of a description, and runs of one on the other.

A description is read as TOML, changed by dotted key and written to a temporary file, so that a benchmark needs nothing of
the command but `pellucid run FILE --json`.
"""
import copy
import json
import os
import pathlib
import subprocess
import tempfile
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Far above what any run here needs: a run that hangs ends as an error.
RUN_TIMEOUT_SECONDS = 600

Description = dict


def build() -> pathlib.Path:
    """Builds the command as users have it and gives the path of the binary."""
    subprocess.run(["make", "--silent", "build"], cwd=ROOT, check=True)
    return pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release" / "pellucid"


def load(name: str) -> Description:
    """The description `bench/NAME.toml`."""
    return tomllib.loads((ROOT / "bench" / f"{name}.toml").read_text())


def variant(description: Description, changes: dict) -> Description:
    """A copy with `changes`: dotted keys, where `job.KEY` means every job."""
    changed = copy.deepcopy(description)
    for path, value in changes.items():
        *tables, key = path.split(".")
        if tables == ["job"]:
            for job in changed["job"]:
                job[key] = value
            continue
        table = changed
        for name in tables:
            table = table.setdefault(name, {})
        table[key] = value
    return changed


def to_toml(description: Description) -> str:
    """TOML text of tables, lists of tables, texts, numbers and flags: what the benchmarks' descriptions are made of."""
    lines: list[str] = []

    def write(path: str, table: dict) -> None:
        inner = {k: v for k, v in table.items() if isinstance(v, dict)}
        lists = {k: v for k, v in table.items() if isinstance(v, list) and v and isinstance(v[0], dict)}
        # JSON writes texts, numbers, flags and lists of them as TOML does.
        lines.extend(f"{k} = {json.dumps(v)}" for k, v in table.items() if k not in inner and k not in lists)
        for key, value in inner.items():
            lines.append(f"[{path}{key}]")
            write(f"{path}{key}.", value)
        for key, rows in lists.items():
            for row in rows:
                lines.append(f"[[{path}{key}]]")
                write(f"{path}{key}.", row)

    write("", description)
    return "\n".join(lines) + "\n"


def run(binary: pathlib.Path, description: Description) -> dict:
    """The JSON report of one run."""
    with tempfile.TemporaryDirectory() as directory:
        # The same name every time: the report repeats the command line.
        (pathlib.Path(directory) / "bench.toml").write_text(to_toml(description))
        command = [str(binary), "run", "bench.toml", "--json"]
        done = subprocess.run(
            command, cwd=directory, check=True, stdout=subprocess.PIPE, text=True, timeout=RUN_TIMEOUT_SECONDS
        )
    return json.loads(done.stdout)


def cost_ns(report: dict) -> float:
    """Nanoseconds of real time per request."""
    return report["wall_seconds"] * 1e9 / report["requests"]
