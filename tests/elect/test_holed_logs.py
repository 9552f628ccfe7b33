"""A replica with a hole that no truncation finds is put aside before it follows a whole one, and fetches everything anew."""

from __future__ import annotations

import shutil
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.encoder import Record, encode_batch
from tests.support.scenario import audit, written
from tests.support.snapshots import Replica

from replica_audit.config import Settings
from replica_audit.elect.cost_matrix import Matrix
from replica_audit.elect.election_plan import plan_elections
from replica_audit.elect.plan_model import Plan
from replica_audit.model import TopicPartition
from replica_audit.report.plan_text import tell_decision
from replica_audit.runner.in_process import audit_all

WHOLE = written(0, 60, 1)
HOLED = [*WHOLE[:2], *WHOLE[4:]]


def _plan(
    path: Path,
    holed: Replica,
    *whole: Replica,
    up: Collection[int] | None = (),
    candidate_id: int | None = None,
    **options,
) -> Plan:
    """The plan of a cluster whose leader, broker 1, is `holed`."""
    brokers = {1: holed} | dict(enumerate(whole, 2))
    audit(path, brokers, isr=tuple(brokers), quiesced=True, **options)
    return plan_elections(audit_all(str(path), Settings(kafka_version="4.3.1")), up=up, candidate_id=candidate_id)


def _replica(batches: list[bytes], **options) -> Replica:
    return Replica(batches, high_watermark=60, **options)


def _actions(plan: Plan) -> list[tuple[str, tuple[int, ...]]]:
    return [(step.action, step.brokers) for step in plan.steps if step.action in ("put_aside", "start", "stop")]


def test_its_directory_is_moved_before_it_starts(tmp_path: Path) -> None:
    plan = _plan(tmp_path, _replica(HOLED), _replica(WHOLE))
    assert _actions(plan)[-3:] == [("start", (2,)), ("put_aside", (1,)), ("start", (1,))]
    (aside,) = [step for step in plan.steps if step.action == "put_aside"]
    assert aside.commands == ("mkdir -p put-aside-1", "mv -T -- LOG_DIR_OF_1/orders-0 put-aside-1/orders-0")
    # A segment that is not here may be on the broker's disk (CAP-MISSING-SEGMENT).
    assert "its copy here has a hole where broker 2 has 10 records" in aside.text
    assert any("room for it twice" in one for one in aside.before)
    start = plan.steps[aside.number]
    assert start.brokers == (1,) and any(
        "stays up until broker 1 is in sync with orders-0" in one for one in start.before
    )


def test_its_tail_is_named_and_kept(tmp_path: Path) -> None:
    """Five records past the whole log's end are what the choice loses, not the ten in the hole; they are moved, and not deleted."""
    plan = _plan(tmp_path, _replica([*HOLED, *written(60, 65, 1)]), _replica(WHOLE), candidate_id=2)
    ((chosen,),) = [[one for one in decision.candidates if one.candidate_id == 2] for decision in plan.decisions]
    assert chosen.lost_records == 5
    assert ("put_aside", (1,)) in _actions(plan)
    assert any("tar" in command for step in plan.steps if step.action == "copy" for command in step.commands)
    assert not [step for step in plan.steps if step.action == "start" and step.irreversible]


@pytest.mark.parametrize(
    ("holed", "whole", "options"),
    [
        (_replica(HOLED), _replica(WHOLE), {"configs": {"cleanup.policy": "compact"}}),
        (_replica([*HOLED, *written(60, 65, 1)]), _replica([*WHOLE[:8], *WHOLE[10:]]), {}),
        (_replica(WHOLE[4:]), _replica(WHOLE), {}),
        (_replica(WHOLE[:8]), _replica(WHOLE), {}),
    ],
    ids=["a cleaner", "each has what the other lacks", "retention", "behind"],
)
def test_no_other_log_is(tmp_path: Path, holed: Replica, whole: Replica, options: dict) -> None:
    audit(tmp_path, {1: holed, 2: whole}, isr=(1, 2), quiesced=True, **options)
    results = audit_all(str(tmp_path), Settings(kafka_version="4.3.1"), asked=[TopicPartition("orders", 0)])
    plan = plan_elections(results, up=(), candidate_id=2)
    assert [action for action, _ in _actions(plan)] == ["start", "start"], _actions(plan)


