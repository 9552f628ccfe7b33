"""Restored records known again in a target: by the source that their headers name, and by what they are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from replica_audit.model import TopicPartition
from replica_audit.restoring.cluster_records import Stored
from replica_audit.restoring.salvaged_records import SalvagedRecord
from replica_audit.restoring.source_headers import Source, source_of, split_source
from replica_audit.salvaging.record_digest import record_digest


def restored(stored: Iterable[Stored], cluster_id: str | None, place: TopicPartition) -> Iterator[tuple[Source, str]]:
    """Of a target's records those that name `place` as theirs: source and digest."""
    for one in stored:
        headers, source = split_source(one.headers)
        if source is not None and source[:3] == (cluster_id, place.topic, str(place.partition)):
            yield source, digest_of(one, headers)


def digest_of(stored: Stored, headers: Iterable[tuple[str, bytes | None]]) -> str:
    """The digest of a record as it lies in the target, its headers being `headers`."""
    return record_digest(-1 if stored.timestamp_ms is None else stored.timestamp_ms, stored.key, stored.value, headers)


def expected_of(record: SalvagedRecord, cluster_id: str | None) -> tuple[Source, str]:
    """Source and digest of a salvaged record, as `restored` gives them."""
    return source_of(record, cluster_id), record.sha256
