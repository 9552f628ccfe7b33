"""The cost of each choice of leader: the records that every other replica keeps and drops, and those that no log holds any more (H.1)."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from replica_audit.auditing.case import Case
from replica_audit.auditing.catalogue import leaves_commitment_open
from replica_audit.auditing.compare.distinct_records import ByIdentity, by_identity, count_beyond
from replica_audit.auditing.compare.loaded_batches import LoadedBatches
from replica_audit.auditing.compare.record_comparison import RecordSource
from replica_audit.auditing.compare.replays import lacked_below_start, replay_lineage
from replica_audit.auditing.conclude import PartitionAudit
from replica_audit.auditing.findings.rep import brokers_past_leader
from replica_audit.auditing.replicas.lost_tails import is_tail_lost
from replica_audit.auditing.replicas.replica_facts import CopyKey, ReplicaFacts
from replica_audit.elect.cut_transactions import CandidateTransactions, MarkerReader
from replica_audit.elect.held_records import (
    CommittedRange,
    ReplicaRecords,
    as_possible,
    count_ranges,
    holding,
    number_beyond,
    ranges_by_identity,
    span_beyond,
)
from replica_audit.elect.remote_costs import RemoteLoss, beyond_store, in_holes, remote_loss, unserved, vanished
from replica_audit.model import OffsetRange
from replica_audit.segments.batch_rows import Tally


class FollowerCost(NamedTuple):
    """The records that one replica keeps and drops under a candidate; the candidate itself keeps [its log start, `kept_to`)."""

    broker_id: int
    kept_to: int
    dropped: Tally = Tally()
    committed_dropped: int = 0
    lost_held: int = 0
    """Records that no log holds afterwards and this one held."""
    lost_from: int | None = None
    """First offset of these records; None if it held none."""
    lacked_records: int = 0
    """Records of the candidate that this replica lacks below its cut, where no truncation detects it: its hole."""


class CopyBeside(NamedTuple):
    """A copy that neither leads nor follows, such as one in a -future or -stray directory."""

    facts: ReplicaFacts
    span: OffsetRange
    """From the first to the last of the lost records that it holds."""
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
    remote: RemoteLoss = RemoteLoss()
    """Lost records that remote storage still has."""
    beside: tuple[CopyBeside, ...] = ()
    """Copies that neither lead nor follow and hold some of what is lost."""
    is_only_likely: bool = False
    """True if it is likely, not proven, that all of `lost_committed` were committed."""

    @property
    def broker_id(self) -> int:
        return self.facts.broker_id

    @property
    def lost_acknowledged(self) -> int:
        """Lost records that may have been acknowledged with acks=all."""
        return self.lost_committed + self.lost_possible


def candidate_costs(
    audit: PartitionAudit, batches: Mapping[CopyKey, NDArray[np.void]], read: RecordSource | None = None
) -> tuple[CandidateCost, ...]:
    """The costs of every replica as leader, by broker id, under the audit's protocol; empty without a case.

    `batches` (`BATCH_DTYPE`) are those that the plan asked for. Without `read` the markers of transactions are not compared.
    """
    case = audit.case
    if case is None:
        return ()
    candidates = case.candidates
    cuts = candidates.cuts
    as_copied = _copies_of(audit, case, batches, read)
    unbounded = _if_fetched_on(case)
    by_now = as_copied if unbounded is None else _copies_of(audit, unbounded, batches, read)

    def cost_under(facts: ReplicaFacts, cuts_of: Mapping[CopyKey, int]) -> CandidateCost:
        is_whole = facts.following_end_offset >= facts.log_end_offset
        item = case.comparison_of(facts)
        is_alike = item is None or item.diverging_suffix is None
        is_bound = is_alike and facts.broker_id in case.high_watermark.bounding_brokers
        has_all = is_whole and is_bound and not case.reference.is_replaced
        return (as_copied if has_all else by_now).cost_under(facts, cuts_of)

    costs = []
    for facts in candidates.replicas:
        cost = cost_under(facts, cuts.as_found[facts.key])
        if facts.may_recover:
            cost = greater_cost(cost, cost_under(facts.recovering, cuts.recovered[facts.key]))
        if cuts.raised:
            cost = greater_cost(cost, cost_under(facts.raised, cuts.raised[facts.key]))
        costs.append(cost)
    return tuple(costs)


def greater_cost(cost: CandidateCost, other: CandidateCost) -> CandidateCost:
    """The greater of two possible costs, e.g. of a candidate whose next start may cut its log: what only one of them
    loses counts as possibly lost."""
    less, more = sorted((cost, other), key=lambda one: (one.lost_records, one.cut_transactions, one.hidden_records))
    committed = min(cost.lost_committed, other.lost_committed)
    acknowledged = max(cost.lost_acknowledged, other.lost_acknowledged)
    found = (cost.lost_records, cost.lost_committed, cost.lost_acknowledged, cost.cut_transactions, cost.hidden_records)
    if found == (more.lost_records, committed, acknowledged, more.cut_transactions, more.hidden_records):
        return cost
    return more._replace(
        facts=cost.facts,
        lost_committed=committed,
        is_only_likely=less.is_only_likely,
        lost_possible=acknowledged - committed,
        lost_at_most=True,
    )


def _copies_of(
    audit: PartitionAudit, case: Case, batches: Mapping[CopyKey, NDArray[np.void]], read: RecordSource | None
) -> _Copies:
    found = holdings_of(case, batches)
    return _Copies(
        case,
        {facts.broker_id: found[facts.key] for facts in case.candidates.replicas},
        [found[facts.key] for facts in case.candidates.beside],
        brokers_past_leader(audit.findings),
        may_have_lost_tail(case),
        {one.broker_id for one in audit.findings if leaves_commitment_open(one)},
        MarkerReader(read),
    )


def _if_fetched_on(case: Case) -> Case | None:
    """The case without an upper bound of the high watermark, if the replica whose log end is that bound may have more by now: its broker
    may run, and the copies are not of one moment.

    Under a candidate whose end bounds it the bound holds: what was committed since, it has. Not if its next start cuts its log, nor if
    it conflicts with the reference, nor if that was copied before it led, or was cut: either copy may be of before what was lost since.
    """
    mark = case.high_watermark
    limiting = [one for one in case.replicas if one.broker_id == mark.limiting_broker_id]
    if case.tail.one_moment or all(one.is_at_rest for one in limiting):
        return None
    return replace(case, high_watermark=mark._replace(hw_upper=None))


def holdings_of(case: Case, batches: Mapping[CopyKey, NDArray[np.void]]) -> dict[CopyKey, ReplicaRecords]:
    """Records of each replica and of each other copy, by copy."""
    loaded = LoadedBatches.of(batches)
    found = {}
    for facts in case.candidates.copies:
        chunks = frozenset(case.candidates.chunks.get(facts.key, ()))
        found[facts.key] = holding(case, facts, loaded.batches_of(facts, chunks), chunks)
    return found


def committed_ranges(case: Case, batches: Mapping[CopyKey, NDArray[np.void]]) -> dict[CopyKey, list[tuple[int, int]]]:
    """Ranges [start, end) of proven committed records, by copy; `batches` as for `candidate_costs`."""
    return {
        key: [(item.piece.start_offset, min(item.piece.committed_end, item.piece.end_offset)) for item in one.marked]
        for key, one in holdings_of(case, batches).items()
    }


def may_have_lost_tail(case: Case) -> bool:
    """True if the reference may have lost its tail, or lacks it, so that a short log does not mean an earlier copy:
    its broker was killed, or may have been; its copy may be the later one; its checkpoints lie past the end; log and
    epoch file are empty, the only sign of an earlier copy; or an election since may have left out what others have, as
    where a copy knows a later epoch than the one in which it leads."""
    facts = case.reference.facts
    if case.later_epoch is not None or any(map(case.tail.may_be_lost, case.comparisons)):
        return True
    if case.leadership is not None and facts.broker_id in case.leadership.perhaps_down:
        return True
    if facts.killed or facts.may_have_lost_tail or facts.blank or case.reference.may_lack_others:
        return True
    recovery_point = facts.directory.recovery_point_checkpoint
    flushed = recovery_point is not None and not facts.end_is_open and recovery_point > facts.log_end_offset
    return flushed or is_tail_lost(case.reference, case.replicas, facts)


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
    | below the candidate's log start, where it never had them (`lacked_below_start`) | dropped |
    | elsewhere below the cut | held; hidden too above the candidate's local log start, unless a log is compacted |
    | elsewhere above the cut, below the candidate's log start | deleted |
    | above the cut, where a cleaner has been on a log of the same lineage | deleted |
    | elsewhere above the cut | dropped, as `lost_past_end` counts it |

    What lies past the end of a leader that `may_have` it is not hidden from it.
    """
    kept, gone = log.parted(cut)
    is_other = log.facts.broker_id != candidate.broker_id
    floor = candidate.log_start_offset
    hidden: list[CommittedRange] = []
    if is_other:
        if lacked := lacked_below_start(candidate, log.facts):
            # A follower takes over its leader's log start.
            floor = lacked.start_offset
            gone = [*(item for item in kept if lacked.holds(item.piece.start_offset)), *gone]
            kept = [item for item in kept if not lacked.holds(item.piece.start_offset)]
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
        counted = lost_past_end(item, may_have, is_doubtful)
        # The log start cuts a batch: its beginning was deleted.
        part = None if counted is None else counted.above(floor)
        if part is not None and not (is_compacted and _was_cleaned(candidate, part)):
            dropped.append(part)
    return _FollowingLog(kept if is_other else [], hidden, dropped, count_ranges(gone)[0].committed)


