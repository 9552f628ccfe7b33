"""Replays of truncation: the part of a follower's log that each protocol keeps under any leader (B)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from replica_audit.auditing.replicas.reference import Reference, log_epoch_as_leader
from replica_audit.auditing.replicas.replica_facts import ReplicaFacts
from replica_audit.literals import PROTOCOLS
from replica_audit.model import OffsetRange
from replica_audit.protocol.lineage import Lineage
from replica_audit.protocol.truncation import Replay, ReplicaState, replay


def replay_lineage(facts: ReplicaFacts, tiered: bool) -> Lineage:
    """Lineage for truncation: that of the batches.

    If batches may be missing from it (compaction, tiering) the epoch file's is used instead, unless a batch contradicts it: an
    entry still has the true start of its epoch. Likewise if batches without an epoch follow others, or other replicas have such:
    only the file shows whether Kafka dropped the earlier epochs, or began to keep any (A.3), and only recovery adds them again. If no
    record is left, only the file remains, as the next start would load it.
    """
    written = facts.file_lineage
    if facts.empty:
        return written or facts.lineage
    is_dropped = facts.may_begin_late or facts.needed_lineage is not facts.lineage
    may_be_dropped = is_dropped and not facts.directory.epoch_file.is_unknown
    if not may_be_dropped and (not written or not (facts.compacted or tiered)):
        return facts.lineage
    return (written or Lineage()) if facts.is_file_of_batches else facts.lineage


def following_lineage(facts: ReplicaFacts, tiered: bool) -> Lineage:
    """Lineage with which a replica begins to follow: `replay_lineage`; none with an older message format (`keeps_no_epochs`), nor
    after a clean stop without an epoch file, since only the recovery after any other stop rebuilds one from the batches (A.9)."""
    is_gone = facts.directory.is_epoch_file_empty or facts.directory.epoch_file.state == "missing"
    has_none = facts.keeps_no_epochs or (is_gone and facts.was_stopped_before_copy)
    return Lineage() if has_none else replay_lineage(facts, tiered)


def answering_lineage(facts: ReplicaFacts, tiered: bool) -> Lineage:
    """Lineage with which the reference answers: `replay_lineage`, plus the entry that a running broker keeps for a purged log.

    DeleteRecords up to the end leaves (latest epoch, log start) in its cache and file; only a restart drops it.
    """
    lineage = replay_lineage(facts, tiered)
    entries = facts.file_entries
    if facts.empty and not lineage and entries and entries[-1] == (facts.last_leader_epoch, facts.log_end_offset):
        return Lineage(entries[-1:])
    return lineage


def lacked_below_start(facts: ReplicaFacts, other: ReplicaFacts) -> OffsetRange | None:
    """Offsets of `other` below the log start of `facts` that were never in that log (`Lineage.lacked_from`).

    A log start that moves in remote storage is in the epoch file at once, and in the checkpoint within a minute (J6). None
    if the log ends below its own start (it lost its end or is older than the log start, and may have had any epoch there),
    or if it is empty and its epoch file may be older than its last records.
    """
    if facts.log_end_offset < facts.log_start_offset or (facts.in_any_order and not facts.lineage):
        return None
    lineage = facts.lineage or facts.file_lineage or Lineage()
    next_entry = lineage.entries[1:2]
    if (
        next_entry
        and facts.compacted
        and any(gap.covers(facts.log_start_offset, next_entry[0][1]) for gap in facts.gaps)
    ):
        # A cleaner may have left nothing of the epochs between the last batch below the log start and the first one above.
        lineage = Lineage(lineage.entries[1:])
    start = lineage.lacked_from(other.lineage)
    first = facts.file_entries[0][1] if facts.file_entries and facts.file_increases else 0
    begins = max(facts.log_start_offset, min(first, facts.local_start_offset))
    end = min(begins, other.log_end_offset)
    return None if start is None or start >= end else OffsetRange(start, end)


def whole_lineage(reference: Reference) -> Lineage:
    """Epochs of the reference's log, including its part in remote storage.

    An epoch without a record is included only if the reference's file has it at the log's end or above. Otherwise epochs past a
    copy's end are unknown: the log may have continued in an earlier epoch after the copy, or on other brokers.
    """
    facts = reference.facts
    lineage = answering_lineage(facts, tiered=True)
    entries = facts.file_entries
    leads = reference.leader_id == facts.broker_id and facts.file_increases
    has_begun = leads and entries[-1:] == ((reference.leader_epoch, facts.reached_offset),)
    return reference.complete(lineage) if has_begun else lineage


def leader_states(reference: Reference, lineage: Lineage) -> dict[str, ReplicaState]:
    """State of the reference as a leader with `lineage`, by protocol; for kip-279 and fetch with its own epoch added (B.5). With an older
    message format it has no epochs at all (`keeps_no_epochs`)."""
    if reference.facts.keeps_no_epochs:
        return dict.fromkeys(PROTOCOLS, reference.facts.state(Lineage()))
    found = reference.facts.state(lineage)
    whole = reference.complete(lineage)
    complete = found if whole is lineage else reference.facts.state(whole)
    return {name: complete if name in ("kip-279", "fetch") else found for name in PROTOCOLS}


def replay_all(
    reference: Reference, follower: ReplicaFacts, tiered: bool, high_watermark: int | None = None
) -> dict[str, Replay]:
    """Replay of each protocol, by name; `high_watermark` replaces the follower's own if the input lacks it."""
    own = follower.following_state(following_lineage(follower, tiered), high_watermark)
    leaders = leader_states(reference, answering_lineage(reference.facts, tiered))
    return {name: replay_one(name, follower, own, leaders[name]) for name in PROTOCOLS}


