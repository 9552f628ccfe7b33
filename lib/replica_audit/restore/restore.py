"""Restores salvaged records, each exactly once and in order, however often the program is stopped in between."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from replica_audit.errors import UsageError
from replica_audit.model import TopicPartition
from replica_audit.restore.cluster import Cluster, Produced, RestoreProgress, WritableCluster
from replica_audit.restore.planned_restore import PlannedRestore, RestoreOptions
from replica_audit.restore.recognition import expected_of, restored, source_of, with_source
from replica_audit.restore.salvaged_records import SalvagedRecord, SalvagedRecords
from replica_audit.text import count

#: Text committed with the progress, so that a restore continues as it began.
WITH_HEADERS = "with headers"
WITHOUT_HEADERS = "without headers"


def text_of(options: RestoreOptions) -> str:
    """The text that is committed with the progress."""
    return WITH_HEADERS if options.headers else WITHOUT_HEADERS


def find_place(
    records: SalvagedRecords,
    place: TopicPartition,
    target: TopicPartition,
    known: RestoreProgress | None,
    present: Collection[int],
    cluster: Cluster,
    options: RestoreOptions,
) -> int:
    """Number of records of `place` that are done: the first ones, which are in `target` or among `present`.

    `known` is the progress that the group has committed. If there is none, or it has expired, the target's own records are
    read. Raises UsageError if they do not tell.
    """
    if known is not None:
        if known.text != text_of(options):
            begun = "--no-headers" if known.text == WITHOUT_HEADERS else "headers"
            raise UsageError(f"{target}: this restore was begun with {begun}; go on in the same way")
        return known.offset
    start, end = cluster.bounds(target.topic, target.partition)
    if start == end or options.from_start:
        return 0
    if not options.headers:
        raise UsageError(
            f"{target} is not empty, and without headers nothing tells what of it was restored before; "
            "if nothing was, say so with --from-start"
        )
    return _place_by_headers(records, place, target, present, cluster, start)


def _place_by_headers(
    records: SalvagedRecords,
    place: TopicPartition,
    target: TopicPartition,
    present: Collection[int],
    cluster: Cluster,
    start: int,
) -> int:
    """`find_place` by the sources that the target's records name: they must be the first ones, in order, each once.

    Those that are `present` may have been skipped.
    """
    every = [expected_of(one, records.cluster_id) for one in records.of_partition(place)]
    numbers = [number for number in range(len(every)) if number not in present]
    expected = [every[number] for number in numbers]
    sources = {source for source, _ in expected}
    stored = cluster.read(target.topic, target.partition)
    found = [what for what in restored(stored, records.cluster_id, place) if what[0] in sources]
    if not found:
        return 0
    # Retention may have deleted the first ones; the log start shows it.
    first = expected.index(found[0]) if found[0] in expected else -1
    if first < 0 or expected[first : first + len(found)] != found or (first > 0 and start == 0):
        raise UsageError(
            f"{target} has records of {place} that are not the first of this salvage in their order, so the place to go on from "
            "is not known; restore --check says more"
        )
    return numbers[first + len(found) - 1] + 1


#: Most records, and bytes, in one transaction.
TRANSACTION_RECORDS = 500
_TRANSACTION_BYTES = 4 << 20
#: Digits of the manifest's digest in the name of group and transactional id.
_NAME_DIGITS = 32


@dataclass(frozen=True, slots=True)
class RestoredPartition:
    """A partition: its records, those that were done before, and those of the others that its leader holds."""

    target: TopicPartition
    records: int
    before: int
    present: int = 0

    @property
    def left(self) -> int:
        """Records to produce."""
        return self.records - self.before - self.present

    def row(self) -> dict[str, object]:
        """The JSON object."""
        place = {"topic": self.target.topic, "partition": self.target.partition}
        return {**place, "records": self.records, "before": self.before, "present": self.present}


def name_of(records: SalvagedRecords) -> str:
    """Name of the group whose offsets are the progress, and transactional id: one for each manifest."""
    return f"replica-audit-restore-{records.digest[:_NAME_DIGITS]}"


def preview(
    records: SalvagedRecords, plan: PlannedRestore, cluster: Cluster, options: RestoreOptions
) -> list[RestoredPartition]:
    """The partitions as earlier runs left them; nothing is written.

    Raises UsageError if leaders hold any of the other records, unless these are skipped.
    """
    new = {topic.name for topic in plan.new_topics}
    outcomes = []
    for place, target in plan.targets.items():
        known = None
        if target.topic not in new:
            known = cluster.progress(name_of(records), target.topic, target.partition)
        outcomes.append(_settle(records, place, plan, known, cluster, options, is_new=target.topic in new))
    if not options.skip_present:
        _refuse_present(plan, outcomes)
    return outcomes


def _settle(
    records: SalvagedRecords,
    place: TopicPartition,
    plan: PlannedRestore,
    known: RestoreProgress | None,
    cluster: Cluster,
    options: RestoreOptions,
    *,
    is_new: bool = False,
) -> RestoredPartition:
    """State of the partition `place`; `known` is the progress that the group has committed."""
    target = plan.targets[place]
    every = plan.counts[place]
    present = plan.present[place]
    before = 0 if is_new else find_place(records, place, target, known, present, cluster, options)
    if before > every:
        raise UsageError(
            f"{target}: the progress that is committed is {before}, and the salvage has {every} records of it"
        )
    # An earlier run may have restored one to its own partition: records that are done do not count as present.
    return RestoredPartition(target, every, before, sum(number >= before for number in present))


def _refuse_present(plan: PlannedRestore, outcomes: Sequence[RestoredPartition]) -> None:
    """Raise UsageError if any record that would be produced was never lost."""
    held = [(place, one) for place, one in zip(plan.targets, outcomes, strict=True) if one.present]
    if held:
        present, records = (sum(getattr(one, name) for one in outcomes) for name in ("present", "records"))
        each = "; ".join(f"{place} {one.present} of {one.records}" for place, one in held)
        raise UsageError(
            f"{present} of {count(records, 'record')} are not lost: the present leader holds them, with the same offset, "
            f"leader epoch and bytes ({each}); nothing was produced. If they are what a plan is going to lose, carry it out "
            "first; --skip-present leaves them out"
        )


def restore(
    records: SalvagedRecords,
    plan: PlannedRestore,
    cluster: WritableCluster,
    options: RestoreOptions,
    transaction_records: int = TRANSACTION_RECORDS,
) -> list[RestoredPartition]:
    """Create missing topics and produce the records that are not done, a few at a time in transactions.

    Progress is read after the transactional id was taken over: from then on no earlier run can write. Raises UsageError,
    before anything is produced, as `preview` does.
    """
    for topic in plan.new_topics:
        cluster.create_topic(topic.name, topic.partitions, topic.replication_factor, topic.configs)
    session = cluster.session(name_of(records), plan.batch_bytes)
    try:
        outcomes = [
            _settle(records, place, plan, session.progress(target.topic, target.partition), cluster, options)
            for place, target in plan.targets.items()
        ]
        if not options.skip_present:
            _refuse_present(plan, outcomes)
        for (place, target), outcome in zip(plan.targets.items(), outcomes, strict=True):
            numbered = enumerate(records.of_partition(place))
            left = (one for one in numbered if one[0] >= outcome.before and one[0] not in plan.present[place])
            for together in _transactions(left, transaction_records):
                produced = [_produced(record, records.cluster_id, options) for _, record in together]
                done = together[-1][0] + 1
                session.produce(target.topic, target.partition, produced, RestoreProgress(done, text_of(options)))
    finally:
        session.close()
    return outcomes


def _produced(record: SalvagedRecord, cluster_id: str | None, options: RestoreOptions) -> Produced:
    headers = with_source(record.headers, source_of(record, cluster_id)) if options.headers else record.headers
    return Produced(record.timestamp_ms, record.key, record.value, headers)


def _transactions(
    records: Iterator[tuple[int, SalvagedRecord]], most: int
) -> Iterator[list[tuple[int, SalvagedRecord]]]:
    """Numbered records, in order, divided into transactions."""
    together: list[tuple[int, SalvagedRecord]] = []
    size = 0
    for number, record in records:
        together.append((number, record))
        size += len(record.key or b"") + len(record.value or b"")
        if len(together) >= most or size >= _TRANSACTION_BYTES:
            yield together
            together = []
            size = 0
    if together:
        yield together


def counts_of(outcomes: Sequence[RestoredPartition]) -> Mapping[str, int]:
    """Sums over all partitions."""
    return {
        "records": sum(one.records for one in outcomes),
        "before": sum(one.before for one in outcomes),
        "present": sum(one.present for one in outcomes),
        "left": sum(one.left for one in outcomes),
    }
