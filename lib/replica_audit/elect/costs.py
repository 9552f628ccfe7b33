"""The cost matrix: for each replica as leader, what every other one keeps and drops, and what no log holds any more (H.1).

A leader finds a remote segment by the epoch that its own epoch file has for an offset, between its log start and its log end
(`RemoteLogManager.fetchRemoteLogSegmentMetadata`, KIP-405): records there of another epoch, or past its end, cannot be read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from replica_audit.auditing.case import Case
from replica_audit.auditing.compare.distinct_records import ByIdentity, Count, RecordRange, by_identity, count_beyond
from replica_audit.auditing.compare.loaded_batches import LoadedBatches
from replica_audit.auditing.compare.record_comparison import RecordSource
from replica_audit.auditing.compare.remote_storage import REMOTE, epoch_parts, stretches
from replica_audit.auditing.compare.replays import answering_lineage, replay_lineage
from replica_audit.auditing.compare.tallies import Tally
from replica_audit.auditing.conclude import PartitionAudit
from replica_audit.auditing.findings.rep import brokers_past_leader
from replica_audit.auditing.replicas.lost_tails import is_tail_lost
from replica_audit.auditing.replicas.replica_facts import CopyKey, ReplicaFacts
from replica_audit.batch_header import or_absent
from replica_audit.elect.cut_transactions import CandidateTransactions, MarkerReader
from replica_audit.elect.held_records import CommittedRange, ReplicaRecords, as_possible, holding
from replica_audit.literals import REMOTE_BASES, SEEN, RemoteBasis, StoredForm
from replica_audit.model import OffsetRange, OffsetSet, RemoteSegment, without
from replica_audit.snapshot.remote_log_metadata import COPY_FINISHED

_NOTHING = OffsetSet.of(())


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


def _vanished(case: Case, candidate: ReplicaFacts, *, stays: bool) -> Iterator[CommittedRange]:
    """Records of segments that remote storage never had completely, or has deleted, and that the candidate's log lacks entirely."""
    vanished = case.lost_remotely.vanished
    served = _served(candidate) if vanished and not stays else []
    for one in vanished:
        item = CommittedRange(one.piece, one.end_offset, one.leader_epoch)
        own = [known for epoch, known in served if epoch == one.leader_epoch]
        whole = OffsetRange(one.start_offset, one.end_offset)
        yield from (item.between(part.start_offset, part.end_offset) for part in without([whole], own))


def in_holes(
    case: Case, candidate: ReplicaFacts, kept: Iterable[CommittedRange]
) -> tuple[list[CommittedRange], list[CommittedRange]]:
    """(inside, outside) of the ranges that another replica keeps: inside are those that neither the candidate's files nor
    remote storage have."""
    gap = case.remote.gaps.get(candidate.broker_id)
    holes = case.remote.holes.ranges if gap is None else (*case.remote.holes.ranges, gap)
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
            outside += [item.between(one.start_offset, one.end_offset) for one in (*left, rest) if len(one)]
            inside += [item.between(one.start_offset, one.end_offset) for one in without([span], left)]
    return inside, outside


def _stored(case: Case) -> Iterator[tuple[int, list[OffsetRange], bool]]:
    """(epoch, offsets, True if known from segments) of the contents of remote storage: the copied segments, and what else the
    reference has deleted from its files."""
    told: dict[int, list[OffsetRange]] = {}
    for segment in case.remote.sound:
        if segment.state == COPY_FINISHED:
            for start, end, epoch in stretches(segment):
                told.setdefault(epoch, []).append(OffsetRange(start, end))
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


class FollowerCost(NamedTuple):
    """The records that one replica keeps and drops under a candidate; the candidate itself keeps [its log start, `kept_to`)."""

    broker_id: int
    kept_to: int
    dropped: Tally = Tally()
    committed_dropped: int = 0
    lost_held: int = 0
    """Records that no log holds afterwards and this one held."""


class CopyBeside(NamedTuple):
    """A copy that neither leads nor follows, such as one in a -future or -stray directory."""

    facts: ReplicaFacts
    start_offset: int
    """Offset at which it parts from the candidate's log."""
    lost_held: int
    """Records that it holds and no log does any more."""


