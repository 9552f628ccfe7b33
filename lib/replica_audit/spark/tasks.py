"""Python functions as Spark tasks, on either kind of session: an RDD's job, or a DataFrame's where there is Spark Connect only.

Every stage runs its functions through `run_tasks`, and nothing else of it asks what kind of session it has.
"""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

Task = TypeVar("Task")
Result = TypeVar("Result")

#: Seconds between two looks at the tasks that have ended.
_INTERVAL = 0.3


def is_remote(spark: Any) -> bool:
    """Whether `spark` is a session of Spark Connect, which has no JVM, no SparkContext and no accumulators here."""
    return any(kind.__module__.startswith("pyspark.sql.connect.") for kind in type(spark).__mro__)


def parallelism(spark: SparkSession) -> int:
    """How many tasks run side by side, as far as Spark says."""
    if not is_remote(spark):
        return spark.sparkContext.defaultParallelism
    # Rows without a number of partitions given are dealt out to as many as there are cores.
    rows = spark.range(1 << 16).selectExpr("spark_partition_id() AS part")
    ((last,),) = rows.selectExpr("max(part)").collect()
    return last + 1


def deal(parts: Sequence[Task], count: int) -> list[list[Task]]:
    """`parts` in their order as at most `count` tasks of about equally many."""
    count = min(len(parts), max(1, count))
    return [list(parts[number * len(parts) // count : (number + 1) * len(parts) // count]) for number in range(count)]


def run_tasks(
    spark: SparkSession,
    tasks: Sequence[Task],
    work: Callable[[Task], Iterable[Result]],
    ended: Callable[[Task], None] | None = None,
) -> list[Result]:
    """What `work` yields for each of `tasks`, in their order; each runs as one Spark task; inputs and results are pickled.

    `ended` is called, one call at a time but from any thread, with each task that has ended, for progress. No tasks start
    no job. Errors of `work` are Spark's: a task is tried as often as the session is set to, and then the job fails.
    """
    if not tasks:
        return []
    ended = ended or (lambda task: None)
    if is_remote(spark):
        return _run_frame(spark, tasks, work, ended)
    return _run_rdd(spark.sparkContext, tasks, work, ended)


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