def replay_one(protocol: str, follower: ReplicaFacts, own: ReplicaState, leader: ReplicaState) -> Replay:
    """Replay of one protocol; the reason is `recovery` if the follower's restart truncates its log and the protocol no further."""
    outcome = replay(protocol, own, leader)
    cut_before = outcome.reason == "none" and outcome.truncate_to < follower.log_end_offset
    return outcome._replace(reason="recovery") if cut_before else outcome


def first_dropped(follower: ReplicaFacts, outcome: Replay) -> int:
    """First offset that a truncation drops: the cut, or the log start if that is higher."""
    return max(outcome.kept_to, follower.log_start_offset)


def file_replay(reference: Reference, follower: ReplicaFacts, protocol: str) -> Replay | None:
    """Replay by the epoch files; None unless both can be used."""
    theirs = reference.facts.file_lineage
    own = follower.file_lineage
    if theirs is None or own is None:
        return None
    if reference.facts.empty:
        theirs = answering_lineage(reference.facts, tiered=False)
    leader = leader_states(reference, theirs)[protocol]
    return replay_one(protocol, follower, follower.following_state(own), leader)


def as_leader(reference: Reference, candidate: ReplicaFacts, replicas: Sequence[ReplicaFacts]) -> Reference:
    """`candidate` as the reference, elected in an epoch above all known ones; a killed broker first recovers its log."""
    epochs = [epoch for facts in replicas for epoch, _ in (*facts.lineage, *(facts.file_lineage or ()))]
    latest = max([-1 if reference.leader_epoch is None else reference.leader_epoch, *epochs])
    end = candidate.following_end_offset
    if end != candidate.log_end_offset:
        start = min(candidate.log_start_offset, end)
        lineage = candidate.lineage.truncate_from_end(end)
        candidate = replace(candidate, log_start_offset=start, log_end_offset=end, lineage=lineage)
    epoch = latest + 1 if latest >= 0 else None
    return Reference(
        facts=candidate,
        leader_id=candidate.broker_id,
        leader_epoch=epoch,
        log_epoch=log_epoch_as_leader(candidate, epoch),
        source=reference.source,
        isr=None,
        elr=(),
    )
