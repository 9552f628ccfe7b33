"""`verify --plan`: what a plan of `elect` predicted beside what happened, on the copies that real brokers left and by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.support import metadata_log as write
from tests.support.fixtures import FIXTURES
from tests.support.scenario import audit, written
from tests.support.snapshots import TOPIC, TOPIC_ID, Replica, write_snapshot

from replica_audit.config import Settings
from replica_audit.elect.election_plan import plan_elections
from replica_audit.elect.plan_model import Conflict, Plan, Prediction, Step
from replica_audit.errors import UsageError
from replica_audit.report.verify_text import render_verification
from replica_audit.runner.in_process import audit_all
from replica_audit.schema import GoneRecordsRow, NotVerifiedRow, VerificationRow
from replica_audit.verify.verification import Verification, outcomes_of, verify_snapshots, with_plan
from replica_audit.verify.verified_partition import PartitionVerification

_CUT_TO_20 = Prediction(
    "t", 0, broker_id=1, leader_id=2, leader_epoch=5, truncate_to=20, dropped_records=5, log_end_offset=30
)
_LEADS = Prediction(
    "t", 0, broker_id=2, leader_id=2, leader_epoch=5, truncate_to=None, dropped_records=0, log_end_offset=30
)
PLAN = Plan(
    steps=(
        Step(action="stop", text="", leaders=(("t", 0, None),)),
        Step(action="elect", text="", leaders=(("t", 0, 2),), after=(_LEADS, _CUT_TO_20)),
    )
)


def _row(broker: int, **more: Any) -> VerificationRow:
    return VerificationRow("t", 0, broker, 2, 30, 30, 30, 30, 0, 0, 0, "correct")._replace(**more)


CUT = {"end_before": 25, "kept_to": 20, "expected": 20, "verdict": "lost_committed", "lost_committed": 5}


def _found(
    *rows: VerificationRow, leader: int | None = 2, epoch: int = 6, gone: tuple = (), **known: Any
) -> Verification:
    of_partition = PartitionVerification(leader=(leader, epoch), **known)
    return Verification({"partitions": 1}, rows, gone, (), {("t", 0): of_partition})


def _verified(*rows: VerificationRow, **known: Any) -> Verification:
    return with_plan(_found(*rows, **known), PLAN)


@pytest.mark.parametrize(
    ("conflicts", "moment", "status"),
    [
        ((Conflict("t", 1, "no log of it can be read"),), "earlier", 0),
        ((), "earlier", 3),
        ((Conflict("t", 1, "no log of it can be read"),), "later", 3),
    ],
)
def test_what_had_no_log_before_is_not_open_where_the_plan_said_so(
    conflicts: tuple[Conflict, ...], moment: str, status: int
) -> None:
    left = NotVerifiedRow("t", 1, f"no replica of it could be read in the {moment} snapshot", expected=False)
    found = replace(_found(_row(2), _row(1, **CUT)), not_verified=(left,))
    assert with_plan(found, replace(PLAN, conflicts=conflicts)).exit_status == status


def test_the_end_that_a_plan_predicts() -> None:
    outcome = outcomes_of(PLAN)["t", 0]
    assert (outcome.leader_id, outcome.leader_epoch, outcome.replicas) == (2, 5, {2: (None, 30), 1: (20, 30)})


def test_a_loss_that_the_plan_predicted_is_what_it_was_asked_for() -> None:
    gone = (GoneRecordsRow("t", 0, 20, 25, 5, 5, "proven", [1], [], None, None),)
    found = _verified(_row(1, **CUT), _row(2), gone=gone)
    assert [row.predicted for row in found.verifications] == [20, 30]
    assert (found.surprises, found.exit_status) == ([], 0)


def test_a_loss_that_the_plan_predicted_is_so_where_the_log_begins_later_now() -> None:
    """A tiered follower that begins at its leader's local start: nothing of its log is left to be cut."""
    gone = (GoneRecordsRow("t", 0, 20, 25, 5, 5, "proven", [1], [], None, None),)
    row = _row(1, end_before=25, kept_to=28, expected=28)
    assert _verified(row, _row(2), gone=gone).lost == []
    assert _verified(row._replace(kept_to=24, expected=24), _row(2), gone=gone).lost == list(gone)


@pytest.mark.parametrize("more", [CUT, {"end_before": 25, "kept_to": 28, "expected": 28}])
def test_nobody_asked_for_the_loss_of_what_lies_below_the_predicted_cut(more: dict[str, Any]) -> None:
    gone = tuple(GoneRecordsRow("t", 0, start, start + 5, 5, 5, "proven", [1], [], None, None) for start in (5, 20))
    found = _verified(_row(1, **more), _row(2), gone=gone)
    assert (found.lost, found.exit_status) == ([gone[0]], 1)


