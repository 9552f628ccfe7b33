"""Peak memory of a Python worker that scans tiny batches: `.venv/bin/python benchmarks/memory.py [--mib 1024] [--batch-bytes 170]`.

The scan task of an ingest (`runner.scanning.scan_task`) in a process of its own, as Spark's worker runs it: segments of 128 MiB,
batches written as Parquet. Ends with status 1 above 200 MB.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from large import GREATEST_SEGMENT, REPLICAS, write_snapshot
from scan import MIB

from replica_audit.install.session_settings import ENGINE_SETTINGS

TARGET = 200e6


def peak_bytes() -> int:
    """Greatest resident memory of this process; getrusage would tell that of the parent if it is greater."""
    (line,) = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM:")]
    return int(line.split()[1]) * 1024


def scan(directory: Path) -> None:
    """Scan all that lies below `directory` in one task; prints what it took."""
    from replica_audit.runner.scanning import SCANNED_TABLES, SegmentWork, scan_task
    from replica_audit.snapshot.opening import open_snapshot

    snapshot, inventory = open_snapshot(str(directory), (), None)
    before, begin = peak_bytes(), time.perf_counter()
    with tempfile.TemporaryDirectory() as place:
        targets = dict.fromkeys(SCANNED_TABLES, place)
        works = [SegmentWork(file) for file in inventory.segments]
        part = scan_task(snapshot, works, targets, {"cluster_id": "benchmark", "ingest_id": "1"})
    took, peak = time.perf_counter() - begin, peak_bytes()
    count = part.files["batches"].row_count
    print(f"{count} batches in {took:.1f} s: peak {peak / 1e6:.0f} MB, {before / 1e6:.0f} MB of it before the scan")
    sys.exit(peak > TARGET)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mib", type=int, default=1024)
    parser.add_argument("--batch-bytes", type=int, default=170)
    parser.add_argument("--scan", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.scan:
        scan(arguments.scan)
    with tempfile.TemporaryDirectory() as directory:
        names = write_snapshot(Path(directory), arguments.mib * MIB, arguments.batch_bytes)
        print(f"{REPLICAS * len(names)} segments of at most {GREATEST_SEGMENT // MIB} MiB")
        environment = {
            **os.environ,
            "ARROW_DEFAULT_MEMORY_POOL": ENGINE_SETTINGS["spark.executorEnv.ARROW_DEFAULT_MEMORY_POOL"],
        }
        own = [sys.executable, __file__, "--scan", directory]
        return subprocess.run(own, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
