"""Loading of the classes that audits need, for the class archive: `python -m replica_audit.spark.class_training FILE`.

`replica_audit.install.setup` runs it, in a process of its own, since the JVM writes the archive as it ends.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from replica_audit.errors import EngineError
from replica_audit.spark.session import build_session

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

_END_SECONDS = 900


def train(target: Path) -> None:
    """Run an audit's kinds of jobs and SQL on small tables; as it ends, the JVM writes the classes it loaded to `target`."""
    from pyspark import SparkContext

    scratch = Path(tempfile.mkdtemp(prefix="replica-audit-training-"))
    try:
        flag = f'"-XX:ArchiveClassesAtExit={target}"'
        session = build_session("training", {"spark.driver.extraJavaOptions": flag}, local=True)
        exercise_jobs(session.sparkContext)
        exercise(session, scratch)
        gateway = SparkContext._gateway
        assert gateway is not None  # the session runs on it
        session.stop()
        gateway.shutdown()
        # The JVM ends with its standard input, and then writes the archive.
        gateway.proc.stdin.close()
        gateway.proc.wait(timeout=_END_SECONDS)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def exercise_jobs(context: SparkContext) -> int:
    """Run the stages' kinds of jobs: one of Python functions with an accumulator, and one of several tasks."""
    seen = context.accumulator(0)

    def count(tasks: Iterable[list[int]]) -> Iterator[list[int]]:
        for task in tasks:
            seen.add(len(task))
            yield task

    one = context.parallelize([[1, 2]], 1).mapPartitions(count)
    several = context.parallelize(range(4), 4).map(lambda number: number + 1)
    return len(one.collect()) + len(several.collect()) + seen.value


def exercise(session: SparkSession, directory: Path) -> int:
    """Write, replace, read, join and count small Delta tables below `directory`; returns the number of rows read."""
    from pyspark.sql import functions as F

    frame = session.createDataFrame(
        [(f"t-{i % 3}", i, [i, i + 1], {"a": i}) for i in range(60)],
        "topic string, start_offset bigint, isr array<bigint>, counts map<string,bigint>",
    )
    rows = 0
    for name in ("first", "second"):
        path = str(directory / name)
        frame.write.format("delta").mode("overwrite").partitionBy("topic").save(path)
        one = "topic = 't-1'"
        frame.where(one).write.format("delta").mode("overwrite").option("replaceWhere", one).save(path)
        frame.write.format("delta").mode("append").save(path)
        read = session.read.format("delta").load(path)
        rows += read.where("start_offset > 3").groupBy("topic").agg(F.count("*"), F.max("start_offset")).count()
        rows += len(read.join(frame, "topic").orderBy("topic", read.start_offset).limit(20).toArrow())
        rows += read.mapInArrow(_same, read.schema).where("start_offset >= 0").count()
    session.sql(f"DESCRIBE HISTORY delta.`{directory / 'first'}`").collect()
    return rows


def _same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


def main() -> int:
    """Train for the file in the arguments; returns the exit status."""
    try:
        train(Path(sys.argv[1]))
    except EngineError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_status
    return 0


if __name__ == "__main__":
    sys.exit(main())
