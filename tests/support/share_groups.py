"""Records of the share coordinator's log (`ShareSnapshotKey` and the others of Kafka 4.2 and later)."""

from __future__ import annotations

import struct
from base64 import urlsafe_b64decode

#: First offset, last offset, and state of the records between: 0 available, 2 acknowledged, 4 given up.
StateBatch = tuple[int, int, int]


def share_key(kind: int, group: str, topic_id: str, partition: int) -> bytes:
    """The key of a state (0) or of a change to it (1)."""
    name = struct.pack(">hh", kind, len(group)) + group.encode()
    return name + urlsafe_b64decode(f"{topic_id}==") + struct.pack(">i", partition)


def share_state(epoch: int, start: int, *batches: StateBatch) -> bytes:
    """All of a group's state."""
    return struct.pack(">hiiiqqq", 0, 0, 2, epoch, start, 0, 0) + _batches(batches)


def share_update(epoch: int, start: int, *batches: StateBatch) -> bytes:
    """A change; a start of -1 leaves it as it was."""
    return struct.pack(">hiiq", 0, 0, epoch, start) + _batches(batches)


def _batches(batches: tuple[StateBatch, ...]) -> bytes:
    packed = (struct.pack(">qqbhB", first, last, state, 1, 0) for first, last, state in batches)
    return bytes([len(batches) + 1]) + b"".join(packed) + b"\0"