class CandidateCost(NamedTuple):
    """The outcome once one replica leads and all others have followed it."""

    facts: ReplicaFacts
    followers: tuple[FollowerCost, ...]
    """Every replica, including the candidate, by broker id."""
    lost_records: int
    """Distinct records that no log holds any more."""
    lost_committed: int
    """Lost records that are proven committed."""
    lost_possible: int
    """Further lost records that may have been committed."""
    lost_at_most: bool
    """True if the numbers are upper bounds: some records are known by their offsets only."""
    cut_transactions: int
    """Transactions of which the candidate has a part and loses a possibly committed part: data or the marker. Also counted if
    the candidate's own marker aborts what another log commits."""
    only_here: int
    """Records that no other replica holds, nor remote storage as far as its objects were seen."""
    hidden_records: int = 0
    """Records that the candidate lacks and another replica keeps unseen: no truncation detects them."""
    remote_records: int = 0
    """Lost records that remote storage still has."""
    remote_unread: int = 0
    """Records of `remote_records` in no segment that salvage can read in the given store; 0 without a store."""
    remote_encrypted: int = 0
    """Records of `remote_unread` that only the brokers' plugin can read."""
    remote_deleted: int = 0
    """Records of `remote_records` that Kafka deletes once the candidate leads, regardless of retention (J4)."""
    remote_basis: tuple[tuple[RemoteBasis, int], ...] = ()
    """Evidence that remote storage has `remote_records`, each with its number of records, weakest first."""
    beside: tuple[CopyBeside, ...] = ()
    """Copies that neither lead nor follow and hold some of what is lost."""

    @property
    def broker_id(self) -> int:
        return self.facts.broker_id

    @property
    def lost_acknowledged(self) -> int:
        """Lost records that may have been acknowledged with acks=all."""
        return self.lost_committed + self.lost_possible


def candidate_costs(
    audit: PartitionAudit, batches: Mapping[CopyKey, np.ndarray], read: RecordSource | None = None
) -> tuple[CandidateCost, ...]:
    """The costs of every replica as leader, by broker id, under the audit's protocol; empty without a case.

    `batches` (`BATCH_DTYPE`) are those that the plan asked for. Without `read` the markers of transactions are not compared.
    """
    case = audit.case
    if case is None:
        return ()
    shorter = brokers_past_leader(audit.findings)
    is_doubtful = may_have_lost_tail(case)
    candidates = case.candidates
    cuts = candidates.cuts
    found = holdings_of(case, batches)
    holdings = {facts.broker_id: found[facts.key] for facts in candidates.replicas}
    aside = [found[facts.key] for facts in candidates.beside]
    costs = []
    markers = MarkerReader(read)
    for facts in candidates.replicas:
        cost = _cost(case, facts, holdings, aside, cuts.as_found[facts.key], shorter, is_doubtful, markers)
        if facts.may_recover:
            recovered = cuts.recovered[facts.key]
            after = _cost(case, facts.recovering, holdings, aside, recovered, shorter, is_doubtful, markers)
            cost = _or_recovered(cost, after)
        costs.append(cost)
    return tuple(costs)


def _or_recovered(cost: CandidateCost, recovered: CandidateCost) -> CandidateCost:
    """The cost of a candidate whose next start may cut its log: records lost only by that cut are possibly lost."""
    if (recovered.lost_records, recovered.cut_transactions) <= (cost.lost_records, cost.cut_transactions):
        return cost
    return recovered._replace(
        facts=cost.facts,
        lost_committed=cost.lost_committed,
        lost_possible=max(cost.lost_possible, recovered.lost_acknowledged - cost.lost_committed),
        lost_at_most=True,
    )


def holdings_of(case: Case, batches: Mapping[CopyKey, np.ndarray]) -> dict[CopyKey, ReplicaRecords]:
    """Records of each replica and of each other copy, by copy."""
    loaded = LoadedBatches.of(batches)
    found = {}
    for facts in case.candidates.copies:
        chunks = frozenset(case.candidates.chunks.get(facts.key, ()))
        found[facts.key] = holding(case, facts, loaded.batches_of(facts, chunks), chunks)
    return found


