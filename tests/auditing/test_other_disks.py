"""The last leader's log is not the one that it led with: its disk was replaced by an empty one, or restored from a backup."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support import metadata_log as write
from tests.support.new_disks import BEHIND, add_disk
from tests.support.report_rows import tables_of
from tests.support.scenario import Answer, audit, written
from tests.support.snapshots import (
    TOPIC,
    TOPIC_ID,
    Listed,
    Replica,
    make_uuid,
    write_log_dir,
    write_manifest,
    write_snapshot,
)

from replica_audit.config import Settings
from replica_audit.elect.election_plan import plan_elections
from replica_audit.model import TopicPartition
from replica_audit.report.answer import build_answer
from replica_audit.report.facts.verdict import build_verdict
from replica_audit.runner.in_process import audit_all

EMPTY = Replica([], epochs=[])
STOPPED = Replica(written(0, 20, 0), clean_shutdown=True)

_BEGIN = (
    write.topic(TOPIC, TOPIC_ID),
    write.config(2, TOPIC, "min.insync.replicas", "1"),
    *(write.register_broker(one) for one in (1, 2, 3)),
    write.partition(TOPIC_ID, (1, 2, 3), 1),
)
#: Brokers 2 and 3 go, and what broker 1 then writes nobody else has.
_ALONE = [write.change(TOPIC_ID, isr=(1,)), write.registration_change(2, 1), write.registration_change(3, 1)]
_NOBODY = write.change(TOPIC_ID, isr=(), leader=-1, elr=(1,), last_known_elr=(1,))
#: Its broker registers again without having stopped in order, and drops out.
_BACK = [write.change(TOPIC_ID, elr=()), write.register_broker(1)]
_STOP = [write.registration_change(1, stopping=1), _NOBODY]
_ALONE_AND_GONE = {
    100: write.history(_BEGIN, _ALONE, write.change(TOPIC_ID, leader=-1), write.registration_change(1, 1))
}
_LED_AGAIN = write.change(TOPIC_ID, isr=(1,), leader=1, elr=())


def _audit(path: Path, replica: Replica, *later: bytes | list[bytes]) -> Answer:
    metadata = {100: write.history(_BEGIN, _ALONE, *later)}
    return audit(path, {1: replica, 2: BEHIND, 3: BEHIND}, metadata=metadata, in_order=True)


@pytest.mark.parametrize(
    ("replica", "later", "needed"),
    [
        (EMPTY, (_NOBODY, _BACK), "isr_before_crash"),
        (EMPTY, (write.change(TOPIC_ID, leader=-1), write.register_broker(1)), "isr"),
        (STOPPED, (_STOP, _LED_AGAIN, _STOP), "elr"),
    ],
    ids=["an empty disk", "an empty disk, without eligible replicas", "a backup of the disk that an earlier stop left"],
)
def test_what_it_led_with_is_asked_for(tmp_path: Path, replica: Replica, later, needed: str) -> None:
    answer = _audit(tmp_path, replica, *later)
    assert answer.verdict == "INCONCLUSIVE", answer
    assert answer.one("CAP-MISSING-REPLICA", 1)[0] == "medium"
    (told,) = answer.found("CAP-MISSING-REPLICA", 1)
    assert told["message"].startswith(f"broker 1 led last, in epoch {2 if later[-1] is _STOP else 0}, but its files do")
    (row,) = (one for one in answer.rows("captures") if one["broker_id"] == 1)
    assert (row["state"], row["missing"], row["needed"]) == ("partial", ["the log with which it led last"], needed)
    assert answer.mark["hw_upper"] is None and answer.tables["partitions"][0]["lost_records"] is None
    found = audit_all(str(tmp_path), Settings())
    plan = plan_elections(found)
    assert [one.procedure for one in plan.decisions] == ["unplanned"] and len(plan.conflicts) == 1
    text = " ".join(plan.steps[0].text.split())
    assert plan.steps[0].action == "capture" and "not the log with which it led last" in text, text
    said = build_answer(found, build_verdict(found, "high")).headline
    assert "Broker 1 was not captured whole and may hold more committed records" in said, said


@pytest.mark.parametrize(
    ("replica", "later"),
    [
        (STOPPED, (_STOP,)),
        (Replica(written(0, 20, 0), epochs=[(0, 0), (2, 20)], clean_shutdown=True), (_STOP, _LED_AGAIN, _STOP)),
        (Replica(written(0, 20, 0)), (_NOBODY, [_LED_AGAIN, write.registration_change(1, 0)], _NOBODY)),
        (Replica(written(0, 20, 0)), (_NOBODY, _BACK)),
    ],
    ids=[
        "stopped",
        "stopped again, and nothing written",
        "elected when it had died",
        "back, and nobody is elected yet",
    ],
)
def test_the_log_that_it_led_with_is_not(tmp_path: Path, replica: Replica, later) -> None:
    answer = _audit(tmp_path, replica, *later)
    assert answer.verdict == "LAGGING" and not answer.found("CAP-MISSING-REPLICA"), answer


def test_a_follower_on_an_empty_disk_is_behind(tmp_path: Path) -> None:
    """It led once; another leads now, and has it all."""
    elected = write.change(TOPIC_ID, isr=(2, 3), leader=2)
    metadata = {100: write.history(_BEGIN, elected)}
    whole = Replica(written(0, 20, 0), epochs=[(0, 0), (1, 20)])
    answer = audit(tmp_path, {1: EMPTY, 2: whole, 3: whole}, metadata=metadata, in_order=True)
    assert answer.verdict == "LAGGING" and not answer.found("CAP-MISSING-REPLICA"), answer


@pytest.mark.parametrize("new_has", [(), ("recovery-point-offset-checkpoint",)], ids=["a new disk", "an old one"])
def test_a_broker_is_not_started_on_an_empty_disk_for_the_log_of_the_old_one(tmp_path: Path, new_has) -> None:
    """Both disks of broker 1 were captured, and only the old one has the log that it is started for."""
    write_snapshot(tmp_path, {1: Replica(written(0, 20, 0)), 2: BEHIND, 3: BEHIND}, metadata=_ALONE_AND_GONE)
    new = add_disk(tmp_path, new_has)
    plan = plan_elections(audit_all(str(tmp_path), Settings()))
    (start,) = (step for step in plan.steps if step.action == "start" and step.brokers == (1,))
    told = f"with the log directory that the snapshot has as broker-1, or with a copy of it, in its place: with {new} instead"
    assert any(told in one for one in start.before) is not bool(new_has), start.before


@pytest.mark.parametrize("new_has", [(), ("recovery-point-offset-checkpoint",)], ids=["a new disk", "an old one"])
@pytest.mark.parametrize(
    ("changes", "up", "first"),
    [
        ((_ALONE, write.change(TOPIC_ID, leader=-1)), (1,), "elect"),
        ((_ALONE, write.change(TOPIC_ID, leader=-1)), (1, 2, 3), "stop"),
        ((write.change(TOPIC_ID, isr=(1, 2), leader=2),), (1, 2, 3), "reorder"),
        ((write.change(TOPIC_ID, isr=(2, 3), leader=-1), write.registration_change(1, 0)), (1,), "elect"),
        ((), None, "check"),
    ],
    ids=["alone", "beside others", "in sync", "out of sync", "leads perhaps"],
)
def test_a_broker_that_runs_may_run_on_the_empty_disk(tmp_path: Path, changes, up, first: str, new_has) -> None:
    write_snapshot(
        tmp_path,
        {1: Replica(written(0, 20, 0)), 2: BEHIND, 3: BEHIND},
        [Listed(1, (1, 2, 3), (1,))] if up is None else (),
        metadata=None if up is None else {100: write.history(_BEGIN, *changes)},
    )
    new = add_disk(tmp_path, new_has)
    at = TopicPartition(TOPIC, 0)
    plan = plan_elections(audit_all(str(tmp_path), Settings(), asked=[at]), asked=[at], candidate_id=1, up=up)
    step = next(one for one in plan.steps if one.action != "copy")
    told = f"as broker-1, or with a copy of it, in its place: with {new} instead, empty as in the snapshot"
    assert step.action == first and any(told in one for one in step.before) is not bool(new_has), plan.steps
    assert sum(told in one for one in [text for step in plan.steps for text in step.before]) == (0 if new_has else 1)


@pytest.mark.parametrize(
    ("kinds", "is_left"),
    [
        (("stopped", "live"), True),
        (("killed", "live"), True),
        ((None, "live"), True),
        (("live", "live"), False),
        (("live", None), False),
        (("stopped", "stopped"), False),
    ],
)
def test_a_leader_that_ran_with_an_empty_disk_has_not_the_log_of_its_old_one(
    tmp_path: Path, kinds: tuple[str | None, str | None], is_left: bool
) -> None:
    """With both it runs with a further disk, and nothing is wrong."""
    dirs = [("broker-1", 1, kinds[0]), ("broker-1-new", 1, kinds[1]), ("broker-2", 2, "live"), ("broker-3", 3, "live")]
    write_snapshot(
        tmp_path,
        {1: Replica(written(0, 20, 0)), 2: BEHIND, 3: BEHIND},
        metadata={100: write.history(_BEGIN, _ALONE)},
    )
    add_disk(tmp_path)
    said = [{"broker_id": broker, "log_dir": name, "kind": kind} for name, broker, kind in dirs]
    write_manifest(tmp_path, brokers=said)
    found = audit_all(str(tmp_path), Settings())
    answer = Answer(tables_of(found))
    assert answer.verdict == ("INCONCLUSIVE" if is_left else "LAGGING"), answer
    assert bool(answer.found("CAP-MISSING-REPLICA", 1)) == is_left == bool(answer.found("META-DUP-DIR", 1)), answer
    if is_left:
        assert "ran with an empty log directory" in answer.messages("META-DUP-DIR")[0]
        assert (
            "ran with an empty log directory (broker-1/orders-0 is on its other disk)"
            in answer.messages("CAP-MISSING-REPLICA")[0]
        )
        copy, stop = (step for step in plan_elections(found).steps if step.action in ("copy", "capture"))
        assert copy.snapshot == ("broker-1/orders-0",)
        assert stop.text.startswith("Stop broker 1 if it runs: when it was copied it ran with broker-1-new"), stop


@pytest.mark.parametrize("is_named", [True, False])
def test_a_broker_with_a_log_dir_offline_and_a_further_empty_one_has_not_left_it(
    tmp_path: Path, is_named: bool
) -> None:
    """It does not begin a log anew while a log dir is offline (`LogManager.getOrCreateLog`)."""
    main, failed, new = (make_uuid(name) for name in ("main", "failed", "new"))
    begin = [
        write.topic(TOPIC, TOPIC_ID),
        write.register_broker(1, log_dirs=(main, failed, new)),
        *(write.register_broker(one, log_dirs=(make_uuid(str(one)),)) for one in (2, 3)),
        write.partition(
            TOPIC_ID, (1, 2, 3), 1, directories=(failed if is_named else main, make_uuid("2"), make_uuid("3"))
        ),
    ]
    fails = [write.registration_change(1, log_dirs=(main, new)), write.change(TOPIC_ID, leader=-1)]
    metadata = {100: write.history(begin, write.change(TOPIC_ID, isr=(1,)), *fails)}
    write_snapshot(tmp_path, {2: BEHIND, 3: BEHIND}, metadata=metadata)
    write_log_dir(tmp_path / "broker-1", 1, [Replica(written(0, 20, 0))], directory_id=failed)
    add_disk(tmp_path)
    _say_kinds(tmp_path, {"broker-1": None, "broker-1-new": "live"})
    found = audit_all(str(tmp_path), Settings())
    answer = Answer(tables_of(found))
    assert answer.verdict == ("LAGGING" if is_named else "INCONCLUSIVE"), answer
    assert bool(answer.found("META-DUP-DIR", 1)) is not is_named, answer
    if is_named:
        (start,) = (step for step in plan_elections(found).steps if step.action == "start" and step.brokers == (1,))
        assert any("with orders-0, which is offline, is back in its place" in one for one in start.before), start


@pytest.mark.parametrize("leader", [None, 1])
def test_a_broker_that_is_not_elected_though_it_alone_is_in_sync_has_not_left_its_log_dir(
    tmp_path: Path, leader: int | None
) -> None:
    """Where no source names directories: if its log dir were not offline, it would lead, with an empty log."""
    write_snapshot(tmp_path, {1: Replica(written(0, 20, 0)), 2: BEHIND, 3: BEHIND}, [Listed(leader, (1, 2, 3), (1,))])
    add_disk(tmp_path)
    _say_kinds(tmp_path, {"broker-1": None, "broker-1-new": "live"})
    found = audit_all(str(tmp_path), Settings())
    answer = Answer(tables_of(found))
    assert answer.verdict == ("LAGGING" if leader is None else "INCONCLUSIVE"), answer
    assert bool(answer.found("META-DUP-DIR", 1)) is (leader is not None), answer
    steps = plan_elections(found).steps
    if leader is None:
        (start,) = (step for step in steps if step.action == "start" and step.brokers == (1,))
        assert any("as broker-1, or with a copy of it, in its place" in one for one in start.before), start
        # A broker that is up takes no log dir back.
        (stop,) = (step for step in steps if step.action == "stop" and 1 in step.brokers)
        assert stop.number < start.number and start.text == "Start broker 1 and no other", start
        known = plan_elections(found, up=[1])
        restart = [step for step in known.steps if step.brokers == (1,) and step.action in ("stop", "start")]
        assert [step.text for step in restart] == ["Stop broker 1 with SIGTERM", "Start broker 1 and no other"]
        told = "which is offline if the broker was up and did not lead, is back in its place"
        assert any(told in one for one in restart[1].before), restart
        assert any("the source that names no leader is out of date" in one for one in restart[0].before), restart
    else:
        (stop,) = (step for step in steps if step.action == "capture")
        assert "If it still has none, as when broker-1 is offline, remove broker-1-new from the snapshot" in stop.text


def test_the_only_copy_of_a_partition_is_not_what_its_broker_has_if_that_left_it(tmp_path: Path) -> None:
    begin = [*_BEGIN[:-1], write.partition(TOPIC_ID, (1,), 1)]
    write_snapshot(tmp_path, {1: Replica(written(0, 20, 0))}, metadata={100: write.history(begin)})
    add_disk(tmp_path)
    _say_kinds(tmp_path, {"broker-1": "stopped", "broker-1-new": "live"})
    found = audit_all(str(tmp_path), Settings())
    answer = Answer(tables_of(found))
    assert answer.verdict == "INCONCLUSIVE", answer
    (told,) = answer.messages("CAP-MISSING-REPLICA")
    assert "ran with an empty log directory (broker-1/orders-0 is on its other disk)" in told
    (row,) = (one for one in answer.rows("captures") if one["broker_id"] == 1)
    assert (row["state"], row["missing"], row["needed"]) == ("partial", ["the log that it uses"], "leads"), row
    assert answer.mark["hw_upper"] is None and answer.tables["partitions"][0]["lost_records"] is None
    (stop,) = (step for step in plan_elections(found).steps if step.action == "capture")
    assert stop.text.startswith("Stop broker 1 if it runs"), stop


@pytest.mark.parametrize("is_live", [True, False])
@pytest.mark.parametrize("has_new", [True, False])
def test_a_leader_that_came_back_after_its_copy_may_run_with_the_empty_disk(
    tmp_path: Path, has_new: bool, is_live: bool
) -> None:
    """A leader knows the epoch that it leads in. Where it ran with both disks, the empty one is a further one."""
    again = [write.change(TOPIC_ID, leader=-1), write.register_broker(1), write.change(TOPIC_ID, leader=1)]
    write_snapshot(
        tmp_path,
        {1: Replica(written(0, 20, 0)), 2: BEHIND, 3: BEHIND},
        metadata={100: write.history(_BEGIN, _ALONE, again)},
    )
    if has_new:
        add_disk(tmp_path)
    if is_live:
        _say_kinds(tmp_path, {"broker-1": "live", "broker-1-new": "live"} if has_new else {"broker-1": "live"})
    found = audit_all(str(tmp_path), Settings())
    answer = Answer(tables_of(found))
    is_in_doubt = has_new and not is_live
    assert answer.verdict == ("INCONCLUSIVE" if is_in_doubt else "LAGGING"), answer
    (told,) = answer.messages("CAP-SKEW")
    assert ("or it runs with broker-1-new, which is empty, instead of that disk" in told) is is_in_doubt, told
    plan = plan_elections(found)
    assert not plan.decisions and bool(plan.conflicts) is is_in_doubt, plan
    first = plan.steps[0]
    if is_in_doubt:
        (conflict,) = plan.conflicts
        question = "nothing shows whether broker 1 still runs with the disk that was copied, or with broker-1-new, which is empty"
        assert conflict.reason.startswith(question) and question in first.text, (conflict, first)
        assert (
            "start, stop and elect no broker of orders-0" in first.text
            and "stop the broker first all the same" in first.text
        ), first
        said = build_answer(found, build_verdict(found, "high")).headline
        assert "loses nothing" not in said, said


def _say_kinds(path: Path, kinds: Mapping[str, str | None]) -> None:
    """A manifest that says so of log dirs of broker 1."""
    said = [{"broker_id": 1, "log_dir": name, "kind": kind} for name, kind in kinds.items()]
    write_manifest(path, brokers=said)


@pytest.mark.parametrize("has_new", [True, False])
def test_nor_is_a_controller(tmp_path: Path, has_new: bool) -> None:
    write_snapshot(tmp_path, {1: Replica(written(0, 20, 0)), 2: BEHIND, 3: BEHIND}, metadata=_ALONE_AND_GONE)
    if has_new:
        add_disk(tmp_path, broker=100)
    plan = plan_elections(audit_all(str(tmp_path), Settings()), up=())
    (start,) = (step for step in plan.steps if step.action == "start" and step.controllers == (100,))
    told = "Controller 100 starts with the log directory that has its metadata log: with broker-100-new instead"
    assert any(told in one for one in start.before) is has_new, plan.steps


def test_what_an_empty_disk_had_is_looked_for_elsewhere(tmp_path: Path) -> None:
    write_snapshot(tmp_path, {2: BEHIND, 3: BEHIND}, metadata=_ALONE_AND_GONE)
    new = add_disk(tmp_path)
    plan = plan_elections(audit_all(str(tmp_path), Settings()))
    assert [one.procedure for one in plan.decisions] == ["unplanned"]
    assert (
        plan.steps[0].action == "capture"
        and f"{new} is empty. What it had of orders-0 is on another disk" in plan.steps[0].text
    )
    assert "or for a later backup: LOG_DIR_OF_1 means that one here, wherever it is mounted" in plan.steps[0].text


@pytest.mark.parametrize("new_has", [(), ("recovery-point-offset-checkpoint",)], ids=["a new disk", "an old one"])
@pytest.mark.parametrize("leader", [1, 2])
def test_what_an_old_disk_holds_is_copied_from_that_one(tmp_path: Path, leader: int, new_has) -> None:
    metadata, elected = _ALONE_AND_GONE, BEHIND
    if leader == 2:
        metadata = {100: write.history(_BEGIN, _ALONE, write.change(TOPIC_ID, isr=(2,), leader=2))}
        elected = replace(BEHIND, epochs=((0, 0), (1, 10)))
    write_snapshot(tmp_path, {1: Replica(written(0, 20, 0)), 2: elected, 3: BEHIND}, metadata=metadata)
    new = add_disk(tmp_path, new_has)
    plan = plan_elections(audit_all(str(tmp_path), Settings()))
    copied = [one for one in plan.steps if any(" LOG_DIR_OF_1 " in command for command in one.commands)]
    told = f". LOG_DIR_OF_1 means here what the snapshot has as broker-1, wherever it is mounted, not {new}, which is empty"
    assert copied and all((told in one.text) is not bool(new_has) for one in copied), copied
    assert not any("LOG_DIR_OF_" in one.text for one in plan.steps if one not in copied)


def test_nor_on_a_disk_with_less(tmp_path: Path) -> None:
    """The metadata log is of before the broker began an empty log on the new one."""
    new, old = make_uuid("new"), make_uuid("old")
    begin = (*_BEGIN[:-1], write.partition(TOPIC_ID, (1, 2, 3), 1, directories=(old, new, new)))
    fenced = write.registration_change(1, 1)
    metadata = {100: write.history(begin, _ALONE, write.change(TOPIC_ID, leader=-1), fenced)}
    write_snapshot(tmp_path, {2: BEHIND, 3: BEHIND}, metadata=metadata)
    write_log_dir(tmp_path / "broker-1" / "a", 1, [Replica(written(0, 20, 0))], directory_id=old)
    write_log_dir(tmp_path / "broker-1" / "b", 1, [EMPTY], directory_id=new)
    plan = plan_elections(audit_all(str(tmp_path), Settings()))
    (start,) = (step for step in plan.steps if step.action == "start" and step.brokers == (1,))
    told = "has as broker-1/a, or with a copy of it, in its place: with broker-1/b instead, it leads with less"
    assert any(told in one for one in start.before), start.before
    copied = [one for one in plan.steps if any(" LOG_DIR_OF_1 " in command for command in one.commands)]
    named = ". LOG_DIR_OF_1 means here what the snapshot has as broker-1/a, wherever it is mounted, not broker-1/b, which has another log"
    assert copied and all(one.text.endswith(named) for one in copied), copied


@pytest.mark.parametrize("captured", [True, False])
def test_a_directory_that_the_captured_disks_lack_may_be_gone_with_its_topic(tmp_path: Path, captured: bool) -> None:
    """The metadata log is older than the topic's deletion: the command passes, as those of a capture script do."""
    pay = make_uuid("pay")
    begin = (
        write.topic(TOPIC, TOPIC_ID),
        write.topic("pay", pay),
        *map(write.register_broker, (1, 2)),
        write.partition(TOPIC_ID, (1, 2), 1),
        write.partition(pay, (1, 2), 1),
    )
    other = Replica(written(0, 20, 0), topic="pay", topic_id=pay)
    write_snapshot(tmp_path / "s", {1: other, 2: other} if captured else {}, metadata={100: write.history(begin)})
    plan = plan_elections(audit_all(str(tmp_path / "s"), Settings(), asked=[TopicPartition(TOPIC, 0)]))
    (step,) = (one for one in plan.steps if one.action == "capture" and (TOPIC, 0) in one.partitions)
    told = "their log directories here do not have orders-0. Others may, with committed records, unless the topic was deleted since"
    assert (told in step.text) is captured, step.text
    for broker in (1, 2):
        (tmp_path / f"LOG_DIR_OF_{broker}").mkdir()
    ran = [subprocess.run(["bash", "-ec", one], cwd=tmp_path).returncode for one in step.commands]
    assert ran == ([0, 0] if captured else [2, 2])
    assert all((tmp_path / f"broker-{broker}.tgz").exists() for broker in (1, 2))


