"""Verification of two snapshots of one cluster, partition by partition in this process; the result beside a plan's predictions,
and its exit status."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import BinaryIO, TypedDict

from replica_audit.auditing.conclude import PartitionAudit, conclude
from replica_audit.auditing.opened_snapshot import Examined, OpenedSnapshot
from replica_audit.cached_property import cached_property
from replica_audit.config import Settings
from replica_audit.elect.plan_model import Plan
from replica_audit.errors import InputError, UsageError
from replica_audit.model import TopicPartition
from replica_audit.progress import Progress
from replica_audit.results import place_of
from replica_audit.row_classes import sort_rows
from replica_audit.schema import GoneRecordsRow, NotVerifiedRow, SurpriseRow, VerificationRow
from replica_audit.snapshot.metadata.quorum import CLOCKS_DIFFER_MS
from replica_audit.snapshot.record_reader import RecordReader
from replica_audit.snapshot.storage import Snapshot
from replica_audit.verify.verified_partition import (
    AFTER,
    BEFORE,
    Pairing,
    PartitionVerification,
    is_another_topic,
    verify_partition,
    wanted_chunks,
)


class VerifiedInputs(TypedDict):
    """The two snapshots compared, as in the JSON answer."""

    before: str
    after: str
    cluster_id: str | None
    protocol: str
    partitions: int
    """Number of partitions in both."""
    went_back: int
    """Number of them that `after` has in an older state by the metadata log, or without it by leader epochs: the snapshots were given
    the wrong way round, `after` has an older copy of these, or was restored from one."""
    copied_first: bool
    """True if by the manifests every copy of `after` had ended before the first of `before` was begun."""


#: Reasons why a partition could not be judged.
_UNREAD_BEFORE = "no replica of it could be read in the earlier snapshot"
_UNREAD_AFTER = "no replica of it could be read in the later snapshot"


@dataclass(frozen=True)
class Verification:
    """Rows of the tables of `verify`."""

    inputs: VerifiedInputs
    verifications: Sequence[VerificationRow]
    gone_records: Sequence[GoneRecordsRow]
    not_verified: Sequence[NotVerifiedRow] = ()
    of_partitions: Mapping[TopicPartition, PartitionVerification] = field(default_factory=dict)
    """Each partition that both snapshots have."""
    surprises: Sequence[SurpriseRow] = ()
    """Differences from a plan's predictions."""
    planned: bool = False
    """True if a plan was given (`with_plan`)."""

    @property
    def failed(self) -> Sequence[VerificationRow]:
        """Replicas that did not keep exactly what they should have, except those that lost, or kept beside the leader, what a plan predicted."""
        return [row for row in self.verifications if row.verdict != "correct" and not self._was_asked_for(row)]

    @property
    def lost(self) -> Sequence[GoneRecordsRow]:
        """Ranges that no replica holds any more and that were, or may have been, committed, except those past a cut that a plan
        predicted."""
        cuts = {
            (*place_of(row), row.broker_id): row.predicted
            for row in self.verifications
            if row.predicted is not None and self._was_asked_for(row)
        }
        return [
            row
            for row in self.gone_records
            if row.committed != "no"
            and any(row.start_offset < cuts.get((*place_of(row), one), row.end_offset) for one in row.broker_ids)
        ]

    @property
    def lost_records(self) -> int:
        return sum(row.record_count for row in self.lost)

    @property
    def lost_proven(self) -> int:
        """Number of lost records that were proven committed."""
        return sum(row.record_count for row in self.lost if row.committed == "proven")

    @property
    def open(self) -> Sequence[NotVerifiedRow]:
        """Partitions that could not be judged, though both snapshots should have them."""
        return [row for row in self.not_verified if not row.expected]

    @property
    def exit_status(self) -> int:
        """0 if every replica kept exactly what it should; 1 if one did not; 3 if something could not be judged."""
        if self.failed or self.lost or self.surprises:
            return 1
        return 3 if self.open else 0

    def _was_asked_for(self, row: VerificationRow) -> bool:
        """True if the plan predicted what the replica did: a cut that lost records, which a log start may have
        passed since, or that it keeps what the leader lacked before and no truncation finds."""
        predicted = row.predicted
        kept_to = row.kept_to
        if predicted is None or kept_to is None:
            return False
        if row.verdict == "correct":
            return predicted < row.end_before <= kept_to
        if row.verdict == "under_truncated":
            # What the leader has lost since would be a surprise.
            return kept_to == predicted and (*place_of(row), row.leader_id) in self._predicted
        return row.verdict == "lost_committed" and kept_to == predicted

    @cached_property
    def _predicted(self) -> set[tuple[str, int, int]]:
        """Replicas for which the plan predicted how much of their log they keep."""
        return {(*place_of(row), row.broker_id) for row in self.verifications if row.predicted is not None}

    @property
    def status(self) -> str:
        """The word of the status line."""
        return {0: "OK", 1: "CRITICAL", 3: "UNKNOWN"}[self.exit_status]


