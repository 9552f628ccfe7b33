"""The rows of each partition as they are shown, worst partitions first; of a large audit only the worst are in detail."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Literal, NamedTuple, get_args

from replica_audit.auditing import detailed_partitions as detail
from replica_audit.auditing.catalogue import at_or_above, codes_with
from replica_audit.literals import PUT_ASIDE, SEVERITIES, VERDICTS, Confidence
from replica_audit.model import OffsetRange, TopicPartition, joined
from replica_audit.results import PartitionRows, Results, place_of, present
from replica_audit.row_classes import Row
from replica_audit.schema import CaptureRow, FindingRow, PartitionRow, QualityRow, ReplicaRow

_CONFIDENCES = get_args(Confidence)

#: State of a replica, worst first: not captured though the answer depends on it; holds records that the leader lacks; differs
#: from the leader; has damaged files; not captured; partly captured; out of sync; none of these.
CopyState = Literal["needed", "holds", "differs", "damaged", "missing", "partial", "out", "sound"]
COPY_STATES: tuple[CopyState, ...] = get_args(CopyState)


def worst_partitions(results: Results) -> list[PartitionRow]:
    """Rows of `partitions`: worst verdict first, then most committed records lost, then most records lost, then by name; computed
    once."""
    return results.once("worst", list, lambda: detail.ranked(results.partitions))


def inconsistent_partitions(results: Results) -> list[PartitionRow]:
    """Rows of `worst_partitions` whose verdict is not CONSISTENT."""
    return [row for row in worst_partitions(results) if row.verdict != "CONSISTENT"]


def rows_by_partition(
    results: Results, partitions: Iterable[PartitionRow] | None = None
) -> Iterator[tuple[PartitionRow, PartitionRows]]:
    """Yield each partition, or each of `partitions`, with its rows, in the order of `worst_partitions`."""
    chosen = worst_partitions(results) if partitions is None else list(partitions)
    if results.stored is not None:
        results.gather(map(place_of, chosen))
    for row in chosen:
        yield row, results.at(place_of(row))


def worst_first(findings: Iterable[FindingRow]) -> list[FindingRow]:
    """Sort findings by severity, confidence and partition; within a partition those on records that the leader lacks come first."""
    return sorted(findings, key=_rank)


def worst_finding(findings: Iterable[FindingRow]) -> FindingRow | None:
    """The first of the present `findings` of a partition by `headline_rank`."""
    return min(present(findings), key=headline_rank, default=None)


def headline_rank(row: FindingRow) -> tuple[object, ...]:
    """Sort key of findings of a partition: of equal severity those on records that the leader lacks come first, then as by
    `worst_first`."""
    return SEVERITIES.index(row.severity), row.code not in codes_with("held"), _rank(row)


def _rank(row: FindingRow) -> tuple[object, ...]:
    confidence = row.confidence
    partition = -1 if row.partition is None else row.partition
    broker = -1 if row.broker_id is None else row.broker_id
    start = -1 if row.start_offset is None else row.start_offset
    rank = _CONFIDENCES.index(confidence) if confidence in _CONFIDENCES else len(_CONFIDENCES)
    lacked = row.code in codes_with("held")
    # Elections in their order, not by the brokers that were elected.
    epoch = _elected_in(row) if row.code == "META-UNCLEAN-ELECTION" else -1
    return SEVERITIES.index(row.severity), rank, row.topic or "", partition, not lacked, epoch, broker, start, row.code


def _elected_in(row: FindingRow) -> int:
    """The leader epoch that an election began; -1 without one in the evidence."""
    return max((int(one.value) for one in row.evidence if one.kind == "leadership" and one.value), default=-1)


def new_findings(findings: Iterable[FindingRow]) -> list[FindingRow]:
    """Findings of low severity or more that no baseline knows, worst first."""
    return [row for row in worst_first(findings) if row.status == "new" and row.severity != "info"]


def is_failing(row: FindingRow | QualityRow, fail_on: str) -> bool:
    """True for a new finding or failed expectation of severity `fail_on` or worse, which makes the exit status 1."""
    return row.status == "new" and at_or_above(row.severity, fail_on)


def reference_row(replicas: Sequence[ReplicaRow]) -> ReplicaRow | None:
    """The replica of a partition that the others are compared with."""
    return next((row for row in replicas if row.role in ("leader", "reference")), None)


def served_rows(replicas: Sequence[ReplicaRow]) -> list[ReplicaRow]:
    """Copies of a partition that Kafka serves from, or would if their brokers ran."""
    return [row for row in replicas if row.role not in PUT_ASIDE]


def compared_rows(replicas: Sequence[ReplicaRow]) -> list[ReplicaRow]:
    """Replicas of a partition that are compared with the reference."""
    return [row for row in replicas if row.role == "compared"]


def copy_states(partition: PartitionRow, rows: PartitionRows, captures: Iterable[CaptureRow]) -> dict[int, CopyState]:
    """Worst state of each replica of a partition, by ascending broker id; `captures` are the partition's."""
    served = served_rows(rows.replicas)
    found: dict[int, set[CopyState]] = defaultdict(set)
    for row in served:
        found[row.broker_id].add("out" if row.in_isr is False else "sound")
        if row.lost_held:
            found[row.broker_id].add("holds")
    for broker_id in {*(partition.isr or ()), *partition.unread_replicas} - found.keys():
        found[broker_id].add("missing")
    for run in rows.divergences:
        found[run.broker_id].add("differs")
    for item in present(rows.findings):
        if item.broker_id in found and item.code in codes_with("damage") and at_or_above(item.severity, "medium"):
            found[item.broker_id].add("damaged")
    for copy in captures:
        if copy.needed:
            found[copy.broker_id].add("needed")
        elif copy.state != "whole":
            found[copy.broker_id].add("partial" if copy.state in ("partial", "awaited") else "missing")
    return {broker_id: min(found[broker_id], key=COPY_STATES.index) for broker_id in sorted(found)}