def committed_ranges(case: Case, batches: Mapping[CopyKey, np.ndarray]) -> dict[CopyKey, list[tuple[int, int]]]:
    """Ranges [start, end) of proven committed records, by copy; `batches` as for `candidate_costs`."""
    return {
        key: [(item.piece.start_offset, min(item.piece.committed_end, item.piece.end_offset)) for item in one.marked]
        for key, one in holdings_of(case, batches).items()
    }


def may_have_lost_tail(case: Case) -> bool:
    """True if the reference may have lost its tail, so that its short log need not be due to an earlier copy: its broker was
    killed, its own checkpoints lie past the end, or log and epoch file are empty, which is all that shows that they are earlier."""
    facts = case.reference.facts
    is_blank = case.reference.predates and facts.empty and not facts.directory.checkpoint_epochs
    if facts.killed or facts.may_have_lost_tail or is_blank:
        return True
    recovery_point = facts.directory.recovery_point_checkpoint
    flushed = recovery_point is not None and not facts.end_is_open and recovery_point > facts.log_end_offset
    return flushed or is_tail_lost(case.reference, case.replicas, facts)


def _cost(
    case: Case,
    candidate: ReplicaFacts,
    holdings: Mapping[int, ReplicaRecords],
    aside: Sequence[ReplicaRecords],
    cuts_of: Mapping[CopyKey, int],
    shorter: Collection[int],
    is_doubtful: bool,
    markers: MarkerReader,
) -> CandidateCost:
    own = holdings[candidate.broker_id]
    cuts = _cuts(case, candidate, holdings, cuts_of)
    end = cuts[candidate.broker_id]
    stays = candidate.key == case.reference.facts.key and case.reference.leader_id == candidate.broker_id
    logs = {
        broker: follow(case, candidate, holdings[broker], cut, stays and broker not in shorter, is_doubtful)
        for broker, cut in cuts.items()
    }
    beside = {
        one.facts.key: list(_beside(candidate, one, stays and not case.is_lost_tail(item), is_doubtful))
        for item, one in zip(case.beside, aside, strict=True)
    }
    transactions = CandidateTransactions.of(case, candidate, own, end, markers)
    cut_producers: set[int] = set()
    for broker, cut in cuts.items():
        may_be_newer = stays and broker not in shorter and not is_doubtful
        cut_producers.update(transactions.cut_in(holdings[broker], cut, may_be_newer))
    for item, one in zip(case.beside, aside, strict=True):
        may_be_newer = stays and not is_doubtful and not case.is_lost_tail(item)
        cut_producers.update(transactions.cut_in(one, cuts_of[one.facts.key], may_be_newer))
    mine = own.parted(end)[0]
    kept = [*mine, *(item for log in logs.values() for item in log.held)]
    held = _pieces(kept)
    remote = unserved(case, candidate, stays=stays)
    lost = [item for log in logs.values() for item in log.dropped]
    lost += [*(item for items in beside.values() for item in items), *remote, *_vanished(case, candidate, stays=stays)]
    count, at_most = _count(lost, held)
    possible, _ = count_beyond(as_possible(lost), by_identity(as_possible(kept if lost else ())))
    cost = CandidateCost(
        facts=candidate,
        followers=tuple(
            FollowerCost(
                broker_id=broker,
                kept_to=cuts[broker],
                dropped=holdings[broker].dropped(cuts[broker]),
                committed_dropped=logs[broker].committed_dropped,
                lost_held=_count(logs[broker].dropped, held)[0].records,
            )
            for broker in sorted(cuts)
        ),
        lost_records=count.records,
        lost_committed=count.committed,
        lost_possible=max(0, possible.committed - count.committed),
        lost_at_most=at_most or any(one.facts.compacted for one in holdings.values()) and count.records > 0,
        cut_transactions=len(cut_producers),
        only_here=_only_here(case, own, holdings, aside),
        beside=tuple(
            CopyBeside(one.facts, max(cuts_of[one.facts.key], one.facts.log_start_offset), held_there)
            for one in aside
            if (held_there := _count(beside[one.facts.key], held)[0].records)
        ),
        hidden_records=_count((item for log in logs.values() for item in log.hidden), _pieces(mine))[0].records,
    )
    return _with_stored(case, cost, remote, held) if remote else cost


