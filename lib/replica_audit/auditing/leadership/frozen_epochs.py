"""Leader epochs whose ISR never met min.insync.replicas: since 3.7 the high watermark stands still in them (C.1, C.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from replica_audit.auditing.leadership.election_causes import MIN_ISR, past_elections
from replica_audit.protocol.versions import stands_still_below_min_isr

if TYPE_CHECKING:
    from replica_audit.auditing.leadership.election_causes import PastElections
    from replica_audit.auditing.leadership.high_watermark_bounds import HighWatermark
    from replica_audit.auditing.replicas.reference import Reference
    from replica_audit.auditing.replicas.replica_facts import ReplicaFacts
    from replica_audit.model import Leadership, PartitionState


@dataclass(frozen=True, slots=True)
class FrozenEpochs:
    """Leader epochs in which nothing was committed, by the history."""

    epochs: frozenset[int]
    committing: frozenset[int]
    """Epochs in which somebody led and the high watermark may have moved."""
    lowered: frozenset[int]
    """Epochs that ended with an ISR below the minimum: no file tells whether a record was appended before it shrank."""
    past: PastElections

    def never_committed(self, leader_epoch: int | None, offset: int) -> bool:
        """True if a record was appended in a frozen epoch, and no later leader that may have committed it had it."""
        if leader_epoch not in self.epochs:
            return False
        later = (epoch for epoch in self.committing if epoch > leader_epoch)
        return all(self.past.had(epoch, offset, leader_epoch) is False for epoch in later)


def frozen_epochs(
    replicas: Sequence[ReplicaFacts], leadership: Leadership | None, kafka_version: tuple[int, ...] | None
) -> FrozenEpochs | None:
    """Frozen epochs of the history; None without a history, or if the version may lack the rule.

    Eligible leader replicas came after the rule: if there are any, the version has it.
    """
    past = past_elections(replicas, leadership)
    if past is None or leadership is None:
        return None
    states = [state for state in leadership.history if not state.uncommitted]
    gated = stands_still_below_min_isr(kafka_version)
    if not (any(state.elr for state in states) if gated is None else gated):
        return None
    led = [state for state in states if state.leader_id is not None]
    committing = {state.leader_epoch for state in led if not _is_below_minimum(state)}
    # States of an epoch before the snapshot of the log was written are unknown.
    committing |= {state.leader_epoch for state in led[:1] if state.occasion == "snapshot"}
    last = {state.leader_epoch: state for state in led}
    return FrozenEpochs(
        epochs=frozenset(last.keys() - committing),
        committing=frozenset(committing),
        lowered=frozenset(epoch for epoch, state in last.items() if _is_below_minimum(state)),
        past=past,
    )


def _is_below_minimum(state: PartitionState) -> bool:
    minimum = state.configs.get(MIN_ISR, "")
    return minimum.isdigit() and len(state.isr) < min(int(minimum), len(state.replicas))


def bounded_by_frozen_epochs(
    mark: HighWatermark, reference: Reference, leadership: Leadership | None, frozen: FrozenEpochs | None
) -> HighWatermark:
    """`mark` bounded from above by the start of the epoch since which it has stood still, unless more is proven."""
    if frozen is None or leadership is None or reference.outdated or mark.method == "capture_skew":
        return mark
    since = min((epoch for epoch in frozen.epochs if epoch > max(frozen.committing, default=-1)), default=None)
    start = None if since is None else _start_of(since, reference, frozen.past)
    if start is None or _is_later_known(reference, leadership) or start < max(mark.hw_lower, mark.reached):
        return mark
    if mark.hw_upper is not None and mark.hw_upper <= start:
        return mark
    return replace(
        mark,
        hw_upper=start,
        method="bounds_meet" if start == mark.hw_lower else "interval",
        upper_evidence=f"start {start} of leader epoch {since}: from there on fewer replicas were in sync than "
        "min.insync.replicas, so the high watermark has stood still",
        limiting_broker_id=None,
    )


def _start_of(epoch: int, reference: Reference, past: PastElections) -> int | None:
    """First offset of an epoch, if the reference's log has it, or if every election from then on was clean."""
    facts = reference.facts
    entries = (*facts.lineage, *(facts.directory.checkpoint_epochs or ()))
    own = min((start for one, start in entries if one == epoch), default=None)
    clean = all(one.clean for one in past.elections if one.leader_epoch >= epoch)
    return own if own is not None or not clean else past.start_of(epoch)


def _is_later_known(reference: Reference, leadership: Leadership) -> bool:
    """True if the reference's log has an epoch that the history does not know yet."""
    latest = max((state.leader_epoch for state in leadership.history), default=-1)
    return (reference.facts.last_leader_epoch or -1) > latest
