"""Values of Python as the command takes them: `--set KEY=VALUE` and `--job key=value,...`."""
from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from ._pellucid import Error


def refuse(key: str, value: Any, allowed: str) -> Error:
    """An error that names the key, its value and what is allowed."""
    error = Error(f"{key} = {value!r}: not allowed; allowed: {allowed}")
    error.key, error.value, error.allowed = key, str(value), allowed
    return error


def toml(value: Any) -> str:
    """Writes a value inside a list or table as TOML."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, str):
        return json.dumps(value)
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{key} = {toml(item)}" for key, item in value.items()) + " }"
    if isinstance(value, Iterable):
        return "[" + ", ".join(toml(item) for item in value) + "]"
    raise Error(f"{value!r}: a {type(value).__name__}; allowed: text, numbers, True, False, lists and dicts of these")


def sets(overrides: Mapping[str, Any]) -> list[str]:
    """Flattens nested overrides: `{"ftl": {"victim": "fifo"}}` becomes `ftl.victim=fifo`. Text is read as on the command line."""
    found = []
    for key, value in overrides.items():
        if isinstance(value, Mapping):
            found += [f"{key}.{rest}" for rest in sets(value)]
        else:
            found.append(f"{key}={value if isinstance(value, str) else toml(value)}")
    return found


def pairs(keys: Mapping[str, Any]) -> str:
    """Writes the keys of a job as `key=value,...`."""
    def text(value: Any) -> str:
        if isinstance(value, bool):
            return "1" if value else "0"
        if isinstance(value, (list, tuple)):
            return ",".join(text(item) for item in value)
        return str(value)

    return ",".join(f"{key}={text(value)}" for key, value in keys.items())


def number(value: float) -> str:
    """Writes a number for a reader: five digits, and thousands apart."""
    return f"{value:,.0f}" if isinstance(value, int) or abs(value) >= 10_000 else f"{value:.5g}"
