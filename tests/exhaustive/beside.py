"""Histories in which a copy is left that Kafka does not serve from: put aside, or on another disk (docs/semantics.md, H8 and H15)."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from tests.exhaustive.events import cut_ends, events_of, happenings, settle
from tests.exhaustive.model_replica import Replica
from tests.exhaustive.partition import BROKERS, Aside, Entry, State, decide, take_note

#: Kinds of copies, and how a broker comes to have one.
KINDS = ("future", "stray", "delete", "duplicate")


def with_copy(way: Sequence[State], kind: str, chance: random.Random, more: int) -> State | None:
    """A state in which a broker has a copy of the kind, on or after a state of the history `way`; None where nobody can.

    `more` events at random follow where the copy stays, those of a broker that dies at once where Kafka is about to delete it.
    """
    if kind == "future":
        return _moving(way, chance)
    found = [after for state in way for after in _left_out(state, kind, chance)]
    if not found:
        return None
    after = chance.choice(found)
    if kind == "delete":
        broker = after.aside[-1].broker
        dies = [kill for kill in happenings(after) if kill.replicas[broker].status == "killed"]
        return chance.choice([after, *dies])
    for _ in range(chance.randrange(more + 1)):
        after = chance.choice(list(events_of(after))).happen()
    return after


def _moving(way: Sequence[State], chance: random.Random) -> State | None:
    """A replica was being moved to another disk: what was fetched there may have reached the disk, and that of the log not."""
    broker = chance.choice(BROKERS)
    down = next((state for state in reversed(way) if state.replicas[broker].status == "up"), way[0])
    log = down.replicas[broker]
    ends = [log.first, *(batch.end for batch in log.batches)]
    if way[-1].replicas[broker].status == "killed":
        # What only the copy has is worth most.
        ends = [end for end in ends if end > way[-1].replicas[broker].end] or ends
    copy = log.truncate_to(chance.choice(ends))
    return way[-1]._replace(aside=(Aside(broker, "future", copy),))


def _left_out(state: State, kind: str, chance: random.Random) -> Iterator[State]:
    """After a replica was taken out of the assignment and put back, or came back on another disk, and caught up there."""
    if state.leader is None or state.leader not in state.up:
        return
    for broker in BROKERS:
        old = state.replicas[broker]
        if broker == state.leader or (old.status == "up") != (kind == "delete"):
            continue
        others = tuple(one for one in BROKERS if one != broker)
        after = state._replace(clock=state.clock + 1, elr=tuple(one for one in state.elr if one != broker))
        after, entries = decide(after, tuple(one for one in after.isr if one != broker), [*state.up], shut=broker)
        if broker in (*after.isr, *after.last_known):
            continue  # Nobody else is in sync: it cannot be left out.
        elr = None if after.elr == state.elr else after.elr
        changed = entries[0] if entries else Entry("change")
        if kind == "duplicate":
            entries = (changed._replace(elr=elr),) if changed._replace(elr=elr) != Entry("change") else ()
        else:
            entries = (changed._replace(elr=elr, replicas=others),)
        if old.status != "up":
            entries += (Entry("register", broker), Entry("unfence", broker))
        if kind != "duplicate":
            entries += (Entry("change", replicas=BROKERS, adding=(broker,)),)
        after = after.log(*entries)
        copy = old.killed(chance.choice(cut_ends(old))) if old.status == "up" and kind == "duplicate" else old
        after = after.with_replica(broker, Replica())
        fetched = tuple(-1 if one == broker else known for one, known in enumerate(after.fetched))
        after = settle(take_note(state, after._replace(fetched=fetched, clock=after.clock + 1)))
        if kind != "duplicate":
            after = after.log(Entry("change", adding=()))
        story = f"broker {broker} gets a new log, the old one is a copy: {kind}"
        yield after._replace(aside=(*after.aside, Aside(broker, kind, copy)), story=(*state.story, story))
