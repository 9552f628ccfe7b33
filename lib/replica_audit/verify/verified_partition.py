"""The verdict on each replica of one partition: how far it should have kept its log, and how far it did."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from replica_audit.auditing.case import Case
from replica_audit.auditing.compare.aligned_pair import Records
from replica_audit.auditing.compare.comparison import Comparison, compare
from replica_audit.auditing.compare.epoch_corruption import restore_epochs
from replica_audit.auditing.compare.loaded_batches import batches_in
from replica_audit.auditing.compare.record_comparison import RecordProblem, RecordSource
from replica_audit.auditing.compare.replays import replay_all
from replica_audit.auditing.compare.wanted_chunks import Pair, needed_chunks
from replica_audit.auditing.conclude import PartitionAudit
from replica_audit.auditing.replicas.offset_ranges import shared_start
from replica_audit.auditing.replicas.reference import Reference, credible_epoch, log_epoch_as_leader
from replica_audit.auditing.replicas.replica_facts import CopyKey, ReplicaFacts
from replica_audit.batch_header import ABSENT, or_absent
from replica_audit.literals import FollowerVerdict, RecordProblemKind
from replica_audit.model import CHUNK_OFFSETS, OffsetRange, PartitionState, joined
from replica_audit.protocol.versions import notes_elections
from replica_audit.schema import GoneRecordsRow, VerificationRow
from replica_audit.segments.batch_rows import find_rows
from replica_audit.segments.record_batch import BATCH_DTYPE
from replica_audit.text import count, listed, name_offsets
from replica_audit.verify.committed import (
    MissingBatch,
    batches_below_start,
    batches_in_holes,
    chunks_that_none_may_have,
    gone_ranges,
    lacking_batches,
)

#: Path prefixes of each snapshot's files, so that one reader of records serves both.
BEFORE = "before"
AFTER = "after"

_NONE = np.empty(0, BATCH_DTYPE)
#: Most ranges of offsets in a reason.
_MOST_RANGES = 4

#: What is unknown of a batch, and the remedy, by the problem for which a comparison `awaits_records`.
_AWAITED: Mapping[RecordProblemKind, tuple[str, str]] = {
    "unchecked": ("checksum nobody computed", "collect it again without --headers, or copy it"),
    "not_captured": ("records were not collected", "copy it again"),
}


@dataclass(frozen=True, slots=True)
class Pairing:
    """A partition before and after, and the batches of the chunks that `wanted_chunks` names."""

    before: Case
    after: Case
    old_rows: Mapping[CopyKey, NDArray[np.void]]
    new_rows: Mapping[CopyKey, NDArray[np.void]]
    read: RecordSource | None = None
    """Reads records of either moment, from paths that begin with `BEFORE` or `AFTER`; None: headers decide."""

    @property
    def leader(self) -> Reference:
        """The leader that the followers followed: the reference of the later moment."""
        return self.after.reference

    def with_leader(self, old: ReplicaFacts) -> Comparison:
        """Compare what a replica held before with the present leader's log."""
        return self._compare(self.leader, old)

    def with_itself(self, old: ReplicaFacts, new: ReplicaFacts) -> Comparison:
        """Compare what a replica held before with what it holds now."""
        return self._compare(as_reference(new), old)

    def batches_before(self, old: ReplicaFacts) -> NDArray[np.void]:
        """Batches of an earlier replica, in the wanted chunks."""
        return restore_epochs(self.old_rows.get(old.key, _NONE), old.rot)

    def batches_after(self, new: ReplicaFacts) -> NDArray[np.void]:
        """Batches of a later replica, in the wanted chunks."""
        return restore_epochs(self.new_rows.get(new.key, _NONE), new.rot)

    def _compare(self, reference: Reference, old: ReplicaFacts) -> Comparison:
        new = reference.facts
        tiered = self.after.is_tiered
        replays = replay_all(reference, old, tiered)
        chunks = needed_chunks(reference, old, replays)
        theirs = self.batches_after(new)
        own = self.batches_before(old)
        # Ranges and epochs show what a cleaner did in between; its records need not be read for that.
        plain = not (new.compacted or old.compacted)
        read = Records(self.read, own, theirs) if plain and self.read is not None else None
        pair = Pair(replace(reference, facts=_at(AFTER, new)), _at(BEFORE, old), replays, chunks)
        sides = batches_in(theirs, chunks), batches_in(own, chunks)
        return compare(pair, *sides, read, self.after.options.protocol, tiered)


