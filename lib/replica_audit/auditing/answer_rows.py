"""Rows of the report tables from one partition's audit, including one that ended in an error."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from pathlib import PurePath
from typing import TYPE_CHECKING

from replica_audit.auditing.case import Case
from replica_audit.auditing.compare.comparison import Comparison
from replica_audit.auditing.compare.distinct_records import Count
from replica_audit.auditing.compare.divergence_cause import promised_in_all
from replica_audit.auditing.compare.loss import Loss, committed_ahead, count_loss, count_run
from replica_audit.auditing.compare.remote_storage import place_segment
from replica_audit.auditing.conclude import PartitionAudit
from replica_audit.auditing.consumer_groups import group_rows
from replica_audit.auditing.evidence import AuditOptions, PartitionEvidence
from replica_audit.auditing.finding import finding_row, wanted_ranges
from replica_audit.auditing.findings.cap import not_audited
from replica_audit.auditing.findings.div import code_of_run
from replica_audit.auditing.findings.rep import brokers_past_leader
from replica_audit.auditing.leadership.needed_replicas import (
    LOG_IN_USE,
    LOG_OF_FORMER_DISK,
    LOG_OF_LAST_TERM,
)
from replica_audit.auditing.lost_producers import lost_producer_rows
from replica_audit.auditing.replicas.offset_ranges import traces_of_segment
from replica_audit.auditing.replicas.reference import Reference
from replica_audit.auditing.replicas.replica_facts import ReplicaFacts
from replica_audit.literals import (
    OF_OTHER_TOPIC,
    PROTOCOLS,
    PUT_ASIDE,
    SEVERITIES,
    CaptureState,
    NamedBy,
    RemoteBasis,
    RemoteLineage,
    Role,
)
from replica_audit.model import OffsetRange, RemoteSegment, TopicPartition, without
from replica_audit.schema import (
    CaptureRow,
    DivergenceRow,
    Evidence,
    HighWatermarkRow,
    LostHolder,
    PartitionRow,
    RemoteSegmentRow,
    ReplicaRow,
    ReportRows,
    SeverityCounts,
    TruncationRow,
    VoterCopy,
)
from replica_audit.snapshot.log_dir_names import (
    CLEANER_OFFSETS,
    EPOCH_CHECKPOINT,
    HIGH_WATERMARKS,
    LOG_STARTS,
    METADATA_PARTITION,
    RECOVERY_POINTS,
)
from replica_audit.snapshot.provenance import ABOVE_HIGH_WATERMARK, NOT_CAPTURED
from replica_audit.snapshot.remote_log_metadata import COPY_FINISHED, STATES
from replica_audit.text import count

if TYPE_CHECKING:
    from replica_audit.model import CheckpointFile, ReplicaDir


#: Values of `missing` for a replica without a directory in the snapshot, and for a directory without segments.
_DIRECTORY = "directory"
_SEGMENTS = "*.log"
_TAIL = "records above the high watermark"


def capture_rows(audit: PartitionAudit) -> Iterator[CaptureRow]:
    """Yield a row for each copy, and for each broker named by a source without a copy; copies of another topic id have none."""
    evidence = audit.evidence
    needed = audit.needed_replicas
    topic = evidence.topic_partition.topic
    partition = evidence.topic_partition.partition
    copies = _captured_copies(audit)
    copied = {directory.broker_id for directory, _, _ in copies}
    rows: list[tuple[int, str | None, CaptureState, list[str]]] = [
        (directory.broker_id, directory.log_dir, state, missing) for directory, state, missing in copies
    ]
    foreign = audit.foreign if audit.case is None else audit.case.foreign
    of_other_topic = {facts.broker_id for facts in foreign}
    for broker_id in sorted({*evidence.named, *needed, *evidence.orphaned} - copied):
        is_here = broker_id in evidence.options.brokers
        missing = OF_OTHER_TOPIC if broker_id in of_other_topic else _DIRECTORY
        rows.append((broker_id, None, "absent" if is_here else "named", [missing]))
    for broker_id, log_dir, state, lacked in rows:
        named_by = _named_by(broker_id, evidence)
        yield CaptureRow(topic, partition, broker_id, log_dir, state, named_by, lacked, needed.get(broker_id))


def voter_rows(voters: Iterable[VoterCopy]) -> Iterator[CaptureRow]:
    """Yield a row for each copy of the metadata log that a voter has or should have, from `snapshots.voters`.

    No answer on a partition needs any one of them: committed metadata is on a majority, and on brokers (META-FORK, META-STALE).
    """
    topic = METADATA_PARTITION.topic
    partition = METADATA_PARTITION.partition
    for one in voters:
        yield CaptureRow(topic, partition, one.node_id, one.log_dir, one.state, ["voters"], one.missing, None)


def _captured_copies(audit: PartitionAudit) -> list[tuple[ReplicaDir, CaptureState, list[str]]]:
    """Each copy with its state and missing files."""
    case = audit.case
    if case is None:
        found = ((directory, [_SEGMENTS, *_side_files(directory, True)]) for directory in audit.unread_copies)
        return [(directory, "partial", missing) for directory, missing in found]
    copies = []
    wanted = wanted_ranges(item for one in audit.findings for item in one.evidence)
    for facts in (*case.replicas, *case.set_aside, *case.duplicates):
        missing = [*_segments(case, facts), *_side_files(facts.directory, facts.has_epochs)]
        state: CaptureState = "partial" if missing else "whole"
        if NOT_CAPTURED in facts.unproven:
            paths = {segment.path for segment in facts.segments}
            size = sum(end - start for path, start, end in wanted if path in paths)
            missing = [count(size, "wanted byte"), *missing]
            state = "awaited"
        copies.append((facts.directory, state, missing))
    return copies


def _segments(case: Case, facts: ReplicaFacts) -> Iterator[str]:
    """Names of missing or unreadable segments; "*.log" for a log known from a text or table only."""
    if facts.unread_bases:
        yield from map(_log_name, facts.unread_bases)
    elif (facts.second_hand or not facts.end_is_known) and NOT_CAPTURED not in facts.unproven:
        if ABOVE_HIGH_WATERMARK in facts.unproven:
            yield _TAIL
        yield _SEGMENTS
    if facts.broker_id in case.needed_replicas and case.is_another_log(facts):
        yield LOG_OF_LAST_TERM
    elif facts.is_left and any(facts is one for one in case.replicas):
        yield LOG_IN_USE
    elif case.needed_replicas.get(facts.broker_id) == "former_disk":
        yield LOG_OF_FORMER_DISK
    for stretch in case.missing_of(facts):
        if traces_of_segment(facts, case.replicas, stretch):
            yield _log_name(stretch.start_offset)


def _log_name(base_offset: int) -> str:
    return f"{base_offset:020d}.log"


def _side_files(directory: ReplicaDir, has_epochs: bool) -> Iterator[str]:
    """Names of files that every replica has, and that are missing or unreadable here."""
    files: Iterable[tuple[str, CheckpointFile, bool]] = (
        (EPOCH_CHECKPOINT, directory.epoch_file, has_epochs),
        (HIGH_WATERMARKS, directory.high_watermark_file, True),
        (RECOVERY_POINTS, directory.recovery_point_file, False),
        (LOG_STARTS, directory.log_start_file, False),
        (CLEANER_OFFSETS, directory.cleaner_file, False),
    )
    for name, file, is_always_there in files:
        if file.is_unknown or (is_always_there and file.state == "missing"):
            yield name


def _named_by(broker_id: int, evidence: PartitionEvidence) -> list[NamedBy]:
    """Sources that name the broker's replica, the present state first."""
    leadership = evidence.leadership
    found: list[NamedBy] = []
    if leadership is not None:
        if broker_id in (leadership.replicas or ()):
            found.append("assignment")
        if broker_id in (leadership.isr or ()) or broker_id == leadership.leader_id:
            found.append("isr")
        if broker_id in leadership.elr:
            found.append("elr")
        if any(broker_id in (state.leader_id, *state.replicas, *state.isr) for state in leadership.history):
            found.append("metadata_log")
    if broker_id in evidence.orphaned:
        found.append("checkpoint")
    return found


