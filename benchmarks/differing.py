"""Peak memory and time of comparing one large partition: `.venv/bin/python benchmarks/differing.py [--mib 64] [--batch-bytes 170]`.

Two replicas that part in the first chunk, so that every batch differs, compared in a process of its own, as a task does it. Prints
what it takes, and what of the memory a batch takes.
"""

from __future__ import annotations

import argparse
import multiprocessing
import tempfile
import time
from pathlib import Path
from typing import Any

from memory import peak_bytes
from partitions import with_epoch
from scan import MIB, make_segment

COMMON = 100


def write_snapshot(directory: Path, batch_bytes: int, size_bytes: int) -> None:
    """Brokers 0, the leader in epoch 1, and 1, with records of its own in epoch 0, in segments of 16 MiB."""
    logs = [make_segment(batch_bytes, size_bytes, seed) for seed in (1, 2)]
    of_one = 16 * MIB // batch_bytes
    for broker, (log, starts) in enumerate(logs):
        place = directory / f"broker-{broker}" / "orders-0"
        place.mkdir(parents=True)
        log = logs[0][0][: COMMON * batch_bytes] + log[COMMON * batch_bytes :]
        for first in range(0, len(starts), of_one):
            count = min(of_one, len(starts) - first)
            shared = max(0, min(count, COMMON - first))
            part = log[first * batch_bytes : (first + count) * batch_bytes]
            at = shared * batch_bytes
            part = with_epoch(part[:at], 0, batch_bytes) + with_epoch(part[at:], 1 - broker, batch_bytes)
            (place / f"{first:020d}.log").write_bytes(part)
        (place / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n" if broker else f"0\n2\n0 0\n1 {COMMON}\n")
        (place.parent / "meta.properties").write_text(f"version=1\nnode.id={broker}\ncluster.id=benchmark\n")
        for file in ("replication-offset-checkpoint", "recovery-point-offset-checkpoint"):
            (place.parent / file).write_text(f"0\n1\norders 0 {COMMON}\n")
    leadership = '[{"topic": "orders", "partition": 0, "leader": 0, "leader_epoch": 1, "isr": [0]}]'
    (directory / "leadership.json").write_text(leadership)


def _examined(directory: str) -> tuple[Any, Any]:
    """The snapshot opened, and its one partition with its segments scanned."""
    from replica_audit.auditing.evidence import AuditOptions
    from replica_audit.auditing.opened_snapshot import OpenedSnapshot
    from replica_audit.snapshot.opening import open_snapshot

    snapshot, inventory = open_snapshot(directory, (), None)
    opened = OpenedSnapshot.read(snapshot, inventory, AuditOptions(), ())
    return opened, opened.examine(*opened.partitions)


def _examined_only(directory: str) -> None:
    _examined(directory)


def compare(directory: str) -> int:
    """The partition's batches, after its report rows were made."""
    from replica_audit.auditing.conclude import conclude
    from replica_audit.elect.choice import decided_rows
    from replica_audit.snapshot.record_reader import RecordReader

    opened, examined = _examined(directory)
    batches = opened.read_batches(examined)
    decided_rows(conclude(examined.plan, batches, RecordReader(opened.snapshot)), batches)
    return sum(map(len, batches.values()))


def measured(work: Any, *arguments: Any) -> tuple[Any, float, float]:
    """What `work` returns in a process of its own, its seconds, and the process's peak in MB."""
    with multiprocessing.get_context("fork").Pool(1) as pool:
        return pool.apply(_measured, (work, *arguments))


def _measured(work: Any, *arguments: Any) -> tuple[Any, float, float]:
    begin = time.perf_counter()
    found = work(*arguments)
    return found, time.perf_counter() - begin, peak_bytes() / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mib", type=int, default=64, help="size of each replica")
    parser.add_argument("--batch-bytes", type=int, default=170)
    arguments = parser.parse_args()

    with tempfile.TemporaryDirectory() as directory:
        write_snapshot(Path(directory), arguments.batch_bytes, arguments.mib * MIB)
        _, _, before = measured(_examined_only, directory)
        batches, seconds, peak = measured(compare, directory)
        each = (peak - before) * 1e6 / batches
        print(
            f"{batches:,} batches: {seconds:.1f} s, peak {peak:.0f} MB, {each:.0f} bytes a batch above what scanning takes"
        )


if __name__ == "__main__":
    main()
