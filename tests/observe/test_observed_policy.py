"""Answers on gaps if `observe` does not know whether the topic is compacted."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.answering_brokers import AnsweringBrokers, Replica, batches_of, in_sync

from replica_audit.auditing.catalogue import at_or_above
from replica_audit.config import Settings
from replica_audit.results import Results
from replica_audit.runner.in_process import audit_all

PLACE = ("orders", 0)
UNKNOWN: dict[str, str] = {}


def _audit(copies: dict[int, Replica], configs: dict[str, str], path: Path) -> Results:
    cluster = AnsweringBrokers({PLACE: copies}, {PLACE: 1}, configs=configs)
    cluster.observe(path / "s")
    return audit_all(str(path / "s"), Settings(quiet=True))


def _cleaned(broker: int) -> dict[int, Replica]:
    copies = in_sync(batches_of(0, 0, 0, 1))
    del copies[broker].batches[1]
    return copies


@pytest.mark.parametrize("broker", [1, 2], ids=["the leader", "a follower"])
def test_a_compacted_topic_of_unknown_policy_is_no_divergence(broker: int, tmp_path: Path) -> None:
    results = _audit(_cleaned(broker), UNKNOWN, tmp_path)
    assert results.partitions[0].verdict == "INCONCLUSIVE"
    assert not [row for row in results.findings if at_or_above(row.severity, "high")]
    doubted = [row for row in results.findings if row.code == "CAP-SECOND-HAND" and row.severity == "medium"]
    assert doubted and all("DescribeConfigs" in row.message for row in doubted)
    (gap,) = [row for row in results.findings if row.code == "LOG-GAP"]
    assert (gap.broker_id, gap.start_offset, gap.end_offset, gap.severity) == (broker, 10, 20, "low")
    assert any("DescribeConfigs" in item.text for item in gap.evidence if item.text)
    assert "DIV-PRESENCE" not in {row.code for row in results.findings}


def test_where_the_policy_is_told_a_hole_is_a_divergence(tmp_path: Path) -> None:
    results = _audit(_cleaned(2), {"cleanup.policy": "delete"}, tmp_path)
    assert results.partitions[0].verdict == "COMMITTED_DIVERGENCE"
    assert ("DIV-HIDDEN", 2, "critical") in {(row.code, row.broker_id, row.severity) for row in results.findings}


def test_other_records_without_a_gap_are_a_divergence_whatever_the_policy(tmp_path: Path) -> None:
    copies = in_sync(batches_of(0, 0, 1))
    copies[3].batches[1] = batches_of(0, 0, mark="other")[1]
    results = _audit(copies, UNKNOWN, tmp_path)
    assert results.partitions[0].verdict == "COMMITTED_DIVERGENCE"
    assert ("DIV-CONTENT", 3, "critical") in {(row.code, row.broker_id, row.severity) for row in results.findings}


def test_logs_with_the_same_gaps_agree(tmp_path: Path) -> None:
    copies = {broker: Replica([*batches_of(0, 0, 0, 1)[:1], *batches_of(0, 0, 0, 1)[2:]], 40) for broker in (1, 2, 3)}
    results = _audit(copies, UNKNOWN, tmp_path)
    assert results.partitions[0].verdict == "CONSISTENT"
    assert {row.severity for row in results.findings if row.code == "LOG-GAP"} == {"low"}
