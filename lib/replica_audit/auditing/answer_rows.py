"""A partition's audit as rows of the report tables, one that ended in an error too."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Collection
from dataclasses import replace
from pathlib import PurePath

from replica_audit.auditing.capture_rows import capture_rows
from replica_audit.auditing.case import Case
from replica_audit.auditing.catalogue import SEVERITIES
from replica_audit.auditing.compare.comparison import Comparison
from replica_audit.auditing.compare.divergence_cause import promised_in_all
from replica_audit.auditing.compare.loss import Count, Loss, committed_ahead, count_loss, count_run
from replica_audit.auditing.conclude import PartitionAudit
from replica_audit.auditing.consumer_groups import group_rows
from replica_audit.auditing.evidence import PartitionEvidence
from replica_audit.auditing.finding import report_finding
from replica_audit.auditing.findings.cap import not_audited
from replica_audit.auditing.findings.div import code_of_run
from replica_audit.auditing.findings.rep import brokers_past_leader
from replica_audit.auditing.lost_producers import lost_producer_rows
from replica_audit.auditing.replicas.offset_ranges import without
from replica_audit.auditing.replicas.reference import Reference
from replica_audit.auditing.replicas.replica_facts import ReplicaFacts
from replica_audit.model import OffsetRange, TopicPartition
from replica_audit.schema import REPORT_TABLES, Evidence


def report_rows(audit: PartitionAudit) -> dict[str, list[dict]]:
    """Rows by table; tables that this partition has no row for are there, empty. Quarantine comes from ingest."""
    rows: dict[str, list[dict]] = {name: [] for name in REPORT_TABLES}
    case = audit.case
    topic_id = _topic_id(audit)
    loss = _loss(audit)
    rows["partitions"].append(_partition_row(audit, topic_id, loss))
    rows["captures"].extend(capture_rows(audit))
    for item in audit.findings:
        told = report_finding(item, audit.evidence.topic_partition, topic_id, audit.evidence.cluster_id)
        rows["findings"].append(told.to_row())
    if case is None:
        return rows
    beside = [item.follower for item in case.beside if item.follower not in case.duplicates]
    for facts in (*case.replicas, *case.set_aside, *case.foreign, *case.duplicates, *beside):
        rows["replicas"].append(_replica_row(case, facts, loss))
    rows["high_watermarks"].append(_high_watermark_row(case))
    shorter = brokers_past_leader(audit.findings)
    compared = [(item, loss) for item in case.comparisons] + [(item, Loss(None)) for item, _ in case.strangers]
    for comparison, counted in compared:
        rows["divergences"].extend(_divergence_rows(case, comparison, counted))
        rows["truncations"].extend(_truncation_rows(case, comparison, shorter))
    rows["group_offsets"].extend(group_rows(case))
    rows["lost_producers"].extend(lost_producer_rows(case))
    return rows


def _names(audit_or_case) -> dict:
    partition = audit_or_case.topic_partition
    return {"topic": partition.topic, "partition": partition.partition}


def _topic_id(audit: PartitionAudit) -> str | None:
    if audit.case is not None:
        return audit.case.reference.facts.directory.topic_id
    return audit.evidence.leadership.topic_id if audit.evidence.leadership else None


def _loss(audit: PartitionAudit) -> Loss:
    case = audit.case
    if case is None:
        return Loss(None)
    past_leader = brokers_past_leader(audit.findings)
    shorter = {item.follower.key for item in case.comparisons if item.follower.broker_id in past_leader}
    shorter |= {item.follower.key for item in case.beside if case.is_lost_tail(item)}
    remote = [one.piece for one in case.remote_orphans]
    counted = count_loss(case.reference.facts, (*case.comparisons, *case.beside), shorter, remote)
    loss = _with_unseen(counted, case)
    uncompared = case.strangers or case.set_aside or audit.needed_replicas or case.is_alone
    return Loss(None) if uncompared and loss.total is not None and not loss.total.records else loss


def _with_unseen(loss: Loss, case: Case) -> Loss:
    """`loss` plus one record for each offset that only checkpoint files show to have been committed."""
    runs = [run for item in case.comparisons for run in item.runs if run.conflicting]
    known = [OffsetRange(run.start_offset, run.end_offset) for run in runs]
    unseen = 0
    for mark in case.orphaned_marks:
        marked = OffsetRange(mark.start_offset, mark.end_offset)
        unseen += sum(len(part) for part in without([marked], known))
        known.append(marked)
    if loss.total is None or not unseen:
        return loss
    has_markers = any(segment.ended_producers for segment in case.reference.facts.segments)
    total = Count(loss.total.records + unseen, loss.total.committed + unseen)
    return replace(loss, total=total, at_most=loss.at_most or has_markers)


def _partition_row(audit: PartitionAudit, topic_id: str | None, loss: Loss) -> dict:
    case, leadership = audit.case, audit.evidence.leadership
    counts = {severity: sum(item.severity == severity for item in audit.findings) for severity in SEVERITIES}
    row = {
        **_names(audit.evidence),
        "topic_id": topic_id,
        "verdict": audit.verdict,
        "leader_id": leadership.leader_id if leadership else None,
        "reference_id": None,
        "leader_epoch": leadership.leader_epoch if leadership else None,
        "isr": list(leadership.isr) if leadership and leadership.isr is not None else None,
        "under_replicated": None,
        "unread_replicas": list(audit.unread_replicas),
        "hw_lower": None,
        "hw_upper": None,
        "max_lag_records": None,
        "max_lag_bytes": None,
        "dropped_records": 0,
        "committed_dropped": 0,
        "promised_dropped": None,
        "lost_records": loss.total.records if loss.total else None,
        "lost_committed": loss.total.committed if loss.total else None,
        "lost_at_most": loss.at_most if loss.total else None,
        "lost_at_least": bool(audit.needed_replicas) if loss.total else None,
        "holders": _holders(loss),
        "findings": counts,
    }
    if case is None:
        return row
    shorter = brokers_past_leader(audit.findings)
    reference, strangers = case.reference, [item for item, _ in case.strangers]
    assigned = leadership.replicas if leadership else None
    lagging = [item for item in case.comparisons if assigned is None or item.follower.broker_id in assigned]
    behind = [max(0, reference.facts.log_end_offset - item.follower.log_end_offset) for item in lagging]
    row.update(
        leader_id=reference.leader_id,
        reference_id=reference.facts.broker_id,
        leader_epoch=reference.leader_epoch,
        isr=None if reference.isr is None else list(reference.isr),
        under_replicated=None
        if reference.isr is None or assigned is None or case.stopped
        else len(reference.isr) < len(assigned),
        hw_lower=case.high_watermark.hw_lower,
        hw_upper=case.high_watermark.hw_upper,
        max_lag_records=max(behind, default=0),
        max_lag_bytes=max((item.lag.size_bytes for item in lagging), default=0),
        dropped_records=sum(item.drops[case.protocol].record_count for item in (*case.comparisons, *strangers)),
        committed_dropped=sum(_committed_dropped(case, item, case.protocol, shorter) for item in case.comparisons),
        promised_dropped=_promised_dropped(case),
    )
    return row


def _holders(loss: Loss) -> list[dict]:
    return [
        {
            "broker_id": broker_id,
            "records": held.records,
            "committed": held.committed,
            "only_here": only_here.records,
            "committed_only_here": only_here.committed,
        }
        for broker_id, (held, only_here) in loss.holders.items()
        if held.records
    ]


def _promised_dropped(case: Case) -> int | None:
    """Upper bound of the dropped records that acks=all had promised; None if unknown."""
    return promised_in_all(
        run.cause
        for item in case.comparisons
        for run in item.runs
        if run.conflicting and run.start_offset >= item.replays[case.protocol].kept_to
    )


def _role(case: Case, facts: ReplicaFacts) -> str:
    if facts is case.reference.facts:
        return "leader" if facts.broker_id == case.reference.leader_id else "reference"
    aside = (*case.set_aside, *(item.follower for item, _ in case.strangers))
    others = {"foreign": case.foreign, "duplicate": case.duplicates, "set_aside": aside}
    role = next((role for role, copies in others.items() if any(facts is one for one in copies)), None)
    return role or ("compared" if facts.kind == "current" else facts.kind)


def _replica_row(case: Case, facts: ReplicaFacts, loss: Loss) -> dict:
    directory, reference = facts.directory, case.reference
    comparison = case.comparison_of(facts)
    prefix = comparison.common_prefix_end if comparison else None
    known = loss.total is not None and (comparison is not None or facts is reference.facts)
    held, only_here = ((one.get(facts.key, Count()) if known else None) for one in (loss.held, loss.only_here))
    return {
        **_names(case),
        "broker_id": facts.broker_id,
        "log_dir": directory.log_dir,
        "topic_id": directory.topic_id,
        "role": _role(case, facts),
        "is_leader": facts is reference.facts and facts.broker_id == reference.leader_id,
        "in_isr": case.in_isr(facts.broker_id),
        "log_start_offset": facts.log_start_offset,
        "log_end_offset": facts.log_end_offset if facts.end_is_known else None,
        "loaded_log_end_offset": facts.loaded.log_end_offset
        if facts.end_is_known and directory.clean_shutdown is not None
        else None,
        "recovered_log_end_offset": facts.recovered.log_end_offset if facts.end_is_known else None,
        "high_watermark_checkpoint": directory.high_watermark_checkpoint,
        "recovery_point_checkpoint": directory.recovery_point_checkpoint,
        "epochs": [list(entry) for entry in facts.lineage],
        "checkpoint_epochs": None
        if directory.checkpoint_epochs is None
        else [list(entry) for entry in directory.checkpoint_epochs],
        "batch_count": sum(segment.batch_count for segment in facts.segments),
        "record_count": sum(segment.record_count for segment in facts.segments),
        "size_bytes": sum(segment.size_bytes for segment in facts.segments),
        "tail_kind": facts.tail_kind,
        "clean_shutdown": directory.clean_shutdown,
        "compacted": facts.compacted,
        "unexplained_gaps": facts.count_unexplained_gaps(),
        "common_prefix_end": prefix
        if facts is not reference.facts
        else facts.log_end_offset
        if facts.end_is_known
        else None,
        "lost_held": held.records if held else None,
        "lost_committed_held": held.committed if held else None,
        "lost_only_here": only_here.records if only_here else None,
        "lost_committed_only_here": only_here.committed if only_here else None,
    }


def _high_watermark_row(case: Case) -> dict:
    mark, reference = case.high_watermark, case.reference
    return {
        **_names(case),
        "leader_id": reference.leader_id,
        "reference_id": reference.facts.broker_id,
        "leader_epoch": reference.leader_epoch,
        "isr": None if reference.isr is None else list(reference.isr),
        "leadership_source": reference.source,
        "hw_lower": mark.hw_lower,
        "hw_upper": mark.hw_upper,
        "proven_lower": mark.proven_lower,
        "exact": mark.exact,
        "method": mark.method,
        "lower_evidence": mark.lower_evidence,
        "upper_evidence": mark.upper_evidence,
        "limiting_broker_id": mark.limiting_broker_id,
        "leader_log_end_offset": _leader_log_end(reference),
    }


def _leader_log_end(reference: Reference) -> int | None:
    """The log end of the leader, or of the reference where nobody leads; None where the leader's own is not known."""
    elsewhere = reference.leader_id not in (None, reference.facts.broker_id)
    return None if elsewhere or not reference.facts.end_is_known else reference.facts.log_end_offset


