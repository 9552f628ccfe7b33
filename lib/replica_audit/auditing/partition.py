"""One partition from evidence to answers. Spark and `show` call the same two functions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from replica_audit.auditing.audits.gone import EarlierLosses
from replica_audit.auditing.comparing.aligned_pair import AlignedPair, Records, align_pair, batches_in
from replica_audit.auditing.comparing.comparison import Comparison, compare, with_high_watermark
from replica_audit.auditing.comparing.contents import RecordSource
from replica_audit.auditing.comparing.epoch_rot import confirm_rot, restore_epochs
from replica_audit.auditing.findings.case import Case
from replica_audit.auditing.findings.catalogue import worst_verdict
from replica_audit.auditing.findings.families import judge
from replica_audit.auditing.findings.families.cap_files import judge_copy, no_replica
from replica_audit.auditing.findings.families.hwm_timeline import judge_timeline
from replica_audit.auditing.findings.finding import Finding, merge_findings
from replica_audit.auditing.leadership.alone_in_isr import sole_terms
from replica_audit.auditing.leadership.bounds import bound_high_watermark
from replica_audit.auditing.leadership.capture_times import CaptureTimes, are_of_one_moment, lacks_tail
from replica_audit.auditing.leadership.commitment import with_proofs
from replica_audit.auditing.leadership.deviations import TimelineSummary
from replica_audit.auditing.leadership.election_causes import with_causes
from replica_audit.auditing.leadership.exactness import narrow_high_watermark
from replica_audit.auditing.leadership.logged_events import of_present_topic, tighten_by_logs
from replica_audit.auditing.plan import epoch_doubts, group_evidence, pair_needs
from replica_audit.auditing.replicas.copies_of_partition import Grouping
from replica_audit.auditing.replicas.facts import CopyKey
from replica_audit.auditing.replicas.other_lives import other_life
from replica_audit.auditing.replicas.reference import Reference
from replica_audit.formats.leadership.broker_log_event import BrokerLogEvent
from replica_audit.formats.segments.batches import BATCH_DTYPE
from replica_audit.model import Leadership, ReplicaDir, SegmentSummary, TopicPartition, TransactionState


@dataclass(frozen=True, slots=True)
class PartitionEvidence:
    """Everything ingested of one partition. `replicas` are pairs of a directory and the summaries of its segments."""

    topic_partition: TopicPartition
    replicas: tuple[tuple[ReplicaDir, tuple[SegmentSummary, ...]], ...]
    leadership: Leadership | None = None
    cluster_id: str | None = None
    quiesced: bool | None = None
    """From manifest.json; None: it does not say."""
    protocol: str = "fetch"
    kafka_version: tuple[int, ...] | None = None
    orphans: Mapping[tuple[int, str, str], int] = field(default_factory=dict)
    times: CaptureTimes = CaptureTimes()
    log_events: tuple[BrokerLogEvent, ...] = ()
    """From brokers' own logs, in order of time."""
    timeline: TimelineSummary | None = None
    """What observations of the partition come to; None without any."""
    losses: EarlierLosses = EarlierLosses()
    """What earlier audits of the cluster saw that may be gone by now."""

    @property
    def is_tiered(self) -> bool:
        """Whether the topic's older segments may be in remote storage only."""
        return self.leadership is not None and self.leadership.is_tiered


@dataclass(frozen=True, slots=True)
class PartitionAudit:
    """The outcome; `case` is None when no replica was at hand."""

    evidence: PartitionEvidence
    case: Case | None
    findings: tuple[Finding, ...]
    verdict: str

    @property
    def unread_replicas(self) -> tuple[int, ...]:
        """Brokers that have, or were assigned, a replica whose log is not known: no files of it, or not all readable."""
        if self.case is not None:
            return self.case.unread_replicas
        leadership = self.evidence.leadership
        found = {directory.broker_id for directory, _ in self.evidence.replicas}
        return tuple(sorted(found | (leadership.named if leadership else frozenset())))