def _with_stored(
    case: Case, cost: CandidateCost, unserved_ranges: Iterable[CommittedRange], held: ByIdentity
) -> CandidateCost:
    """The cost with what remote storage still has of the lost records."""
    in_store = _in_store(case, unserved_ranges)
    records = _count(in_store, held)[0].records
    forms: tuple[StoredForm, ...] = ("readable", "encrypted")
    readable, with_plugin = (
        _count(_in_segments(case, in_store, partial(_has_form, case, forms[:end])), held)[0].records for end in (1, 2)
    )
    is_open = case.options.remote is not None
    return cost._replace(
        remote_records=records,
        remote_unread=records - readable if is_open else 0,
        remote_encrypted=with_plugin - readable if is_open else 0,
        remote_deleted=_count(_deleted_as_it_leads(case, cost.facts, in_store), held)[0].records,
        remote_basis=_shares(case, in_store, held, records),
    )


def _in_store(case: Case, unserved_ranges: Iterable[CommittedRange]) -> list[CommittedRange]:
    """The parts of `unserved` that the remote store still has, undamaged as far as it was read."""
    there: dict[int, list[OffsetRange]] = {}
    absent: dict[int, list[OffsetRange]] = {}
    for _, epoch, own, sound in _copied(case):
        there.setdefault(epoch, []).extend(sound)
        absent.setdefault(epoch, []).extend(without([own], sound))
    gone = {epoch: OffsetSet.of(without(ranges, there.get(epoch, ()))) for epoch, ranges in absent.items()}
    found = []
    for item in unserved_ranges:
        left = _missing(item, gone)
        found += [item] if left == [item.span] else [item.between(one.start_offset, one.end_offset) for one in left]
    return found


def _deleted_as_it_leads(
    case: Case, candidate: ReplicaFacts, in_store: Sequence[CommittedRange]
) -> Iterator[CommittedRange]:
    """The parts of `in_store` that Kafka deletes once the candidate leads, regardless of retention: segments all of whose
    epochs precede the leader's first (J4). A log without records begins with the epoch in which it leads."""
    served = _served(candidate) if in_store else []
    first = served[0][0] if served else None
    staying: dict[int, list[OffsetRange]] = {}
    for segment in case.remote.sound:
        if first is not None and segment.state == COPY_FINISHED and max(epoch for epoch, _ in segment.epochs) >= first:
            for start, end, epoch in stretches(segment):
                staying.setdefault(epoch, []).append(OffsetRange(start, end))
    for item in in_store:
        epoch = or_absent(item.leader_epoch)
        if first is None or epoch < first:
            left = without([item.span], staying.get(epoch, ()))
            yield from (item.between(one.start_offset, one.end_offset) for one in left)


def _copied(case: Case) -> Iterator[tuple[RemoteSegment, int, OffsetRange, list[OffsetRange]]]:
    """(segment, epoch, offsets, those that the store still has undamaged as far as it was read) of each stretch of a copied segment."""
    for segment in case.remote.sound:
        is_gone = segment.segment_id in case.store.gone
        for start, end, epoch in stretches(segment) if segment.state == COPY_FINISHED else ():
            own = OffsetRange(start, end)
            yield (
                segment,
                epoch,
                own,
                [] if is_gone else without([own], case.store.damaged.get(segment.segment_id, ())),
            )


def _in_segments(
    case: Case, in_store: Iterable[CommittedRange], is_wanted: Callable[[RemoteSegment], bool]
) -> Iterator[CommittedRange]:
    """Parts of `in_store` that the store has in one of the wanted segments."""
    there: dict[int, list[OffsetRange]] = {}
    for segment, epoch, _, sound in _copied(case):
        if is_wanted(segment):
            there.setdefault(epoch, []).extend(sound)
    of_epoch = {epoch: OffsetSet.of(ranges) for epoch, ranges in there.items()}
    for item in in_store:
        known = of_epoch.get(or_absent(item.leader_epoch), _NOTHING)
        yield from (item.between(one.start_offset, one.end_offset) for one in known.shared_with([item.span]))


