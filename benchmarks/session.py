"""Measures what every audit pays first: a cold session, then three small Delta tables written and read.

`.venv/bin/python benchmarks/session.py [--runs N] [--conf KEY=VALUE ...]`: one process and one JVM per run; prints
seconds, one run a line.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time


def measure(settings: dict[str, str]) -> None:
    """One run in this process, with `settings`: prints seconds of wall time, and of processor time of the JVM."""
    begin = time.perf_counter()
    from pyspark import SparkContext

    from replica_audit.spark.session import build_session

    session = build_session("benchmark session", settings, local=True)
    started = time.perf_counter()
    written = read = 0.0
    with tempfile.TemporaryDirectory() as directory:
        for table in range(3):
            path, before = f"{directory}/{table}", time.perf_counter()
            frame = session.createDataFrame([(i, f"t-{i}") for i in range(100)], "start_offset bigint, topic string")
            frame.write.format("delta").mode("overwrite").save(path)
            between = time.perf_counter()
            rows = session.read.format("delta").load(path).groupBy("topic").count().collect()
            if len(rows) != 100:
                raise SystemExit(f"table {table}: expected 100 rows, found {len(rows)}")
            written, read = written + between - before, read + time.perf_counter() - between
    total = time.perf_counter() - begin
    process = SparkContext._gateway.proc
    session.stop()
    SparkContext._gateway.shutdown()
    process.stdin.close()
    process.wait()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = used.ru_utime + used.ru_stime
    start = started - begin
    print(f"start {start:.1f}  writes {written:.1f}  reads {read:.1f}  total {total:.1f}  processor {cpu:.1f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=0, help="number of processes; 0 measures in this one")
    parser.add_argument("--conf", action="append", default=[], help="a Spark setting, KEY=VALUE")
    arguments = parser.parse_args()
    for _ in range(arguments.runs):
        subprocess.run([sys.executable, __file__, *(f"--conf={setting}" for setting in arguments.conf)], check=True)
    if not arguments.runs:
        measure(dict(setting.split("=", 1) for setting in arguments.conf))


if __name__ == "__main__":
    main()
