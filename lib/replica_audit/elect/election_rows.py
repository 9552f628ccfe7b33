"""The cost matrix as rows of the `elections` table, beside those of the audit."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from replica_audit.auditing.answer_rows import report_rows
from replica_audit.auditing.catalogue import at_or_above, codes_with
from replica_audit.auditing.compare.record_comparison import RecordSource
from replica_audit.auditing.conclude import PartitionAudit
from replica_audit.auditing.replicas.replica_facts import CopyKey, ReplicaFacts
from replica_audit.elect.choice import choose, is_clean, is_leader_gone, standing
from replica_audit.elect.cluster_state import UNCLEAN
from replica_audit.elect.costs import candidate_costs
from replica_audit.model import TopicPartition
from replica_audit.schema import BesideRow, ElectionRow, ReportRows

#: Verdicts of partitions that need no decision.
CALM = ("CONSISTENT", "LAGGING")


def decided_rows(
    audit: PartitionAudit,
    batches: Mapping[CopyKey, np.ndarray],
    asked: Collection[TopicPartition] = (),
    up: Collection[int] | None = None,
    read: RecordSource | None = None,
) -> ReportRows:
    """`report_rows` with `elections` filled: of a partition that is neither consistent nor lagging, that lost records, of which
    the order of starting decides who leads, whose leader is none of the brokers that are said to be `up`, or that is `asked`
    for. Of a topic that was deleted there is nothing to decide.
    """
    rows = report_rows(audit)
    leadership = audit.evidence.leadership
    if leadership is not None and leadership.is_deleted:
        return rows
    has_lost = any(row.lost_records for row in rows.partitions)
    is_open = audit.verdict not in CALM or has_lost or is_led_by_whoever_starts(audit) or is_leader_down(audit, up)
    if is_open or audit.evidence.topic_partition in asked:
        rows.elections.extend(election_rows(audit, batches, read))
    return rows


def is_leader_down(audit: PartitionAudit, up: Collection[int] | None) -> bool:
    """True if the leader is known and not among the brokers given as `up`; False if none are given."""
    leader = None if audit.case is None else audit.case.reference.leader_id
    return up is not None and leader is not None and leader not in up


def is_led_by_whoever_starts(audit: PartitionAudit) -> bool:
    """True if the order of the next starts decides who leads: nobody does, or the leader crashed while others were behind it.

    If every broker was stopped cleanly and only one of them may lead, there is nothing to decide.
    """
    case = audit.case
    if case is None:
        return False
    end = case.reference.facts.log_end_offset
    differ = any(item.follower.log_end_offset != end for item in case.comparisons)
    if case.reference.leader_id is not None:
        return differ and is_leader_gone(case)
    entitled = () if case.leadership is None else case.leadership.isr or case.leadership.elr
    return not case.stopped or (differ and (len(entitled) > 1 or case.config(UNCLEAN) == "true"))


def election_rows(
    audit: PartitionAudit, batches: Mapping[CopyKey, np.ndarray], read: RecordSource | None = None
) -> list[ElectionRow]:
    """A row for each candidate and each replica, the candidate included; the candidate's own values are in all of its rows."""
    case = audit.case
    if case is None:
        return []
    costs = candidate_costs(audit, batches, read)
    damaged = damage_by_broker(audit)
    choice = choose(case, costs, damaged)
    rows = []
    for cost in costs:
        name = standing(case, cost.broker_id)
        rank = None if choice is None else choice.rank(cost)
        rows += [
            ElectionRow(
                topic=audit.evidence.topic_partition.topic,
                partition=audit.evidence.topic_partition.partition,
                candidate_id=cost.broker_id,
                broker_id=one.broker_id,
                kept_to=one.kept_to,
                dropped_records=one.dropped.record_count,
                dropped_bytes=one.dropped.size_bytes,
                committed_dropped=one.committed_dropped,
                first_timestamp_ms=one.dropped.first_timestamp_ms,
                last_timestamp_ms=one.dropped.last_timestamp_ms,
                lost_held=one.lost_held,
                lost_records=cost.lost_records,
                lost_committed=cost.lost_committed,
                lost_possible=cost.lost_possible,
                lost_at_most=cost.lost_at_most,
                cut_transactions=cost.cut_transactions,
                only_here=cost.only_here,
                hidden_records=cost.hidden_records,
                remote_records=cost.remote_records,
                damage=damaged.get(cost.broker_id, []),
                beside=[
                    BesideRow(
                        broker_id=copy.facts.broker_id,
                        log_dir=_directory(copy.facts),
                        start_offset=copy.start_offset,
                        end_offset=copy.facts.log_end_offset,
                        lost_held=copy.lost_held,
                    )
                    for copy in cost.beside
                ],
                standing=name,
                clean=is_clean(name),
                choice=rank,
                reason=choice.reason if choice is not None and rank == "best" else None,
            )
            for one in cost.followers
        ]
    return rows


def _directory(facts: ReplicaFacts) -> str:
    """The own directory of a copy that neither leads nor follows; a second disk has the replica's name for it, too."""
    return facts.directory.path if facts.kind == "current" else facts.directory.log_dir


def damage_by_broker(audit: PartitionAudit) -> dict[int, list[str]]:
    """Codes of what is damaged in each broker's files, as far as it matters to whoever lets it lead."""
    found: dict[int, list[str]] = {}
    for item in audit.findings:
        is_damage = item.code in codes_with("damage") and at_or_above(item.severity, "medium")
        if is_damage and item.broker_id is not None and item.code not in found.setdefault(item.broker_id, []):
            found[item.broker_id].append(item.code)
    return {broker: sorted(codes) for broker, codes in found.items()}
