"""Limits of comparing a log that is known from a text or table only (A.8)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from replica_audit.auditing.compare.chunks import differing_chunks
from replica_audit.auditing.replicas.offset_ranges import shared_end, shared_start
from replica_audit.snapshot.provenance import UNPROVEN, are_comparable

if TYPE_CHECKING:
    from replica_audit.auditing.compare.comparison import Comparison
    from replica_audit.auditing.replicas.reference import Reference
    from replica_audit.auditing.replicas.replica_facts import ReplicaFacts


def why_not_comparable(chosen: Reference, follower: ReplicaFacts) -> str | None:
    """Reason, as a clause, that nothing may be concluded from comparing the two; None if it may."""
    reference = chosen.facts
    if follower.unread is not None:
        return f"of broker {follower.broker_id}: {follower.unread}"
    if not (reference.second_hand or follower.second_hand):
        return None
    for facts in (follower, reference):
        for word in facts.undecided:
            return f"of broker {facts.broker_id}: {UNPROVEN[word]}"
    if not are_comparable(reference.form, follower.form):
        return (
            f"the two are not given in the same form: broker {follower.broker_id} as {follower.form}, "
            f"broker {reference.broker_id} as {reference.form}"
        )
    derived = [facts for facts in (reference, follower) if "base_offsets" in facts.unproven]
    if (
        derived
        and any(facts.compacted or facts.gaps for facts in (reference, follower))
        and differing_chunks(reference, follower)
    ):
        return f"of broker {derived[0].broker_id}: {UNPROVEN['base_offsets']}, and the log has gaps"
    own, theirs = (-1 if epoch is None else epoch for epoch in (follower.last_leader_epoch, chosen.leader_epoch))
    if reference.directory.epoch_file.is_unknown and own > theirs:
        return (
            f"its last leader epoch {own} is above all that is known of broker {reference.broker_id}: in which epoch that "
            "broker was elected would be in its leader-epoch-checkpoint or the metadata log"
        )
    return None


def open_question(reference: Reference, item: Comparison, protocol: str, is_epoch_said: bool) -> str | None:
    """Clause naming what files would have settled and this comparison leaves open, so that no verdict may rest on it; None if nothing.

    `is_epoch_said`: the source of leadership gives the epoch in which the reference leads.
    """
    leader = reference.facts
    follower = item.follower
    if not (leader.second_hand or follower.second_hand):
        return None
    if (leader.compacted or follower.compacted) and _differ(leader, item):
        return (
            f"its log and that of broker {leader.broker_id} are compacted and their batches differ: without "
            "segments nobody can see whether they hold the same latest value of each key"
        )
    by_mark = protocol == "high-watermark" or item.replays[protocol].reason == "hw_fallback"
    if item.runs and by_mark and not follower.knows_high_watermark:
        return (
            "it differs, and whether that is cut off is decided by its high watermark, which is not part of the input"
        )
    ahead = follower.log_end_offset > leader.log_end_offset
    if ahead and not item.runs and is_epoch_open(leader, is_epoch_said):
        return (
            f"it ends at {follower.log_end_offset}, past the end {leader.log_end_offset} of broker {leader.broker_id}: whether "
            "that broker was elected in a later epoch, which has no records yet and makes these records conflict, would be "
            "in its leader-epoch-checkpoint or the metadata log"
        )
    return None


def is_epoch_open(leader: ReplicaFacts, is_epoch_said: bool) -> bool:
    """True if the reference may have been elected in a later epoch than its records show, and no file excludes it."""
    return leader.has_epochs and leader.directory.epoch_file.is_unknown and not is_epoch_said


def _differ(leader: ReplicaFacts, item: Comparison) -> bool:
    """True if the batches differ within the range that both logs cover."""
    start = shared_start(leader, item.follower)
    end = shared_end(leader, item.follower)
    return item.differs_between(start, end, ("last_offset", "leader_epoch", "crc", "size"))
