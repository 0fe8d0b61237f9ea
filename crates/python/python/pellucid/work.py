"""Work for a drive: jobs in fio's words, and traces."""
from __future__ import annotations

import os
from typing import Any

from . import words
from ._pellucid import check_job


class Job:
    """A job in fio's words: `Job(rw="randwrite", bs="4k", iodepth=64, number_ios=100_000)`.

    The keys are those of `pellucid run --help`. A key that is not there, or a value that is not allowed, is refused here.
    """

    def __init__(self, **keys: Any) -> None:
        if not keys:
            raise words.refuse("job", "", "at least one key, such as rw")
        self.keys = dict(keys)
        self.text = words.pairs(keys)
        check_job(self.text)

    def __repr__(self) -> str:
        return f"Job({', '.join(f'{key}={value!r}' for key, value in self.keys.items())})"


class Trace:
    """A trace to replay. The options are keys of `run`: format, time_scale, closed_loop, address, stream, repeat, limit."""

    OPTIONS = ("format", "time_scale", "closed_loop", "address", "stream", "repeat", "limit")

    def __init__(self, path: str | os.PathLike[str], **options: Any) -> None:
        for key in options:
            if key not in self.OPTIONS:
                raise words.refuse(key, options[key], "options of a trace: " + ", ".join(self.OPTIONS))
        self.path = os.fspath(path)
        self.options = dict(options)

    def __repr__(self) -> str:
        return f"Trace({', '.join([repr(self.path), *(f'{key}={value!r}' for key, value in self.options.items())])})"
