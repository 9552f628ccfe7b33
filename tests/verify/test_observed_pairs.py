"""Snapshots of a running cluster, before and after: what nobody saw is not judged."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.answering_brokers import ALL, AnsweringBrokers, Replica, batches_of, in_sync

from replica_audit.config import Settings
from replica_audit.observe.planning import Asked
from replica_audit.report.verify_text import render_verification_status
from replica_audit.verify.verification import Verification, verify_snapshots

PLACE = ("orders", 0)


def _verify(after: dict[int, Replica], path: Path, asked: Asked = ALL) -> Verification:
    """Verify three replicas with the same 30 records before."""
    for name, copies, wanted in (("before", in_sync(batches_of(0, 0, 1)), ALL), ("after", after, asked)):
        AnsweringBrokers({PLACE: copies}, {PLACE: 1}).observe(path / name, wanted)
    return verify_snapshots(str(path / "before"), str(path / "after"), Settings(quiet=True))


def _marks(*marks: int) -> dict[int, Replica]:
    return {broker: Replica(batches_of(0, 0, 1), mark) for broker, mark in enumerate(marks, 1)}


@pytest.mark.parametrize("marks", [(30, 20, 20), (20, 20, 20), (20, 30, 30)], ids=["followers", "all", "the leader"])
def test_ends_that_were_not_seen_are_not_judged(marks: tuple[int, int, int], tmp_path: Path) -> None:
    found = _verify(_marks(*marks), tmp_path)
    assert (found.status, list(found.failed), list(found.lost)) == ("UNKNOWN", [], [])
    reasons = {row.reason for row in found.not_verified}
    behind = {broker for broker, mark in enumerate(marks, 1) if mark < 30}
    assert {f"the log of broker {one} is not known to its end in both snapshots" for one in behind} <= reasons
    assert "; 1 partition not judged" in render_verification_status(found)


def test_a_log_that_ends_earlier_is_over_truncated(tmp_path: Path) -> None:
    after = _marks(30, 30, 30)
    after[2] = Replica(batches_of(0, 0), 20)
    found = _verify(after, tmp_path)
    assert found.status == "CRITICAL"
    assert [(row.broker_id, row.kept_to, row.verdict) for row in found.failed] == [(2, 20, "over_truncated")]


def test_a_start_that_was_not_read_is_not_compared(tmp_path: Path) -> None:
    after = _marks(30, 30, 30)
    after[3].batches[0] = batches_of(0, mark="other")[0]
    found = _verify(after, tmp_path, Asked(last=5))
    assert (found.status, found.exit_status) == ("UNKNOWN", 3)
    told = "the log of broker 3 was read from offset 20 on in the later snapshot: what broker 3 held below was not compared"
    assert told in {row.reason for row in found.not_verified}


def test_whole_logs_are_judged(tmp_path: Path) -> None:
    found = _verify(_marks(30, 30, 30), tmp_path)
    assert (found.status, len(found.verifications), list(found.not_verified)) == ("OK", 3, [])


def test_retention_in_between_is_no_unread_start(tmp_path: Path) -> None:
    after = _marks(30, 30, 30)
    for copy in after.values():
        copy.batches, copy.log_start = copy.batches[1:], 10
    found = _verify(after, tmp_path)
    assert (found.status, list(found.not_verified)) == ("OK", [])
