"""Peak memory and time of comparing one large partition: `.venv/bin/python benchmarks/pieces.py [--mib 64] [--batch-bytes 170]`.

Two replicas that part in the first chunk, so that every batch differs: compared as a whole, then in pieces, each piece and the
conclusion in a process of its own as a task has it. The answers have to be equal.
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
    from replica_audit.auditing.rows.evidence import AuditOptions
    from replica_audit.local.audit import open_snapshot
    from replica_audit.local.opened_snapshot import OpenedSnapshot

    snapshot, inventory = open_snapshot(directory, (), None)
    opened = OpenedSnapshot.read(snapshot, inventory, AuditOptions(), ())
    return opened, opened.examine(*opened.partitions)


def compare_whole(directory: str) -> dict:
    """Report rows of the partition, in one go."""
    from replica_audit.auditing.partitions.conclusion import conclude
    from replica_audit.auditing.rows.answer_rows import report_rows
    from replica_audit.formats.segments.record_reader import RecordReader

    opened, examined = _examined(directory)
    batches = opened.read_batches(examined)
    return report_rows(conclude(examined.plan, batches, RecordReader(opened.snapshot)))


def pieces_of(directory: str, limit: int) -> list:
    """The pieces that the partition is cut into."""
    from replica_audit.auditing.partitions.pieces import plan_pieces

    return plan_pieces(_examined(directory)[1].plan, limit)


def compare_piece(directory: str, piece: tuple[int, ...]) -> dict:
    """What one piece hands over."""
    from replica_audit.auditing.partitions.pieces import PieceAligner
    from replica_audit.formats.segments.record_reader import RecordReader

    opened, examined = _examined(directory)
    aligner = PieceAligner(examined.plan)
    return aligner.align(piece, opened.read_chunks(examined, aligner.wanted(piece)), RecordReader(opened.snapshot))


def join(directory: str, parts: list[dict]) -> dict:
    """Report rows out of what the pieces handed over."""
    from replica_audit.auditing.partitions.conclusion import conclude
    from replica_audit.auditing.partitions.pieces import join_pieces
    from replica_audit.auditing.rows.answer_rows import report_rows

    return report_rows(conclude(_examined(directory)[1].plan, aligned=join_pieces(parts)))


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
    parser.add_argument("--piece-batches", type=int, default=100_000)
    arguments = parser.parse_args()

    with tempfile.TemporaryDirectory() as directory:
        write_snapshot(Path(directory), arguments.batch_bytes, arguments.mib * MIB)
        whole, seconds, peak = measured(compare_whole, directory)
        print(f"as a whole: {seconds:.1f} s, peak {peak:.0f} MB", flush=True)
        pieces, _, _ = measured(pieces_of, directory, arguments.piece_batches)
        parts = [measured(compare_piece, directory, piece) for piece in pieces]
        slowest, largest = max(took for _, took, _ in parts), max(peak for _, _, peak in parts)
        print(f"{len(pieces)} pieces: {slowest:.1f} s the slowest, peak {largest:.0f} MB the largest", flush=True)
        concluded, seconds, peak = measured(join, directory, [part for part, _, _ in parts])
        print(f"conclusion: {seconds:.1f} s, peak {peak:.0f} MB")
        if concluded != whole:
            raise SystemExit("the answers differ")


if __name__ == "__main__":
    main()
