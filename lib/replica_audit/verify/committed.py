"""Committed records of the earlier snapshot that no log holds in the later one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from replica_audit.auditing.case import Case
from replica_audit.auditing.compare.comparison import Comparison
from replica_audit.auditing.compare.distinct_records import has_data
from replica_audit.auditing.compare.replays import lacked_below_start, replay_lineage
from replica_audit.auditing.replicas.offset_ranges import offsets_of_epoch
from replica_audit.auditing.replicas.replica_facts import ReplicaFacts
from replica_audit.batch_header import Batch
from replica_audit.literals import Committed
from replica_audit.model import OffsetRange, without
from replica_audit.protocol.lineage import Lineage
from replica_audit.schema import GoneRecordsRow
from replica_audit.segments.batch_rows import Batches

_COMMITTED: tuple[Committed, ...] = get_args(Committed)


@dataclass(frozen=True, slots=True)
class MissingBatch:
    """A batch that a replica held before and the present leader lacks, though no log start explains it."""

    broker_id: int
    batch: Batch
    start_offset: int
    end_offset: int
    committed: int
    """End of its records that were proven committed; `start_offset` if none was."""
    possible: int
    """End of its records that may have been committed, since every in-sync replica held them."""

    def records(self, start_offset: int) -> int:
        """Number of its records from `start_offset` on."""
        return self._between(self.start_offset, self.end_offset, start_offset)

    def committed_records(self, start_offset: int) -> int:
        """Number of records from `start_offset` on that were proven committed."""
        return self._between(self.start_offset, self.committed, start_offset)

    def possible_records(self, start_offset: int) -> int:
        """Number of records from `start_offset` on that may have been committed."""
        return self._between(self.committed, self.possible, start_offset)

    def _between(self, start: int, end: int, floor: int) -> int:
        return Batches.of((self.batch,)).records_between(max(start, floor), end)


def proven_ranges(case: Case, facts: ReplicaFacts) -> list[OffsetRange]:
    """Offsets of one replica whose records were proven committed.

    On the reference, all below the proven high watermark; on a follower, what it shares of that, and its own records
    that a checkpoint, or a leader alone in the ISR, proves committed (docs/semantics.md F.0).
    """
    found = _shared(case, facts, case.high_watermark.proven_lower)
    item = _comparison(case, facts)
    if item is not None:
        found += [run.committed_range for run in item.runs if run.committed_range is not None]
        checkpoint = facts.directory.high_watermark_checkpoint
        if item.alignment.ahead and checkpoint is not None and checkpoint <= facts.log_end_offset:
            found.append((case.reference.facts.log_end_offset, checkpoint))
    return [OffsetRange(start, end) for start, end in found if start < end]


def possible_ranges(case: Case, facts: ReplicaFacts) -> list[OffsetRange]:
    """Offsets of one replica that may have been below the high watermark, proven or not."""
    upper = case.high_watermark.hw_upper
    found = _shared(case, facts, case.reference.facts.log_end_offset if upper is None else upper)
    return [OffsetRange(start, end) for start, end in found if start < end]


def _shared(case: Case, facts: ReplicaFacts, end: int) -> list[tuple[int, int]]:
    """Offsets of a replica that agree with the reference's log, below `end`."""
    if facts.key == case.reference.facts.key:
        return [(facts.log_start_offset, min(end, facts.log_end_offset))]
    item = _comparison(case, facts)
    shared = item.common_prefix_end if item is not None else None
    return [] if shared is None else [(facts.log_start_offset, min(end, shared))]


def _comparison(case: Case, facts: ReplicaFacts) -> Comparison | None:
    return next((one for one in case.comparisons if one.follower.key == facts.key), None)


def lacking_batches(item: Comparison, before: Case) -> list[MissingBatch]:
    """Data batches that a replica held in `before` and the present leader lacks, from their comparison."""
    found: list[tuple[Batch, int, int]] = []
    for run in item.runs:
        if run.kind not in ("hole_here", "format"):
            found += (
                (batch, max(batch.base_offset, run.start_offset), min(batch.end_offset, run.end_offset))
                for batch in run.batches
            )
    found += [(batch, batch.base_offset, batch.end_offset) for batch in item.alignment.ahead]
    return _missing(found, before, item.follower)


