"""Records that were never committed, or may not have been: those past the reference's end (F.0), and all of frozen epochs (C.1, C.2)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING, NamedTuple

from replica_audit.auditing.compare.comparison import Tail
from replica_audit.auditing.compare.loss import committed_ahead
from replica_audit.auditing.leadership.election_causes import past_elections
from replica_audit.auditing.leadership.high_watermark_bounds import why_open
from replica_audit.auditing.replicas.lost_tails import has_lost_tail
from replica_audit.batch_header import or_absent
from replica_audit.protocol.election import last_led
from replica_audit.protocol.versions import stands_still_below_min_isr

if TYPE_CHECKING:
    from replica_audit.auditing.compare.comparison import Comparison
    from replica_audit.auditing.leadership.election_causes import PastElections
    from replica_audit.auditing.leadership.high_watermark_bounds import HighWatermark
    from replica_audit.auditing.replicas.reference import Reference
    from replica_audit.auditing.replicas.replica_facts import ReplicaFacts
    from replica_audit.batch_header import Batch
    from replica_audit.model import Leadership


class FrozenEpochs(NamedTuple):
    """Leader epochs in which nothing was committed, by the history."""

    epochs: frozenset[int]
    committing: frozenset[int]
    """Epochs with a leader in which the high watermark may have advanced."""
    lowered: frozenset[int]
    """Epochs that ended with an ISR below the minimum: no file shows whether a record was appended before the ISR shrank."""
    past: PastElections

    def never_committed(self, leader_epoch: int | None, offset: int) -> bool:
        """True if a record was appended in a frozen epoch and is not in the log of any later leader that may have committed it."""
        return leader_epoch in self.epochs and self.may_commit_in(leader_epoch, offset) is None

    def may_commit_in(self, leader_epoch: int, offset: int) -> int | None:
        """The first later epoch in which a record may have been committed, since its leader had it or may have had it; None without one."""
        later = (epoch for epoch in sorted(self.committing) if epoch > leader_epoch)
        return next((epoch for epoch in later if self.past.had(epoch, offset, leader_epoch) is not False), None)


def frozen_epochs(
    replicas: Sequence[ReplicaFacts], leadership: Leadership | None, kafka_version: tuple[int, ...] | None
) -> FrozenEpochs | None:
    """Frozen epochs of the history; None without history, or if the version may lack the rule.

    Eligible leader replicas are newer than the rule: if there are any, the version has it.
    """
    past = past_elections(replicas, leadership)
    if past is None:
        return None
    states = past.states
    gated = stands_still_below_min_isr(kafka_version)
    if not (any(state.elr for state in states) if gated is None else gated):
        return None
    led = [state for state in states if state.leader_id is not None]
    committing = {state.leader_epoch for state in led if not state.is_below_min_isr}
    # States of an epoch before the metadata log's snapshot was written are unknown.
    committing |= {state.leader_epoch for state in led[:1] if state.occasion == "snapshot"}
    last = {state.leader_epoch: state for state in led}
    return FrozenEpochs(
        epochs=frozenset(last.keys() - committing),
        committing=frozenset(committing),
        lowered=frozenset(epoch for epoch, state in last.items() if state.is_below_min_isr),
        past=past,
    )


def bounded_by_frozen_epochs(mark: HighWatermark, reference: Reference, frozen: FrozenEpochs | None) -> HighWatermark:
    """Bound `mark` from above by the start of the epoch since which it is frozen, unless more is proven."""
    if frozen is None or reference.outdated or mark.method == "capture_skew":
        return mark
    since = min((epoch for epoch in frozen.epochs if epoch > max(frozen.committing, default=-1)), default=None)
    start = None if since is None else _start_of(since, reference, frozen.past)
    if start is None or _is_later_known(reference, frozen.past) or start < max(mark.hw_lower, mark.reached):
        return mark
    if mark.hw_upper is not None and mark.hw_upper <= start:
        return mark
    few = "from there on fewer replicas were in sync than min.insync.replicas, so the high watermark has stood still"
    return mark.bounded(start, f"start {start} of leader epoch {since}: {few}")


def _start_of(epoch: int, reference: Reference, past: PastElections) -> int | None:
    """First offset of an epoch, if the reference's log has it or every election since was clean."""
    own = min((start for one, start in reference.facts.epoch_entries if one == epoch), default=None)
    clean = all(one.clean for one in past.elections if one.leader_epoch >= epoch)
    return own if own is not None or not clean else past.start_of(epoch)


def _is_later_known(reference: Reference, past: PastElections) -> bool:
    """True if the reference's log has an epoch later than the committed history, in which more may have been committed."""
    return or_absent(reference.facts.last_leader_epoch) > max(state.leader_epoch for state in past.states)


