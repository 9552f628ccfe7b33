"""One follower against the reference: differences, runs, replays of all four protocols, and what each would drop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from replica_audit.auditing.comparing.alignment import Alignment, Difference, align, conflicting_ranges
from replica_audit.auditing.comparing.chunks import Tally, chunks_at, differing_chunks, tally_from
from replica_audit.auditing.comparing.compacted import Compaction, compare_compacted
from replica_audit.auditing.comparing.compared_batches import Batch
from replica_audit.auditing.comparing.contents import Reading, RecordProblem, RecordSource, has_segments
from replica_audit.auditing.comparing.rebatching import decide_by_records
from replica_audit.auditing.comparing.runs import Cause, Run, records_between, runs_of
from replica_audit.auditing.replicas.facts import ReplicaFacts
from replica_audit.auditing.replicas.reference import Reference
from replica_audit.model import PROTOCOLS, OffsetRange
from replica_audit.protocol.lineage import Lineage
from replica_audit.protocol.truncation import Replay, replay

__all__ = [
    "Cause",
    "Comparison",
    "Records",
    "Run",
    "chunks_for_keys",
    "compare",
    "needed_chunks",
    "replay_all",
    "replay_lineage",
    "with_high_watermark",
]


@dataclass(frozen=True, slots=True)
class Comparison:
    """All that is concluded of one follower beside the reference."""

    follower: ReplicaFacts
    alignment: Alignment
    replays: Mapping[str, Replay]
    file_replay: Replay | None
    """The chosen protocol with the lineages of the files; None when one of the two has no usable file."""
    drops: Mapping[str, Tally]
    committed_drops: Mapping[str, int]
    runs: tuple[Run, ...]
    stretches: tuple[OffsetRange, ...]
    """Conflicting ranges, touching runs joined."""
    common_prefix_end: int | None
    lag: Tally
    """What the reference has above the follower's end."""
    compaction: Compaction | None = None
    """Of a compacted pair whose batches differ, where their records could be read."""
    problems: tuple[RecordProblem, ...] = ()
    """Batches whose records were wanted and could not be had."""
    doubt: str | None = None
    """What else would explain that the two differ, so that nothing of it is proven; None: nothing would."""

    @property
    def conflicts(self) -> bool:
        return bool(self.stretches)

    def diverging_suffix(self, reference_end: int) -> OffsetRange | None:
        """The conflicting stretch that holds the follower's last record at or below the reference's end, if one does."""
        last = min(self.follower.log_end_offset, reference_end) - 1
        return next((part for part in self.stretches if part.start_offset <= last < part.end_offset), None)


def replay_lineage(facts: ReplicaFacts, tiered: bool) -> Lineage:
    """The lineage that truncation should go by: that of the batches.

    Where batches may have vanished from below it (compaction, tiering) the file's is used instead, as long as no
    batch contradicts it: an entry still tells where its epoch really began. Where no record can be read any more, the
    file as the next start takes it is all there is.
    """
    written = facts.file_lineage
    if facts.empty:
        return written or facts.lineage
    if written and (facts.compacted or tiered):
        if all(written.epoch_for_offset(start) == epoch for epoch, start in facts.lineage):
            return written
    return facts.lineage


def answering_lineage(facts: ReplicaFacts, tiered: bool) -> Lineage:
    """The lineage that the reference answers with: `replay_lineage`, and what a running broker keeps of a purged log.

    DeleteRecords up to the end leaves (latest epoch, log start) in its cache and file; only a restart drops it.
    """
    lineage = replay_lineage(facts, tiered)
    entries = facts.directory.checkpoint_epochs
    if facts.empty and not lineage and entries and entries[-1] == (facts.last_leader_epoch, facts.log_end_offset):
        return Lineage(entries[-1:])
    return lineage


def replay_all(
    reference: Reference, follower: ReplicaFacts, tiered: bool, high_watermark: int | None = None
) -> dict[str, Replay]:
    """Each protocol by name. For kip-279 and fetch the reference's lineage is completed with its own epoch (B.5).

    `high_watermark` stands for the follower's own where that is not part of the input.
    """
    own = follower.following_state(replay_lineage(follower, tiered), high_watermark)
    plain = answering_lineage(reference.facts, tiered)
    complete = _completed(plain, reference)
    return {
        name: _recovered(
            follower, replay(name, own, reference.facts.state(complete if name in ("kip-279", "fetch") else plain))
        )
        for name in PROTOCOLS
    }


def _recovered(follower: ReplicaFacts, outcome: Replay) -> Replay:
    """`outcome` with the reason `recovery` where the follower's own start cuts its log, and the protocol no more."""
    cut_before = outcome.reason == "none" and outcome.truncate_to < follower.log_end_offset
    return replace(outcome, reason="recovery") if cut_before else outcome


def needed_chunks(reference: Reference, follower: ReplicaFacts, replays: Mapping[str, Replay]) -> set[int]:
    """Chunks whose batches the comparison wants of both: those that differ, and those that a cut or an end goes through."""
    cuts = set().union(*(chunks_at(follower, _first_dropped(follower, outcome)) for outcome in replays.values()))
    return differing_chunks(reference.facts, follower) | cuts | chunks_at(reference.facts, follower.log_end_offset)