def _missing(item: CommittedRange, of_epoch: Mapping[int, OffsetSet]) -> list[OffsetRange]:
    """Offsets of a range that the set of its epoch lacks."""
    return of_epoch.get(or_absent(item.leader_epoch), _NOTHING).missing_from([item.span])


def _has_form(case: Case, forms: Collection[StoredForm], segment: RemoteSegment) -> bool:
    return case.store.forms.get(segment.segment_id) in forms


def _has_basis(case: Case, bases: Collection[RemoteBasis], segment: RemoteSegment) -> bool:
    return case.store.basis_of(segment.segment_id) in bases


def _shares(
    case: Case, in_store: Sequence[CommittedRange], held: ByIdentity, records: int
) -> tuple[tuple[RemoteBasis, int], ...]:
    """(basis, records) of the `records` that remote storage has of `in_store`, weakest basis first, each by the strongest that it has."""
    if not records:
        return ()
    found = []
    counted = 0
    for at in range(len(REMOTE_BASES) - 1, 0, -1):
        known = _in_segments(case, in_store, partial(_has_basis, case, REMOTE_BASES[at:]))
        up_to = _count(known, held)[0].records
        found.append((REMOTE_BASES[at], up_to - counted))
        counted = up_to
    found.append((REMOTE_BASES[0], records - counted))
    return tuple((basis, number) for basis, number in reversed(found) if number)


class _FollowingLog(NamedTuple):
    """Records of one replica under a candidate."""

    held: list[CommittedRange]
    """Kept by a replica other than the candidate."""
    hidden: list[CommittedRange]
    """Kept here, and possibly missing on the candidate."""
    dropped: list[CommittedRange]
    """Lost here, except what retention, DeleteRecords or a cleaner deleted."""
    committed_dropped: int
    """Number of proven committed records above its cut."""


def follow(
    case: Case, candidate: ReplicaFacts, log: ReplicaRecords, cut: int, may_have: bool, is_doubtful: bool
) -> _FollowingLog:
    """Records that a replica keeps and loses as it follows `candidate`; for the candidate itself, those that its own start cuts.

    | where its records lie | they are |
    |---|---|
    | below the cut, where neither candidate nor remote storage has any, and it begins anew | dropped |
    | the same, and it goes on | held and hidden |
    | elsewhere below the cut | held; hidden too above the candidate's local log start, unless a log is compacted |
    | above the cut, below the candidate's log start | deleted |
    | above the cut, where a cleaner has been on a log of the same lineage | deleted |
    | elsewhere above the cut | dropped, as `lost_past_end` counts it |

    What lies past the end of a leader that `may_have` it is not hidden from it.
    """
    kept, gone = log.parted(cut)
    is_other = log.facts.broker_id != candidate.broker_id
    hidden: list[CommittedRange] = []
    if is_other:
        stranded, kept = in_holes(case, candidate, kept)
        if cut < candidate.local_start_offset:
            gone = gone + stranded
        else:
            hidden = stranded
            kept = kept + stranded
    is_compacted = candidate.compacted or log.facts.compacted
    if is_other and not is_compacted:
        unseen = (item for item in kept if not (may_have and item.is_ahead))
        hidden = [*hidden, *filter(None, (item.above(candidate.local_start_offset) for item in unseen))]
    dropped = []
    for item in gone:
        counted = lost_past_end(item, may_have, is_doubtful or case.reference.is_before(item.leader_epoch))
        # The log start cuts a batch: its beginning was deleted.
        part = None if counted is None else counted.above(candidate.log_start_offset)
        if part is not None and not (is_compacted and _was_cleaned(candidate, part)):
            dropped.append(part)
    return _FollowingLog(kept if is_other else [], hidden, dropped, _count(gone)[0].committed)