def with_uncommitted_tails(
    comparisons: Sequence[Comparison],
    reference: Reference,
    leadership: Leadership | None,
    frozen: FrozenEpochs | None,
) -> tuple[Comparison, ...]:
    """Give each comparison the part past the reference's end that was never committed, or may not have been."""
    replicas = (reference.facts, *(item.follower for item in comparisons))
    past = past_elections(replicas, leadership)
    if past is None or reference.outdated:
        return tuple(comparisons)
    lacks_committed = any(
        _is_proven(batch, item.follower, replicas) for item in comparisons for batch in item.alignment.ahead
    )
    history = _History(reference, replicas, past, frozen, lacks_committed)
    found = []
    for item in comparisons:
        never = _tail(_unproven(item.alignment.ahead, item.follower, replicas), history.why_never_committed)
        item = item._replace(never_committed=never)
        reached = committed_ahead(item.reference, item.follower)
        rest = (batch for batch in _unproven(item.ahead, item.follower, replicas) if batch.base_offset >= reached)
        found.append(item._replace(undecided=_tail(rest, history.why_undecided)))
    return tuple(found)


def _unproven(batches: Sequence[Batch], holder: ReplicaFacts, replicas: Sequence[ReplicaFacts]) -> Iterable[Batch]:
    """The batches after the last one that is proven committed, in reverse."""
    return takewhile(lambda batch: not _is_proven(batch, holder, replicas), reversed(batches))


def _tail(batches: Iterable[Batch], why_of: Callable[[Batch], str | None]) -> Tail | None:
    """Tail of the last `batches`, given in reverse, as long as each has a reason; None if the last one has none."""
    tail = None
    for batch in batches:
        why = why_of(batch)
        if why is None:
            break
        tail = Tail(batch.base_offset, why)
    return tail


class _History(NamedTuple):
    """Elections and in-sync replicas that determine whether records past the reference's end were committed."""

    reference: Reference
    replicas: Sequence[ReplicaFacts]
    past: PastElections
    frozen: FrozenEpochs | None
    lacks_committed: bool
    """True if something past the reference's end is proven committed: some replica lost the end of its log."""

    def why_never_committed(self, batch: Batch) -> str | None:
        """Reason, as a clause, why a record cannot have been committed; None if it may have been."""
        if self.frozen is not None and self.frozen.never_committed(batch.epoch, batch.base_offset):
            return f"in leader epoch {batch.epoch} the ISR never met min.insync.replicas, and no later leader that had them met it"
        if batch.epoch is None or self.past.known_from > batch.epoch or self.lacks_committed:
            return None
        since = [one for one in self.past.elections if one.leader_epoch > batch.epoch]
        if not all(one.clean and not one.came_back for one in since):
            return None
        had = [self.past.had(one.leader_epoch, batch.base_offset, batch.epoch) for one in since]
        for number, one in enumerate(since):
            # A replica that had not followed that leader yet may have led next, and committed them.
            is_first = had[number] is False and not any(had[number:])
            if is_first and not has_lost_tail(self.reference, self.replicas, one.leader_id):
                return (
                    f"broker {one.leader_id} did not have them when it was cleanly elected in epoch {one.leader_epoch}"
                )
        if self._should_have(batch.epoch):
            broker_id = self.reference.facts.broker_id
            return f"broker {broker_id} is eligible to lead and was stopped cleanly, so it has all that was committed"
        return None

    def why_undecided(self, batch: Batch) -> str | None:
        """Reason, as a clause, why it is unknown whether a record was committed; None if it is likely."""
        frozen = self.frozen
        if frozen is not None and batch.epoch in frozen.epochs:
            later = frozen.may_commit_in(batch.epoch, batch.base_offset)
            if later is not None:
                return (
                    f"in leader epoch {batch.epoch} the ISR never met min.insync.replicas, and no file tells whether they were committed "
                    f"in epoch {later}"
                )
        if frozen is not None and batch.epoch in frozen.lowered:
            return (
                "the ISR had shrunk below min.insync.replicas by the end of their leader epoch, and no file tells whether they "
                "were appended before"
            )
        last = last_led(self.reference.history)
        if batch.epoch is None or last is None or last.leader_epoch <= batch.epoch:
            return None
        if self.past.had(last.leader_epoch, batch.base_offset, batch.epoch):
            return None
        return f"broker {last.leader_id} led in epoch {last.leader_epoch} since, and nothing shows that it had them"

    def _should_have(self, epoch: int) -> bool:
        """True if the reference has everything committed in an epoch, provided that no election since lost any.

        So has an eligible leader replica that was stopped cleanly; a killed one is no longer eligible (KIP-966). False where it led.
        """
        facts = self.reference.facts
        reference = self.reference
        stopped = facts.broker_id in reference.elr and facts.was_stopped_before_copy
        wrote = any((one.leader_id, one.leader_epoch) == (facts.broker_id, epoch) for one in reference.history)
        is_open = reference.leader_id is not None or why_open(facts, self.replicas, None) is not None
        return stopped and not wrote and not is_open


def _is_proven(batch: Batch, holder: ReplicaFacts, replicas: Sequence[ReplicaFacts]) -> bool:
    """True if a checkpoint or log start of a replica that has or had the record proves it committed."""
    return any(
        mark is not None
        and batch.base_offset < mark <= facts.log_end_offset
        and (
            facts.lineage.epoch_for_offset(batch.base_offset) == batch.epoch
            # Records deleted below a log start belonged to the history that continues there.
            or holder.lineage.shared_with(facts.lineage, mark) > batch.base_offset
        )
        for facts in replicas
        for mark in (facts.directory.high_watermark_checkpoint, facts.log_start_offset)
    )