def batches_below_start(old: ReplicaFacts, rows: NDArray[np.void], before: Case, after: Case) -> list[MissingBatch]:
    """Data batches that a replica held in `before` (its `rows`) below the present leader's log start, which this leader never had."""
    lacked = lacked_below_start(after.reference.facts, old)
    if lacked is None:
        return []
    batches = Batches.in_order(rows)
    inside = batches.where((batches.starts >= lacked.start_offset) & (batches.ends <= lacked.end_offset))
    return _missing(((batch, batch.base_offset, batch.end_offset) for batch in inside), before, old)


def _missing(found: Iterable[tuple[Batch, int, int]], before: Case, facts: ReplicaFacts) -> list[MissingBatch]:
    """Data batches of a replica among `found` (batch, start, end), with the ends of their parts that were committed in `before`."""
    proven = proven_ranges(before, facts)
    possible = possible_ranges(before, facts)
    lacking = []
    for batch, start, end in found:
        if start < end and has_data(batch):
            committed = _reach(proven, start, end)
            lacking.append(
                MissingBatch(facts.broker_id, batch, start, end, committed, _reach(possible, committed, end))
            )
    return lacking


def chunks_that_none_may_have(old: ReplicaFacts, after: Case) -> set[int]:
    """Chunks of a replica with offsets that neither the present leader's files nor remote storage have: in holes of
    remote storage, or below the log start if the leader never had them."""
    lacked = lacked_below_start(after.reference.facts, old)
    holes = (*after.remote.holes.ranges, *(() if lacked is None else (lacked,)))
    return {
        number
        for number, chunk in old.chunks.items()
        if any(chunk.base_offset < hole.end_offset and hole.start_offset <= chunk.last_offset for hole in holes)
    }


def batches_in_holes(old: ReplicaFacts, rows: NDArray[np.void], after: Case) -> Iterator[MissingBatch]:
    """Data batches of the present leader's history that a replica held, and that now lie in a hole of remote storage.

    They were committed: a local start and a log start stay at or below the high watermark. `rows` are the replica's batches.
    """
    batches = Batches.in_order(rows)
    for hole in after.remote.holes.ranges:
        for batch in batches.where((batches.starts < hole.end_offset) & (batches.ends > hole.start_offset)):
            start = max(batch.base_offset, hole.start_offset)
            end = min(batch.end_offset, hole.end_offset)
            is_own = batch.epoch is None or after.remote.lineage.epoch_for_offset(start) == batch.epoch
            if is_own and has_data(batch):
                yield MissingBatch(old.broker_id, batch, start, end, end, end)


def _reach(ranges: Iterable[OffsetRange], start: int, end: int) -> int:
    """End of the part of [start, end) that `ranges` cover without a gap from `start` on."""
    reached = start
    for part in sorted(ranges):
        if part.holds(reached):
            reached = min(end, part.end_offset)
    return reached