def report_rows(audit: PartitionAudit) -> ReportRows:
    """Rows of one partition, except those of quarantine (from ingest) and elections (from `elect`)."""
    case = audit.case
    evidence = audit.evidence
    topic_id = _topic_id(audit)
    shorter = brokers_past_leader(audit.findings)
    loss = _loss(audit, shorter)
    rows = ReportRows(
        partitions=[_partition_row(audit, topic_id, loss, shorter)],
        captures=list(capture_rows(audit)),
        remote_segments=list(_remote_segment_rows(audit)),
        findings=[
            finding_row(item, evidence.topic_partition, topic_id, evidence.options.cluster_id)
            for item in audit.findings
        ],
    )
    if case is None:
        return rows
    beside = [item.follower for item in case.beside if item.follower not in case.duplicates]
    copies = (*case.replicas, *case.set_aside, *case.foreign, *case.duplicates, *beside)
    strangers = [item for item, _ in case.strangers]
    return replace(
        rows,
        replicas=[_replica_row(case, facts, loss) for facts in copies],
        high_watermarks=[_high_watermark_row(case)],
        divergences=[
            *(
                row
                for item in case.comparisons
                for row in _divergence_rows(case, item, is_counted=loss.total is not None)
            ),
            *(row for item in strangers for row in _divergence_rows(case, item, is_counted=False)),
        ],
        truncations=[row for item in (*case.comparisons, *strangers) for row in _truncation_rows(case, item, shorter)],
        group_offsets=list(group_rows(case.groups)),
        lost_producers=list(lost_producer_rows(case)),
    )


