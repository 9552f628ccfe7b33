"""Salvaged records produced, each once and in their order, however often the program is ended in between."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Protocol

from replica_audit.errors import UsageError
from replica_audit.model import TopicPartition
from replica_audit.restoring.cluster_records import Produced, Progress
from replica_audit.restoring.planned_restore import Cluster, PlannedRestore, Ways
from replica_audit.restoring.resuming import find_place, text_of
from replica_audit.restoring.salvaged_records import SalvagedRecord, SalvagedRecords
from replica_audit.restoring.source_headers import source_of, with_source

#: Records, and bytes of them, of one transaction.
TRANSACTION_RECORDS, _TRANSACTION_BYTES = 500, 4 << 20
#: Digits of the manifest's digest in the name of group and transactional id.
_NAME_DIGITS = 32


class Session(Protocol):
    """What producing asks of a cluster (`contact.Session`)."""

    def progress(self, topic: str, partition: int) -> Progress | None: ...

    def produce(self, topic: str, partition: int, records: Sequence[Produced], progress: Progress) -> None: ...

    def close(self) -> None: ...


class WritableCluster(Cluster, Protocol):
    """A cluster that can be produced to."""

    def session(self, name: str) -> Session: ...


@dataclass(frozen=True, slots=True)
class Outcome:
    """Of one partition: how many records there are, and how many of them were there before."""

    target: TopicPartition
    records: int
    before: int

    def row(self) -> dict[str, Any]:
        """As in the JSON answer."""
        place = {"topic": self.target.topic, "partition": self.target.partition}
        return {**place, "records": self.records, "before": self.before}


def name_of(records: SalvagedRecords) -> str:
    """The name of the group whose offsets are the progress, and the transactional id: one for each manifest."""
    return f"replica-audit-restore-{records.digest[:_NAME_DIGITS]}"


def look(records: SalvagedRecords, plan: PlannedRestore, cluster: Cluster, ways: Ways) -> list[Outcome]:
    """What an earlier run has done already, without writing anything."""
    new = {topic.name for topic in plan.new_topics}
    outcomes = []
    for place, target in plan.targets.items():
        before = 0
        if target.topic not in new:
            known = cluster.progress(name_of(records), target.topic, target.partition)
            before = _checked(find_place(records, place, target, known, cluster, ways), plan.counts[place], target)
        outcomes.append(Outcome(target, plan.counts[place], before))
    return outcomes


def restore(
    records: SalvagedRecords,
    plan: PlannedRestore,
    cluster: WritableCluster,
    ways: Ways,
    transaction_records: int = TRANSACTION_RECORDS,
) -> list[Outcome]:
    """Create what topics are missing and produce what is not there yet, in transactions of some records each.

    The place is looked up after the transactional id was taken over: from then on no earlier run can write any more.
    """
    for topic in plan.new_topics:
        cluster.create_topic(topic.name, topic.partitions, topic.replication_factor, topic.configs)
    session = cluster.session(name_of(records))
    outcomes = []
    try:
        for place, target in plan.targets.items():
            known = session.progress(target.topic, target.partition)
            before = find_place(records, place, target, known, cluster, ways)
            done = _checked(before, plan.counts[place], target)
            left = islice(records.of_partition(place), done, None)
            for together in _transactions(left, transaction_records):
                produced = [_produced(record, records.cluster_id, ways) for record in together]
                done += len(together)
                session.produce(target.topic, target.partition, produced, Progress(done, text_of(ways)))
            outcomes.append(Outcome(target, plan.counts[place], before))
    finally:
        session.close()
    return outcomes


def _checked(before: int, count: int, target: TopicPartition) -> int:
    if before > count:
        raise UsageError(
            f"{target}: the progress that is committed is {before}, and the salvage has {count} records of it"
        )
    return before


def _produced(record: SalvagedRecord, cluster_id: str | None, ways: Ways) -> Produced:
    headers = with_source(record.headers, source_of(record, cluster_id)) if ways.headers else record.headers
    return Produced(record.timestamp_ms, record.key, record.value, headers)


def _transactions(records: Iterator[SalvagedRecord], most: int) -> Iterator[list[SalvagedRecord]]:
    together: list[SalvagedRecord] = []
    size = 0
    for record in records:
        together.append(record)
        size += len(record.key or b"") + len(record.value or b"")
        if len(together) >= most or size >= _TRANSACTION_BYTES:
            yield together
            together, size = [], 0
    if together:
        yield together


def counts_of(outcomes: Sequence[Outcome]) -> Mapping[str, int]:
    """Sums over partitions."""
    return {
        "records": sum(one.records for one in outcomes),
        "before": sum(one.before for one in outcomes),
        "left": sum(one.records - one.before for one in outcomes),
    }
