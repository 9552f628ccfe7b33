"""Records in remote storage under a candidate: those that no reader gets, and those of them that the store still has.

A leader finds a remote segment by the epoch that its own epoch file has for an offset, between its log start and its log end
(`RemoteLogManager.fetchRemoteLogSegmentMetadata`, KIP-405): records there of another epoch, or past its end, cannot be read.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import NamedTuple

from replica_audit.auditing.case import Case
from replica_audit.auditing.compare.distinct_records import ByIdentity, RecordRange
from replica_audit.auditing.compare.remote_storage import REMOTE, epoch_parts, stretches
from replica_audit.auditing.compare.replays import answering_lineage
from replica_audit.auditing.replicas.replica_facts import ReplicaFacts
from replica_audit.batch_header import or_absent
from replica_audit.elect.held_records import CommittedRange, number_beyond
from replica_audit.literals import REMOTE_BASES, SEEN, RemoteBasis, StoredForm
from replica_audit.model import OffsetRange, OffsetSet, RemoteSegment, without
from replica_audit.snapshot.remote_log_metadata import COPY_FINISHED

_NOTHING = OffsetSet.of(())


class RemoteLoss(NamedTuple):
    """The records that a candidate loses and remote storage still has."""

    records: int = 0
    unread: int = 0
    """Records in no segment that salvage can read in the given store; 0 without a store."""
    encrypted: int = 0
    """Records of `unread` that only the brokers' plugin can read."""
    deleted: int = 0
    """Records that Kafka deletes once the candidate leads, regardless of retention (J4)."""
    basis: tuple[tuple[RemoteBasis, int], ...] = ()
    """Evidence that remote storage has them, each with its number of records, weakest first."""


def unserved(case: Case, candidate: ReplicaFacts, *, stays: bool) -> list[CommittedRange]:
    """Committed records in remote storage that no reader gets once the candidate leads.

    A leader that `stays` may have more than its copy shows: only what its log is known to lack counts (TIER-ORPHAN).
    """
    if stays:
        orphans = (*case.lost_remotely.orphans, *case.lost_remotely.gone_orphans)
        return [CommittedRange(one.piece, one.end_offset, one.leader_epoch) for one in orphans]
    stored = list(_stored(case))
    if not stored:
        return []
    # If segments are known, `known_start` tells which replicas' log starts are the partition's.
    own_start = 0 if case.remote.segments else candidate.log_start_offset
    floor = max(case.reference.facts.log_start_offset, own_start, case.remote.start_offset)
    served = _served(candidate)
    found = []
    for epoch, ranges, is_counted in stored:
        above = [OffsetRange(max(one.start_offset, floor), one.end_offset) for one in ranges]
        left = without(
            [one for one in above if one.start_offset < one.end_offset],
            [one for known, one in served if known == epoch],
        )
        found += [_marked(one, epoch, is_counted) for one in left]
    return found


def vanished(case: Case, candidate: ReplicaFacts, *, stays: bool) -> Iterator[CommittedRange]:
    """Records of segments that remote storage never had completely, or has deleted, and that the candidate's files lack."""
    gone = case.lost_remotely.vanished
    served = _served(candidate) if gone and not stays else []
    for one in gone:
        item = CommittedRange(one.piece, one.end_offset, one.leader_epoch)
        own = [known for epoch, known in served if epoch == one.leader_epoch]
        # Below its files its log is in remote storage, where these are not.
        own = without(own, [OffsetRange(0, candidate.local_start_offset)])
        whole = OffsetRange(one.start_offset, one.end_offset)
        yield from (item.between(*part) for part in without([whole], own))


def in_holes(
    case: Case, candidate: ReplicaFacts, kept: Iterable[CommittedRange]
) -> tuple[list[CommittedRange], list[CommittedRange]]:
    """(inside, outside) of the ranges that another replica keeps: inside are those that neither the candidate's files nor
    remote storage have."""
    holes = case.remote.holes_below(candidate)
    if not holes:
        return [], list(kept)
    inside = []
    outside = []
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
            outside += [item.between(*one) for one in left]
            if rest.size:
                outside.append(item.between(*rest))
            inside += [item.between(*one) for one in without([span], left)]
    return inside, outside


