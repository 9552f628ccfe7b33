"""All that may happen next to a partition of the model: writes, fetches, checkpoints, stops, kills, losses of power, elections."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from tests.exhaustive.model_replica import RECORDS, Batch, Replica, follow
from tests.exhaustive.partition import BROKERS, Entry, State, advance, decide, take_note


class Event(NamedTuple):
    """Something that may happen, and the state that it leads to, which is worked out where it is asked for."""

    name: str
    change: Callable[..., State]
    arguments: tuple[Any, ...]

    def happen(self) -> State:
        after = self.change(*self.arguments)
        return after._replace(story=(*after.story, self.name))


def happenings(state: State) -> Iterator[State]:
    """Every state that one event leads to."""
    return (event.happen() for event in events_of(state))


def events_of(state: State) -> Iterator[Event]:
    """Everything that may happen next."""
    state = state._replace(clock=state.clock + 1)
    return (Event(name, change, (state, *arguments)) for name, change, *arguments in _events(state))


def _events(state: State) -> Iterator[tuple[Any, ...]]:
    """Name, function and further arguments of each event."""
    leader, up = state.leader, state.up
    if leader is not None:
        yield "write", _write
        for broker in up:
            if broker != leader:
                yield f"broker {broker} fetches", fetch, broker
                if broker in state.isr and state.fetched[broker] < state.replicas[leader].end:
                    yield f"broker {broker} leaves the ISR", _shrink, broker
        yield "all catch up", settle
        if state.replicas[leader].log_start < state.replicas[leader].high_watermark:
            yield "DeleteRecords up to the high watermark", _delete
    elif up:
        for broker in up:
            yield f"broker {broker} is elected uncleanly", _elect_uncleanly, broker
    yield "checkpoints are written", _checkpoint
    for broker in up:
        for successor in _successors(state, broker):
            then = "" if successor is None else f", broker {successor} leads"
            yield f"broker {broker} stops{then}", _stop, broker, successor
            for end in cut_ends(state.replicas[broker]):
                lost = "is killed" if end == state.replicas[broker].end else f"loses power and its log from {end} on"
                yield f"broker {broker} {lost}{then}", _kill, broker, end, successor
    for broker in BROKERS:
        if broker not in up:
            yield f"broker {broker} starts", _start, broker


def cut_ends(replica: Replica) -> list[int]:
    """Possible log ends after a power loss: all of it, without its last batch, or what was flushed."""
    possible = {replica.end, max(replica.recovery_point, replica.end - RECORDS), replica.recovery_point}
    return sorted(end for end in possible if end <= replica.end)


def _successors(state: State, broker: int) -> list[int | None]:
    """Who may lead when a broker goes: each live one in the ISR, or nobody has to."""
    if broker != state.leader:
        return [None]
    rest = tuple(one for one in state.isr if one != broker)
    return [one for one in rest or state.elr if one != broker and one in state.up] or [None]


def _write(state: State) -> State:
    leader = state.replicas[state.leader]
    batch = Batch(leader.end, state.epoch, state.clock)
    return advance(state.with_replica(state.leader, leader.append(batch)))


def fetch(state: State, broker: int) -> State:
    """One accepted fetch, after the cuts that it takes; the answer carries the leader's high watermark as it was."""
    leader = state.replicas[state.leader]
    follower = follow(state.replicas[broker], leader)
    position, mark = follower.end, leader.high_watermark
    fetched = tuple(position if one == broker else known for one, known in enumerate(state.fetched))
    after = state._replace(fetched=fetched)
    began = next((start for epoch, start in leader.epochs if epoch == state.epoch), leader.end)
    if broker not in state.isr and position >= max(mark, began):
        after, entries = decide(after, tuple(sorted((*state.isr, broker))), state.up)
        if after.recovering:
            after = after._replace(recovering=False)
            entries = tuple(entry._replace(recovering=False) for entry in entries)
        after = after.log(*entries)
    after = advance(after)
    for batch in leader.batches:
        if batch.base >= position:
            follower = follower.append(batch)
    follower = follower._replace(high_watermark=max(follower.log_start, min(mark, follower.end)))
    return after.with_replica(broker, follower.advance_log_start(leader.log_start))


def settle(state: State) -> State:
    """Every live follower fetches until it knows all that the leader has and knows."""
    while True:
        before = state
        for broker in state.up:
            if broker != state.leader:
                state = fetch(state, broker)
        if state == before:
            return state


def _shrink(state: State, broker: int) -> State:
    """The leader takes a live follower out of the ISR, which has not caught up for long."""
    after, entries = decide(state, tuple(one for one in state.isr if one != broker), state.up)
    if after.recovering:
        after = after._replace(recovering=False)
        entries = tuple(entry._replace(recovering=False) for entry in entries)
    return take_note(state, after.log(*entries))


def _delete(state: State) -> State:
    leader = state.replicas[state.leader]
    after = state.with_replica(state.leader, leader.advance_log_start(leader.high_watermark))
    return after._replace(deleted_to=max(state.deleted_to, leader.high_watermark))


def _checkpoint(state: State) -> State:
    for broker in state.up:
        state = state.with_replica(broker, state.replicas[broker].checkpointed())
    return state


def _elect_uncleanly(state: State, broker: int) -> State:
    after, entries = decide(state, state.isr if not state.elr_on else (), state.up, unclean=broker)
    return take_note(state, after.log(*entries))


def leave(state: State, broker: int, successor: int | None) -> tuple[State, tuple[Entry, ...]]:
    """The controller takes a broker out that is no longer there, or about to go."""
    if broker not in state.isr:
        return state, ()
    others = [one for one in state.up if one != broker]
    return decide(state, tuple(one for one in state.isr if one != broker), others, successor=successor)


def _stop(state: State, broker: int, successor: int | None) -> State:
    after, entries = leave(state, broker, successor)
    after = after.log(Entry("stopping", broker), *entries)
    after = after.with_replica(broker, after.replicas[broker].stopped())
    return take_note(state, after.log(Entry("fence", broker)))


def _kill(state: State, broker: int, end: int, successor: int | None) -> State:
    after, entries = leave(state, broker, successor)
    after = after.with_replica(broker, after.replicas[broker].killed(end))
    return take_note(state, after.log(*entries, Entry("fence", broker)))


def _start(state: State, broker: int) -> State:
    """Registration, which takes a broker that stopped uncleanly out of ISR and ELR, and then unfencing."""
    after = state
    entries: tuple[Entry, ...] = (Entry("register", broker),)
    if state.replicas[broker].status == "killed" and broker in (*state.isr, *state.elr):
        isr = tuple(one for one in state.isr if one != broker)
        after, changed = decide(state, isr, [one for one in state.up if one != broker], shut=broker)
        entries += changed
    after = after.log(*entries).with_replica(broker, after.replicas[broker].loaded())
    entries = (Entry("unfence", broker),)
    if after.leader is None:
        after, changed = decide(after, after.isr, after.up)
        entries += changed
    return take_note(state, after.log(*entries))
