"""Measures the scan of many small segments that are not in memory: `.venv/bin/python benchmarks/cold.py [--partitions 10000] [--beside CHECKOUT]`.

Three replicas of each partition, with files and inodes of their own, in directories made in any order. Two processes scan half of
the segments each. Before each scan the system drops what it has in memory of the disk, which needs root; with --warm it does not.
With --beside the same by the code of another checkout, in turns. Prints seconds and processor time, of each the median of three.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from partitions import BROKERS, COMMON, KINDS, two_logs

ROOT = Path(__file__).resolve().parents[1]
TURNS, PROCESSES, OF_A_TASK = 3, 2, 1500
SCAN = """
import os, sys, tempfile, time
from replica_audit.process_start import keep_freed_memory
from replica_audit.process_start import collect_rarely
from replica_audit.model import SegmentFile
from replica_audit.runner import segment_scan
from replica_audit.runner.scanning import SCANNED_TABLES, scan_task
from replica_audit.runner.task_planning import SegmentWork
from replica_audit.snapshot.storage import Snapshot
from replica_audit.warehouse import table_files
root, partitions, brokers, size, part, parts, of_a_task = sys.argv[1], *map(int, sys.argv[2:])
keep_freed_memory()
collect_rarely()
snapshot = Snapshot.open(root)
files = [
    SegmentFile(broker, f"broker-{broker}", "orders", number, f"broker-{broker}/orders-{number}/{0:020d}.log", 0, size)
    for number in range(part, partitions, parts) for broker in range(brokers)
]
with tempfile.TemporaryDirectory() as place:
    directories = {table: f"{place}/{table}" for table in SCANNED_TABLES}
    for directory in directories.values():
        os.mkdir(directory)
    print("ready", flush=True)
    sys.stdin.readline()
    began, busy = time.perf_counter(), time.process_time()
    for at in range(0, len(files), of_a_task):
        works = [SegmentWork(file) for file in files[at : at + of_a_task]]
        scanned = scan_task(snapshot, works, directories, {"cluster_id": "", "ingest_id": ""})
        assert all(one.digest for one in scanned.digests)
    print(time.perf_counter() - began, time.process_time() - busy)
"""


def write_tree(root: Path, partitions: int) -> int:
    """Write the snapshot; returns the bytes of a segment."""
    kinds = [two_logs(seed)[0] for seed in range(1, 2 * KINDS, 2)]
    places = [(broker, number) for number in range(partitions) for broker in range(BROKERS)]
    random.Random(1).shuffle(places)
    for broker, number in places:
        directory = root / f"broker-{broker}" / f"orders-{number}"
        directory.mkdir(parents=True)
        for name, content in (
            (f"{0:020d}.log", kinds[number % KINDS]),
            (f"{0:020d}.index", b""),
            (f"{0:020d}.timeindex", b""),
            ("leader-epoch-checkpoint", f"0\n2\n0 0\n1 {COMMON}\n".encode()),
        ):
            (directory / name).write_bytes(content)
    os.sync()
    return len(kinds[0])


def scan(checkout: Path, words: list[str], *, warm: bool) -> tuple[float, float]:
    """Seconds until the last process has ended, and processor time of all."""
    environment = {**os.environ, "PYTHONPATH": str(checkout / "lib"), "OPENBLAS_NUM_THREADS": "1"}
    started = [
        subprocess.Popen(
            [sys.executable, "-c", SCAN, *words, str(part), str(PROCESSES), str(OF_A_TASK)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment,
        )
        for part in range(PROCESSES)
    ]  # fmt: skip
    for one in started:
        assert one.stdout is not None and one.stdout.readline()
    if not warm:
        Path("/proc/sys/vm/drop_caches").write_text("3")
    for one in started:
        assert one.stdin is not None
        one.stdin.write("\n")
        one.stdin.flush()
    found = [list(map(float, one.communicate()[0].split())) for one in started]
    return max(seconds for seconds, _ in found), sum(busy for _, busy in found)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--partitions", type=int, default=10_000)
    parser.add_argument("--beside", type=Path)
    parser.add_argument("--warm", action="store_true")
    arguments = parser.parse_args()
    checkouts = [ROOT, *([arguments.beside] if arguments.beside else [])]
    with tempfile.TemporaryDirectory() as place:
        size = write_tree(Path(place), arguments.partitions)
        words = [place, str(arguments.partitions), str(BROKERS), str(size)]
        found: dict[Path, list[tuple[float, float]]] = {checkout: [] for checkout in checkouts}
        for turn in range(TURNS):
            for checkout in checkouts[:: -1 if turn % 2 else 1]:
                found[checkout].append(scan(checkout, words, warm=arguments.warm))
        for checkout, times in found.items():
            seconds, busy = (statistics.median(column) for column in zip(*times, strict=True))
            print(f"{checkout}: {seconds:.1f} s, {busy:.1f} s of CPU")


if __name__ == "__main__":
    main()
