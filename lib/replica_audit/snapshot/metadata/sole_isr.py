"""Fencing and registration of brokers in the metadata log; leaders alone in the ISR to the end of their epoch, and signs that they knew
it (docs/semantics.md F.0).

The high watermark of such a leader is its log end, so everything it had was committed, if min.insync.replicas allowed that (KIP-966
part 1, 3.7), no replica outside the ISR still counted as caught up (KAFKA-15021), and its process had applied the change.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter, itemgetter
from typing import Literal, NamedTuple

from replica_audit.model import MIN_ISR, Leadership, PartitionState
from replica_audit.schema import SoleIsr

ELR_FEATURE = "eligible.leader.replicas.version"


class BrokerEvent(NamedTuple):
    """A change of a broker's registration, in effect from the end of its batch on."""

    batch_end: int
    fenced: bool | None
    """None: unchanged."""
    registered: bool
    """True if a process of the broker started."""


class BrokerCourse:
    """The changes of one broker's registration, in order."""

    def __init__(self, events: Sequence[BrokerEvent]) -> None:
        self._fencings = [event for event in events if event.fenced is not None]
        self._ends = {
            fenced: [event.batch_end for event in self._fencings if event.fenced == fenced] for fenced in (True, False)
        }
        self._registrations = [event.batch_end for event in events if event.registered]

    def is_fenced(self, offset: int) -> bool:
        """True if the broker was fenced at `offset`; one that never registered counts as fenced."""
        index = bisect_right(self._fencings, offset, key=attrgetter("batch_end"))
        return index == 0 or self._fencings[index - 1].fenced is True

    def becomes(self, fenced: bool, after: int, before: int) -> bool:
        """True if a batch that ends between the two offsets fenced the broker (`fenced`) or unfenced it."""
        ends = self._ends[fenced]
        index = bisect_right(ends, after)
        return index < len(ends) and ends[index] < before

    @property
    def came_back(self) -> bool:
        """True if the broker registered again: the end of its copy then no longer shows what it knew as leader."""
        return len(self._registrations) > 1

    def registered_after(self, offset: int) -> bool:
        return bool(self._registrations) and self._registrations[-1] > offset


class ClusterCourse:
    """History of the brokers, and the ends of their own copies of the metadata log.

    `elr_levels` are (batch end, level) of the feature's settings; `copy_ends` has, by node id, the end of the part that its
    copy shares with the newest one; `end_offset` is the known end of the log.
    """

    def __init__(
        self,
        brokers: Mapping[int, Sequence[BrokerEvent]],
        elr_levels: Sequence[tuple[int, int]],
        copy_ends: Mapping[int, int],
        end_offset: int,
    ) -> None:
        self._brokers = {broker: BrokerCourse(events) for broker, events in brokers.items()}
        self._elr_levels = elr_levels
        self.copy_ends, self.end_offset = copy_ends, end_offset

    def of(self, broker_id: int) -> BrokerCourse:
        return self._brokers.get(broker_id, _UNKNOWN)

    def has_elr(self, offset: int) -> bool:
        """True if eligible leader replicas were enabled in the batch that ends at `offset`; the cluster's default
        min.insync.replicas is then in the log."""
        index = bisect_right(self._elr_levels, offset, key=itemgetter(0))
        return index > 0 and self._elr_levels[index - 1][1] > 0


_UNKNOWN = BrokerCourse(())


#: (broker id, topic, partition, topic id) → entries of that replica's leader-epoch-checkpoint; None without one.
EpochFiles = Callable[[int, str, int, str], Sequence[tuple[int, int]] | None]


def applied_at(state: PartitionState) -> int:
    """End of the batch that brought a state."""
    # Always set while the metadata log is read, as now.
    assert state.batch_end is not None
    return state.batch_end


def mark_sole_isr(leaderships: Sequence[Leadership], course: ClusterCourse) -> list[Leadership]:
    """`leaderships` with `sole_isr` on the states from which on a leader was alone."""
    marked = []
    for one in leaderships:
        states = [state for state in one.history if not state.uncommitted]
        found = {id(term.states[0]): _describe(term, course) for term in _sole_terms(states)}
        history = tuple(
            state._replace(sole_isr=found[id(state)]) if id(state) in found else state for state in one.history
        )
        marked.append(replace(one, history=history) if found else one)
    return marked


class _SoleTerm(NamedTuple):
    """The rest of an epoch, in which its leader is alone in the ISR."""

    leader_id: int
    states: Sequence[PartitionState]
    since: int
    """End of the batch with the first of its states."""
    until: int | None
    """End of the batch that ends the epoch; None if the epoch has not ended."""


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
            until = applied_at(states[end]) if end < len(states) else None
            yield _SoleTerm(leader, states[first:end], applied_at(states[first]), until)
        begin = end


def _describe(term: _SoleTerm, course: ClusterCourse) -> SoleIsr:
    leader, since = term.leader_id, term.since
    minima = [_min_isr(one, course) for one in term.states]
    known_minima = [one for one in minima if one is not None]
    others = [course.of(broker) for broker in {broker for one in term.states for broker in one.replicas} - {leader}]
    term_end = course.end_offset if term.until is None else term.until
    own_end = course.copy_ends.get(leader)
    until = term_end if own_end is None or course.of(leader).came_back else min(own_end, term_end)
    # Changes in the batch that ends the epoch are applied together with it.
    throughout = all(one.is_fenced(since) and not one.becomes(False, since, until) for one in others)
    ever = all((one.is_fenced(since) and since < term_end) or one.becomes(True, since, term_end) for one in others)
    in_the_end: Literal["later", "no"] = "later" if ever else "no"
    applied = None
    if own_end is not None and own_end > since and not course.of(leader).registered_after(since):
        applied = (
            f"its own copy of the metadata log goes on to {own_end}, past the batch that says so, which ends at {since}"
        )
    return SoleIsr(
        min_isr=max(known_minima) if len(known_minima) == len(minima) else None,
        others_fenced="throughout" if throughout else in_the_end,
        applied=applied,
    )


def _min_isr(state: PartitionState, course: ClusterCourse) -> int | None:
    if MIN_ISR not in state.configs:
        return 1 if course.has_elr(applied_at(state)) else None
    return state.min_isr