def _topic_id(audit: PartitionAudit) -> str | None:
    if audit.case is not None:
        return audit.case.reference.facts.directory.topic_id
    return audit.evidence.leadership.topic_id if audit.evidence.leadership else None


def _loss(audit: PartitionAudit, past_leader: Collection[int]) -> Loss:
    case = audit.case
    if case is None:
        return Loss(None)
    shorter = {item.follower.key for item in case.comparisons if item.follower.broker_id in past_leader}
    lost_tails = [item for item in case.beside if case.is_lost_tail(item)]
    shorter |= {item.follower.key for item in lost_tails}
    # A copy of an earlier moment that shows that the leader lost its tail has records up to this offset.
    shown = max((item.follower.log_end_offset for item in lost_tails if item.follower.is_earlier), default=0)
    if shown:
        shorter |= {item.follower.key for item in case.comparisons if 0 < item.ahead.ends.max(initial=0) <= shown}
    remote = [one.piece for stretches in case.lost_remotely for one in stretches]
    counted = count_loss((*case.comparisons, *case.beside), shorter, remote)
    loss = _with_unseen(counted, case)
    uncompared = case.strangers or case.set_aside or audit.needed_replicas or case.is_alone
    return Loss(None) if uncompared and loss.total is not None and not loss.total.records else loss


def _with_unseen(loss: Loss, case: Case) -> Loss:
    """`loss` plus one record for each offset that only checkpoint files prove committed."""
    runs = [run for item in case.comparisons for run in item.runs if run.conflicting]
    known = [run.offsets for run in runs]
    unseen = 0
    for mark in case.orphaned_marks:
        marked = OffsetRange(mark.start_offset, mark.end_offset)
        unseen += sum(part.size for part in without([marked], known))
        known.append(marked)
    if loss.total is None or not unseen:
        return loss
    has_markers = any(segment.ended_producers for segment in case.reference.facts.segments)
    total = Count(loss.total.records + unseen, loss.total.committed + unseen)
    return replace(loss, total=total, at_most=loss.at_most or has_markers)


