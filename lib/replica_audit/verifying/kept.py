"""How far a follower should have kept its log, and how far it did."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from replica_audit.auditing.comparing.comparison import Comparison
from replica_audit.auditing.findings.case import Case
from replica_audit.auditing.replicas.facts import ReplicaFacts
from replica_audit.auditing.replicas.shared_range import shared_start
from replica_audit.formats.segments.batch_rows import find_rows
from replica_audit.model import CHUNK_OFFSETS, PartitionState


@dataclass(frozen=True, slots=True)
class Kept:
    """Offsets up to which a replica kept what it held; below `floor` nothing is known, as retention may have been
    there."""

    kept_to: int
    """End of what it holds of its earlier log. A cut inside a batch takes the whole batch, and still leaves its log end there."""
    least: int
    """A follower that keeps less was cut too far: what its protocol cuts, or its own recovery before."""
    most: int
    """One that keeps more holds records that the leader does not have."""
    floor: int
    recovered: int
    """Where its own start would end its log after an unclean stop; its log end after a clean one."""
    passed: bool
    """The earlier log lies below `floor` altogether: there is nothing left to keep."""

    @property
    def expected(self) -> int:
        """What it should have kept to: a protocol that cuts at the high watermark lets it fetch the same records again."""
        return min(max(self.kept_to, self.least), self.most)


def measure_kept(
    old: ReplicaFacts,
    new: ReplicaFacts,
    leader: ReplicaFacts,
    with_leader: Comparison,
    with_itself: Comparison,
    protocol: str,
) -> Kept:
    """How far `old`, now `new`, kept its log, given its comparisons with the present leader and with what it is now."""
    end = old.log_end_offset
    floor = shared_start(new, leader)
    if floor >= end:
        return Kept(floor, floor, floor, floor, end, passed=True)
    floor = max(floor, old.local_start_offset)
    most = _above(floor, _shared_end(with_leader, leader))
    cut = with_leader.replays[protocol].truncate_to if new.broker_id != leader.broker_id else most
    # A start after an unclean stop recovers the log before it follows anybody.
    own = end if old.directory.clean_shutdown else min(old.loaded.log_end_offset, old.recovered.log_end_offset)
    least = max(floor, min(cut, most, own))
    kept_to = _above(floor, _own_end(old, new, with_itself))
    if new.compacted and kept_to > most and not _holds_any(old, with_itself, most, kept_to):
        # It was cut; a cleaned leader had nothing to send in place of what went.
        kept_to = most
    return Kept(kept_to, least, most, floor, own, passed=False)


def _holds_any(old: ReplicaFacts, with_itself: Comparison, start: int, end: int) -> bool:
    """Whether the replica still has a batch of its earlier log that lies in [start, end), or a part of one."""
    own, now = with_itself.alignment.own, with_itself.alignment.reference
    seen = {int(number) for side in (own, now) for number in np.unique(side.starts // CHUNK_OFFSETS)}
    if any(
        number not in seen and chunk.base_offset < end and start <= chunk.last_offset
        for number, chunk in old.chunks.items()
    ):
        return True  # chunks that are equal were not looked at
    inside = own.where((own.ends > start) & (own.starts < end))
    names = ("last_offset", "leader_epoch")
    return bool((find_rows(inside.columns(*names), now.columns(*names)) >= 0).any())


def has_followed(old: ReplicaFacts, new: ReplicaFacts, after: Case) -> bool:
    """Whether the replica has fetched from the present leader since: it is one that ought to have been cut."""
    leader = after.reference
    if new.broker_id == leader.facts.broker_id:
        return True
    known = {epoch for epoch, _ in (*old.epoch_starts, *(old.directory.checkpoint_epochs or ()))}
    learnt = {epoch for epoch, _ in new.epoch_starts} - known
    if learnt & {epoch for epoch, _ in leader.facts.epoch_starts}:
        return True
    history = [state for state in (after.leadership.history if after.leadership else ()) if not state.uncommitted]
    if not history:
        return new.broker_id in (leader.isr or ())
    epochs = {epoch for epoch, _ in (*leader.facts.epoch_starts, *(leader.facts.directory.checkpoint_epochs or ()))}
    last = -1 if new.last_leader_epoch is None else new.last_leader_epoch
    return any(epoch > last and epoch in epochs | {leader.leader_epoch} for epoch in _joined(new.broker_id, history))


def _joined(broker_id: int, history: Sequence[PartitionState]) -> Iterator[int]:
    """Leader epochs in which a broker came into the ISR: it has caught up with the leader of each.

    One that was a member when the leader was elected may not have fetched from it.
    """
    for one, two in pairwise(history):
        if one.leader_epoch == two.leader_epoch and broker_id not in one.isr and broker_id in two.isr:
            yield two.leader_epoch


def _above(floor: int, offset: int | None) -> int:
    return floor if offset is None else max(floor, offset)


def _shared_end(item: Comparison, other: ReplicaFacts) -> int | None:
    """First offset from which a replica held what `other`, which it is compared with, does not hold; None without overlap.

    What it lacked itself before is none of that.
    """
    if item.common_prefix_end is None:
        return None
    starts = (run.start_offset for run in item.runs if run.kind != "hole_here")
    return min([min(item.follower.log_end_offset, other.log_end_offset), *starts])


def _own_end(old: ReplicaFacts, new: ReplicaFacts, with_itself: Comparison) -> int | None:
    """First offset from which the replica does not hold its earlier log any more."""
    end = _shared_end(with_itself, new)
    if end is None or end >= old.log_end_offset:
        return end
    for gap in (*new.gaps, *new.missing):
        if gap.start_offset <= end < gap.end_offset:
            own = with_itself.alignment.own
            cut = own.first((own.starts <= end) & (own.ends > end))
            if cut is not None and gap.end_offset <= cut.end_offset:
                return gap.end_offset
    return end