@pytest.mark.parametrize(
    ("change", "leader", "epoch", "what"),
    [
        ({}, None, 6, (None, "leader", "2", None)),
        ({}, 2, 4, (None, "leader epoch", "5 or more", "4")),
        ({"kept_to": 15}, 2, 6, (1, "kept to", "20", "15")),
        ({"end_after": 25}, 2, 6, (1, "log end", "30", "25")),
        (
            {"kept_to": None, "end_after": None},
            2,
            6,
            (1, "replica", "its log ends at 30", "its log is not in both snapshots"),
        ),
    ],
)
def test_what_came_otherwise_is_told_and_is_1(change: dict, leader: int | None, epoch: int, what: tuple) -> None:
    found = _verified(_row(1, **{**CUT, **change}), _row(2), leader=leader, epoch=epoch)
    assert [(one.broker_id, one.what, one.predicted, one.found) for one in found.surprises] == [what]
    assert found.exit_status == 1


def test_a_preferred_leader_that_took_over_cleanly_since_is_no_surprise() -> None:
    """As the controller has it within five minutes by default, once that replica is in sync again."""
    assert _verified(_row(1, **CUT), _row(2), leader=1).exit_status == 0
    found = _verified(_row(1, **CUT), _row(2, kept_to=25, expected=25, verdict="lost_committed"), leader=1)
    assert [(one.broker_id, one.what) for one in found.surprises] == [(None, "leader"), (2, "kept to")]


def test_a_reassignment_that_goes_on_has_not_moved_its_leader_yet() -> None:
    """Replication of what it adds may be throttled: the plan predicts the leader of its end."""
    rows = [_row(1), _row(2)]
    plan = Plan(steps=(Step(action="start", text="", leaders=(("t", 0, 3),), after=(replace(_LEADS, leader_id=3),)),))
    assert with_plan(_found(*rows, leader=1, is_moving=True), plan).surprises == []
    assert [one.what for one in with_plan(_found(*rows, leader=1), plan).surprises] == ["leader"]


def test_a_replica_that_a_reassignment_adds_may_have_fetched_only_a_part() -> None:
    """A throttle of 1,500 bytes a second: 12 of 100 records after a minute (4.3.1)."""
    row = _row(1, **CUT)._replace(end_after=25)
    assert _verified(row, _row(2), is_moving=True, adding=frozenset({1})).surprises == []
    assert [one.what for one in _verified(row, _row(2), is_moving=True).surprises] == ["log end"]
    cut = row._replace(kept_to=15)
    assert [one.what for one in _verified(cut, _row(2), adding=frozenset({1})).surprises] == ["kept to"]


@pytest.mark.parametrize(("isr", "told"), [((2,), []), ((1, 2), ["log end"])])
def test_a_replica_that_a_reassignment_has_brought_in_sync_has_to_have_all(
    tmp_path: Path, isr: tuple[int, ...], told: list[str]
) -> None:
    """What it lacks it has lost since: it was in sync with a leader that had it."""
    begin = (write.topic(TOPIC, TOPIC_ID), *map(write.register_broker, (1, 2)), write.partition(TOPIC_ID, (2,), 2))
    for name, end, members in (("before", 20, (2,)), ("after", 25, isr)):
        logs = {1: Replica(written(0, end, 0)), 2: Replica(written(0, 30, 0))}
        moving = write.change(TOPIC_ID, replicas=(1, 2), adding=(1,), isr=members)
        write_snapshot(tmp_path / name, logs, metadata={100: write.history(begin, moving)})
    leads, fetches = (replace(one, topic=TOPIC, leader_epoch=0, truncate_to=None) for one in (_LEADS, _CUT_TO_20))
    plan = Plan(steps=(Step(action="elect", text="", leaders=((TOPIC, 0, 2),), after=(leads, fetches)),))
    found = verify_snapshots(str(tmp_path / "before"), str(tmp_path / "after"), Settings(), plan=plan)
    assert [one.what for one in found.surprises] == told


def test_a_replica_of_which_nothing_is_said_is_no_surprise() -> None:
    assert _verified(_row(2), awaited=frozenset({1})).surprises == []
    (other,) = _verified(_row(2)).surprises
    assert (other.broker_id, other.what) == (1, "replica")


@pytest.mark.parametrize("floor", [24, 45])
def test_a_log_start_that_passed_the_cut_is_no_surprise(floor: int) -> None:
    """Retention since, or a tiered follower that ended below its leader's local start and began there."""
    row = _row(1, **{**CUT, "kept_to": floor, "expected": floor, "verdict": "correct", "lost_committed": 0})
    assert [one.what for one in _verified(row, _row(2)).surprises] == ["kept to"]
    assert _verified(row, _row(2), floors={1: floor}).surprises == []
    (other,) = _verified(row, _row(2), floors={1: floor - 1}).surprises
    assert (other.what, other.found) == ("kept to", str(floor))


