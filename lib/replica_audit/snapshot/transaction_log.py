"""The transaction coordinator's log `__transaction_state`: the outcomes of chosen producers' transactions.

Only bookkeeping is read: transactional id (to find the owner), producer id and epoch, state, partitions, time. Kafka:
`TransactionLog`, `TransactionLogKey`, `TransactionLogValue`, `TransactionState`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from functools import partial

import numpy as np

from replica_audit.batch_header import CONTROL
from replica_audit.errors import FormatError
from replica_audit.model import TopicPartition, TransactionState
from replica_audit.schema import QuarantineRow
from replica_audit.segments.records import RecordFields
from replica_audit.snapshot.file_tree import TreeEntry
from replica_audit.snapshot.internal_topics import Each, TopicCopy, find_copies, read_batches
from replica_audit.snapshot.message_fields import FieldReader, MessageError
from replica_audit.snapshot.storage import Snapshot

TOPIC = "__transaction_state"

_STATES = (
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "Dead",
    "PrepareEpochFence",
)
_KEY_VERSION = 0
_VALUE_VERSIONS = (0, 1)
#: Tagged fields of version 1 (KIP-890).
_PREVIOUS_PRODUCER_ID = 0


def find_transaction_logs(snapshot: Snapshot, log_dirs: Iterable[str]) -> list[TreeEntry]:
    """The segments of all copies of all partitions of the topic in `log_dirs`; a missing log dir has none."""
    return [segment for copy in find_copies(snapshot, log_dirs, TOPIC) for segment in copy.segments]


def read_latest_states(
    snapshot: Snapshot, log_dirs: Iterable[str], producers: Collection[int], each: Each
) -> tuple[dict[int, TransactionState], list[QuarantineRow]]:
    """Latest state of each of `producers` that the topic's copies in `log_dirs` know, and quarantine rows of unreadable
    segments. Without producers nothing is read."""
    if not producers:
        return {}, []
    found = list(each(partial(_try_segment, snapshot, frozenset(producers)), find_transaction_logs(snapshot, log_dirs)))
    return latest_states(state for states, _ in found for state in states), [row for _, rows in found for row in rows]


def _try_segment(
    snapshot: Snapshot, producers: Collection[int], segment: TreeEntry
) -> tuple[list[TransactionState], list[QuarantineRow]]:
    try:
        return [*latest_states(read_transaction_states(snapshot, segment, producers)).values()], []
    except (OSError, FormatError) as error:
        reason = f"could not be read, and may say which transactions are in progress: {error}"
        return [], [QuarantineRow.of("INPUT-IGNORED", segment.path, reason, length=segment.size)]


def read_transaction_states(
    snapshot: Snapshot, segment: TreeEntry, producers: Collection[int]
) -> list[TransactionState]:
    """Every state of `producers` in one segment of the topic, in order. Raises OSError and FormatError.

    Batches and records that cannot be parsed are skipped: they hold no state, and the segment itself is audited like any other.
    """
    found: list[TransactionState] = []

    def take(header: np.void, records: Iterable[RecordFields]) -> None:
        if int(header["attributes"]) & CONTROL:
            return
        for _, offset_delta, key, value, _ in records:
            if value is not None:
                place = int(header["leader_epoch"]), int(header["base_offset"]) + offset_delta
                found.extend(_states(value, _transactional_id(key or b""), *place, producers))

    read_batches(snapshot, TopicCopy(0, segment.path, (segment,)), take)
    return found


def latest_states(states: Iterable[TransactionState]) -> dict[int, TransactionState]:
    """The newest state of each producer over all copies of the log, by greatest leader epoch, then offset."""
    latest: dict[int, TransactionState] = {}
    for state in states:
        known = latest.get(state.producer_id)
        if known is None or (state.leader_epoch, state.offset) > (known.leader_epoch, known.offset):
            latest[state.producer_id] = state
    return latest


def _transactional_id(key: bytes) -> str | None:
    """The transactional id in a record's key; None for a key of another version."""
    reader = FieldReader(key)
    try:
        return reader.old_string() if reader.int16() == _KEY_VERSION else None
    except MessageError:
        return None


def _states(
    value: bytes, transactional_id: str | None, leader_epoch: int, offset: int, producers: Collection[int]
) -> Iterator[TransactionState]:
    """The state in one value, for its producer and for the producer that this one replaced."""
    reader = FieldReader(value)
    version = reader.int16()
    if version not in _VALUE_VERSIONS:
        raise MessageError(f"expected a transaction of version 0 or 1, found {version}")
    flexible = version >= 1
    producer, epoch, _, state = reader.int64(), reader.int16(), reader.int32(), reader.int8()
    if not 0 <= state < len(_STATES):
        raise MessageError(f"expected a transaction's state, found {state}")
    partitions = []
    for _ in range(reader.array_length() if flexible else max(0, reader.int32())):
        topic = reader.string() if flexible else reader.old_string()
        ids = reader.ids() if flexible else tuple(reader.int32() for _ in range(reader.int32()))
        partitions += [TopicPartition(topic, partition) for partition in ids]
        if flexible:
            reader.tags()
    updated, _ = reader.int64(), reader.int64()
    tags = reader.tags() if flexible else {}
    previous = tags[_PREVIOUS_PRODUCER_ID].int64() if _PREVIOUS_PRODUCER_ID in tags else -1
    for one in {producer, previous}:
        if one in producers:
            # A producer replaced because its epochs ran out has no later epoch than its last.
            known_epoch = epoch if one == producer else -1
            where = tuple(partitions), updated, leader_epoch, offset
            yield TransactionState(one, known_epoch, _STATES[state], *where, transactional_id)
