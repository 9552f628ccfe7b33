"""Discovery by tasks, each of them pickled on its way and back as Spark does, of snapshots however small."""

from __future__ import annotations

import pickle
from functools import partial
from types import FunctionType
from typing import Any, NamedTuple

from pyspark import cloudpickle

from replica_audit.runner.executor import InProcess
from replica_audit.runner.ingest import SpreadTasks
from replica_audit.snapshot import packed_replicas, spread_discovery
from replica_audit.snapshot.inventory import Inventory
from replica_audit.snapshot.log_dirs import replica_key, segment_key
from replica_audit.snapshot.packed_replicas import SpreadReplicas


class Job(NamedTuple):
    """Tasks started at once."""

    tasks: int
    sent: int
    """Bytes of the tasks, and of what each is to do."""
    got: int
    """Bytes that came back."""
    work: str
    """Name of the function that a part of a large audit is given to; else of that of the task."""


class Pickling(InProcess):
    """Counts the jobs and tasks, and the bytes that go to them and come back; a task may be attempted more than once."""

    is_apart = True
    parallelism = 2

    def __init__(self, attempts: int = 1) -> None:
        self.attempts = attempts
        self.jobs: list[Job] = []

    def map(self, tasks, work, ended=None):
        sent = [cloudpickle.dumps((work, task)) for task in tasks]
        found, got = [], 0
        for task, content in zip(tasks, sent):
            for _ in range(self.attempts):
                of_task, own = pickle.loads(content)
                answer = pickle.dumps(list(of_task(own)))
            got += len(answer)
            found += pickle.loads(answer)
            if ended is not None:
                ended(task)
        if tasks:
            self.jobs.append(Job(len(tasks), sum(map(len, sent)), got, name_of(work)))
        return found


def name_of(work: Any) -> str:
    """Name of the function that those around it end in."""
    while isinstance(work, partial):
        given = [one for one in work.args if isinstance(one, (partial, FunctionType))]
        work = given[0] if given else work.func
    return work.__name__


def spread_everything(monkeypatch, stretch: int = 3, pack: int = 2, large: int = 1 << 40) -> None:
    """Have tasks read every snapshot: some directories each, packed a few at a time."""
    monkeypatch.setattr(spread_discovery, "SPREAD_ABOVE", 0)
    monkeypatch.setattr(spread_discovery, "STRETCH_DIRECTORIES", stretch)
    monkeypatch.setattr(packed_replicas, "PACK_REPLICAS", pack)
    monkeypatch.setattr(packed_replicas, "LARGE_BYTES", large)


def spreading() -> SpreadTasks:
    """For `discover`."""
    return SpreadTasks(Pickling())


def as_one_pass(inventory: Inventory) -> Inventory:
    """The inventory with all that tasks have read unpacked, as one pass over the snapshot has it."""
    held = [one for pack in inventory.spread.packs for one in pack.unpack()]
    files = [file for one in held for file in one.segments]
    files += (file for pack in inventory.spread.large for file in pack.unpack())
    replicas = sorted((*inventory.replicas, *(one.replica for one in held)), key=replica_key)
    segments = sorted((*inventory.segments, *files), key=segment_key)
    return inventory._replace(replicas=tuple(replicas), segments=tuple(segments), spread=SpreadReplicas())
