"""Random histories of a sound tiered partition, copied at rest or while it runs: nothing above low is said, nothing of remote storage,
and no leader costs a record that was not deleted.

The model has a leader and a follower with segments of their own, copies and deletions in remote storage that are begun,
finished, fail and are tried again, local retention, retention, DeleteRecords, clean elections, and checkpoints that lag. Of
each broker checkpoints, log and epoch file, and the log of remote storage, are copied at moments of their own, in this order.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.support.encoder import Record, encode_batch
from tests.support.remote_log import DELETED, DELETING, FINISHED, TIERED, copied
from tests.support.scenario import audit
from tests.support.snapshots import TOPIC, Replica, write_manifest

from replica_audit.config import Settings
from replica_audit.model import TopicPartition
from replica_audit.runner.in_process import audit_all

BROKERS = (1, 2)


@dataclass
class Segment:
    """A segment in remote storage and what is written of it."""

    start: int
    end: int
    epochs: list[tuple[int, int]]
    number: int
    by: int
    states: list[tuple[int, int]] = field(default_factory=list)

    @property
    def state(self) -> int:
        return self.states[-1][0] if self.states else 0

    def messages(self, began: int) -> list[bytes]:
        return copied(
            self.start,
            self.end,
            *self.epochs,
            number=self.number,
            by=(self.by, self.by),
            at=(began, began),
            then=self.states,
        )


@dataclass
class Local:
    """The log of one broker: where its segments begin, the last of which is written."""

    bases: list[int] = field(default_factory=lambda: [0])
    log_start: int = 0
    checkpoint: int = 0
    epochs: list[tuple[int, int]] = field(default_factory=lambda: [(0, 0)])

    def advance(self, log_start: int) -> None:
        """`UnifiedLog.maybeIncrementLogStartOffset`: the epoch file loses what is below."""
        if log_start <= self.log_start:
            return
        self.log_start = log_start
        first = max(index for index, (_, start) in enumerate(self.epochs) if start <= log_start)
        self.epochs = [(self.epochs[first][0], log_start), *self.epochs[first + 1 :]]
        while len(self.bases) > 1 and self.bases[1] <= log_start:
            del self.bases[0]


class Cluster:
    """Everything below `end` is committed and on both brokers."""

    def __init__(self, random_: random.Random) -> None:
        self.random = random_
        self.end = 0
        self.leader = 1
        self.batches: list[tuple[int, int, int]] = []
        self.logs = {broker: Local() for broker in BROKERS}
        self.remote: list[Segment] = []
        self.written: list[tuple[int, int, int]] = []
        """Messages: number of the segment, how many of its states, time."""
        self.now = 1000

    @property
    def epoch(self) -> int:
        return self.logs[self.leader].epochs[-1][0]

    def append(self) -> None:
        for _ in range(self.random.randint(1, 3)):
            size = self.random.randint(1, 5)
            self.batches.append((self.end, size, self.epoch))
            self.end += size
            for log in self.logs.values():
                if self.random.random() < 0.4:
                    log.bases.append(self.end)
        for log in self.logs.values():
            log.bases = sorted(set(log.bases))

    def elect(self) -> None:
        if self.end == self.logs[self.leader].epochs[-1][1]:
            return
        for log in self.logs.values():
            log.epochs.append((self.epoch + 1 if log is self.logs[self.leader] else log.epochs[-1][0] + 1, self.end))
        self.leader = 3 - self.leader

    def copied_to(self) -> int:
        return max((one.end for one in self.remote if FINISHED in [state for state, _ in one.states]), default=0)

    def tell(self, one: Segment, state: int | None) -> None:
        self.now += self.random.randint(1, 400_000)
        if state is not None:
            one.states.append((state, self.now))
        self.written.append((one.number, len(one.states), self.now))

    def copy(self) -> None:
        log = self.logs[self.leader]
        begun = [one for one in self.remote if not one.states and one.by == self.leader]
        if begun and self.now - self.time_of(begun[-1]) < 1_800_000:
            self.tell(begun[-1], self.random.choice([FINISHED, FINISHED, FINISHED, DELETING]))
            return
        start = max(self.copied_to(), log.log_start)
        bases = [*log.bases, self.end + 1]
        for base, after in zip(log.bases, bases[1:], strict=True):
            if base <= start < after <= self.end and after in log.bases:
                epochs = [(epoch, max(first, base)) for epoch, first in log.epochs if first < after]
                epochs = [one for one, later in zip(epochs, [*epochs[1:], (0, after)], strict=True) if later[1] > base]
                epochs = [(epoch, first) for epoch, first in epochs if first < after]
                one = Segment(base, after, epochs, len(self.remote), self.leader)
                self.remote.append(one)
                self.tell(one, None)
                return

    def time_of(self, one: Segment) -> int:
        return next(time for number, _, time in self.written if number == one.number)

    def delete(self) -> None:
        going = [one for one in self.remote if one.state == DELETING]
        if going:
            self.tell(going[0], self.random.choice([DELETED, DELETED, DELETING]))
            return
        log = self.logs[self.leader]
        due = [one for one in self.remote if one.state == FINISHED and one.end <= log.log_start]
        if due:
            # Those of epochs that the epoch file still has, then those of epochs before its first (`cleanupExpiredRemoteLogSegments`).
            first = log.epochs[0][0]
            self.tell(min(due, key=lambda one: one.epochs[-1][0] < first), DELETING)

    def retain(self) -> None:
        there = [one for one in self.remote if one.state == FINISHED and one.end > self.logs[self.leader].log_start]
        if there:
            self.logs[self.leader].advance(min(one.end for one in there))

    def delete_records(self) -> None:
        log = self.logs[self.leader]
        log.advance(self.random.randint(log.log_start, self.end))

    def follow(self) -> None:
        self.logs[3 - self.leader].advance(self.logs[self.leader].log_start)

    def trim(self) -> None:
        log = self.logs[self.random.choice(BROKERS)]
        if len(log.bases) > 1 and log.bases[1] <= self.copied_to():
            del log.bases[0]

    def checkpoint(self) -> None:
        log = self.logs[self.random.choice(BROKERS)]
        log.checkpoint = log.log_start

    def step(self) -> None:
        actions = [self.append, self.copy, self.copy, self.delete, self.trim, self.follow, self.checkpoint, self.retain]
        self.random.choice([*actions, *actions, self.elect, self.delete_records])()

    def stuck(self) -> set[str]:
        """Codes of what an election has left behind for more than an hour."""
        last = max((time for *_, time in self.written), default=0)
        copies = [one for one in self.remote if not one.states and last - self.time_of(one) > 3_600_000]
        begun = [
            min(time for state, time in one.states if state == DELETING) for one in self.remote if one.state == DELETING
        ]
        deletions = [time for time in begun if last - time > 3_600_000]
        return ({"TIER-COPY-UNFINISHED"} if copies else set()) | ({"TIER-DELETE-UNFINISHED"} if deletions else set())

    def messages(self) -> list[bytes]:
        found = []
        for number, states, _ in self.written:
            one = self.remote[number]
            found.append(one.messages(self.time_of(one))[states])
        return found


def replica(broker: int, checkpoints: Cluster, logs: Cluster, files: Cluster) -> Replica:
    """A broker's log dir: its checkpoints, its log and its epoch file as each was at a moment of its own."""
    log, epochs = logs.logs[broker], files.logs[broker].epochs
    return Replica(
        [
            encode_batch(base, size, epoch, mark=f"{base} ")
            for base, size, epoch in logs.batches
            if base >= log.bases[0]
        ],
        epochs=tuple(one for one in epochs if one[1] < files.end or one is epochs[-1]),
        log_start=checkpoints.logs[broker].checkpoint,
        first_base_offset=log.bases[0],
        high_watermark=checkpoints.end,
    )