def _divergence_rows(case: Case, comparison: Comparison, loss: Loss) -> list[dict]:
    rows = []
    for run in comparison.runs:
        lost = None if loss.total is None else count_run(comparison, run)
        rows.append(
            {
                **_names(case),
                "broker_id": comparison.follower.broker_id,
                "reference_id": case.reference.facts.broker_id,
                "start_offset": run.start_offset,
                "end_offset": run.end_offset,
                "code": code_of_run(run).code,
                "leader_epoch": run.leader_epoch,
                "replica_epoch": run.replica_epoch,
                "record_count": run.tally.record_count,
                "committed": run.committed_end is not None,
                "committed_records": run.committed_records,
                "committed_evidence": run.proof.text if run.proof is not None else None,
                "promised_records": run.cause.promised_records if run.cause is not None else None,
                "lost_records": lost.records if lost else None,
                "lost_committed": lost.committed if lost else None,
                "first_timestamp_ms": run.tally.first_timestamp_ms,
                "last_timestamp_ms": run.tally.last_timestamp_ms,
            }
        )
    return rows


def _committed_dropped(case: Case, item: Comparison, protocol: str, shorter: Collection[int]) -> int:
    """Dropped records that are proven committed. What brokers in `shorter` have past the reference's end, it had and lost."""
    dropped, kept_to = item.committed_drops[protocol], item.replays[protocol].kept_to
    if item.follower.broker_id not in shorter:
        return dropped
    # A batch that the cut goes through is dropped whole.
    tail = item.ahead.where(item.ahead.data & (item.ahead.ends > kept_to))
    until = committed_ahead(case.reference.facts, item.follower)
    return dropped + tail.records_between(item.follower.log_start_offset, until)


