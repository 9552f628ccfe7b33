"""The columns of `replica_progress`, and any table of observations turned into them."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from replica_audit.formats.format_error import FormatError

PROGRESS_SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("time_ms", pa.int64()),
        ("sequence", pa.int64()),
        ("leader_id", pa.int32()),
        ("leader_epoch", pa.int32()),
        ("isr", pa.list_(pa.int32())),
        ("pending_isr", pa.list_(pa.int32())),
        ("min_insync_replicas", pa.int32()),
        ("lag_time_ms", pa.int64()),
        ("broker_id", pa.int32()),
        ("known_log_end_offset", pa.int64()),
        ("log_end_offset", pa.int64()),
        ("last_caught_up_ms", pa.int64()),
        ("high_watermark", pa.int64()),
        ("eligible", pa.bool_()),
    ]
)
REQUIRED = ("topic", "partition", "broker_id")
#: -1 means absent; of `known_log_end_offset` it means that a new leader has seen no fetch yet.
_MINUS_ONE_IS_NONE = ("leader_id", "leader_epoch", "log_end_offset", "last_caught_up_ms", "high_watermark")
LISTS = ("isr", "pending_isr")
HINT = "docs/capture.md has the columns of replica_progress"


def from_columns(table: pa.Table) -> pa.Table:
    """Any table's columns as those of the schema; raises FormatError or an ArrowException where a type does not fit."""
    columns = []
    for field in PROGRESS_SCHEMA:
        if field.name not in table.column_names:
            if field.name in REQUIRED:
                raise FormatError(
                    "replica_progress", None, f"the column {field.name}", ", ".join(table.column_names), HINT
                )
            column = pa.nulls(table.num_rows, field.type)
        else:
            column = table[field.name]
        if field.name == "time_ms" and "time" in table.column_names:
            column = pc.coalesce(column.cast(pa.int64()), _times(table["time"]))
        if field.name in LISTS and pa.types.is_string(column.type):
            column = _ids(column)
        if field.name == "sequence":
            column = pc.fill_null(column.cast(pa.int64()), 0)
        if pa.types.is_timestamp(column.type):
            column = column.cast(pa.timestamp("ms", column.type.tz), safe=False).cast(pa.int64())
        column = column.cast(field.type)
        if pa.types.is_string(field.type):
            column.validate(full=True)  # neither JSON nor Parquet has been checked for UTF-8
        if field.name in _MINUS_ONE_IS_NONE:
            column = pc.if_else(pc.less(column, 0), pa.scalar(None, field.type), column)
        columns.append(column)
    return pa.table(columns, schema=PROGRESS_SCHEMA)


def _ids(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """`1,2`, `1 2`, `1;2` or `[1, 2]` as lists."""
    plain = pc.utf8_trim_whitespace(pc.replace_substring_regex(column, r"[\[\]{}()]", ""))
    parts = pc.split_pattern_regex(plain, r"[\s,;|]+")
    empty = pa.scalar([], pa.list_(pa.string()))
    return pc.if_else(pc.equal(plain, ""), empty, parts).cast(pa.list_(pa.int32()))


def _times(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """ISO 8601 (UTC where no zone is given) as milliseconds."""
    if pa.types.is_timestamp(column.type):
        return column.cast(pa.timestamp("ms", column.type.tz), safe=False).cast(pa.int64())
    zoned = pc.match_substring_regex(column, r"(?:Z|[+-]\d\d:?\d\d)$")
    whole = pc.if_else(zoned, column, pc.binary_join_element_wise(column, "Z", ""))
    return whole.cast(pa.timestamp("ms", "UTC")).cast(pa.int64())
