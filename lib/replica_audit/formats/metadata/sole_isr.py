"""Where a leader was alone in the ISR to the end of its epoch, and whether it knew (docs/semantics.md F.0).

Such a leader's high watermark is its log end, so that all it had was committed, if min.insync.replicas allowed it
(KIP-966 part 1, 3.7), no replica outside the ISR was still counted as caught up (KAFKA-15021), and its own process had
applied the change.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from replica_audit.model import Leadership, PartitionState, SoleIsr

ELR_FEATURE = "eligible.leader.replicas.version"
_MIN_ISR = "min.insync.replicas"

#: (broker id, topic, partition, topic id) → the entries of that replica's leader-epoch-checkpoint; None without one.
EpochFiles = Callable[[int, str, int, str], Sequence[tuple[int, int]] | None]


@dataclass(frozen=True, slots=True)
class BrokerEvent:
    """A change of a broker's registration, which counts from the end of its batch on."""

    batch_end: int
    fenced: bool | None
    """None: as it was."""
    registered: bool
    """A process of it came up."""


@dataclass(frozen=True, slots=True)
class ClusterCourse:
    """What became of the brokers, and how far their own copies of the metadata log go."""

    brokers: Mapping[int, Sequence[BrokerEvent]]
    elr_levels: Sequence[tuple[int, int]]
    """(batch end, level) of the feature's settings."""
    copy_ends: Mapping[int, int]
    """By node id: the end of what its copy has in common with the newest one."""
    end_offset: int
    """Of the log as far as it is known."""

    def fenced_from(self, broker_id: int, offset: int) -> Iterator[tuple[int, bool]]:
        """(batch end, fenced): how it was at `offset`, and every change after it. A broker that never registered is
        fenced.
        """
        now = True
        later = []
        for event in self.brokers.get(broker_id, ()):
            if event.fenced is None:
                continue
            if event.batch_end <= offset:
                now = event.fenced
            else:
                later.append((event.batch_end, event.fenced))
        yield offset, now
        yield from later

    def came_back(self, broker_id: int) -> bool:
        """Whether it registered again: then what its copy goes up to is no longer what it knew when it led."""
        return sum(event.registered for event in self.brokers.get(broker_id, ())) > 1

    def registered_after(self, broker_id: int, offset: int) -> bool:
        return any(event.registered and event.batch_end > offset for event in self.brokers.get(broker_id, ()))

    def has_elr(self, offset: int) -> bool:
        """Whether the feature was on in the batch that ends at `offset`; then a default of the cluster is in the log."""
        levels = [level for batch_end, level in self.elr_levels if batch_end <= offset]
        return bool(levels) and levels[-1] > 0


def mark_sole_isr(
    leaderships: Sequence[Leadership], course: ClusterCourse, epochs: EpochFiles | None
) -> list[Leadership]:
    """The same, with `sole_isr` on the states from which on a leader was alone. `epochs` is asked only where needed."""
    marked = []
    known_epochs = None if epochs is None else _KnownEpochs(leaderships, epochs)
    for one in leaderships:
        states = [state for state in one.history if not state.uncommitted]
        found = {}
        for term in _sole_terms(states):
            known = _describe(term, course)
            if known.applied is None and known.others_fenced == "throughout" and known_epochs is not None:
                came_back = course.registered_after(term.leader_id, term.since)
                known = replace(known, applied=known_epochs.find(term, one, came_back))
            found[id(term.states[0])] = known
        history = tuple(
            replace(state, sole_isr=found[id(state)]) if id(state) in found else state for state in one.history
        )
        marked.append(replace(one, history=history) if found else one)
    return marked


class _SoleTerm(NamedTuple):
    """The rest of an epoch, in which its leader is alone in the ISR."""

    leader_id: int
    states: Sequence[PartitionState]
    since: int
    """End of the batch with the first of them."""
    until: int | None
    """End of the batch that ends the epoch; None where nothing does."""


def _applied_at(state: PartitionState) -> int:
    # Known while the metadata log is read, of which this is a part.
    assert state.batch_end is not None
    return state.batch_end