def test_a_leader_that_runs_is_rebuilt_once_it_follows(tmp_path: Path) -> None:
    """A directory is not moved from under a running broker: the remedy stops it first."""
    plan = _plan(tmp_path, _replica(HOLED), _replica(WHOLE), up=(1, 2))
    assert [(step.action, step.brokers) for step in plan.steps[-3:]] == [
        ("reorder", (2,)),
        ("verify", ()),
        ("mend", (1,)),
    ]
    assert plan.steps[-1].text.startswith("orders-0 on broker 1: ") and "stop the broker, move" in plan.steps[-1].text


def test_a_follower_that_has_to_be_rebuilt_is_not_nothing_to_do(tmp_path: Path) -> None:
    """No leader changes, but broker 1 would be in sync again as it is."""

    def said(batches: list[bytes]) -> str:
        path = tmp_path / str(len(batches))
        audit(path, {1: _replica(batches), 2: _replica(WHOLE)}, leader=2, isr=(2,), quiesced=True)
        asked = [TopicPartition("orders", 0)]
        results = audit_all(str(path), Settings(kafka_version="4.3.1"), asked=asked)
        (decision,) = plan_elections(results, asked=asked, up=(2,)).decisions
        return tell_decision(decision, None)

    assert said(HOLED).startswith("Keep broker 2 as leader. ")
    assert said(WHOLE[:8]).startswith("Nothing needs to be done. ")


def _followed(path: Path, follower: Replica, up: Collection[int] | None = (2,), **options) -> Plan:
    """The plan of a partition that broker 2 leads, and broker 1, which is down by default, follows."""
    audit(path, {1: follower, 2: _replica(WHOLE)}, leader=2, isr=(2,), quiesced=True, **options)
    asked = [TopicPartition("orders", 0)]
    return plan_elections(audit_all(str(path), Settings(kafka_version="4.3.1"), asked=asked), asked=asked, up=up)


def test_a_follower_that_is_down_is_started_without_its_directory(tmp_path: Path) -> None:
    """As it is it would be in sync again, and lead with its hole after a preferred election. Afterwards nothing is left to rebuild."""
    plan = _followed(tmp_path, _replica(HOLED))
    assert [(step.action, step.brokers) for step in plan.steps] == [("put_aside", (1,)), ("start", (1,))]
    assert any("Broker 2 stays up until broker 1" in one for one in plan.steps[1].before)


@pytest.mark.parametrize(("follower", "up"), [(_replica(HOLED), (1, 2)), (_replica(WHOLE[:8]), (2,))])
def test_one_that_runs_or_is_behind_is_not(tmp_path: Path, follower: Replica, up: Collection[int]) -> None:
    assert not {"put_aside", "start"} & {step.action for step in _followed(tmp_path, follower, up).steps}


@pytest.mark.parametrize("up", [(2,), ()])
def test_a_follower_that_would_keep_deleted_keys_is_started_without_its_directory(
    tmp_path: Path, up: Collection[int]
) -> None:
    """Their tombstones are gone."""

    def batch(start: int, *records: tuple[int, str]) -> bytes:
        rows = [Record(key.encode(), b"1", offset_delta=offset - start) for offset, key in records]
        return encode_batch(start, rows, 0, last_offset_delta=4)

    begun = [(0, "a"), (1, "b"), (2, "c"), (3, "d"), (4, "e")]
    cleaned = [batch(0, *begun[:1], *begun[2:]), batch(5, (5, "f"), (9, "g"))]
    brokers = {1: Replica([batch(0, *begun)]), 2: Replica(cleaned)}
    audit(tmp_path, brokers, leader=2, isr=(2,), quiesced=True, configs={"cleanup.policy": "compact"})
    results = audit_all(str(tmp_path), Settings(kafka_version="4.3.1"))
    plan = plan_elections(results, up=up)
    assert _actions(plan)[-2:] == [("put_aside", (1,)), ("start", (1,))]
    (aside,) = [step for step in plan.steps if step.action == "put_aside"]
    assert "it has 1 key that broker 2 has deleted, and the tombstone is gone too" in aside.text
    assert "Nothing needs to be done" not in tell_decision(plan.decisions[0], None)
    other = plan_elections(results, up=up, candidate_id=1).decisions[0]
    assert other.keeps_deleted == ()
    assert Matrix(results).instead(other, 2, "it leads").keeps_deleted == (1,)


FUTURE = f"orders-0.{'ab' * 16}-future"


