"""Observation of a cluster: all replicas read, brokers in parallel, and written as a snapshot that gets its name once complete."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Lock
from typing import TypeVar

from replica_audit.errors import EngineError, UsageError
from replica_audit.observe.agreement import AgreedBytes, NotAgreedError
from replica_audit.observe.broker_answers import (
    Brokers,
    CommittedOffsets,
    ListedCluster,
    ListedPartition,
    UnreachableError,
)
from replica_audit.observe.planning import Asked, ReadingPlan, ReplicaToRead
from replica_audit.observe.reading import Pace, Reading, StoppedError, unread
from replica_audit.scratch import begin_result, finish_result, remove_unfinished
from replica_audit.snapshot.observed import OBSERVED, SCHEMA_VERSION, ObservedCluster, ObservedGroup, ObservedReplica
from replica_audit.text import now_ms, render_time
from replica_audit.typed_json import to_object

LISTING = "observed-topics-describe.txt"
MANIFEST = "manifest.json"
#: Directory of the batch tables.
BATCHES = "batches"
_PARTIAL = ".partial"
#: Characters of a topic in the file name of its table: a file name has at most 255 bytes.
_NAME_LENGTH = 150

#: Pauses before reconnecting to a broker that does not answer.
CONNECT_AGAIN_SECONDS = (2.0, 10.0, 30.0)

_Answer = TypeVar("_Answer")


@dataclass(frozen=True, slots=True)
class Observed:
    """Outcome of an observation."""

    directory: str
    replicas: tuple[ObservedReplica, ...]
    refused: tuple[str, ...]
    """Clauses on requests that were refused."""
    size_bytes: int
    """Bytes sent by brokers."""

    @property
    def unread(self) -> tuple[ObservedReplica, ...]:
        """Replicas that could not be read."""
        return tuple(one for one in self.replicas if one.problem is not None)


def check_target(directory: str) -> None:
    """Raise UsageError if the directory exists, or one of an observation that broke off."""
    if os.path.lexists(directory):
        raise UsageError(f"observe --to {directory}: {directory} exists: give a new directory, or remove it")
    partial = f"{directory}{_PARTIAL}"
    if os.path.lexists(partial):
        raise UsageError(
            f"observe --to {directory}: {partial} exists: another observation writes it, or was killed; in that case nothing can be made "
            "of it: remove it"
        )
    above = os.path.dirname(os.path.abspath(directory))
    if not os.path.isdir(above):
        raise UsageError(f"observe --to {directory}: {above} is not a directory")


def observe(
    brokers: Brokers,
    connect: Callable[[], Brokers],
    plan: ReadingPlan,
    asked: Asked,
    directory: str,
    rate: int,
    agreement: AgreedBytes,
    came: Callable[[int, int], None] = lambda replicas, size_bytes: None,
) -> Observed:
    """Read all replicas of a plan and write a snapshot; each broker has its own connection and is read at up to `rate` bytes a second.

    `came` gets the numbers of finished replicas and of received bytes, one call at a time. If a broker refuses, the others go
    on; replicas beyond the agreed bytes are unread. Files are readable by their owner only, as the logs are. An observation
    that breaks off leaves nothing.
    """
    with _new_snapshot(directory) as partial:
        (partial / BATCHES).mkdir(mode=0o700)
        started = now_ms()
        refused = list(plan.refused)
        topics = sorted({one.topic for one in plan.cluster.partitions})
        nothing: tuple[Mapping[str, Mapping[str, str]], tuple[str, ...]] = ({}, ())
        configs, not_told = _again(lambda: brokers.configs(topics), nothing, "configurations", refused)
        compacted = {topic for topic, known in configs.items() if "compact" in known.get("cleanup.policy", "")}
        one_thread = Lock()

        def tell(replicas: int, size_bytes: int) -> None:
            with one_thread:
                came(replicas, size_bytes)

        read = _read_all(connect, plan, compacted, partial / BATCHES, rate, agreement, tell)
        cluster = _again(lambda: brokers.cluster(asked.topics), plan.cluster, "the listing at the end", refused)
        groups = brokers.committed(cluster.brokers)
        configs, not_listed = _listable(configs)
        refused += [*not_told, *not_listed, *groups.refused]
        observation = ObservedCluster(
            SCHEMA_VERSION, cluster.cluster_id, now_ms(), tuple(read), tuple(_groups(groups, topics)), tuple(refused)
        )
        (partial / LISTING).write_text(render_listing(_of_plan(cluster, plan), configs), encoding="utf-8")
        manifest = {
            "schema_version": 1,
            "brokers": [_copied(one, started) for one in sorted({one.broker_id for one in read})],
        }
        (partial / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
        (partial / OBSERVED).write_text(json.dumps(to_object(observation)) + "\n", encoding="utf-8")
    return Observed(directory, observation.replicas, observation.refused, agreement.came_bytes)


@contextmanager
def _new_snapshot(directory: str) -> Iterator[Path]:
    """A new directory beside `directory` that takes its name on success, and is otherwise removed with its contents.

    It is also removed when the process is interrupted. Errors are raised unchanged: most are of a connection.
    """
    check_target(directory)
    partial = Path(f"{directory}{_PARTIAL}")
    partial.mkdir(mode=0o700)
    begin_result(partial)
    try:
        yield partial
        for path in partial.rglob("*"):
            path.chmod(0o700 if path.is_dir() else 0o600)
        partial.rename(directory)
    except BaseException:
        remove_unfinished()
        raise
    finish_result(partial)


def _read_all(
    connect: Callable[[], Brokers],
    plan: ReadingPlan,
    compacted: Collection[str],
    tables: Path,
    rate: int,
    agreement: AgreedBytes,
    came: Callable[[int, int], None],
) -> list[ObservedReplica]:
    """Read every replica of a plan, brokers in parallel; results are in the plan's order. A replica with batches gets a table."""
    numbers = {one.place: number for number, one in enumerate(plan.cluster.partitions)}
    over = Event()

    def read_broker(replicas: Sequence[ReplicaToRead]) -> list[ObservedReplica]:
        found: list[ObservedReplica] = []
        pauses = list(CONNECT_AGAIN_SECONDS)
        while len(found) < len(replicas):
            try:
                with closing(connect()) as own:
                    pace = Pace(rate, sleep=over.wait, is_over=over.is_set)
                    reading = Reading(own, pace, lambda size_bytes: came(0, size_bytes), agreement, compacted)
                    for one in replicas[len(found) :]:
                        found.append(reading.read(one, tables / _table_name(one, numbers[one.partition.place])))
                        pauses = list(CONNECT_AGAIN_SECONDS)
                        came(1, 0)
            except NotAgreedError as error:
                found += [unread(one, str(error)) for one in replicas[len(found) :]]
            except (UnreachableError, EngineError, UsageError) as error:
                if not pauses:
                    found += [unread(one, f"it does not answer: {error}") for one in replicas[len(found) :]]
                elif over.wait(pauses.pop(0)):
                    raise StoppedError from None
        return found

    by_broker = plan.by_broker()
    with ThreadPoolExecutor(max(1, len(by_broker))) as pool:
        try:
            readers = [pool.submit(read_broker, replicas) for replicas in by_broker.values()]
            read = [one for found in agreement.results(readers) for one in found]
        except BaseException:
            over.set()  # otherwise leaving the pool waits until all is read
            agreement.end()
            raise
    read += [unread(one, one.problem) for one in plan.replicas if one.problem is not None]
    return sorted(read, key=lambda one: (one.topic, one.partition, one.broker_id))