def _partition_row(audit: PartitionAudit, topic_id: str | None, loss: Loss, shorter: Collection[int]) -> PartitionRow:
    leadership = audit.evidence.leadership
    partition = audit.evidence.topic_partition
    total = loss.total
    row = PartitionRow(
        topic=partition.topic,
        partition=partition.partition,
        topic_id=topic_id,
        verdict=audit.verdict,
        leader_id=leadership.leader_id if leadership else None,
        reference_id=None,
        leader_epoch=leadership.leader_epoch if leadership else None,
        isr=leadership.isr if leadership else None,
        under_replicated=None,
        unread_replicas=audit.unread_replicas,
        hw_lower=None,
        hw_upper=None,
        max_lag_records=None,
        max_lag_bytes=None,
        dropped_records=0,
        committed_dropped=0,
        promised_dropped=None,
        lost_records=total.records if total else None,
        lost_committed=total.committed if total else None,
        lost_at_most=loss.at_most if total else None,
        lost_at_least=bool(audit.needed_replicas) if total else None,
        holders=_holders(loss),
        findings=SeverityCounts(*(sum(item.severity == one for item in audit.findings) for one in SEVERITIES)),
    )
    return row if audit.case is None else _with_case(row, audit.case, shorter)


def _with_case(row: PartitionRow, case: Case, shorter: Collection[int]) -> PartitionRow:
    """Complete a partition's row with the results of the comparison."""
    reference = case.reference
    assigned = case.leadership.replicas if case.leadership else None
    lagging = [item for item in case.comparisons if assigned is None or item.follower.broker_id in assigned]
    behind = [max(0, reference.facts.log_end_offset - item.follower.log_end_offset) for item in lagging]
    under_replicated = None
    if reference.isr is not None and assigned is not None and not case.stopped:
        under_replicated = len(reference.isr) < len(assigned)
    everything = (*case.comparisons, *(item for item, _ in case.strangers))
    return row._replace(
        leader_id=reference.leader_id,
        reference_id=reference.facts.broker_id,
        leader_epoch=reference.leader_epoch,
        isr=reference.isr,
        under_replicated=under_replicated,
        hw_lower=case.high_watermark.hw_lower,
        hw_upper=case.high_watermark.hw_upper,
        max_lag_records=max(behind, default=0),
        max_lag_bytes=max((item.lag.size_bytes for item in lagging), default=0),
        dropped_records=sum(item.drops[item.protocol].record_count for item in everything),
        committed_dropped=sum(_committed_dropped(item, item.protocol, shorter) for item in case.comparisons),
        promised_dropped=_promised_dropped(case),
    )


def _holders(loss: Loss) -> list[LostHolder]:
    return [
        LostHolder(broker_id, held.records, held.committed, only_here.records, only_here.committed)
        for broker_id, (held, only_here) in loss.holders.items()
        if held.records
    ]


def _promised_dropped(case: Case) -> int | None:
    """Upper bound of the dropped records that were acknowledged with acks=all; None if unknown."""
    return promised_in_all(
        run.cause
        for item in case.comparisons
        for run in item.runs
        if run.conflicting and run.start_offset >= item.drops_from(item.protocol)
    )


def _role(case: Case, facts: ReplicaFacts) -> Role:
    if facts is case.reference.facts:
        return "leader" if facts.broker_id == case.reference.leader_id else "reference"
    others: tuple[tuple[Role, tuple[ReplicaFacts, ...]], ...] = (
        ("foreign", case.foreign),
        ("earlier", tuple(one for one in case.duplicates if one.is_earlier)),
        ("duplicate", case.duplicates),
        ("set_aside", case.set_aside),
        ("set_aside", tuple(item.follower for item, _ in case.strangers)),
    )
    for role, copies in others:
        if any(facts is one for one in copies):
            return role
    return next((kind for kind in PUT_ASIDE if kind == facts.kind), "compared")


