"""Measures audits in a session that lives on: ingest and audit of a sample, one after the other, each in a warehouse of its own.

`.venv/bin/python benchmarks/second.py [--runs N] [--sample DIRECTORY]`: prints seconds of each; the first carries the loading
of classes and the start of the Python workers.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from replica_audit.cli.progress_lines import ProgressLine
from replica_audit.config import Settings
from replica_audit.spark.pipeline import run_audit, run_ingest
from replica_audit.spark.session import start_session

SAMPLES = Path(__file__).parents[1] / "data" / "samples"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--sample", type=Path, default=SAMPLES / "last-replica-standing")
    arguments = parser.parse_args()
    before = time.perf_counter()
    spark = start_session("benchmark second", local=True)
    print(f"start {time.perf_counter() - before:.2f} s")
    for number in range(1, arguments.runs + 1):
        with tempfile.TemporaryDirectory() as directory:
            settings, progress = Settings(warehouse=f"{directory}/warehouse", quiet=True), ProgressLine(True)
            before = time.perf_counter()
            snapshot_id = run_ingest(spark, str(arguments.sample), settings, progress)
            between = time.perf_counter()
            results = run_audit(spark, snapshot_id, settings, progress)
            after = time.perf_counter()
        print(
            f"audit {number}: ingest {between - before:.2f} s, audit {after - between:.2f} s, {results.audit['verdict']}"
        )
    spark.stop()


if __name__ == "__main__":
    main()
