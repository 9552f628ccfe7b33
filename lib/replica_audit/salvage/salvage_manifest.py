"""manifest.json of a salvage: what was salvaged and from where, with one line for each record, so that it can be read line by line.

The JSON follows from these classes: a field is added here and nowhere else.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeVar

from replica_audit.errors import UsageError
from replica_audit.results import place_of
from replica_audit.scratch import new_file
from replica_audit.typed_json import Flat, ShapeError, Sparse, from_object, to_object

NAME = "manifest.json"
SCHEMA_VERSION = 1

#: Line after which every line is one record, as an object.
_RECORDS = '"records": ['

_TIMESTAMP = struct.Struct(">q")
_LENGTH = struct.Struct(">i")

_Entry = TypeVar("_Entry")


def record_digest(
    timestamp: int, key: bytes | None, value: bytes | None, headers: Iterable[tuple[str, bytes | None]]
) -> str:
    """SHA-256, in hex, that identifies a record's content: of the timestamp (8 bytes, big-endian, -1 for none); key and value,
    each as its length (4 bytes, -1 for null) and its bytes; the number of headers (4 bytes); and the name and value of each, in
    the same form."""
    headers = list(headers)
    digest = hashlib.sha256(_TIMESTAMP.pack(timestamp))

    def add(part: bytes | None) -> None:
        digest.update(_LENGTH.pack(-1) if part is None else _LENGTH.pack(len(part)) + part)

    add(key)
    add(value)
    digest.update(_LENGTH.pack(len(headers)))
    for name, content in headers:
        add(name.encode())
        add(content)
    return digest.hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestRecord:
    """A salvaged record and its source."""

    topic: str
    partition: int
    offset: int
    leader_epoch: int | None
    timestamp_ms: int | None = None
    copy: int = 0
    """Index into the partition's `copies`."""
    also_in: tuple[int, ...] = ()
    """Other copies that hold it."""
    file: str = ""
    position: int = 0
    batch_crc: int = 0
    reason: str = ""
    """Reason why the reference lacks it, one of `missing_records.REASONS`."""
    producer_id: int | None = None
    producer_epoch: int | None = None
    sequence: int | None = None
    transaction: str = "none"
    committed: bool | None = None
    """True if proven committed."""
    later_value: bool | None = None
    """True if the reference of a compacted topic has a later record of the key."""
    sha256: Annotated[str | None, Sparse()] = None
    """`record_digest`; None without payloads."""


@dataclass(frozen=True, slots=True)
class PlannedLoss:
    """The leader that a plan chose, and the number of records that it loses."""

    candidate_id: int
    planned_loss: int


@dataclass(frozen=True, slots=True)
class ManifestReference:
    """The log that a partition's copies were compared with."""

    topic_id: str | None
    leader_id: int | None
    reference_id: int
    leader_epoch: int | None
    log_start_offset: int
    log_end_offset: int
    unchecked_batches: int = 0
    """Batches of the log with checksums that were never computed: damage in them is not seen."""

    @property
    def is_leaders(self) -> bool:
        """True if it is the log of the leader, not one that stands in for it."""
        return self.leader_id == self.reference_id


@dataclass(frozen=True, slots=True)
class ManifestEpoch:
    """Salvaged records of one leader epoch."""

    leader_epoch: int | None
    start_offset: int
    end_offset: int
    records: int
    brokers: tuple[int, ...]
    in_remote: bool = False
    """True if some of them come from the remote store."""


@dataclass(frozen=True, slots=True)
class ManifestProducer:
    """Salvaged records of one producer; records without a producer id are one entry."""

    producer_id: int | None
    producer_epoch: int | None
    records: int
    transactional: int
    first_timestamp_ms: int | None
    last_timestamp_ms: int | None


@dataclass(frozen=True, slots=True)
class ManifestCopy:
    """A log that records were taken from."""

    copy: int
    kind: str
    broker_id: int | None
    """None for the remote store."""
    path: str
    """Relative to the snapshot; after `remote://`, relative to the remote store."""
    records: int
    """Records taken from it."""
    holds: int
    """Number of salvaged records in this copy, whether taken from it or from another."""


@dataclass(frozen=True, slots=True)
class OtherTopic:
    """A directory of the same name that is, or may be, of another topic."""

    broker_id: int
    path: str
    topic_id: str | None


