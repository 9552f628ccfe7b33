"""The headers that say where a restored record comes from, put after its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from replica_audit.restoring.salvaged_records import Headers, SalvagedRecord

PREFIX = "replica-audit.source."
NAMES = tuple(PREFIX + name for name in ("cluster", "topic", "partition", "offset", "epoch"))


class Source(NamedTuple):
    """Where a restored record was before; texts as in the headers, None for what was not known."""

    cluster: str | None
    topic: str
    partition: str
    offset: str
    epoch: str | None


def source_of(record: SalvagedRecord, cluster_id: str | None) -> Source:
    """What the headers of a salvaged record of `cluster_id` say."""
    epoch = None if record.leader_epoch is None else str(record.leader_epoch)
    return Source(cluster_id, record.place.topic, str(record.place.partition), str(record.offset), epoch)


def with_source(headers: Headers, source: Source) -> Headers:
    """A record's own headers, then those of its source."""
    values = (None if value is None else value.encode() for value in source)
    return (*headers, *zip(NAMES, values, strict=True))


def split_source(headers: Sequence[tuple[str, bytes | None]]) -> tuple[Headers, Source | None]:
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
    return own, Source(cluster, topic, partition, offset, epoch)
