"""Small audits one after another on one warehouse in one session: memory, files and time of each have to stay flat.

`.venv/bin/python benchmarks/soak.py [--audits 200] [--keep 5] [--sample DIRECTORY]`: each audit is of a new copy of the sample
with one more file, so that it is ingested; retention keeps the last few and `vacuum` deletes what they replaced. Prints the
first and last quarter side by side and ends with status 1 when a figure of the last is more than 1.5 times that of the first.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

from replica_audit.cli.progress_lines import ProgressLine
from replica_audit.config import Settings
from replica_audit.spark.pipeline import run_audit, run_ingest
from replica_audit.spark.session import start_session
from replica_audit.warehouse.delta_tables import Warehouse
from replica_audit.warehouse.retention import apply_retention, sweep

SAMPLES = Path(__file__).parents[1] / "data" / "samples"


def resident_mib(process: str) -> float:
    """Resident memory of a process in MiB, by its number or `self`."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except FileNotFoundError:
        return 0.0  # it ended since it was listed
    # One that has ended and was not waited for has no memory.
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS:")), 0.0)


def children(process: str) -> list[str]:
    """Numbers of the processes below a process."""
    found = []
    for path in Path(f"/proc/{process}/task").glob("*/children"):
        for child in path.read_text().split():
            found += [child, *children(child)]
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--audits", type=int, default=200)
    parser.add_argument("--keep", type=int, default=5)
    parser.add_argument("--sample", type=Path, default=SAMPLES / "last-replica-standing")
    arguments = parser.parse_args()
    measures: list[dict[str, float]] = []
    with tempfile.TemporaryDirectory() as directory:
        settings = Settings(warehouse=f"{directory}/warehouse", quiet=True, time_travel_days=0)
        spark, progress = start_session("benchmark soak", local=True), ProgressLine(True)
        for number in range(arguments.audits):
            snapshot = Path(directory) / "snapshot"
            shutil.rmtree(snapshot, ignore_errors=True)
            shutil.copytree(arguments.sample, snapshot)
            (snapshot / "note.txt").write_text(f"{number}\n")
            began = time.perf_counter()
            run_audit(spark, run_ingest(spark, str(snapshot), settings, progress), settings, progress)
            lasted = time.perf_counter() - began
            if number % 10 == 9:
                warehouse = Warehouse(settings.warehouse, time_travel_days=settings.time_travel_days)
                sweep(warehouse)
                apply_retention(warehouse, None, arguments.keep, vacuum=True)
            below = children("self")
            measures.append(
                {
                    "seconds": lasted,
                    "driver MiB": resident_mib("self"),
                    "Java and workers MiB": sum(resident_mib(child) for child in below),
                    "processes": len(below),
                    "files": sum(1 for path in Path(settings.warehouse).rglob("*.parquet")),
                }
            )
        spark.stop()
    quarter = max(1, len(measures) // 4)
    grown = False
    print(f"{len(measures)} audits; medians of the second quarter and of the last")
    for name in measures[0]:
        first = statistics.median(row[name] for row in measures[quarter : 2 * quarter])
        last = statistics.median(row[name] for row in measures[-quarter:])
        grown |= last > 1.5 * first
        print(f"{name}: {first:.2f} and {last:.2f}, {last / first:.2f} times")
    return 1 if grown else 0


if __name__ == "__main__":
    sys.exit(main())
