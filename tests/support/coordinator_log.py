"""The transaction coordinator's log: its keys and values, and a snapshot's copy of it."""

from __future__ import annotations

import struct
from pathlib import Path

from tests.support.encoder import TIMESTAMP_MS, Record, encode_batch, encode_marker
from tests.support.scenario import written

NAME = "00000000000000000000.log"


def log_value(producer: int, epoch: int, state: int, partitions: dict[str, list[int]], updated: int = 5000) -> bytes:
    """`TransactionLogValue` of version 0."""
    text = struct.pack(">hqhib", 0, producer, epoch, 60_000, state) + struct.pack(">i", len(partitions))
    for topic, ids in partitions.items():
        text += struct.pack(">h", len(topic)) + topic.encode() + struct.pack(">i", len(ids))
        text += b"".join(struct.pack(">i", one) for one in ids)
    return text + struct.pack(">qq", updated, 4000)


KEY = struct.pack(">hh", 0, 2) + b"id"


ONGOING, PREPARE_COMMIT, COMPLETE_COMMIT = 1, 2, 4
OVER = TIMESTAMP_MS + 100


def coordinator(path: Path, *values: bytes):
    """Writes the coordinator's log on broker 1, once the rest of the snapshot is there."""

    def write() -> None:
        folder = path / "broker-1" / "__transaction_state-0"
        folder.mkdir()
        batches = [encode_batch(offset, [Record(KEY, value)], 0) for offset, value in enumerate(values)]
        (folder / NAME).write_bytes(b"".join(batches))

    return write


PRODUCER = 7
AFTER = TIMESTAMP_MS + 200


def sent(base: int, epoch: int = 0, leader_epoch: int = 0) -> bytes:
    return encode_batch(
        base, 5, leader_epoch, producer_id=PRODUCER, producer_epoch=epoch, base_sequence=0, transactional=True
    )


def commit_marker(base: int, leader_epoch: int = 0, epoch: int = 0) -> bytes:
    return encode_marker(base, "COMMIT", leader_epoch, producer_id=PRODUCER, producer_epoch=epoch)


def later_batch(base: int, leader_epoch: int = 0) -> bytes:
    return encode_batch(base, 5, leader_epoch, timestamp_ms=AFTER)


LOG = [*written(0, 10, 0), sent(10), later_batch(15)]
SHARED_OPEN = [*written(0, 10, 0), sent(10)]