def gone_ranges(
    lacking: Iterable[MissingBatch],
    present: Sequence[tuple[ReplicaFacts, NDArray[np.void]]],
    after: Case,
    away: Set[int],
) -> Iterator[GoneRecordsRow]:
    """Distinct records of `lacking` that none of the `present` copies (given with their batches) holds: proven committed, possibly
    committed (every in-sync replica held them), or neither. Brokers `away` may still hold what they held.

    Records are the same if offset and leader epoch are; without epochs, if the batch is. Records that a cleaner may have
    removed from a copy count as held, up to where the leader began its next epoch.
    """
    lineage = replay_lineage(after.reference.facts, tiered=False)
    holders: dict[tuple, dict[int, MissingBatch]] = {}
    for one in lacking:
        epoch = one.batch.epoch
        batch = one.batch
        identity = (batch.base_offset, batch.last_offset) + (
            (epoch,) if epoch is not None else (None, batch.crc, batch.size)
        )
        holders.setdefault(identity, {})[one.broker_id] = one
    rows = [_identities(batches) for _, batches in present]
    found: list[GoneRecordsRow] = []
    for identity in sorted(holders, key=lambda key: (key[0], key[1], -1 if key[2] is None else key[2])):
        same = holders[identity]
        batch = next(iter(same.values())).batch
        left = [
            OffsetRange(min(one.start_offset for one in same.values()), max(one.end_offset for one in same.values()))
        ]
        for (facts, _), known in zip(present, rows, strict=True):
            left = without(left, _held(facts, batch, known, lineage))
        committed = max(one.committed for one in same.values())
        possible = max(committed, *(one.possible for one in same.values()))
        for part in left:
            bounds = (
                part.start_offset,
                *(min(max(end, part.start_offset), part.end_offset) for end in (committed, possible)),
            )
            for start, end, word in zip(bounds, (*bounds[1:], part.end_offset), _COMMITTED, strict=True):
                if start < end:
                    found.append(
                        GoneRecordsRow(
                            topic=after.topic_partition.topic,
                            partition=after.topic_partition.partition,
                            start_offset=start,
                            end_offset=end,
                            leader_epoch=batch.epoch,
                            record_count=Batches.of((batch,)).records_between(start, end),
                            committed=word,
                            broker_ids=sorted(same),
                            may_hold=sorted(same.keys() & away),
                            first_timestamp_ms=min(batch.timestamps, default=None),
                            last_timestamp_ms=max(batch.timestamps, default=None),
                        )
                    )
    return _joined(found)


def _joined(ranges: Sequence[GoneRecordsRow]) -> Iterator[GoneRecordsRow]:
    last: GoneRecordsRow | None = None
    for one in sorted(
        ranges, key=lambda part: (part.leader_epoch is not None, part.leader_epoch or 0, part.start_offset)
    ):
        if last is not None and (one.leader_epoch, one.committed, one.broker_ids, one.start_offset) == (
            last.leader_epoch,
            last.committed,
            last.broker_ids,
            last.end_offset,
        ):
            times = [value for value in (last.first_timestamp_ms, one.first_timestamp_ms) if value is not None]
            ends = [value for value in (last.last_timestamp_ms, one.last_timestamp_ms) if value is not None]
            last = last._replace(
                end_offset=one.end_offset,
                record_count=last.record_count + one.record_count,
                first_timestamp_ms=min(times, default=None),
                last_timestamp_ms=max(ends, default=None),
            )
            continue
        if last is not None:
            yield last
        last = one
    if last is not None:
        yield last


def _held(facts: ReplicaFacts, batch: Batch, known: set[tuple], lineage: Lineage) -> list[OffsetRange]:
    """The offsets of `batch` that a copy holds by its lineage; without epochs, all if it has the same batch.

    In a cleaned log an epoch ends no earlier than the first remaining batch of the next one: from where the leader's `lineage`
    starts a later epoch, the batch itself must be there.
    """
    if batch.epoch is None:
        whole = (batch.base_offset, batch.last_offset, batch.crc, batch.size) in known
        return [OffsetRange(batch.base_offset, batch.end_offset)] if whole else []
    held = without(offsets_of_epoch(facts, batch.epoch), [*facts.unexplained_gaps, *facts.unreadable])
    end = min((start for epoch, start in lineage if epoch > batch.epoch), default=None)
    if not facts.compacted or end is None or (batch.base_offset, batch.last_offset, batch.epoch) in known:
        return held
    return without(held, [OffsetRange(end, facts.log_end_offset)])


def _identities(rows: NDArray[np.void]) -> set[tuple]:
    """Batches by their bytes, and by their ranges and epochs, which cleaners keep."""
    found: set[tuple] = set()
    for names in (("base_offset", "last_offset", "crc", "size"), ("base_offset", "last_offset", "leader_epoch")):
        found |= set(zip(*(rows[name].tolist() for name in names), strict=True))
    return found
