"""Segments in a remote store as copies of a partition, for histories that a log does not have."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from replica_audit.auditing.case import Case
from replica_audit.auditing.compare.remote_contents import without_batch
from replica_audit.auditing.compare.remote_storage import REMOTE, stretches
from replica_audit.auditing.evidence import PartitionEvidence
from replica_audit.auditing.replicas.replica_facts import ReplicaFacts, replica_facts
from replica_audit.elect.remote_costs import unserved
from replica_audit.errors import FormatError
from replica_audit.model import OffsetRange, OffsetSet, RemoteObject, RemoteSegment, ReplicaDir, SegmentFile
from replica_audit.salvage.compared_logs import REMOTE_KIND, Copy, Unread
from replica_audit.snapshot.remote_log_metadata import COPY_FINISHED
from replica_audit.snapshot.segment_sources import summarise_source
from replica_audit.snapshot.storage import IN_STORE, Snapshot

_NOT_GIVEN = "by __remote_log_metadata its records are in remote storage, and no log here has them: --remote URI takes them out of it"
_GONE = "the remote store does not have it: its records are in no log here"

_Stored = tuple[RemoteSegment, SegmentFile]
_Part = tuple[OffsetRange, int]


def remote_copies(
    snapshot: Snapshot, evidence: PartitionEvidence, case: Case, log: ReplicaFacts, *, stays: bool
) -> tuple[list[Copy], list[Unread]]:
    """A copy for each history in the store of which `log` lacks records once it leads, and the segments that cannot be read.

    `stays`: it leads already.
    """
    is_open = snapshot.remote_store is not None
    readable: list[_Stored] = []
    unread: list[Unread] = []
    lacking = _lacking(case, log, stays=stays)
    objects = {} if evidence.side.store is None else evidence.side.store.of(lacking)
    for segment, parts in lacking.items():
        stored = objects.get(segment.segment_id)
        if stored is None or stored.log_path is None or stored.form != "readable" or not is_open:
            reason = _say_unread(stored, was_listed=evidence.side.store is not None)
            unread += _name_parts(f"segment {segment.segment_id} in remote storage", reason, parts)
        else:
            readable.append((segment, _file(stored, stored.log_path)))
    copies = []
    for history in _histories(readable):
        files = tuple(file for _, file in history)
        summaries = []
        for segment, file in history:
            try:
                summary = summarise_source(snapshot, file)
            except (OSError, FormatError) as error:
                unread.append(Unread(file.path, f"the segment could not be read: {error}"))
                continue
            summaries.append(summary)
            missing = OffsetSet.of(without_batch(segment, objects[segment.segment_id], summary))
            left = [(one, epoch) for part, epoch in lacking[segment] for one in missing.shared_with([part])]
            unread += _name_parts(file.path, "the remote store has no batch of the segment there", left)
        copies.append(Copy(REMOTE_KIND, replica_facts(_directory(case, files), summaries), files))
    return copies, unread


def _lacking(case: Case, log: ReplicaFacts, *, stays: bool) -> dict[RemoteSegment, list[_Part]]:
    """Copied segments with records that no reader gets once `log` leads, with the offsets and epoch of each part."""
    lost: dict[int | None, list[OffsetRange]] = {}
    for item in unserved(case, log, stays=stays):
        lost.setdefault(item.leader_epoch, []).append(item.span)
    sets = {epoch: OffsetSet.of(ranges) for epoch, ranges in lost.items()}
    found = {}
    for segment in sorted(case.remote.segments):
        if segment.state != COPY_FINISHED:
            continue
        left = [
            (one, epoch)
            for start, end, epoch in stretches(segment)
            if epoch in sets
            for one in sets[epoch].shared_with([OffsetRange(start, end)])
        ]
        if left:
            found[segment] = left
    return found


def _name_parts(path: str, reason: str, parts: Iterable[_Part]) -> Iterator[Unread]:
    for part, epoch in parts:
        yield Unread(path, reason, None, None, part.start_offset, part.end_offset, leader_epoch=epoch)


def _say_unread(stored: RemoteObject | None, *, was_listed: bool) -> str:
    if stored is not None and stored.unread is not None:
        return f"not captured: {stored.unread}"
    return _GONE if was_listed and (stored is None or stored.missing is not None) else _NOT_GIVEN


def _file(stored: RemoteObject, path: str) -> SegmentFile:
    place = (*REMOTE, stored.topic, stored.partition)
    return SegmentFile(*place, f"{IN_STORE}{path}", stored.start_offset, stored.segment_bytes or 0)


def _histories(found: Iterable[_Stored]) -> Iterator[list[_Stored]]:
    """Segments grouped into histories, each consecutive in one log, so that a transaction may continue in the next segment.

    Of several histories that end where a segment begins, it continues the one of the greatest last epoch not above its own.
    """
    ends: list[list[_Stored]] = []
    for segment, file in sorted(found, key=lambda pair: (pair[0].start_offset, pair[0].epochs)):
        before = [
            one
            for one in ends
            if one[-1][0].end_offset == segment.start_offset and one[-1][0].epochs[-1][0] <= segment.epochs[0][0]
        ]
        if before:
            max(before, key=lambda one: one[-1][0].epochs[-1][0]).append((segment, file))
        else:
            ends.append([(segment, file)])
    yield from ends


def _directory(case: Case, history: Sequence[SegmentFile]) -> ReplicaDir:
    return ReplicaDir(
        broker_id=REMOTE[0],
        log_dir=REMOTE[1],
        topic=case.topic_partition.topic,
        partition=case.topic_partition.partition,
        path=history[0].path.rpartition("/")[0],
        topic_id=case.reference.facts.directory.topic_id,
    )
