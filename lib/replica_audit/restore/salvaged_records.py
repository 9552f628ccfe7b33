"""Salvaged records: read from disk, checked against the manifest, and recognised in a cluster by headers that name their source
or, if never lost, by offset, leader epoch and content."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from replica_audit.errors import UsageError
from replica_audit.model import TopicPartition
from replica_audit.parsing import matches
from replica_audit.restore.cluster import Cluster, ConsumedRecord, Headers
from replica_audit.salvage.salvage_manifest import ManifestPartition, ManifestRecord, SalvageManifest, record_digest
from replica_audit.scratch import hash_file
from replica_audit.text import listed


@dataclass(frozen=True, slots=True)
class SalvagedRecord:
    """A salvaged record and its source."""

    place: TopicPartition
    offset: int
    leader_epoch: int | None
    timestamp_ms: int | None
    key: bytes | None
    value: bytes | None
    headers: Headers
    sha256: str
    later_value: bool | None
    """True if the leader of a compacted topic had a later record of the key in the snapshot; None for other topics."""


class SalvagedRecords:
    """A directory written by `salvage --payloads`, or the part of it that is of topics which match `topics`."""

    def __init__(self, directory: Path, topics: Sequence[str] = ()) -> None:
        """Raises UsageError for a salvage without records, or without any of these topics, and for a changed file."""
        self.manifest = SalvageManifest.open(directory)
        self._directory = directory
        head = self.manifest.head
        if not head.payloads:
            raise UsageError(f"{directory} has no records, only their number: run salvage again with --payloads")
        self._topics = topics
        if self._left_out() and not self.partitions():
            raise UsageError(f"--topic {' '.join(topics)}: {directory} has records of {listed(self._left_out())} only")
        self._files = {file.path: file.sha256 for file in head.files}
        for row in self.partitions():
            self._check_file(row)

    @property
    def digest(self) -> str:
        """SHA-256 of the manifest, which identifies the salvage."""
        return self.manifest.digest

    @property
    def cluster_id(self) -> str | None:
        """Id of the cluster that the records come from."""
        return self.manifest.head.snapshot.cluster_id

    def partitions(self) -> list[ManifestPartition]:
        return [row for row in self._all() if matches(self._topics, row.topic)]

    def notes(self) -> list[str]:
        """Sentence on other topics that have records."""
        return [f"Records of {listed(left_out)} are left out (--topic)."] if (left_out := self._left_out()) else []

    def _left_out(self) -> list[str]:
        return sorted({row.topic for row in self._all() if not matches(self._topics, row.topic)})

    def _all(self) -> Iterator[ManifestPartition]:
        return (row for row in self.manifest.head.partitions if row.records)

    def of_partition(self, place: TopicPartition) -> Iterator[SalvagedRecord]:
        """The records of one partition in order. Raises UsageError at one that differs from the manifest."""
        path = self._directory / str(place) / "records.jsonl"
        with path.open("rb") as lines:
            for row in self.manifest.records_of(place.topic, place.partition):
                record = _record(place, row, next(lines, b""))
                if record is None:
                    raise UsageError(f"{path}: the record of offset {row.offset} is not the one in manifest.json")
                yield record
            if next(lines, None) is not None:
                raise UsageError(f"{path}: it has more records than manifest.json")

    def _check_file(self, row: ManifestPartition) -> None:
        name = f"{row.topic}-{row.partition}/records.jsonl"
        if name not in self._files:
            raise UsageError(f"{self._directory} has no {name}: run salvage again with --form jsonl, or without --form")
        path = self._directory / name
        try:
            found = hash_file(path)
        except OSError as error:
            raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
        if found != self._files[name]:
            raise UsageError(f"{path} is not the file that salvage wrote: its SHA-256 is not the one in manifest.json")


def _record(place: TopicPartition, row: ManifestRecord, line: bytes) -> SalvagedRecord | None:
    """The record in a line; None if it is not the one in the manifest."""
    try:
        content = json.loads(line)
        parts = [content["key"], content["value"], *(value for _, value in content["headers"])]
        key, value, *values = (_bytes(part, content["encoding"]) for part in parts)
        headers = tuple((name, part) for (name, _), part in zip(content["headers"], values, strict=True))
        timestamp = content["timestamp_ms"]
        same = (content["offset"], content["leader_epoch"]) == (row.offset, row.leader_epoch)
        digest = record_digest(-1 if timestamp is None else timestamp, key, value, headers)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    if not same or digest != row.sha256:
        return None
    return SalvagedRecord(place, row.offset, row.leader_epoch, timestamp, key, value, headers, digest, row.later_value)


def _bytes(text: str | None, encoding: str) -> bytes | None:
    if text is None:
        return None
    return base64.b64decode(text, validate=True) if encoding == "base64" else text.encode()


PREFIX = "replica-audit.source."
NAMES = tuple(PREFIX + name for name in ("cluster", "topic", "partition", "offset", "epoch"))


class RestoredFrom(NamedTuple):
    """The source of a restored record; texts as in the headers, None if unknown."""

    cluster: str | None
    topic: str
    partition: str
    offset: str
    epoch: str | None


def source_of(record: SalvagedRecord, cluster_id: str | None) -> RestoredFrom:
    """The source of a record salvaged from `cluster_id`."""
    epoch = None if record.leader_epoch is None else str(record.leader_epoch)
    return RestoredFrom(cluster_id, record.place.topic, str(record.place.partition), str(record.offset), epoch)


def with_source(headers: Headers, source: RestoredFrom) -> Headers:
    """The record's own headers followed by those of its source."""
    values = (None if value is None else value.encode() for value in source)
    return (*headers, *zip(NAMES, values, strict=True))