def beyond_store(case: Case, items: Iterable[CommittedRange]) -> Iterator[CommittedRange]:
    """Parts of `items` in no segment of the reference's history whose objects were seen, and from which readers get them (J3)."""
    remote = case.remote
    log_end = case.reference.facts.log_end_offset
    seen = _by_epoch(
        (epoch, OffsetRange(start, end))
        for segment, epoch, _, sound in _copied(case)
        if _has_basis(case, SEEN, segment)
        for part in sound
        for start, end, had in epoch_parts(
            remote.lineage, max(part.start_offset, remote.start_offset), min(part.end_offset, log_end)
        )
        if had == epoch
    )
    for item in items:
        left = _missing(item, seen)
        if left and (left == [item.span] or not item.is_plain):
            yield item
        else:
            yield from (item.between(*one) for one in left)


def remote_loss(case: Case, candidate: ReplicaFacts, lost: Iterable[CommittedRange], held: ByIdentity) -> RemoteLoss:
    """Records in remote storage of `lost`, the `unserved` records of a candidate, that no log has (`held`)."""
    in_store = _in_store(case, lost)
    records = number_beyond(in_store, held)
    forms: tuple[StoredForm, ...] = ("readable", "encrypted")
    readable, with_plugin = (
        number_beyond(_in_segments(case, in_store, partial(_has_form, case, forms[:end])), held) for end in (1, 2)
    )
    is_open = case.options.remote is not None
    return RemoteLoss(
        records=records,
        unread=records - readable if is_open else 0,
        encrypted=with_plugin - readable if is_open else 0,
        deleted=number_beyond(_deleted_as_it_leads(case, candidate, in_store), held),
        basis=_shares(case, in_store, held, records),
    )


def _in_store(case: Case, lost: Iterable[CommittedRange]) -> list[CommittedRange]:
    """The parts of `lost` that the remote store still has, undamaged as far as it was read."""
    copied = list(_copied(case))
    there = _by_epoch((epoch, one) for _, epoch, _, sound in copied for one in sound)
    gone = _by_epoch(
        (epoch, one) for _, epoch, own, _ in copied for one in there.get(epoch, _NOTHING).missing_from([own])
    )
    found = []
    for item in lost:
        left = _missing(item, gone)
        found += [item] if left == [item.span] else [item.between(*one) for one in left]
    return found


def _deleted_as_it_leads(
    case: Case, candidate: ReplicaFacts, in_store: Sequence[CommittedRange]
) -> Iterator[CommittedRange]:
    """The parts of `in_store` that Kafka deletes once the candidate leads, regardless of retention: segments all of whose
    epochs precede the leader's first (J4). A log without records begins with the epoch in which it leads."""
    served = _served(candidate) if in_store else []
    if not served:
        yield from in_store
        return
    first = served[0][0]
    staying = _by_epoch(
        (epoch, own) for segment, epoch, own, _ in _copied(case) if max(epoch for epoch, _ in segment.epochs) >= first
    )
    for item in in_store:
        if or_absent(item.leader_epoch) < first:
            yield from (item.between(*one) for one in _missing(item, staying))


def _shares(
    case: Case, in_store: Sequence[CommittedRange], held: ByIdentity, records: int
) -> tuple[tuple[RemoteBasis, int], ...]:
    """(basis, number) of the `records` that remote storage has of `in_store`, weakest basis first; each record counts by its strongest."""
    if not records:
        return ()
    found = []
    counted = 0
    for at in range(len(REMOTE_BASES) - 1, 0, -1):
        known = _in_segments(case, in_store, partial(_has_basis, case, REMOTE_BASES[at:]))
        up_to = number_beyond(known, held)
        found.append((REMOTE_BASES[at], up_to - counted))
        counted = up_to
    found.append((REMOTE_BASES[0], records - counted))
    return tuple((basis, number) for basis, number in reversed(found) if number)


