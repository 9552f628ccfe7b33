"""Segments in a remote store as copies of a partition: those of histories that a log does not have."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from replica_audit.auditing.case import Case
from replica_audit.auditing.compare.remote_storage import REMOTE, stretches
from replica_audit.auditing.evidence import PartitionEvidence
from replica_audit.auditing.replicas.replica_facts import ReplicaFacts, replica_facts
from replica_audit.elect.costs import unserved
from replica_audit.errors import FormatError
from replica_audit.model import NOT_GIVEN, OffsetRange, RemoteObject, RemoteSegment, ReplicaDir, SegmentFile
from replica_audit.salvage.compared_logs import REMOTE_KIND, Copy, Unread
from replica_audit.snapshot.remote_log_metadata import COPY_FINISHED
from replica_audit.snapshot.segment_sources import summarise_source
from replica_audit.snapshot.storage import IN_STORE, Snapshot

_NOT_GIVEN = "its records are in remote storage, and no log here has them: --remote URI takes them out of it"
_GONE = "the remote store does not have it: its records are in no log here"


def remote_copies(
    snapshot: Snapshot, evidence: PartitionEvidence, case: Case, log: ReplicaFacts, *, stays: bool
) -> tuple[list[Copy], list[Unread]]:
    """A copy for each history in the store of which `log` lacks records once it leads, and the segments that cannot be read.

    `stays`: it leads already.
    """
    objects = {} if evidence.side.store is None else evidence.side.store.by_id
    is_open = snapshot.remote_store is not None
    readable: list[tuple[RemoteSegment, SegmentFile]] = []
    unread = []
    for segment in _lacking(case, log, stays=stays):
        stored = objects.get(segment.segment_id)
        if stored is None or stored.log_path is None or stored.form != "readable" or not is_open:
            unread.append(_unread(segment, stored, was_listed=evidence.side.store is not None))
        else:
            readable.append((segment, _file(stored, stored.log_path)))
    copies = []
    for history in _histories(readable):
        directory = _directory(case, history)
        summaries = []
        for file in history:
            try:
                summaries.append(summarise_source(snapshot, file))
            except (OSError, FormatError) as error:
                unread.append(Unread(file.path, f"the segment could not be read: {error}"))
        copies.append(Copy(REMOTE_KIND, replica_facts(directory, summaries), tuple(history)))
    return copies, unread


def _lacking(case: Case, log: ReplicaFacts, *, stays: bool) -> list[RemoteSegment]:
    """Copied segments with records that no reader gets once `log` leads."""
    lost: dict[int | None, list[OffsetRange]] = {}
    for item in unserved(case, log, stays=stays):
        lost.setdefault(item.leader_epoch, []).append(OffsetRange(item.piece.start_offset, item.piece.end_offset))
    return [
        segment
        for segment in sorted(case.remote.segments)
        if segment.state == COPY_FINISHED
        and any(
            start < one.end_offset and one.start_offset < end
            for start, end, epoch in stretches(segment)
            for one in lost.get(epoch, ())
        )
    ]


def _unread(segment: RemoteSegment, stored: RemoteObject | None, *, was_listed: bool) -> Unread:
    if stored is not None and stored.unread is not None:
        reason = f"not captured: {stored.unread}"
    elif was_listed and (stored is None or stored.missing is not None):
        reason = _GONE
    else:
        reason = _NOT_GIVEN
    name = f"segment {segment.segment_id} in remote storage"
    return Unread(name, reason, start_offset=segment.start_offset, end_offset=segment.end_offset)


def _file(stored: RemoteObject, path: str) -> SegmentFile:
    place = (*REMOTE, stored.topic, stored.partition)
    return SegmentFile(*place, f"{IN_STORE}{path}", stored.start_offset, stored.segment_bytes or 0)


def _histories(found: Iterable[tuple[RemoteSegment, SegmentFile]]) -> Iterator[list[SegmentFile]]:
    """The segments in groups that follow each other in one log: a transaction may go on in the next one.

    Several may begin where one ends; the first that goes on with its last epoch, else with the next one, follows it.
    """
    ends: list[tuple[RemoteSegment, list[SegmentFile]]] = []
    for segment, file in sorted(found, key=lambda pair: (pair[0].start_offset, pair[0].epochs)):
        before = [
            at
            for at, (last, _) in enumerate(ends)
            if last.end_offset == segment.start_offset and last.epochs[-1][0] <= segment.epochs[0][0]
        ]
        if before:
            at = max(before, key=lambda one: ends[one][0].epochs[-1][0])
            ends[at] = segment, [*ends[at][1], file]
        else:
            ends.append((segment, [file]))
    yield from (files for _, files in ends)


def _directory(case: Case, history: Sequence[SegmentFile]) -> ReplicaDir:
    return ReplicaDir(
        broker_id=REMOTE[0],
        log_dir=REMOTE[1],
        topic=case.topic_partition.topic,
        partition=case.topic_partition.partition,
        path=history[0].path.rpartition("/")[0],
        topic_id=case.reference.facts.directory.topic_id,
        clean_shutdown=None,
        directory_id=None,
        epoch_file=NOT_GIVEN,
        checkpoint_epochs=None,
    )
