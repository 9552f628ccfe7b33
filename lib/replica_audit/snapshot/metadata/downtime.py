"""Brokers whose files were copied after they had gone down, or perhaps had, by copies of the metadata log (docs/semantics.md C.2, H.2).

A running broker fetches the metadata log, which gets a record every 500 ms (`NoOpRecord`, KIP-835). So its copy ends when the
broker went down, or when it was copied while the broker ran. After a power loss it may end earlier, as brokers, unlike
controllers, do not flush what they append.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from replica_audit.literals import UP_KINDS
from replica_audit.model import Leadership
from replica_audit.snapshot.inventory import CopiedLogDir
from replica_audit.snapshot.manifest import entries_around
from replica_audit.snapshot.metadata.log_copies import MetadataCopy
from replica_audit.snapshot.metadata.stale_copies import CopyMoments

#: Longest time from a broker's end to its fencing: `broker.session.timeout.ms` is 9 s, the rest is the controller's timer and
#: the last idle record. Observed: 9.3 to 10.3 s (4.3.1).
_FENCED_WITHIN_MS = 11_000
#: The same for a broker that announces its stop, which is fenced at once. Observed: 0 to 0.6 s before the end of its copy.
_STOPPED_WITHIN_MS = 1_000


def mark_down_when_copied(
    leaderships: Sequence[Leadership],
    fenced_at: Mapping[int, int],
    stopped_at: Mapping[int, int],
    copies: Sequence[MetadataCopy],
    moments: CopyMoments,
) -> list[Leadership]:
    """`leaderships` with `down_when_copied`.

    `fenced_at` has the time in ms at which brokers were fenced, `stopped_at` that of brokers that had announced their stop;
    `copies` are of one history. A broker whose own copy has records from after its copying began was still up then: logs copied
    first may be older.
    """
    reached: dict[int, int] = {}
    for copy in copies:
        if copy.node_id is not None and not moments.is_before(copy.log, copy.last_time_ms):
            reached[copy.node_id] = min(reached.get(copy.node_id, copy.last_time_ms), copy.last_time_ms)
    least = {broker: time_ms - _FENCED_WITHIN_MS for broker, time_ms in fenced_at.items()}
    least |= {broker: time_ms - _STOPPED_WITHIN_MS for broker, time_ms in stopped_at.items()}
    down = {broker for broker, time_ms in least.items() if reached.get(broker, -1) >= time_ms}
    return [replace(one, down_when_copied=tuple(b for b in one.fenced or () if b in down)) for one in leaderships]


def mark_perhaps_down(
    leaderships: Sequence[Leadership], copies: Sequence[MetadataCopy], moments: CopyMoments
) -> list[Leadership]:
    """`leaderships` with `perhaps_down`: brokers that nobody saw run while they were copied, where the metadata log ends before that:
    with all nodes down, nobody is left to fence them. `copies` are of one history."""
    heard_ms = max((copy.last_time_ms for copy in copies), default=-1) + _FENCED_WITHIN_MS
    log_dirs = {copy.node_id: copy.log.log_dir for copy in copies}
    of_brokers: dict[int, list[CopiedLogDir]] = defaultdict(list)
    for one in moments.copies:
        of_brokers[one.broker_id].append(one)
    unseen = {
        broker
        for broker, entries in of_brokers.items()
        if any(one.finished_ms is None or one.finished_ms > heard_ms for one in _unseen(entries, log_dirs.get(broker)))
    }
    return [replace(one, perhaps_down=perhaps) if (perhaps := _among(one, unseen)) else one for one in leaderships]


def _unseen(entries: Sequence[CopiedLogDir], log_dir: str | None) -> list[CopiedLogDir]:
    """Copied log dirs during which a broker was not seen to run. Where it never was, only that of its metadata log, if it is here: that
    ends when the broker went down, or was copied."""
    unseen = [one for one in entries if one.is_unseen]
    if log_dir is None or any(one.kind in UP_KINDS for one in entries):
        return unseen
    return entries_around(log_dir, unseen) or unseen


def _among(leadership: Leadership, unseen: Collection[int]) -> tuple[int, ...]:
    return tuple(one for one in leadership.replicas or () if one in unseen and one not in (leadership.fenced or ()))
