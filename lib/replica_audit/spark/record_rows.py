"""Records of a segment as rows for the data source, with contents if asked for.

Nothing in a file is left out: a batch whose records cannot be read is a row with a `problem` and no record.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from replica_audit.batch_header import or_none
from replica_audit.errors import FormatError
from replica_audit.model import Damage, SegmentFile
from replica_audit.segments.records import Payload, RecordError, decode_payloads
from replica_audit.snapshot.record_reader import RecordReader, request_of
from replica_audit.snapshot.segment_sources import open_source
from replica_audit.snapshot.storage import Snapshot
from replica_audit.spark.row_filters import OPERATORS, Condition

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

#: Rows that leave a task together.
_ROWS = 10_000


def record_batches(
    snapshot: Snapshot,
    file: SegmentFile,
    names: Mapping[str, object],
    schema: pa.Schema,
    conditions: Sequence[Condition],
    payloads: bool,
) -> Iterator[pa.RecordBatch]:
    """Rows of `RecordRow`, with `payloads` also of `PayloadRow`, for the batches that match `conditions` on offsets.

    `names` are the columns that all rows of the file have in common.
    """
    import pyarrow as pa

    rows: list[dict[str, object]] = []
    for row in _rows(snapshot, file, conditions, payloads):
        rows.append({**names, **row})
        if len(rows) >= _ROWS:
            yield pa.RecordBatch.from_pylist(rows, schema)
            rows = []
    if rows:
        yield pa.RecordBatch.from_pylist(rows, schema)


def _rows(
    snapshot: Snapshot, file: SegmentFile, conditions: Sequence[Condition], payloads: bool
) -> Iterator[dict[str, object]]:
    if file.source != "segment":
        yield {"problem": f"known from {file.source.replace('_', ' ')} only, which has no records that could be read"}
        return
    reader = RecordReader(snapshot)
    try:
        with open_source(snapshot, file) as (items, _):
            for item in items:
                if isinstance(item, Damage):
                    yield {"problem": f"{item.length} bytes at position {item.position} are not a batch: {item.reason}"}
                else:
                    yield from _rows_of_batches(reader, file.path, item[wanted_batches(item, conditions)], payloads)
    except (OSError, FormatError) as error:
        yield {"problem": f"the file could not be read: {error}"}


def wanted_batches(batches: NDArray[np.void], conditions: Sequence[Condition]) -> NDArray[np.bool_]:
    """Mask of the batches that may have records that satisfy the conditions on `offset`."""
    first, last = batches["base_offset"], batches["last_offset"]
    mask = np.ones(len(batches), bool)
    for one in conditions:
        if one.column != "offset":
            continue
        if one.kind in ("EqualTo", "In"):
            offsets = one.value if one.kind == "In" else (one.value,)
            mask &= np.logical_or.reduce([(first <= value) & (value <= last) for value in offsets if value is not None])
        else:
            edge = last if one.kind.startswith("Greater") else first
            mask &= OPERATORS[one.kind](edge, one.value)
    return mask


def _rows_of_batches(
    reader: RecordReader, path: str, batches: NDArray[np.void], payloads: bool
) -> Iterator[dict[str, object]]:
    requests = {}
    for batch in batches:
        base = int(batch["base_offset"])
        if batch["crc_valid"]:
            requests[request_of(path, batch)] = base
        else:
            yield {"batch_base_offset": base, "problem": "the checksum of its batch is wrong"}
    for request, entry in reader.entries(requests):
        base = requests[request]
        if isinstance(entry, str):
            yield {"batch_base_offset": base, "problem": entry}
            continue
        try:
            for record in decode_payloads(entry):
                yield {"batch_base_offset": base, **_row(record, payloads)}
        except RecordError as error:
            yield {"batch_base_offset": base, "problem": f"its batch cannot be decoded: {error}"}


def _row(record: Payload, payloads: bool) -> dict[str, object]:
    row: dict[str, object] = {
        "offset": record.offset,
        "magic": record.magic,
        "timestamp_ms": None if record.timestamp < 0 else record.timestamp,
        "log_append_time": record.appended,
        "transactional": record.transactional,
        "control": record.control,
        "key_size": None if record.key is None else len(record.key),
        "value_size": None if record.value is None else len(record.value),
        "header_count": len(record.headers),
        "leader_epoch": or_none(record.leader_epoch),
        "producer_id": or_none(record.producer_id),
        "producer_epoch": or_none(record.producer_epoch),
        "sequence": or_none(record.sequence),
    }
    if payloads:
        headers = [{"name": name, "value": value} for name, value in record.headers]
        row |= {"key": record.key, "value": record.value, "headers": headers}
    return row