def _stored(case: Case) -> Iterator[tuple[int, list[OffsetRange], bool]]:
    """(epoch, offsets, True if known from segments) of the contents of remote storage: the copied segments, and what else the
    reference has deleted from its files."""
    told: dict[int, list[OffsetRange]] = defaultdict(list)
    for _, epoch, own, _ in _copied(case):
        told[epoch].append(own)
    for epoch, ranges in told.items():
        yield epoch, ranges, True
    if not case.is_tiered:
        return
    facts = case.reference.facts
    holes = case.remote.holes.ranges
    lineage = answering_lineage(facts, tiered=True)
    for start, end, epoch in epoch_parts(lineage, facts.log_start_offset, facts.local_start_offset):
        yield epoch, without([OffsetRange(start, end)], (*holes, *told.get(epoch, ()))), False


def _served(candidate: ReplicaFacts) -> list[tuple[int, OffsetRange]]:
    """(epoch, offsets) of the candidate's whole log; its remote part by the epoch file, if that covers it."""
    end = candidate.following_end_offset
    entries = [*answering_lineage(candidate, tiered=True).truncate_from_end(end), (-1, end)]
    return [(epoch, OffsetRange(start, stop)) for (epoch, start), (_, stop) in pairwise(entries)]


def _marked(part: OffsetRange, epoch: int, is_counted: bool) -> CommittedRange:
    start = part.start_offset
    end = part.end_offset
    piece = RecordRange(REMOTE, (epoch,), start, end, end - start, end, 0, exact=is_counted)
    return CommittedRange(piece, end, epoch)


def _copied(case: Case) -> Iterator[tuple[RemoteSegment, int, OffsetRange, list[OffsetRange]]]:
    """(segment, epoch, offsets, those that the store still has undamaged as far as it was read) of each stretch of a copied segment."""
    for segment in case.remote.sound:
        is_gone = segment.segment_id in case.store.gone
        damaged = case.store.damaged.get(segment.segment_id, ())
        for start, end, epoch in stretches(segment) if segment.state == COPY_FINISHED else ():
            own = OffsetRange(start, end)
            yield segment, epoch, own, [] if is_gone else without([own], damaged)


def _in_segments(
    case: Case, in_store: Iterable[CommittedRange], is_wanted: Callable[[RemoteSegment], bool]
) -> Iterator[CommittedRange]:
    """Parts of `in_store` that the store has in one of the wanted segments."""
    wanted = _by_epoch(
        (epoch, one) for segment, epoch, _, sound in _copied(case) if is_wanted(segment) for one in sound
    )
    for item in in_store:
        known = wanted.get(or_absent(item.leader_epoch), _NOTHING)
        yield from (item.between(*one) for one in known.shared_with([item.span]))


def _by_epoch(found: Iterable[tuple[int, OffsetRange]]) -> dict[int, OffsetSet]:
    ranges: dict[int, list[OffsetRange]] = defaultdict(list)
    for epoch, one in found:
        ranges[epoch].append(one)
    return {epoch: OffsetSet.of(own) for epoch, own in ranges.items()}


def _missing(item: CommittedRange, of_epoch: Mapping[int, OffsetSet]) -> list[OffsetRange]:
    """Offsets of a range that the set of its epoch lacks."""
    return of_epoch.get(or_absent(item.leader_epoch), _NOTHING).missing_from([item.span])


def _has_form(case: Case, forms: Collection[StoredForm], segment: RemoteSegment) -> bool:
    return case.store.forms.get(segment.segment_id) in forms


def _has_basis(case: Case, bases: Collection[RemoteBasis], segment: RemoteSegment) -> bool:
    return case.store.basis_of(segment.segment_id) in bases
