"""Leaders that were alone in the ISR: all that they had was committed (docs/semantics.md F.0, "Alone in the ISR")."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from replica_audit.auditing.compare.divergent_ranges import CommitProof
from replica_audit.protocol.versions import counts_fenced_outsiders, stands_still_below_min_isr
from replica_audit.text import render_time

if TYPE_CHECKING:
    from replica_audit.auditing.replicas.replica_facts import ReplicaFacts
    from replica_audit.model import Leadership, PartitionState
    from replica_audit.schema import SoleIsr

#: broker.session.timeout.ms by default: a broker that is fenced was heard of this long before.
_SESSION_MS = 9_000


@dataclass(frozen=True, slots=True)
class SoleTerm:
    """An epoch that ended with its leader alone in the ISR, what it proves, and whether that is proven or only likely."""

    leader_epoch: int
    leader_id: int
    proven: bool
    proof: CommitProof


def sole_terms(
    replicas: Sequence[ReplicaFacts], leadership: Leadership | None, kafka_version: tuple[int, ...] | None
) -> tuple[SoleTerm, ...]:
    """Those of the history that prove anything; none where leadership comes without one.

    The leader's own files have to know the epoch: a leader writes it there as soon as it leads.
    """
    if leadership is None:
        return ()
    states = [state for state in leadership.history if not state.uncommitted]
    found = []
    for number, state in enumerate(states):
        facts = next((one for one in replicas if one.broker_id == state.leader_id), None)
        alone = state.sole_isr
        if alone is None or facts is None or not _is_enough(alone, kafka_version):
            continue
        if not _knows(facts, state.leader_epoch):
            continue
        before = states[number - 1] if number else None
        began_alone = state.occasion != "snapshot" and (before is None or before.leader_epoch < state.leader_epoch)
        end = next((one for one in states[number:] if one.leader_epoch > state.leader_epoch), None)
        applied = "its own files have that epoch, which began so" if began_alone else alone.applied
        fenced = alone.others_fenced
        old = counts_fenced_outsiders(kafka_version) is True
        proven = applied is not None and fenced == "throughout" and not old
        if proven or (fenced != "no" and (applied is not None or _took_note(facts, state, end))):
            proof = _proof(facts.broker_id, state, alone, proven, applied, kafka_version)
            found.append(SoleTerm(state.leader_epoch, facts.broker_id, proven, proof))
    return tuple(found)


def _is_enough(alone: SoleIsr, kafka_version: tuple[int, ...] | None) -> bool:
    """Whether one replica in sync was enough for the high watermark to move."""
    if stands_still_below_min_isr(kafka_version) is False:
        return True
    return alone.min_isr is not None and alone.min_isr <= 1


def _knows(facts: ReplicaFacts, leader_epoch: int) -> bool:
    entries = facts.directory.checkpoint_epochs or ()
    return facts.lineage.start_of(leader_epoch) is not None or any(epoch == leader_epoch for epoch, _ in entries)


def _took_note(facts: ReplicaFacts, state: PartitionState, end: PartitionState | None) -> bool:
    """Whether times say so: it wrote after the change, or was heard of after it, being fenced only later."""
    if end is not None and end.time_ms - state.time_ms > _SESSION_MS:
        return True
    return any(
        chunk.last_timestamp_ms is not None and chunk.last_timestamp_ms >= state.time_ms
        for chunk in facts.chunks.values()
    )


def _proof(
    leader_id: int,
    state: PartitionState,
    alone: SoleIsr,
    proven: bool,
    applied: str | None,
    kafka_version: tuple[int, ...] | None,
) -> CommitProof:
    minimum = alone.min_isr
    allowed = (
        f"min.insync.replicas was {minimum}"
        if minimum is not None and minimum <= 1
        else f"Kafka {'.'.join(map(str, kafka_version or ()))} moves the high watermark however few replicas are in sync"
    )
    others = {
        "throughout": "every other assigned replica was fenced in the same metadata batch and stayed so for as long as the leader could know",
        "later": "the other assigned replicas were fenced, but not from that batch on for all of the time",
    }[alone.others_fenced]
    noted = applied or "nothing but times shows that the leader's process took note of it"
    when = f"{render_time(state.time_ms)}, record {state.metadata_offset} of the metadata log"
    text = f"broker {leader_id} was alone in the ISR in leader epoch {state.leader_epoch} from {render_time(state.time_ms)} on"
    if not proven:
        text += ", which makes it likely that they were committed"
    return CommitProof(
        "sole_isr",
        leader_id,
        text,
        str(state.leader_epoch),
        evidence=(f"ISR {leader_id} alone: {when}", allowed, noted, others),
    )


def committed_stretch(facts: ReplicaFacts, term: SoleTerm) -> int | None:
    """Up to where a replica's log is that of the leader of `term` as far as its epoch; None where nothing shows it.

    An epoch has one leader, so whoever has its records has that leader's log below them.
    """
    own = facts.broker_id == term.leader_id and _knows(facts, term.leader_epoch)
    if not own and facts.lineage.start_of(term.leader_epoch) is None:
        return None
    later = [start for epoch, start in facts.lineage if epoch > term.leader_epoch]
    return min(later, default=facts.log_end_offset)
