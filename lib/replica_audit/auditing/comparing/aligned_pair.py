"""Two logs laid side by side, and what their records say: the part of a comparison that looks at batches."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np

from replica_audit.auditing.comparing.alignment import Alignment, align
from replica_audit.auditing.comparing.below_local_start import differences_below
from replica_audit.auditing.comparing.compacted import Compaction, compare_compacted
from replica_audit.auditing.comparing.contents import Reading, RecordProblem, RecordSource
from replica_audit.auditing.comparing.rebatching import decide_by_records
from replica_audit.auditing.comparing.replays import replay_lineage
from replica_audit.auditing.comparing.resent import with_resent
from replica_audit.auditing.replicas.facts import ReplicaFacts
from replica_audit.auditing.replicas.reference import Reference
from replica_audit.formats.segments.batch_rows import Batches
from replica_audit.formats.segments.digests import rows_of_chunks


@dataclass(frozen=True, slots=True)
class Records:
    """How the records of a pair are read, and the batches of all chunks that were read of either side."""

    read: RecordSource
    own: np.ndarray
    """The follower's (`BATCH_DTYPE`)."""
    theirs: np.ndarray


@dataclass(frozen=True, slots=True)
class AlignedPair:
    """A follower beside the reference, as far as their batches, and the records in them, tell."""

    alignment: Alignment = Alignment()
    loaded: frozenset[int] = frozenset()
    """Chunks of which `alignment` has every batch of both."""
    compaction: Compaction | None = None
    """Of a compacted pair whose batches differ, where their records could be read."""
    problems: tuple[RecordProblem, ...] = ()
    """Batches whose records were wanted and could not be had."""


def batches_in(rows: np.ndarray, chunks: Collection[int]) -> Batches:
    """Those of `rows` (`BATCH_DTYPE`) that belong to `chunks` by their base offsets, in the order of these."""
    return Batches.in_order(rows_of_chunks(rows, chunks))


def align_pair(
    reference: Reference,
    follower: ReplicaFacts,
    reference_batches: Batches,
    follower_batches: Batches,
    loaded: Collection[int],
    tiered: bool = False,
    records: Records | None = None,
) -> AlignedPair:
    """Lay one follower beside the reference, given the batches of both in the chunks `loaded` (`wanted_chunks`).

    Without `records` batches are compared by their headers only.
    """
    leader = reference.facts
    lineage = replay_lineage(leader, tiered)
    alignment = align(leader, follower, reference.log_epoch, reference_batches, follower_batches, lineage)
    if below := list(differences_below(leader, follower, lineage, follower_batches)):
        alignment = replace(alignment, differences=(*below, *alignment.differences))
    compaction = None
    problems: tuple[RecordProblem, ...] = ()
    can_read = records is not None and not (leader.second_hand or follower.second_hand)
    alignment = with_resent(leader, follower, alignment, Reading(records.read) if records and can_read else None)
    if records is not None and can_read:
        reading = Reading(records.read)
        if leader.compacted or follower.compacted:
            alignment, compaction = compare_compacted(leader, follower, alignment, records.own, records.theirs, reading)
        else:
            alignment = decide_by_records(leader, follower, alignment, reading)
        problems = tuple(reading.problems)
    return AlignedPair(alignment, frozenset(loaded), compaction, problems)
