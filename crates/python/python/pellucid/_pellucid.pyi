"""Types of the module in Rust; users take those of `pellucid`."""
from collections.abc import Sequence
from typing import Any

__version__: str

class Error(Exception):
    """Something was asked for that cannot be, or work failed."""

    key: str | None
    value: str | None
    allowed: str | None

class Table:
    """A table of a result, for anything that takes Arrow."""

    @property
    def num_rows(self) -> int: ...
    @property
    def column_names(self) -> list[str]: ...
    def __len__(self) -> int: ...
    def __arrow_c_schema__(self) -> object: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...
    def to_pandas(self) -> Any: ...
    def to_polars(self) -> Any: ...

class Outcome:
    """A finished run."""

    def json(self, cost: bool = True) -> str: ...
    def text(self, columns: int = 100) -> str: ...
    def html(self) -> str: ...
    def figures(self) -> str: ...
    def table(self, name: str) -> Table: ...

class Candidate:
    """A closed block that garbage collection may empty."""

    @property
    def block(self) -> int:
        """Number of the block."""
    @property
    def valid(self) -> int:
        """Its valid mapping units, which have to be copied."""
    @property
    def units(self) -> int:
        """Mapping units of a block."""
    @property
    def cached(self) -> int:
        """Pages of a cache in the block, dirty or clean; without a cache: `valid`."""
    @property
    def erases(self) -> int:
        """Times that it was erased."""
    @property
    def closed_at(self) -> int:
        """When it was closed, in programs of translation."""
    @property
    def touched_at(self) -> int:
        """When one of its units became invalid last, in programs of translation."""
    @property
    def holds_map(self) -> bool:
        """It holds translation pages."""

class Die:
    """A die that can take the next superpage."""

    @property
    def die(self) -> int:
        """Number of the die."""
    @property
    def channel(self) -> int:
        """Its channel."""
    @property
    def way(self) -> int:
        """Its way on the channel."""
    @property
    def free_blocks(self) -> int:
        """Its free blocks."""

class State:
    """A drive."""

    def __init__(
        self,
        source: str | None = None,
        text: str | None = None,
        sets: Sequence[str] = (),
        policies: Sequence[tuple[str, str, object, bool]] = (),
    ) -> None: ...
    @property
    def name(self) -> str: ...
    @property
    def past(self) -> str | None: ...
    def show(self) -> str: ...
    def entries(self) -> list[tuple[str, str, str]]: ...
    def fork(self) -> State: ...
    def age(self, sets: Sequence[str]) -> tuple[State, list[tuple[list[tuple[float, float | None]], str]]]: ...
    def save(self, path: str) -> int: ...
    def run(
        self, sets: Sequence[str], jobs: Sequence[str], trace: str | None, words: Sequence[str], requests: bool
    ) -> Outcome: ...

def compare_text(names: Sequence[str], outcomes: Sequence[Outcome]) -> str: ...
def seeds_text(seeds: Sequence[int], drives: Sequence[tuple[str, Sequence[Outcome]]]) -> str: ...
def check_job(text: str) -> None: ...
def presets() -> list[tuple[str, str]]: ...
def keys() -> list[tuple[str, str, str | None, str]]: ...
