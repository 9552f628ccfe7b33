"""CPU time of the audit of a small partition: `.venv/bin/python benchmarks/functions.py [--partitions 400] [--beside CHECKOUT]`.

Half of the partitions of `partitions.py` agree, and half have a diverged follower. They are ingested, and audited in a process that has imported
all before: their rows of small tables have been read, and their answers are written nowhere. With --beside the same by the code of another
checkout of this repository, 25 partitions of either by turns. Prints milliseconds a partition, of the least turn.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from partitions import write_snapshot

ROOT = Path(__file__).resolve().parents[1]
KINDS = ("agree", "one follower diverged")
#: Partitions of a turn; turns of each kind.
AT_ONCE, TURNS = 25, 16


class Opened:
    """A reader that has read the rows of all partitions already."""

    def __init__(self, reader) -> None:
        self._reader = reader

    def opened(self, tasks):
        return self

    def __getattr__(self, name):
        return getattr(self._reader, name)


def serve(warehouse: str) -> None:
    """Audits the stretch of partitions that each line asks for, and answers with its seconds."""
    from replica_audit.auditing.evidence import AuditOptions
    from replica_audit.process_start import collect_rarely
    from replica_audit.runner.executor import InProcess
    from replica_audit.runner.ingested_source import IngestedSource
    from replica_audit.runner.partition_tasks import Outlet, PartitionWork, audit_partitions
    from replica_audit.warehouse.answer_tables import snapshot_row
    from replica_audit.warehouse.attempts import latest_attempt
    from replica_audit.warehouse.delta_tables import Warehouse

    collect_rarely()
    opened = Warehouse(warehouse)
    ingested = latest_attempt(opened, "ingest")
    snapshot = snapshot_row(opened, ingested)
    options = AuditOptions(cluster_id=ingested.cluster_id, brokers=(0, 1, 2))
    source = IngestedSource(opened, ingested, snapshot, options, snapshot.location, "0" * 32, None)
    tasks = source.tasks(InProcess())
    halves = [[task for task in tasks if task.partition.partition % 2 == kind] for kind in range(len(KINDS))]
    works = [PartitionWork(Opened(source.reader.opened(half)), Outlet()) for half in halves]
    for line in sys.stdin:
        kind, turn = map(int, line.split())
        start = turn * AT_ONCE % len(halves[kind])
        chosen = halves[kind][start : start + AT_ONCE]
        before = time.process_time()
        for _ in audit_partitions(chosen, works[kind]):
            pass
        print((time.process_time() - before) / len(chosen), flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--partitions", type=int, default=400)
    parser.add_argument("--beside", type=Path)
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        serve(arguments.serve)
        return 0
    from replica_audit.config import Settings
    from replica_audit.progress import Progress
    from replica_audit.runner.executor import InProcess
    from replica_audit.runner.ingest import ingest
    from replica_audit.warehouse.delta_tables import Warehouse

    with tempfile.TemporaryDirectory() as directory:
        write_snapshot(Path(directory, "snapshot"), arguments.partitions)
        warehouse = f"{directory}/warehouse"
        ingest(InProcess(), Warehouse(warehouse), f"{directory}/snapshot", Settings(), Progress())
        codes = [ROOT, *([arguments.beside] if arguments.beside else [])]
        processes = [
            subprocess.Popen(
                [sys.executable, __file__, "--serve", warehouse],
                env={**os.environ, "PYTHONPATH": str(code / "lib")},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for code in codes
        ]
        for kind, name in enumerate(KINDS):
            seconds = [[] for _ in codes]
            for turn in range(TURNS):
                for process, found in zip(processes, seconds, strict=True):
                    process.stdin.write(f"{kind} {turn}\n")
                    process.stdin.flush()
                    found.append(float(process.stdout.readline()))
            told = ", ".join(f"{min(found) * 1e3:.2f} ms" for found in seconds)
            ratios = sorted(one / other for one, other in zip(seconds[0], seconds[-1], strict=True))
            print(
                f"{name}: {told}" + (f"; {ratios[len(ratios) // 2]:.2f} times, the median" if arguments.beside else "")
            )
        for process in processes:
            process.stdin.close()
            process.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())
