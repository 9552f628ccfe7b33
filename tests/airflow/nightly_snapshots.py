"""Two days of one cluster: its two replicas agree, then hold other records at the same offsets."""

from __future__ import annotations

from pathlib import Path

from tests.support.encoder import Record, encode_batch
from tests.support.logdirs import PartitionFiles, PartitionListing, TopicListing, make_uuid, write_brokers

TOPIC = "orders"
TOPIC_ID = make_uuid("scheduled orders")
CLUSTER_ID = make_uuid("scheduled cluster")

#: Offsets that broker 2 had acknowledged alone, before broker 1 was elected without them and wrote its own there.
FORK = (20, 25)


def _batch(base_offset: int, leader_epoch: int, value: bytes = b"value") -> bytes:
    return encode_batch(base_offset, [Record(None, value)] * 5, leader_epoch)


def write_day(path: Path, diverged: bool) -> Path:
    """The snapshot of one day at `path`, taken of stopped brokers; returns it."""
    common = tuple(_batch(offset, 0) for offset in (0, 5, 10, 15))
    logs = {}
    for broker_id, leader_epoch in ((1, 2), (2, 1)):
        own = (_batch(FORK[0], leader_epoch, b"of broker %d" % broker_id),) if diverged else ()
        epochs = ((0, 0), (leader_epoch, FORK[0])) if diverged else ((0, 0),)
        end = FORK[1] if diverged else FORK[0]
        logs[broker_id] = [PartitionFiles(TOPIC, 0, (*common, *own), epochs, end, end, topic_id=TOPIC_ID)]
    listing = PartitionListing(0, 1, (1, 2), (1,) if diverged else (1, 2))
    topics = [TopicListing(TOPIC, TOPIC_ID, (listing,))]
    manifest = {"quiesced": True}
    return write_brokers(
        path, logs, topics, manifest=manifest, cluster_id=CLUSTER_ID, disks="scheduled disk", clean=logs
    )
