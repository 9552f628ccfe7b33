"""Conversion of rows to Arrow tables and back: types of columns, and arrays built from buffers.

`pyarrow.array`, `pyarrow.scalar` and `to_numpy` import pandas if it is installed, and so do `combine_chunks` of no chunks, functions
of `pyarrow.compute` with values of Python, grouping of a table, and expressions: in a Python worker that takes longer than scanning a
small snapshot.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, partial
from itertools import accumulate, chain
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from replica_audit.row_classes import AnyRow, Column, Row, column_names, rows_of_columns, value_readers

_PLAIN = {
    "string": pa.string(),
    "bigint": pa.int64(),
    "int": pa.int32(),
    "smallint": pa.int16(),
    "tinyint": pa.int8(),
    "boolean": pa.bool_(),
}


@cache
def arrow_type(ddl: str) -> pa.DataType:
    """The Arrow type of a Spark DDL type, e.g. `array<struct<start:bigint,code:string>>`. Raises ValueError for others."""
    if ddl in _PLAIN:
        return _PLAIN[ddl]
    kind, _, inner = ddl.removesuffix(">").partition("<")
    if kind == "array":
        return pa.list_(arrow_type(inner))
    parts = _split(inner)
    if kind == "map":
        return pa.map_(*map(arrow_type, parts))
    if kind == "struct":
        return pa.struct([(name, arrow_type(of)) for name, _, of in (part.partition(":") for part in parts)])
    raise ValueError(f"{ddl}: no type of a column here")


def arrow_schema(columns: Sequence[Column]) -> pa.Schema:
    """The Arrow schema of `columns`, in their order."""
    return pa.schema([(column.name, arrow_type(column.type)) for column in columns])


def rows_to_arrow(rows: Iterable[Row], schema: pa.Schema) -> pa.Table:
    """An Arrow table of `rows` of one class. Columns of `schema` that the rows lack are null; fields that `schema` lacks are left out."""
    rows = list(rows)
    known = dict(zip(rows[0]._fields, zip(*rows))) if rows else {}
    absent = [None] * len(rows)
    columns = [values_to_arrow(known.get(field.name, absent), field.type) for field in schema]
    return pa.Table.from_arrays(columns, schema=schema)


#: Rows converted to objects at a time.
_STEP = 1 << 12


def arrow_to_rows(table: pa.Table, kind: type[AnyRow]) -> Iterator[AnyRow]:
    """The rows of class `kind`, from columns named for its fields; other columns are ignored.

    Maps become dicts in the order of their keys. Equal texts become one object, and so do equal structs, lists and maps of
    neighbouring rows, which Arrow would repeat for every row: lists and maps of a row must not be changed.
    """
    readers = value_readers(kind)
    texts: dict[str | None, str | None] = {}
    for batch in table.select(column_names(kind)).to_batches(max_chunksize=_STEP):
        columns = [_values(column, read, texts) for column, read in zip(batch.columns, readers, strict=True)]
        yield from rows_of_columns(kind, columns)


def _values(
    column: pa.Array, read: Callable[[object], object] | None, texts: dict[str | None, str | None]
) -> list[object]:
    if read is not None and pa.types.is_struct(column.type):
        return list(_structs(column, read))
    if pa.types.is_list(column.type):
        return list(_lists(column, _values(column.flatten(), read, texts)))
    values = column.to_pylist()
    if pa.types.is_string(column.type):
        return [texts.setdefault(value, value) for value in values]
    if pa.types.is_map(column.type):
        return _shared([None if value is None else dict(sorted(value)) for value in values])
    return values


def _structs(column: pa.StructArray, read: Callable[[object], object]) -> Iterator[object]:
    """`read` of each struct; equal structs share one object, since each partition repeats the files of its log dir."""
    names = [field.name for field in column.type]
    if any(pa.types.is_nested(field.type) for field in column.type):
        yield from map(read, column.to_pylist())
        return
    known: dict[tuple[object, ...], object] = {}
    parts = [child.to_pylist() for child in column.flatten()]
    for is_there, values in zip(column.is_valid().to_pylist(), zip(*parts, strict=True), strict=True):
        if is_there and values not in known:
            known[values] = read(dict(zip(names, values, strict=True)))
        yield known[values] if is_there else None


def _lists(column: pa.ListArray, items: list[object]) -> Iterator[object]:
    """The lists of a column, given the `items` of all of them; equal lists are one object."""
    known: dict[tuple[object, ...], object] = {}
    # Structs and lists are compared by identity: equal ones are one object already.
    key = partial(map, id) if pa.types.is_nested(column.type.value_type) else iter
    lengths = arrow_to_numbers(column.value_lengths(), -1).tolist()
    for length, end in zip(lengths, accumulate(max(0, length) for length in lengths)):
        one = items[end - length : end]
        yield None if length < 0 else known.setdefault(tuple(key(one)), one)


def _shared(values: list[Any]) -> list[Any]:
    """Replace equal values by one object."""
    seen: dict[str, Any] = {}
    return [value if value is None else seen.setdefault(repr(value), value) for value in values]


def _split(text: str) -> list[str]:
    """The parts of `text` between commas outside angle brackets."""
    parts, depth, start = [], 0, 0
    for index, character in enumerate(text):
        depth += (character == "<") - (character == ">")
        if character == "," and depth == 0:
            parts.append(text[start:index])
            start = index + 1
    return [*parts, text[start:]]


def numbers_to_arrow(
    values: NDArray[np.int64] | NDArray[np.bool_], absent: NDArray[np.bool_] | None = None
) -> pa.Array:
    """An array of integers of any width, or booleans; null where `absent` is true."""
    kind = pa.from_numpy_dtype(values.dtype)
    numbers = (
        _bits(values.astype(bool, copy=False)) if kind == pa.bool_() else pa.py_buffer(np.ascontiguousarray(values))
    )
    return pa.Array.from_buffers(kind, len(values), [None if absent is None else _bits(~absent), numbers])


def joined(column: pa.ChunkedArray) -> pa.Array:
    """All values of a column as one array."""
    return pa.concat_arrays(column.chunks) if column.num_chunks else values_to_arrow([], column.type)


def arrow_to_numbers(column: pa.Array | pa.ChunkedArray, absent: int | None = None) -> NDArray[Any]:
    """The integers or booleans of a column, `absent` for null; inverse of `numbers_to_arrow`."""
    values = joined(column) if isinstance(column, pa.ChunkedArray) else column
    if absent is not None:
        values = values.fill_null(value_to_arrow(absent, values.type))
    if pa.types.is_boolean(values.type):
        return np.from_dlpack(values.cast(pa.uint8())).view(bool)
    return np.from_dlpack(values)


def values_to_arrow(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """A column's values: texts, integers, booleans, and lists, mappings and structures of them; None is null.

    Raises OverflowError for a number that `kind` cannot hold, and TypeError or AttributeError for values of another kind.
    """
    kinds = set(map(type, values))
    validity = None if type(None) not in kinds else _bits(np.array([value is not None for value in values], bool))
    if pa.types.is_integer(kind):
        # Values of these two types need no check.
        plain = kinds <= {int, type(None)}
        numbers = np.array(
            [value or 0 for value in values] if plain else [0 if value is None else _whole(value) for value in values],
            f"i{kind.bit_width // 8}",
        )
        return pa.Array.from_buffers(kind, len(values), [validity, pa.py_buffer(numbers)])
    if pa.types.is_boolean(kind):
        flags = np.array([value is not None and _truth(value) for value in values], bool)
        return pa.Array.from_buffers(kind, len(values), [validity, _bits(flags)])
    if pa.types.is_string(kind):
        texts = [b"" if value is None else value.encode() for value in values]
        return pa.Array.from_buffers(kind, len(values), [validity, _offsets(texts), pa.py_buffer(b"".join(texts))])
    if pa.types.is_struct(kind):
        fields = [kind.field(number) for number in range(kind.num_fields)]
        children = [
            values_to_arrow([None if value is None else getattr(value, field.name) for value in values], field.type)
            for field in fields
        ]
        return pa.Array.from_buffers(kind, len(values), [validity], children=children)
    if pa.types.is_map(kind):
        items = [[] if value is None else list(dict(value).items()) for value in values]
        pairs = list(chain.from_iterable(items))
        entries = pa.StructArray.from_arrays(
            [
                values_to_arrow([pair[number] for pair in pairs], of)
                for number, of in enumerate((kind.key_type, kind.item_type))
            ],
            fields=[kind.key_field, kind.item_field],
        )
        return pa.Array.from_buffers(kind, len(values), [validity, _offsets(items)], children=[entries])
    if pa.types.is_list(kind):
        lists = [() if value is None else value for value in values]
        child = values_to_arrow(list(chain.from_iterable(lists)), kind.value_type)
        return pa.Array.from_buffers(kind, len(values), [validity, _offsets(lists)], children=[child])
    raise TypeError(f"{kind}: no type of a column here")


def value_to_arrow(value: object, kind: pa.DataType) -> pa.Scalar:
    """One value as a scalar of type `kind`. Raises as `values_to_arrow`."""
    return values_to_arrow([value], kind)[0]


def _whole(value: object) -> int:
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        return int(value)
    raise TypeError(f"{value!r} is not a whole number")


def _truth(value: object) -> bool:
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    raise TypeError(f"{value!r} is neither true nor false")


def _bits(flags: NDArray[np.bool_]) -> pa.Buffer:
    return pa.py_buffer(np.packbits(flags, bitorder="little"))


def _offsets(parts: Sequence[Sequence[object]]) -> pa.Buffer:
    """Offsets of `parts` in their concatenation. Raises OverflowError if they are too long for one array."""
    ends = np.cumsum([0, *map(len, parts)], dtype=np.int64)
    if ends[-1] > np.iinfo(np.int32).max:
        raise OverflowError(f"{ends[-1]} bytes or items in one array")
    return pa.py_buffer(ends.astype(np.int32))