def lost_past_end(item: CommittedRange, may_have: bool, is_doubtful: bool) -> CommittedRange | None:
    """The part of a range that counts as lost, if a copy holds it and the candidate, which already leads, lacks it:

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


def _lost_beside(
    candidate: ReplicaFacts, holding: ReplicaRecords, may_have: bool, is_doubtful: bool
) -> Iterator[CommittedRange]:
    """Records above the candidate's local log start that are lost with it, in a copy that neither leads nor follows."""
    is_compacted = holding.facts.compacted or candidate.compacted
    for one in holding.marked:
        part = one.above(candidate.local_start_offset)
        counted = None if part is None else lost_past_end(part, may_have, is_doubtful)
        if counted is not None and not (is_compacted and _was_cleaned(candidate, counted)):
            yield counted


def _lacked_below(follower: ReplicaFacts, of_candidate: ReplicaRecords, cut: int) -> list[CommittedRange]:
    """The candidate's records between a follower's local log start and its cut, which it does not fetch; none if a
    cleaner has been on either log, or for the candidate itself."""
    candidate = of_candidate.facts
    if follower.broker_id == candidate.broker_id or follower.compacted or candidate.compacted:
        return []
    start = follower.local_start_offset
    kept, _ = of_candidate.parted(cut)
    parts = (item.above(start) for item in kept)
    return [part for part in parts if part is not None and part.own_span.start_offset >= start]