def wanted_chunks(before: Case, after: Case) -> tuple[dict[CopyKey, set[int]], dict[CopyKey, set[int]]]:
    """Chunks to read of each moment, by copy: those in which a replica differs from its earlier state, or from the present leader."""
    old_chunks: dict[CopyKey, set[int]] = {}
    new_chunks: dict[CopyKey, set[int]] = {}
    tiered = after.is_tiered
    successors = {facts.broker_id: facts for facts in after.replicas}
    for old in before.replicas:
        now = successors.get(old.broker_id)
        for reference in (after.reference, *([as_reference(now)] if now is not None else ())):
            replays = replay_all(reference, old, tiered)
            chunks = needed_chunks(reference, old, replays) | chunks_that_none_may_have(old, after)
            old_chunks.setdefault(old.key, set()).update(chunks)
            new_chunks.setdefault(reference.facts.key, set()).update(chunks)
    # Search every replica for records that the leader lacks.
    everything = set().union(*new_chunks.values())
    return old_chunks, {facts.key: everything for facts in after.replicas}


def as_reference(facts: ReplicaFacts) -> Reference:
    """A replica as the reference of a comparison, whoever leads."""
    return Reference(
        facts,
        leader_id=None,
        leader_epoch=None,
        log_epoch=log_epoch_as_leader(facts, None),
        source="inferred",
        isr=None,
        elr=(),
    )


def _at(moment: str, facts: ReplicaFacts) -> ReplicaFacts:
    segments = tuple(replace(segment, path=f"{moment}/{segment.path}") for segment in facts.segments)
    return replace(facts, segments=segments)


@dataclass(frozen=True, slots=True)
class Kept:
    """Offset up to which a replica kept its log, and the bounds of what it should have kept."""

    kept_to: int
    """End of the earlier log that it still holds. A cut inside a batch removes the whole batch, though the log end stays at the cut."""
    least: int
    """Least offset it should have kept: its protocol's cut, or an earlier one by its own recovery. Below it, it was cut too far."""
    most: int
    """Greatest offset it should have kept. Above it are records that the leader does not have."""
    floor: int
    """Offset below which nothing is known, since retention may have removed it."""
    recovered: int
    """End of its log after recovery from an unclean stop; its log end after a clean one."""
    passed: bool
    """True if the earlier log lies entirely below `floor`: nothing is left to keep."""

    @property
    def expected(self) -> int:
        """Offset up to which it should have kept its log: after a cut at the high watermark it fetches the same records again."""
        return min(max(self.kept_to, self.least), self.most)


def measure_kept(
    old: ReplicaFacts,
    new: ReplicaFacts,
    leader: ReplicaFacts,
    with_leader: Comparison,
    with_itself: Comparison,
    protocol: str,
) -> Kept:
    """Offsets up to which replica `old`, now `new`, kept its log, from its comparisons with the present leader and with itself."""
    end = old.log_end_offset
    floor = shared_start(new, leader)
    if floor >= end:
        return Kept(floor, floor, floor, floor, end, passed=True)
    floor = max(floor, old.local_start_offset)
    most = _above(floor, _shared_end(with_leader, leader))
    cut = with_leader.replays[protocol].truncate_to if new.broker_id != leader.broker_id else most
    # A start after an unclean stop recovers the log before the broker follows anyone.
    own = end if old.directory.clean_shutdown else min(old.loaded.log_end_offset, old.recovered.log_end_offset)
    least = max(floor, min(cut, most, own))
    kept_to = min(_above(floor, _own_end(old, new, with_itself)), new.log_end_offset)
    if new.compacted and kept_to > most and not _holds_any(old, with_itself, most, kept_to):
        # It was cut, and a cleaned leader had nothing to send in place of what went.
        kept_to = most
    return Kept(kept_to, least, most, floor, own, passed=False)