@dataclass(slots=True)
class PredictedPartition:
    """A partition after all steps of a plan."""

    leader_id: int | None = None
    leader_epoch: int | None = None
    """The lowest possible: a restart adds epochs."""
    replicas: dict[int, tuple[int | None, int]] = field(default_factory=dict)
    """By broker id: the offset at which its log is cut (None: no cut), and its log end after it has followed."""


def outcomes_of(plan: Plan) -> dict[TopicPartition, PredictedPartition]:
    """The outcome that a plan predicts for each partition; of several cuts of one replica the lowest counts."""
    found: dict[TopicPartition, PredictedPartition] = defaultdict(PredictedPartition)
    for step in plan.steps:
        for topic, partition, leader_id in step.leaders:
            found[TopicPartition(topic, partition)].leader_id = leader_id
        for one in step.after:
            outcome = found[place_of(one)]
            if one.leader_epoch is not None:
                outcome.leader_epoch = max(one.leader_epoch, outcome.leader_epoch or 0)
            earlier = outcome.replicas.get(one.broker_id, (None, 0))[0]
            cuts = [cut for cut in (earlier, one.truncate_to) if cut is not None]
            outcome.replicas[one.broker_id] = min(cuts, default=None), one.log_end_offset
    return dict(found)


def with_plan(found: Verification, plan: Plan) -> Verification:
    """`found` with the cut that `plan` predicted for each replica, and all deviations from the plan.

    A replica that lost committed records by a predicted cut did as planned. One without a readable log before, as the
    plan said, had nothing to keep.
    """
    outcomes = outcomes_of(plan)
    rows = [_with_prediction(row, outcomes.get(place_of(row))) for row in found.verifications]
    replicas: dict[TopicPartition, dict[int, VerificationRow]] = defaultdict(dict)
    for row in rows:
        replicas[place_of(row)][row.broker_id] = row
    surprises = [
        one
        for place, outcome in sorted(outcomes.items())
        for one in _surprises(found.of_partitions.get(place), replicas.get(place, {}), place, outcome)
    ]
    unplanned = {place_of(one) for one in plan.conflicts}
    left = [
        row._replace(expected=True) if row.reason == _UNREAD_BEFORE and place_of(row) in unplanned else row
        for row in found.not_verified
    ]
    return replace(found, verifications=rows, surprises=surprises, not_verified=left, planned=True)


def _with_prediction(row: VerificationRow, outcome: PredictedPartition | None) -> VerificationRow:
    if outcome is None or row.broker_id not in outcome.replicas:
        return row
    cut, _ = outcome.replicas[row.broker_id]
    predicted = row.end_before if cut is None else min(cut, row.end_before)
    return row._replace(predicted=predicted)


