"""Drives, and the work that is done on them."""
from __future__ import annotations

import html
import os
from collections.abc import Iterable, Mapping
from typing import Any

from . import policies, words
from ._pellucid import State
from .repeated import Repeated, Runs, seed_numbers
from .result import Comparison, Result
from .work import Job, Trace

PRECONDITIONS = {
    "none": ["precondition.fill=0.0"],
    "fill": ["precondition.fill=1.0"],
    "trace": ['precondition.fill="trace"'],
    "steady": ["precondition.fill=1.0", 'precondition.overwrite="steady"'],
}


class Drive:
    """A drive by its description: a preset, a TOML file or an image (`preset`), or a description in TOML (`toml`).

    Overrides are keywords (`ftl={"victim": "fifo"}`), a dict (`overrides={"ftl.victim": "fifo"}`), or both; a policy written in Python is
    one, too (`ftl={"victim": Mine()}`). A drive without a past
    begins anew with every run. After `age()` it has a past, and every run goes on from there; `fork()` keeps both.
    """

    def __init__(
        self,
        preset: str | os.PathLike[str] | None = None,
        *,
        toml: str | None = None,
        overrides: Mapping[str, Any] | None = None,
        **tables: Any,
    ) -> None:
        self._source = None if preset is None else os.fspath(preset)
        given = [policies.split(one) for one in (overrides or {}, tables)]
        foreign = [policy for _, found in given for policy in found]
        twice = [key for key, _ in foreign if [other for other, _ in foreign].count(key) > 1]
        if twice:
            raise words.refuse(twice[0], "two policies", "one")
        sets = [one for plain, _ in given for one in words.sets(plain)]
        self._state = State(self._source, toml, sets + policies.words_for(foreign), policies.given(foreign))
        self._sets = sets + [f"{key.removeprefix('drive.')}={policy.name()}" for key, policy in foreign]
        # A drive with a past of its own making, or with policies in Python, cannot be repeated by a command.
        self._repeatable = not foreign
        #: For each namespace that `age()` overwrote, its passes and why they ended.
        self.ageing: list[dict[str, Any]] = []

    @classmethod
    def _of(cls, other: Drive, state: State, repeatable: bool) -> Drive:
        made = cls.__new__(cls)
        made._source, made._sets, made._state, made._repeatable = other._source, other._sets, state, repeatable
        made.ageing = other.ageing
        return made

    @property
    def name(self) -> str:
        """The name of the drive in reports."""
        return self._state.name

    @property
    def past(self) -> str | None:
        """How the drive came to be what it is; None for one without a past."""
        return self._state.past

    def show(self) -> str:
        """The whole resolved description as TOML, with the source of every value."""
        return self._state.show()

    def description(self) -> dict[str, str]:
        """Every key of the resolved description, with its value as TOML."""
        return {key: value for key, value, _ in self._state.entries()}

    def run(
        self,
        *work: Job | Trace,
        seed: int | None = None,
        verify: bool | None = None,
        precondition: str | None = None,
        requests: bool = True,
    ) -> Result:
        """Does work: jobs, a trace, or what the description says. `verify`: all that is read is checked (None: as the description has it).
        `requests=False` keeps no table of requests, which takes some 150 bytes for each."""
        for name, value in {"verify": verify, "requests": requests}.items():
            if value is not None and not isinstance(value, bool):
                raise words.refuse(name, value, "True or False")
        jobs = [item for item in work if isinstance(item, Job)]
        traces = [item for item in work if isinstance(item, Trace)]
        if len(jobs) + len(traces) < len(work) or len(traces) > 1 or (jobs and traces):
            raise words.refuse("work", work, "jobs one after the other, as run(first, second), or one trace")
        if seed is not None and jobs and all("randseed" in job.keys for job in jobs):
            raise words.refuse("seed", seed, "with jobs without randseed; each has one of its own")
        sets = [] if seed is None else [f"run.seed={seed}"]
        sets += [] if verify is None else [f"run.verify={words.toml(verify)}"]
        sets += _precondition(precondition)
        trace = traces[0] if traces else None
        if trace:
            sets += [f"run.{key}={value if isinstance(value, str) else words.toml(value)}" for key, value in trace.options.items()]
        path = trace.path if trace else None
        texts = [job.text for job in jobs]
        line = self._command_line(texts, path, sets) if self._repeatable else []
        return Result(self._state.run(sets, texts, path, line, requests))

    def _command_line(self, jobs: list[str], trace: str | None, sets: list[str]) -> list[str]:
        line = ["pellucid", "replay" if trace else "run", self._source or "-"]
        line += [trace] if trace else []
        for one in [*self._sets, *sets]:
            line += ["--set", one]
        for job in jobs:
            line += ["--job", job]
        return [*line, "--json"]

    def age(
        self, *, fill: float | None = None, overwrite: float | str | None = None, steady: str | None = None, seed: int | None = None
    ) -> Drive:
        """A drive after it was filled and overwritten at random, as `pellucid age` does it: `overwrite` times, or until steady by the rule
        `steady`, which is "change" or "snia". What is not given is as the description has it; one that fills nothing: all, until steady."""
        described = self.description()["precondition.fill"]
        if fill is None and "trace" in described:
            raise words.refuse("precondition.fill", "trace", "0 to 1; there is no trace to age a drive by")
        fills = "trace" in described or float(described) > 0
        if fill is None and not fills:
            fill = 1.0
        if overwrite is None and not fills and fill != 0:
            overwrite = "steady"
        sets = [] if fill is None else [f"precondition.fill={float(fill)!r}"]
        if overwrite is not None:
            sets.append('precondition.overwrite="steady"' if overwrite == "steady" else f"precondition.overwrite={overwrite}")
        sets += [] if steady is None else [f"precondition.steady={steady}"]
        sets += [] if seed is None else [f"precondition.seed={seed}"]
        state, ageing = self._state.age(sets)
        aged = Drive._of(self, state, repeatable=False)
        aged.ageing = [{"passes": passes, "reason": reason} for passes, reason in ageing]
        return aged

    def fork(self) -> Drive:
        """A copy with the same past and a future of its own."""
        return Drive._of(self, self._state.fork(), self._repeatable)

    def save(self, path: str | os.PathLike[str]) -> int:
        """Saves a drive that has a past as an image, which `Drive(path)` and the command take; returns its bytes."""
        return self._state.save(os.fspath(path))

    def __repr__(self) -> str:
        given = [repr(self._source)] if self._source else ["toml=..."]
        return f"<Drive {self.name}: {', '.join([*given, *self._sets])}{f'; {self.past}' if self.past else ''}>"

    def _repr_html_(self) -> str:
        rows = [("past", self.past or "none: every run begins with a new drive"), *(one.split("=", 1) for one in self._sets)]
        body = "".join(f"<tr><th>{html.escape(key)}</th><td>{html.escape(value)}</td></tr>" for key, value in rows)
        whole = f"<details><summary>whole description</summary><pre>{html.escape(self.show())}</pre></details>"
        return f"<b>{html.escape(self.name)}</b><table>{body}</table>{whole}"


