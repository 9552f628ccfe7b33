"""The manifest's times tell a copy that was made too early from a leader that lost its tail."""

from __future__ import annotations

import json

import pytest
from tests.auditing.scenario import Broker, audit, written

SHARED = written(0, 30, 1)


def scene(tmp_path, leader_copied, follower_copied, *, ahead=None, epoch=1, **named):
    """Leader 1 to 30, follower 2 with more after it, and when each was copied (minutes)."""
    if leader_copied is not None:
        brokers = [
            {
                "broker_id": broker,
                "log_dir": f"broker-{broker}",
                "started": f"2024-01-31T10:{begin:02}:00Z",
                "finished": f"2024-01-31T10:{end:02}:00Z",
            }
            for broker, (begin, end) in ((1, leader_copied), (2, follower_copied))
        ]
        (tmp_path / "manifest.json").write_text(json.dumps({"schema_version": 1, "quiesced": None, "brokers": brokers}))
    more = written(30, 40, epoch) if ahead is None else ahead
    return audit(
        tmp_path,
        {1: Broker(SHARED), 2: Broker([*SHARED, *more], high_watermark=30)},
        source="user",
        leader_epoch=1,
        **named,
    )


def test_a_leader_that_was_copied_first_is_behind_and_nothing_is_wrong(tmp_path):
    answer = scene(tmp_path, (0, 4), (5, 9))
    assert answer.one("CAP-SKEW")[0] == "info" and not answer.codes("low") - {"REP-UNDER-REPLICATED"}
    (row,) = answer.found("CAP-SKEW")
    assert "broker 2 was copied from 2024-01-31T10:05:00Z to 2024-01-31T10:09:00Z" in row["evidence"][0]["text"]


def test_a_leader_that_was_copied_later_lost_what_its_follower_has(tmp_path):
    answer = scene(tmp_path, (5, 9), (0, 4))
    assert answer.one("REP-LEADER-SHORTER") == ("high", "likely", 30, 40) and answer.verdict == "COMMITTED_LOSS"
    (row,) = answer.found("REP-LEADER-SHORTER")
    assert "broker 1 was copied from 2024-01-31T10:05:00Z" in row["evidence"][0]["text"]


@pytest.mark.parametrize(
    "copied",
    [((3, 9), (0, 4)), ((0, 9), (0, 9)), ((4, 9), (0, 4)), (None, None)],
    ids=["overlap", "together", "no longer than clocks differ", "no times"],
)
def test_copies_whose_order_is_not_certain_may_be_skewed(tmp_path, copied):
    answer = scene(tmp_path, *copied)
    assert answer.found("CAP-SKEW") and not answer.found("REP-LEADER-SHORTER")


def test_records_of_an_epoch_that_another_led_may_have_come_later(tmp_path):
    answer = scene(tmp_path, (5, 9), (0, 4), epoch=2)
    assert not answer.found("REP-LEADER-SHORTER")
