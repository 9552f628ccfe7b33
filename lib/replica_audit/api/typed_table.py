"""A table of answers: typed rows, with their columns, as Arrow, pandas or Polars where installed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from replica_audit.row_classes import Column, Row, columns
from replica_audit.table_names import check_table

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow as pa

_Row = TypeVar("_Row", bound=Row, covariant=True)


class Table(Sequence[_Row], Generic[_Row]):
    """Rows of the class `kind`, a NamedTuple of `schema` or of the history; `columns` are its fields with their types in DDL.

    A slice is a table. `to_pandas` and `to_polars` raise ImportError where the package is not installed.
    """

    def __init__(self, name: str, kind: type[_Row], rows: Iterable[_Row]) -> None:
        self.name = name
        self.kind = kind
        self._rows = tuple(rows)

    @property
    def columns(self) -> tuple[Column, ...]:
        """Name and type of each column, in order."""
        return columns(self.kind)

    @overload
    def __getitem__(self, index: int) -> _Row: ...
    @overload
    def __getitem__(self, index: slice[int | None, int | None, int | None]) -> Table[_Row]: ...
    def __getitem__(self, index: int | slice[int | None, int | None, int | None]) -> _Row | Table[_Row]:
        return Table(self.name, self.kind, self._rows[index]) if isinstance(index, slice) else self._rows[index]

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[_Row]:
        return iter(self._rows)

    def __repr__(self) -> str:
        return f"<{self.name}: {len(self)} rows of {self.kind.__name__}>"

    def to_arrow(self) -> pa.Table:
        """The rows as an Arrow table; structs and lists stay structs and lists."""
        from replica_audit.arrow_rows import arrow_schema, rows_to_arrow

        return rows_to_arrow(self._rows, arrow_schema(self.columns))

    def to_pandas(self) -> pandas.DataFrame:
        """The rows as a pandas DataFrame; integers and booleans have pandas' nullable types."""
        import pandas as pd

        nullable = {"int64": pd.Int64Dtype(), "int32": pd.Int32Dtype(), "int16": pd.Int16Dtype()}
        nullable |= {"int8": pd.Int8Dtype(), "bool": pd.BooleanDtype()}
        return self.to_arrow().to_pandas(types_mapper=lambda kind: nullable.get(str(kind)))

    def to_polars(self) -> polars.DataFrame:
        """The rows as a Polars DataFrame."""
        import polars as pl

        found = pl.from_arrow(self.to_arrow())
        assert isinstance(found, pl.DataFrame)
        return found


class Tables:
    """Answers whose tables are accessed by name: `answers["findings"]`."""

    def __init__(self, kinds: Mapping[str, type], rows_of: Callable[[str], Iterable[object]]) -> None:
        """`kinds` has the row class of each table; `rows_of` returns a table's rows."""
        self._kinds = kinds
        self._rows_of = rows_of

    @property
    def tables(self) -> tuple[str, ...]:
        """Names of the tables."""
        return tuple(self._kinds)

    def __getitem__(self, table: str) -> Table[Any]:
        """The rows of a table. Raises UnknownNameError, a KeyError that suggests the closest name."""
        return Table(check_table(table, self._kinds), self._kinds[table], self._rows_of(table))
