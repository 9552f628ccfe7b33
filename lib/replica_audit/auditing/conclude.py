"""Audit of one partition, from the plan and the batches it names; Spark and `show` use the same function."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from replica_audit.auditing.case import Case
from replica_audit.auditing.catalogue import codes_with, worst_verdict
from replica_audit.auditing.compare.aligned_pair import Records
from replica_audit.auditing.compare.comparable import other_life
from replica_audit.auditing.compare.comparison import Comparison, compare, with_high_watermark
from replica_audit.auditing.compare.epoch_corruption import confirm_rot
from replica_audit.auditing.compare.loaded_batches import LoadedBatches
from replica_audit.auditing.compare.record_comparison import RecordSource
from replica_audit.auditing.compare.remote_storage import find_contradictory
from replica_audit.auditing.compare.replays import whole_lineage
from replica_audit.auditing.comparison_plan import ComparisonPlan, ReplicaGrouping
from replica_audit.auditing.consumer_groups import group_positions, lost_ranges
from replica_audit.auditing.evidence import PartitionEvidence
from replica_audit.auditing.finding import Finding, merge_findings
from replica_audit.auditing.findings import judge
from replica_audit.auditing.findings.cap import judge_copy, no_replica
from replica_audit.auditing.findings.cap_skew import perhaps_created_since, unsettled
from replica_audit.auditing.findings.hwm_timeline import judge_timeline
from replica_audit.auditing.findings.meta import instead_of_replicas
from replica_audit.auditing.leadership.broker_log_evidence import of_present_topic, tighten_by_logs
from replica_audit.auditing.leadership.capture_times import CopiedState
from replica_audit.auditing.leadership.commitment import (
    lost_marks,
    sole_terms,
    with_lost_marks,
    with_proofs,
    with_unproven_below_start,
)
from replica_audit.auditing.leadership.election_causes import with_causes
from replica_audit.auditing.leadership.high_watermark_bounds import bound_high_watermark, narrow_high_watermark
from replica_audit.auditing.leadership.leader_tail import LeaderTail
from replica_audit.auditing.leadership.needed_replicas import needed_replicas
from replica_audit.auditing.leadership.uncommitted import (
    bounded_by_frozen_epochs,
    frozen_epochs,
    with_uncommitted_tails,
)
from replica_audit.auditing.remote_facts import look_into_store, remote_facts
from replica_audit.auditing.replicas.reference import Reference
from replica_audit.auditing.replicas.replica_facts import CopyKey, ReplicaFacts
from replica_audit.literals import Need, Verdict
from replica_audit.model import Leadership, RemoteSegment, ReplicaDir, TransactionState
from replica_audit.protocol.election import elections


class PartitionAudit(NamedTuple):
    """Result of a partition's audit; `case` is None if the snapshot has no comparable replica."""

    evidence: PartitionEvidence
    case: Case | None
    findings: tuple[Finding, ...]
    verdict: Verdict
    foreign: tuple[ReplicaFacts, ...] = ()
    """Copies of other topics of that name, where `case` is None."""

    @property
    def unread_replicas(self) -> tuple[int, ...]:
        """Brokers with, or assigned, a replica whose log is unknown because files are missing or unreadable."""
        if self.case is not None:
            return self.case.unread_replicas
        found = {directory.broker_id for directory in self.unread_copies}
        return tuple(sorted(found | (self.evidence.named - self._elsewhere)))

    @property
    def needed_replicas(self) -> dict[int, Need]:
        """Brokers whose replica the answer needs but the snapshot lacks, with the reason."""
        if self.case is not None:
            return self.case.needed_replicas
        return needed_replicas(self.evidence.leadership, None, self._elsewhere, self.evidence.orphaned)

    @property
    def unread_copies(self) -> tuple[ReplicaDir, ...]:
        """Copies of the present topic if `case` is None: none can be read."""
        others = {facts.key for facts in self.foreign}
        return tuple(one for one, _ in self.evidence.replicas if (one.broker_id, one.log_dir) not in others)

    @property
    def _elsewhere(self) -> frozenset[int]:
        """Brokers that had another topic of that name when copied, and so no replica of the present one."""
        having = {directory.broker_id for directory in self.unread_copies} | self.evidence.orphaned
        return frozenset(facts.broker_id for facts in self.foreign) - having


