"""Transactions in the batches of a history: one producer, whose coordinator ends each with one marker, once it is committed."""

from __future__ import annotations

import random
from collections.abc import Iterable

from tests.exhaustive.model_replica import Batch, Part, Replica
from tests.exhaustive.partition import Coordinator, State

Name = tuple[int, int]


def with_transactions(state: State, chance: random.Random) -> State:
    """The state with some of its batches as parts of transactions. The truth is what was written, also what is gone by now.

    A marker that was never committed is written again, by a coordinator that still waits: such a transaction does not end.
    """
    logs = (*state.replicas, *(one.log for one in state.aside))
    times = {batch.name: batch.time for log in logs for batch in log.batches}
    parts: dict[Name, Part] = {}
    epoch, is_open, coordinator, time = 0, False, None, 0
    for name in sorted({*times, *state.committed}, key=lambda one: (one[1], one[0])):
        time = times.get(name, time)
        what = chance.choice(("data", "data", "COMMIT", "ABORT") if is_open else ("data", "data", "nothing"))
        if what == "data":
            parts[name] = Part(epoch)
            coordinator = coordinator if is_open else Coordinator(epoch, "Ongoing", time)
            is_open = True
        elif what != "nothing" and name in state.committed:
            # The marker has the epoch that the next transaction has.
            epoch, is_open = epoch + 1, False
            parts[name] = Part(epoch, what)
            coordinator = Coordinator(epoch, f"Complete{what.capitalize()}", time)
    replicas = tuple(_parted(replica, parts) for replica in state.replicas)
    aside = tuple(one._replace(log=_parted(one.log, parts)) for one in state.aside)
    return state._replace(replicas=replicas, aside=aside, coordinator=coordinator)


def _parted(log: Replica, parts: dict[Name, Part]) -> Replica:
    return log._replace(batches=tuple(batch._replace(part=parts.get(batch.name)) for batch in log.batches))


def committed_in(logs: Iterable[Replica]) -> set[Name]:
    """Batches with records that a log shows for written: not those of transactions that it left open, or that were aborted."""
    found = set()
    for log in logs:
        data: list[Name] = []
        for batch in log.batches:
            if batch.part is None or batch.part.outcome is not None:
                found.add(batch.name)
            else:
                data.append(batch.name)
            if batch.part is not None and batch.part.outcome is not None:
                found |= set(data) if batch.part.outcome == "COMMIT" else set()
                data = []
    return found


def left_open(batches: Iterable[Batch]) -> int | None:
    """The producer epoch of the transaction that a log leaves open; None where its last one has its marker."""
    first = None
    for batch in batches:
        if batch.part is not None:
            ended = batch.part.outcome is not None
            first = None if ended else batch.part.producer_epoch if first is None else first
    return first


def hangs(batches: Iterable[Batch], known: Iterable[Batch]) -> bool:
    """True if a log leaves a transaction open whose marker was among the batches `known` and will not be written again."""
    first = left_open(batches)
    markers = {batch.part.producer_epoch for batch in known if batch.part is not None and batch.part.outcome}
    return first is not None and first + 1 in markers
