"""The data source `kafka_log` beside the scan job of `run`: the same segments, in one session, in turns.

Run: `.venv/bin/python benchmarks/source.py [--mib 3072] [--batch-bytes 16384] [--runs 3]`. The scan job writes its rows as
Parquet; the query makes every column of every row. Prints seconds of the fastest runs and their ratio, and ends with status
1 when that is above 1.5.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from large import write_snapshot
from scan import MIB

GREATEST_RATIO = 1.5


def timed(work: Callable[[], object]) -> float:
    """Seconds of wall time."""
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def main() -> int:
    """Measure, print, and say by the exit status whether the goal holds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mib", type=int, default=3072)
    parser.add_argument("--batch-bytes", type=int, default=16384)
    parser.add_argument("--runs", type=int, default=3)
    arguments = parser.parse_args()

    from replica_audit.runner.scanning import SCANNED_TABLES, scan_files
    from replica_audit.runner.task_planning import ScanTask, SegmentWork, deal_work
    from replica_audit.snapshot.opening import open_snapshot
    from replica_audit.spark.session import build_session
    from replica_audit.spark.tasks import SparkExecutor

    with tempfile.TemporaryDirectory() as scratch:
        directory = Path(scratch) / "snapshot"
        write_snapshot(directory, arguments.mib * MIB, arguments.batch_bytes)
        snapshot, inventory = open_snapshot(str(directory), (), None)
        works = [SegmentWork(file) for file in inventory.segments]
        tasks = [ScanTask(dealt) for dealt in deal_work(works, os.cpu_count() or 1)]
        targets = {table: str(Path(scratch) / table) for table in SCANNED_TABLES}
        for target in targets.values():
            Path(target).mkdir()
        spark = build_session("benchmark", local=True)

        def scan() -> None:
            scan_files(SparkExecutor(spark), snapshot, tasks, targets, {"cluster_id": None, "ingest_id": "benchmark"})

        def query() -> None:
            rows = spark.read.format("kafka_log").load(str(directory))
            rows.write.format("noop").mode("overwrite").save()

        scan(), query()  # the first of each starts workers and loads classes
        times = [(timed(scan), timed(query)) for _ in range(arguments.runs)]
        spark.stop()
    scanned, queried = (min(column) for column in zip(*times))
    print(f"scan job {scanned:.1f} s, query of the data source {queried:.1f} s: {queried / scanned:.2f} times")
    return 0 if queried <= GREATEST_RATIO * scanned else 1


if __name__ == "__main__":
    sys.exit(main())