def split_source(headers: Sequence[tuple[str, bytes | None]]) -> tuple[Headers, RestoredFrom | None]:
    """A restored record's own headers and its source; None unless the last headers are all five of a source."""
    own = tuple(headers[: -len(NAMES)])
    last = tuple(headers[-len(NAMES) :])
    if tuple(name for name, _ in last) != NAMES:
        return tuple(headers), None
    try:
        cluster, topic, partition, offset, epoch = (
            None if value is None else value.decode("utf-8") for _, value in last
        )
    except UnicodeDecodeError:
        return tuple(headers), None
    if topic is None or partition is None or offset is None:
        return tuple(headers), None
    return own, RestoredFrom(cluster, topic, partition, offset, epoch)


def restored(
    stored: Iterable[ConsumedRecord], cluster_id: str | None, place: TopicPartition
) -> Iterator[tuple[RestoredFrom, str]]:
    """Source and digest of the target's records that name `place` as their source."""
    for one in stored:
        headers, source = split_source(one.headers)
        if source is not None and source[:3] == (cluster_id, place.topic, str(place.partition)):
            yield source, digest_of(one, headers)


def digest_of(stored: ConsumedRecord, headers: Iterable[tuple[str, bytes | None]]) -> str:
    """The digest of a record in the target, with `headers` as its own."""
    return record_digest(-1 if stored.timestamp_ms is None else stored.timestamp_ms, stored.key, stored.value, headers)


def expected_of(record: SalvagedRecord, cluster_id: str | None) -> tuple[RestoredFrom, str]:
    """Source and digest of a salvaged record, comparable with `restored`."""
    return source_of(record, cluster_id), record.sha256


#: Offset, leader epoch and digest: if all three are equal it is the same record, not one produced again.
Identity = tuple[int, int | None, str]


def find_present(records: SalvagedRecords, place: TopicPartition, cluster: Cluster) -> dict[Identity, int]:
    """Numbers, in the salvage, of the records of `place` that were never lost: its present leader holds them.

    The leader is read up to its high watermark, as consumers see it. Without a leader nothing is found. Memory: a digest for
    each salvaged record.
    """
    topic = cluster.topic(place.topic)
    if topic is None or place.partition >= topic.partitions or place.partition in topic.leaderless:
        return {}
    wanted: dict[Identity, int] = {
        (record.offset, record.leader_epoch, record.sha256): number
        for number, record in enumerate(records.of_partition(place))
    }
    offsets = [offset for offset, _, _ in wanted]
    found = cluster.held(place.topic, place.partition, min(offsets), max(offsets) + 1)
    present = ((one.offset, one.leader_epoch, digest_of(one, one.headers)) for one in found)
    return {identity: wanted[identity] for identity in present if identity in wanted}
