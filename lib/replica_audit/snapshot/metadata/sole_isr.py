"""Fencing and registration of brokers in the metadata log; leaders alone in the ISR to the end of their epoch, and signs that they knew
it (docs/semantics.md F.0).

The high watermark of such a leader is its log end, so everything it had was committed, if min.insync.replicas allowed that (KIP-966
part 1, 3.7), no replica outside the ISR still counted as caught up (KAFKA-15021), and its process had applied the change.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
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


class BegunEpoch(NamedTuple):
    """An epoch of a partition, and the state with which it began."""

    state: PartitionState
    partition: Leadership

    @property
    def at(self) -> int:
        """End of the batch with which it began."""
        return applied_at(self.state)


class KnownEpochs:
    """Epochs of all partitions in brokers' files; each file is read once, on demand."""

    def __init__(self, leaderships: Sequence[Leadership], epochs: EpochFiles) -> None:
        self._epochs = epochs
        self._files: dict[tuple[int, str, int], set[int]] = {}
        self._of: dict[tuple[int, bool], EpochsInFiles] = {}
        self._begun: dict[int, list[BegunEpoch]] = defaultdict(list)
        for one in leaderships:
            if one.topic_id is not None:
                self._note_epochs(one)
        for begun in self._begun.values():
            begun.sort(key=lambda one: -one.at)

    def _note_epochs(self, one: Leadership) -> None:
        last = None
        for state in one.history:
            if state.uncommitted or state.leader_id is None or state.leader_epoch == last:
                continue
            last = state.leader_epoch
            # It is unknown when an epoch in a snapshot began.
            if state.occasion != "snapshot":
                for broker in state.replicas:
                    self._begun[broker].append(BegunEpoch(state, one))

    def of(self, broker: int, *, led: bool = False) -> EpochsInFiles:
        """Epochs in the broker's files; with `led` only those in which it led."""
        if (broker, led) not in self._of:
            begun = [one for one in self._begun.get(broker, ()) if not led or one.state.leader_id == broker]
            self._of[broker, led] = EpochsInFiles(
                begun, lambda one: one.state.leader_epoch in self._in_file(broker, one.partition)
            )
        return self._of[broker, led]

    def _in_file(self, broker: int, one: Leadership) -> set[int]:
        key = broker, one.topic, one.partition
        if key not in self._files:
            entries = None if one.topic_id is None else self._epochs(*key, one.topic_id)
            self._files[key] = {epoch for epoch, _ in entries or ()}
        return self._files[key]


class EpochsInFiles:
    """Epochs of `begun`, latest first, that are in a file (`is_in_file`), searched lazily."""

    def __init__(self, begun: Sequence[BegunEpoch], is_in_file: Callable[[BegunEpoch], bool]) -> None:
        self._begun, self._is_in_file = begun, is_in_file
        self._looked_at = 0
        self._found: list[BegunEpoch] = []
        self._stretch_ends: list[int] = []
        """End in `_found` of each run of one partition, except the last."""

    def find_latest(self, own: Leadership, since: int, until: int | None = None) -> BegunEpoch | None:
        """The latest epoch of a partition other than `own` whose first batch ends from `since` to `until`."""
        index = 0 if until is None else bisect_left(self._found, -until, key=lambda one: -one.at)
        while index < len(self._found) or self._find_next(since):
            one = self._found[index]
            if one.at < since:
                return None
            if one.partition is own:
                # Skip to the next run, another partition's, in one step however many epochs this one has.
                stretch = bisect_right(self._stretch_ends, index)
                index = self._stretch_ends[stretch] if stretch < len(self._stretch_ends) else len(self._found)
            elif until is not None and one.at > until:
                index += 1
            else:
                return one
        return None

    def _find_next(self, since: int) -> bool:
        """Search for the next epoch that began at `since` or later; True if there is one."""
        while self._looked_at < len(self._begun) and self._begun[self._looked_at].at >= since:
            one = self._begun[self._looked_at]
            self._looked_at += 1
            if self._is_in_file(one):
                if self._found and self._found[-1].partition is not one.partition:
                    self._stretch_ends.append(len(self._found))
                self._found.append(one)
                return True
        return False


def mark_sole_isr(
    leaderships: Sequence[Leadership], course: ClusterCourse, epochs: EpochFiles | None
) -> list[Leadership]:
    """`leaderships` with `sole_isr` on the states from which on a leader was alone; calls `epochs` only if needed."""
    marked = []
    known_epochs = None if epochs is None else KnownEpochs(leaderships, epochs)
    for one in leaderships:
        states = [state for state in one.history if not state.uncommitted]
        found = {}
        for term in _sole_terms(states):
            known = _describe(term, course)
            if known.applied is None and known.others_fenced == "throughout" and known_epochs is not None:
                known = known._replace(applied=_find_applied(term, one, course, known_epochs))
            found[id(term.states[0])] = known
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


def _find_applied(term: _SoleTerm, own: Leadership, course: ClusterCourse, known: KnownEpochs) -> str | None:
    """An epoch of another partition in the leader's files that came with the same metadata batch or a later one.

    If the broker has come back since, it may have received the epoch after that, unless it led in it before this one ended.
    """
    leader, since, until = term.leader_id, term.since, term.until
    if not course.of(leader).registered_after(since):
        found = known.of(leader).find_latest(own, since)
    elif until is not None:
        found = known.of(leader, led=True).find_latest(own, since, until)
    else:
        found = None
    if found is None:
        return None
    state, other = found
    return (
        f"its leader-epoch-checkpoint of {other.topic_partition} has leader epoch {state.leader_epoch}, which began "
        f"with record {state.metadata_offset} of the metadata log, in the same batch or a later one"
    )
