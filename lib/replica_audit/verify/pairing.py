"""Compares the replicas of one partition in two snapshots, whatever the snapshots call their files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from replica_audit.auditing.case import Case
from replica_audit.auditing.compare.aligned_pair import Records, align_pair, batches_in
from replica_audit.auditing.compare.comparison import Comparison, compare
from replica_audit.auditing.compare.epoch_corruption import restore_epochs
from replica_audit.auditing.compare.record_comparison import RecordSource
from replica_audit.auditing.compare.replays import replay_all
from replica_audit.auditing.compare.wanted_chunks import needed_chunks
from replica_audit.auditing.replicas.reference import Reference, log_epoch_as_leader
from replica_audit.auditing.replicas.replica_facts import CopyKey, ReplicaFacts
from replica_audit.segments.record_batch import BATCH_DTYPE

#: Prefixes of the paths of each snapshot's files, so that one reader of records serves both.
BEFORE = "before"
AFTER = "after"

_NONE = np.empty(0, BATCH_DTYPE)


@dataclass(frozen=True, slots=True)
class Wanted:
    """Chunks whose batches a comparison of two moments wants to see, by copy."""

    before: Mapping[CopyKey, set[int]]
    after: Mapping[CopyKey, set[int]]


@dataclass(frozen=True, slots=True)
class Pairing:
    """A partition before and after, and the batches of the chunks that `wanted_chunks` names."""

    before: Case
    after: Case
    old_rows: Mapping[CopyKey, np.ndarray]
    new_rows: Mapping[CopyKey, np.ndarray]
    read: RecordSource | None = None
    """Reads the records of either moment, paths beginning with `BEFORE` or `AFTER`; None: headers decide."""

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

    def batches_after(self, new: ReplicaFacts) -> np.ndarray:
        """The batches of a copy of the later moment, of the chunks that were asked for."""
        return restore_epochs(self.new_rows.get(new.key, _NONE), new.rot)

    def _compare(self, reference: Reference, old: ReplicaFacts) -> Comparison:
        new = reference.facts
        tiered = self.after.is_tiered
        chunks = _chunks(reference, old, tiered)
        theirs = self.batches_after(new)
        own = restore_epochs(self.old_rows.get(old.key, _NONE), old.rot)
        # Ranges and epochs show what a cleaner did in between; its records need not be read for that.
        plain = not (new.compacted or old.compacted)
        read = Records(self.read, own, theirs) if plain and self.read is not None else None
        reference, old = replace(reference, facts=_at(AFTER, new)), _at(BEFORE, old)
        pair = align_pair(
            reference,
            old,
            batches_in(theirs, chunks),
            batches_in(own, chunks),
            chunks,
            tiered,
            read,
        )
        return compare(reference, old, self.after.protocol, pair, tiered)


def wanted_chunks(before: Case, after: Case) -> Wanted:
    """Chunks to read of both moments: those in which a replica differs from what it was, or from the present leader."""
    old_chunks: dict[CopyKey, set[int]] = {}
    new_chunks: dict[CopyKey, set[int]] = {}
    tiered = after.is_tiered
    successors = {facts.broker_id: facts for facts in after.replicas}
    for old in before.replicas:
        now = successors.get(old.broker_id)
        for reference in (after.reference, *([as_reference(now)] if now is not None else ())):
            chunks = _chunks(reference, old, tiered)
            old_chunks.setdefault(old.key, set()).update(chunks)
            new_chunks.setdefault(reference.facts.key, set()).update(chunks)
    # Search every replica for records that the leader lacks.
    everything = set().union(*new_chunks.values())
    return Wanted(old_chunks, {facts.key: everything for facts in after.replicas})


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


def _chunks(reference: Reference, old: ReplicaFacts, tiered: bool) -> set[int]:
    return needed_chunks(reference, old, replay_all(reference, old, tiered))


def _at(moment: str, facts: ReplicaFacts) -> ReplicaFacts:
    segments = tuple(replace(segment, path=f"{moment}/{segment.path}") for segment in facts.segments)
    return replace(facts, segments=segments)
