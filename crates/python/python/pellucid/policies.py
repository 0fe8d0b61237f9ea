"""Policies in Python: which block garbage collection empties, which die takes new data, what a cache gives up.

    class FewestValid(pl.VictimPolicy):
        def choose(self, candidates, now):
            return min(candidates, key=lambda block: block.valid)

    pl.Drive("cosmos-plus", ftl={"victim": FewestValid()})

A policy is state of the drive: each new drive and each fork has a copy by `copy.deepcopy`, and so has a drive after a power cut, of the
policy as it was given. A class that keeps nothing from one choice to the next says `stateless = True`, and is not copied.
"""
from __future__ import annotations

import hashlib
import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from . import words
from ._pellucid import Candidate, Die


class Policy:
    """What the three kinds of policies have in common."""

    #: No choice depends on an earlier one, so copies share the object.
    stateless = False

    def name(self) -> str:
        """The policy in reports: its class, and a hash of the source of its functions and of the plain values beside them."""
        kind = type(self)
        own = [one for one in kind.__mro__ if one.__module__ != __name__ and one is not object]
        try:
            source = "\n".join(_source(name, value) for one in own for name, value in sorted(vars(one).items()))
        except (OSError, TypeError):
            raise words.refuse("policy", kind.__name__, "a class in a file or a notebook, so that reports can name its source") from None
        return f"python:{kind.__name__}@{hashlib.sha256(source.encode()).hexdigest()[:16]}"


def _source(name: str, value: Any) -> str:
    """The source of a member of a class. A class in a notebook has no source that Python finds, but its functions have."""
    value = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
    if inspect.isfunction(value):
        return inspect.getsource(value)
    is_plain = isinstance(value, (bool, int, float, str)) and not name.startswith("__")
    return f"{name} = {value!r}" if is_plain else ""


class VictimPolicy(Policy):
    """Chooses the block that garbage collection empties: as `ftl.victim` in the drive, as `host.ftl.victim` among the lines of a host FTL."""

    def choose(self, candidates: Sequence[Candidate], now: int) -> Candidate | int:
        """One of the closed blocks of a die, or its number. `now` counts programs of translation, as the times of a block do."""
        raise NotImplementedError


class EvictionPolicy(Policy):
    """Chooses the block that a cache gives up: as `cache.eviction`. Clean pages in it are dropped, dirty ones are copied."""

    def choose(self, candidates: Sequence[Candidate], now: int) -> Candidate | int:
        """One of the blocks of a die whose eviction frees space, or its number."""
        raise NotImplementedError


class PlacementPolicy(Policy):
    """Chooses the die that takes the next superpage of new data: as `ftl.placement`."""

    def choose(self, dies: Sequence[Die], page: int, now: int) -> Die | int:
        """One of the dies that have space, or its number. `page` is the first logical page of the superpage."""
        raise NotImplementedError


#: The class of a policy by its key; a word that stands in the description instead, if there is one.
KEYS: dict[str, tuple[type[Policy], str | None]] = {
    "drive.ftl.victim": (VictimPolicy, "greedy"),
    "host.ftl.victim": (VictimPolicy, "greedy"),
    "drive.ftl.placement": (PlacementPolicy, "channel-first"),
    "cache.eviction": (EvictionPolicy, None),
}


def split(overrides: Mapping[str, Any], before: str = "") -> tuple[dict[str, Any], list[tuple[str, Policy]]]:
    """Overrides without policies, and the policies by their keys."""
    plain: dict[str, Any] = {}
    found: list[tuple[str, Policy]] = []
    for name, value in overrides.items():
        key = before + name
        if isinstance(value, Mapping):
            below, of_below = split(value, key + ".")
            found += of_below
            if below:
                plain[name] = below
        elif isinstance(value, Policy):
            full = key if key in KEYS else f"drive.{key}"
            kind, _ = KEYS.get(full, (None, None))
            if kind is None or not isinstance(value, kind):
                of_kind = [one for one, (allowed, _) in KEYS.items() if isinstance(value, allowed)]
                allowed = ", ".join(of_kind) if kind is None else f"a {kind.__name__}"
                raise words.refuse(key, type(value).__name__, f"{allowed}{' for this policy' if kind is None else ''}")
            found.append((full, value))
        elif isinstance(value, type) and issubclass(value, Policy):
            raise words.refuse(key, value.__name__, f"an object of the class, {value.__name__}(...)")
        else:
            plain[name] = value
    return plain, found


def words_for(policies: list[tuple[str, Policy]]) -> list[str]:
    """The words that stand in the description for policies."""
    return [f"{key}={KEYS[key][1]}" for key, _ in policies if KEYS[key][1]]


def given(policies: list[tuple[str, Policy]]) -> list[tuple[str, str, Policy, bool]]:
    """Policies as the module in Rust takes them."""
    return [(key, policy.name(), policy, policy.stateless) for key, policy in policies]
