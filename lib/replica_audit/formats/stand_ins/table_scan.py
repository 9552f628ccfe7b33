"""Rows of a batch or record table as the batches of one segment, in the shape that a scan of its file would give."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from replica_audit.batch_header import ABSENT, BATCH_FIELDS
from replica_audit.formats.files.storage import Snapshot
from replica_audit.formats.format_error import FormatError
from replica_audit.formats.inventory import SegmentFile
from replica_audit.formats.segments.batches import BATCH_DTYPE
from replica_audit.formats.segments.header_columns import filled
from replica_audit.formats.stand_ins.batch_tables import COLUMNS, read_table
from replica_audit.formats.stand_ins.second_hand import BATCHES, FINGERPRINT, SecondHandLog
from replica_audit.model import Damage

#: What a batch table leaves unproven without a column.
_BATCH_COLUMNS = {
    "crc": ("batch_checksums", "contents"),
    "crc_valid": ("checksum_verdicts",),
    "size": ("sizes",),
    "position": ("positions",),
    "record_count": ("record_counts",),
    "attributes": ("attributes",),
    "base_timestamp": ("first_timestamps",),
    "producer_id": ("producers",),
}
#: Columns of a record table that a record is known by, with what is unproven without them.
_RECORD_COLUMNS = {
    "timestamp": (),
    "key_size": (),
    "value_size": (),
    "checksum": ("contents",),
    "producer_id": ("producers",),
    "producer_epoch": (),
    "sequence": (),
}


def read_table_rows(snapshot: Snapshot, file: SegmentFile) -> SecondHandLog:
    """The rows of `file.parts` about the segment `file`. Raises OSError and FormatError."""
    table = pa.concat_tables(list(_tables(snapshot, file)))
    # A table exported twice, in parts that overlap, or joined to another: equal rows are of one batch or record.
    table = table.group_by(table.column_names, use_threads=False).aggregate([])
    columns = {name for part in file.parts for name in part.columns}
    assemble = _assemble_batches if file.source == "batch_table" else _assemble_records
    return assemble(table, columns, file)


def _tables(snapshot: Snapshot, file: SegmentFile) -> Iterator[pa.Table]:
    schema = pa.schema(list(COLUMNS[file.source].items()))
    yield schema.empty_table()
    for path in sorted({part.path for part in file.parts}):
        for batch in read_table(snapshot, path, file.source):
            rows = batch.filter(_belongs(batch, file))
            if rows.num_rows:
                yield pa.Table.from_batches([rows])


def _belongs(batch: pa.RecordBatch, file: SegmentFile) -> pa.Array:
    segment = file.parts[0].segment_base_offset
    wanted = [("broker_id", file.broker_id), ("topic", file.topic), ("partition", file.partition)]
    mask = pc.equal(pc.fill_null(batch["log_dir"], ""), file.parts[0].log_dir)
    for name, value in wanted:
        mask = pc.and_(mask, pc.equal(batch[name], value))
    if "segment_base_offset" in batch.schema.names:
        bases = batch["segment_base_offset"]
        mask = pc.and_(mask, pc.is_null(bases) if segment is None else pc.fill_null(pc.equal(bases, segment), False))
    return mask


def _assemble_batches(table: pa.Table, columns: set[str], file: SegmentFile) -> SecondHandLog:
    unproven = {"checksums", "tail", *_missing(_BATCH_COLUMNS, columns)}
    order = "position" if "position" in columns else "base_offset"
    table = table.take(pc.sort_indices(table[order]))
    batches = np.zeros(table.num_rows, BATCH_DTYPE)
    for name in BATCH_FIELDS:
        _fill(batches, name, table[name], file, {"magic": 2, "size": 0, "attributes": 0}.get(name, ABSENT))
    _check_offsets(batches, file)
    if "max_timestamp" not in columns:
        unproven.add("timestamps")
    if "record_count" not in columns:
        batches["record_count"] = batches["last_offset"] - batches["base_offset"] + 1
    if "position" not in columns:
        batches["position"] = np.cumsum(batches["size"]) - batches["size"]
    if "leader_epoch" not in columns and (batches["magic"] >= 2).any():
        unproven.add("leader_epochs")
    if {"position", "size"} <= columns and len(kept := _without_overlap(batches)) < len(batches):
        unproven.add("overlap")
        batches = batches[kept]
    needed = {"crc", "size", "crc_valid"} - columns
    form = f"batches without {', '.join(sorted(needed))}" if needed else BATCHES
    damage = tuple(_unlisted_bytes(batches)) if {"position", "size"} <= columns else ()
    size = int((batches["position"] + batches["size"]).max()) if len(batches) else 0
    return SecondHandLog(batches, damage, size, tuple(sorted(unproven)), form)


def _assemble_records(table: pa.Table, columns: set[str], file: SegmentFile) -> SecondHandLog:
    known_by = [name for name in _RECORD_COLUMNS if name in columns]
    unproven = {"batch_checksums", "sizes", "positions", "tail", "attributes", *_missing(_RECORD_COLUMNS, columns)}
    table = table.take(pc.sort_indices(table["offset"]))
    batches = np.zeros(table.num_rows, BATCH_DTYPE)
    names = {
        "base_offset": "offset",
        "last_offset": "offset",
        "base_timestamp": "timestamp",
        "max_timestamp": "timestamp",
    }
    names |= {
        "base_sequence": "sequence",
        **{name: name for name in ("leader_epoch", "magic", "producer_id", "producer_epoch")},
    }
    for name, column in names.items():
        _fill(batches, name, table[column], file, 2 if name == "magic" else ABSENT)
    _check_offsets(batches, file)
    if "timestamp" not in columns:
        unproven.add("timestamps")
    if "leader_epoch" not in columns and (batches["magic"] >= 2).any():
        unproven.add("leader_epochs")
    batches["record_count"], batches["crc_valid"] = 1, True
    for name in ("key_size", "value_size"):
        batches["size"] += np.maximum(filled(table[name]), 0)
    batches["position"] = np.cumsum(batches["size"]) - batches["size"]
    shown = zip(*(filled(table[name]).tolist() for name in known_by), strict=True) if known_by else ()
    batches["crc"] = [FINGERPRINT | zlib.crc32(repr(row).encode("ascii")) for row in shown] or FINGERPRINT
    form = f"records by {', '.join(['offset', *known_by])}"
    return SecondHandLog(batches, (), int(batches["size"].sum()), tuple(sorted(unproven)), form)


def _missing(wanted: dict[str, tuple[str, ...]], columns: set[str]) -> Iterable[str]:
    return (word for name, words in wanted.items() if name not in columns for word in words)


def _fill(batches: np.ndarray, name: str, values: pa.ChunkedArray, file: SegmentFile, absent: int) -> None:
    if name == "crc_valid":
        batches[name] = values.fill_null(True).to_numpy()
        return
    numbers = filled(values, absent)
    limits = np.iinfo(BATCH_DTYPE[name])
    wrong = np.flatnonzero((numbers < limits.min) | (numbers > limits.max))
    if len(wrong):
        expected = f"{name} of {limits.min} to {limits.max}"
        raise FormatError(
            file.parts[0].path, None, expected, str(numbers[wrong[0]]), "docs/capture.md lists the columns"
        )
    batches[name] = numbers


def _check_offsets(batches: np.ndarray, file: SegmentFile) -> None:
    wrong = np.flatnonzero((batches["base_offset"] < 0) | (batches["last_offset"] < batches["base_offset"]))
    if len(wrong):
        row = batches[wrong[0]]
        found = f"offsets {row['base_offset']} to {row['last_offset']}"
        raise FormatError(
            file.parts[0].path, None, "offsets from 0 on, the last not below the base", found, "mend the table"
        )


def _without_overlap(batches: np.ndarray) -> list[int]:
    """Indexes of the batches, in order of position, that begin where the one before ended or later."""
    kept, end = [], 0
    for index, (position, size) in enumerate(zip(batches["position"].tolist(), batches["size"].tolist(), strict=True)):
        if position >= end:
            kept.append(index)
            end = position + size
    return kept


def _unlisted_bytes(batches: np.ndarray) -> Iterator[Damage]:
    """Bytes between two batches that the table has no row for: they hold no sound batch, or rows are missing."""
    ends: Sequence[int] = [0, *(batches["position"] + batches["size"]).tolist()]
    starts = batches["position"].tolist()
    for index, (end, start) in enumerate(zip(ends, starts, strict=False)):
        if start > end:
            before = int(batches["last_offset"][index - 1]) + 1 if index else None
            reason = f"the table has no batch for the {start - end} bytes from {end} on"
            yield Damage(end, start - end, reason, "corrupt", before, int(batches["base_offset"][index]))
