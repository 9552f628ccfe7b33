"""Comparison of a follower with the reference: divergent ranges, truncation under all four protocols, and dropped records (F.4, F.6)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from replica_audit.auditing.compare.aligned_pair import Records, align_pair
from replica_audit.auditing.compare.alignment import Alignment, Difference
from replica_audit.auditing.compare.compacted import Compaction
from replica_audit.auditing.compare.divergent_ranges import DivergentRange, runs_of
from replica_audit.auditing.compare.loaded_batches import tally_from
from replica_audit.auditing.compare.record_comparison import RecordProblem
from replica_audit.auditing.compare.replays import file_replay, first_dropped, replay_all, replay_lineage
from replica_audit.auditing.replicas.offset_ranges import deleted_end, shared_end, shared_start
from replica_audit.literals import RecordProblemKind
from replica_audit.model import OffsetRange, joined
from replica_audit.protocol.truncation import Replay
from replica_audit.protocol.versions import keeps_committed
from replica_audit.segments.batch_rows import Tally, find_rows

if TYPE_CHECKING:
    from replica_audit.auditing.compare.wanted_chunks import Pair
    from replica_audit.auditing.replicas.replica_facts import ReplicaFacts
    from replica_audit.segments.batch_rows import Batches


class Tail(NamedTuple):
    """Last records of a follower past the reference's end that share a property."""

    start_offset: int
    why: str
    """Clause on the property, and its source."""


