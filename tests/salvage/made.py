"""Small snapshots, made for one question each: broker 1 leads, broker 2 holds what it lacks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.support.logdirs import (
    PartitionFiles,
    PartitionListing,
    TopicListing,
    make_uuid,
    write_brokers,
    write_partition,
)

TOPIC = "orders"
TOPIC_ID = make_uuid(TOPIC)
CLUSTER_ID = make_uuid("cluster")


def files(batches: Sequence[bytes], epochs: tuple[tuple[int, int], ...], **more) -> PartitionFiles:
    """One replica of orders-0."""
    values = {"high_watermark": 0, "recovery_point": 0, "topic_id": TOPIC_ID, **more}
    return PartitionFiles(TOPIC, 0, tuple(batches), epochs, **values)


def write_snapshot(
    path: Path,
    leader: PartitionFiles,
    follower: PartitionFiles | None,
    *,
    others: Sequence[PartitionFiles] = (),
    aside: Sequence[tuple[str, PartitionFiles]] = (),
    configs: dict[str, str] | None = None,
    quiesced: bool | None = None,
) -> Path:
    """A snapshot in which broker 1 leads; `aside` are directories of broker 1 by the suffix of their names."""
    replicas = [leader, *([] if follower is None else [follower]), *others]
    logs = {broker_id: [one] for broker_id, one in enumerate(replicas, 1)}
    listing = TopicListing(TOPIC, TOPIC_ID, (PartitionListing(0, 1, tuple(logs), (1,)),), configs or {})
    manifest = None if quiesced is None else {"quiesced": quiesced}
    write_brokers(path, logs, [listing], manifest=manifest, cluster_id=CLUSTER_ID)
    for suffix, one in aside:
        write_partition(path / "broker-1" / f"{one.name}{suffix}", one)
    return path