def chunks_for_keys(reference: ReplicaFacts, follower: ReplicaFacts) -> tuple[set[int], set[int]]:
    """Chunks that latest values per key want besides `needed_chunks`, where any differ: of the reference, of the follower.

    What is equal on both is looked at on the reference only; above the shorter log's end on the longer one.
    """
    if not ((reference.compacted or follower.compacted) and differing_chunks(reference, follower)):
        return set(), set()
    floor = max(reference.local_start_offset, follower.local_start_offset)
    return (
        {number for number, chunk in reference.chunks.items() if chunk.last_offset >= floor},
        {number for number, chunk in follower.chunks.items() if chunk.last_offset >= reference.log_end_offset},
    )


@dataclass(frozen=True, slots=True)
class Records:
    """How the records of a pair are read, and the batches of all chunks at hand of either side."""

    read: RecordSource
    own: np.ndarray
    """The follower's (`BATCH_DTYPE`)."""
    theirs: np.ndarray


def compare(
    reference: Reference,
    follower: ReplicaFacts,
    protocol: str,
    reference_batches: tuple[Batch, ...],
    follower_batches: tuple[Batch, ...],
    loaded: set[int],
    tiered: bool = False,
    records: Records | None = None,
) -> Comparison:
    """Compare one follower, given the batches of both in the chunks `loaded`, those that `needed_chunks` names.

    Without `records` batches are compared by their headers only. The high watermark is known only once all followers
    are aligned; `with_high_watermark` adds what depends on it.
    """
    replays = replay_all(reference, follower, tiered)
    leader = reference.facts
    lineage = replay_lineage(leader, tiered)
    alignment = align(leader, follower, reference.lineage_epoch, reference_batches, follower_batches, lineage)
    compaction, problems = None, ()
    if records is not None and has_segments(leader) and has_segments(follower):
        reading = Reading(records.read)
        if leader.compacted or follower.compacted:
            alignment, compaction = compare_compacted(leader, follower, alignment, records.own, records.theirs, reading)
        else:
            alignment = decide_by_records(leader, follower, alignment, reading)
        problems = tuple(reading.problems)
    stretches = conflicting_ranges(alignment.differences)
    if not follower.knows_high_watermark:
        # Nothing is known of where it would be cut by its high watermark; nothing must be dropped for that.
        replays = replay_all(reference, follower, tiered, _first_difference(leader, follower, alignment.differences))
    cut = replays[protocol].truncate_to
    runs = runs_of(alignment.differences, stretches, cut, follower)
    drops = {
        name: tally_from(follower, _first_dropped(follower, outcome), follower_batches, loaded)
        for name, outcome in replays.items()
    }
    overlap = min(leader.log_end_offset, follower.log_end_offset) >= max(
        leader.local_start_offset, follower.local_start_offset
    )
    shorter = min(leader.log_end_offset, follower.log_end_offset)
    return Comparison(
        follower=follower,
        alignment=alignment,
        replays=replays,
        file_replay=_file_replay(reference, follower, protocol),
        drops=drops,
        committed_drops={},
        runs=runs,
        stretches=stretches,
        common_prefix_end=(runs[0].start_offset if runs else shorter) if overlap else None,
        lag=tally_from(leader, follower.log_end_offset, reference_batches, loaded)
        if leader.log_end_offset > follower.log_end_offset
        else Tally(),
        compaction=compaction,
        problems=problems,
    )


def _first_dropped(follower: ReplicaFacts, outcome: Replay) -> int:
    """First offset of which a truncation drops something: what lies below the log start was deleted before."""
    return max(outcome.truncate_to, follower.log_start_offset)


def _first_difference(leader: ReplicaFacts, follower: ReplicaFacts, differences: Sequence[Difference]) -> int:
    starts = [item.start_offset for item in differences if item.kind not in ("format", "batching")]
    shorter = min(leader.log_end_offset, follower.log_end_offset)
    return min(max(min(starts, default=shorter), follower.log_start_offset), follower.log_end_offset)


def with_high_watermark(comparison: Comparison, hw_lower: int) -> Comparison:
    """The same with `committed_drops`: dropped records that are proven committed, under each protocol.

    Proven by the follower's own checkpoint in a conflicting run, else by `hw_lower` on the common prefix.
    """
    counts = {}
    prefix = comparison.common_prefix_end
    for name, outcome in comparison.replays.items():
        # A batch that the cut goes through is dropped whole.
        cut = next(
            (
                batch.base_offset
                for batch in comparison.alignment.own
                if batch.base_offset < outcome.truncate_to < batch.end_offset
            ),
            outcome.truncate_to,
        )
        lost = sum(
            records_between(
                comparison.alignment.own,
                max(run.start_offset, cut),
                min(run.end_offset, run.committed_end),
            )
            for run in comparison.runs
            if run.committed_end is not None
        )
        shared = 0 if prefix is None else max(0, min(prefix, hw_lower) - cut)
        counts[name] = min(lost + shared, comparison.drops[name].record_count)
    return replace(comparison, committed_drops=counts)


def _completed(lineage: Lineage, reference: Reference) -> Lineage:
    epoch = reference.leader_epoch
    if epoch is None or (lineage.latest_epoch is not None and epoch <= lineage.latest_epoch):
        return lineage
    return lineage.assign(epoch, reference.facts.log_end_offset)


def _file_replay(reference: Reference, follower: ReplicaFacts, protocol: str) -> Replay | None:
    theirs, own = reference.facts.file_lineage, follower.file_lineage
    if theirs is None or own is None:
        return None
    if reference.facts.empty:
        theirs = answering_lineage(reference.facts, tiered=False)
    leader = _completed(theirs, reference) if protocol in ("kip-279", "fetch") else theirs
    return _recovered(follower, replay(protocol, follower.following_state(own), reference.facts.state(leader)))
