"""Conversion of batch headers to Arrow columns and back; nothing else converts between the two.

A value absent from a header is -1 in arrays and null in columns. So is `crc_valid` if the checksum was never computed,
which arrays mark by `crc_unchecked`.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from replica_audit.arrow_rows import arrow_to_numbers, numbers_to_arrow
from replica_audit.batch_header import ABSENT, BATCH_COLUMNS
from replica_audit.segments.record_batch import BATCH_DTYPE


def headers_to_columns(rows: NDArray[np.void], names: Collection[str] | None = None) -> dict[str, pa.Array]:
    """The fields of `rows` (`BATCH_DTYPE`), or only those in `names`, as Arrow arrays."""
    columns = {}
    for name, stored in BATCH_COLUMNS.items():
        if names is None or name in names:
            values, mask = rows[name], None
            if stored.may_lack:
                mask = values == ABSENT
            elif name == "crc_valid":
                mask = rows["crc_unchecked"]
            columns[name] = numbers_to_arrow(values, mask if mask is not None and mask.any() else None)
    return columns


def columns_to_headers(table: pa.Table) -> NDArray[np.void]:
    """The rows of `table`, which has a column for each field, as `BATCH_DTYPE`."""
    rows = np.zeros(table.num_rows, BATCH_DTYPE)
    for name, stored in BATCH_COLUMNS.items():
        if name != "crc_valid":
            rows[name] = arrow_to_numbers(table[name], ABSENT if stored.may_lack else None)
    rows["crc_valid"] = arrow_to_numbers(table["crc_valid"], True)
    rows["crc_unchecked"] = arrow_to_numbers(table["crc_valid"].is_null())
    return rows