def _truncation_rows(case: Case, comparison: Comparison, shorter: Collection[int]) -> list[dict]:
    rows = []
    for protocol, outcome in comparison.replays.items():
        tally = comparison.drops[protocol]
        rows.append(
            {
                **_names(case),
                "broker_id": comparison.follower.broker_id,
                "leader_id": case.reference.facts.broker_id,
                "protocol": protocol,
                "truncate_to": outcome.truncate_to,
                "rounds": outcome.rounds,
                "reason": outcome.reason,
                "steps": [step._asdict() for step in outcome.steps],
                "dropped_records": tally.record_count,
                "dropped_bytes": tally.size_bytes,
                "common_prefix_end": comparison.common_prefix_end,
                "committed_dropped": _committed_dropped(case, comparison, protocol, shorter),
                "first_timestamp_ms": tally.first_timestamp_ms,
                "last_timestamp_ms": tally.last_timestamp_ms,
            }
        )
    return rows


_LOG = logging.getLogger(__name__)
_GREATEST_TEXT = 300


def failure_rows(
    partition: TopicPartition, error: Exception, cluster_id: str | None, evidence: PartitionEvidence | None = None
) -> dict[str, list[dict]]:
    """Rows of the report tables for `partition`, of which nothing but `error` is known (CAP-NOT-AUDITED).

    The traceback goes to the log of the process that audited the partition, and into no row. `evidence`: as far as it came.
    """
    _LOG.error("%s could not be audited", partition, exc_info=error)
    kind, text, path = type(error).__name__, str(error), getattr(error, "path", None)
    if isinstance(error, OSError) and error.strerror:
        # Its own words name an absolute path.
        text = f"{error.strerror} ({PurePath(str(error.filename)).name})" if error.filename else error.strerror
    text = " ".join(text.split())[:_GREATEST_TEXT]
    place = Evidence(
        "file",
        text=f"{kind} in {_place(error)}" + (f": {text}" if text else ""),
        path=path if isinstance(path, str) else None,
        position=getattr(error, "position", None),
        value=kind,
    )
    found = not_audited(text or kind, place)
    known = evidence or PartitionEvidence(partition, (), cluster_id=cluster_id)
    return report_rows(PartitionAudit(known, None, (found,), "INCONCLUSIVE"))


def _place(error: Exception) -> str:
    """File and line that raised `error`, for a bug report."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if "replica_audit" in PurePath(frame.filename).parts] or frames
    return f"{PurePath(own[-1].filename).name}, line {own[-1].lineno}" if own else "an unknown place"
