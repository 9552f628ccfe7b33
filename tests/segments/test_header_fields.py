"""A batch header has one list of fields, `Batch`: arrays, bytes on disk, table, columns and reference follow from it."""

from __future__ import annotations

import ast
import hashlib
from pathlib import Path

import numpy as np
import pyarrow as pa
from tests.support.source_trees import nodes_of

import replica_audit
from replica_audit.arrow_rows import arrow_schema
from replica_audit.batch_header import ABSENT, BATCH_COLUMNS, BATCH_FIELDS, Batch
from replica_audit.bronze_tables import BRONZE_TABLES, SegmentNames
from replica_audit.segments.batch_rows import Batches
from replica_audit.segments.digests import ContentDigest
from replica_audit.segments.header_columns import columns_to_headers, headers_to_columns
from replica_audit.segments.record_batch import BATCH_DTYPE, HEADER_DTYPE

LIBRARY = Path(replica_audit.__file__).parent


def _rows(seed: int) -> np.ndarray:
    """Headers of random bytes, a third of whose numbers are -1."""
    source = np.random.default_rng(seed)
    rows = np.frombuffer(source.bytes(50 * BATCH_DTYPE.itemsize), BATCH_DTYPE).copy()
    rows["crc_unchecked"] = source.random(50) < 0.3
    rows["crc_valid"] = rows["crc_unchecked"] | (source.random(50) < 0.5)
    for name in BATCH_COLUMNS:
        if name != "crc_valid":
            rows[name][source.random(50) < 1 / 3] = ABSENT
    return rows


def test_fields_lie_on_disk_where_the_list_says_without_a_gap():
    """`DefaultRecordBatch`: base offset, length, epoch, magic, CRC, attributes, deltas, times, producer, count."""
    stored = {disk.name or name: disk for name, field in BATCH_FIELDS.items() if (disk := field.disk) is not None}
    assert {name: HEADER_DTYPE.fields[name][1] for name in stored} == {name: at.position for name, at in stored.items()}
    end = 0
    for name in HEADER_DTYPE.names:
        assert HEADER_DTYPE.fields[name][1] == end
        end += HEADER_DTYPE[name].itemsize
    assert end == 61


def test_the_table_has_the_types_of_the_arrays():
    schema = arrow_schema(BRONZE_TABLES["batches"])
    assert schema.names == [*SegmentNames._fields, *BATCH_COLUMNS]
    assert {name: schema.field(name).type.to_pandas_dtype() for name in BATCH_COLUMNS} == {
        name: BATCH_DTYPE[name].type for name in BATCH_COLUMNS
    }


def test_what_a_header_has_not_is_null_in_columns_and_comes_back():
    rows = _rows(1)
    columns = headers_to_columns(rows)
    for name, field in BATCH_COLUMNS.items():
        absent = int((rows[name] == ABSENT).sum()) if field.may_lack else 0
        absent = int(rows["crc_unchecked"].sum()) if name == "crc_valid" else absent
        assert columns[name].null_count == absent, name
    assert columns_to_headers(pa.table(columns)).tobytes() == rows.tobytes()
    assert list(headers_to_columns(rows, ["crc", "magic"])) == ["magic", "crc"]


def test_batches_have_the_fields_of_their_rows_by_base_offset():
    rows = _rows(2)
    found = Batches.in_order(rows)
    assert all(isinstance(batch, Batch) for batch in found)
    assert [tuple(batch) for batch in found] == rows[rows["base_offset"].argsort(kind="stable")].tolist()


def test_no_other_list_gives_the_fields_types():
    """Of a pair, a mapping or a call, a field's name beside a type of numpy, Arrow or SQL."""
    types = {"i8", "i4", "i2", "i1", "?", ">i8", ">i4", ">i2", "bigint", "int", "smallint", "tinyint", "int64", "int32"}
    found = []
    for path in LIBRARY.rglob("*.py"):
        for node in nodes_of(path):
            pairs = zip(node.keys, node.values, strict=True) if isinstance(node, ast.Dict) else ()
            pairs = [node.elts] if isinstance(node, ast.Tuple) and len(node.elts) == 2 else pairs
            for name, kind in pairs:
                word = (
                    kind.value if isinstance(kind, ast.Constant) else getattr(getattr(kind, "func", None), "attr", "")
                )
                if (
                    isinstance(name, ast.Constant)
                    and name.value in {"base_sequence", "max_timestamp"}
                    and word in types
                ):
                    found.append(f"{path}:{node.lineno}: {name.value}")
    assert not found


def test_a_digest_has_a_third_value_for_a_checksum_that_nobody_computed():
    """However the batches are split; and it is what it ever was where all were computed (`test_golden_ids`)."""
    rows = _rows(3)
    checked = rows.copy()
    checked["crc_unchecked"] = False

    def digest(*parts: np.ndarray) -> str:
        found = ContentDigest()
        for part in parts:
            found.add(part)
        return found.hex_digits()

    assert digest(rows) == digest(rows[:7], rows[7:8], rows[8:]) != digest(checked)
    older = checked[list(BATCH_COLUMNS)].astype([(name, BATCH_DTYPE[name]) for name in BATCH_COLUMNS])
    assert digest(checked) == hashlib.sha256(older.tobytes()).hexdigest()