def _replica_row(case: Case, facts: ReplicaFacts, loss: Loss) -> ReplicaRow:
    directory = facts.directory
    reference = case.reference
    comparison = case.comparison_of(facts)
    held = only_here = None
    if loss.total is not None and (comparison is not None or facts is reference.facts):
        held, only_here = loss.copies.get(facts.key, (Count(), Count()))
    end = facts.log_end_offset if facts.end_is_known else None
    prefix = comparison.common_prefix_end if comparison else None
    return ReplicaRow(
        topic=case.topic_partition.topic,
        partition=case.topic_partition.partition,
        broker_id=facts.broker_id,
        log_dir=directory.log_dir,
        topic_id=directory.topic_id,
        role=_role(case, facts),
        is_leader=facts is reference.facts and facts.broker_id == reference.leader_id,
        in_isr=case.in_isr(facts.broker_id),
        log_start_offset=facts.log_start_offset,
        local_start_offset=facts.local_start_offset,
        log_end_offset=end,
        loaded_log_end_offset=facts.loaded.log_end_offset
        if facts.end_is_known and facts.loaded.is_checked and directory.clean_shutdown is not None
        else None,
        recovered_log_end_offset=facts.recovered.log_end_offset
        if facts.end_is_known and facts.recovered.is_checked
        else None,
        high_watermark_checkpoint=directory.high_watermark_checkpoint,
        recovery_point_checkpoint=directory.recovery_point_checkpoint,
        epochs=tuple(facts.lineage),
        checkpoint_epochs=directory.checkpoint_epochs,
        batch_count=sum(segment.batch_count for segment in facts.segments),
        unchecked_batches=facts.unchecked_batches,
        record_count=sum(segment.record_count for segment in facts.segments),
        size_bytes=sum(segment.size_bytes for segment in facts.segments),
        tail_kind=facts.tail_kind,
        clean_shutdown=directory.clean_shutdown,
        compacted=facts.compacted,
        unexplained_gaps=facts.count_unexplained_gaps(),
        common_prefix_end=end if facts is reference.facts else prefix,
        lost_held=held.records if held else None,
        lost_committed_held=held.committed if held else None,
        lost_only_here=only_here.records if only_here else None,
        lost_committed_only_here=only_here.committed if only_here else None,
    )


def _high_watermark_row(case: Case) -> HighWatermarkRow:
    mark = case.high_watermark
    reference = case.reference
    return HighWatermarkRow(
        topic=case.topic_partition.topic,
        partition=case.topic_partition.partition,
        leader_id=reference.leader_id,
        reference_id=reference.facts.broker_id,
        leader_epoch=reference.leader_epoch,
        isr=reference.isr,
        leadership_source=reference.source,
        hw_lower=mark.hw_lower,
        hw_upper=mark.hw_upper,
        proven_lower=mark.proven_lower,
        exact=mark.exact,
        method=mark.method,
        lower_evidence=mark.lower_evidence,
        upper_evidence=mark.upper_evidence,
        limiting_broker_id=mark.limiting_broker_id,
        leader_log_end_offset=_leader_log_end(reference),
    )


def _leader_log_end(reference: Reference) -> int | None:
    """Log end of the leader, or of the reference if there is no leader; None if the leader's is unknown."""
    elsewhere = reference.leader_id not in (None, reference.facts.broker_id)
    return None if elsewhere or not reference.facts.end_is_known else reference.facts.log_end_offset


def _divergence_rows(case: Case, comparison: Comparison, *, is_counted: bool) -> Iterator[DivergenceRow]:
    """A row for each run; with `is_counted` (the partition's loss is known) including its share of the loss."""
    for run in comparison.runs:
        lost = count_run(comparison, run) if is_counted else None
        yield DivergenceRow(
            topic=case.topic_partition.topic,
            partition=case.topic_partition.partition,
            broker_id=comparison.follower.broker_id,
            reference_id=case.reference.facts.broker_id,
            start_offset=run.start_offset,
            end_offset=run.end_offset,
            code=code_of_run(run).code,
            leader_epoch=run.leader_epoch,
            replica_epoch=run.replica_epoch,
            record_count=run.tally.record_count,
            committed=run.committed_end is not None,
            committed_records=run.committed_records,
            committed_evidence=run.proof.text if run.proof is not None else None,
            promised_records=run.cause.promised_records if run.cause is not None else None,
            lost_records=lost.records if lost else None,
            lost_committed=lost.committed if lost else None,
            first_timestamp_ms=run.tally.first_timestamp_ms,
            last_timestamp_ms=run.tally.last_timestamp_ms,
        )


def _committed_dropped(item: Comparison, protocol: str, shorter: Collection[int]) -> int:
    """Number of dropped records that are proven committed, including the records of brokers in `shorter` past the reference's
    end: the reference had and lost these."""
    dropped = item.committed_drops[protocol]
    kept_to = item.replays[protocol].kept_to
    if item.follower.broker_id not in shorter:
        return dropped
    # A batch that spans the cut is dropped completely.
    tail = item.ahead.where(item.ahead.data & (item.ahead.ends > kept_to))
    until = committed_ahead(item.reference, item.follower)
    return dropped + tail.records_between(item.follower.log_start_offset, until)


