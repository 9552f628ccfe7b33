"""The header of a record batch: each field once, with its type on disk, in memory and in the table, and its meaning.

The field list is `Batch` itself. From it come the arrays of a scan (`BATCH_DTYPE`) and the bytes on disk (`HEADER_DTYPE`, both
in `segments.record_batch`), the columns of the table `batches` (`bronze_tables`), and their list in docs/reference.md. An
absent value is -1 everywhere except in the table, where it is null; `segments.header_columns` converts.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple, get_type_hints

#: Value that means "not set" in a header or `Batch`.
ABSENT = -1

#: Bits of a batch's attributes (Kafka: `DefaultRecordBatch`, `LegacyRecord`).
CODEC_MASK = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
#: The base timestamp is a delete horizon (KIP-534).
DELETE_HORIZON = 0x40
KNOWN_ATTRIBUTES = 0x7F

#: Column types by numpy's codes.
_DDL = {"i8": "bigint", "i4": "int", "i2": "smallint", "i1": "tinyint", "?": "boolean"}


class DiskField(NamedTuple):
    """Position of a field in the 61 bytes of magic 2, big-endian, and its name there."""

    position: int
    code: str
    """numpy's type code, without byte order."""
    name: str | None = None
    """Set if the header has another number there, from which the field is computed."""


class HeaderField(NamedTuple):
    """A field of the header."""

    code: str
    """numpy's type code in memory."""
    meaning: str
    disk: DiskField | None = None
    """None if it is not in the header."""
    may_lack: bool = False
    """True if -1 means absent; null in the table."""
    has_column: bool = True
    """False if the table shows it as a null in another column."""

    @property
    def ddl(self) -> str:
        """The type of its column in Spark DDL."""
        return _DDL[self.code]


class Batch(NamedTuple):
    """One batch of magic 2, or one entry of a legacy message set, in a segment file."""

    position: Annotated[int, HeaderField("i8", "byte position in the file")]
    size: Annotated[int, HeaderField("i8", "bytes, with the 12 of offset and length", DiskField(8, "i4", "length"))]
    base_offset: Annotated[int, HeaderField("i8", "offset of the first record when it was written", DiskField(0, "i8"))]
    last_offset: Annotated[
        int, HeaderField("i8", "offset of the last record", DiskField(23, "i4", "last_offset_delta"))
    ]
    leader_epoch: Annotated[int, HeaderField("i4", "epoch of the leader that appended it", DiskField(12, "i4"), True)]
    magic: Annotated[int, HeaderField("i1", "version of the format, 0 to 2", DiskField(16, "i1"))]
    crc: Annotated[int, HeaderField("i8", "checksum as it is in the file", DiskField(17, "u4"))]
    crc_valid: Annotated[bool, HeaderField("?", "whether the checksum is right; null: nobody computed it")]
    attributes: Annotated[int, HeaderField("i2", "bits: codec, time type, transactional, control", DiskField(21, "i2"))]
    base_timestamp: Annotated[
        int, HeaderField("i8", "time of the first record in ms, or a delete horizon", DiskField(27, "i8"), True)
    ]
    max_timestamp: Annotated[int, HeaderField("i8", "greatest time of a record in ms", DiskField(35, "i8"), True)]
    producer_id: Annotated[int, HeaderField("i8", "idempotent producer", DiskField(43, "i8"), True)]
    producer_epoch: Annotated[int, HeaderField("i2", "its epoch", DiskField(51, "i2"), True)]
    base_sequence: Annotated[
        int, HeaderField("i4", "its sequence number of the first record", DiskField(53, "i4"), True)
    ]
    record_count: Annotated[
        int, HeaderField("i4", "records; -1 for an entry that cannot be opened", DiskField(57, "i4"))
    ]
    crc_unchecked: Annotated[
        bool, HeaderField("?", "nobody computed the checksum, and `crc_valid` is true", has_column=False)
    ] = False

    @property
    def is_control(self) -> bool:
        """True if the batch holds a control record, such as a transaction marker."""
        return self.magic >= 2 and bool(self.attributes & CONTROL)

    @property
    def end_offset(self) -> int:
        return self.last_offset + 1

    @property
    def epoch(self) -> int | None:
        return self.leader_epoch if self.magic >= 2 and self.leader_epoch >= 0 else None

    @property
    def timestamps(self) -> tuple[int, ...]:
        """Timestamps in the header that are real times (not -1, not a delete horizon)."""
        horizon = self.attributes & DELETE_HORIZON and self.magic >= 2
        given = (self.max_timestamp,) if horizon else (self.base_timestamp, self.max_timestamp)
        return tuple(value for value in given if value >= 0)


#: The fields by name, in the order of `Batch`.
BATCH_FIELDS: dict[str, HeaderField] = {
    name: kind.__metadata__[0] for name, kind in get_type_hints(Batch, include_extras=True).items()
}

#: Fields that are columns of the table.
BATCH_COLUMNS = {name: stored for name, stored in BATCH_FIELDS.items() if stored.has_column}


def or_none(number: int) -> int | None:
    """A number of a header or record; None for -1."""
    return None if number == ABSENT else int(number)


def or_absent(number: int | None) -> int:
    """-1 for None; inverse of `or_none`."""
    return ABSENT if number is None else number
