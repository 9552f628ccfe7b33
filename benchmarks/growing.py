"""Processor time beside the size of a snapshot, where it once grew with the square: `.venv/bin/python benchmarks/growing.py [--before REVISION]`.

Discovery of clusters of 2,500, 5,000 and 10,000 partitions, all of which once had a leader alone in the ISR (copies of a real
capture), and the part of it that works out what such a leader knew; the plan for as many bad partitions, in memory, and that
for partitions each on three of twelve brokers, a third of them bad; and the audit of three replicas of ten batches, one of which
has a leader-epoch-checkpoint of 10,000, 100,000 and 1,000,000 lines. Each in a process of its own; with --before in turns with
the code of that revision, without scattered partitions and epoch files.
Ends with status 1 when a goal is missed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from partitions import ROOT, code_of

PARTITIONS, LINES = (2_500, 5_000, 10_000), (10_000, 100_000, 1_000_000)
PER_COPY, BAD_PER_COPY = 4, 3
#: Seconds at the largest size.
GOALS = {"alone in the ISR": 2.0, "epoch file": 6.0}

WRITE = """
import sys
from pathlib import Path
from tests.support.cloned_capture import clone_capture
from tests.support.encoder import encode_batch
from tests.support.fixtures import FIXTURES
from tests.support.snapshots import Replica, make_uuid, write_snapshot
kind, place, size = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
if kind == "epochs":
    batches = [encode_batch(offset, 1, offset) for offset in range(10)]
    many = Replica(batches, [(epoch, epoch) for epoch in range(size)])
    replicas = {1: many, 2: Replica(batches), 3: Replica(batches)}
    write_snapshot(place, replicas, cluster_id=make_uuid("benchmark"))
else:
    clone_capture(FIXTURES / "last-replica-elr-2-cut", place, size - 1)
"""
DISCOVER = """
import sys, time
import replica_audit.snapshot.metadata.metadata_log as reading
from replica_audit.snapshot.storage import Snapshot
from replica_audit.snapshot.discovery import discover
mark, took = reading.mark_sole_isr, []
def marked(*arguments):
    before = time.process_time()
    found = mark(*arguments)
    took.append(time.process_time() - before)
    return found
reading.mark_sole_isr = marked
before = time.process_time()
discover(Snapshot.open(sys.argv[1]))
print(time.process_time() - before, sum(took))
"""
AUDIT = """
import sys, time
from replica_audit.config import Settings
from replica_audit.runner.in_process import audit_all
before = time.process_time()
audit_all(sys.argv[1], Settings())
print(time.process_time() - before)
"""
SCATTERED = """
import sys, time
from tests.elect.clusters import BROKERS, results_of, scattered
from replica_audit.elect.election_plan import plan_elections
results = results_of(scattered(int(sys.argv[1]), 4), None, "metadata_log")
before = time.process_time()
plan_elections(results, up=BROKERS)
print(time.process_time() - before)
"""
PLAN = """
import sys, time
from replica_audit.config import Settings
from replica_audit.elect.election_plan import plan_elections
from replica_audit.runner.in_process import audit_all
from replica_audit.results import Results
from replica_audit.row_classes import sort_rows
from replica_audit.schema import REPORT_TABLES
one, copies = audit_all(sys.argv[1], Settings()), int(sys.argv[2])
tables = {
    table: sort_rows(
        [
            row._replace(topic=f"{row.topic}.{number}")
            for row in one.table(table)
            if getattr(row, "topic", None)
            for number in range(copies)
        ]
    )
    for table in REPORT_TABLES
}
results = Results(one.audit, "many", **tables)
before = time.process_time()
plan_elections(results)
print(time.process_time() - before)
"""


def run(code: Path, program: str, *arguments: object) -> list[float]:
    """The seconds that a program prints, run with the library below `code`."""
    environment = {**os.environ, "PYTHONPATH": f"{code / 'lib'}:{ROOT}"}
    command = [sys.executable, "-c", program, *map(str, arguments)]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if ran.returncode:
        raise SystemExit(ran.stderr[-2000:])
    return [float(word) for word in ran.stdout.split()]


def measure(code: Path, place: Path, partitions: int, *, whole: bool) -> dict[str, float]:
    """Seconds of all that is measured at one size; unless `whole`, without what earlier revisions never ended."""
    discovery, alone = run(code, DISCOVER, place / "cluster")
    seconds = {"discovery": discovery, "alone in the ISR": alone}
    seconds["plan"] = run(code, PLAN, place / "one", partitions // BAD_PER_COPY // 2)[0]
    if whole:
        seconds["plan for scattered partitions"] = run(code, SCATTERED, partitions)[0]
        seconds["epoch file"] = run(code, AUDIT, place / "epochs")[0]
    return seconds


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--before", help="a revision to compare with")
    parser.add_argument("--directory", type=Path, help="where the snapshots are made, and removed again")
    arguments = parser.parse_args()
    largest: dict[str, float] = {}
    with tempfile.TemporaryDirectory(dir=arguments.directory) as directory:
        codes = {"now": ROOT}
        if arguments.before:
            codes["before"] = code_of(arguments.before, Path(directory, "code"))
        for partitions, lines in zip(PARTITIONS, LINES, strict=True):
            place = Path(directory, str(partitions))
            place.mkdir()
            run(ROOT, WRITE, "cluster", place / "cluster", partitions // PER_COPY)
            run(ROOT, WRITE, "cluster", place / "one", 2)
            run(ROOT, WRITE, "epochs", place / "epochs", lines)
            for name, code in codes.items():
                seconds = measure(code, place, partitions, whole=name == "now")
                told = ", ".join(f"{what} {took:.2f} s" for what, took in seconds.items())
                print(f"{partitions} partitions, {lines} lines, {name}: {told}", flush=True)
                largest = seconds if name == "now" else largest
    return int(any(largest[what] > goal for what, goal in GOALS.items()))


if __name__ == "__main__":
    sys.exit(main())
