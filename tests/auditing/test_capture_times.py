"""The manifest's times tell a copy that was made too early from a leader that lost its tail."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.support.scenario import Answer, audit, written
from tests.support.scenes import FENCE, change, log
from tests.support.scenes import scene as history
from tests.support.snapshots import Replica

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
        {1: Replica(SHARED), 2: Replica([*SHARED, *more], high_watermark=30)},
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


# --- a broker that was down was not copied too early


def kinds(path: Path, **of_brokers: str) -> None:
    """A manifest that says so of each broker, and nothing of the cluster's rest."""
    brokers = [
        {"broker_id": int(name[1:]), "log_dir": f"broker-{name[1:]}", "kind": kind} for name, kind in of_brokers.items()
    ]
    (path / "manifest.json").write_text(json.dumps({"schema_version": 1, "quiesced": None, "brokers": brokers}))


@pytest.mark.parametrize(
    ("kind", "epoch", "lost"),
    [("killed", 1, True), ("stopped", 1, True), ("live", 1, False), ("killed", 2, False), ("stopped", 2, False)],
)
def test_a_leader_that_was_down_lost_what_others_have_of_its_epoch(tmp_path, kind, epoch, lost):
    """Of a later one somebody else may have written it, after the leader had gone."""
    kinds(tmp_path, b1=kind, b2="live")
    answer = scene(tmp_path, None, None, epoch=epoch)
    assert bool(answer.found("REP-LEADER-SHORTER")) is lost, answer
    assert bool(answer.found("CAP-SKEW")) is not lost and (answer.verdict == "COMMITTED_LOSS") is lost


def eligible_lost_its_tail(path: Path, mark: int = 50, fenced: bool = True, **options) -> Answer:
    """Broker 2 led after broker 1 lost power, is gone too, and came back; broker 1, eligible, would lead next."""
    path.mkdir(parents=True, exist_ok=True)
    moves = (
        *((FENCE[1],) if fenced else ()),
        change(leader=2, isr=(2,), elr=(1,)),
        change(leader=-1, isr=(), elr=(1,), last_known_elr=(2,)),
    )
    brokers = {1: log(30, mark), 2: log(50, 50, ((0, 0), (1, 50))), 3: log(50, 50)}
    return history(path, brokers, *moves, configs={"min.insync.replicas": "2"}, **options)


def test_the_metadata_log_tells_that_it_was_down(tmp_path):
    answer = eligible_lost_its_tail(tmp_path / "down")
    assert answer.verdict == "COMMITTED_LOSS" and not answer.found("CAP-SKEW"), answer
    assert {row["broker_id"] for row in answer.found("REP-LEADER-SHORTER")} == {2, 3}
    assert "was down when it was copied" in answer.found("REP-LEADER-SHORTER", 3)[0]["message"]
    up = eligible_lost_its_tail(tmp_path / "up", mark=30, fenced=False)
    assert up.found("CAP-SKEW", 3) and up.verdict == "LAGGING", up


def test_the_manifest_goes_before_it(tmp_path):
    """It may have been copied before it went down."""
    (tmp_path / "live").mkdir()
    kinds(tmp_path / "live", b1="live", b2="live", b3="live")
    answer = eligible_lost_its_tail(tmp_path / "live", mark=30)
    assert answer.found("CAP-SKEW", 3) and not answer.found("REP-LEADER-SHORTER"), answer
