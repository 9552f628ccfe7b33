"""Entries of a metadata log or snapshot: batches decoded into messages with their times (`RecordsIterator`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

import numpy as np

from replica_audit.batch_header import CODEC_MASK, CONTROL
from replica_audit.errors import FormatError
from replica_audit.model import Damage
from replica_audit.segments.compression import CodecError, decompress
from replica_audit.segments.record_batch import BATCH_DTYPE, HEADER_BYTES
from replica_audit.segments.records import RecordError, read_records
from replica_audit.segments.scan import scan_segment
from replica_audit.snapshot.message_fields import FieldReader, MessageError
from replica_audit.snapshot.metadata.keyed_records import KeyedRecord
from replica_audit.snapshot.metadata.kraft_records import (
    KRAFT_VOTERS,
    LEADER_CHANGE,
    SNAPSHOT_FOOTER,
    SNAPSHOT_HEADER,
    Message,
    Voters,
    parse_message,
    parse_snapshot_time,
    parse_voters,
)
from replica_audit.snapshot.storage import Snapshot

if TYPE_CHECKING:
    from numpy.typing import NDArray

_HINT = "copy the metadata log again, or take another node's; without one the listing of topics is used"

#: A controller's batches are at most 8 MiB (`MAX_BATCH_SIZE_BYTES`).
_GREATEST_BATCH = 64 << 20


class SnapshotTime(NamedTuple):
    """The time of the last record that a snapshot contains, in ms."""

    time_ms: int


class SnapshotEnd(NamedTuple):
    """The footer of a snapshot: without it the snapshot is incomplete."""


class MetadataEntry(NamedTuple):
    """A message of the log with its offset, the batch's leader (controller) epoch, its time in ms, and the batch's end."""

    offset: int
    epoch: int
    time_ms: int
    message: Message | KeyedRecord | Voters | SnapshotTime | SnapshotEnd
    batch_end: int
    """Brokers apply a batch as a whole."""


#: What a record's value is decoded with; None for kinds that are passed over.
Parse = Callable[[bytes], Message | KeyedRecord | None]


def scan_headers(
    stream: BinaryIO, size_bytes: int, base_offset: int
) -> tuple[NDArray[np.void], list[Damage], tuple[int, int]]:
    """The sound batches of a file (`BATCH_DTYPE`) in order, and what lies between and behind them.

    Third the greatest (controller epoch, end offset) that the headers of batches with a wrong checksum show.
    """
    parts, damage, shown = [np.empty(0, BATCH_DTYPE)], [], (-1, 0)
    for item in scan_segment(stream, size_bytes, base_offset):
        if isinstance(item, Damage):
            damage.append(item)
            continue
        sound = item["crc_valid"] & (item["magic"] == 2)
        for bad in item[~sound]:
            reason = (
                f"expected a batch of magic 2 with a right checksum, found magic {bad['magic']} and crc {bad['crc']}"
            )
            place = int(bad["position"]), int(bad["size"])
            damage.append(Damage(*place, reason, "corrupt", int(bad["base_offset"]), int(bad["last_offset"]) + 1))
            shown = max(shown, (int(bad["leader_epoch"]), int(bad["last_offset"]) + 1))
        parts.append(item[sound])
    return np.concatenate(parts), damage, shown


def read_entries(
    stream: BinaryIO, path: str, headers: NDArray[np.void], parse: Parse = parse_message
) -> Iterator[MetadataEntry]:
    """Entries of the batches `headers` of one file, in order; kinds that `parse` passes over are left out.

    Raises FormatError, naming the batch, for records that cannot be taken apart.
    """
    for header in headers:
        position, size = int(header["position"]), int(header["size"])
        if size > _GREATEST_BATCH:
            raise FormatError(path, position, f"a batch of at most {_GREATEST_BATCH} bytes", f"{size} bytes", _HINT)
        stream.seek(position)
        data = stream.read(size)
        try:
            yield from _batch_entries(header, data, parse)
        except (MessageError, CodecError, RecordError) as error:
            raise FormatError(path, position, "a batch of metadata records", str(error), _HINT) from error


def read_snapshot(snapshot: Snapshot, path: str, parse: Parse = parse_message) -> list[MetadataEntry]:
    """The entries of a `.checkpoint` file; none of a damaged one: it has no footer then, and is refused."""
    with snapshot.open_file(path) as stream:
        headers, damage, _ = scan_headers(stream, stream.seek(0, 2), 0)
        return [] if damage else list(read_entries(stream, path, headers, parse))


def _batch_entries(header: np.void, data: bytes, parse: Parse) -> Iterator[MetadataEntry]:
    attributes = int(header["attributes"])
    inside = decompress(attributes & CODEC_MASK, data[HEADER_BYTES:], _GREATEST_BATCH)
    base, epoch, time_ms = int(header["base_offset"]), int(header["leader_epoch"]), int(header["base_timestamp"])
    for timestamp_delta, offset_delta, key, value, _ in read_records(inside, int(header["record_count"])):
        message = _parse_control(key, value) if attributes & CONTROL else parse(value or b"")
        if message is not None:
            place = base + offset_delta, epoch, time_ms + timestamp_delta
            yield MetadataEntry(*place, message, int(header["last_offset"]) + 1)


def _parse_control(key: bytes | None, value: bytes | None) -> Voters | SnapshotTime | SnapshotEnd | None:
    reader = FieldReader(key or b"")
    reader.int16()
    kind = reader.int16()
    if kind in (LEADER_CHANGE, KRAFT_VOTERS):
        return parse_voters(kind, value or b"")
    if kind == SNAPSHOT_HEADER:
        return SnapshotTime(parse_snapshot_time(value or b""))
    return SnapshotEnd() if kind == SNAPSHOT_FOOTER else None
