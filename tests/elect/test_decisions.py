"""The candidate of each partition: the best or the one asked for, among equals the one that disturbs fewest, and who cannot be decided."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from tests.elect.clusters import Part, results_of
from tests.support.report_rows import change_rows, finding, objects

from replica_audit.elect.cluster_state import present_state
from replica_audit.elect.cost_matrix import Matrix
from replica_audit.elect.decisions import decide, held_back
from replica_audit.elect.plan_model import Conflict, Decision
from replica_audit.errors import UsageError
from replica_audit.model import TopicPartition
from replica_audit.results import Results

PLACE = TopicPartition("orders", 0)
EVERYONE = (1, 2, 3)


def decided(
    found: Results,
    up: Sequence[int] = EVERYONE,
    asked: Sequence[TopicPartition] = (),
    candidate: int | None = None,
) -> tuple[dict[str, Decision], dict[str, str]]:
    """By topic the decisions, and why there is none."""
    decisions, conflicts = decide(Matrix(found), present_state(found, up), asked, candidate, None)
    return {one.topic: one for one in decisions}, {one.topic: one.reason for one in conflicts}


def of_parts(*parts: Part) -> Results:
    return results_of(parts, None, "metadata_log")


#: Nobody leads it, and it does not matter which of brokers 1 and 2 does; broker 2 leads two others.
FREE = Part("orders", EVERYONE, None, (1, 2), 1, equals=(2,))
BY_2 = [Part(name, EVERYONE, 2, (1, 2), 2) for name in ("x", "y")]
CHOSEN = "it was asked for"


@pytest.mark.parametrize(
    ("parts", "chosen"),
    [
        ([FREE], 1),
        ([FREE, *BY_2], 2),
        ([FREE, *(replace(one, leader=None) for one in BY_2)], 2),
        ([replace(FREE, equals=()), *BY_2], 1),
        # Who leads stays.
        ([replace(FREE, leader=1), *BY_2], 1),
        # Nobody in sync is replaced by one that is not; one that is not is by any.
        ([replace(FREE, isr=(1,)), *BY_2], 1),
        ([replace(FREE, isr=(3,)), *BY_2], 2),
        # Of a partition whose assignment is unknown nobody is stopped.
        ([FREE, *(replace(one, isr=None) for one in BY_2)], 1),
        # A broker that was chosen leads, too.
        ([Part("a", EVERYONE, None, (1, 2), 1, equals=(2,)), replace(FREE, choice=2, equals=(1,))], 1),
    ],
)
def test_of_equals_one_that_leads_more_is_chosen(parts: list[Part], chosen: int) -> None:
    decision = decided(of_parts(*parts))[0]["orders"]
    own = next(one.choice for one in parts if one.topic == "orders")
    why = CHOSEN if chosen == own else f"Broker {chosen} leads other partitions of this plan too"
    assert (decision.candidate_id, decision.reason.rpartition(". ")[2]) == (chosen, why)


def test_whom_somebody_asked_for_is_not_replaced_by_an_equal() -> None:
    decisions, _ = decided(of_parts(FREE, *(replace(one, replicas=(2, 3), isr=(2, 3)) for one in BY_2)), candidate=1)
    assert decisions["orders"].candidate_id == 1 and decisions["orders"].asked


@pytest.mark.parametrize(
    ("part", "costs", "asked", "chosen", "why"),
    [
        # Broker 1, which led, is down: the controller elects broker 2 by itself.
        ({"choice": 3, "equals": (2,)}, {}, None, 2, True),
        ({"choice": 3, "equals": (2,)}, {}, 3, 3, False),
        ({"choice": 2, "equals": (3,)}, {}, None, 2, False),
        ({"choice": 3}, {}, None, 3, False),
        ({"choice": 3, "equals": (2,)}, {2: {"hidden_records": 1}}, None, 3, False),
        ({"choice": 3, "equals": (2,)}, {2: {"damage": ["LOG-TAIL-GARBAGE"]}}, None, 2, True),
        # Records that were not committed are not worth it.
        ({"choice": 3, "equals": (2,)}, {2: {"lost_records": 5}}, None, 2, True),
    ],
)
def test_whom_the_controller_elects_by_itself_is_not_stopped_for_nothing(
    part: dict[str, Any], costs: Mapping[int, Mapping[str, Any]], asked: int | None, chosen: int, why: bool
) -> None:
    found = of_parts(Part("orders", EVERYONE, 1, (1, 2), **part))
    change_rows(found, "elections", lambda row: costs.get(row.candidate_id, {}))
    decision = decided(found, up=(2, 3), candidate=asked)[0]["orders"]
    by_itself = f". The controller elects broker {chosen}, since the registered leader, broker 1, is down"
    damaged = ". The files of broker 2 are damaged (LOG-TAIL-GARBAGE): copy them before its next start"
    assert decision.candidate_id == chosen
    assert decision.reason.endswith(by_itself + damaged * ("damage" in costs.get(2, {})) if why else CHOSEN)
    assert ("damaged" in decision.reason) is ("damage" in costs.get(2, {}))


def test_a_decision_has_the_replicas_whose_log_dirs_are_offline() -> None:
    assert decided(of_parts(replace(FREE, offline=(3,))))[0]["orders"].offline == (3,)


@pytest.mark.parametrize(("lost", "told"), [(0, False), (1, True)])
@pytest.mark.parametrize(
    ("occasion", "why"), [("changed", "this audit has not computed"), ("deleted", "the topic was deleted")]
)
def test_a_loss_whose_costs_are_not_here_is_told(occasion: str, why: str, lost: int, told: bool) -> None:
    found = of_parts(replace(FREE, topic="a", calm=True), FREE)
    change_rows(found, "partitions", lambda _: {"lost_records": lost})
    change_rows(found, "partition_states", lambda _: {"occasion": occasion})
    decisions, conflicts = decided(found)
    assert {*decisions} == {"orders"}
    assert [reason.startswith(why) for reason in conflicts.values()] == ([True] if told else [])
    assert decided(found, asked=[PLACE])[1] == {}


def test_where_no_replica_is_assigned_only_the_one_asked_for_is_elected() -> None:
    found = of_parts(FREE)
    change_rows(found, "elections", lambda _: {"choice": None, "reason": None})
    assert decided(found) == ({}, {"orders": "no replica in the snapshot is assigned to it"})
    decisions, _ = decided(found, candidate=2)
    assert (decisions["orders"].candidate_id, decisions["orders"].reason) == (2, "broker 2 was asked for")


@pytest.mark.parametrize(
    ("asked", "candidate", "lacks"),
    [
        ((), 1, None),
        ((), 4, None),
        ((), 9, "a-0 in the snapshot; brokers 1, 2 and 3 have one"),
        (("orders",), 4, "orders-0 in the snapshot; brokers 1, 2 and 3 have one"),
        (("b",), 4, None),
        (("b", "orders"), 4, "orders-0 in the snapshot; brokers 1, 2 and 3 have one"),
        (("b", "calm"), 4, None),
        (("calm",), 1, "calm-0 in the snapshot$"),
    ],
)
def test_whom_somebody_asks_for_needs_a_replica(asked: tuple[str, ...], candidate: int, lacks: str | None) -> None:
    others = [replace(FREE, topic="a"), Part("b", (4, 5), 4, (4,), 4), replace(FREE, topic="calm", calm=True)]
    places = [TopicPartition(topic, 0) for topic in asked]
    found = of_parts(FREE, *others)
    if lacks is None:
        decided(found, up=(1, 2, 3, 4, 5), asked=places, candidate=candidate)
        return
    with pytest.raises(UsageError, match=f"broker {candidate} has no replica of {lacks}"):
        decided(found, asked=places, candidate=candidate)


def test_without_costs_nobody_lacks_a_replica() -> None:
    assert decided(of_parts(replace(FREE, calm=True)), candidate=9) == ({}, {})


@pytest.mark.parametrize(
    ("replicas", "is_moving", "begins"),
    [
        ((3, 4), True, "its brokers have a partition that moved"),
        ((4, 5), True, None),
        ((3, 4), False, "its brokers also have orders-0, and starting or stopping one may cut"),
        ((4, 5), False, None),
    ],
)
def test_what_has_to_be_copied_again_holds_back_others_on_its_brokers(
    replicas: tuple[int, ...], is_moving: bool, begins: str | None
) -> None:
    other = Part("a", replicas, replicas[0], replicas, replicas[0])
    found = of_parts(replace(FREE, calm=True), other, replace(other, topic="b"))
    moved = [finding("CAP-MOVED", "medium", broker_id=1)] if is_moving else []
    matrix = Matrix(replace(found, findings=objects("findings", moved)))
    decisions, conflicts = decide(matrix, present_state(found, (1, 2, 3, 4, 5)), (), None, None)
    assert conflicts == ([Conflict("orders", 0, conflicts[0].reason)] if is_moving else [])
    moving, stays = decisions[0].by("elect"), decisions[1]
    held = held_back(matrix, [moving, stays], {} if is_moving else {PLACE: []})
    assert [(place.topic, reason[: len(begins or "")]) for place, reason in held.items()] == (
        [("a", begins)] if begins else []
    )


@pytest.mark.parametrize(
    ("lost", "held", "replica", "sources"),
    [
        (1, {}, {}, [(2, 10, 11, 1)]),
        # The same stretch with as many records is the same records.
        (2, {}, {}, [(2, 10, 11, 1)]),
        (2, {3: {"lost_from": 9}}, {}, [(2, 10, 11, 1), (3, 9, 11, 1)]),
        (2, {3: {"lost_held": 2}}, {}, [(3, 10, 11, 2)]),
        (9, {3: {"lost_held": 2}}, {}, [(3, 10, 11, 2), (2, 10, 11, 1)]),
        (2, {2: {"lost_held": 0}}, {}, [(3, 10, 11, 1)]),
        (0, {}, {}, []),
        # A log of unknown end gives nothing, and no log what lies below its start, or in remote storage.
        (1, {}, {2: {"log_end_offset": None}}, [(3, 10, 11, 1)]),
        (1, {2: {"lost_from": 4}}, {2: {"log_start_offset": 6}}, [(2, 6, 11, 1)]),
        (1, {2: {"lost_from": 4}}, {2: {"local_start_offset": 7}}, [(2, 7, 11, 1)]),
    ],
)
def test_each_record_is_taken_from_one_log(
    lost: int, held: dict[int, dict[str, Any]], replica: dict[int, dict[str, Any]], sources: list[tuple[int, ...]]
) -> None:
    """Broker 1 leads, and brokers 2 and 3 have what it loses from 10 on."""
    found = of_parts(replace(FREE, equals=()))
    change_rows(found, "elections", lambda row: {"lost_records": lost, **(held.get(row.broker_id, {}))})
    change_rows(found, "replicas", lambda row: replica.get(row.broker_id, {}))
    taken = Matrix(found).sources(PLACE, 1)
    assert [(one.broker_id, one.start_offset, one.end_offset, one.records) for one in taken] == sources
