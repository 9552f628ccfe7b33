"""The offset up to which each history of the metadata log is known to be committed, and the proof."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from replica_audit.snapshot.metadata.kraft_records import Voters
from replica_audit.snapshot.metadata.log_copies import MetadataCopy
from replica_audit.snapshot.metadata.quorum import find_seeded, newest_copy, parting, votes, weigh_copies
from replica_audit.snapshot.metadata.stale_copies import Applied, Stale, tell_majority


class Proven(NamedTuple):
    """A history is committed below `end_offset`; 0 and None without proof."""

    end_offset: int = 0
    proof: str | None = None


class ProvenBy(NamedTuple):
    """Sources that may prove records of a history committed."""

    copies: tuple[MetadataCopy, ...]
    """Copies that do not contradict each other."""
    applied: Sequence[Applied | None]
    """Other evidence than a majority of copies."""
    forgotten: bool = False
    """True if its voters elected in an epoch that another history had reached (R4): their majority proves nothing."""


def prove_ends(
    histories: Sequence[ProvenBy], copies: Sequence[MetadataCopy], voters: Voters | None, stale: Stale | None
) -> tuple[Proven, ...]:
    """The proven end of each history; `copies` are all that were captured. A proof for one also holds for another, up to where they part."""
    own = [_prove(one, copies, voters, stale) for one in histories]
    newest = [newest_copy(one.copies) for one in histories]

    def shared(at: int) -> Proven:
        found = [own[at]]
        for other, proven in enumerate(own):
            parted = None if other == at else parting(newest[at], newest[other])
            if parted is not None:
                found.append(proven._replace(end_offset=min(parted, proven.end_offset)))
        return max(found, key=lambda one: one.end_offset)

    return tuple(map(shared, range(len(own))))


def _prove(history: ProvenBy, copies: Sequence[MetadataCopy], voters: Voters | None, stale: Stale | None) -> Proven:
    found = [Proven()]
    weighed = weigh_copies(history.copies, voters)
    if weighed.snapshots:
        last = weighed.snapshots[-1]
        found.append(
            Proven(last.end_offset, f"{last.path} was taken of it, and snapshots are of committed records only")
        )
    own = [one for one in history.copies if find_seeded(one, copies, voters) is None]
    if own and not history.forgotten:
        written = weighed if len(own) == len(history.copies) else weigh_copies(own, voters)
        end = written.committed_end
        if end is not None:
            holding = (one.node_id for one in votes(own, voters) if one.end_offset >= end)
            found.append(Proven(end, tell_majority(holding, voters)))
    applied = [one for one in history.applied if one is not None]
    if stale is not None and not set(stale.copies).isdisjoint(history.copies):
        applied.append(stale.applied)
    found += [Proven(one.end_offset, one.proof) for one in applied]
    return max(found, key=lambda one: one.end_offset)
