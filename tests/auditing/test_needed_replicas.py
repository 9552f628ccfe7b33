"""Which replicas that were not captured an answer depends on, and the nights on which it depends on none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.support.captures import audit_whole
from tests.support.fixtures import FIXTURES
from tests.support.histories import history
from tests.support.less import without
from tests.support.made_cases import LINEAGE, case, compared, leadership, log, segment
from tests.support.scenes import UNCLEAN_TO_2, scene
from tests.support.scenes import log as equal
from tests.support.snapshots import TOPIC

from replica_audit.auditing.leadership.needed_replicas import needed_replicas
from replica_audit.config import Settings
from replica_audit.elect.election_plan import plan_elections
from replica_audit.model import Leadership, PartitionState, TopicPartition
from replica_audit.report.answer import build_answer
from replica_audit.report.facts.verdict import build_verdict
from replica_audit.report.plan_text import tell_decisions
from replica_audit.runner.in_process import audit_all

#: (leader, isr, elr) of each state, oldest first; the first has the epoch 0, and every new leader another one. `STOPPED` for a
#: leader: nobody leads, since the last one was stopped in order.
Course = tuple[tuple[int | str | None, tuple[int, ...], tuple[int, ...]], ...]
STOPPED = "stopped"


def _history(course: Course, begins: str = "created") -> tuple[PartitionState, ...]:
    states, epoch = [], 0
    for number, (said, isr, elr) in enumerate(course):
        leader = None if said == STOPPED else said
        epoch += number > 0 and said != course[number - 1][0]
        states.append(
            PartitionState(
                time_ms=number,
                metadata_offset=10 * number,
                occasion=begins if not number else "changed",
                leader_id=leader,
                leader_epoch=epoch,
                partition_epoch=number,
                isr=isr,
                elr=elr,
                last_known_elr=(),
                replicas=(1, 2, 3),
                removing=(),
                adding=(),
                directories=(),
                recovering=False,
                leader_stopped=said == STOPPED,
                configs={},
            )  # fmt: skip
        )
    return tuple(states)


def _needed(
    course: Course, captured: set[int], begins: str = "created", logs: dict[int, dict] | None = None, **changes
) -> dict[int, str]:
    """`logs`: what is said of the logs of some of those captured, as `made_cases.log` takes it."""
    history = _history(course, begins)
    last = history[-1]
    said = Leadership("orders", 0, "metadata_log", last.leader_id, last.leader_epoch, last.isr, last.elr,
                      replicas=(1, 2, 3), history=history, **changes)  # fmt: skip
    replicas = [log(broker_id, *LINEAGE, **(logs or {}).get(broker_id, {})) for broker_id in sorted(captured)]
    first = next((one for one in replicas if one.broker_id == last.leader_id), replicas[0])
    reference = case(first, said=said, leader_id=last.leader_id).reference
    return needed_replicas(said, reference, captured, replicas=replicas)


ALL = (1, 2, 3)
BORN = (1, ALL, ())
#: The others left cleanly; then the sole in-sync replica was down.
ALONE, CRASHED, STOPPED_ALONE = (1, (1,), ()), (None, (1,), ()), (STOPPED, (1,), ())
#: With eligible leader replicas: it is down; it has registered again without having stopped in order, and is not up yet.
ELIGIBLE, DROPPED = (None, (), (1,)), (None, (), ())


@pytest.mark.parametrize(
    ("course", "captured"),
    [
        ((BORN, (1, (1, 2), ())), {1, 2}),
        ((BORN, (1, (1,), ())), {1}),
        ((BORN,), {1}),
        ((BORN, (2, (2, 3), ())), {2}),
        ((BORN, (1, (1,), ()), (None, (), ()), (2, (2,), ()), (2, (2, 3), ())), {1, 2, 3}),
        ((BORN, (1, (1,), ()), (None, (), ()), (2, (2,), ()), (2, (1, 2, 3), ()), (2, (2, 3), ())), {2, 3}),
        ((BORN, ALONE, STOPPED_ALONE, ALONE), {1}),
        ((BORN, ALONE, CRASHED, ALONE), {1, 2, 3}),
        ((BORN, ALONE, CRASHED, ALONE, (1, ALL, ()), (1, (1, 2), ())), {1, 2}),
        ((BORN, (1, (1, 3), ()), (3, (3,), ()), (3, (1, 3), ()), (1, (1, 3), ())), {1, 3}),
    ],
    ids=[
        "left the ISR cleanly, and is down",
        "two left the ISR cleanly",
        "in the ISR of a leader that is here and live",
        "led before a clean election",
        "an unclean election, and all are here",
        "followed since the unclean election, and left cleanly",
        "the sole in-sync replica was stopped in order and came back",
        "it came back from a crash, and all are here",
        "followed since it came back from a crash, and left cleanly",
        "leaders crashed, and others in sync took over",
    ],
)
def test_a_routine_night_needs_nobody(course: Course, captured: set[int]) -> None:
    assert _needed(course, captured) == {}


@pytest.mark.parametrize(
    ("course", "captured", "needed"),
    [
        ((BORN, (1, (1,), (2,))), {1, 3}, {2: "elr"}),
        ((BORN, (None, (), (2,))), {1, 3}, {2: "elr"}),
        ((BORN, (2, (2,), ())), {1}, {2: "leads"}),
        ((BORN,), {2, 3}, {1: "leads"}),
        ((BORN, (None, (2,), ())), {1, 3}, {2: "isr"}),
        ((BORN, (1, (1,), ()), (None, (), ()), (2, (2,), ())), {2, 3}, {1: "led_before_unclean"}),
        ((BORN, (1, (1,), ()), (None, (), ()), (2, (2,), ())), {1, 2}, {3: "isr_before_unclean"}),
        ((BORN, (1, (1,), ()), (None, (), ()), (2, (2,), ()), (2, (2, 3), ())), {1, 2}, {3: "isr"}),
    ],
    ids=["eligible", "eligible, and nobody leads", "leads alone", "leads", "in the ISR, and nobody leads", "led before an unclean election",
         "in the ISR before an unclean election", "in the ISR of a leader that was elected uncleanly"],
)  # fmt: skip
def test_who_is_needed(course: Course, captured: set[int], needed: dict[int, str]) -> None:
    assert _needed(course, captured) == needed


@pytest.mark.parametrize(
    ("course", "captured", "needed"),
    [
        ((BORN, ALONE, CRASHED, ALONE), {1}, {2, 3}),
        ((BORN, (1, (1, 2), ()), ALONE, CRASHED, ALONE), {1, 2}, {3}),
        ((BORN, ALONE, CRASHED, ALONE, (1, (1, 2), ())), {1, 2}, {3}),
        ((BORN, ALONE, CRASHED, ALONE, (1, ALL, ()), ALONE, CRASHED, ALONE), {1, 2}, {3}),
        ((BORN, ALONE, STOPPED_ALONE, ALONE, CRASHED, ALONE), {1}, {2, 3}),
        ((BORN, ALONE, CRASHED, ALONE, STOPPED_ALONE, ALONE), {1}, {2, 3}),
        ((BORN, (2, (2, 3), ()), (3, (3,), ()), (None, (3,), ()), (3, (3,), ())), {3}, {1, 2}),
        ((BORN, ALONE, ELIGIBLE, DROPPED), {2, 3}, {1}),
        ((BORN, ALONE, ELIGIBLE, DROPPED), {1, 3}, {2}),
    ],
    ids=["alone", "one that left before is here", "one has followed since", "all had followed before it crashed again",
         "stopped in order once, and crashed later", "stopped in order after it had crashed", "it had led for a moment only",
         "it came back from a crash, and nobody leads", "the same, and it is here"],
)  # fmt: skip
def test_a_sole_in_sync_replica_that_crashed_may_lack_what_those_before_it_hold(
    course: Course, captured: set[int], needed: set[int]
) -> None:
    assert _needed(course, captured) == dict.fromkeys(needed, "isr_before_crash")


KILLED, CLEAN = {"fenced": (1, 2, 3)}, {"clean_shutdown": True}


@pytest.mark.parametrize(
    ("course", "logs", "changes", "needed"),
    [
        ((BORN, ALONE, CRASHED), {1: {"clean_shutdown": False}}, KILLED, True),
        ((BORN, ALONE, CRASHED), {1: CLEAN}, KILLED, False),
        ((BORN, ALONE), {1: {"killed": True}}, {}, True),
        ((BORN, ALONE), {1: {"high_watermark_checkpoint": 50}}, {}, True),
        ((BORN, ALONE), {1: {"recovery_point_checkpoint": 50}}, {}, True),
        ((BORN, ALONE), {1: {"recovery_point_checkpoint": 40}}, {}, False),
        ((BORN, ALONE), {1: {"tail_kind": "partial"}}, {}, False),
        ((BORN, (1, (1, 2), ())), {1: {"killed": True}}, {}, False),
        ((BORN, (1, (1, 2), ())), {1: {"killed": True}, 2: {"killed": True}}, {}, True),
    ],
    ids=["it lost power", "it was stopped", "killed by the manifest", "it ends below its checkpoint",
         "it ends below its recovery point", "it ends at its recovery point", "the copy of a live log is torn",
         "another one in sync is whole", "all in sync were killed"],
)  # fmt: skip
def test_nobody_here_may_have_what_a_replica_has_that_left_cleanly(
    course: Course, logs: dict, changes: dict, needed: bool
) -> None:
    captured = {1, 2} if len(course[-1][1]) > 1 else {1}
    absent = {1, 2, 3} - captured
    assert _needed(course, captured, logs=logs, **changes) == (
        dict.fromkeys(absent, "isr_before_crash") if needed else {}
    )


@pytest.mark.parametrize(("killed", "needed"), [((1, 2), True), ((1,), False), ((2,), False)])
def test_so_may_nobody_where_the_last_leader_and_who_is_eligible_crashed(killed: tuple[int, ...], needed: bool) -> None:
    course = (BORN, (1, (1, 2), ()), (1, (1,), (2,)), (None, (), (2,)))
    found = _needed(course, {1, 2}, logs={one: {"killed": True} for one in killed}, fenced=())
    assert found == ({3: "isr_before_crash"} if needed else {})


@pytest.mark.parametrize("log_of_leader", [{"killed": True}, {"high_watermark_checkpoint": 50}])
def test_a_member_is_needed_beside_a_leader_that_lacks_its_end(log_of_leader: dict) -> None:
    assert _needed((BORN, (1, (1, 2), ())), {1}, logs={1: log_of_leader}) == {2: "isr", 3: "isr_before_crash"}


def test_a_history_that_begins_with_a_snapshot_does_not_say_how_a_replica_left() -> None:
    assert _needed(((1, (1, 2), ()),), {1, 2}, "snapshot") == {3: "no_history"}
    assert _needed(((1, ALL, ()), (1, (1, 2), ())), {1, 2}, "snapshot") == {}


def test_a_leader_that_is_down_is_not_live() -> None:
    assert _needed((BORN,), {1}, fenced=(1,)) == {2: "isr", 3: "isr"}


def test_without_a_history_nothing_is_clean() -> None:
    reference = case(log(1, *LINEAGE)).reference
    listed = leadership(isr=(1, 2), replicas=(1, 2, 3))
    assert needed_replicas(listed, reference, {1}) == {2: "isr", 3: "no_history"}
    assert needed_replicas(listed, reference, {1, 2, 3}) == {}
    assert needed_replicas(None, reference, {1}) == {}
    assert needed_replicas(None, reference, {1}, {2}) == {2: "no_history"}
    assert needed_replicas(None, None, (), {2}) == {}
    killed = case(log(1, *LINEAGE, killed=True))
    assert needed_replicas(listed, killed.reference, {1, 2}, (), killed.replicas) == {3: "no_history"}
    known = leadership(isr=(1, 2), replicas=(1, 2, 3), history=history({"isr": (1, 2)}))
    assert needed_replicas(known, None, ()) == {1: "leads", 2: "isr"}


@pytest.mark.parametrize(("capture", "gone"), [("lagging", (2,)), ("jbod-killed", (0,)), ("reassigned-1-moving", ())])
def test_a_broker_that_is_down_for_maintenance_changes_neither_verdict_nor_status(
    tmp_path: Path, capture: str, gone: tuple[int, ...]
) -> None:
    whole = audit_whole(FIXTURES / capture)
    part = audit_all(str(without(FIXTURES / capture, tmp_path / "part", brokers=gone)), Settings())
    verdicts = {(row["topic"], row["partition"]): row["verdict"] for row in whole.rows("partitions")}
    for row in part.rows("partitions"):
        assert row["verdict"] in ("CONSISTENT", "LAGGING"), (row["topic"], row["partition"], verdicts)
    assert build_verdict(part, "high")["exit_status"] == build_verdict(whole, "high")["exit_status"] == 0
    assert all(row["needed"] is None for row in part.rows("captures"))
    headline = build_answer(part, build_verdict(part, "high")).headline
    assert "do not start" not in headline and (not gone or "All is well" not in headline)


@pytest.mark.parametrize("captured", [(2, 3), (1, 2, 3)], ids=["without it", "with it"])
def test_a_choice_that_was_asked_for_loses_nothing_only_of_what_is_here(
    tmp_path: Path, captured: tuple[int, ...]
) -> None:
    logs = {1: equal(50, 50), 2: equal(58, 52, ((0, 0), (1, 50))), 3: equal(50, 50)}
    scene(tmp_path, {one: logs[one] for one in captured}, *UNCLEAN_TO_2)
    plan = plan_elections(audit_all(str(tmp_path), Settings(), asked=[TopicPartition(TOPIC, 0)]), candidate_id=2)
    (told,) = tell_decisions(plan)
    is_whole = 1 in captured
    assert told.sentence.startswith("Nothing needs to be done" if is_whole else "Keep broker 2 as leader"), told
    assert ("Broker 2 loses nothing that the copies here have;" in told.sentence) == (not is_whole), told


#: The evidence lacks what follows.
OPEN = (segment(0, 40, (0, 0), unproven=("rest",)),)
_HELD: dict[str, Any] = {"isr": (1, 2), "replicas": (1, 2, 3)}
_ALONE: dict[str, Any] = {"isr": (1,), "replicas": (1, 2, 3)}
_TO_2: dict[str, Any] = {"leader_id": 2, "isr": (2,), "recovering": True}


@pytest.mark.parametrize(
    ("said", "changes", "copied", "need"),
    [
        # Nothing says how broker 3 left; or it did not leave; or it is said to have led, or to be eligible.
        (_HELD, None, {}, "no_history"),
        (_HELD | {"isr": None}, None, {}, "no_history"),
        (_HELD | {"isr": (1, 2, 3)}, None, {}, "isr"),
        (_HELD | {"leader_id": 3, "isr": (1, 2, 3)}, None, {}, "leads"),
        (_HELD | {"elr": (3,)}, None, {}, "elr"),
        # The leader was up, and every election was clean.
        (_HELD | {"isr": (1, 2, 3)}, [], {}, None),
        (_HELD | {"isr": (1, 2, 3)}, [], {"killed": True}, "isr"),
        (_HELD | {"isr": (1, 2, 3), "fenced": (1,)}, [], {}, "isr"),
        (_HELD | {"isr": (1, 2, 3), "fenced": (1,)}, [], {"clean_shutdown": True}, "isr"),
        (_HELD | {"isr": (1, 2, 3)}, [], {"predates": True}, "isr"),
        (_HELD | {"isr": (1, 2, 3)}, [], {"segments": OPEN}, "isr"),
        (_HELD | {"isr": (1, 2, 3)}, [], {"is_left": True}, "isr"),
        (_HELD | {"isr": (2, 3), "leader_id": 2}, [{"leader_id": 2, "isr": (2, 3)}], {}, "isr"),
        (_HELD, [{"isr": (1, 2)}], {}, None),
        (_HELD, [{"isr": (1, 2)}], {"outdated": leadership()}, "no_history"),
        # It was in sync, or led, before an election that left it out, and has not followed since.
        (_HELD | {"leader_id": 2, "isr": (2,)}, [{"isr": (1, 3)}, _TO_2], {}, "isr_before_unclean"),
        (_HELD | {"leader_id": 2, "isr": (2,)}, [{"leader_id": 3, "isr": (3,)}, _TO_2], {}, "led_before_unclean"),
        (
            _HELD | {"leader_id": 2, "isr": (2,)},
            [{"isr": (1,), "elr": (3,)}, _TO_2 | {"elr": ()}],
            {},
            "isr_before_unclean",
        ),
        (_HELD | {"leader_id": 2, "isr": (2,)}, [{"isr": (1, 3)}, _TO_2, {"isr": (2, 3)}, {"isr": (2,)}], {}, None),
        # The last one in sync crashed.
        (_ALONE, [{"isr": (1,)}], {}, None),
        (_ALONE, [{"isr": (1,)}], {"killed": True}, "isr_before_crash"),
        (_ALONE, [{"isr": (1,)}], {"recovery_point_checkpoint": 50}, "isr_before_crash"),
        (_ALONE, [{"isr": (1,)}], {"recovery_point_checkpoint": 50, "segments": OPEN}, None),
        (_ALONE | {"leader_id": None}, [{"isr": (1,)}, {"leader_id": None}], {"killed": True}, "isr_before_crash"),
        (
            _ALONE | {"leader_id": None, "isr": ()},
            [{"isr": (1,)}, {"leader_id": None, "isr": ()}],
            {},
            "isr_before_crash",
        ),
        (
            _ALONE | {"leader_id": None, "isr": (), "elr": (1,), "fenced": (2, 3)},
            [{"isr": (1,)}, {"leader_id": None, "isr": (), "elr": (1,)}],
            {},
            None,
        ),
        (
            _ALONE | {"leader_id": None, "isr": (), "elr": (1,)},
            [{"isr": (1,)}, {"leader_id": None, "isr": (), "elr": (1,)}],
            {"killed": True},
            "isr_before_crash",
        ),
        (
            _ALONE | {"leader_id": None, "isr": ()},
            [{"isr": (1,)}, {"leader_id": None, "isr": (), "occasion": "deleted"}],
            {},
            None,
        ),
        # Others in sync have not.
        (_HELD, [{"isr": (1, 2)}], {"killed": True}, None),
        (
            _HELD | {"leader_id": 2, "isr": (2,)},
            [{"occasion": "snapshot", "isr": (1,), "elr": (3,)}, _TO_2 | {"elr": ()}],
            {},
            "isr_before_unclean",
        ),
        (_HELD | {"leader_id": 2, "isr": (2,)}, [{"occasion": "snapshot", "isr": (1,)}, _TO_2], {}, "no_history"),
        # It is no longer assigned.
        (_HELD | {"replicas": (1, 2), "leader_id": 2, "isr": (2,)}, [{"isr": (1, 3)}, _TO_2], {}, "isr_before_unclean"),
        # It never was in sync, or the history begins after it was.
        (_HELD, [{"isr": (1, 2), "occasion": "snapshot"}], {}, "no_history"),
    ],
)
def test_why_an_answer_depends_on_a_replica_that_is_not_here(
    said: dict[str, Any], changes: list[dict[str, Any]] | None, copied: dict[str, Any], need: str | None
) -> None:
    """Broker 3 is not here; broker 1, the reference, was `copied` so, and broker 2 as it ran."""
    states = () if changes is None else history(*map(dict, changes))
    states = states[1:] if states and changes and changes[0].get("occasion") else states
    known = leadership(source="metadata_log", history=states, **said)
    of_reference = {name: value for name, value in copied.items() if name in ("predates", "outdated")}
    of_copy = {name: value for name, value in copied.items() if name not in of_reference}
    one, two = (
        log(1, (0, 0), end=40, **{"clean_shutdown": False, **of_copy}),
        log(2, (0, 0), end=40, clean_shutdown=False),
    )
    made = case(one, compared(two), said=known, leader_id=known.leader_id, isr=known.isr, **of_reference)
    found = needed_replicas(known, made.reference, {1, 2}, (), made.replicas)
    assert found == ({} if need is None else {3: need})


def test_without_an_assignment_a_replica_is_needed_that_something_names() -> None:
    only = case(log(1, (0, 0))).reference
    assert needed_replicas(None, None, (), {3}) == {}
    assert needed_replicas(None, only, {1}, {1, 3}) == {3: "no_history"}
    unknown = leadership(replicas=None, isr=(1, 2))
    assert needed_replicas(unknown, None, {1, 2}, {3}) == {3: "no_history"}
    assert needed_replicas(unknown, only, {1}, {3}) == dict.fromkeys(sorted({*unknown.named, 3} - {1}), "no_history")