def conclude(
    plan: ComparisonPlan,
    batches: Mapping[CopyKey, NDArray[np.void]] | None = None,
    records: RecordSource | None = None,
    transactions: Mapping[int, TransactionState] | None = None,
) -> PartitionAudit:
    """Audit one partition, given the batches (`BATCH_DTYPE`) of every chunk that the plan names.

    `records` gives the records of compacted replicas and of batches that differ at equal offsets; without it they are compared
    by their headers. `transactions` are the coordinator's latest states of the plan's producers.
    """
    loaded = LoadedBatches.of(batches or {})
    if rot := confirm_rot(plan.doubts, loaded):
        plan = ComparisonPlan(plan.evidence, rot)
    evidence = plan.evidence
    options = evidence.options
    grouping = plan.grouping
    reference = grouping.reference
    if reference is None or grouping.candidates is None:
        return _without_replicas(plan)
    leadership = None if evidence.leadership is None else evidence.leadership.believed
    pairs = list(_compare(plan, loaded, records))
    waiting = tuple(item for item in pairs if item.awaits_records)
    of_followers = pairs[: len(grouping.followers)]
    of_copies = pairs[len(grouping.followers) :]
    followers = [item for item in of_followers if not item.awaits_records]
    copies = [
        item
        for item in of_copies
        # What the reference has too is reported once per broker.
        if not item.awaits_records and not (item.follower.is_earlier and not item.runs and not item.alignment.ahead)
    ]
    events = of_present_topic(evidence.side.log_events, reference.facts.directory.topic_id)
    kept, strangers = _apart(reference, followers)
    replicas = (reference.facts, *(item.follower for item in kept))
    terms = sole_terms(replicas, leadership, options.kafka_version)
    frozen = frozen_epochs(replicas, leadership, options.kafka_version)
    everything = (*kept, *copies)
    lost = lost_marks(reference, replicas)
    everything = with_unproven_below_start(with_lost_marks(everything, lost), reference, replicas, lost)
    everything = with_causes(with_proofs(everything, terms), reference, leadership)
    everything = with_uncommitted_tails(everything, reference, leadership, frozen)
    compared = everything[: len(kept)]
    beside = everything[len(kept) :]
    tail = LeaderTail.of(reference, replicas, leadership, options.times, options.quiesced)
    one_moment = tail.one_moment
    shorter = any(tail.is_lost(item) or (not one_moment and tail.may_be_lost(item)) for item in compared)
    store = look_into_store(evidence, reference, loaded.rows_of(reference.facts))
    remote = remote_facts(
        evidence,
        reference,
        compared,
        leadership,
        store,
        one_moment=one_moment,
        state=_state_for_store(reference, grouping, evidence, "down" if one_moment else tail.state),
    )
    mark = bound_high_watermark(
        reference,
        compared,
        leadership=leadership,
        one_moment=one_moment,
        times=options.times,
        shorter=shorter,
        stable=remote.stable,
    )
    mark = bounded_by_frozen_epochs(mark, reference, frozen)
    mark = narrow_high_watermark(mark, reference, compared, leadership, options.kafka_version)
    mark = tighten_by_logs(mark, reference, events)
    lost_to_others = lost_ranges(compared) if evidence.side.group_offsets else ()
    case = Case(
        evidence=evidence,
        leadership=leadership,
        reference=reference,
        comparisons=tuple(with_high_watermark(item, mark.proven_lower) for item in compared),
        high_watermark=mark,
        tail=tail,
        candidates=grouping.candidates.among({facts.key for facts in (*replicas, *(item.follower for item in copies))}),
        foreign=grouping.foreign,
        strangers=tuple(strangers),
        beside=beside,
        duplicates=tuple(
            one for one in grouping.duplicates if not one.is_earlier or any(one is item.follower for item in beside)
        ),
        set_aside=(*grouping.set_aside, *(one.follower.awaiting for one in of_followers if one.awaits_records)),
        waiting=waiting,
        log_events=events,
        is_leaders=_is_leaders_log(reference, grouping, leadership, evidence.side.remote_segments),
        transactions=transactions or {},
        remote=remote,
        store=store,
        groups=tuple(
            group_positions(
                evidence.side.group_offsets,
                reference,
                leadership,
                lost_to_others,
                tiered=evidence.is_tiered,
                one_moment=one_moment or evidence.was_at_rest,
            )
        ),
        lost_from=min((part.start_offset for part in lost_to_others), default=None),
    )
    findings = unsettled(case, merge_findings(judge(case)), codes_with("two_moments"))
    return PartitionAudit(evidence, case, findings, worst_verdict(item.verdict for item in findings))