def test_a_real_log_that_retention_passed_is_no_surprise() -> None:
    before, after = (str(FIXTURES / name) for name in ("retention-passed-1-down", "retention-passed-2-back"))
    kept_all = Prediction(
        "passed", 0, 2, leader_id=0, leader_epoch=0, truncate_to=37, dropped_records=0, log_end_offset=71
    )
    plan = Plan(steps=(Step(action="start", text="", leaders=(("passed", 0, 0),), after=(kept_all,)),))
    found = verify_snapshots(before, after, Settings(topics=("passed",)), plan=plan)
    assert [(row.predicted, row.kept_to) for row in found.verifications if row.predicted is not None] == [(37, 71)]
    assert (found.surprises, found.exit_status) == ([], 0)


def test_records_written_since_are_no_surprise() -> None:
    assert (
        _verified(_row(1, **CUT, end_after=40) if "end_after" not in CUT else _row(1), _row(2, end_after=40)).surprises
        == []
    )


def test_a_loss_that_the_plan_did_not_predict_is_1() -> None:
    assert _verified(_row(1, **{**CUT, "kept_to": 18, "expected": 18}), _row(2)).exit_status == 1
    assert _verified(_row(1, **CUT), _row(2), _row(3, verdict="not_yet", kept_to=30)).exit_status == 1


def test_the_plan_of_another_cluster_is_a_mistake() -> None:
    path = str(FIXTURES / "diverged-unclean")
    with pytest.raises(UsageError, match="the plan is of cluster X and .*diverged-unclean of cluster 2RmL7"):
        verify_snapshots(path, path, Settings(), plan=replace(PLAN, cluster_id="X"))


WHOLE, TAIL = written(0, 60, 1), written(60, 65, 1)
HOLED = [*WHOLE[:2], *WHOLE[4:]]


def _of_holed_leader(path: Path, now: list[bytes]) -> Verification:
    """Before: broker 1, alone in the ISR, lacks 10 to 19, which broker 2 has. Its plan was carried out; `now` is the log of broker 1."""
    batches = {"before": (HOLED + TAIL, WHOLE), "after": (now, WHOLE + TAIL)}
    for (moment, logs), isr in zip(batches.items(), ((1,), (1, 2)), strict=True):
        mark = {1: 65, 2: 60 if moment == "before" else 65}
        replicas = {one: Replica(log, high_watermark=mark[one]) for one, log in enumerate(logs, 1)}
        audit(path / moment, replicas, isr=isr, quiesced=True)
    settings = Settings(kafka_version="4.3.1")
    plan = plan_elections(audit_all(str(path / "before"), settings), up=())
    assert [one.candidate_id for one in plan.decisions] == [1]
    assert {"restore", "verify"} <= {one.action for one in plan.steps}
    return verify_snapshots(str(path / "before"), str(path / "after"), settings, plan=plan)


def test_what_a_follower_keeps_in_a_hole_of_its_leader_by_plan_does_not_stop_the_plan_and_is_told(
    tmp_path: Path,
) -> None:
    found = _of_holed_leader(tmp_path, HOLED + TAIL)
    (row,) = [one for one in found.verifications if one.verdict != "correct"]
    assert (row.broker_id, row.verdict) == (2, "under_truncated")
    assert row.reason == "it holds offsets 10 to 19, which broker 1 does not have, and it has followed broker 1 since"
    assert (found.failed, found.exit_status) == ([], 0)
    said = render_verification(found)
    assert "OK: 2 replicas of 1 partition, 1 cut too little; as the plan predicted" in said and "exactly" not in said
    # Without the plan nobody asked for it.
    assert replace(found, verifications=[one._replace(predicted=None) for one in found.verifications]).exit_status == 1


def test_what_the_leader_lost_since_is_no_part_of_the_plan(tmp_path: Path) -> None:
    found = _of_holed_leader(tmp_path, [*HOLED[:4], *HOLED[6:], *TAIL])
    (row,) = [one for one in found.verifications if one.broker_id == 2]
    assert row.verdict == "under_truncated" and row.reason.startswith(
        "it holds offsets 10 to 19 and offsets 30 to 39, "
    )
    assert found.exit_status == 1
    # Nor where the plan says nothing of the broker that leads, so that nothing is a surprise.
    rows = [one._replace(predicted=None) if one.broker_id == 1 else one for one in found.verifications]
    of_follower = replace(found, verifications=rows, surprises=[], gone_records=())
    assert row in of_follower.failed
