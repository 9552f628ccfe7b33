"""The headers that say where a restored record comes from, and by which a target's records are known again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from replica_audit.model import TopicPartition
from replica_audit.restore.cluster_records import ConsumedRecord
from replica_audit.restore.salvaged_records import Headers, SalvagedRecord
from replica_audit.salvage.record_digest import record_digest

PREFIX = "replica-audit.source."
NAMES = tuple(PREFIX + name for name in ("cluster", "topic", "partition", "offset", "epoch"))


class RestoredFrom(NamedTuple):
    """Where a restored record was before; texts as in the headers, None for what was not known."""

    cluster: str | None
    topic: str
    partition: str
    offset: str
    epoch: str | None


def source_of(record: SalvagedRecord, cluster_id: str | None) -> RestoredFrom:
    """What the headers of a salvaged record of `cluster_id` say."""
    epoch = None if record.leader_epoch is None else str(record.leader_epoch)
    return RestoredFrom(cluster_id, record.place.topic, str(record.place.partition), str(record.offset), epoch)


def with_source(headers: Headers, source: RestoredFrom) -> Headers:
    """A record's own headers, then those of its source."""
    values = (None if value is None else value.encode() for value in source)
    return (*headers, *zip(NAMES, values, strict=True))


def split_source(headers: Sequence[tuple[str, bytes | None]]) -> tuple[Headers, RestoredFrom | None]:
    """A restored record's own headers, and its source; None where the last headers are not those, all of them."""
    own, last = tuple(headers[: -len(NAMES)]), tuple(headers[-len(NAMES) :])
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
    """Of a target's records those that name `place` as theirs: source and digest."""
    for one in stored:
        headers, source = split_source(one.headers)
        if source is not None and source[:3] == (cluster_id, place.topic, str(place.partition)):
            yield source, digest_of(one, headers)


def digest_of(stored: ConsumedRecord, headers: Iterable[tuple[str, bytes | None]]) -> str:
    """The digest of a record as it lies in the target, its headers being `headers`."""
    return record_digest(-1 if stored.timestamp_ms is None else stored.timestamp_ms, stored.key, stored.value, headers)


def expected_of(record: SalvagedRecord, cluster_id: str | None) -> tuple[RestoredFrom, str]:
    """Source and digest of a salvaged record, as `restored` gives them."""
    return source_of(record, cluster_id), record.sha256