OLD, NEW, OTHER = (make_uuid(name) for name in ("old disk", "new disk", "disk of broker 2"))
_ALONE_HAS = [write.register_broker(1, log_dirs=(OLD,)), write.topic(TOPIC, TOPIC_ID)]
_BOTH_HAVE = [*_ALONE_HAS, write.register_broker(2, log_dirs=(OTHER,))]
_ONE = write.partition(TOPIC_ID, (1,), 1, directories=(OLD,))
_TWO = write.partition(TOPIC_ID, (1, 2), 1, directories=(OLD, OTHER))
_GOES = [write.registration_change(1, 1), write.change(TOPIC_ID, leader=-1)]
_NEW_DISK = [write.register_broker(1, log_dirs=(NEW,)), write.change(TOPIC_ID, directories=(NEW,))]
_NEW_OF_TWO = [write.register_broker(1, log_dirs=(NEW,)), write.change(TOPIC_ID, directories=(NEW, OTHER))]
_LEADS = write.change(TOPIC_ID, leader=1, isr=(1,))
_LED_BY_2 = write.change(TOPIC_ID, leader=2, isr=(2,))
_BEGUN = Replica([], topic_id=TOPIC_ID, epochs=[(2, 0)])
_LED_TWICE = Replica(written(0, 20, 0), topic_id=TOPIC_ID, epochs=[(0, 0), (2, 20)])
_OF_2 = Replica(written(0, 10, 0), topic_id=TOPIC_ID, epochs=[(0, 0), (1, 10)])
_BY_1, _BY_2 = (write.change(TOPIC_ID, leader=one) for one in (1, 2))
_FOLLOWS_ANEW = [write.change(TOPIC_ID, isr=(2,)), *_NEW_OF_TWO, write.change(TOPIC_ID, isr=(1, 2))]
_FOLLOWED = Replica(written(0, 10, 0), topic_id=TOPIC_ID, epochs=[(0, 0), (2, 10)])


