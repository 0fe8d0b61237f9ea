"""Tables of a result: Arrow for programs, a data frame for people."""
from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from . import _pellucid


class Table:
    """A table of a result. Anything that takes Arrow takes it without a copy; whatever else is asked of it, the data frame of pandas answers:
    `result.requests.latency_ns.mean()`, `result.requests[["op", "bytes"]].head()`.
    """

    def __init__(self, table: _pellucid.Table) -> None:
        self._table = table
        self._frame: Any = None

    @property
    def num_rows(self) -> int:
        """Its rows."""
        return self._table.num_rows

    @property
    def column_names(self) -> list[str]:
        """Its columns."""
        return self._table.column_names

    def __len__(self) -> int:
        return len(self._table)

    def __arrow_c_schema__(self) -> object:
        return self._table.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)

    def to_pandas(self) -> Any:
        """A data frame of pandas, which is the caller's own."""
        return self._table.to_pandas()

    def to_polars(self) -> Any:
        """A data frame of polars."""
        return self._table.to_polars()

    def _pandas(self) -> Any:
        """The data frame that answers, made once."""
        if self._frame is None:
            self._frame = self.to_pandas()
        return self._frame

    def __getattr__(self, name: str) -> Any:
        # Only what is asked for by name; protocols of Python are those above.
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._pandas(), name)

    def __getitem__(self, key: Any) -> Any:
        return self._pandas()[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.column_names)

    def __repr__(self) -> str:
        return f"<Table of {len(self)} rows: {', '.join(self.column_names)}>"

    def _repr_html_(self) -> str:
        return self._pandas()._repr_html_()
