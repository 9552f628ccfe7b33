"""No election is planned on ends of logs that nobody has seen."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.answering_brokers import AnsweringBrokers, Replica, batches_of

from replica_audit.cli.main import main
from replica_audit.observe.observing import observe
from replica_audit.observe.planning import Asked, plan_observation

PLACE = ("orders", 0)


def _elect(copies: dict[int, Replica], leaders: dict[tuple[str, int], int], path: Path) -> int:
    cluster = AnsweringBrokers({PLACE: copies}, leaders, isr={} if leaders else {PLACE: []})
    plan = plan_observation(cluster.client(), Asked())
    observe(cluster.client(), cluster.client, plan, Asked(), str(path / "s"), 1 << 40)
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
