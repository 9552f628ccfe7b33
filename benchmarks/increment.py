"""Measures the next day's audit of a cluster in the warehouse that knows the first: bytes read, and time above the fixed cost.

`.venv/bin/python benchmarks/increment.py [--mib 3072] [--batch-bytes 16384] [--new PERCENT] [--runs N] [--directory DIR]`: three equal
replicas in segments of 32 MiB; on the next day (links to the same files where they did not change, as `rsync --link-dest` leaves
them) the last segment of each partition has grown. In turns, each a cold process with `run --no-quality`: a snapshot of a few KiB, the
first day in an empty warehouse, the next day in that warehouse, and the next day in full. The answers of the last two must be equal.

Ends with status 1 when more bytes are read than are new and 1 % of all, or when the next day takes more than a tenth of what the
first takes above the fixed cost.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from large import REPLICAS
from scan import MIB, make_segment

from replica_audit.cli.progress_lines import ProgressLine
from replica_audit.config import Settings
from replica_audit.report.audit_json import render_audit_json
from replica_audit.runner.scanning import ReadBytes
from replica_audit.spark.pipeline import run_audit, run_ingest
from replica_audit.spark.session import start_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SEGMENT_BYTES = 32 * MIB


def write_days(directory: Path, total_bytes: int, batch_bytes: int, new: float) -> tuple[Path, Path]:
    """Two days of a cluster, the second with a share `new` of bytes more."""
    partitions = max(1, total_bytes // REPLICAS // (256 * MIB))
    of_one = total_bytes // REPLICAS // partitions
    data, starts = make_segment(batch_bytes, int(of_one * (1 + new)))
    step = max(1, SEGMENT_BYTES // batch_bytes)
    days = directory / "day-1", directory / "day-2"
    for day, count in zip(days, (of_one // batch_bytes, len(starts)), strict=True):
        for broker in range(REPLICAS):
            root = day / f"broker-{broker}"
            for number in range(partitions):
                (root / f"orders-{number}").mkdir(parents=True)
                (root / f"orders-{number}" / "leader-epoch-checkpoint").write_text("0\n1\n3 0\n")
                for first in range(0, of_one // batch_bytes, step):
                    is_last = first + step >= of_one // batch_bytes
                    end = count if is_last else first + step
                    file = root / f"orders-{number}" / f"{first:020d}.log"
                    before = days[0] / file.relative_to(day)
                    if day is days[1] and not is_last:
                        os.link(before, file)
                    else:
                        file.write_bytes(data[first * batch_bytes : end * batch_bytes])
            (root / "meta.properties").write_text(f"version=1\nnode.id={broker}\ncluster.id=benchmark\n")
            for name in ("replication-offset-checkpoint", "recovery-point-offset-checkpoint"):
                lines = "".join(f"orders {number} {count}\n" for number in range(partitions))
                (root / name).write_text(f"0\n{partitions}\n{lines}")
    return days


def audit(spark: SparkSession, snapshot: Path, warehouse: Path, **more: bool) -> tuple[float, ReadBytes, dict]:
    """Seconds of ingest and audit, the bytes that the ingest read, and the answers without ids and times."""
    settings, progress = Settings(warehouse=str(warehouse), quiet=True, **more), ProgressLine(True)
    before = time.perf_counter()
    results = run_audit(spark, run_ingest(spark, str(snapshot), settings, progress), settings, progress)
    seconds = time.perf_counter() - before
    answers = json.loads("".join(render_audit_json(results)))
    for name in ("audit_id", "started", "finished"):
        del answers["audit"][name]
    return seconds, progress.reading, answers


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mib", type=int, default=3072, help="size of all replicas together")
    parser.add_argument("--batch-bytes", type=int, default=16 * 1024)
    parser.add_argument("--new", type=float, default=1, help="new data in percent")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--directory", type=Path, help="where the snapshots are made, and removed again")
    arguments = parser.parse_args()
    place = Path(tempfile.mkdtemp(dir=arguments.directory))
    spark = start_session("benchmark increment", local=True)
    seconds: dict[str, list[float]] = {"fixed": [], "first": [], "next": [], "full": []}
    try:
        small = write_days(place / "small", 3 * 4096, 1024, 0)[0]
        days = write_days(place / "large", arguments.mib * MIB, arguments.batch_bytes, arguments.new / 100)
        total = sum(file.stat().st_size for file in days[1].rglob("*.log"))
        audit(spark, small, place / "warm")
        for number in range(arguments.runs):
            warehouse = place / f"warehouse-{number}"
            seconds["fixed"].append(audit(spark, small, place / f"small-{number}")[0])
            seconds["first"].append(audit(spark, days[0], warehouse)[0])
            took, reading, answers = audit(spark, days[1], warehouse)
            seconds["next"].append(took)
            took, _, fully = audit(spark, days[1], place / f"full-{number}", full=True)
            seconds["full"].append(took)
            if answers != fully:
                raise SystemExit("the answers of the next day are not those of a full scan")
            share = reading.read_bytes / total
            print(" ".join(f"{name} {of[-1]:.2f} s" for name, of in seconds.items()), f"read {share:.2%}", flush=True)
    finally:
        spark.stop()
        shutil.rmtree(place)
    fixed, first, following, _ = (min(times) for times in seconds.values())
    part = (following - fixed) / (first - fixed)
    print(f"bytes read {share:.2%}; above the fixed cost {part:.2f} of the first run (fastest of {arguments.runs})")
    return int(share > arguments.new / 100 + 0.01 or part > 0.1)


if __name__ == "__main__":
    sys.exit(main())
