"""Classes whose objects are the rows of a table: their columns, their JSON, and their order.

A row is a NamedTuple whose fields are columns; Spark DDL, dicts and readers are derived from the annotations. The tables are in
`schema` and `bronze_tables`.
"""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import is_dataclass
from functools import cache, partial
from operator import attrgetter, itemgetter
from types import UnionType
from typing import Annotated, Any, Literal, NamedTuple, Protocol, TypeVar, Union, get_args, get_origin, get_type_hints

#: 32 bits: ids of brokers and partitions, leader epochs.
Int = Annotated[int, "int"]

#: A row from JSON; `read_row` makes it typed.
RawRow = Mapping[str, Any]


class Row(Protocol):
    """A row of any table: a NamedTuple whose fields are columns."""

    @property
    def _fields(self) -> tuple[str, ...]: ...
    def __iter__(self) -> Iterator[Any]: ...
    def __len__(self) -> int: ...


AnyRow = TypeVar("AnyRow", bound=Row)


class Column(NamedTuple):
    """A column's name and its type in Spark DDL."""

    name: str
    type: str


_PLAIN = {str: "string", int: "bigint", bool: "boolean", bytes: "binary"}


def _ddl_type(kind: Any) -> str:
    """Spark DDL of an annotation: `Int` is narrower than `int`, a class is a struct of its fields."""
    if kind in _PLAIN:
        return _PLAIN[kind]
    if width := getattr(kind, "__metadata__", None):
        return width[0]
    origin, args = get_origin(kind), get_args(kind)
    if origin is Literal:
        return "string"
    if origin in (Union, UnionType):
        return _ddl_type(args[0])
    if origin in (Sequence, tuple):
        return f"array<{_ddl_type(args[0])}>"
    if origin is Mapping:
        return f"map<{_ddl_type(args[0])},{_ddl_type(args[1])}>"
    fields = get_type_hints(kind, include_extras=True)
    return f"struct<{','.join(f'{name}:{_ddl_type(of)}' for name, of in fields.items())}>"


def column_names(row: type[Row]) -> tuple[str, ...]:
    """The column names of a class of rows."""
    return tuple(row.__annotations__)


def columns(row: type) -> tuple[Column, ...]:
    """The columns of a class of rows."""
    return tuple(Column(name, _ddl_type(kind)) for name, kind in get_type_hints(row, include_extras=True).items())


def ddl(columns: Iterable[Column]) -> str:
    """Spark DDL of `columns`, e.g. for `StructType.fromDDL`."""
    return ", ".join(f"`{column.name}` {column.type}" for column in columns)


#: Columns that rows are sorted by, if a table has them, its partition first; null sorts first.
SORT_KEYS = (
    "topic",
    "partition",
    "broker_id",
    "protocol",
    "start_offset",
    "code",
    "candidate_id",
    "group",
    "source",
    "entry",
    "time_ms",
    "path",
    "position",
    "segment_id",
    "suite",
    "name",
)

#: For each key whether there is a value, and the value.
SortKey = tuple[tuple[bool, Any], ...]

_LACKING = (False, 0)


def sort_keys(rows: Sequence[Row]) -> list[SortKey]:
    """The sort key of each of `rows` of one table: rows without a value for a key come first."""
    names = [name for name in SORT_KEYS if rows and name in rows[0]._fields]
    columns = (map(attrgetter(name), rows) for name in names)
    keys = [[_LACKING if value is None else (True, value) for value in column] for column in columns]
    return list(zip(*keys, strict=True)) if keys else [()] * len(rows)


def to_dict(row: Row) -> dict[str, Any]:
    """A row as JSON: structs are dicts, too."""
    return {name: value if type(value) in _SCALARS else plain(value) for name, value in zip(row._fields, row)}


#: Types of most values of a row, which need no conversion.
_SCALARS = frozenset((type(None), bool, int, float, str))