def detailed_partitions(results: Results) -> list[PartitionRow]:
    """Rows of `partitions` shown in detail, in the order of `worst_partitions`; computed once."""
    return results.once("detailed", list, lambda: detail.detailed(results.partitions))


def is_large(results: Results) -> bool:
    """True if the audit has more partitions than are shown in detail."""
    return len(results.partitions) > detail.WHOLE


def other_partitions(results: Results, shown: Iterable[PartitionRow]) -> list[PartitionRow]:
    """Rows of the partitions not `shown` in detail, by name."""
    told = frozenset(map(place_of, shown))
    others = (row for row in results.partitions if place_of(row) not in told)
    return sorted(others, key=place_of)


def detailed_places(results: Results) -> frozenset[TopicPartition]:
    """Partitions shown in detail."""
    return frozenset(place_of(row) for row in detailed_partitions(results))


def told_rows(results: Results) -> Callable[[str], list[Row]]:
    """Return a function from a table's name to its rows without those of partitions not shown in detail; a large audit's
    `quarantine` is cut to as many rows as partitions are shown."""
    left_out = frozenset(map(place_of, results.partitions)) - detailed_places(results)

    def rows(table: str) -> list[Row]:
        found = results.table(table)
        if table == "quarantine" and is_large(results):
            return found[: detail.DETAILED]
        return [row for row in found if place_of(row) not in left_out]

    return rows


class PartitionRanges(NamedTuple):
    """Partitions of one topic with one verdict."""

    verdict: str
    topic: str
    numbers: str
    """Partition numbers as ranges, e.g. 0-249,251."""
    size: int


def partition_ranges(partitions: Iterable[PartitionRow]) -> list[PartitionRanges]:
    """Group `partitions`, sorted by name, by verdict (worst first) and topic."""
    numbers: dict[tuple[str, str], list[int]] = defaultdict(list)
    for row in partitions:
        numbers[row.verdict, row.topic].append(row.partition)
    found = [PartitionRanges(*key, _ranges(of_key), len(of_key)) for key, of_key in numbers.items()]
    return sorted(found, key=lambda one: VERDICTS.index(one.verdict))


def _ranges(numbers: Sequence[int]) -> str:
    runs = joined(OffsetRange(number, number + 1) for number in numbers)
    return ",".join(
        f"{one.start_offset}" if one.size == 1 else f"{one.start_offset}-{one.end_offset - 1}" for one in runs
    )