def test_the_copy_that_its_broker_makes_on_another_disk_is_moved_too(tmp_path: Path) -> None:
    """It would take the place of the log that is fetched anew, and bring the hole back (4.3.1)."""
    _plan(tmp_path, _replica(HOLED), _replica(WHOLE))
    disk = tmp_path / "broker-1"
    shutil.copytree(disk / "orders-0", tmp_path / "broker-1-b" / FUTURE)
    (tmp_path / "broker-1-b" / "meta.properties").write_text(
        "version=1\nnode.id=1\ncluster.id=audit-cluster\ndirectory.id=AAAAAAAAAAAAAAAAAAAAAg\n"
    )
    plan = plan_elections(audit_all(str(tmp_path), Settings(kafka_version="4.3.1")), up=())
    (aside,) = [step for step in plan.steps if step.action == "put_aside"]
    assert aside.commands == (
        "mkdir -p put-aside-1",
        "mv -T -- LOG_DIR_OF_1/orders-0 put-aside-1/orders-0",
        f"mv -T -- LOG_DIR_OF_1/{FUTURE} put-aside-1/{FUTURE}",
    )
    assert f"with it {FUTURE}, which would replace what it fetches" in aside.text
    assert "LOG_DIR_OF_1 means here what the snapshot has as broker-1 and broker-1-b, in turn" in aside.text


@pytest.mark.parametrize("offline", [[], [1]])
def test_beside_a_disk_that_is_offline_nothing_is_fetched_anew(tmp_path: Path, offline: list[int]) -> None:
    """`LogManager.getOrCreateLog` refuses: it might be there."""
    _plan(tmp_path, _replica(HOLED), _replica(WHOLE))
    results = audit_all(str(tmp_path), Settings(kafka_version="4.3.1"))
    other = [row._replace(partition=1, offline=offline) for row in results.partition_states]
    plan = plan_elections(replace(results, partition_states=[*results.partition_states, *other]), up=())
    (aside,) = [step for step in plan.steps if step.action == "put_aside"]
    before = " ".join(plan.steps[aside.number].before)
    assert ("offline log directory of broker 1 is back" in before) is bool(offline)


def test_of_a_key_that_only_the_leader_has_nobody_is_told_to_rebuild_the_leader(tmp_path: Path) -> None:
    """The follower may have lost it, as where a cleaner went above the high watermark (KAFKA-13194); both logs may have had its tombstone."""

    def batch(start: int, *offsets: int) -> bytes:
        rows = [Record(b"key %d" % offset, b"1", offset_delta=offset - start) for offset in offsets]
        return encode_batch(start, rows, 0, last_offset_delta=4)

    after = batch(5, 5, 9)
    brokers = {
        1: Replica([batch(0, 0, 2, 3, 4), after]),
        2: Replica([batch(0, 0, 1, 2, 3, 4), after, batch(10, 10, 14)]),
    }
    audit(tmp_path, brokers, leader=2, isr=(2,), quiesced=True, configs={"cleanup.policy": "compact"})
    (step,) = plan_elections(audit_all(str(tmp_path), Settings()), up=(2,)).steps
    assert (step.action, step.brokers) == ("mend", (1,))
    assert "of a key that only one replica has, that one unless the key was deleted" in step.text, step.text


@pytest.mark.parametrize("leader", [None, 1, 2])
@pytest.mark.parametrize("lacked", [[1], []], ids=["a key", "nothing"])
def test_that_keys_which_a_compacted_log_lacks_are_not_counted_is_said(
    tmp_path: Path, leader: int | None, lacked: list[int]
) -> None:
    """Both logs end alike, and nothing says whether broker 1 lost the key or broker 2 kept it: "broker 1 loses nothing" was all."""

    def batches(*offsets: int) -> list[bytes]:
        return [encode_batch(offset, [Record(b"key %d" % offset, b"1")], 0) for offset in offsets]

    whole = range(10)
    brokers = {
        1: Replica(batches(*(one for one in whole if one not in lacked)), first_base_offset=0, cleaned_to=5),
        2: Replica(batches(*whole), cleaned_to=5),
    }
    answer = audit(tmp_path, brokers, leader=leader, quiesced=True, configs={"cleanup.policy": "compact"})
    reasons = [row["reason"] for row in answer.rows("elections") if row["choice"] == "best"]
    assert len(reasons) == (2 if lacked or leader is None else 0), answer
    assert all(("different latest values (DIV-KEY-STATE) are not counted" in one) is bool(lacked) for one in reasons)
