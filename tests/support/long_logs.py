"""Logs of many batches of which only headers are read."""

from __future__ import annotations

import struct

import google_crc32c
from tests.support.encoder import encode_batch
from tests.support.planted import moved
from tests.support.snapshots import Replica, write_snapshot

BATCHES = 300


def write_long_logs(path, step, partitions=1):
    """Two equal brokers with two segments of 150 batches of `step` offsets in each partition."""
    batch = bytearray(encode_batch(0, 1, 0, mark="m"))
    # Headers are all that is read: of a batch that says it has so many records.
    struct.pack_into(">i", batch, 23, step - 1)
    struct.pack_into(">i", batch, 57, step)
    struct.pack_into(">I", batch, 17, google_crc32c.value(bytes(batch[21:])))
    batch = bytes(batch)
    content = [moved(batch, number * step) for number in range(BATCHES)]
    marks = {"high_watermark": 1, "recovery_point": 1, "topic_id": None}
    replicas = [Replica(content, partition=number, per_segment=BATCHES // 2, **marks) for number in range(partitions)]
    return write_snapshot(path, {1: replicas, 2: replicas}, cluster_id="c")
