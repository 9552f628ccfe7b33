"""Two days of one cluster: its two replicas agree, then hold other records at the same offsets."""

from __future__ import annotations

from pathlib import Path

from tests.support.collected import settle
from tests.support.encoder import Record, encode_batch
from tests.support.snapshots import Listed, Replica, make_uuid, write_snapshot

CLUSTER_ID = make_uuid("scheduled cluster")

#: Offsets that broker 2 had acknowledged alone, before broker 1 was elected without them and wrote its own there.
FORK = (20, 25)


def _batch(base_offset: int, leader_epoch: int, value: bytes = b"value") -> bytes:
    return encode_batch(base_offset, [Record(None, value)] * 5, leader_epoch)


def write_day(path: Path, diverged: bool) -> Path:
    """The snapshot of one day at `path`, taken of stopped brokers; returns it."""
    common = tuple(_batch(offset, 0) for offset in (0, 5, 10, 15))
    replicas = {}
    for broker_id, leader_epoch in ((1, 2), (2, 1)):
        own = (_batch(FORK[0], leader_epoch, b"of broker %d" % broker_id),) if diverged else ()
        epochs = ((0, 0), (leader_epoch, FORK[0])) if diverged else ((0, 0),)
        replicas[broker_id] = Replica((*common, *own), epochs, clean_shutdown=True)
    listed = Listed(1, (1, 2), (1,) if diverged else (1, 2))
    return write_snapshot(
        path, replicas, [listed], manifest={"quiesced": True}, cluster_id=CLUSTER_ID, disks="scheduled disk"
    )


def write_brokers(path: Path) -> Path:
    """Log dirs of two brokers below `path`, which agree; returns it."""
    batches = [_batch(offset, 0) for offset in range(0, 20, 5)]
    replicas = {broker_id: Replica(batches, per_segment=2) for broker_id in (1, 2)}
    listed = Listed(1, (1, 2), (1, 2))
    write_snapshot(path, replicas, [listed], cluster_id=CLUSTER_ID, disks="collected disk")
    settle(path)
    return path


def append_other_records(path: Path) -> None:
    """Each broker appends records of its own at the same offsets and in the same epoch."""
    for broker_id in (1, 2):
        newest = max((path / f"broker-{broker_id}").glob("*-0/*.log"))
        with newest.open("ab") as log:
            log.write(_batch(FORK[0], 0, b"of broker %d" % broker_id))
