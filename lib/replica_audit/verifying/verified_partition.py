"""The verdict on each replica of one partition, from the audits of it before and after."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, get_args

from replica_audit.auditing.findings.case import Case
from replica_audit.auditing.findings.finding import offsets
from replica_audit.auditing.partitions.conclusion import PartitionAudit
from replica_audit.auditing.replicas.facts import ReplicaFacts
from replica_audit.closed_sets import FollowerVerdict
from replica_audit.model import TopicPartition
from replica_audit.verifying.committed import Gone, Lacking, gone_ranges, lacking_batches
from replica_audit.verifying.kept import Kept, has_followed, measure_kept
from replica_audit.verifying.pairing import Pairing
from replica_audit.wording import count

#: What a replica is said to have done, best first.
VERDICTS = get_args(FollowerVerdict)


@dataclass(frozen=True, slots=True)
class PartitionVerification:
    """The rows of one partition, and why some of it could not be judged."""

    verifications: tuple[dict[str, Any], ...] = ()
    gone: tuple[dict[str, Any], ...] = ()
    unjudged: tuple[str, ...] = field(default=())
    """Clauses; with any, the partition's rows do not say everything."""
    recreated: bool = False
    leader: tuple[int | None, int | None] = (None, None)
    """(leader id, leader epoch) by the later snapshot."""


def verify_partition(pairing: Pairing) -> PartitionVerification:
    """What every replica that was there before should have kept, what it kept, and what no replica holds now."""
    before, after = pairing.before, pairing.after
    partition = after.topic_partition
    rows, lacking, unjudged = [], [], []
    successors = {facts.broker_id: facts for facts in after.replicas}
    assigned = after.leadership.replicas if after.leadership else None
    unread = {facts.broker_id for facts in after.set_aside}
    away = list(unread)
    unjudged += [
        f"the log of broker {facts.broker_id} could not be read in the earlier snapshot" for facts in before.set_aside
    ]
    for old in before.replicas:
        new = successors.get(old.broker_id)
        with_leader = pairing.with_leader(old)
        lacked = lacking_batches(with_leader, before)
        lacking += lacked
        if old.end_is_open or (new is not None and new.end_is_open):
            unjudged.append(f"the log of broker {old.broker_id} is not known to its end in both snapshots")
        if new is not None:
            kept = measure_kept(
                old, new, pairing.leader.facts, with_leader, pairing.with_itself(old, new), after.protocol
            )
            rows.append(_row(after, old, new, kept, lacked))
        elif old.broker_id in unread:
            unjudged.append(f"the log of broker {old.broker_id} could not be read in the later snapshot")
        elif assigned is None or old.broker_id in assigned:
            away.append(old.broker_id)
            rows.append(_absent(after, old))
    present = [(facts, pairing.batches_after(facts)) for facts in after.replicas]
    gone = gone_ranges(lacking, present, pairing.leader.facts)
    return PartitionVerification(
        tuple(rows),
        tuple(_gone_row(partition, one, away) for one in gone),
        tuple(dict.fromkeys(unjudged)),
        leader=(after.reference.leader_id, after.reference.leader_epoch),
    )


def is_another_topic(before: PartitionAudit, after: PartitionAudit) -> bool:
    """Whether the topic was deleted and created again: two ids, and what the first one held was not lost."""
    ids = {audit.case.reference.facts.directory.topic_id for audit in (before, after) if audit.case is not None}
    return len(ids - {None}) == 2


def _row(after: Case, old: ReplicaFacts, new: ReplicaFacts, kept: Kept, lacked: Sequence[Lacking]) -> dict[str, Any]:
    leader = after.reference.facts.broker_id
    dropped = [one for one in lacked if one.end_offset > kept.kept_to]
    lost = sum(one.committed_records(kept.kept_to) for one in dropped)
    possible = sum(one.possible_records(kept.kept_to) for one in dropped)
    verdict, reason = _judge(after, old, new, kept, lost, possible)
    return {
        **_place(after.topic_partition, old.broker_id),
        "leader_id": leader,
        "end_before": old.log_end_offset,
        "kept_to": kept.kept_to,
        "expected": kept.expected,
        "end_after": new.log_end_offset,
        "lost_records": sum(one.records(kept.kept_to) for one in dropped),
        "lost_committed": lost,
        "lost_possible": possible,
        "verdict": verdict,
        "reason": reason,
        "predicted": None,
    }