def _is_leaders_log(
    reference: Reference,
    grouping: ReplicaGrouping,
    leadership: Leadership | None,
    segments: Iterable[RemoteSegment],
) -> bool:
    """True if the leader's log has the same records as the reference's, up to the latter's end. By the first line that fits:

    | who leads | the reference | the same |
    |---|---|---|
    | anybody | may have been cut since it was copied (`Reference.is_replaced`) | no |
    | the reference, or whom nothing says (`Reference.is_led`) | | yes |
    | nobody | all that are named as replicas are compared with it | yes |
    | nobody, or another in an unknown epoch | | no |
    | another | knows the leader's epoch: it was cut where the two diverged | yes |
    | another | has as its latest epoch one in which the leader led or joined the ISR, and nobody else was elected since | yes |
    | another | has a latest epoch that a segment of the leader has too: logs that share an epoch are the same below it | yes |
    | another | may have been left by an unclean election, or a clean one before its own truncation | no |
    """
    facts = reference.facts
    if reference.is_replaced:
        return False
    if leadership is None or reference.is_led:
        return True
    if reference.leader_id is None:
        return leadership.named <= {one.broker_id for one in grouping.compared}
    led = reference.leader_epoch
    if led is None or leadership.leader_epoch is None:
        return False
    own = facts.log_epoch
    if own >= led or _took_part_in(reference, own):
        return True
    of_leader = [one for one in segments if one.topic_id == facts.directory.topic_id and one.epochs[-1][0] >= led]
    unclear = find_contradictory(whole_lineage(reference), of_leader)
    return any(own in dict(one.epochs) for one in of_leader if one not in unclear)


def _took_part_in(reference: Reference, epoch: int) -> bool:
    """True if the leader led in `epoch`, or joined its ISR, and no other broker has been elected since."""
    leader = reference.leader_id
    led = any((state.leader_id, state.leader_epoch) == (leader, epoch) for state in reference.history)
    joined = any(
        before.leader_epoch == state.leader_epoch == epoch and leader in {*state.isr} - {*before.isr}
        for before, state in pairwise(reference.history)
    )
    since = {one.leader_id for one in elections(reference.history) if one.leader_epoch > epoch}
    return (led or joined) and since <= {leader}


def _state_for_store(
    reference: Reference, grouping: ReplicaGrouping, evidence: PartitionEvidence, state: CopiedState
) -> CopiedState:
    """State in which the reference is compared with remote storage: `state` if its log must reach as far as its
    leader copied there; else up, since its end may be missing or its copy older."""
    facts = reference.facts
    leadership = evidence.leadership
    captured = {one.broker_id for one in grouping.compared}
    if leadership is None or facts.end_is_open:
        return "up"
    if reference.leader_id != facts.broker_id and not (reference.leader_id is None and leadership.named <= captured):
        return "up"
    return state


def _compare(plan: ComparisonPlan, loaded: LoadedBatches, records: RecordSource | None) -> Iterator[Comparison]:
    """Compare each follower, then each copy in `beside`, with the reference."""
    protocol, tiered = plan.evidence.options.protocol, plan.evidence.is_tiered
    for pair in plan.grouping.pairs:
        follower, leader = pair.follower, pair.reference.facts
        read = None if records is None else Records(records, loaded.rows_of(follower), loaded.rows_of(leader))
        # Only the pair's chunks: elsewhere, where the logs are equal, batches read for another follower would look like holes.
        theirs = loaded.batches_of(leader, pair.chunks)
        own = loaded.batches_of(follower, pair.chunks)
        yield compare(pair, theirs, own, read, protocol, tiered)


def _apart(
    reference: Reference, compared: Sequence[Comparison]
) -> tuple[list[Comparison], list[tuple[Comparison, str]]]:
    """Split comparisons into those that are judged, some with a doubt, and those with logs that may be of another topic, with
    the reason."""
    kept = []
    strangers = []
    for item in compared:
        found = other_life(reference, item)
        if found is None or found.judged or item.lacks_records:
            kept.append(item if found is None else item._replace(doubt=found.reason))
        else:
            uncommitted = (run._replace(committed_end=None, committed_records=0, proof=None) for run in item.runs)
            strangers.append(
                (item._replace(runs=tuple(uncommitted), committed_drops=dict.fromkeys(item.drops, 0)), found.reason)
            )
    return kept, strangers


def _without_replicas(plan: ComparisonPlan) -> PartitionAudit:
    evidence = plan.evidence
    grouping = plan.grouping
    only_observed = False
    if grouping.set_aside:
        found = tuple(item for facts in grouping.set_aside for item in judge_copy(facts))
    else:
        observed = evidence.side.timeline is not None
        only_observed = observed and evidence.leadership is None and not evidence.orphans
        within = evidence.options.times.first_collected(evidence.named, str(evidence.topic_partition))
        missing = no_replica(
            evidence.leadership,
            named_by_checkpoint=bool(evidence.orphans),
            observed=observed,
            has_others=bool(grouping.foreign),
        )
        found = perhaps_created_since(missing, evidence.leadership, within)
    others = instead_of_replicas(grouping.foreign, evidence.leadership)
    findings = merge_findings((*found, *others, *judge_timeline(evidence.side.timeline)))
    verdict = worst_verdict(item.verdict for item in findings) if only_observed else "INCONCLUSIVE"
    return PartitionAudit(evidence, None, findings, verdict, grouping.foreign)
