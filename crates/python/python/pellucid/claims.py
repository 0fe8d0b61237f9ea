"""What papers measured, run again: `pellucid reproduce` for notebooks."""
from __future__ import annotations

import html
import json
import subprocess
from collections.abc import Mapping
from typing import Any

from . import words
from ._pellucid import Error
from .result import Report
from .serving import command
from .words import number


class Reproduced(Mapping):
    """Claims by their id, each with what was published, what was measured, and whether that agrees."""

    def __init__(self, answer: Report) -> None:
        self._claims = {claim.id: claim for claim in answer.claims}
        #: Whether every check holds; and whether what does not is known and explained.
        self.all_hold: bool = answer.all_hold
        self.all_misses_known: bool = answer.all_misses_known

    def __getitem__(self, claim: str) -> Report:
        return self._claims[claim]

    def __iter__(self):
        return iter(self._claims)

    def __len__(self) -> int:
        return len(self._claims)

    def rows(self) -> list[dict[str, Any]]:
        """A tidy table: a row for each check of each claim."""
        return [
            {"claim": claim.id, "what": check.what, "published": check.published, "measured": check.measured, "unit": check.unit, "verdict": check.verdict}
            for claim in self._claims.values() for check in claim.checks
        ]

    def frame(self) -> Any:
        """The tidy table as a data frame of pandas."""
        import pandas

        return pandas.DataFrame(self.rows())

    def __str__(self) -> str:
        return "".join(f"{claim.id}  {claim.verdict}  {claim.claim}\n" for claim in self._claims.values())

    def _repr_html_(self) -> str:
        def cell(value: Any) -> str:
            return html.escape(number(value) if isinstance(value, (int, float)) else str(value or ""))

        rows = "".join(f"<tr>{''.join(f'<td>{cell(value)}</td>' for value in row.values())}</tr>" for row in self.rows())
        return f"<table><tr><th>claim</th><th>what</th><th>published</th><th>measured</th><th>unit</th><th>verdict</th></tr>{rows}</table>"


def reproduce(*claims: str, seed: int | None = None, overrides: Mapping[str, Any] | None = None) -> Reproduced:
    """Runs published claims again: `reproduce("C6")`, `reproduce("jasmine")`, or all of them. It runs the command `pellucid`."""
    line = [command(), "reproduce", *claims, "--json", "--quiet"]
    line += [] if seed is None else ["--seed", str(seed)]
    for one in words.sets(overrides or {}):
        line += ["--set", one]
    done = subprocess.run(line, capture_output=True, text=True, errors="replace")
    # With status 1 something misses, which the answer says.
    if done.returncode not in (0, 1) or not done.stdout:
        raise Error(done.stderr.strip().removeprefix("error: ") or f"reproduce: exit status {done.returncode}")
    return Reproduced(json.loads(done.stdout, object_hook=Report))