def _judge(after: Case, old: ReplicaFacts, new: ReplicaFacts, kept: Kept, lost: int, possible: int) -> tuple[str, str]:
    """The verdict and the clause that explains it."""
    leader = after.reference.facts
    other = f"broker {leader.broker_id}"
    if old.empty:
        return "correct", "it held nothing"
    if kept.passed:
        where = f"its files begin at {new.local_start_offset}, those of {other} at {leader.local_start_offset}"
        return "correct", f"nothing of it is left to keep: {where}"
    if kept.kept_to < kept.expected:
        between = _led_between(old, new, leader, kept.kept_to)
        if between is not None:
            cut = f"it followed the leader of epoch {between} in between, whose log parts there from that of {other}"
            return "not_yet", f"cut at {kept.kept_to}: {cut}, and it has not followed {other} since"
        return (
            "over_truncated",
            f"{other} has its records up to {kept.expected}, and it kept them up to {kept.kept_to} only",
        )
    if kept.kept_to > kept.expected:
        holds = f"it holds {offsets(kept.expected, kept.kept_to)}, which {other} does not have"
        if has_followed(old, new, after):
            return "under_truncated", f"{holds}, and it has followed {other} since"
        return "not_yet", f"{holds}, and it has not followed {other} since"
    if lost or possible:
        records = [count(lost, "committed record")] if lost else []
        records += [f"{count(possible, 'record')} that may have been committed"] if possible else []
        return (
            "lost_committed",
            f"cut at {kept.kept_to}, and {' and '.join(records)} with it that {other} does not have",
        )
    if kept.kept_to >= old.log_end_offset:
        return "correct", "it kept all that it held"
    if kept.kept_to >= kept.most:
        return "correct", f"cut at {kept.kept_to}, where its log parts from that of {other}"
    why = "its own recovery" if kept.kept_to == kept.recovered else "its protocol"
    return "correct", f"cut at {kept.kept_to} by {why}; {other} has what it dropped"


def _led_between(old: ReplicaFacts, new: ReplicaFacts, leader: ReplicaFacts, offset: int) -> int | None:
    """The epoch that a replica has at `offset` by now, where it is new to it and the present leader's log never had it."""
    epoch = new.lineage.epoch_for_offset(offset) if offset < new.log_end_offset else None
    known = {one for facts in (old, leader) for one, _ in (*facts.lineage, *(facts.directory.checkpoint_epochs or ()))}
    return None if epoch in known else epoch


def _absent(after: Case, old: ReplicaFacts) -> dict[str, Any]:
    return {
        **_place(after.topic_partition, old.broker_id),
        "leader_id": after.reference.facts.broker_id,
        "end_before": old.log_end_offset,
        "kept_to": None,
        "expected": None,
        "end_after": None,
        "lost_records": None,
        "lost_committed": None,
        "lost_possible": None,
        "verdict": "not_yet",
        "reason": "its log is not in the later snapshot",
        "predicted": None,
    }


def _gone_row(partition: TopicPartition, gone: Gone, away: Sequence[int]) -> dict[str, Any]:
    return {
        "topic": partition.topic,
        "partition": partition.partition,
        "start_offset": gone.start_offset,
        "end_offset": gone.end_offset,
        "leader_epoch": gone.leader_epoch,
        "record_count": gone.record_count,
        "committed": gone.committed,
        "broker_ids": list(gone.broker_ids),
        "may_hold": sorted(set(gone.broker_ids) & set(away)),
        "first_timestamp_ms": gone.first_timestamp_ms,
        "last_timestamp_ms": gone.last_timestamp_ms,
    }


def _place(partition: TopicPartition, broker_id: int) -> dict[str, Any]:
    return {"topic": partition.topic, "partition": partition.partition, "broker_id": broker_id}
