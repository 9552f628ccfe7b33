"""Metadata logs of a quorum of three: as they begin, and as they go on differently."""

from __future__ import annotations

from tests.support import metadata_log as write
from tests.support.snapshots import make_uuid

TOPIC_ID, OTHER_ID = make_uuid("t"), make_uuid("u")
VOTERS = (100, 101, 102)
BEGINNING = [write.topic("t", TOPIC_ID), write.partition(TOPIC_ID, (1, 2, 3), 1)]


def first_batches(epoch: int = 1) -> bytes:
    """Offsets 0 to 2: the leader's first record, topic t, its partition."""
    return write.leader_change(0, 100, VOTERS, epoch=epoch) + write.batch(1, BEGINNING, epoch=epoch)