def _surprises(
    found: PartitionVerification | None,
    replicas: Mapping[int, VerificationRow],
    place: TopicPartition,
    outcome: PredictedPartition,
) -> Iterator[SurpriseRow]:
    def told(broker_id: int | None, what: str, predicted: object, now: object) -> SurpriseRow:
        return SurpriseRow(*place, broker_id, what, _text(predicted), _text(now))

    if found is None:
        yield told(None, "partition", "in the later snapshot", "not in it")
        return
    leader_id, epoch = found.leader
    # The controller moves leadership to the preferred replica, cleanly, as soon as that is in sync (auto.leader.rebalance.enable), and
    # to one that a reassignment adds only when that is, which a throttle puts off.
    holder = leader_id if found.is_moving else outcome.leader_id
    row = None if leader_id is None or holder is None else replicas.get(holder)
    has_all = row is not None and row.verdict == "correct" and row.kept_to == row.end_before
    if leader_id != outcome.leader_id and not has_all:
        yield told(None, "leader", outcome.leader_id, leader_id)
    if epoch is not None and outcome.leader_epoch is not None and epoch < outcome.leader_epoch:
        yield told(None, "leader epoch", f"{outcome.leader_epoch} or more", epoch)
    for broker_id, (_, end) in sorted(outcome.replicas.items()):
        if broker_id in found.awaited:
            continue
        row = replicas.get(broker_id)
        if row is None or row.end_after is None:
            yield told(broker_id, "replica", f"its log ends at {end}", "its log is not in both snapshots")
            continue
        # Below its floor retention, or a restart at the leader's local start, may have removed the rest.
        if row.kept_to != max(row.predicted or 0, found.floors.get(broker_id, 0)):
            yield told(broker_id, "kept to", row.predicted, row.kept_to)
        # Records written since then make a log longer, which no plan predicts.
        if row.end_after < end and broker_id not in found.adding:
            yield told(broker_id, "log end", end, row.end_after)


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def verify_snapshots(
    before: str,
    after: str,
    settings: Settings,
    progress: Progress | None = None,
    plan: Plan | None = None,
) -> Verification:
    """Verify what every replica in the snapshot `before` kept until `after`, for the topics in `settings`.

    `plan` was carried out in between; `settings.leadership` belongs to the later snapshot. Raises UsageError and InputError
    like `open_snapshot`, InputError if the two are of different clusters or have no partition in common, and UsageError for the
    plan of another cluster.
    """
    progress = progress or Progress()
    earlier = _open(before, replace(settings, leadership=None))
    later = _open(after, settings)
    ids = [opened.inventory.cluster_id for opened in (earlier, later)]
    if None not in ids and ids[0] != ids[1]:
        raise InputError(
            f"{before} is of cluster {ids[0]} and {after} of cluster {ids[1]}: give two snapshots of one cluster"
        )
    if plan is not None and None not in (plan.cluster_id, ids[0]) and plan.cluster_id != ids[0]:
        raise UsageError(
            f"the plan is of cluster {plan.cluster_id} and {before} of cluster {ids[0]}: give the plan that was made from it"
        )
    held = {one.topic_partition for one in earlier.inventory.replicas}
    held |= {partition for partition in earlier.partitions if earlier.is_led(partition)}
    in_both = held & set(later.partitions)
    both = [partition for partition in earlier.partitions if partition in in_both]
    if not both:
        raise InputError(f"{before} and {after} have no partition in common")
    if earlier.options.kafka_version is not None and settings.protocol is None and settings.kafka_version is None:
        # The truncations took place in between, by brokers of the version at its start.
        later.options = later.options._replace(protocol=earlier.options.protocol)
    results = _verify_all(earlier, later, both, progress)
    left = [row for partition, result in results.items() for row in _unjudged(partition, result)]
    left += _missing(held - set(both), has_metadata=bool(later.inventory.metadata_logs))
    verified = Verification(
        {
            "before": earlier.snapshot.name,
            "after": later.snapshot.name,
            "cluster_id": later.inventory.cluster_id or earlier.inventory.cluster_id,
            "protocol": later.options.protocol,
            "partitions": len(both),
            "went_back": sum(one.went_back for one in results.values()),
            "copied_first": _ended_before(later, earlier),
        },
        tuple(sort_rows([row for one in results.values() for row in one.verifications])),
        tuple(sort_rows([row for one in results.values() for row in one.gone])),
        tuple(sort_rows(left)),
        results,
    )
    return verified if plan is None else with_plan(verified, plan)


