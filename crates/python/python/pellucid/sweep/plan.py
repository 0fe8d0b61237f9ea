"""The plan of a sweep: what is varied, and what stays.

    drive = "netbook-ssd"                 # a preset, a description or an image; files are found beside the plan
    job = { rw = "randwrite", bs = "4k", number_ios = 40_000 }     # or [[job]], or trace = "FILE"
    seeds = 5                             # 1 to 5, or a list
    seed_keys = ["run.seed"]              # the keys that a seed is given to; by default run.seed, with a trace none
    precondition = "fill"
    steady_state = "snia"                 # each point ends once it is steady; keep = ["steady_state.reached", ...]
    keep = ["write_amplification.total"]  # numbers of the report, each a column
    whole_report = false                  # points keep series and distributions, too

    [overrides]
    "media.blocks" = 512

    [axes]
    "ftl.victim" = ["greedy", "fifo"]
    "ftl.over_provisioning" = { from = 0.07, to = 0.28, steps = 4 }
    "job.iodepth" = { from = 1, to = 64, steps = 7, scale = "log" }

Axes are `drive`, `trace`, keys of the description, and keys of every job (`job.KEY`). The points are all combinations.
"""
from __future__ import annotations

import hashlib
import itertools
import os
import tomllib
from pathlib import Path
from typing import Any

from .._pellucid import Error
from ..drive import PRECONDITIONS
from ..words import refuse
from .points import Point

#: What the plan may say, with what it takes.
KEYS = {
    "drive": "a preset, a description or an image",
    "job": "a table of a job's keys, or a list of such tables",
    "trace": "a file",
    "overrides": "a table of keys of the description",
    "axes": "a table: key = [values], or { from, to, steps, scale }",
    "seeds": "a number of seeds from 1 on, or a list of seeds",
    "seed_keys": "a list of keys of the description",
    "precondition": "none, fill, trace, steady",
    "steady_state": "a rule such as snia or iops:3%, with jobs that go on long enough",
    "keep": "a list of paths in the report",
    "whole_report": "true or false",
}
KEEP = [
    "simulated_seconds", "directions.read.iops", "directions.read.latency.mean_ns", "directions.read.latency.p99_ns",
    "directions.write.iops", "directions.write.latency.mean_ns", "directions.write.latency.p99_ns", "write_amplification.total",
]
POINTS_MAX = 1_000_000


