"""Makes the class archive that local sessions start from, and the settings for spark-submit that name it.

`python -m replica_audit.spark.archive`, in make install.

Loading and checking some 20,000 classes of Spark and Delta costs seconds at every start; the JVM's application
class-data sharing (JEP 350) maps them from a file instead. The file is a cache: it belongs to one Java and one set of
JARs, the JVM checks that once more, and without it everything works, more slowly.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from replica_audit.errors import EngineError
from replica_audit.spark.archive_place import archive_path
from replica_audit.spark.environment import check_jars, find_java
from replica_audit.spark.installation import share_directory

_TRAINING_SECONDS = 300


def make_archive() -> str:
    """Make the archive unless it is there; archives of other Javas or JARs are removed. Returns what was done.

    Raises EngineError when Java or JARs do not fit. A failed training is reported in the result, not raised: the
    archive only saves time.
    """
    path = archive_path(find_java(), check_jars())
    if path.is_file():
        return "class archive is there"
    path.parent.mkdir(parents=True, exist_ok=True)
    for old in path.parent.glob("*.jsa"):
        old.unlink()
    scratch = path.with_suffix(".part")
    scratch.unlink(missing_ok=True)
    command = [sys.executable, "-m", "replica_audit.spark.archive", "--train", str(scratch)]
    # In a group of its own, so that a training that hangs is ended with its JVM.
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
    )
    try:
        said, _ = process.communicate(timeout=_TRAINING_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        said, _ = process.communicate()
        said += f"\nno end after {_TRAINING_SECONDS} s".encode()
    if process.returncode != 0 or not scratch.is_file():
        scratch.unlink(missing_ok=True)
        last = said.decode(errors="replace").strip().splitlines()[-1:] or ["nothing"]
        return f"warning: no class archive (sessions start some seconds later); training said: {last[0]}"
    os.replace(scratch, path)
    return f"class archive made ({path.stat().st_size >> 20} MiB)"


def write_submit_settings() -> Path:
    """Write `spark-local.conf`, a properties file: with it spark-submit starts on this machine as a local session does."""
    from replica_audit.spark.session import local_settings

    settings = {**local_settings("", {}), "spark.pyspark.python": sys.executable}
    given = {name: value for name, value in settings.items() if name not in ("spark.app.name", "spark.master")}
    path = share_directory() / "spark-local.conf"
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = (f"{name} {value}\n".replace("\\", "\\\\") for name, value in sorted(given.items()))
    path.write_text("".join(lines), encoding="utf-8")
    return path


def train(target: Path) -> None:
    """Run jobs as an audit has them and SQL on small tables, and have the JVM write the classes it loaded to `target` as it ends."""
    from pyspark import SparkContext

    from replica_audit.spark.session import build_session

    scratch = Path(tempfile.mkdtemp(prefix="replica-audit-training-"))
    try:
        flag = f'"-XX:ArchiveClassesAtExit={target}"'
        session = build_session("training", {"spark.driver.extraJavaOptions": flag}, local=True)
        exercise_jobs(session.sparkContext)
        exercise(session, scratch)
        process = SparkContext._gateway.proc
        session.stop()
        SparkContext._gateway.shutdown()
        # The JVM ends with its standard input, and writes the archive then.
        process.stdin.close()
        process.wait(timeout=_TRAINING_SECONDS)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def exercise_jobs(context) -> int:
    """Run what the stages run: a job of Python functions with an accumulator, and one of several tasks."""
    seen = context.accumulator(0)
    one = context.parallelize([[1, 2]], 1).mapPartitions(lambda tasks: (seen.add(len(task)) or task for task in tasks))
    several = context.parallelize(range(4), 4).map(lambda number: number + 1)
    return len(one.collect()) + len(several.collect()) + seen.value


def exercise(session, directory: Path) -> int:
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


def _same(batches):
    yield from batches


def main(argv: Sequence[str] | None = None) -> int:
    """Make the archive; returns the exit status, 0 also where there can be none."""
    parser = argparse.ArgumentParser(prog="python -m replica_audit.spark.archive", description="Makes the archive.")
    parser.add_argument("--train", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args(argv)
    try:
        if arguments.train:
            train(arguments.train)
        else:
            print(make_archive(), file=sys.stderr)
            write_submit_settings()
    except EngineError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_status
    return 0


if __name__ == "__main__":
    sys.exit(main())
