"""No election is planned on ends of logs that nobody has seen."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.answering_brokers import ALL, AnsweringBrokers, Replica, batches_of, in_sync

from replica_audit.cli.main import main
from replica_audit.config import Settings
from replica_audit.observe.planning import Asked
from replica_audit.report.show_text import render_summary
from replica_audit.runner.in_process import audit_all

PLACE = ("orders", 0)


def _elect(copies: dict[int, Replica], leaders: dict[tuple[str, int], int], path: Path, asked: Asked = ALL) -> int:
    isr: dict[tuple[str, int], list[int]] = {} if leaders else {PLACE: []}
    AnsweringBrokers({PLACE: copies}, leaders, isr=isr, elr={PLACE: [3]}).observe(path / "s", asked)
    return main(["elect", str(path / "s"), "orders-0"])


@pytest.mark.parametrize("leaders", [{}, {PLACE: 1}], ids=["nobody leads", "somebody leads"])
def test_an_unseen_end_is_named_and_nothing_is_planned(
    leaders: dict[tuple[str, int], int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copies = {1: Replica(batches_of(0, 0, 1), 20), 2: Replica(batches_of(0, 0), 20), 3: Replica(batches_of(0, 0), 20)}
    assert _elect(copies, leaders, tmp_path) == 1
    said = " ".join(capsys.readouterr().out.split())
    assert "No plan: what broker 1 may have above the high watermark was not captured" in said
    assert "kafka-leader-election" not in said


def test_ends_that_were_all_seen_can_be_weighed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    copies = {broker: Replica(batches_of(0, 0, 1), 30) for broker in (1, 2, 3)}
    assert _elect(copies, {}, tmp_path) == 0
    assert "above the high watermark" not in capsys.readouterr().out


@pytest.mark.parametrize("leaders", [{}, {PLACE: 1}], ids=["nobody leads", "somebody leads"])
def test_an_unread_start_is_named_and_nothing_is_planned(
    leaders: dict[tuple[str, int], int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copies = in_sync(batches_of(0, 0, 0, 1))
    copies[3].batches[0] = batches_of(0, mark="other")[0]
    assert _elect(copies, leaders, tmp_path, Asked(last=5)) == 1
    said = " ".join(capsys.readouterr().out.split())
    assert "No plan: what brokers 1, 2 and 3 may have below the first offset that was read was not captured" in said
    results = audit_all(str(tmp_path / "s"), Settings(quiet=True))
    assert results.partitions[0].verdict == ("CONSISTENT" if leaders else "INCONCLUSIVE")
    found = [row for row in results.findings if row.code == "CAP-NOT-FROM-START"]
    severity = "info" if leaders else "medium"
    assert [(row.broker_id, row.start_offset, row.end_offset, row.severity) for row in found] == [
        (broker, 0, 30, severity) for broker in (1, 2, 3)
    ]
    assert "The logs of orders-0 were compared from offset 30 on; what is below is not known." in " ".join(
        render_summary(results).split()
    )


def test_several_unread_starts_are_named_together(tmp_path: Path) -> None:
    copies = in_sync(batches_of(0, 0, 0, 1))
    cluster = AnsweringBrokers({PLACE: copies, ("orders", 1): copies}, {PLACE: 1, ("orders", 1): 1})
    cluster.observe(tmp_path / "s", Asked(last=5))
    said = " ".join(render_summary(audit_all(str(tmp_path / "s"), Settings(quiet=True))).split())
    assert "The logs of orders-0 and orders-1 were compared from an offset after their start" in said


def test_a_log_read_from_its_start_is_whole_below(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    copies = in_sync(batches_of(0, 0, 1))
    for copy in copies.values():  # deleted up to the middle of a batch
        copy.batches, copy.log_start = copy.batches[1:], 15
    assert _elect(copies, {PLACE: 1}, tmp_path) == 0
    results = audit_all(str(tmp_path / "s"), Settings(quiet=True))
    assert "CAP-NOT-FROM-START" not in {row.code for row in results.findings}
    assert "compared from offset" not in render_summary(results)


@pytest.mark.parametrize("policy", ["compact", "delete"])
def test_a_hole_before_the_first_batch_is_one(policy: str, tmp_path: Path) -> None:
    copies = in_sync(batches_of(0, 0, 1))
    copies[2].batches = copies[2].batches[1:]
    cluster = AnsweringBrokers({PLACE: copies}, {PLACE: 1}, configs={"cleanup.policy": policy})
    cluster.observe(tmp_path / "s")
    results = audit_all(str(tmp_path / "s"), Settings(quiet=True))
    (gap,) = [row for row in results.findings if row.code == "LOG-GAP"]
    assert (gap.broker_id, gap.start_offset, gap.end_offset) == (2, 0, 10)
    assert gap.severity == ("info" if policy == "compact" else "medium")
    assert (results.partitions[0].verdict == "COMMITTED_DIVERGENCE") is (policy == "delete")
