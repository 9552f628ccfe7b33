"""What of remote storage readers lose under a candidate (docs/semantics.md H.1).

A leader finds a remote segment by the epoch that its own epoch file has for an offset, between its log start and its log end
(`RemoteLogManager.fetchRemoteLogSegmentMetadata`, KIP-405): what is there of another epoch, or past its end, nobody reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise

from replica_audit.auditing.comparing.below_local_start import epoch_parts
from replica_audit.auditing.comparing.loss import Piece
from replica_audit.auditing.comparing.remote_storage import REMOTE, stretches
from replica_audit.auditing.comparing.replays import answering_lineage
from replica_audit.auditing.findings.case import Case
from replica_audit.auditing.replicas.facts import ReplicaFacts
from replica_audit.auditing.replicas.held_offsets import without
from replica_audit.deciding.held_records import Marked
from replica_audit.formats.leadership.remote_states import COPY_FINISHED
from replica_audit.model import OffsetRange


def unserved(case: Case, candidate: ReplicaFacts, *, stays: bool) -> list[Marked]:
    """Records in remote storage that no reader gets once the candidate leads, all of them committed.

    A leader that `stays` may have more than its copy shows: of it only what its lineage rules out counts (TIER-ORPHAN).
    """
    if stays:
        return [Marked(one.piece, one.end_offset, one.leader_epoch) for one in case.remote_orphans]
    floor = max(case.reference.facts.log_start_offset, candidate.log_start_offset)
    served = _served(candidate)
    found = []
    for epoch, ranges, is_counted in _stored(case):
        above = [OffsetRange(max(one.start_offset, floor), one.end_offset) for one in ranges]
        left = without(
            [one for one in above if one.start_offset < one.end_offset],
            [one for known, one in served if known == epoch],
        )
        found += [_marked(one, epoch, is_counted) for one in left]
    return found


def in_holes(case: Case, candidate: ReplicaFacts, kept: Iterable[Marked]) -> tuple[list[Marked], list[Marked]]:
    """(inside, outside) of what another replica keeps: inside what neither the candidate's files nor remote storage have."""
    holes = case.remote_holes.ranges
    if not holes:
        return [], list(kept)
    inside, outside = [], []
    for item in kept:
        piece = item.piece
        span = OffsetRange(piece.start_offset, min(piece.end_offset, candidate.local_start_offset))
        left = without([span], holes) if span.start_offset < span.end_offset else [span]
        if left == [span]:
            outside.append(item)
        elif not item.is_plain:
            inside.append(item)
        else:
            rest = OffsetRange(max(piece.start_offset, span.end_offset), piece.end_offset)
            outside += [item.between(one.start_offset, one.end_offset) for one in (*left, rest) if len(one)]
            inside += [item.between(one.start_offset, one.end_offset) for one in without([span], left)]
    return inside, outside


def _stored(case: Case) -> Iterator[tuple[int, list[OffsetRange], bool]]:
    """(epoch, offsets, whether segments tell of them) of what is in remote storage: the copied segments, and what else the
    reference has deleted from its files.
    """
    told: dict[int, list[OffsetRange]] = {}
    for segment in case.remote_segments:
        if segment.state == COPY_FINISHED:
            for start, end, epoch in stretches(segment):
                told.setdefault(epoch, []).append(OffsetRange(start, end))
    for epoch, ranges in told.items():
        yield epoch, ranges, True
    if not case.is_tiered:
        return
    facts, holes = case.reference.facts, case.remote_holes.ranges
    lineage = answering_lineage(facts, tiered=True)
    for start, end, epoch in epoch_parts(lineage, facts.log_start_offset, facts.local_start_offset):
        yield epoch, without([OffsetRange(start, end)], (*holes, *told.get(epoch, ()))), False


def _served(candidate: ReplicaFacts) -> list[tuple[int, OffsetRange]]:
    """(epoch, offsets) of the candidate's whole log, by its epoch file where that covers the remote part."""
    end = candidate.following_end_offset
    entries = [*answering_lineage(candidate, tiered=True).truncate_from_end(end), (-1, end)]
    return [(epoch, OffsetRange(start, stop)) for (epoch, start), (_, stop) in pairwise(entries)]


def _marked(part: OffsetRange, epoch: int, is_counted: bool) -> Marked:
    start, end = part.start_offset, part.end_offset
    piece = Piece(REMOTE, (epoch,), start, end, end - start, end, 0, exact=is_counted)
    return Marked(piece, end, epoch)