class Plan:
    """A plan, read and checked. Its points are `points`."""

    def __init__(self, text: str, directory: str | os.PathLike[str] = ".") -> None:
        self.text = text
        self.directory = Path(directory)
        try:
            plan = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise Error(f"the plan is no TOML: {error}") from None
        for key in plan:
            if key not in KEYS:
                raise refuse(key, plan[key], "a key of " + ", ".join(KEYS))
        self._plan = plan
        self.axes = {key: _values(key, axis) for key, axis in self._table("axes").items()}
        #: Axes whose values are evenly spaced on a logarithmic scale.
        self.logarithmic = {key for key, axis in self._table("axes").items() if isinstance(axis, dict) and axis.get("scale") == "log"}
        self.seeds = self._seeds()
        self.keep = self._list("keep", KEEP)
        self.whole_report = plan.get("whole_report", False)
        if not isinstance(self.whole_report, bool):
            raise refuse("whole_report", self.whole_report, KEYS["whole_report"])
        self._check_work()
        self._hashes: dict[str, str] = {}
        self.points = self._points()

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Plan:
        """Reads a plan; the files that it names stand beside it."""
        try:
            text = Path(path).read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise Error(f"{path}: the plan cannot be read: {error}") from None
        return cls(text, Path(path).resolve().parent)

    @property
    def columns(self) -> list[str]:
        """The columns that say which point a row is: the axes, and the seed."""
        return [*self.axes, "seed"]

    def _table(self, key: str) -> dict[str, Any]:
        table = self._plan.get(key, {})
        if not isinstance(table, dict):
            raise refuse(key, table, KEYS[key])
        return _flat(table) if key != "axes" else _flat(table, {"from", "to", "steps", "scale"})

    def _list(self, key: str, default: list[str]) -> list[str]:
        value = self._plan.get(key, default)
        if not isinstance(value, list) or not value or not all(isinstance(item, str) for item in value):
            raise refuse(key, value, KEYS[key])
        if len(set(value)) < len(value):
            raise refuse(key, value, "each once")
        return value

    def _seeds(self) -> list[int]:
        seeds = self._plan.get("seeds", 1)
        if isinstance(seeds, int) and not isinstance(seeds, bool) and seeds >= 1:
            return list(range(1, seeds + 1))
        if isinstance(seeds, list) and seeds and all(isinstance(seed, int) and seed >= 0 for seed in seeds) and len(set(seeds)) == len(seeds):
            return seeds
        raise refuse("seeds", seeds, KEYS["seeds"])

    def _seed_keys(self, replays: bool) -> list[str]:
        """The keys that a seed is given to. A trace draws nothing at random, so it has none by default."""
        if "seed_keys" in self._plan or not replays:
            return self._list("seed_keys", ["run.seed"])
        if len(self.seeds) > 1:
            raise refuse("seeds", self.seeds, "one, as a trace draws nothing at random; or more with seed_keys, such as precondition.seed")
        return []

    def _check_work(self) -> None:
        if "drive" not in self._plan and "drive" not in self.axes:
            raise refuse("drive", None, KEYS["drive"] + ", in the plan or as an axis")
        if ("job" in self._plan) and ("trace" in self._plan or "trace" in self.axes):
            raise refuse("trace", self._plan.get("trace", "an axis"), "one of job and trace")
        if any(key.startswith("job.") for key in self.axes) and "job" not in self._plan:
            raise refuse("axes", next(key for key in self.axes if key.startswith("job.")), "with job in the plan")
        own = {key.removeprefix("drive.") for key in self._table("overrides")}
        beside = [*(["run.steady_state"] if "steady_state" in self._plan else []), *self._seed_keys("trace" in self._plan or "trace" in self.axes)]
        varied = [*self.axes, *beside]
        twice = next((key for key in varied if key.removeprefix("drive.") in own), None)
        if twice:
            raise refuse("overrides", twice, "keys that neither axes, steady_state nor seeds set, too")
        names = [key.removeprefix("drive.") for key in varied]
        again = next((key for key, name in zip(varied, names) if names.count(name) > 1), None)
        if again:
            raise refuse("axes", again, f"each key once; seeds and steady_state give {', '.join(beside) or 'none'}; another seed: seed_keys")
        for key in ("drive", "trace"):
            if key in self._plan and key in self.axes:
                raise refuse(key, self._plan[key], f"{key} in the plan or as an axis, not both")
        precondition = self._plan.get("precondition")
        if precondition is not None and precondition not in PRECONDITIONS:
            raise refuse("precondition", precondition, KEYS["precondition"])
        jobs = self._jobs()
        of_jobs = {key.removeprefix("job.") for key in self.axes if key.startswith("job.")}
        both = next((key for job in jobs if isinstance(job, dict) for key in job if key in of_jobs), None)
        if both:
            raise refuse("job", both, f"job.{both} as an axis or in the jobs, not both")
        if not all(isinstance(job, dict) and job for job in jobs):
            raise refuse("job", jobs, KEYS["job"])

    def _jobs(self) -> list[dict[str, Any]]:
        jobs = self._plan.get("job", [])
        return jobs if isinstance(jobs, list) else [jobs]

    def _points(self) -> list[Point]:
        count = len(self.seeds)
        for values in self.axes.values():
            count *= len(values)
        if count > POINTS_MAX:
            raise refuse("axes", f"{count} points", f"at most {POINTS_MAX}")
        points, seen = [], set()
        for chosen in itertools.product(*self.axes.values()):
            for seed in self.seeds:
                point = self._point(len(points) + 1, dict(zip(self.axes, chosen)), seed)
                if point.id not in seen:
                    seen.add(point.id)
                    points.append(point)
        return points

    def _point(self, number: int, chosen: dict[str, Any], seed: int) -> Point:
        drive, trace = chosen.get("drive", self._plan.get("drive")), chosen.get("trace", self._plan.get("trace"))
        overrides = {**self._table("overrides"), **{
            key: value for key, value in chosen.items() if key not in ("drive", "trace") and not key.startswith("job.")
        }}
        if "steady_state" in self._plan:
            if not isinstance(self._plan["steady_state"], str):
                raise refuse("steady_state", self._plan["steady_state"], KEYS["steady_state"])
            overrides["run.steady_state"] = self._plan["steady_state"]
        overrides.update({key: seed for key in self._seed_keys(trace is not None)})
        of_jobs = {key.removeprefix("job."): value for key, value in chosen.items() if key.startswith("job.")}
        jobs = [{**job, **of_jobs} for job in self._jobs()]
        if len(self.seeds) > 1 and self._seed_keys(trace is not None) == ["run.seed"] and jobs and all("randseed" in job for job in jobs):
            raise refuse("seeds", self.seeds, "with jobs without randseed; each has one of its own, so that all seeds would be equal")
        inputs = {}
        drive = self._file("drive", drive, inputs)
        if trace is not None:
            trace = self._file("trace", trace, inputs, required=True)
        return Point(
            number=number, chosen=chosen, seed=seed, drive=drive, overrides=overrides, jobs=jobs, trace=trace,
            precondition=self._plan.get("precondition"), keep=self.keep, whole_report=self.whole_report, inputs=inputs,
        )

    def _file(self, key: str, name: Any, inputs: dict[str, str], required: bool = False) -> str:
        """A file beside the plan by its whole path, its hash noted; what is no file is a preset."""
        if not isinstance(name, str) or not name:
            raise refuse(key, name, KEYS[key])
        path = self.directory / name
        if not path.is_file():
            if required:
                raise refuse(key, name, "a file, by its path from the plan")
            return name
        whole = str(path.resolve())
        if whole not in self._hashes:
            with open(whole, "rb") as file:
                self._hashes[whole] = hashlib.file_digest(file, "sha256").hexdigest()
        inputs[whole] = self._hashes[whole]
        return whole


