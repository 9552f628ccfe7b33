"""Tasks on Spark's executors, by either kind of session: an RDD's job, or a DataFrame's on Spark Connect only.

Nothing else in an audit depends on the kind of session. An RDD's job needs no planner: with DataFrames in its place `run` of
the sample takes 15.1 seconds of processor time instead of 7.9 (medians of three in turns, two busy cores).
"""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from replica_audit.cached_property import cached_property
from replica_audit.row_classes import columns, ddl
from replica_audit.runner.executor import Result, Task, TimelineNews, TimelineWriter
from replica_audit.runner.task_planning import cut_stretches, deal_evenly, in_rounds

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    from replica_audit.protocol.high_watermark_rule import Rule
    from replica_audit.warehouse.delta_tables import Warehouse

#: Seconds between checks for ended tasks.
_INTERVAL = 0.3

#: Runs of items for each task: the most expensive items may be neighbours.
_STRETCHES = 16


#: Tasks per core from which they even out by themselves, as each free core takes the next.
_ROUNDS = 4


class SparkExecutor:
    """Runs functions in tasks of a Spark session; inputs and results are pickled.

    A task is retried as often as the session is set to, and then its job fails with Spark's error.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    @property
    def is_apart(self) -> bool:
        """False once the session has ended."""
        spark: Any = self._spark
        return not spark.is_stopped if is_remote(spark) else spark.sparkContext._jsc is not None

    @cached_property
    def parallelism(self) -> int:
        """Parallelism reported by Spark."""
        return parallelism(self._spark)

    def cut(self, items: Sequence[Task], cost: Callable[[Task], int], least: int) -> list[list[Task]]:
        """Items divided into runs in their order, since neighbours are read together.

        If there is enough for several tasks on every core, a task is one run: later steps read neighbours together, whose rows
        are then in the files of one or two tasks, not in those of all.
        """
        total = sum(map(cost, items))
        if total > _ROUNDS * self.parallelism * least:
            count = in_rounds(max(_ROUNDS * self.parallelism, total // (10 * least)), self.parallelism)
            return list(cut_stretches(items, cost, total // count))
        wanted = max(2 * self.parallelism, total // (10 * least))
        count = 1 if total <= least else min(len(items), in_rounds(wanted, self.parallelism))
        stretches = list(cut_stretches(items, cost, total // (_STRETCHES * count)))
        tasks = deal_evenly(stretches, cost, count)
        return [[item for stretch in task for item in stretch] for task in tasks]

    def map(
        self,
        tasks: Sequence[Task],
        work: Callable[[Task], Iterable[Result]],
        ended: Callable[[Task], None] | None = None,
    ) -> list[Result]:
        """See `Executor.map`; each task is a Spark task, and an empty list starts no job."""
        if not tasks:
            return []
        ended = ended or (lambda task: None)
        if is_remote(self._spark):
            return _run_frame(self._spark, tasks, work, ended)
        return _run_rdd(self._spark.sparkContext, tasks, work, ended)

    def follow_timelines(
        self,
        warehouse: Warehouse,
        attempt: Mapping[str, str | None],
        assigned: pa.Table,
        rule: Rule,
        write: TimelineWriter,
    ) -> list[TimelineNews]:
        """See `Executor.follow_timelines`; one shuffle."""
        from replica_audit.spark.table_frames import table_frame
        from replica_audit.spark.timeline_job import recompute

        progress = table_frame(self._spark, warehouse, "replica_progress", attempt)
        followed = recompute(progress, rule, self._spark.createDataFrame(assigned))
        rows = followed.mapInArrow(write, ddl(columns(TimelineNews))).collect()
        return [TimelineNews(*row) for row in rows]


def is_remote(spark: Any) -> bool:
    """True if `spark` is a session of Spark Connect, which has no JVM, SparkContext or accumulators here."""
    return any(kind.__module__.startswith("pyspark.sql.connect.") for kind in type(spark).__mro__)


def parallelism(spark: SparkSession) -> int:
    """Number of tasks that run side by side, as reported by Spark."""
    if not is_remote(spark):
        return spark.sparkContext.defaultParallelism
    # Rows without a given number of partitions are divided into as many as there are cores.
    rows = spark.range(1 << 16).selectExpr("spark_partition_id() AS part")
    ((last,),) = rows.selectExpr("max(part)").collect()
    return last + 1


def _run_rdd(context: SparkContext, tasks: Sequence[Any], work: Callable, ended: Callable[[Any], None]) -> list[Any]:
    from pyspark.accumulators import AccumulatorParam

    class Numbers(AccumulatorParam):
        def zero(self, value: frozenset[int]) -> frozenset[int]:
            return frozenset()

        def addInPlace(self, one: frozenset[int], other: frozenset[int]) -> frozenset[int]:
            return one | other

    done = context.accumulator(frozenset(), Numbers())

    def run(of_task: Iterable[tuple[int, Any]]) -> Iterator[Any]:
        for number, task in of_task:
            yield from work(task)
            done.add(frozenset((number,)))

    seen: set[int] = set()
    finished = threading.Event()

    def tell() -> None:
        for number in sorted(done.value - seen):
            seen.add(number)
            ended(tasks[number])

    def watch() -> None:
        while not finished.wait(_INTERVAL):
            tell()

    watcher = threading.Thread(target=watch, name="tasks", daemon=True)
    watcher.start()
    try:
        return context.parallelize(list(enumerate(tasks)), len(tasks)).mapPartitions(run).collect()
    finally:
        finished.set()
        watcher.join()
        tell()


def _run_frame(spark: SparkSession, tasks: Sequence[Any], work: Callable, ended: Callable[[Any], None]) -> list[Any]:
    import pyarrow as pa
    from pyspark import cloudpickle

    columns = {
        "number": pa.array(range(len(tasks)), pa.int32()),
        "content": pa.array([cloudpickle.dumps(task) for task in tasks], pa.binary()),
    }
    frame = spark.createDataFrame(pa.table(columns))
    # By range of the number each partition gets exactly one; by its hash some would get several, and others none.
    frame = frame.repartitionByRange(len(tasks), "number") if len(tasks) > 1 else frame.coalesce(1)
    results = []
    # Rows arrive task by task while later ones run; a task's last row has no content.
    for number, content in frame.mapInArrow(_follower(work), "number int, content binary").toLocalIterator():
        if content is None:
            ended(tasks[number])
        else:
            results.append(pickle.loads(content))
    return results


def _follower(work: Callable[[Any], Iterable[Any]]) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """`work` for `mapInArrow` over rows (number, pickled task): a row for each result, then one without content."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        schema = pa.schema([("number", pa.int32()), ("content", pa.binary())])
        for batch in batches:
            for row in batch.to_pylist():
                for result in work(pickle.loads(row["content"])):
                    answer = {"number": row["number"], "content": pickle.dumps(result, pickle.HIGHEST_PROTOCOL)}
                    yield pa.RecordBatch.from_pylist([answer], schema)
                yield pa.RecordBatch.from_pylist([{"number": row["number"], "content": None}], schema)

    return run
