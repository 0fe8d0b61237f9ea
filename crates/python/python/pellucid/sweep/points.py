"""Points: one run of a sweep, and the file that it leaves."""
from __future__ import annotations

import dataclasses
import difflib
import functools
import hashlib
import json
import os
import tempfile
import warnings
from pathlib import Path
from typing import Any

from .._pellucid import Error, __version__


#: Parts of a report that only some drives, layers or runs have.
OPTIONAL = frozenset((
    "files", "gc_pauses", "groups", "host_layer", "jobs", "map_cache", "memory", "merges", "namespaces", "parts", "replay", "slc_cache", "steady_state",
    "targets", "timeline", "warnings",
))


@dataclasses.dataclass(frozen=True)
class Point:
    """A point of a sweep, with everything that its result depends on."""

    number: int
    chosen: dict[str, Any]
    seed: int
    drive: str
    overrides: dict[str, Any]
    jobs: list[dict[str, Any]]
    trace: str | None
    precondition: str | None
    keep: list[str]
    whole_report: bool
    #: Files with their SHA-256.
    inputs: dict[str, str]

    @functools.cached_property
    def id(self) -> str:
        """Names the point by what it depends on: an equal point of another plan, or of another day, has the same name."""
        about = dataclasses.asdict(self)
        # Where it stands in the plan, and where its files are, changes nothing.
        del about["number"]
        for path, digest in self.inputs.items():
            about = _replaced(about, path, digest)
        about["inputs"] = sorted(self.inputs.values())
        about["version"] = __version__
        text = json.dumps(about, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def name(self) -> str:
        """Names the point for a reader."""
        return ", ".join(f"{key} = {value}" for key, value in [*self.chosen.items(), ("seed", self.seed)])


def _replaced(value: Any, path: str, digest: str) -> Any:
    if isinstance(value, dict):
        return {key: _replaced(item, path, digest) for key, item in value.items() if key != "inputs"}
    return digest if value == path else value


def run_point(point: Point) -> bytes:
    """Runs a point and returns the content of its file: the same bytes on every machine."""
    from ..drive import Drive
    from ..work import Job, Trace

    for path, digest in point.inputs.items():
        check_input(path, digest)
    # The sweep says what its points are warned of, once.
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        drive = Drive(point.drive, overrides=point.overrides)
        work = [Trace(point.trace)] if point.trace else [Job(**job) for job in point.jobs]
        result = drive.run(*work, precondition=point.precondition, requests=False)
    report = json.loads(result.json(cost=False))
    kept = {path: result.report.at(path) for path in point.keep}
    unknown = [path for path, value in kept.items() if isinstance(value, (dict, list)) or not _is_known(report, path)]
    if unknown:
        near = [found for path in unknown for found in difflib.get_close_matches(path, _numbers(report), 1)]
        mean = f" (did you mean {', '.join(near)}?)" if near else ""
        raise Error(f"keep: {', '.join(unknown)}: not a number of the report{mean}; allowed: paths such as write_amplification.total")
    if not point.whole_report:
        _shorten(report)
    content = {
        "point": point.chosen,
        "seed": point.seed,
        "kept": kept,
        "warnings": [str(one.message) for one in warned],
        "version": __version__,
        "inputs": {os.path.basename(path): digest for path, digest in point.inputs.items()},
        "description": drive.show(),
        "jobs": point.jobs,
        "report": report,
    }
    return (json.dumps(content, indent=1) + "\n").encode()


def _is_known(report: dict[str, Any], path: str) -> bool:
    """Whether a report has such a number; a part that only some drives or runs have may be absent."""
    part: Any = report
    for key in path.split("."):
        if not isinstance(part, dict):
            return part is None
        if key not in part:
            return part is report and key in OPTIONAL
        part = part[key]
    return True


def _numbers(part: Any, before: str = "") -> list[str]:
    """The paths of all numbers of a report."""
    if isinstance(part, dict):
        return [path for key, item in part.items() for path in _numbers(item, f"{before}.{key}" if before else key)]
    return [] if isinstance(part, list) else [before]


def check_input(path: str, digest: str) -> None:
    """Refuses an input that is not what the plan was made with."""
    try:
        with open(path, "rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise Error(f"{path}: {error.strerror}; allowed: the inputs of the plan at the same path on every machine") from None
    if found != digest:
        raise Error(f"{path}: SHA-256 {found}; allowed: {digest}, as the plan was made with")


def _shorten(report: Any) -> None:
    """Leaves out what fills a report: series over time and distributions."""
    report.pop("series", None)

    def walk(part: Any) -> None:
        if isinstance(part, dict):
            part.pop("distribution", None)
            for item in part.values():
                walk(item)
        elif isinstance(part, list):
            for item in part:
                walk(item)

    walk(report)


def write_whole(path: Path, content: bytes) -> None:
    """Writes a file that is complete or absent."""
    descriptor, part = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except BaseException:
        os.unlink(part)
        raise