def audit_partition(
    evidence: PartitionEvidence,
    batches: Mapping[CopyKey, np.ndarray] | None = None,
    read: RecordSource | None = None,
    transactions: Mapping[int, TransactionState] | None = None,
    aligned: Mapping[CopyKey, AlignedPair] | None = None,
) -> PartitionAudit:
    """Audit one partition, given the batches (`BATCH_DTYPE`) of every chunk that `needed_batches` names.

    `aligned`: the followers beside the reference, by copy, where that was done piece by piece (`auditing.pieces`); then no
    batches are wanted.

    `read` is asked for the records of batches that differ though their offsets agree, and of compacted replicas; without
    it they are compared by their headers. `transactions` are the coordinator's latest states of `open_producers`.
    """
    grouping = group_evidence(evidence)
    reference = grouping.reference
    if reference is None:
        return _without_replicas(evidence, grouping)
    rows = defaultdict(lambda: np.empty(0, BATCH_DTYPE), batches or {})
    if rot := confirm_rot(epoch_doubts(evidence, grouping), rows):
        rows.update({key: restore_epochs(rows[key], parts) for key, parts in rot.items()})
        grouping = group_evidence(evidence, rot)
        reference = grouping.reference
    compared = list(_compare(evidence, grouping, reference, rows, read, aligned))
    events = of_present_topic(evidence.log_events, reference.facts.directory.topic_id)
    compared, strangers = _apart(reference, compared, evidence.leadership, events)
    replicas = (reference.facts, *(item.follower for item in compared))
    terms = sole_terms(replicas, evidence.leadership, evidence.kafka_version)
    compared = with_causes(with_proofs(compared, terms), reference, evidence.leadership)
    one_moment = are_of_one_moment(evidence.quiesced, replicas, evidence.leadership)
    shorter = any(lacks_tail(reference, item, evidence.leadership, evidence.times, one_moment) for item in compared)
    mark = bound_high_watermark(
        reference,
        compared,
        leadership=evidence.leadership,
        cleaner_bound=_cleaner_bound(evidence),
        one_moment=one_moment,
        shorter=shorter,
    )
    mark = narrow_high_watermark(mark, reference, compared, evidence.leadership, evidence.kafka_version)
    mark = tighten_by_logs(mark, reference, evidence.leadership, events, evidence.kafka_version)
    case = Case(
        topic_partition=evidence.topic_partition,
        leadership=evidence.leadership,
        reference=reference,
        comparisons=tuple(with_high_watermark(item, mark.proven_lower) for item in compared),
        high_watermark=mark,
        protocol=evidence.protocol,
        kafka_version=evidence.kafka_version,
        quiesced=_quiesced(evidence),
        one_moment=one_moment,
        foreign=grouping.foreign,
        strangers=tuple(strangers),
        duplicates=grouping.duplicates,
        set_aside=grouping.set_aside,
        orphans=evidence.orphans,
        log_events=events,
        times=evidence.times,
        transactions=transactions or {},
        timeline=evidence.timeline,
        losses=evidence.losses,
        cluster_id=evidence.cluster_id,
    )
    findings = merge_findings(judge(case))
    return PartitionAudit(evidence, case, findings, _verdict(findings))


def _verdict(findings: Iterable[Finding]) -> str:
    return worst_verdict(item.verdict for item in findings if item.verdict is not None)


def _compare(
    evidence: PartitionEvidence,
    grouping: Grouping,
    reference: Reference,
    rows: Mapping[CopyKey, np.ndarray],
    read: RecordSource | None,
    aligned: Mapping[CopyKey, AlignedPair] | None,
) -> Iterator[Comparison]:
    """Each follower with the reference.

    Another follower may have asked for more of the reference than this pair needs: what was not asked for here is known
    to be equal, and must not look like a hole.
    """
    for follower, chunks in pair_needs(evidence, grouping):
        if aligned is None:
            own, theirs = rows[follower.key], rows[reference.facts.key]
            records = None if read is None else Records(read, own, theirs)
            ours = (batches_in(theirs, chunks), batches_in(own, chunks))
            pair = align_pair(reference, follower, *ours, chunks, evidence.is_tiered, records)
        else:
            pair = aligned.get(follower.key, AlignedPair())
        yield compare(reference, follower, evidence.protocol, pair, evidence.is_tiered)


def _apart(
    reference: Reference,
    compared: Sequence[Comparison],
    leadership: Leadership | None,
    events: Sequence[BrokerLogEvent],
) -> tuple[list[Comparison], list[tuple[Comparison, str]]]:
    """The comparisons that are judged, some with a doubt, and those of logs that may be of another topic, with the reason."""
    kept, strangers = [], []
    for item in compared:
        found = other_life(reference, item, leadership, events)
        if found is None or found.judged:
            kept.append(item if found is None else replace(item, doubt=found.reason))
        else:
            uncommitted = (replace(run, committed_end=None, committed_records=0, proof=None) for run in item.runs)
            strangers.append(
                (replace(item, runs=tuple(uncommitted), committed_drops=dict.fromkeys(item.drops, 0)), found.reason)
            )
    return kept, strangers


def _cleaner_bound(evidence: PartitionEvidence) -> bool:
    """The cleaner stays below the high watermark since 3.1 (KAFKA-13194); partition.metadata exists since 2.8."""
    if evidence.kafka_version is not None:
        return evidence.kafka_version[:2] >= (3, 1)
    return all(directory.topic_id is not None for directory, _ in evidence.replicas)


def _quiesced(evidence: PartitionEvidence) -> bool:
    if evidence.quiesced is not None:
        return evidence.quiesced
    return all(directory.clean_shutdown for directory, _ in evidence.replicas)


def _without_replicas(evidence: PartitionEvidence, grouping: Grouping) -> PartitionAudit:
    if grouping.set_aside:
        found = [item for facts in grouping.set_aside for item in judge_copy(facts)]
    else:
        observed = evidence.timeline is not None
        found = [no_replica(evidence.leadership, named_by_checkpoint=bool(evidence.orphans), observed=observed)]
    findings = merge_findings((*found, *judge_timeline(evidence.timeline)))
    only_observed = not grouping.set_aside and evidence.leadership is None and not evidence.orphans and observed
    return PartitionAudit(evidence, None, findings, _verdict(findings) if only_observed else "INCONCLUSIVE")
