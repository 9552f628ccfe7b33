"""A cluster in memory, as far as restoring knows one; it can stop a run before any of its steps, as a kill would."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from replica_audit.restore.cluster import ConsumedRecord, Produced, RestoreProgress, Topic


class Killed(Exception):
    """The run ends here."""


@dataclass
class FakeCluster:
    """Topics by name, committed records by partition, progress by group and partition."""

    id: str | None = "cluster"
    topics: dict[str, Topic] = field(default_factory=dict)
    settings: dict[str, dict[str, str]] = field(default_factory=dict)
    logs: dict[tuple[str, int], list[ConsumedRecord]] = field(default_factory=dict)
    starts: dict[tuple[str, int], int] = field(default_factory=dict)
    committed: dict[tuple[str, str, int], RestoreProgress] = field(default_factory=dict)
    steps: int = 0
    protocol: str = "2.8-IV1"
    epoch: int = 0
    """In which every partition is led."""
    kill_at: int | None = None
    created: list[str] = field(default_factory=list)
    owner: object = None

    def step(self) -> None:
        """One step of a run; the run ends at step `kill_at`."""
        self.steps += 1
        if self.steps == self.kill_at:
            raise Killed

    def cluster_id(self) -> str | None:
        return self.id

    def topic(self, name: str) -> Topic | None:
        return self.topics.get(name)

    def configs(self, name: str) -> dict[str, str]:
        return {"cleanup.policy": "delete", "message.timestamp.type": "CreateTime", **self.settings.get(name, {})}

    def protocol_version(self) -> str:
        return self.protocol

    def create_topic(self, name: str, partitions: int, replication_factor: int, configs: Mapping[str, str]) -> None:
        self.step()
        assert name not in self.topics
        self.topics[name] = Topic(partitions, replication_factor)
        self.settings[name] = dict(configs)
        self.created.append(name)

    def bounds(self, topic: str, partition: int) -> tuple[int, int]:
        log = self.logs.get((topic, partition), [])
        return self.starts.get((topic, partition), 0), log[-1].offset + 1 if log else 0

    def read(self, topic: str, partition: int) -> Iterator[ConsumedRecord]:
        start = self.starts.get((topic, partition), 0)
        yield from [one for one in self.logs.get((topic, partition), []) if one.offset >= start]

    def held(self, topic: str, partition: int, start: int, end: int) -> Iterator[ConsumedRecord]:
        yield from (one for one in self.logs.get((topic, partition), []) if start <= one.offset < end)

    def progress(self, group: str, topic: str, partition: int) -> RestoreProgress | None:
        return self.committed.get((group, topic, partition))

    def session(self, name: str, batch_bytes: int) -> FakeSession:
        self.step()
        self.owner = session = FakeSession(self, name)
        return session


@dataclass
class FakeSession:
    """Both or neither: records and progress."""

    cluster: FakeCluster
    name: str

    def progress(self, topic: str, partition: int) -> RestoreProgress | None:
        self.cluster.step()
        return self.cluster.progress(self.name, topic, partition)

    def produce(self, topic: str, partition: int, records: Sequence[Produced], progress: RestoreProgress) -> None:
        assert self.cluster.owner is self, "fenced"
        self.cluster.step()  # killed before the commit: nothing of it is there
        log = self.cluster.logs.setdefault((topic, partition), [])
        for one in records:
            offset = log[-1].offset + 1 if log else 0
            log.append(ConsumedRecord(offset, self.cluster.epoch, one.timestamp_ms, one.key, one.value, one.headers))
        self.cluster.committed[self.name, topic, partition] = progress
        self.cluster.step()  # killed after it: all of it is

    def close(self) -> None:
        """Nothing is open."""