class Comparison(NamedTuple):
    """A follower compared with the reference."""

    reference: ReplicaFacts
    follower: ReplicaFacts
    alignment: Alignment
    replays: Mapping[str, Replay]
    protocol: str
    """Name of the chosen protocol."""
    file_replay: Replay | None
    """Replay of the chosen protocol with the lineages of the epoch files; None unless both files are usable."""
    drops: Mapping[str, Tally]
    committed_drops: Mapping[str, int]
    runs: tuple[DivergentRange, ...]
    stretches: tuple[OffsetRange, ...]
    """Ranges of conflicting records (not holes), joined if they touch; a checkpoint's proof applies to one (F.0)."""
    common_prefix_end: int | None
    lag: Tally
    """Records and bytes of the reference above the follower's end."""
    compaction: Compaction | None = None
    """Comparison of records and keys of a compacted pair whose batches differ; None if they could not be read."""
    problems: tuple[RecordProblem, ...] = ()
    """Batches whose records were needed but unavailable."""
    never_committed: Tail | None = None
    """Final part of the follower's records past the reference's end that was never committed; None if all may have been."""
    undecided: Tail | None = None
    """Final part of these records whose commitment is unknown."""
    unproven_below_start: OffsetRange | None = None
    """Offsets below the reference's log start that are not proven committed and may be of another history."""
    doubt: str | None = None
    """Another explanation of all differences, so that none of them is proven; None without one."""

    @property
    def replay(self) -> Replay:
        """Replay of the chosen protocol."""
        return self.replays[self.protocol]

    @property
    def lacks_records(self) -> bool:
        """True if bytes to be compared or checked are missing in the evidence."""
        return any(one.kind in ("not_captured", "unchecked") for one in self.problems)

    @property
    def awaits_records(self) -> bool:
        """True if no conclusion is possible without these bytes, since the batches' differences are unknown. The comparison of
        a compacted log with sound batches reports what it could not see instead."""
        return self.compaction is None and self.lacks_records

    def problems_by_broker(self, kind: RecordProblemKind) -> list[list[RecordProblem]]:
        of_kind = sorted((one for one in self.problems if one.kind == kind), key=lambda one: one.broker_id)
        return [list(of_broker) for _, of_broker in groupby(of_kind, key=lambda one: one.broker_id)]

    @property
    def ahead(self) -> Batches:
        """Batches past the reference's end that the reference may have lost, without those never committed."""
        ahead = self.alignment.ahead
        tail = self.never_committed
        return ahead if tail is None else ahead.where(ahead.starts < tail.start_offset)

    @property
    def is_undecided(self) -> bool:
        """True if it is unknown for every batch of `ahead` whether it was committed."""
        tail = self.undecided
        return tail is not None and bool((self.ahead.starts >= tail.start_offset).all())

    def differs_in(self, *names: str) -> bool:
        """True if the two have different batches where both logs are, compared by base offset and the fields `names`."""
        start = shared_start(self.reference, self.follower)
        end = shared_end(self.reference, self.follower)
        own, theirs = (
            batches.where((batches.ends > start) & (batches.starts < end)).columns(*names)
            for batches in (self.alignment.own, self.alignment.reference)
        )
        return bool((find_rows(own, theirs) < 0).any() or (find_rows(theirs, own) < 0).any())

    @property
    def differs_below(self) -> int:
        """`end_of_differences` under the chosen protocol."""
        return end_of_differences(self.reference, self.alignment, self.replay.kept_to)

    def drops_from(self, protocol: str) -> int:
        """First offset that the protocol drops; a batch that spans the cut is dropped completely."""
        cut = self.replays[protocol].kept_to
        split = self.alignment.split_by(cut)
        return max(cut if split is None else split.base_offset, self.follower.log_start_offset)

    def committed_drops_of(self, runs: Iterable[DivergentRange], protocol: str) -> int:
        """Number of records of `runs` that are proven committed and that the protocol drops."""
        cut = self.drops_from(protocol)
        return sum(
            run.batches.records_between(max(committed.start_offset, cut), committed.end_offset)
            for run in runs
            if (committed := run.committed_range) is not None
        )

    @property
    def diverging_suffix(self) -> OffsetRange | None:
        """Conflicting range that contains the follower's last record below the reference's end; None without one."""
        last = shared_end(self.reference, self.follower) - 1
        return next((part for part in self.stretches if part.holds(last)), None)

    @property
    def is_cleaned_at_cut(self) -> bool:
        """True if the reference's cleaner left no sign of whether it ever had the follower's records at the cut, where its
        lineage has another epoch."""
        cut = self.replay.truncate_to
        epochs = {replay_lineage(one, tiered=False).epoch_for_offset(cut) for one in (self.reference, self.follower)}
        return self.reference.compacted and len(epochs) > 1

    @property
    def unseen_below(self) -> int:
        """First offset of both logs if nothing shows that they agree there, so that records below may be of another lineage; else -1."""
        floor = shared_start(self.reference, self.follower)
        agree = self.common_prefix_end is not None and self.common_prefix_end > floor
        return -1 if agree else floor


