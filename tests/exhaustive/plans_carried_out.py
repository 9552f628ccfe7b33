"""Plans carried out on the model, step by step as they are written, and what has become of every record then."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import permutations
from typing import Any

from tests.exhaustive.events import leave, settle
from tests.exhaustive.model_replica import Batch, Replica
from tests.exhaustive.partition import BROKERS, State, decide, take_note
from tests.exhaustive.written_snapshots import UNIQUE

from replica_audit.elect.plan_model import Step

Name = tuple[int, int]

#: Actions that touch no broker; the commands of a copy are carried out.
_IDLE = (
    "capture",
    "copy",
    "recopy",
    "keep_up",
    "salvage",
    "check",
    "restore",
    "restore_config",
    "verify",
    "mend",
)
_COPIED = re.compile(r"-czf broker-(\d+)\S*\.tgz .* -- (.*)$")
_DIRECTORY = re.compile(rf"\./(\S+)-0(?:\.{UNIQUE}-(\w+))?")
_ABORTED = re.compile(r"kafka-transactions.sh .*abort --topic=(\S+) --partition 0 --start-offset (\d+)")
#: Copies that are gone as soon as their broker has started: cut to the current log, deleted, or taken away by hand, since no
#: broker starts with two directories of one partition. What is left out of the assignment stays.
_PERISHABLE = ("future", "delete", "duplicate")

_UNCUT = re.compile(
    r"Broker (\d+) still has (\S+)-0 up to offset (\d+), and the last entry of its leader-epoch-checkpoint below that offset is "
    r"still (\d+) (\d+): "
)


def ways(states: Iterable[State]) -> Iterator[tuple[int, ...]]:
    """Every order in which the controller may fence those that were killed and that it still takes for alive."""
    unseen = {
        broker
        for state in states
        for broker in (*state.isr, *(() if state.leader is None else (state.leader,)))
        if state.replicas[broker].status == "killed"
    }
    yield from permutations(sorted(unseen))


class Cluster:
    """Partitions of one cluster: each a state of the model, all with the same brokers up, stopped and killed."""

    def __init__(self, parts: Mapping[str, State], fenced: Sequence[int], unclean: Iterable[str] = ()) -> None:
        """Brokers are `fenced` in this order first; topics that are `unclean` elect whoever is up where nobody else may lead."""
        self.parts = dict(parts)
        self._begun = dict(parts)
        self.orders: dict[str, tuple[int, ...]] = dict.fromkeys(parts, BROKERS)
        self.unclean = set(unclean)
        self.copies: dict[str, set[Name]] = {topic: set() for topic in parts}
        self.aborted: list[tuple[str, int]] = []
        """(topic, first offset) of the transactions that were aborted by hand."""
        for broker in self.up:
            # One of a move that goes on has nothing but what the log has; what is to be deleted is gone within seconds.
            self._drop(broker, ("future", "delete"))
        for number, broker in enumerate(fenced):
            for topic, state in self.parts.items():
                self.parts[topic] = _fence(state, broker, fenced[number + 1 :])

    @property
    def up(self) -> tuple[int, ...]:
        """Brokers that are up, which is the same for every partition."""
        return next(iter(self.parts.values())).up

    def carry_out(self, steps: Sequence[Step]) -> bool:
        """Every step, as long as what has to hold before it does; False where it does not. Time passes after the copies."""
        for step in steps:
            if step.action not in _IDLE:
                self.settle()
            if not all(map(self._holds, step.before)):
                return False
            if step.action in ("copy", "recopy"):
                self._copy(step)
            elif step.action == "end_transaction":
                self.aborted += [(found[1], int(found[2])) for found in map(_ABORTED.search, step.commands) if found]
            elif step.action == "stop":
                for broker in step.brokers:
                    self.stop(broker)
            elif step.action == "start":
                for broker in step.brokers:
                    self.start(broker)
            elif step.action == "elect":
                for topic, _ in step.partitions:
                    self.elect(topic)
            elif step.action == "reorder":
                self.reorder(json.loads(step.files["reassign.json"])["partitions"])
            elif step.action == "forbid_unclean":
                self.unclean -= {topic for topic, _ in step.partitions}
            elif step.action not in _IDLE:
                raise AssertionError(f"nobody knows how to carry out {step.action}")
        return True

    def _holds(self, condition: str) -> bool:
        """True if a condition on a log is met: the log has all that it had, i.e. was not cut and grown again."""
        found = _UNCUT.match(condition)
        if found is None:
            assert " still has " not in condition, condition
            return True
        broker, (end, *entry) = int(found[1]), map(int, found.groups()[2:])
        before, now = (parts[found[2]].replicas[broker] for parts in (self._begun, self.parts))
        below = [one for one in now.epochs if one[1] < end]
        is_met = now.end >= end and below[-1:] == [tuple(entry)]
        assert not is_met or names(before) <= names(now), condition
        return is_met

    def _copy(self, step: Step) -> None:
        # The others look at the copy.
        for command in step.commands if step.action == "copy" else step.commands[:1]:
            found = _COPIED.search(command)
            assert found is not None, command
            for name in found[2].split():
                directory = _DIRECTORY.fullmatch(name)
                assert directory is not None, command
                state, broker = self.parts[directory[1]], int(found[1])
                # A name that two disks have is told by where the snapshot has it.
                kind = directory[2] or ("duplicate" if f"broker-{broker}/other/{name[2:]}" in step.snapshot else None)
                if kind is None:
                    self.copies[directory[1]] |= names(state.replicas[broker])
                for one in state.aside:
                    if (one.broker, one.kind) == (broker, kind):
                        self.copies[directory[1]] |= names(one.log)

    def _drop(self, broker: int, kinds: Iterable[str]) -> None:
        for topic, state in self.parts.items():
            left = tuple(one for one in state.aside if one.broker != broker or one.kind not in kinds)
            self.parts[topic] = state._replace(aside=left)

    def stop(self, broker: int) -> None:
        """SIGTERM, where it is up."""
        if broker in self.up:
            for topic, state in self.parts.items():
                after, entries = leave(state, broker, self._successor(topic, broker))
                after = after.with_replica(broker, after.replicas[broker].stopped())
                self.parts[topic] = take_note(state, after.log(*entries))
            self.settle()

    def start(self, broker: int) -> None:
        """Where it is down."""
        if broker not in self.up:
            self._drop(broker, _PERISHABLE)
            for topic, state in self.parts.items():
                after = state
                if state.replicas[broker].status == "killed" and broker in (*state.isr, *state.elr):
                    isr = tuple(one for one in state.isr if one != broker)
                    after, _ = decide(state, isr, [one for one in state.up if one != broker], shut=broker)
                after = after.with_replica(broker, after.replicas[broker].loaded())
                if after.leader is None or after.leader not in after.up:
                    successor = self._first(topic, after, after.isr or after.elr)
                    after, _ = decide(after, after.isr, after.up, successor=successor)
                self.parts[topic] = take_note(state, after)
            self.settle()

    def elect(self, topic: str) -> None:
        """An unclean election that is asked for: nothing where somebody leads."""
        state = self.parts[topic]
        if state.leader is None:
            self.parts[topic] = self._uncleanly(topic, state)
            self.settle()

    def reorder(self, assignments: Iterable[Mapping[str, Any]]) -> None:
        """The assignment in another order, for which every replica has to be up, then a preferred election."""
        for one in assignments:
            topic, order = one["topic"], tuple(one["replicas"])
            state = self.parts[topic]
            assert set(order) <= set(state.up), "a reassignment that names a broker which is down is refused"
            self.orders[topic] = order
            if state.leader not in (None, order[0]) and order[0] in state.isr:
                after = state._replace(leader=order[0], epoch=state.epoch + 1, fetched=(-1, -1, -1))
                self.parts[topic] = take_note(state, after)
        self.settle()

    def _first(self, topic: str, state: State, among: Iterable[int]) -> int | None:
        among = set(among)
        return next((one for one in self.orders[topic] if one in among and one in state.up), None)

    def _successor(self, topic: str, gone: int) -> int | None:
        state = self.parts[topic]
        others = {one for one in state.isr if one != gone} or {one for one in state.elr if one != gone}
        return self._first(topic, state, others) if gone == state.leader else None

    def settle(self) -> None:
        """Unclean elections where they are allowed, and time for everybody to catch up."""
        for topic, state in self.parts.items():
            if state.leader is None and state.up and topic in self.unclean:
                state = self._uncleanly(topic, state)
            self.parts[topic] = settle(state) if state.leader in state.up else state

    def _uncleanly(self, topic: str, state: State) -> State:
        first = self._first(topic, state, BROKERS)
        after, _ = decide(state, state.isr if not state.elr_on else (), state.up, unclean=first)
        return take_note(state, after)


def _fence(state: State, broker: int, left: Sequence[int]) -> State:
    """The controller no longer hears of a broker: no file but the controller's changes."""
    if broker not in state.isr and broker != state.leader:
        return state
    alive = [*state.up, *left]
    after, _ = decide(state, tuple(one for one in state.isr if one != broker), alive)
    return take_note(state, after) if after.leader in after.up else after


def readable(replica: Replica) -> list[Batch]:
    """The batches of a log that consumers can read, or will once its broker is up."""
    start = max(replica.log_start if replica.status == "up" else 0, replica.start_mark or 0, replica.first)
    return [batch for batch in replica.batches if batch.base >= start]


def names(replica: Replica) -> set[Name]:
    """The names of these."""
    return {batch.name for batch in readable(replica)}
