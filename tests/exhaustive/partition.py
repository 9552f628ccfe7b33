"""A model of one partition: who leads it, who is in sync, how far it is committed, and how its controller decides.

Written from docs/semantics.md (C.1, D.2, H) and Kafka's `Partition` and `PartitionChangeBuilder`, without a line of the
library under test. States are values; `committed` is the truth that an audit does not see.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from tests.exhaustive.model_replica import RECORDS, Batch, Replica

BROKERS = (0, 1, 2)


class Entry(NamedTuple):
    """A record of the metadata log: kind is change, register, fence, unfence or stopping."""

    kind: str
    broker: int | None = None
    leader: int | None = None
    """For a change: the new leader, -1 for none, None where it says nothing of it."""
    isr: tuple[int, ...] | None = None
    elr: tuple[int, ...] | None = None
    last_known: tuple[int, ...] | None = None
    recovering: bool | None = None
    replicas: tuple[int, ...] | None = None
    adding: tuple[int, ...] | None = None


class Aside(NamedTuple):
    """A copy that Kafka does not serve from."""

    broker: int
    kind: str
    """future, stray, delete or duplicate (an older one on another disk)."""
    log: Replica


class Coordinator(NamedTuple):
    """Last state of the transaction coordinator for its only producer."""

    producer_epoch: int
    state: str
    """Ongoing, CompleteCommit or CompleteAbort."""
    time: int
    """Number of the event."""


class State(NamedTuple):
    """The partition, its controller, and what was ever committed."""

    min_isr: int
    elr_on: bool
    replicas: tuple[Replica, ...]
    leader: int | None = 0
    epoch: int = 0
    isr: tuple[int, ...] = BROKERS
    elr: tuple[int, ...] = ()
    last_known: tuple[int, ...] = ()
    recovering: bool = False
    fetched: tuple[int, ...] = (-1, -1, -1)
    """The leader's knowledge of log ends: offsets of accepted fetches."""
    committed: frozenset[tuple[int, int]] = frozenset()
    """Names of the batches that were ever below a leader's high watermark."""
    deleted_to: int = 0
    """Up to here DeleteRecords was asked for."""
    metadata: tuple[tuple[int, tuple[Entry, ...]], ...] = ()
    """(event's number, entries) of each batch of the metadata log."""
    clock: int = 0
    aside: tuple[Aside, ...] = ()
    coordinator: Coordinator | None = None
    story: tuple[str, ...] = ()
    """The events so far, for people."""

    @property
    def up(self) -> tuple[int, ...]:
        return tuple(broker for broker in BROKERS if self.replicas[broker].status == "up")

    def with_replica(self, broker: int, replica: Replica) -> State:
        replicas = (*self.replicas[:broker], replica, *self.replicas[broker + 1 :])
        return self._replace(replicas=replicas)

    def log(self, *entries: Entry) -> State:
        """One more batch of the metadata log."""
        return self._replace(metadata=(*self.metadata, (self.clock, entries))) if entries else self


def created(min_isr: int, elr_on: bool) -> State:
    """A new partition with two batches everywhere, committed and checkpointed; the first one is flushed, too."""
    batches = (Batch(0, 0, 0), Batch(RECORDS, 0, 0))
    end = batches[-1].end
    replica = Replica(batches, epochs=((0, 0),), high_watermark=end, recovery_point=RECORDS, mark=end)
    committed = frozenset(batch.name for batch in batches)
    return State(min_isr, elr_on, (replica,) * 3, fetched=(-1, end, end), committed=committed)


def decide(
    state: State,
    isr: tuple[int, ...],
    acceptable: Iterable[int],
    *,
    shut: int | None = None,
    successor: int | None = None,
    unclean: int | None = None,
) -> tuple[State, tuple[Entry, ...]]:
    """`PartitionChangeBuilder.build`: the state after the ISR shall be `isr`, and the record that says so.

    `acceptable` brokers may lead; `shut` stopped uncleanly; of several that may lead `successor` does, since the order of
    the assignment can be any; `unclean` leads where nobody else may.
    """
    acceptable, elr = tuple(acceptable), state.elr
    if state.elr_on:
        known = {*state.elr, *state.isr} - {*isr, shut}
        elr = () if len(isr) >= state.min_isr else tuple(sorted(known))
    valid = [broker for broker in isr or elr if broker in acceptable]
    leader, recovering, is_unclean = state.leader, state.recovering, False
    if leader not in valid:
        leader = None
        if valid:
            leader = successor if successor in valid else valid[0]
        elif state.elr_on and not isr and not elr and len(state.last_known) == 1 and state.last_known[0] in acceptable:
            leader, is_unclean = state.last_known[0], True
        elif unclean is not None:
            leader, is_unclean = unclean, True
    if leader is not None and leader != state.leader:
        if leader in elr:
            isr, elr = (leader,), tuple(broker for broker in elr if broker != leader)
        if is_unclean:
            isr, elr, recovering = (leader,), (), True
    if not isr and not state.elr_on:
        isr = state.isr
    last_known = state.last_known
    if state.elr_on:
        if not isr and state.isr and state.leader is not None and last_known != (state.leader,):
            last_known = (state.leader,)
        elif leader is not None and last_known:
            last_known = ()
    changed = Entry(
        "change",
        leader=None if leader == state.leader else -1 if leader is None else leader,
        isr=None if isr == state.isr else isr,
        elr=None if elr == state.elr else elr,
        last_known=None if last_known == state.last_known else last_known,
        recovering=None if recovering == state.recovering else recovering,
    )
    if changed == Entry("change"):
        return state, ()
    after = state._replace(isr=isr, elr=elr, last_known=last_known, recovering=recovering)
    if leader != state.leader:
        after = after._replace(leader=leader, epoch=state.epoch + 1, fetched=(-1, -1, -1))
    return after, (changed,)


def take_note(before: State, after: State) -> State:
    """Apply a change on the leader: it begins to lead, and its high watermark may become free to move."""
    if after.leader is not None and (after.leader != before.leader or after.epoch != before.epoch):
        replica = after.replicas[after.leader]
        after = after.with_replica(after.leader, replica.assign(after.epoch, replica.end))
    return advance(after)


def advance(state: State) -> State:
    """`Partition.maybeIncrementLeaderHW`, since 3.7."""
    if state.leader is None or len(state.isr) < min(state.min_isr, len(BROKERS)):
        return state
    leader = state.replicas[state.leader]
    mark = min([leader.end, *(state.fetched[broker] for broker in state.isr if broker != state.leader)])
    if mark <= leader.high_watermark:
        return state
    committed = state.committed | {batch.name for batch in leader.batches if batch.end <= mark}
    return state.with_replica(state.leader, leader._replace(high_watermark=mark))._replace(committed=committed)
