"""Files for the records of one partition: JSONL, Parquet, and segments that kafka-dump-log reads."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from replica_audit.batch_header import or_none
from replica_audit.model import Damage, TopicPartition
from replica_audit.scratch import new_file
from replica_audit.segments.records import Payload, encode_batch
from replica_audit.segments.scan import scan_segment

_encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False, check_circular=False).encode


def json_line(row: Mapping[str, object]) -> bytes:
    """`row` as one line of JSON, with its line end."""
    return _encode(row).encode("ascii") + b"\n"


_GROUP_BYTES = 8 << 20
#: Kafka's default of segment.bytes.
_SEGMENT_BYTES = 1 << 30
_SCHEMA = pa.schema(
    [
        pa.field("topic", pa.string(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("leader_epoch", pa.int32()),
        pa.field("timestamp_ms", pa.int64()),
        pa.field("timestamp_type", pa.string()),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("headers", pa.list_(pa.struct([("name", pa.string()), ("value", pa.binary())]))),
    ]
)


class Writer(Protocol):
    """Writes the records of one partition, added in order."""

    def add(self, records: Sequence[Payload], entry: bytes | None, variant: int) -> None:
        """Add records of one batch; `entry` is the batch if it holds nothing else, else None."""

    def close(self) -> int:
        """Finish the files; returns the number of records in them, counted by reading them back."""


def open_writers(directory: Path, place: TopicPartition, forms: Sequence[str], encoding: str) -> list[Writer]:
    """A writer for each of `forms` (`literals.RECORD_FORMS`) below `directory`."""
    kinds: dict[str, Callable[[], Writer]] = {
        "jsonl": lambda: JsonLines(directory / "records.jsonl", place, encoding),
        "parquet": lambda: ParquetRows(directory / "records.parquet", place),
        "segments": lambda: Segments(directory / "segments"),
    }
    return [kinds[form]() for form in forms]


class JsonLines:
    """A JSON object per line. Key, value and headers are text if `encoding` is text and all of them are UTF-8, else base64."""

    def __init__(self, path: Path, place: TopicPartition, encoding: str) -> None:
        self._path = path
        self._file = new_file(path)
        self._place = place
        self._encoding = encoding

    def add(self, records: Sequence[Payload], entry: bytes | None, variant: int) -> None:
        for record in records:
            self._file.write(json_line(self._line(record)))

    def close(self) -> int:
        self._file.close()
        with self._path.open("rb") as stream:
            return sum(1 for line in stream if line.endswith(b"\n"))

    def _line(self, record: Payload) -> dict[str, object]:
        parts = [record.key, record.value, *(value for _, value in record.headers)]
        texts = [_base64(part) for part in parts]
        encoding = "base64"
        if self._encoding == "text":
            # Content that is not text stays base64, and the line says so.
            with suppress(UnicodeDecodeError):
                texts = [None if part is None else part.decode("utf-8") for part in parts]
                encoding = "text"
        return {
            "topic": self._place.topic,
            "partition": self._place.partition,
            **metadata_of(record),
            "encoding": encoding,
            "key": texts[0],
            "value": texts[1],
            "headers": [[name, text] for (name, _), text in zip(record.headers, texts[2:], strict=True)],
        }


class ParquetRows:
    """A Parquet row per record, with keys and values as bytes."""

    def __init__(self, path: Path, place: TopicPartition) -> None:
        self._path = path
        self._file = new_file(path)
        self._writer = pq.ParquetWriter(self._file, _SCHEMA)
        self._place = place
        self._rows: list[dict[str, object]] = []
        self._size = 0

    def add(self, records: Sequence[Payload], entry: bytes | None, variant: int) -> None:
        for record in records:
            headers = [{"name": name, "value": value} for name, value in record.headers]
            row = {"topic": self._place.topic, "partition": self._place.partition, **metadata_of(record)}
            self._rows.append({**row, "key": record.key, "value": record.value, "headers": headers})
            self._size += len(record.key or b"") + len(record.value or b"") + 64
        if self._size >= _GROUP_BYTES:
            self._flush()

    def close(self) -> int:
        self._flush()
        self._writer.close()
        self._file.close()
        return pq.read_metadata(self._path).num_rows

    def _flush(self) -> None:
        if self._rows:
            self._writer.write_table(pa.Table.from_pylist(self._rows, _SCHEMA))
        self._rows = []
        self._size = 0


class Segments:
    """Record batches at their offsets, in a directory for each leader epoch, since offsets of two epochs may be equal.

    A batch salvaged completely is copied byte for byte; the rest of a partly salvaged one becomes an uncompressed batch of
    magic 2 with the same fields.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._file: BinaryIO | None = None
        self._strand: tuple[int, int] | None = None
        self._paths: list[Path] = []
        self._size = 0

    def add(self, records: Sequence[Payload], entry: bytes | None, variant: int) -> None:
        strand = records[0].leader_epoch, variant
        data = encode_batch(records) if entry is None else entry
        file = self._file
        if file is None or strand != self._strand or self._size + len(data) > _SEGMENT_BYTES:
            file = self._roll(strand, min(records[0].offset, int.from_bytes(data[:8], "big")))
        file.write(data)
        self._size += len(data)

    def close(self) -> int:
        if self._file is not None:
            self._file.close()
        return sum(_count_records(path) for path in self._paths)

    def _roll(self, strand: tuple[int, int], offset: int) -> BinaryIO:
        if self._file is not None:
            self._file.close()
        epoch, variant = strand
        name = _epoch_name(epoch) + (f".{variant}" if variant else "")
        path = self._directory / name / f"{offset:020}.log"
        file = self._file = new_file(path)
        self._strand = strand
        self._size = 0
        self._paths.append(path)
        return file


def copy_unexpanded(directory: Path, leader_epoch: int, offset: int, entry: bytes) -> Path:
    """Write an unexpanded batch to a file of its own below the partition's `directory`; returns the file.

    Raises FileExistsError for another one of the same epoch and offset.
    """
    path = directory / "segments" / f"{_epoch_name(leader_epoch)}.unexpanded" / f"{offset:020}.log"
    with new_file(path) as stream:
        stream.write(entry)
    return path


def _epoch_name(leader_epoch: int) -> str:
    return "no-epoch" if leader_epoch < 0 else f"epoch-{leader_epoch}"


def metadata_of(record: Payload) -> dict[str, object]:
    """Offset, epoch and timestamp of a record, without its content; None for absent values."""
    kind = "LogAppendTime" if record.appended else "CreateTime"
    return {
        "offset": record.offset,
        "leader_epoch": or_none(record.leader_epoch),
        "timestamp_ms": or_none(record.timestamp),
        "timestamp_type": None if record.magic == 0 else kind,
    }


def _base64(part: bytes | None) -> str | None:
    return None if part is None else base64.b64encode(part).decode("ascii")


def _count_records(path: Path) -> int:
    """Number of records in the sound batches of a segment file."""
    counted = 0
    with path.open("rb") as stream:
        for item in scan_segment(stream, path.stat().st_size, int(path.stem)):
            if not isinstance(item, Damage):
                counted += int(item["record_count"][item["crc_valid"]].sum())
    return counted
