"""Copies of a partition under each possible leader: where each would be cut, and the chunks whose batches the costs need."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from typing import TYPE_CHECKING, NamedTuple

from replica_audit.auditing.compare.remote_storage import chunks_within
from replica_audit.auditing.compare.replays import (
    answering_lineage,
    as_leader,
    following_lineage,
    lacked_below_start,
    leader_states,
    replay_one,
)
from replica_audit.auditing.compare.wanted_chunks import chunks_at, chunks_to
from replica_audit.cached_property import cached_property

if TYPE_CHECKING:
    from replica_audit.auditing.replicas.reference import Reference
    from replica_audit.auditing.replicas.replica_facts import CopyKey, ReplicaFacts
    from replica_audit.protocol.truncation import ReplicaState


class CandidateCuts(NamedTuple):
    """Offset to which each other copy is truncated as a follower of each candidate, by candidate."""

    as_found: Mapping[CopyKey, Mapping[CopyKey, int]]
    recovered: Mapping[CopyKey, Mapping[CopyKey, int]]
    """Cuts after a restart that first truncates the candidate's own log; only for candidates that may recover."""
    raised: Mapping[CopyKey, Mapping[CopyKey, int]] = {}
    """Cuts after restarts that add the epochs of batches to epoch files again; only in a partition that was `is_converted`."""


@dataclass(frozen=True)
class Candidates:
    """Replicas, each of which may lead, and copies beside them."""

    reference: Reference
    replicas: tuple[ReplicaFacts, ...]
    """By broker id."""
    beside: tuple[ReplicaFacts, ...]
    """Copies from which Kafka does not serve. They are not candidates; records that only they hold are lost."""
    protocol: str
    tiered: bool

    @property
    def copies(self) -> tuple[ReplicaFacts, ...]:
        """The replicas, then the copies beside them."""
        return (*self.replicas, *self.beside)

    @cached_property
    def cuts(self) -> CandidateCuts:
        """Offset to which each copy is cut under each candidate. An unknown high watermark drops nothing."""

        def following(facts: ReplicaFacts) -> ReplicaState:
            mark = None if facts.knows_high_watermark else facts.log_end_offset
            return facts.following_state(following_lineage(facts, self.tiered), mark)

        def cuts_under(candidate: ReplicaFacts, followers: Mapping[CopyKey, ReplicaState]) -> dict[CopyKey, int]:
            elected = as_leader(self.reference, candidate, self.replicas)
            leader = leader_states(elected, answering_lineage(elected.facts, self.tiered))[self.protocol]
            return {
                facts.key: replay_one(self.protocol, facts, followers[facts.key], leader).kept_to
                for facts in self.copies
                if facts.key != candidate.key
            }

        found = {facts.key: following(facts) for facts in self.copies}
        is_mixed = any(facts.is_converted for facts in self.replicas)
        raised = {facts.key: following(facts.raised) for facts in self.copies} if is_mixed else {}
        return CandidateCuts(
            {facts.key: cuts_under(facts, found) for facts in self.replicas},
            {facts.key: cuts_under(facts.recovering, found) for facts in self.replicas if facts.may_recover},
            {facts.key: cuts_under(facts.raised, raised) for facts in self.replicas if is_mixed},
        )

    @cached_property
    def chunks(self) -> dict[CopyKey, set[int]]:
        """Chunks whose batches the costs of all candidates need, by copy: all holders of a chunk, or none.

        | chunk | wanted |
        |---|---|
        | its holders have different batches there | yes |
        | the reference does not hold it | yes |
        | a replica has records there, below another's log start, that this one never had | yes |
        | any other, if logs end alike and no chunk is wanted for the reasons above | no |
        | an end, log start or recorded high watermark of any copy splits a copy of it | yes |
        | a cut of a copy splits its own | yes |
        | a cut that drops something lies above it in the same segment, which has ends of transactions | yes |
        | any other: the reference and whoever else holds it have the same | no: its digest counts it |
        """
        holders: dict[int, list[ReplicaFacts]] = defaultdict(list)
        for facts in self.copies:
            for number in facts.chunks:
                holders[number].append(facts)
        wanted = {number for number, some in holders.items() if self._is_unlike(number, some)}
        wanted |= {
            number
            for facts, other in permutations(self.copies, 2)
            if (lacked := lacked_below_start(facts, other)) is not None
            for number in chunks_within(lacked) & other.chunks.keys()
        }
        if not wanted and len({facts.log_end_offset for facts in self.copies}) < 2:
            return {}
        if not wanted >= holders.keys():
            cuts: dict[CopyKey, set[int]] = defaultdict(set)
            for ways in self.cuts:
                for of_candidate in ways.values():
                    for key, cut in of_candidate.items():
                        cuts[key].add(cut)
            edges = self._edges
            ends = {facts.key: facts.log_end_offset for facts in self.copies}
            forks = {facts.recovering.following_end_offset for facts in self.copies if facts.may_recover}
            forks |= {offset for key, offsets in cuts.items() for offset in offsets if offset < ends[key]}
            for facts in self.copies:
                for offset in edges | cuts[facts.key]:
                    wanted |= chunks_at(facts, offset)
                for offset in forks:
                    wanted |= chunks_to(facts, offset)
        found = {facts.key: wanted & facts.chunks.keys() for facts in self.copies}
        return {key: chunks for key, chunks in found.items() if chunks}

    def _is_unlike(self, number: int, holders: Sequence[ReplicaFacts]) -> bool:
        """True if the holders of a chunk have different batches there, or the reference is not a holder."""
        contents = {(facts.chunks[number].digest, facts.chunks[number].batch_count) for facts in holders}
        return len(contents) > 1 or all(facts is not self.reference.facts for facts in holders)

    @property
    def _edges(self) -> set[int]:
        """Offsets at which logs start and end, as found and as recovered, and their recorded high watermarks."""
        found = {offset for facts in self.copies for offset in (facts.log_start_offset, facts.following_end_offset)}
        found |= {facts.recovering.following_end_offset for facts in self.copies if facts.may_recover}
        marks = (facts.directory.high_watermark_checkpoint for facts in self.copies)
        return found | {mark for mark in marks if mark is not None}

    def among(self, keys: Collection[CopyKey]) -> Candidates:
        """The candidates without the copies that are not in `keys`."""
        if len(keys) == len(self.copies):
            return self
        return replace(
            self,
            replicas=tuple(facts for facts in self.replicas if facts.key in keys),
            beside=tuple(facts for facts in self.beside if facts.key in keys),
        )