@pytest.mark.parametrize(
    ("begin", "later", "replica", "is_left"),
    [
        ([*_ALONE_HAS, _ONE], (_GOES, _NEW_DISK, _LEADS), _BEGUN, True),
        ([*_ALONE_HAS, _ONE], (_GOES, _NEW_DISK), EMPTY, True),
        ([*_ALONE_HAS, _ONE], (_NEW_DISK,), EMPTY, True),
        ([*_ALONE_HAS, _ONE], (_GOES, _NEW_DISK, _LEADS), _LED_TWICE, False),
        (
            [*_ALONE_HAS, _ONE],
            (write.registration_change(1, log_dirs=(OLD, NEW)), write.change(TOPIC_ID, directories=(NEW,)), _GOES, _LEADS),
            _BEGUN,
            False,
        ),
        ([*_BOTH_HAVE, _TWO], (_LED_BY_2, _NEW_OF_TWO, write.change(TOPIC_ID, isr=(1, 2))), _OF_2, False),
        (
            [*_BOTH_HAVE, _TWO],
            (write.change(TOPIC_ID, isr=(1,)), _LED_BY_2, _NEW_OF_TWO, write.change(TOPIC_ID, isr=(1, 2))),
            _OF_2,
            True,
        ),
        (
            [*_BOTH_HAVE, _TWO],
            (write.change(TOPIC_ID, isr=(1,)), _LED_BY_2, write.change(TOPIC_ID, isr=(1, 2)), _NEW_OF_TWO),
            _OF_2,
            False,
        ),
        ([*_ALONE_HAS, _ONE], (_GOES, _NEW_DISK), replace(_LED_TWICE, epochs=[(0, 0)]), False),
        ([*_ALONE_HAS, _ONE], (_NEW_DISK,), replace(_BEGUN, epochs=[(0, 0)]), True),
        ([*_BOTH_HAVE, _TWO], (_BY_2, _FOLLOWS_ANEW, _BY_1), _FOLLOWED, False),
        ([*_BOTH_HAVE, _TWO], (_BY_2, _NEW_OF_TWO, _BY_1), _FOLLOWED, True),
    ],
    ids=[
        "it leads again",
        "nobody leads",
        "it was never fenced",
        "a copy of its log",
        "a move between its disks",
        "another one had all",
        "another one led uncleanly",
        "it had followed before",
        "a copy of its log that nobody led",
        "it led on, and wrote the same epoch",
        "it followed, without a record of the last epoch, until it was elected",
        "it was elected without having followed",
    ],
)  # fmt: skip
def test_the_log_on_the_former_disk_of_a_broker_is_asked_for_where_the_leader_may_lack_it(
    tmp_path: Path, begin, later, replica: Replica, is_left: bool
) -> None:
    """X, 4.3.1 and 3.9.1: on a new disk the only replica led with an empty log, and 40 acknowledged records were on the old one."""
    write_log_dir(tmp_path / "broker-1", 1, [replica], directory_id=NEW)
    if _TWO in begin:
        write_log_dir(tmp_path / "broker-2", 2, [_OF_2], directory_id=OTHER)
    write_snapshot(tmp_path, {}, metadata={100: write.history(begin, *later)})
    found = audit_all(str(tmp_path), Settings())
    answer = Answer(tables_of(found))
    assert bool(answer.found("CAP-MISSING-REPLICA", 1)) is is_left, answer
    assert (answer.verdict == "INCONCLUSIVE") is is_left, answer
    (row,) = (one for one in answer.rows("captures") if one["broker_id"] == 1)
    assert (row["needed"] == "former_disk") is is_left, row
    steps = [step for step in plan_elections(found).steps if step.action == "capture"]
    assert any("Look for that disk" in step.text for step in steps) is is_left, steps