def lost_past_end(item: CommittedRange, may_have: bool, is_doubtful: bool) -> CommittedRange | None:
    """Count a range that a copy holds and the candidate lacks as lost or not, if the candidate already leads.

    | past the leader's end | the leader may have it: it was copied earlier | that is doubtful | counts |
    |---|---|---|---|
    | no | | | whole |
    | yes | no | | whole |
    | yes | yes | no | not at all |
    | yes | yes | yes | as possibly committed |
    """
    if not (item.is_ahead and may_have):
        return item
    return item.unproven() if is_doubtful else None


def _only_here(
    case: Case, own: ReplicaRecords, holdings: Mapping[int, ReplicaRecords], aside: Sequence[ReplicaRecords]
) -> int:
    """Records that neither another replica holds nor an object of remote storage that was seen; a copy about to be deleted does
    not count."""
    others = [one for one in holdings.values() if one is not own]
    others += [one for one in aside if not one.facts.is_about_to_go]
    cleaned = [one.facts for one in others if one.facts.compacted]
    own_items = [item for item in own.marked if not any(_was_cleaned(facts, item) for facts in cleaned)]
    beyond = list(_beyond_store(case, own_items))
    return _count(beyond, _pieces(item for one in others for item in one.marked))[0].records


def _beyond_store(case: Case, items: Iterable[CommittedRange]) -> Iterator[CommittedRange]:
    """Parts of `items` in no segment of the reference's history whose objects were seen, and from which readers get them (J3)."""
    there: dict[int, list[OffsetRange]] = {}
    log_end = case.reference.facts.log_end_offset
    for segment, epoch, _, sound in _copied(case):
        for part in sound if _has_basis(case, SEEN, segment) else ():
            start, end = max(part.start_offset, case.remote.start_offset), min(part.end_offset, log_end)
            parts = epoch_parts(case.remote.lineage, start, end)
            there.setdefault(epoch, []).extend(OffsetRange(first, last) for first, last, had in parts if had == epoch)
    of_epoch = {epoch: OffsetSet.of(ranges) for epoch, ranges in there.items()}
    for item in items:
        left = _missing(item, of_epoch)
        if left and (left == [item.span] or not item.is_plain):
            yield item
        else:
            yield from (item.between(one.start_offset, one.end_offset) for one in left)


def _beside(
    candidate: ReplicaFacts, holding: ReplicaRecords, may_have: bool, is_doubtful: bool
) -> Iterator[CommittedRange]:
    """Records above the candidate's local log start that are lost with it, in a copy that neither leads nor follows."""
    is_compacted = holding.facts.compacted or candidate.compacted
    for one in holding.marked:
        part = one.above(candidate.local_start_offset)
        counted = None if part is None else lost_past_end(part, may_have, is_doubtful)
        if counted is not None and not (is_compacted and _was_cleaned(candidate, counted)):
            yield counted


def _cuts(
    case: Case,
    candidate: ReplicaFacts,
    holdings: Mapping[int, ReplicaRecords],
    cuts: Mapping[CopyKey, int],
) -> dict[int, int]:
    """Log end of each broker once the candidate leads. Under the reference it is the audit's own result, unless the reference's
    own start cuts its log first."""
    own = {candidate.broker_id: candidate.following_end_offset}
    if candidate is case.reference.facts and candidate.following_end_offset >= candidate.log_end_offset:
        return own | {item.follower.broker_id: item.replays[case.options.protocol].kept_to for item in case.comparisons}
    return own | {broker: cuts[one.facts.key] for broker, one in holdings.items() if broker != candidate.broker_id}


def _count(items: Iterable[CommittedRange], held: ByIdentity = MappingProxyType({})) -> tuple[Count, bool]:
    return count_beyond((item.piece for item in items), held)


def _pieces(items: Iterable[CommittedRange]) -> ByIdentity:
    return by_identity(item.piece for item in items)


def _was_cleaned(facts: ReplicaFacts, item: CommittedRange) -> bool:
    """True if a compacted log had the records too, by its lineage: its cleaner removed them, not an election."""
    piece = item.piece
    epoch = item.leader_epoch
    if epoch is None or piece.end_offset > facts.log_end_offset:
        return False
    return replay_lineage(facts, tiered=False).epoch_for_offset(piece.start_offset) == epoch