def _ended_before(one: OpenedSnapshot, two: OpenedSnapshot) -> bool:
    """True if by the manifests every copy of `one` had ended before the first of `two` was begun."""
    ends, begins = (() if item.inventory.manifest is None else item.inventory.manifest.brokers for item in (one, two))
    # A copy without a known time may be from any time.
    last_end = max((math.inf if copy.finished_ms is None else copy.finished_ms for copy in ends), default=math.inf)
    first_begin = min((-math.inf if copy.started_ms is None else copy.started_ms for copy in begins), default=-math.inf)
    return last_end + CLOCKS_DIFFER_MS < first_begin


def _verify_all(
    earlier: OpenedSnapshot, later: OpenedSnapshot, partitions: Sequence[TopicPartition], progress: Progress
) -> dict[TopicPartition, PartitionVerification]:
    reader = RecordReader(_Both({BEFORE: earlier.snapshot, AFTER: later.snapshot}))
    files = {partition: [*earlier.files(partition), *later.files(partition)] for partition in partitions}
    sizes = {partition: sum(file.size_bytes for file in of_one) for partition, of_one in files.items()}
    progress.begin("verifying", sum(map(len, files.values())), sum(sizes.values()))
    found = {}
    try:
        for partition in partitions:
            found[partition] = _verify(earlier, later, partition, reader)
            progress.advance(len(files[partition]), sizes[partition])
    finally:
        progress.end()
    return found


def _unjudged(partition: TopicPartition, result: PartitionVerification) -> Iterator[NotVerifiedRow]:
    for reason in result.unjudged:
        yield _unverified(partition, reason)
    if result.recreated:
        yield _unverified(partition, "the topic was deleted and created again in between", expected=True)


def _missing(partitions: Iterable[TopicPartition], *, has_metadata: bool) -> Iterator[NotVerifiedRow]:
    """A row for each partition that only the earlier snapshot has."""
    deleted = "its topic was deleted: the later metadata log does not have it"
    reason = deleted if has_metadata else "the later snapshot does not have it"
    for partition in partitions:
        yield _unverified(partition, reason, expected=has_metadata)


def _open(uri: str, settings: Settings) -> OpenedSnapshot:
    # A store is of one moment, the snapshots of two.
    return OpenedSnapshot.open(uri, replace(settings, remote=None, verify_remote=False))


def _verify(
    earlier: OpenedSnapshot, later: OpenedSnapshot, partition: TopicPartition, reader: RecordReader
) -> PartitionVerification:
    sides = [(opened, opened.examine(partition)) for opened in (earlier, later)]
    audits = [_audit(opened, examined) for opened, examined in sides]
    if is_another_topic(*audits):
        return PartitionVerification(recreated=True)
    before, after = (audit.case for audit in audits)
    if before is None or after is None:
        return PartitionVerification(unjudged=(_UNREAD_BEFORE if before is None else _UNREAD_AFTER,))
    rows_before, rows_after = (
        opened.read_chunks(examined, chunks)
        for (opened, examined), chunks in zip(sides, wanted_chunks(before, after), strict=True)
    )
    return verify_partition(Pairing(before, after, rows_before, rows_after, reader))


def _audit(opened: OpenedSnapshot, examined: Examined) -> PartitionAudit:
    return conclude(examined.plan, opened.read_batches(examined), RecordReader(opened.snapshot))


def _unverified(partition: TopicPartition, reason: str, *, expected: bool = False) -> NotVerifiedRow:
    return NotVerifiedRow(partition.topic, partition.partition, reason, expected)


class _Both:
    """The files of both snapshots, below `BEFORE` and `AFTER`."""

    def __init__(self, snapshots: Mapping[str, Snapshot]) -> None:
        self._snapshots = snapshots

    def open_file(self, path: str) -> BinaryIO:
        moment, _, rest = path.partition("/")
        return self._snapshots[moment].open_file(rest)
