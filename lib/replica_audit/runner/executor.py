"""Executors: where the stages of an audit run their work, in this process or on Spark's executors (`spark/tasks.py`)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

from replica_audit.results import place_of
from replica_audit.row_classes import Int
from replica_audit.runner.task_planning import cut_stretches

if TYPE_CHECKING:
    import pyarrow as pa

    from replica_audit.model import TopicPartition
    from replica_audit.protocol.high_watermark_rule import Rule
    from replica_audit.warehouse.delta_tables import Warehouse

Task = TypeVar("Task")
Result = TypeVar("Result")

#: `write` of `Executor.follow_timelines`: stores the timeline's rows, and passes the stage's news on.
TimelineWriter = Callable[[Iterator["pa.RecordBatch"]], Iterator["pa.RecordBatch"]]


class TimelineNews(NamedTuple):
    """News of a timeline for a stage: the summary for a partition or, without a partition, a file that was written; JSON."""

    topic: str | None
    partition: Int | None
    payload: str


class Executor(Protocol):
    """Runs functions over tasks; a stage needs nothing else of the place that it runs in."""

    @property
    def is_apart(self) -> bool:
        """True while tasks run in other processes."""

    @property
    def parallelism(self) -> int:
        """Number of tasks that run side by side."""

    def cut(self, items: Sequence[Task], cost: Callable[[Task], int], least: int) -> list[list[Task]]:
        """`items` divided into tasks of a few each; a further task is worth it only for `least` of their `cost`."""

    def map(
        self,
        tasks: Sequence[Task],
        work: Callable[[Task], Iterable[Result]],
        ended: Callable[[Task], None] | None = None,
    ) -> list[Result]:
        """Results of `work` for each of `tasks`, in order.

        `ended` is called, one call at a time but from any thread, with each task that has ended, for progress. An error of
        `work` ends it, after as many attempts as the executor makes.
        """

    def follow_timelines(
        self,
        warehouse: Warehouse,
        attempt: Mapping[str, str | None],
        assigned: pa.Table,
        rule: Rule,
        write: TimelineWriter,
    ) -> list[TimelineNews]:
        """The timeline of every partition that an ingest observed, passed through `write`.

        `attempt` has the ingest's snapshot_id and ingest_id; `assigned` is (topic, partition, broker_id). The rows of a
        partition come to one call of `write`, in order of time (`protocol.timeline`).
        """


class InProcess:
    """Runs task after task in this process."""

    is_apart = False
    parallelism = 1

    def cut(self, items: Sequence[Task], cost: Callable[[Task], int], least: int) -> list[list[Task]]:
        """Small tasks: a task costs nothing here, and progress goes by tasks."""
        return list(cut_stretches(items, cost, least // 50))

    def map(
        self,
        tasks: Sequence[Task],
        work: Callable[[Task], Iterable[Result]],
        ended: Callable[[Task], None] | None = None,
    ) -> list[Result]:
        found: list[Result] = []
        for task in tasks:
            found += work(task)
            if ended is not None:
                ended(task)
        return found

    def follow_timelines(
        self,
        warehouse: Warehouse,
        attempt: Mapping[str, str | None],
        assigned: pa.Table,
        rule: Rule,
        write: TimelineWriter,
    ) -> list[TimelineNews]:
        """Holds all observations in memory."""
        import pyarrow as pa

        from replica_audit.arrow_rows import arrow_to_rows
        from replica_audit.auditing.leadership.timeline_deviations import ProgressRow, timeline_of
        from replica_audit.auditing.opened_snapshot import progress_rows, rows_by_partition
        from replica_audit.runner.timeline_batches import AssignedReplica, timeline_batch

        replicas: dict[TopicPartition, set[int]] = defaultdict(set)
        for one in arrow_to_rows(assigned, AssignedReplica):
            replicas[place_of(one)].add(one.broker_id)

        def follow() -> Iterator[pa.RecordBatch]:
            progress = warehouse.read_arrow("replica_progress", ProgressRow._fields, **attempt)
            for partition, of_one in rows_by_partition(progress):
                timeline, course = timeline_of(*partition, progress_rows(of_one), rule, replicas[partition])
                yield timeline_batch(timeline, {} if course is None else {len(timeline) - 1: course})

        batches = list(write(follow()))
        return list(arrow_to_rows(pa.Table.from_batches(batches), TimelineNews)) if batches else []


def deal(items: Sequence[Task], count: int) -> list[list[Task]]:
    """`items` in order, as at most `count` tasks of about equal number."""
    count = min(len(items), max(1, count))
    return [list(items[number * len(items) // count : (number + 1) * len(items) // count]) for number in range(count)]


def map_each(
    executor: Executor, work: Callable[[Task], Result], items: Sequence[Task], most: int | None = None
) -> list[Result]:
    """`work` for each of `items`, in order, divided evenly into as many tasks as run side by side, or `most`."""
    tasks = deal(items, (most or executor.parallelism) if items else 0)
    return executor.map(tasks, lambda of_task: [work(item) for item in of_task])