def plain(value: object) -> object:
    """A value of a row as JSON."""
    if type(value) in _SCALARS:
        return value
    if isinstance(value, (list, tuple)):
        return to_dict(value) if hasattr(value, "_fields") else [plain(one) for one in value]
    if is_dataclass(value):
        return {name: plain(getattr(value, name)) for name in value.__dataclass_fields__}
    # Rows share equal maps.
    return dict(value) if isinstance(value, dict) else value


def render_column(values: Sequence[object], render: Callable[[object], str]) -> list[str]:
    """Text of each value of a column, as in JSON; equal values are rendered once."""
    kinds = set(map(type, values)) - {type(None)}
    # By identity, since True equals 1 and 1.0, and other values have no hash; equal ones are often one object.
    keys: Iterable[object] = values if kinds <= {str} or kinds <= {int} or kinds <= {bool} else map(id, values)
    keys = list(keys)
    texts = {key: render(plain(value)) for key, value in dict(zip(keys, values)).items()}
    return [texts[key] for key in keys]


def rows_of_columns(kind: type[AnyRow], columns: Iterable[Iterable[Any]]) -> Iterator[AnyRow]:
    """Rows of class `kind` from the values of each of its columns."""
    row: Any = kind
    return map(row._make, zip(*columns, strict=True))


def pack_rows(rows: Iterable[Iterable[object]]) -> bytes:
    """Rows of one class, packed column by column: a fifth of the size of packed rows, and unpacked in two thirds of the time."""
    return zlib.compress(pickle.dumps(list(zip(*rows)), pickle.HIGHEST_PROTOCOL), 1)


def unpack_rows(packed: bytes, kind: type[AnyRow]) -> Iterator[AnyRow]:
    """The rows of class `kind` that `pack_rows` packed."""
    return rows_of_columns(kind, pickle.loads(zlib.decompress(packed)))


def read_row(kind: type[AnyRow], row: RawRow) -> AnyRow:
    """The row of class `kind` in a dict, structs included; inverse of `to_dict`. Raises KeyError for a missing column."""
    return _reader(kind)(row)


@cache
def _reader(kind: Any) -> Callable[[RawRow], Any]:
    values = itemgetter(*kind._fields)
    structs = [(number, read) for number, read in enumerate(value_readers(kind)) if read is not None]

    def read(row: RawRow) -> object:
        found = list(values(row))
        for number, read_value in structs:
            found[number] = read_value(found[number])
        return kind._make(found)

    return read


@cache
def value_readers(kind: type) -> tuple[Callable[[object], object] | None, ...]:
    """For each column a converter from JSON's and Arrow's value to that of class `kind`; None if they are the same."""
    structs = map(_struct_of, get_type_hints(kind).values())
    return tuple(None if struct is None else partial(_read_structs, struct) for struct in structs)


def _struct_of(hint: Any) -> type | None:
    """The class of a column's structs, one or several; None for plain values."""
    if hasattr(hint, "_fields") or is_dataclass(hint):
        return hint
    return next((found for one in get_args(hint) if (found := _struct_of(one)) is not None), None)


def _read_structs(struct: Any, value: object) -> object:
    if isinstance(value, list):
        return [_read_structs(struct, one) for one in value]
    if not isinstance(value, Mapping):
        return value
    return _reader(struct)(value) if hasattr(struct, "_fields") else struct(**value)


def sort_rows(rows: Sequence[AnyRow]) -> list[AnyRow]:
    """Rows of one table in the order of their `sort_keys`."""
    found = list(rows)
    # Column by column, the last key first: tuples of all keys would take more memory than the rows.
    for name in reversed(SORT_KEYS):
        if found and name in found[0]._fields:
            value = attrgetter(name)
            if any(value(row) is None for row in found):
                found.sort(key=lambda row: _LACKING if value(row) is None else (True, value(row)))
            else:
                found.sort(key=value)
    return found