def _sole_terms(states: Sequence[PartitionState]) -> Iterator[_SoleTerm]:
    begin = 0
    while begin < len(states):
        epoch = states[begin].leader_epoch
        end = next((at for at in range(begin, len(states)) if states[at].leader_epoch != epoch), len(states))
        leader = states[begin].leader_id
        first = end
        while first > begin and leader is not None and states[first - 1].isr == (leader,):
            first -= 1
        if leader is not None and first < end and len(states[first].replicas) > 1:
            until = _applied_at(states[end]) if end < len(states) else None
            yield _SoleTerm(leader, states[first:end], _applied_at(states[first]), until)
        begin = end


def _describe(term: _SoleTerm, course: ClusterCourse) -> SoleIsr:
    leader, since = term.leader_id, term.since
    minima = [_min_isr(one, course) for one in term.states]
    known_minima = [one for one in minima if one is not None]
    others = {broker for one in term.states for broker in one.replicas} - {leader}
    term_end = course.end_offset if term.until is None else term.until
    own_end = course.copy_ends.get(leader)
    until = term_end if own_end is None or course.came_back(leader) else min(own_end, term_end)
    fenced = {broker: list(course.fenced_from(broker, since)) for broker in others}
    at_once = all(changes[0][1] for changes in fenced.values())
    # What changes in the batch that ends the epoch is applied with that end.
    stays = all(is_fenced or at >= until for changes in fenced.values() for at, is_fenced in changes[1:])
    ever = all(any(is_fenced and at < term_end for at, is_fenced in changes) for changes in fenced.values())
    applied = None
    if own_end is not None and own_end > since and not course.registered_after(leader, since):
        applied = (
            f"its own copy of the metadata log goes on to {own_end}, past the batch that says so, which ends at {since}"
        )
    return SoleIsr(
        min_isr=max(known_minima) if len(known_minima) == len(minima) else None,
        others_fenced="throughout" if at_once and stays else "later" if ever else "no",
        applied=applied,
    )


def _min_isr(state: PartitionState, course: ClusterCourse) -> int | None:
    said = state.configs.get(_MIN_ISR)
    if said is None:
        return 1 if course.has_elr(_applied_at(state)) else None
    return min(int(said), len(state.replicas)) if said.isdigit() else None


class _KnownEpochs:
    """Epochs of all partitions by the brokers that may have them in their files, the latest first; each file is read once."""

    def __init__(self, leaderships: Sequence[Leadership], epochs: EpochFiles) -> None:
        self._epochs = epochs
        self._files: dict[tuple[int, str, int], set[int]] = {}
        self._begun: dict[int, list[tuple[PartitionState, Leadership]]] = defaultdict(list)
        for one in leaderships:
            last = None
            for state in one.history if one.topic_id is not None else ():
                if not state.uncommitted and state.leader_id is not None and state.leader_epoch != last:
                    last = state.leader_epoch
                    # When an epoch began that a snapshot has is not known.
                    for broker in state.replicas if state.occasion != "snapshot" else ():
                        self._begun[broker].append((state, one))
        for begun in self._begun.values():
            begun.sort(key=lambda pair: -_applied_at(pair[0]))

    def find(self, term: _SoleTerm, own: Leadership, came_back: bool) -> str | None:
        """An epoch in the leader's files of another partition that came with the same metadata batch or a later one.

        What a broker that came back has may be of then, except for epochs that it led itself before this one ended.
        """
        leader = term.leader_id
        for begun, other in self._begun.get(leader, ()):
            begun_at = _applied_at(begun)
            if begun_at < term.since:
                return None
            led = begun.leader_id == leader and term.until is not None and begun_at <= term.until
            if other is own or (came_back and not led) or begun.leader_epoch not in self._of(leader, other):
                continue
            return (
                f"its leader-epoch-checkpoint of {other.topic}-{other.partition} has leader epoch {begun.leader_epoch}, which began "
                f"with record {begun.metadata_offset} of the metadata log, in the same batch or a later one"
            )
        return None

    def _of(self, broker_id: int, one: Leadership) -> set[int]:
        key = broker_id, one.topic, one.partition
        if key not in self._files:
            entries = None if one.topic_id is None else self._epochs(*key, one.topic_id)
            self._files[key] = {epoch for epoch, _ in entries or ()}
        return self._files[key]