def _holds_any(old: ReplicaFacts, with_itself: Comparison, start: int, end: int) -> bool:
    """True if the replica still has a batch of its earlier log, or part of one, in [start, end)."""
    own = with_itself.alignment.own
    now = with_itself.alignment.reference
    seen = {int(number) for side in (own, now) for number in np.unique(side.starts // CHUNK_OFFSETS)}
    if any(
        number not in seen and chunk.base_offset < end and start <= chunk.last_offset
        for number, chunk in old.chunks.items()
    ):
        return True  # equal chunks were not read
    inside = own.where((own.ends > start) & (own.starts < end))
    names = ("last_offset", "leader_epoch")
    return bool((find_rows(inside.columns(*names), now.columns(*names)) >= 0).any())


def has_followed(old: ReplicaFacts, new: ReplicaFacts, after: Case) -> bool:
    """True if the replica has fetched from the present leader since, so that it should have been cut."""
    leader = after.reference
    if new.broker_id == leader.facts.broker_id:
        return True
    known = {epoch for epoch, _ in (*old.epoch_starts, *old.file_entries)}
    learnt = {epoch for epoch, _ in new.epoch_starts} - known
    if learnt & {epoch for epoch, _ in leader.facts.epoch_starts}:
        return True
    history = () if after.leadership is None else after.leadership.committed
    if not history:
        return new.broker_id in (leader.isr or ())
    epochs = {epoch for epoch, _ in (*leader.facts.epoch_starts, *leader.facts.file_entries)}
    last = or_absent(new.last_leader_epoch)
    return any(epoch > last and epoch in epochs | {leader.leader_epoch} for epoch in _joined(new.broker_id, history))


def _joined(broker_id: int, history: Sequence[PartitionState]) -> Iterator[int]:
    """Leader epochs in which a broker joined the ISR: it has caught up with the leader of each.

    One that was a member when the leader was elected may not have fetched from it.
    """
    for one, two in pairwise(history):
        if one.leader_epoch == two.leader_epoch and broker_id not in one.isr and broker_id in two.isr:
            yield two.leader_epoch


def _above(floor: int, offset: int | None) -> int:
    return floor if offset is None else max(floor, offset)


def _shared_end(item: Comparison, other: ReplicaFacts) -> int | None:
    """First offset from which a replica held what `other` does not; None without overlap.

    Records that the replica itself lacked do not count.
    """
    if item.common_prefix_end is None:
        return None
    starts = (run.start_offset for run in item.runs if run.kind != "hole_here")
    return min([min(item.follower.log_end_offset, other.log_end_offset), *starts])


def _own_end(old: ReplicaFacts, new: ReplicaFacts, with_itself: Comparison) -> int | None:
    """First offset from which the replica no longer holds its earlier log."""
    end = _shared_end(with_itself, new)
    if end is None or end >= old.log_end_offset:
        return end
    for gap in (*new.gaps, *new.missing):
        if gap.start_offset <= end < gap.end_offset:
            own = with_itself.alignment.own
            cut = own.first((own.starts <= end) & (own.ends > end))
            if cut is not None and gap.end_offset <= cut.end_offset:
                return gap.end_offset
    return end


@dataclass(frozen=True, slots=True)
class PartitionVerification:
    """The rows of one partition, and the reasons for what could not be judged."""

    verifications: tuple[VerificationRow, ...] = ()
    gone: tuple[GoneRecordsRow, ...] = ()
    unjudged: tuple[str, ...] = ()
    """Clauses; if there are any, the partition's rows are incomplete."""
    awaited: frozenset[int] = frozenset()
    """Brokers without a verdict, since bytes that had to be checked or compared were not collected."""
    recreated: bool = False
    leader: tuple[int | None, int | None] = (None, None)
    """(leader id, leader epoch) in the later snapshot."""
    went_back: bool = False
    """True if the later snapshot has the partition in an older state, by the metadata log or by leader epochs."""
    is_moving: bool = False
    """True if it is being reassigned there."""
    adding: frozenset[int] = frozenset()
    """Brokers that a reassignment adds there and that are not in sync yet: their fetching may be throttled."""
    floors: Mapping[int, int] = field(default_factory=dict)
    """By broker, the offset below which nothing shows how far its log was kept (`Kept.floor`)."""


def _partition_epoch(case: Case) -> int:
    """Partition epoch of the last committed state, which each change raises; ABSENT without history."""
    return max((state.partition_epoch for state in case.reference.history if not state.uncommitted), default=ABSENT)


def _went_back(before: Case, after: Case) -> bool:
    """True if the later snapshot has an older state: by the metadata log, else by the latest leader epoch of the logs. That only
    rises, and while it lasts a follower with the leader's records gets no older ones in their place.

    Every log has to be here again. Other sources of leadership do not count, since only one of the snapshots may have them. Before
    an epoch was noted without records (`notes_elections`), it was forgotten with the followers' older tails.
    """
    epochs = [_partition_epoch(case) for case in (before, after)]
    if ABSENT not in epochs:
        return epochs[0] > epochs[1]
    now = {facts.broker_id: facts for facts in after.replicas}
    if any(old.broker_id not in now for old in before.replicas):
        return False
    one, two = (
        max((credible_epoch(facts, case.replicas) for facts in case.replicas), default=ABSENT)
        for case in (before, after)
    )
    if ABSENT in (one, two):
        return False
    if one != two:
        return one > two and notes_elections(after.options.protocol)
    return any(_has_older_records(old, now[old.broker_id], one) for old in before.replicas)


def _has_older_records(old: ReplicaFacts, new: ReplicaFacts, leader_epoch: int) -> bool:
    """True if a replica that had records of `leader_epoch` now has some of an earlier one where they began."""
    start = next((start for epoch, start in old.lineage if epoch == leader_epoch), None)
    if start is None or start >= new.log_end_offset:
        return False
    epoch = new.lineage.epoch_for_offset(start)
    return epoch is not None and epoch < leader_epoch


def verify_partition(pairing: Pairing) -> PartitionVerification:
    """Verify one partition: what every earlier replica should have kept and did keep, and what no replica holds now."""
    before = pairing.before
    after = pairing.after
    rows = []
    lacking = []
    unjudged = []
    awaited = set()
    floors = {}
    successors = {facts.broker_id: facts for facts in after.replicas}
    assigned = after.leadership.replicas if after.leadership else None
    unread = {facts.broker_id for facts in after.set_aside}
    away = set(unread)
    unjudged += [
        f"the log of broker {facts.broker_id} could not be read in the earlier snapshot" for facts in before.set_aside
    ]
    for old in before.replicas:
        new = successors.get(old.broker_id)
        with_leader = pairing.with_leader(old)
        with_itself = None if new is None else pairing.with_itself(old, new)
        if waiting := [item for item in (with_leader, with_itself) if item is not None and item.awaits_records]:
            unjudged += _say_awaited(problem for item in waiting for problem in item.problems)
            awaited.add(old.broker_id)
            continue
        lacked = lacking_batches(with_leader, before)
        below = batches_below_start(old, pairing.batches_before(old), before, after)
        lacking += [*lacked, *below, *batches_in_holes(old, pairing.batches_before(old), after)]
        if old.end_is_open or (new is not None and new.end_is_open):
            unjudged.append(f"the log of broker {old.broker_id} is not known to its end in both snapshots")
        if new is not None and with_itself is not None:
            kept = measure_kept(old, new, pairing.leader.facts, with_leader, with_itself, after.options.protocol)
            floors[old.broker_id] = kept.floor
            unseen = [
                one
                for one in (new, pairing.leader.facts)
                if one.hides_head and one.log_start_offset > old.local_start_offset
            ]
            unjudged += [
                f"the log of broker {one.broker_id} was read from offset {one.log_start_offset} on in the later snapshot: what broker "
                f"{old.broker_id} held below was not compared"
                for one in unseen
            ]
            row = _row(after, old, new, kept, lacked, below, with_leader)
            if not (unseen and kept.passed or row.verdict != "correct" and _is_unseen(new, pairing.leader.facts, kept)):
                rows.append(row)
        elif old.broker_id in unread:
            unjudged.append(f"the log of broker {old.broker_id} could not be read in the later snapshot")
        elif assigned is None or old.broker_id in assigned:
            away.add(old.broker_id)
            rows.append(_absent(after, old))
    present = [(facts, pairing.batches_after(facts)) for facts in after.replicas]
    gone = [
        one
        for one in gone_ranges(lacking, present, after, away)
        if not any(facts.may_reach(one.end_offset) for facts in after.replicas)
    ]
    return PartitionVerification(
        tuple(rows),
        tuple(gone),
        tuple(dict.fromkeys(unjudged)),
        frozenset(awaited),
        leader=(after.reference.leader_id, after.reference.leader_epoch),
        went_back=_went_back(before, after),
        is_moving=any(state.adding or state.removing for state in after.reference.history[-1:]),
        adding=frozenset().union(*({*one.adding}.difference(one.isr) for one in after.reference.history[-1:])),
        floors=floors,
    )


def _say_awaited(problems: Iterable[RecordProblem]) -> Iterator[str]:
    """Clauses on what is unknown of differing batches, by broker and moment: damage may be the only difference."""
    found: dict[tuple[int, str, RecordProblemKind], set[tuple[str, int]]] = defaultdict(set)
    for one in problems:
        if one.kind in _AWAITED:
            moment, _, path = one.path.partition("/")
            found[one.broker_id, moment, one.kind].add((path, one.position))
    for (broker_id, moment, kind), batches in sorted(found.items()):
        what, again = _AWAITED[kind]
        batch = count(len(batches), "batch", "batches")
        which, remedy = ("later", f": {again}") if moment == AFTER else ("earlier", "")
        yield f"the log of broker {broker_id} differs in {batch} of the {which} snapshot whose {what}{remedy}"


def _is_unseen(new: ReplicaFacts, leader: ReplicaFacts, kept: Kept) -> bool:
    """True if the verdict on a replica depends on offsets above the high watermark of a log that was read through its broker,
    where nothing was seen."""
    own = new.may_reach(kept.expected) and kept.kept_to >= new.log_end_offset
    end = leader.log_end_offset
    return own or (leader.may_reach(end + 1) and min(kept.kept_to, kept.expected) >= end)


def is_another_topic(before: PartitionAudit, after: PartitionAudit) -> bool:
    """True if the topic was deleted and created again: it has two ids, and the records of the first were not lost."""
    ids = {audit.case.reference.facts.directory.topic_id for audit in (before, after) if audit.case is not None}
    return len(ids - {None}) == 2


def _row(
    after: Case,
    old: ReplicaFacts,
    new: ReplicaFacts,
    kept: Kept,
    lacked: Sequence[MissingBatch],
    below: Sequence[MissingBatch],
    with_leader: Comparison,
) -> VerificationRow:
    dropped = [(one, kept.kept_to) for one in lacked if one.end_offset > kept.kept_to]
    dropped += [(one, one.start_offset) for one in below if one.end_offset <= new.log_start_offset]
    lost = sum(one.committed_records(start) for one, start in dropped)
    possible = sum(one.possible_records(start) for one, start in dropped)
    verdict, reason = _judge(after, old, new, kept, lost, possible, with_leader)
    return _absent(after, old)._replace(
        kept_to=kept.kept_to,
        expected=kept.expected,
        end_after=new.log_end_offset,
        lost_records=sum(one.records(start) for one, start in dropped),
        lost_committed=lost,
        lost_possible=possible,
        verdict=verdict,
        reason=reason,
    )


def _judge(
    after: Case,
    old: ReplicaFacts,
    new: ReplicaFacts,
    kept: Kept,
    lost: int,
    possible: int,
    with_leader: Comparison,
) -> tuple[FollowerVerdict, str]:
    """The verdict and a clause that explains it."""
    leader = after.reference.facts
    other = f"broker {leader.broker_id}"
    if old.empty:
        return "correct", "it held nothing"
    if kept.passed and not (lost or possible):
        where = f"its files begin at {new.local_start_offset}, those of {other} at {leader.local_start_offset}"
        return "correct", f"nothing of it is left to keep: {where}"
    if kept.kept_to < kept.expected:
        between = _led_between(old, new, leader, kept.kept_to)
        if between is not None:
            cut = f"it followed the leader of epoch {between} in between, whose log parts there from that of {other}"
            return "not_yet", f"cut at {kept.kept_to}: {cut}, and it has not followed {other} since"
        return (
            "over_truncated",
            f"{other} has its records up to {kept.expected}, and it kept them up to {kept.kept_to} only",
        )
    if kept.kept_to > kept.expected:
        holds = f"it holds {_name_apart(with_leader, kept)}, which {other} does not have"
        if has_followed(old, new, after):
            return "under_truncated", f"{holds}, and it has followed {other} since"
        return "not_yet", f"{holds}, and it has not followed {other} since"
    if lost or possible:
        records = [count(lost, "committed record")] if lost else []
        records += [f"{count(possible, 'record')} that may have been committed"] if possible else []
        return (
            "lost_committed",
            f"cut at {kept.kept_to}, and {' and '.join(records)} with it that {other} does not have",
        )
    if kept.kept_to >= old.log_end_offset:
        return "correct", "it kept all that it held"
    if kept.kept_to >= kept.most:
        return "correct", f"cut at {kept.kept_to}, where its log parts from that of {other}"
    why = "its own recovery" if kept.kept_to == kept.recovered else "its protocol"
    return "correct", f"cut at {kept.kept_to} by {why}; {other} has what it dropped"


def _name_apart(with_leader: Comparison, kept: Kept) -> str:
    """Offsets of a replica's earlier log that it still has, and that the leader does not have, or has with other records."""
    parted = [OffsetRange(run.start_offset, run.end_offset) for run in with_leader.runs if run.kind != "hole_here"]
    parted += [OffsetRange(batch.base_offset, batch.end_offset) for batch in with_leader.alignment.ahead]
    still = [
        name_offsets(max(one.start_offset, kept.expected), min(one.end_offset, kept.kept_to))
        for one in joined(parted)
        if one.overlaps(kept.expected, kept.kept_to)
    ]
    if len(still) > _MOST_RANGES:
        still[_MOST_RANGES - 1 :] = [f"{len(still) - _MOST_RANGES + 1} more ranges"]
    return listed(still) or name_offsets(kept.expected, kept.kept_to)


def _led_between(old: ReplicaFacts, new: ReplicaFacts, leader: ReplicaFacts, offset: int) -> int | None:
    """The epoch that a replica now has at `offset`, if neither its earlier log nor the present leader's has that epoch."""
    epoch = new.lineage.epoch_for_offset(offset) if offset < new.log_end_offset else None
    known = {one for facts in (old, leader) for one, _ in facts.epoch_entries}
    return None if epoch in known else epoch


def _absent(after: Case, old: ReplicaFacts) -> VerificationRow:
    return VerificationRow(
        topic=after.topic_partition.topic,
        partition=after.topic_partition.partition,
        broker_id=old.broker_id,
        leader_id=after.reference.facts.broker_id,
        end_before=old.log_end_offset,
        verdict="not_yet",
        reason="its log is not in the later snapshot",
    )
