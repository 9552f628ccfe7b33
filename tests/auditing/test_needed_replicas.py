"""Which replicas that were not captured an answer depends on, and the nights on which it depends on none."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.auditing.made_cases import LINEAGE, case, leadership, log
from tests.support.fixtures import FIXTURES
from tests.support.less import without

from replica_audit.answering.verdict import build_verdict
from replica_audit.auditing.leadership.needed_replicas import needed_replicas
from replica_audit.config import Settings
from replica_audit.local.audit import audit_all
from replica_audit.model import Leadership, PartitionState
from replica_audit.reporting.answers.answer import build_answer

#: (leader, isr, elr) of each state, oldest first; the first has the epoch 0, and every new leader another one.
Course = tuple[tuple[int | None, tuple[int, ...], tuple[int, ...]], ...]


def _history(course: Course, begins: str = "created") -> tuple[PartitionState, ...]:
    states, epoch = [], 0
    for number, (leader, isr, elr) in enumerate(course):
        epoch += number > 0 and leader != course[number - 1][0]
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
                configs={},
            )  # fmt: skip
        )
    return tuple(states)


def _needed(course: Course, captured: set[int], begins: str = "created", **changes) -> dict[int, str]:
    history = _history(course, begins)
    last = history[-1]
    said = Leadership("orders", 0, "metadata_log", last.leader_id, last.leader_epoch, last.isr, last.elr,
                      replicas=(1, 2, 3), history=history, **changes)  # fmt: skip
    reference = case(log(min(captured), *LINEAGE), said=said, leader_id=last.leader_id).reference
    return needed_replicas(said, reference, captured)


ALL = (1, 2, 3)
BORN = (1, ALL, ())


@pytest.mark.parametrize(
    ("course", "captured"),
    [
        ((BORN, (1, (1, 2), ())), {1, 2}),
        ((BORN, (1, (1,), ())), {1}),
        ((BORN,), {1}),
        ((BORN, (2, (2, 3), ())), {2}),
        ((BORN, (1, (1,), ()), (None, (), ()), (2, (2,), ()), (2, (2, 3), ())), {1, 2, 3}),
        ((BORN, (1, (1,), ()), (None, (), ()), (2, (2,), ()), (2, (1, 2, 3), ()), (2, (2, 3), ())), {2, 3}),
    ],
    ids=[
        "left the ISR cleanly, and is down",
        "two left the ISR cleanly",
        "in the ISR of a leader that is here and live",
        "led before a clean election",
        "an unclean election, and all are here",
        "followed since the unclean election, and left cleanly",
    ],
)
def test_a_routine_night_needs_nobody(course: Course, captured: set[int]) -> None:
    assert _needed(course, captured) == {}


@pytest.mark.parametrize(
    ("course", "captured", "needed"),
    [
        ((BORN, (1, (1,), (2,))), {1, 3}, {2: "elr"}),
        ((BORN, (None, (), (2,))), {1, 3}, {2: "elr"}),
        ((BORN,), {2, 3}, {1: "isr"}),
        ((BORN, (None, (2,), ())), {1, 3}, {2: "isr"}),
        ((BORN, (1, (1,), ()), (None, (), ()), (2, (2,), ())), {2, 3}, {1: "led_before_unclean"}),
        ((BORN, (1, (1,), ()), (None, (), ()), (2, (2,), ())), {1, 2}, {3: "isr_before_unclean"}),
        ((BORN, (1, (1,), ()), (None, (), ()), (2, (2,), ()), (2, (2, 3), ())), {1, 2}, {3: "isr"}),
    ],
    ids=["eligible", "eligible, and nobody leads", "leads", "in the ISR, and nobody leads", "led before an unclean election",
         "in the ISR before an unclean election", "in the ISR of a leader that was elected uncleanly"],
)  # fmt: skip
def test_who_is_needed(course: Course, captured: set[int], needed: dict[int, str]) -> None:
    assert _needed(course, captured) == needed


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


@pytest.mark.parametrize(("capture", "gone"), [("lagging", (2,)), ("jbod-killed", (0,)), ("reassigned-1-moving", ())])
def test_a_broker_that_is_down_for_maintenance_changes_neither_verdict_nor_status(
    tmp_path: Path, capture: str, gone: tuple[int, ...]
) -> None:
    whole = audit_all(str(FIXTURES / capture), Settings())
    part = audit_all(str(without(FIXTURES / capture, tmp_path / "part", brokers=gone)), Settings())
    verdicts = {(row["topic"], row["partition"]): row["verdict"] for row in whole.rows("partitions")}
    for row in part.rows("partitions"):
        assert row["verdict"] in ("CONSISTENT", "LAGGING"), (row["topic"], row["partition"], verdicts)
    assert build_verdict(part, "high")["exit_status"] == build_verdict(whole, "high")["exit_status"] == 0
    assert all(row["needed"] is None for row in part.rows("captures"))
    headline = build_answer(part, build_verdict(part, "high")).headline
    assert "do not start" not in headline and (not gone or "All is well" not in headline)
