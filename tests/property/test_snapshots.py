"""Simulated clusters written as log directories: the audit of the files is the audit of the evidence in memory."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.property.capture import TOPIC, to_directory, to_model
from tests.property.history import play
from tests.support.report_rows import AUDIT

from replica_audit.auditing.answer_rows import report_rows
from replica_audit.auditing.comparison_plan import ComparisonPlan
from replica_audit.auditing.conclude import conclude
from replica_audit.config import Settings
from replica_audit.model import TopicPartition
from replica_audit.results import Results
from replica_audit.runner.in_process import audit_one

#: Each writes some thirty files; chosen so that openings, retention and lost tails are among them.
SEEDS = range(0, 60, 3)

#: What a path or an identity of the snapshot enters into; everything else must be the same.
INCIDENTAL = {"evidence", "finding_id", "log_dir"}


def _comparable(rows: list[dict]) -> list[dict]:
    return [{name: value for name, value in row.items() if name not in INCIDENTAL} for row in rows]


@pytest.mark.parametrize("source", ["topics_describe", "user"])
@pytest.mark.parametrize("seed", SEEDS)
def test_files_and_memory_give_the_same_answers(seed: int, source: str, tmp_path: Path):
    cluster = play(seed)
    quiesced = (True, None)[seed % 2]
    to_directory(cluster, tmp_path, quiesced=quiesced, epoch_known=source == "user")
    from_files = audit_one(str(tmp_path), TopicPartition(TOPIC, 0), Settings())

    evidence, batches = to_model(cluster, source=source, quiesced=quiesced)
    in_memory = Results.of(AUDIT, report_rows(conclude(ComparisonPlan(evidence), batches)))

    for table in ("partitions", "replicas", "high_watermarks", "divergences", "truncations"):
        unordered = [sorted(map(str, _comparable(rows))) for rows in (from_files.rows(table), in_memory.rows(table))]
        assert unordered[0] == unordered[1], table
    codes = [
        sorted((row["code"], row["broker_id"] or -1, row["severity"]) for row in rows)
        for rows in (from_files.rows("findings"), in_memory.rows("findings"))
    ]
    assert codes[0] == codes[1]


def test_writing_the_same_cluster_twice_gives_the_same_bytes(tmp_path: Path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        to_directory(play(7), tmp_path / name)
    files = sorted(path.relative_to(tmp_path / "one") for path in (tmp_path / "one").rglob("*") if path.is_file())
    assert len(files) > 10
    for file in files:
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()