def compare(
    pair: Pair, theirs: Batches, own: Batches, records: Records | None, protocol: str, tiered: bool
) -> Comparison:
    """Compare a follower with the reference by their batches in the pair's chunks, and where these differ by their records;
    without `records` only by batch headers.

    The high watermark is known only once all followers are compared; `with_high_watermark` adds what depends on it.
    """
    reference, follower, replays, chunks = pair
    leader = reference.facts
    alignment, compaction, problems = align_pair(pair, theirs, own, records, tiered)
    stretches = joined(item.offsets for item in alignment.differences if item.conflicting)
    if not follower.knows_high_watermark:
        # The follower's high watermark is unknown, so no cut at it may drop anything.
        replays = replay_all(reference, follower, tiered, _first_difference(leader, follower, alignment.differences))
    # A replay with an older copy of the leader's log, or with a leader of an earlier epoch than the follower's, keeps
    # records that the leader's present log cuts. But nothing below shared records is cut: logs that share a record of one
    # epoch are equal below it, unless one is damaged.
    is_led_later = reference.is_before(follower.last_leader_epoch)
    cut = replays[protocol].kept_to
    if (reference.predates or is_led_later) and keeps_committed(protocol):
        cut = min(cut, _agreed_end(leader, follower, alignment.differences))
    stays_below = end_of_differences(leader, alignment, cut)
    deleted_to = deleted_end(leader, follower)
    ends = leader.log_end_offset
    runs = runs_of(alignment.differences, stretches, stays_below, deleted_to, follower, ends)
    firsts = {name: first_dropped(follower, outcome) for name, outcome in replays.items()}
    dropped = {first: tally_from(follower, first, alignment.own, chunks) for first in set(firsts.values())}
    differing = [*(run.start_offset for run in runs[:1]), *(part.start_offset for part in stretches[:1])]
    prefix_end: int | None = min(differing, default=shared_end(leader, follower))
    if not runs and shared_end(leader, follower) < shared_start(leader, follower):
        prefix_end = None
    lag = Tally()
    if leader.log_end_offset > follower.log_end_offset:
        lag = tally_from(leader, follower.log_end_offset, alignment.reference, chunks)
    return Comparison(
        reference=leader,
        follower=follower,
        alignment=alignment,
        replays=replays,
        protocol=protocol,
        file_replay=file_replay(reference, follower, protocol),
        drops={name: dropped[first] for name, first in firsts.items()},
        committed_drops={},
        runs=runs,
        stretches=stretches,
        common_prefix_end=prefix_end,
        lag=lag,
        compaction=compaction,
        problems=problems,
    )


def end_of_differences(leader: ReplicaFacts, alignment: Alignment, cut: int) -> int:
    """Offset below which differences stay after a cut: the cut, or the base of a batch that it drops completely where the reference
    has nothing below the cut either."""
    split = alignment.split_by(cut)
    if split is None or leader.cannot_read(split.base_offset, cut):
        return cut
    return cut if alignment.reference.overlapping(split.base_offset, cut) else split.base_offset


def _agreed_end(leader: ReplicaFacts, follower: ReplicaFacts, differences: Sequence[Difference]) -> int:
    """End of the last records that two logs share; a gap has none."""
    end = shared_end(leader, follower)
    differing = [item.offsets for item in differences if not item.is_of_storage]
    for part in reversed(joined([*differing, *leader.gaps, *follower.gaps])):
        if part.end_offset >= end:
            end = min(end, part.start_offset)
    return end


def _first_difference(leader: ReplicaFacts, follower: ReplicaFacts, differences: Sequence[Difference]) -> int:
    starts = [item.start_offset for item in differences if not item.is_of_storage]
    shorter = shared_end(leader, follower)
    return min(max(min(starts, default=shorter), follower.log_start_offset), follower.log_end_offset)


def with_high_watermark(comparison: Comparison, hw_lower: int) -> Comparison:
    """Add `committed_drops`: the number of dropped records proven committed, by protocol.

    The proof is the follower's own checkpoint in a conflicting run, else `hw_lower` on the common prefix.
    """
    counts = {}
    prefix = comparison.common_prefix_end
    for name in comparison.replays:
        if not comparison.drops[name].record_count:
            counts[name] = 0
            continue
        lost = comparison.committed_drops_of(comparison.runs, name)
        cut = comparison.drops_from(name)
        shared = (
            0 if prefix is None else _shared_records(comparison, comparison.drops[name], cut, min(prefix, hw_lower))
        )
        counts[name] = min(lost + shared, comparison.drops[name].record_count)
    return comparison._replace(committed_drops=counts)


def _shared_records(comparison: Comparison, dropped: Tally, start: int, end: int) -> int:
    """Upper bound of the records in [start, end) of the common prefix that the follower drops: the number of offsets, or
    all its dropped records minus those of its runs and past the reference's end."""
    ahead = comparison.alignment.ahead
    others = ahead.above(start).tally.record_count
    others += sum(run.tally.record_count for run in comparison.runs if run.end_offset > start)
    return max(0, min(end - start, dropped.record_count - others))