@pytest.mark.parametrize("has_followed", [True, False])
def test_a_former_disk_is_asked_for_where_nobody_kept_what_an_unclean_leader_on_the_new_one_lacked(
    tmp_path: Path, has_followed: bool
) -> None:
    """The last one in sync has all of it, until it follows the empty log."""
    uncleanly = [write.change(TOPIC_ID, leader=-1), write.change(TOPIC_ID, leader=1, isr=(1,), recovering=True)]
    since = [write.change(TOPIC_ID, isr=(1, 2))] if has_followed else [write.registration_change(2, 1)]
    begun = Replica(written(0, 10, 3), topic_id=TOPIC_ID, epochs=[(3, 0)])
    write_log_dir(tmp_path / "broker-1", 1, [begun], directory_id=NEW)
    write_log_dir(tmp_path / "broker-2", 2, [begun if has_followed else _OF_2], directory_id=OTHER)
    metadata = {100: write.history([*_BOTH_HAVE, _TWO], _LED_BY_2, _NEW_OF_TWO, *uncleanly, *since)}
    write_snapshot(tmp_path, {}, metadata=metadata)
    answer = Answer(tables_of(audit_all(str(tmp_path), Settings())))
    assert bool(answer.found("CAP-MISSING-REPLICA", 1)) is has_followed, answer


