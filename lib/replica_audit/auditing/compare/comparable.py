"""Reasons why comparing two logs may prove nothing: one is known only from a text or table (A.8), or they belong to two
topics of one name (F.4)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from replica_audit.auditing.compare.wanted_chunks import differing_chunks
from replica_audit.auditing.replicas.offset_ranges import shared_start
from replica_audit.batch_header import or_absent
from replica_audit.segments.batch_rows import find_rows
from replica_audit.snapshot.provenance import UNPROVEN, are_comparable

if TYPE_CHECKING:
    from replica_audit.auditing.compare.comparison import Comparison
    from replica_audit.auditing.replicas.reference import Reference
    from replica_audit.auditing.replicas.replica_facts import ReplicaFacts


def why_not_comparable(chosen: Reference, follower: ReplicaFacts) -> str | None:
    """Reason, as a clause, why the two must not be compared; None if they may be."""
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
    own, theirs = map(or_absent, (follower.last_leader_epoch, chosen.leader_epoch))
    if reference.directory.epoch_file.is_unknown and own > theirs:
        return (
            f"its last leader epoch {own} is above all that is known of broker {reference.broker_id}: in which epoch that "
            "broker was elected would be in its leader-epoch-checkpoint or the metadata log"
        )
    return None


def open_question(item: Comparison, *, is_epoch_said: bool) -> str | None:
    """Clause on what a comparison leaves open because files are missing, so that no verdict may rest on it; None if nothing is.

    `is_epoch_said`: the source of leadership gives the reference's leader epoch.
    """
    leader = item.reference
    follower = item.follower
    if not (leader.second_hand or follower.second_hand):
        return None
    is_compacted = leader.compacted or follower.compacted
    if is_compacted and item.differs_in("last_offset", "leader_epoch", "crc", "size"):
        if follower.compaction_is_assumed:
            return (
                f"its log and that of broker {leader.broker_id} differ, there are gaps, and whether the topic is compacted, which would "
                "explain them, is not known: observe it with DescribeConfigs"
            )
        return (
            f"its log and that of broker {leader.broker_id} are compacted and their batches differ: without "
            "segments nobody can see whether they hold the same latest value of each key"
        )
    by_mark = item.protocol == "high-watermark" or item.replay.reason == "hw_fallback"
    if item.runs and by_mark and not follower.knows_high_watermark:
        return (
            "it differs, and whether that is cut off is decided by its high watermark, which is not part of the input"
        )
    ahead = follower.log_end_offset > leader.log_end_offset
    if ahead and not item.runs and leader.last_epoch_is_open and not is_epoch_said:
        return (
            f"it ends at {follower.log_end_offset}, past the end {leader.log_end_offset} of broker {leader.broker_id}: whether "
            "that broker was elected in a later epoch, which has no records yet and makes these records conflict, would be "
            "in its leader-epoch-checkpoint or the metadata log"
        )
    return None


class RecreatedTopic(NamedTuple):
    """Reason why two logs without a common batch may belong to different topics."""

    judged: bool
    """True if they are compared nevertheless, since leader epochs kept growing as within one topic."""
    reason: str


def other_life(reference: Reference, item: Comparison) -> RecreatedTopic | None:
    """Reason why two logs may belong to different topics of one name; None if topic ids or common batches exclude that.

    A reference that starts in a later epoch than the other ever had was elected empty, so the other's records are lost. It
    is judged so, although a recreated topic first written after an election looks the same.
    """
    leader = item.reference
    follower = item.follower
    are_both_known = None not in (leader.directory.topic_id, follower.directory.topic_id)
    if are_both_known or not _nothing_in_common(item):
        return None
    # An empty log begins in the epoch in which its leader would write.
    first = next((epoch for epoch, _ in leader.lineage), reference.log_epoch)
    last = follower.last_leader_epoch
    pair = f"broker {follower.broker_id} and broker {leader.broker_id} have no batch in common, and no topic id tells whether the topic was "
    pair += "deleted and created again"
    if first is None or last is None:
        return RecreatedTopic(False, f"{pair}; without leader epochs nothing else does")
    if first <= last:
        return RecreatedTopic(
            False,
            f"{pair}; it probably was, since the log of broker {leader.broker_id} begins in leader epoch {first}, and broker "
            f"{follower.broker_id} has records of epoch {last}",
        )
    return RecreatedTopic(
        True,
        f"the topic was deleted and created again: not excluded, there is no topic id and no batch in common; but the log of broker "
        f"{leader.broker_id} begins in leader epoch {first}, above all of broker {follower.broker_id}, as when an empty replica is elected",
    )


def _nothing_in_common(item: Comparison) -> bool:
    """True if they differ from the first offset that both could have, and share no batch."""
    leader, follower = item.reference, item.follower
    floor = shared_start(leader, follower)
    if not any(run.conflicting for run in item.runs) or item.runs[0].start_offset > floor:
        return False
    theirs = item.alignment.reference.columns("crc", "size")
    own = item.alignment.own.columns("crc", "size")
    shared = leader.chunks.keys() & follower.chunks.keys()
    same = any(leader.chunks[number].digest == follower.chunks[number].digest for number in shared)
    return not same and not (find_rows(own, theirs) >= 0).any()