class _Copies(NamedTuple):
    """The copies of a partition, and what else the costs of all its candidates depend on."""

    case: Case
    replicas: Mapping[int, ReplicaRecords]
    """Records of each replica, by broker."""
    beside: Sequence[ReplicaRecords]
    """Records of each copy that neither leads nor follows, in order of `case.beside`."""
    shorter: Collection[int]
    """Brokers that hold records which the leader had and lost."""
    is_doubtful: bool
    """`may_have_lost_tail`."""
    unproven: Container[int | None]
    """Brokers that hold records of which it is likely, not proven, that they were committed."""
    markers: MarkerReader

    def cost_under(self, candidate: ReplicaFacts, cuts_of: Mapping[CopyKey, int]) -> CandidateCost:
        """The cost of a candidate; `cuts_of` has the log end of every other copy once it follows the candidate."""
        case = self.case
        stays = candidate.key == case.reference.facts.key and case.reference.leader_id == candidate.broker_id
        own = self.replicas[candidate.broker_id]
        end = candidate.following_end_offset
        cuts = {broker: end if one is own else cuts_of[one.facts.key] for broker, one in self.replicas.items()}
        transactions = CandidateTransactions.of(case, candidate, own, end, self.markers)
        cut_producers: set[int] = set()
        logs = {}
        for broker, cut in sorted(cuts.items()):
            may_have = stays and broker not in self.shorter
            logs[broker] = follow(case, candidate, self.replicas[broker], cut, may_have, self.is_doubtful)
            may_be_newer = may_have and not self.is_doubtful
            cut_producers.update(transactions.cut_in(self.replicas[broker], cut, may_be_newer))
        lost_beside = []
        for item, one in zip(case.beside, self.beside, strict=True):
            may_have = stays and not case.is_lost_tail(item)
            is_doubtful = self.is_doubtful or case.may_be_lost_tail(item)
            lost_beside.append(list(_lost_beside(candidate, one, may_have, is_doubtful)))
            may_be_newer = may_have and not is_doubtful
            cut_producers.update(transactions.cut_in(one, cuts_of[one.facts.key], may_be_newer))
        mine, _ = own.parted(end)
        kept = [*mine, *(item for log in logs.values() for item in log.held)]
        held = ranges_by_identity(kept)
        remote = unserved(case, candidate, stays=stays)
        lost = [item for log in logs.values() for item in log.dropped]
        lost += [*(item for items in lost_beside for item in items), *remote, *vanished(case, candidate, stays=stays)]
        count, at_most = count_ranges(lost, held)
        possible, _ = count_beyond(as_possible(lost), by_identity(as_possible(kept if lost else ())))
        followers = tuple(self._cost_of(broker, cuts[broker], log, held, own) for broker, log in logs.items())
        copies = tuple(
            CopyBeside(one.facts, span_beyond(items, held), held_there)
            for one, items in zip(self.beside, lost_beside, strict=True)
            if (held_there := number_beyond(items, held))
        )
        losing = {one.broker_id for one in followers if one.lost_held and one.committed_dropped}
        losing |= {one.facts.broker_id for one in copies}
        return CandidateCost(
            facts=candidate,
            followers=followers,
            lost_records=count.records,
            lost_committed=count.committed,
            lost_possible=max(0, possible.committed - count.committed),
            is_only_likely=count.committed > 0 and any(broker in self.unproven for broker in losing),
            lost_at_most=at_most or any(one.facts.compacted for one in self.replicas.values()) and count.records > 0,
            cut_transactions=len(cut_producers),
            only_here=self._only_in(own),
            hidden_records=number_beyond(
                (item for log in logs.values() for item in log.hidden), ranges_by_identity(mine)
            ),
            remote=remote_loss(case, candidate, remote, held) if remote else RemoteLoss(),
            beside=copies,
        )

    def _cost_of(
        self, broker: int, cut: int, log: _FollowingLog, held: ByIdentity, of_candidate: ReplicaRecords
    ) -> FollowerCost:
        lost_held = number_beyond(log.dropped, held)
        lacked = _lacked_below(self.replicas[broker].facts, of_candidate, cut)
        return FollowerCost(
            broker_id=broker,
            kept_to=cut,
            dropped=self.replicas[broker].dropped(cut),
            committed_dropped=log.committed_dropped,
            lost_held=lost_held,
            lost_from=span_beyond(log.dropped, held).start_offset if lost_held else None,
            lacked_records=number_beyond(lacked, ranges_by_identity(log.held)) if lacked else 0,
        )

    def _only_in(self, own: ReplicaRecords) -> int:
        """Number of a replica's records that no other replica holds, nor an object seen in remote storage; a copy
        about to be deleted does not count."""
        others = [one for one in self.replicas.values() if one is not own]
        others += [one for one in self.beside if not one.facts.is_about_to_go]
        cleaned = [one.facts for one in others if one.facts.compacted]
        own_items = [item for item in own.marked if not any(_was_cleaned(facts, item) for facts in cleaned)]
        held = ranges_by_identity(item for one in others for item in one.marked)
        return number_beyond(beyond_store(self.case, own_items), held)


def _was_cleaned(facts: ReplicaFacts, item: CommittedRange) -> bool:
    """True if a compacted log had the records too, all of them, by its lineage: its cleaner removed them, not an election."""
    piece = item.piece
    epoch = item.leader_epoch
    if epoch is None or piece.end_offset > facts.log_end_offset:
        return False
    lineage = replay_lineage(facts, tiered=False)
    return lineage.epoch_for_offset(piece.start_offset) == lineage.epoch_for_offset(piece.end_offset - 1) == epoch