def test_a_former_disk_that_is_here_has_what_the_new_log_lacks(tmp_path: Path) -> None:
    former = Replica(written(0, 20, 0), topic_id=TOPIC_ID, high_watermark=20)
    write_log_dir(tmp_path / "broker-1", 1, [_BEGUN], directory_id=NEW)
    write_log_dir(tmp_path / "broker-1-old", 1, [former], directory_id=OLD)
    metadata = {100: write.history([*_ALONE_HAS, _ONE], _GOES, _NEW_DISK, _LEADS)}
    write_snapshot(tmp_path, {}, metadata=metadata)
    found = audit_all(str(tmp_path), Settings())
    answer = Answer(tables_of(found))
    assert not answer.found("CAP-MISSING-REPLICA") and answer.tables["partitions"][0]["lost_records"] == 20, answer
    (step,) = [step for step in plan_elections(found).steps if step.action == "copy"]
    assert step.snapshot == ("broker-1-old/orders-0",)


@pytest.mark.parametrize("is_sound", [True, False])
def test_of_several_former_disks_each_is_asked_for_that_has_what_the_leader_may_lack(
    tmp_path: Path, is_sound: bool
) -> None:
    newer = make_uuid("newer disk")
    begin, first = ([*_BOTH_HAVE, _TWO], [_BY_2, *_FOLLOWS_ANEW, _BY_1, write.change(TOPIC_ID, isr=(1,))])
    others = (OTHER,)
    if not is_sound:
        begin, first, others = ([*_ALONE_HAS, _ONE], [*_GOES, *_NEW_DISK, _LEADS], ())
    again = [write.register_broker(1, log_dirs=(newer,)), write.change(TOPIC_ID, directories=(newer, *others))]
    write_log_dir(tmp_path / "broker-1", 1, [replace(_BEGUN, epochs=[(4, 0)])], directory_id=newer)
    configured = write.config(2, TOPIC, "retention.ms", "1000")
    write_snapshot(tmp_path, {}, metadata={100: write.history(begin, first, _GOES, again, _LEADS, configured)})
    answer = Answer(tables_of(audit_all(str(tmp_path), Settings())))
    (row,) = answer.found("CAP-MISSING-REPLICA", 1)
    asked = [NEW] if is_sound else [OLD, NEW]
    assert [one["value"] for one in row["evidence"] if one["kind"] == "leadership"] == asked, row
    assert f"with directory.id {' and '.join(asked)}, {'was' if is_sound else 'were'} gone" in row["message"], row
    begun = [row["occasion"] for row in answer.rows("partition_states") if row["begun_anew"]]
    assert begun == ["changed", "changed"]