def _precondition(state: str | None) -> list[str]:
    if state is None:
        return []
    if state not in PRECONDITIONS:
        raise words.refuse("precondition", state, ", ".join(PRECONDITIONS))
    return PRECONDITIONS[state]


def _drive(drive: Drive | str | os.PathLike[str]) -> Drive:
    return drive if isinstance(drive, Drive) else Drive(drive)


def run(
    drive: Drive | str | os.PathLike[str], *work: Job | Trace, seeds: int | Iterable[int] | None = None, **options: Any
) -> Result | Runs:
    """Does work on a drive: `run("jasmine", Job(rw="randread"))`. Options as of `Drive.run`.

    With `seeds` (5 is 1 to 5) it is done once for each, and the answer has means with intervals. A drive with a past is forked first.
    """
    if seeds is None:
        return _drive(drive).run(*work, **options)
    numbers = _seeded(work, seeds, options)
    return Runs({seed: _drive(drive).fork().run(*work, seed=seed, **options) for seed in numbers})


def _seeded(work: Iterable[Job | Trace], seeds: int | Iterable[int], options: Mapping[str, Any]) -> list[int]:
    """The seeds of work that is done once for each."""
    if "seed" in options:
        raise words.refuse("seed", options["seed"], "one of seed and seeds")
    jobs = [item for item in work if isinstance(item, Job)]
    if any(isinstance(item, Trace) for item in work):
        raise words.refuse("seeds", seeds, "with jobs; a trace draws nothing at random")
    if jobs and all("randseed" in job.keys for job in jobs):
        raise words.refuse("seeds", seeds, "with jobs without randseed; each has one of its own, so that all runs would be equal")
    return seed_numbers(seeds)


def replay(drive: Drive | str | os.PathLike[str], trace: Trace | str | os.PathLike[str], **options: Any) -> Result:
    """Replays a trace on a drive. Options as of `Drive.run`."""
    return _drive(drive).run(trace if isinstance(trace, Trace) else Trace(trace), **options)


def age(drive: Drive | str | os.PathLike[str], **options: Any) -> Drive:
    """A drive after it was filled and overwritten. Options as of `Drive.age`."""
    return _drive(drive).age(**options)


def fork(drive: Drive) -> Drive:
    """A copy of a drive with the same past and a future of its own."""
    return drive.fork()


def compare(
    drives: Mapping[str, Drive | str] | Iterable[Drive | str], *work: Job | Trace, seeds: int | Iterable[int] | None = None, **options: Any
) -> Comparison | Repeated:
    """Does the same work on several drives. The first is what the others are compared with. Drives with a past are forked first.

    With `seeds` (5 is 1 to 5) it is done once for each, and the answer says which differences are larger than chance.
    """
    named = drives if isinstance(drives, Mapping) else _named([_drive(drive) for drive in drives])
    if len(named) < 2:
        raise words.refuse("drives", list(named), "at least two")
    def once(**seed: int) -> Comparison:
        return Comparison({name: _drive(drive).fork().run(*work, **seed, **options) for name, drive in named.items()})

    if seeds is None:
        return once()
    numbers = _seeded(work, seeds, options)
    return Repeated({seed: once(seed=seed) for seed in numbers})


def _named(drives: list[Drive]) -> dict[str, Drive]:
    """Names drives by what tells them apart: their names, and the overrides that not all of them have."""
    everywhere = set.intersection(*(set(drive._sets) for drive in drives)) if drives else set()
    named: dict[str, Drive] = {}
    for drive in drives:
        own = [one for one in drive._sets if one not in everywhere]
        name = " ".join([drive.name, *own])
        number = 2
        while name in named:
            name, number = f"{drive.name} {number}", number + 1
        named[name] = drive
    return named
