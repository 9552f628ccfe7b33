"""Producer ids in `<offset>.snapshot` files of partition directories (`ProducerStateManager.readSnapshot`)."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import NamedTuple

import google_crc32c
import numpy as np

from replica_audit.errors import FormatError
from replica_audit.model import ReplicaDir
from replica_audit.snapshot.log_dir_names import parse_file_name
from replica_audit.snapshot.storage import Snapshot

#: Version, CRC32C of what follows it, number of producers.
_HEAD = struct.Struct(">hIi")
_CRC_TO = 6
#: Id, epoch, last sequence, last offset, offset delta, timestamp, coordinator epoch, first offset of its transaction.
_PRODUCER = np.dtype([("producer_id", ">i8"), ("rest", "V38")])


class SeenProducer(NamedTuple):
    """A producer id in a broker's files."""

    producer_id: int
    broker_id: int
    path: str


def greatest_producer(snapshot: Snapshot, directories: Iterable[ReplicaDir]) -> SeenProducer | None:
    """The greatest producer id in the newest `.snapshot` of each directory; None without any.

    A broker writes one when a segment begins and at a clean stop, with the producers that it has not yet forgotten.
    Unreadable files, and files of which evidence has only the name, count as missing.
    """
    found = []
    for one in directories:
        try:
            files = [(parse_file_name(entry.name), entry.path) for entry in snapshot.list_directory(one.path)]
            live = [(name.base_offset, path) for name, path in files if (name.kind, name.state) == ("snapshot", "live")]
            ids = parse_producers(snapshot.read_bytes(max(live)[1]), one.path) if live else []
        except (OSError, FormatError):
            continue
        found += [SeenProducer(max(ids), one.broker_id, one.path)] if ids else []
    return max(found, default=None)


def tell_producer(seen: SeenProducer) -> str:
    """Clause on a producer id in a broker's files."""
    return f"broker {seen.broker_id} has producer id {seen.producer_id} in {seen.path}"


def parse_producers(data: bytes, path: str) -> list[int]:
    """Producer ids in a producer snapshot. Raises FormatError."""
    size = _HEAD.size
    version, crc, number = _HEAD.unpack_from(data) if len(data) >= size else (-1, 0, 0)
    is_sound = version == 1 and len(data) == size + number * _PRODUCER.itemsize
    if not is_sound or google_crc32c.value(data[_CRC_TO:]) != crc:
        raise FormatError(path, None, "a producer snapshot of version 1 with its CRC", "other bytes", "it is left out")
    return np.frombuffer(data, _PRODUCER, number, size)["producer_id"].tolist()
