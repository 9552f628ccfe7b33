"""What a choice loses where nothing shows how far the log of a broker that was killed had come."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import pytest
from tests.support import metadata_log as write
from tests.support.new_disks import BEHIND
from tests.support.scenario import written
from tests.support.snapshots import TOPIC, TOPIC_ID, Replica, write_manifest, write_snapshot

from replica_audit.config import Settings
from replica_audit.elect.election_plan import plan_elections
from replica_audit.model import TopicPartition
from replica_audit.runner.in_process import audit_all

_HELD = "broker 1 loses nothing that the copies here have"
_WHOLE = Replica(written(0, 20, 0), high_watermark=20)


def _reason(
    path: Path,
    one: Replica = _WHOLE,
    two: Replica = BEHIND,
    isr: Collection[int] = (1,),
    fenced: Collection[int] = (1, 2, 3),
    up: Collection[int] | None = None,
    quiesced: bool = False,
) -> str:
    """Why broker 1 is chosen, which led with `isr` until the controller had `fenced`; `up` as it is given to the command."""
    begin = (
        write.topic(TOPIC, TOPIC_ID),
        *(write.register_broker(one) for one in (1, 2, 3)),
        write.partition(TOPIC_ID, (1, 2, 3), 1),
    )
    gone = [write.change(TOPIC_ID, isr=isr)] if len(isr) < 3 else []
    gone += [write.change(TOPIC_ID, leader=-1)] if 1 in fenced else []
    gone += [write.registration_change(one, 1) for one in fenced]
    write_snapshot(path, {1: one, 2: two, 3: BEHIND}, metadata={100: write.history(begin, gone)})
    if quiesced:
        write_manifest(path, quiesced=quiesced)
    answer = audit_all(str(path), Settings(), asked=[TopicPartition(TOPIC, 0)], up=up)
    (decision,) = plan_elections(answer, asked=[TopicPartition(TOPIC, 0)], up=up).decisions
    assert decision.candidate_id == 1, decision
    return decision.reason


@pytest.mark.parametrize("mark", [None, 10, 20])
def test_of_a_broker_that_was_killed_alone_in_sync_not_all_is_known(tmp_path: Path, mark: int | None) -> None:
    """4.3.1: five acknowledged records past its checkpoint were gone without a trace; the plan said that it loses nothing."""
    assert _HELD in _reason(tmp_path, Replica(written(0, 20, 0), high_watermark=mark))


def test_what_a_clean_stop_leaves_is_all(tmp_path: Path) -> None:
    reason = _reason(tmp_path, Replica(written(0, 20, 0), clean_shutdown=True))
    assert "broker 1 loses nothing;" in reason, reason


def test_one_that_runs_has_lost_nothing(tmp_path: Path) -> None:
    reason = _reason(tmp_path, fenced=(2, 3))
    assert "broker 1 loses nothing;" in reason, reason
    assert _HELD in _reason(tmp_path / "down", fenced=(2, 3), up=())


def test_one_that_ends_below_its_own_checkpoint_lost_what_is_between(tmp_path: Path) -> None:
    """4.3.1: its controllers lost power with it, so that nobody fenced it."""
    short = Replica(written(0, 20, 0), high_watermark=22)
    assert _HELD in _reason(tmp_path, short, fenced=(2, 3), quiesced=True)


def test_another_that_was_in_sync_and_stopped_in_order_had_all_that_was_acknowledged(tmp_path: Path) -> None:
    stopped = Replica(written(0, 20, 0), clean_shutdown=True)
    reason = _reason(tmp_path, two=stopped, isr=(1, 2))
    assert "broker 1 loses nothing;" in reason, reason


def test_a_broker_that_nobody_saw_run_after_the_metadata_log_ended(tmp_path: Path) -> None:
    """Where all nodes lost power nobody was left to fence it."""
    _reason(tmp_path, fenced=(2, 3))
    late = {"started": "2026-01-01T00:00:00Z", "finished": "2026-01-01T00:01:00Z", "kind": None}
    brokers = [{"broker_id": one, "log_dir": f"broker-{one}", **late} for one in (1, 2, 3)]
    write_manifest(tmp_path, brokers=brokers)
    answer = audit_all(str(tmp_path), Settings())
    (reason,) = {row["reason"] for row in answer.rows("elections")} - {None}
    assert _HELD in reason, reason
    (partition,) = answer.rows("partitions")
    assert (partition["hw_lower"], partition["hw_upper"]) == (20, None)
