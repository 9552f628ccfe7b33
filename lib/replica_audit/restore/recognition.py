"""Recognises salvaged records in a cluster: by the headers that name their source, or, if they were never lost, by offset,
leader epoch and content.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from replica_audit.model import TopicPartition
from replica_audit.restore.cluster import Cluster, ConsumedRecord, Headers
from replica_audit.restore.salvaged_records import SalvagedRecord, SalvagedRecords
from replica_audit.salvage.salvage_manifest import record_digest

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
    """The source of a record that was salvaged from `cluster_id`."""
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


#: Offset, leader epoch and digest: with all three it is the same record, not one that was produced again.
Identity = tuple[int, int | None, str]


def find_present(records: SalvagedRecords, place: TopicPartition, cluster: Cluster) -> dict[Identity, int]:
    """Numbers, in the salvage, of the records of `place` that were never lost: its present leader holds them.

    The leader is read up to its high watermark, as consumers see it. Without a leader nothing is found. Memory: a digest
    for each salvaged record.
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