@dataclass(frozen=True, slots=True)
class ManifestFinds:
    """Counts over the salvaged records of a partition."""

    committed: int
    later_value: int | None
    first_timestamp_ms: int | None
    last_timestamp_ms: int | None
    epochs: tuple[ManifestEpoch, ...]
    reasons: Mapping[str, int]
    transactions: Mapping[str, int]
    producers: tuple[ManifestProducer, ...]
    producer_count: int
    left_out: Mapping[str, int]
    copies: tuple[ManifestCopy, ...]
    other_topics: tuple[OtherTopic, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestPartition:
    """Entry of a partition; `written` is None without payloads."""

    topic: str
    partition: int
    verdict: str = ""
    compacted: bool | None
    plan: Annotated[PlannedLoss | None, Flat()] = None
    log: Annotated[ManifestReference | None, Flat()] = None
    records: int
    written: int | None = None
    problem: str | None = None
    finds: Annotated[ManifestFinds | None, Flat()] = None


@dataclass(frozen=True, slots=True)
class ManifestUnread:
    """Input that may hold records and could not be read."""

    topic: str | None
    partition: int | None
    broker_id: int | None
    path: str
    position: int | None
    start_offset: int | None
    end_offset: int | None
    records: int | None
    reason: str


@dataclass(frozen=True, slots=True)
class ManifestUnexpanded:
    """A batch that the reference lacks and that is too large to expand; `copied_to` is its file in the result, if any."""

    topic: str
    partition: int
    broker_id: int | None
    file: str
    position: int
    batch_crc: int
    leader_epoch: int | None
    start_offset: int
    end_offset: int
    records: int | None
    reason: str
    copied_to: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestTotals:
    """Sums over partitions. `expected` counts the records known to exist, including those of unread and unexpanded batches."""

    partitions: int = 0
    expected: int = 0
    records: int
    written: int | None = None
    unread_records: int = 0
    unexpanded_records: int = 0
    first_timestamp_ms: int | None = None
    last_timestamp_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestSnapshot:
    """The snapshot that was salvaged."""

    snapshot_id: str = ""
    cluster_id: str | None


@dataclass(frozen=True, slots=True)
class ManifestAudit:
    """Options of the audit; with the same options it can be repeated."""

    protocol: str
    kafka_version: str | None
    topics: tuple[str, ...]
    quiesced: bool | None
    remote: str | None = None
    """The remote store that was read, without credentials."""


@dataclass(frozen=True, slots=True)
class ManifestPlan:
    """The plan whose leaders' losses were salvaged."""

    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestFile:
    """A file of the result."""

    path: str
    size_bytes: int = 0
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestHead:
    """The manifest without its records."""

    schema_version: int = SCHEMA_VERSION
    tool_version: str = ""
    snapshot: ManifestSnapshot
    audit: ManifestAudit | None = None
    plan: ManifestPlan | None = None
    payloads: bool
    include_aborted: bool = False
    include_ahead: bool = False
    encoding: str | None = None
    totals: ManifestTotals
    partitions: tuple[ManifestPartition, ...]
    internal_partitions: tuple[str, ...] = ()
    """Partitions of Kafka's own topics, which were skipped."""
    partitions_without_steps: tuple[str, ...] = ()
    """Partitions skipped because the plan decides them without steps."""
    unread: tuple[ManifestUnread, ...] = ()
    unexpanded: tuple[ManifestUnexpanded, ...] = ()
    files: tuple[ManifestFile, ...]


def write_manifest(path: Path, head: ManifestHead, lines: Iterable[bytes]) -> None:
    """Write the head, and the records in order as `lines` (`record_files.json_line`)."""
    text = json.dumps(to_object(head), indent=1, ensure_ascii=True, allow_nan=False)
    with new_file(path) as stream:
        stream.write(text[: text.rindex("\n}")].encode("ascii") + f",\n{_RECORDS}".encode("ascii"))
        separator = b"\n"
        for line in lines:
            stream.write(separator + line.removesuffix(b"\n"))
            separator = b",\n"
        stream.write(b"\n]\n}\n")


@dataclass(frozen=True, slots=True)
class SalvageManifest:
    """A manifest on disk: its head, and its records on demand."""

    path: Path
    head: ManifestHead
    digest: str
    """SHA-256 of the file, in hex."""
    starts: Mapping[bytes, int]
    """Position of each partition's first record, by the prefix of its lines."""

    @classmethod
    def open(cls, directory: Path) -> SalvageManifest:
        """Read the head. Raises UsageError for a missing or foreign file."""
        path = directory / NAME
        digest = hashlib.sha256()
        lines: list[bytes] | None = []
        starts: dict[bytes, int] = {}
        position = 0
        text = b""
        try:
            with path.open("rb") as stream:
                for line in stream:
                    digest.update(line)
                    if lines is None:
                        starts.setdefault(_partition_of(line), position)
                    else:
                        lines.append(line)
                        if line.startswith(_RECORDS.encode("ascii")):
                            text = b"".join(lines) + b"]}"
                            lines = None
                    position += len(line)
        except OSError as error:
            raise UsageError(f"{path}: {error.strerror}: give a directory that replica-audit salvage wrote") from error
        head = _parse(path, text, ManifestHead)
        if head.schema_version != SCHEMA_VERSION:
            raise _foreign(path)
        return cls(path, head, digest.hexdigest(), starts)

    def records_of(self, topic: str, partition: int) -> Iterator[ManifestRecord]:
        """The records of one partition, which are together, read line by line."""
        start = self.starts.get(_common(topic, partition))
        if start is None:
            return
        with self.path.open("rb") as stream:
            stream.seek(start)
            for line in stream:
                if line.startswith(b"]"):
                    return
                record = _parse(self.path, line.rstrip(b",\n"), ManifestRecord)
                if place_of(record) != (topic, partition):
                    return
                yield record


def _parse(path: Path, text: bytes, kind: type[_Entry]) -> _Entry:
    """The entry in a JSON text. Raises UsageError."""
    try:
        return from_object(kind, json.loads(text))
    except (ShapeError, ValueError, RecursionError) as error:
        raise _foreign(path) from error


def _common(topic: str, partition: int) -> bytes:
    """Common prefix of the lines of a partition's records."""
    row = {"topic": topic, "partition": partition}
    return json.dumps(row, separators=(",", ":")).encode("ascii").rstrip(b"}")


def _partition_of(line: bytes) -> bytes:
    return line.partition(b',"offset":')[0]


def _foreign(path: Path) -> UsageError:
    return UsageError(
        f"{path}: expected a manifest of version {SCHEMA_VERSION} as replica-audit salvage writes it, found another file"
    )