def _copied(broker_id: int, started_ms: int) -> dict[str, object]:
    started, finished = (render_time(one) for one in (started_ms, now_ms()))
    return {"broker_id": broker_id, "log_dir": "", "started": started, "finished": finished, "kind": "live"}


def _again(ask: Callable[[], _Answer], otherwise: _Answer, what: str, refused: list[str]) -> _Answer:
    try:
        return ask()
    except UnreachableError as error:
        refused.append(f"{what}: {error}")
        return otherwise


def _of_plan(cluster: ListedCluster, plan: ReadingPlan) -> list[ListedPartition]:
    """Partitions of the plan as listed at the end; those deleted meanwhile stay as they were, new ones are left out."""
    now = {one.place: one for one in cluster.partitions}
    return [now.get(one.place, one) for one in plan.cluster.partitions]


def _groups(groups: CommittedOffsets, topics: Iterable[str]) -> Iterable[ObservedGroup]:
    wanted = set(topics)
    for group, offsets in sorted(groups.offsets.items()):
        for place, (offset, epoch) in sorted(offsets.items()):
            if place.topic in wanted:
                yield ObservedGroup(group, place.topic, place.partition, offset, epoch)


def _table_name(one: ReplicaToRead, number: int) -> str:
    place = f"{one.partition.topic[:_NAME_LENGTH]}-{one.partition.partition}"
    return f"{number:06d}.{place}.broker-{one.broker_id}.parquet"


def _listable(configs: Mapping[str, Mapping[str, str]]) -> tuple[dict[str, dict[str, str]], list[str]]:
    """Configurations without values that contain white space, which would end them in a listing, and a clause on each left out."""
    found: dict[str, dict[str, str]] = {}
    refused = []
    for topic, values in configs.items():
        blank = {name for name, value in values.items() if set(value) & set(" \t\r\n")}
        found[topic] = {name: value for name, value in values.items() if name not in blank}
        refused += [
            f"the configuration {name} of topic {topic}: its value has a blank, and the listing has no place for it"
            for name in sorted(blank)
        ]
    return found, refused


def render_listing(partitions: Iterable[ListedPartition], configs: Mapping[str, Mapping[str, str]]) -> str:
    """The listing of `kafka-topics --describe`, with the leader epochs that Kafka's leaves out."""
    lines = []
    topic = None
    partitions = list(partitions)
    numbers = Counter(one.topic for one in partitions)
    for one in partitions:
        if one.topic != topic:
            topic = one.topic
            given = ",".join(f"{name}={value}" for name, value in sorted(configs.get(topic, {}).items()))
            topic_id = f"\tTopicId: {one.topic_id}" if one.topic_id else ""
            lines.append(
                f"Topic: {topic}{topic_id}\tPartitionCount: {numbers[topic]}\tReplicationFactor: {len(one.replicas)}\tConfigs: {given}"
            )
        epoch = "" if one.leader_epoch is None else f"\tLeaderEpoch: {one.leader_epoch}"
        leader = "none" if one.leader_id is None else one.leader_id
        lines.append(
            f"\tTopic: {topic}\tPartition: {one.partition}\tLeader: {leader}{epoch}\tReplicas: {_ids(one.replicas)}"
            f"\tIsr: {_ids(one.isr)}\tElr: {_ids(one.elr)}\tLastKnownElr: {_ids(one.last_known_elr)}"
        )
    return "".join(f"{line}\n" for line in lines)


def _ids(brokers: Iterable[int]) -> str:
    return ",".join(map(str, brokers))