def audited(path: Path, seed: int) -> tuple[set[str], str, Counter[str]]:
    """Codes, those of remote storage and those of medium severity or more, and the verdict of one history; and what there was in it."""
    random_ = random.Random(seed)
    cluster = Cluster(random_)
    cluster.append()
    for _ in range(random_.randint(20, 120)):
        cluster.step()
    states = [deepcopy(cluster)]
    at_rest = random_.random() < 0.4
    if not at_rest:
        for _ in range(6):
            cluster.step()
            states.append(deepcopy(cluster))
    moments = {broker: sorted(random_.choices(range(len(states)), k=4)) for broker in BROKERS}
    told = random_.choice(BROKERS)
    last = states[-1]

    def write() -> None:
        folder = path / f"broker-{told}" / "__remote_log_metadata-0"
        folder.mkdir(parents=True)
        values = states[moments[told][-1]].messages()
        batches = [encode_batch(at, [Record(None, value)], 0) for at, value in enumerate(values)]
        (folder / f"{0:020d}.log").write_bytes(b"".join(batches))
        kind = "killed" if at_rest else "live"
        write_manifest(path, dict.fromkeys(BROKERS, kind), quiesced=at_rest or None)

    answer = audit(
        path,
        {broker: replica(broker, *(states[one] for one in moments[broker][:3])) for broker in BROKERS},
        leader=last.leader,
        configs=TIERED,
        before_audit=write,
    )
    seen: Counter[str] = Counter(row["state"] for row in answer.tables["remote_segments"])
    seen["overlap"] = sum(
        two["start_offset"] < one["end_offset"]
        for one, two in zip(answer.tables["remote_segments"], answer.tables["remote_segments"][1:], strict=False)
    )
    seen["remote only"] = sum(row["local_start_offset"] > row["log_start_offset"] for row in answer.tables["replicas"])
    if at_rest:
        rows = audit_all(str(path), Settings(topics=(TOPIC,)), asked=(TopicPartition(TOPIC, 0),)).elections
        # A leader that has not learnt of a deletion serves what the one before it deleted.
        starts = [log.log_start for log in last.logs.values()]
        assert rows and all(row.lost_records <= max(starts) - min(starts) for row in rows), seed
    stuck = states[moments[told][-1]].stuck()
    of_store = {code for code in answer.codes("info") - stuck if code.startswith("TIER")}
    return of_store | answer.codes("medium"), answer.verdict, seen


@pytest.fixture(scope="module")
def seen() -> Counter[str]:
    return Counter()


@pytest.mark.parametrize("seeds", [*(range(at, at + 25) for at in range(0, 150, 25)), (379, 445, 569, 1348, 201405)])
def test_nothing_is_said_of_sound_remote_storage(tmp_path: Path, seen: Counter[str], seeds: Sequence[int]) -> None:
    assert seeds
    for seed in seeds:
        (tmp_path / str(seed)).mkdir()
        codes, verdict, kinds = audited(tmp_path / str(seed), seed)
        assert not codes and verdict != "COMMITTED_LOSS", (seed, codes, verdict)
        seen.update(kind for kind, number in kinds.items() if number)


def test_the_histories_have_all_that_looks_suspicious(seen: Counter[str]) -> None:
    kinds = ("copy_started", "copy_finished", "delete_started", "delete_finished", "overlap", "remote only")
    assert not [kind for kind in kinds if seen[kind] < 5], seen