def _truncation_rows(case: Case, comparison: Comparison, shorter: Collection[int]) -> Iterator[TruncationRow]:
    for protocol in PROTOCOLS:
        outcome = comparison.replays[protocol]
        tally = comparison.drops[protocol]
        yield TruncationRow(
            topic=case.topic_partition.topic,
            partition=case.topic_partition.partition,
            broker_id=comparison.follower.broker_id,
            leader_id=case.reference.facts.broker_id,
            protocol=protocol,
            truncate_to=outcome.truncate_to,
            rounds=outcome.rounds,
            reason=outcome.reason,
            steps=outcome.steps,
            dropped_records=tally.record_count,
            dropped_bytes=tally.size_bytes,
            common_prefix_end=comparison.common_prefix_end,
            committed_dropped=_committed_dropped(comparison, protocol, shorter),
            first_timestamp_ms=tally.first_timestamp_ms,
            last_timestamp_ms=tally.last_timestamp_ms,
        )


_LOG = logging.getLogger(__name__)
_GREATEST_TEXT = 300


def _remote_segment_rows(audit: PartitionAudit) -> Iterator[RemoteSegmentRow]:
    """Yield a row for each segment in `__remote_log_metadata` of a topic with that name, of any id."""
    case = audit.case
    known = {one.segment_id for one in case.remote.segments} if case is not None else set()
    for segment in audit.evidence.side.remote_segments:
        place: tuple[RemoteLineage, int | None] = ("unknown", None)
        if case is not None:
            place = ("other_topic", None)
            if segment.segment_id in known:
                place = place_segment(case.reference.facts, case.remote.lineage, segment, case.remote.start_offset)
        yield RemoteSegmentRow(
            topic=segment.topic,
            partition=segment.partition,
            topic_id=segment.topic_id,
            segment_id=segment.segment_id,
            start_offset=segment.start_offset,
            end_offset=segment.end_offset,
            epochs=segment.epochs,
            state=STATES[segment.state],
            lineage=place[0],
            parted_at=place[1],
            size_bytes=segment.size_bytes,
            copied_by=segment.broker_id,
            started_ms=segment.started_ms,
            copied_ms=segment.copied_ms,
            deleting_ms=segment.deleting_ms,
            updated_by=segment.updated_by,
            updated_ms=segment.updated_ms,
            max_timestamp_ms=None if segment.max_timestamp_ms < 0 else segment.max_timestamp_ms,
            told_in=segment.told_in,
            told_whole=segment.is_whole,
            stored=None if case is None else case.store.forms.get(segment.segment_id),
            basis=None if case is None else _remote_basis(case, segment),
        )


def _remote_basis(case: Case, segment: RemoteSegment) -> RemoteBasis | None:
    is_there = segment.state == COPY_FINISHED and segment.segment_id not in case.store.gone
    return case.store.basis_of(segment.segment_id) if is_there else None


def failure_rows(
    partition: TopicPartition, error: Exception, cluster_id: str | None, evidence: PartitionEvidence | None = None
) -> ReportRows:
    """Rows of the report tables for a partition whose audit raised `error` (CAP-NOT-AUDITED).

    The traceback goes to the log of the auditing process, and into no row. `evidence` is what had been gathered, if any.
    """
    _LOG.error("%s could not be audited", partition, exc_info=error)
    kind = type(error).__name__
    text = str(error)
    path = getattr(error, "path", None)
    if isinstance(error, OSError) and error.strerror:
        # The error's own text contains an absolute path.
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
    known = evidence or PartitionEvidence(partition, (), options=AuditOptions(cluster_id=cluster_id))
    return report_rows(PartitionAudit(known, None, (found,), "INCONCLUSIVE"))


def _place(error: Exception) -> str:
    """File and line that raised `error`, for a bug report."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if "replica_audit" in PurePath(frame.filename).parts] or frames
    return f"{PurePath(own[-1].filename).name}, line {own[-1].lineno}" if own else "an unknown place"