def _flat(table: dict[str, Any], leaves: set[str] = frozenset(), prefix: str = "") -> dict[str, Any]:
    """Dotted keys of nested tables; a table whose keys are among `leaves` is a value."""
    found: dict[str, Any] = {}
    for key, value in table.items():
        if isinstance(value, dict) and not (leaves and value and set(value) <= leaves):
            found.update(_flat(value, leaves, f"{prefix}{key}."))
        else:
            found[prefix + key] = value
    return found


def _values(key: str, axis: Any) -> list[Any]:
    """The values of an axis."""
    if isinstance(axis, list) and axis and not any(isinstance(value, (list, dict)) for value in axis):
        if len({repr(value) for value in axis}) < len(axis):
            raise refuse(f"axes.{key}", axis, "each value once")
        return axis
    if isinstance(axis, dict):
        return _range(key, axis)
    raise refuse(f"axes.{key}", axis, KEYS["axes"].removeprefix("a table: key = "))


def _range(key: str, axis: dict[str, Any]) -> list[int | float]:
    """Evenly spaced values, on a linear or a logarithmic scale. Between whole numbers they are whole."""
    scale, ends = axis.get("scale", "linear"), (axis.get("from"), axis.get("to"))
    steps = axis.get("steps")
    if scale not in ("linear", "log"):
        raise refuse(f"axes.{key}.scale", scale, "linear, log")
    if not all(isinstance(end, (int, float)) and not isinstance(end, bool) for end in ends):
        raise refuse(f"axes.{key}", axis, "numbers as from and to")
    if not isinstance(steps, int) or steps < 2:
        raise refuse(f"axes.{key}.steps", steps, "a whole number from 2 on")
    first, last = ends
    if scale == "log" and min(ends) <= 0:
        raise refuse(f"axes.{key}", axis, "from and to above 0 with scale = \"log\"")
    if first == last:
        raise refuse(f"axes.{key}", axis, "from and to that differ")
    values = _spaced(first, last, steps, scale)
    if len(set(values)) == steps:
        return values
    most = next(fewer for fewer in range(steps - 1, 1, -1) if len(set(_spaced(first, last, fewer, scale))) == fewer)
    raise refuse(f"axes.{key}.steps", steps, f"at most {most}, as values between whole numbers are rounded; or a list of values")


def _spaced(first: int | float, last: int | float, steps: int, scale: str) -> list[int | float]:
    """As many values as there are steps, rounded to whole numbers between whole numbers."""
    if scale == "log":
        values = [first * (last / first) ** (step / (steps - 1)) for step in range(steps)]
    else:
        values = [first + (last - first) * step / (steps - 1) for step in range(steps)]
    if isinstance(first, int) and isinstance(last, int):
        return [round(value) for value in values]
    # The last digits of a quotient are noise.
    return [float(f"{value:.12g}") for value in values]
