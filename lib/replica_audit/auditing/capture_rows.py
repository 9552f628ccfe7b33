"""Rows of `captures`: the parts of each replica that are in the snapshot, and the sources that name absent ones (F.0, Needed replicas)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from replica_audit.auditing.replicas.offset_ranges import traces_of_segment
from replica_audit.literals import CaptureState, NamedBy
from replica_audit.schema import CaptureRow, VoterCopy
from replica_audit.snapshot.log_dir_names import METADATA_PARTITION

if TYPE_CHECKING:
    from replica_audit.auditing.case import Case
    from replica_audit.auditing.conclude import PartitionAudit
    from replica_audit.auditing.evidence import PartitionEvidence
    from replica_audit.auditing.replicas.replica_facts import ReplicaFacts
    from replica_audit.model import CheckpointFile, ReplicaDir

#: `missing` of a replica that has no directory in the snapshot, and of one whose directory has no segment.
_DIRECTORY = "directory"
_SEGMENTS = "*.log"


def capture_rows(audit: PartitionAudit) -> Iterator[CaptureRow]:
    """A row for each copy, and one for each broker that is named without a copy; copies of another topic id have none."""
    evidence = audit.evidence
    needed = audit.needed_replicas
    topic = evidence.topic_partition.topic
    partition = evidence.topic_partition.partition
    copies = _copies(audit)
    copied = {directory.broker_id for directory, _ in copies}
    leadership = evidence.leadership
    named = {*(leadership.named if leadership else ()), *needed, *(broker_id for broker_id, _, _ in evidence.orphans)}
    for directory, missing in copies:
        yield CaptureRow(
            topic,
            partition,
            directory.broker_id,
            directory.log_dir,
            "partial" if missing else "whole",
            _named_by(directory.broker_id, evidence),
            missing,
            needed.get(directory.broker_id),
        )
    for broker_id in sorted(named - copied):
        state: CaptureState = "absent" if broker_id in evidence.brokers else "named"
        named_by = _named_by(broker_id, evidence)
        yield CaptureRow(topic, partition, broker_id, None, state, named_by, [_DIRECTORY], needed.get(broker_id))


def voter_rows(voters: Iterable[VoterCopy]) -> Iterator[CaptureRow]:
    """A row for each copy of the metadata log that a voter has or should have, from `snapshots.voters`.

    No answer on a partition needs one of them: what is committed is on a majority, and on brokers (META-FORK, META-STALE).
    """
    topic = METADATA_PARTITION.topic
    partition = METADATA_PARTITION.partition
    for one in voters:
        yield CaptureRow(topic, partition, one.node_id, one.log_dir, one.state, ["voters"], one.missing, None)


def _copies(audit: PartitionAudit) -> list[tuple[ReplicaDir, list[str]]]:
    """Each copy with what of it is missing."""
    case = audit.case
    if case is None:
        return [(directory, [_SEGMENTS, *_side_files(directory, True)]) for directory, _ in audit.evidence.replicas]
    copies = (*case.replicas, *case.set_aside, *case.duplicates)
    return [
        (facts.directory, [*_segments(case, facts), *_side_files(facts.directory, facts.has_epochs)])
        for facts in copies
    ]


def _segments(case: Case, facts: ReplicaFacts) -> Iterator[str]:
    """Names of segments that are not there or could not be read; of a log that is known from a text or table only, all."""
    if facts.unread_bases:
        yield from map(_log_name, facts.unread_bases)
    elif facts.second_hand or not facts.end_is_known:
        yield _SEGMENTS
    for stretch in facts.missing:
        if traces_of_segment(facts, case.replicas, stretch):
            yield _log_name(stretch.start_offset)


def _log_name(base_offset: int) -> str:
    return f"{base_offset:020d}.log"


def _side_files(directory: ReplicaDir, has_epochs: bool) -> Iterator[str]:
    """Names of files that every replica has, and that are not there or could not be read."""
    files: Iterable[tuple[str, CheckpointFile, bool]] = (
        ("leader-epoch-checkpoint", directory.epoch_file, has_epochs),
        ("replication-offset-checkpoint", directory.high_watermark_file, True),
        ("recovery-point-offset-checkpoint", directory.recovery_point_file, False),
        ("log-start-offset-checkpoint", directory.log_start_file, False),
        ("cleaner-offset-checkpoint", directory.cleaner_file, False),
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
    if any(broker_id == owner for owner, _, _ in evidence.orphans):
        found.append("checkpoint")
    return found
