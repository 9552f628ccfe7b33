"""The timeline of the high watermark as a Spark job: one shuffle and one sort, and then the pure rule, row after row.

The rows of a partition come to one task in order of time and pass through `protocol/timeline.py`; a task keeps the rows of one
observation, the one before it, and a batch of answers. Spark spills what does not fit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from replica_audit.auditing.leadership.timeline_deviations import (
    ProgressRow,
    TimelineSummary,
    TimelineTally,
    observation_of,
    timeline_row,
)
from replica_audit.protocol.high_watermark_rule import Observation, Rule
from replica_audit.protocol.timeline import follow_timeline
from replica_audit.row_classes import ddl
from replica_audit.runner.timeline_batches import timeline_batch
from replica_audit.schema import REPORT_TABLES, HighWatermarkTimelineRow

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

_PLACE = ("topic", "partition")
_COLUMNS = REPORT_TABLES["high_watermark_timeline"]
#: Answers that leave a task together.
_ANSWERS = 10_000


def recompute(progress: DataFrame, rule: Rule, assigned: DataFrame | None = None) -> DataFrame:
    """Rows of `high_watermark_timeline` for every observation in `progress` (rows of the bronze table `replica_progress`), and
    in `summary`, on the last row of a partition, a summary of its timeline
    (`auditing.leadership.timeline_deviations.TimelineSummary`, JSON).

    `assigned` (topic, partition, broker_id): replicas that partitions are known to have, observed or not.
    """
    from pyspark.sql import functions as F

    rows = progress.select(*ProgressRow._fields)
    # All named replicas come first, as rows without a time: one that is absent now may hold the high watermark all the same.
    none = F.array().cast("array<int>")
    named = rows.select(*_PLACE, "isr", "pending_isr", "broker_id").distinct()
    ids = F.array_union(F.coalesce("isr", none), F.coalesce("pending_isr", none))
    named = named.select(*_PLACE, F.explode(F.array_union(ids, F.array("broker_id"))).alias("broker_id"))
    if assigned is not None:
        named = named.unionByName(assigned.join(named.select(*_PLACE).distinct(), [*_PLACE], "left_semi"))
    named = named.distinct()
    ordered = (
        rows.unionByName(named, allowMissingColumns=True)
        .repartition(*_PLACE)
        .sortWithinPartitions(*_PLACE, F.col("time_ms").asc_nulls_first(), "sequence")
    )
    return ordered.mapInArrow(_follower(rule), f"{ddl(_COLUMNS)}, summary string")


def _follower(rule: Rule) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def follow(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows: list[HighWatermarkTimelineRow] = []
        summaries: dict[int, TimelineSummary] = {}
        for answer in _answers(_read_rows(batches), rule):
            if isinstance(answer, TimelineSummary):
                summaries[len(rows) - 1] = answer
                continue
            if len(rows) >= _ANSWERS:
                yield timeline_batch(rows, summaries)
                rows, summaries = [], {}
            rows.append(answer)
        if rows:
            yield timeline_batch(rows, summaries)

    return follow


def _read_rows(batches: Iterable[pa.RecordBatch]) -> Iterator[ProgressRow]:
    for batch in batches:
        yield from map(ProgressRow._make, zip(*(column.to_pylist() for column in batch.columns)))


def _answers(rows: Iterator[ProgressRow], rule: Rule) -> Iterator[HighWatermarkTimelineRow | TimelineSummary]:
    """Timeline rows of each partition, then its summary; `rows` are sorted by partition and time."""
    row = next(rows, None)
    while row is not None:
        topic, number = row.topic, row.partition
        place = (topic, number)
        replicas: set[int] = set()
        while row is not None and row[:2] == place and row.time_ms is None:
            replicas.add(row.broker_id)
            row = next(rows, None)
        partition = _Partition(place, row, rows)
        tally = TimelineTally()
        for found in follow_timeline(partition.observations(), rule, replicas):
            tally.add(found)
            yield timeline_row(topic, number, found)
        summary = tally.finish()
        if summary is not None:
            yield summary
        row = partition.following


class _Partition:
    """The rows of one partition in a stream of many; `following` is the first row of the next, once all are read."""

    def __init__(self, place: tuple, first: ProgressRow | None, rows: Iterator[ProgressRow]) -> None:
        self._place, self._rows, self.following = place, rows, first

    def observations(self) -> Iterator[Observation]:
        while self.following is not None and self.following[:2] == self._place:
            of_one = [self.following]
            moment = self.following.moment
            for row in self._rows:
                if row[:2] != self._place or row.moment != moment:
                    self.following = row
                    break
                of_one.append(row)
            else:
                self.following = None
            yield observation_of(of_one)
