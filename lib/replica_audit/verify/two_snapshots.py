"""Reads two snapshots of one cluster and verifies them partition by partition, in this process."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import BinaryIO

from replica_audit.auditing.conclude import PartitionAudit, conclude
from replica_audit.auditing.opened_snapshot import Examined, OpenedSnapshot
from replica_audit.auditing.opening import Progress, Unseen, audit_options, open_snapshot
from replica_audit.config import Settings
from replica_audit.elect.plan_model import Plan
from replica_audit.errors import InputError
from replica_audit.model import TopicPartition
from replica_audit.results import place_of
from replica_audit.schema import NotVerifiedRow, sort_rows
from replica_audit.snapshot.record_reader import RecordReader
from replica_audit.snapshot.storage import Snapshot
from replica_audit.verify.pairing import AFTER, BEFORE, Pairing, wanted_chunks
from replica_audit.verify.verification import Verification, with_plan
from replica_audit.verify.verified_partition import (
    PartitionVerification,
    is_another_topic,
    verify_partition,
)


def verify_snapshots(
    before: str,
    after: str,
    settings: Settings,
    progress: Progress | None = None,
    plan: Plan | None = None,
) -> Verification:
    """Verify what every replica in the snapshot `before` kept until `after`, for the topics in `settings`.

    `plan` was carried out in between; `settings.leadership` belongs to the later snapshot. Raises UsageError and InputError
    like `open_snapshot`, and InputError if the two are of different clusters or have no partition in common.
    """
    progress = progress or Unseen()
    earlier = _open(before, replace(settings, leadership=None))
    later = _open(after, settings)
    ids = [opened.inventory.cluster_id for opened in (earlier, later)]
    if None not in ids and ids[0] != ids[1]:
        raise InputError(
            f"{before} is of cluster {ids[0]} and {after} of cluster {ids[1]}: give two snapshots of one cluster"
        )
    held = {one.topic_partition for one in earlier.inventory.replicas}
    held |= {partition for partition in earlier.partitions if earlier.is_led(partition)}
    in_both = held & set(later.partitions)
    both = [partition for partition in earlier.partitions if partition in in_both]
    if not both:
        raise InputError(f"{before} and {after} have no partition in common")
    if earlier.options.kafka_version is not None and settings.protocol is None and settings.kafka_version is None:
        # The truncations took place in between, by the brokers as they were when it began.
        later.options = replace(later.options, protocol=earlier.options.protocol)
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
        },
        tuple(sort_rows([row for one in results.values() for row in one.verifications])),
        tuple(sort_rows([row for one in results.values() for row in one.gone])),
        tuple(sort_rows(left)),
        {place_of(one): result.leader for one, result in results.items()},
    )
    return verified if plan is None else with_plan(verified, plan)


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
    snapshot, inventory = open_snapshot(uri, settings.topics, settings.leadership, settings.leadership_source)
    return OpenedSnapshot.read(snapshot, inventory, audit_options(inventory, settings), settings.topics)


def _verify(
    earlier: OpenedSnapshot, later: OpenedSnapshot, partition: TopicPartition, reader: RecordReader
) -> PartitionVerification:
    sides = [(opened, opened.examine(partition)) for opened in (earlier, later)]
    audits = [_audit(opened, examined) for opened, examined in sides]
    if is_another_topic(*audits):
        return PartitionVerification(recreated=True)
    before, after = (audit.case for audit in audits)
    if before is None or after is None:
        moment = "earlier" if before is None else "later"
        return PartitionVerification(unjudged=(f"no replica of it could be read in the {moment} snapshot",))
    wanted = wanted_chunks(before, after)
    rows_before, rows_after = (
        opened.read_chunks(examined, chunks)
        for (opened, examined), chunks in zip(sides, (wanted.before, wanted.after), strict=True)
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
