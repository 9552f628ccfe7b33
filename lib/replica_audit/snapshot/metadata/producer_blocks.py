"""Blocks of producer ids that controllers gave out (`ProducerIdControlManager`): a broker may use a block once its record is committed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from replica_audit.errors import FormatError
from replica_audit.snapshot.message_fields import MessageError
from replica_audit.snapshot.metadata.image import replay_into
from replica_audit.snapshot.metadata.kraft_records import (
    NEVER_MIGRATED,
    PRODUCER_IDS,
    ZK_MIGRATION,
    KeyedRecord,
    Voters,
    parse_any,
)
from replica_audit.snapshot.metadata.log_copies import MetadataCopy, MetadataEntry, SnapshotEnd
from replica_audit.snapshot.metadata.quorum import Quorum, weigh_copies
from replica_audit.snapshot.storage import Snapshot


class ProducerBlock(NamedTuple):
    """A block of producer ids, from its record."""

    next_id: int
    """The first id after it."""
    offset: int
    end_offset: int
    """End of the record's batch, or of the `.checkpoint` that has it."""
    time_ms: int


class _Blocks:
    """Image consumer that collects blocks."""

    def __init__(self) -> None:
        self.found: list[ProducerBlock] = []
        self.was_migrated = False

    def apply_snapshot(self, entries: Iterable[MetadataEntry], end_offset: int) -> bool:
        complete = False
        for entry in entries:
            complete = complete or isinstance(entry.message, SnapshotEnd)
            self._apply(entry._replace(batch_end=end_offset))
        return complete

    def apply_log(self, entries: Iterable[MetadataEntry], committed_end: int | None) -> None:
        del committed_end
        for entry in entries:
            self._apply(entry)

    def _apply(self, entry: MetadataEntry) -> None:
        match entry.message:
            case KeyedRecord(kind=of, content=str() as content) if of == PRODUCER_IDS:
                self.found.append(ProducerBlock(int(content), entry.offset, entry.batch_end, entry.time_ms))
            case KeyedRecord(kind=of, content=content) if of == ZK_MIGRATION:
                self.was_migrated |= content != NEVER_MIGRATED


def read_blocks(snapshot: Snapshot, copies: Sequence[MetadataCopy], quorum: Quorum) -> Sequence[ProducerBlock] | None:
    """Blocks in a history's newest copy, in order. None if they are unknown, or if ids may be ZooKeeper's: before 3.5.2 a
    migration took the start of the latest block for its end (KAFKA-15552)."""
    try:
        blocks = replay_into(_Blocks, snapshot, copies, quorum._replace(committed_end=None), parse_any)
    except (FormatError, MessageError, OSError):
        return None
    return None if blocks.was_migrated else blocks.found


def next_id(snapshot: Snapshot, copies: Sequence[MetadataCopy], voters: Voters | None = None) -> int | None:
    """The first id after a history's blocks; None if these are unknown."""
    blocks = read_blocks(snapshot, copies, weigh_copies(copies, voters))
    if blocks is None:
        return None
    return blocks[-1].next_id if blocks else 0
