"""A partition compared piece by piece has the answers of one that is compared as a whole."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from tests.auditing.captures import CAPTURES, FIXTURES
from tests.auditing.scenario import Broker, audit, written
from tests.auditing.test_chunks import make

from replica_audit.auditing.comparing import chunks as chunk_sums
from replica_audit.auditing.partitions import pieces
from replica_audit.auditing.partitions.conclusion import conclude
from replica_audit.auditing.partitions.partition_evidence import PartitionEvidence
from replica_audit.auditing.partitions.pieces import PieceAligner, join_pieces, plan_pieces
from replica_audit.auditing.partitions.plan import plan_audit
from replica_audit.auditing.rows.answer_rows import report_rows
from replica_audit.auditing.rows.evidence import AuditOptions
from replica_audit.formats.segments import digests
from replica_audit.formats.segments.record_reader import RecordReader
from replica_audit.local.audit import open_snapshot
from replica_audit.local.opened_snapshot import OpenedSnapshot

SEEDS = range(150)


def by_pieces(evidence: PartitionEvidence, batches: Mapping, planned: list, read=None, transactions=None) -> dict:
    """Report rows out of pieces that see no batch but those that they ask for."""
    parts, aligner = [], PieceAligner(plan_audit(evidence))
    for piece in planned:
        wanted = aligner.wanted(piece)
        seen = {
            key: rows[np.isin(rows["base_offset"] // chunk_sums.CHUNK_OFFSETS, sorted(wanted[key]))]
            for key, rows in batches.items()
            if key in wanted
        }
        parts.append(aligner.align(piece, seen, read))
    aligned = join_pieces(parts)
    return report_rows(conclude(plan_audit(evidence), None, read, transactions, aligned))


def test_pieces_have_the_answers_of_the_whole():
    cut = differing = 0
    for seed in SEEDS:
        evidence, batches = make(seed)
        planned = plan_pieces(plan_audit(evidence), 20)
        if not planned:
            continue
        whole = report_rows(conclude(plan_audit(evidence), batches))
        found = by_pieces(evidence, batches, planned)
        for table in whole:
            assert found[table] == whole[table], (seed, table)
        cut += len(planned) > 1
        differing += bool(whole["divergences"]) and len(planned) > 1
    assert cut > 20
    assert differing > 10


@pytest.fixture
def small_chunks(monkeypatch):
    """Chunks of four offsets, so that small logs have many."""
    for module in (digests, chunk_sums, pieces):
        monkeypatch.setattr(module, "CHUNK_OFFSETS", 4)


def compared_both_ways(uri: str) -> tuple[int, int]:
    """Number of pieces and of differing records of all partitions of a snapshot, whose answers are equal either way."""
    snapshot, inventory = open_snapshot(uri, (), None)
    opened = OpenedSnapshot.read(snapshot, inventory, AuditOptions(), ())
    count = differing = 0
    for partition in opened.partitions:
        examined = opened.examine(partition)
        planned = plan_pieces(examined.plan, 1)
        batches, read = opened.read_batches(examined), RecordReader(snapshot)
        if planned:
            whole = report_rows(conclude(examined.plan, batches, read))
            found = by_pieces(examined.plan.evidence, batches, planned, RecordReader(snapshot))
            for table in whole:
                assert found[table] == whole[table], (uri, partition, table)
            count += len(planned)
            differing += len(whole["divergences"])
    return count, differing


def test_captures_have_the_same_answers_piece_by_piece(small_chunks):
    counts = [compared_both_ways(str(FIXTURES / capture)) for capture in CAPTURES]
    assert sum(count for count, _ in counts) > 100
    assert sum(differing for _, differing in counts) > 20


def test_records_are_compared_within_pieces(small_chunks, tmp_path):
    leader = written(0, 60, 0)
    follower = [
        *written(0, 20, 0),
        *written(20, 30, 0, mark="odd"),
        *written(30, 45, 0, step=1),
        *written(45, 60, 0, step=2),
    ]
    audit(tmp_path, {1: Broker(leader), 2: Broker(follower)}, configs={"cleanup.policy": "delete"})
    count, differing = compared_both_ways(str(tmp_path))
    assert count > 2
    assert differing


def test_what_cannot_be_cut_is_compared_as_a_whole(tmp_path, small_chunks):
    logs = {1: Broker(written(0, 60, 0)), 2: Broker(written(0, 50, 0, mark="odd"))}
    for policy, is_cut in (("compact", False), ("delete", True)):
        place = tmp_path / policy
        audit(place, logs, configs={"cleanup.policy": policy})
        snapshot, inventory = open_snapshot(str(place), (), None)
        opened = OpenedSnapshot.read(snapshot, inventory, AuditOptions(), ())
        (partition,) = opened.partitions
        plan = opened.examine(partition).plan
        assert plan.batches
        assert bool(plan_pieces(plan, 1)) is is_cut
        assert plan_pieces(plan, 1000) == []
