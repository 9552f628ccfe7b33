"""The best leader among candidates: each line of the order decides against all below it, with the reason that is told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import pytest
from tests.support.histories import history
from tests.support.made_cases import case, compared, leadership, log

from replica_audit.auditing.conclude import PartitionAudit
from replica_audit.auditing.finding import KEPT_KEYS, Finding, UnseenTail
from replica_audit.elect.choice import (
    Choice,
    choose,
    damage_by_broker,
    decided_rows,
    election_rows,
    is_led_by_whoever_starts,
    standing,
)
from replica_audit.elect.costs import CandidateCost
from replica_audit.model import UNCLEAN
from replica_audit.schema import Evidence


def candidate(
    broker: int, epoch: int = 1, end: int = 40, start: int = 0, copied: Mapping[str, bool] | None = None, **loss: int
) -> CandidateCost:
    """A replica that loses nothing but what `loss` says; `copied`: fields of its directory or facts on its copy."""
    facts = log(broker, (0, 0), (epoch, 20), end=end, log_start_offset=start, **(copied or {}))
    named = {"lost_records": 0, "lost_committed": 0, "lost_possible": 0, "cut_transactions": 0, "only_here": 0}
    return CandidateCost(facts, (), lost_at_most=False, **(named | loss))


def chosen(
    *costs: CandidateCost,
    leads: int | None = None,
    isr: tuple[int, ...] | None = (1, 2),
    replicas: tuple[int, ...] | None = (1, 2),
    damaged: tuple[int, ...] = (),
    up: tuple[int, ...] | None = None,
    unseen: tuple[UnseenTail, ...] = (),
    **said: Any,
) -> Choice:
    """The choice where `leads` is registered as leader; of `damaged` brokers a code tells so."""
    leader = next((one for one in costs if one.broker_id == leads), costs[0])
    known = leadership(leader_id=leads, isr=isr, replicas=replicas, **said)
    made = case(leader.facts, said=known, leader_id=leads)
    codes = {broker: ["LOG-CRC"] for broker in damaged}
    found = choose(made, costs, codes, (), unseen, up)
    again = choose(made, costs[::-1], codes, (), unseen, up)
    assert found is not None and again is not None and found.best.broker_id == again.best.broker_id
    return found


NOTHING = "nothing that the copies here have"
#: By the line of the order: what the winner, broker 2, has, and broker 1, which goes before it by all that follows; the situation; and
#: the reason.
ORDER: list[tuple[str, dict[str, int], dict[str, int], dict[str, Any], str]] = [
    (
        "possibly acknowledged",
        {"lost_records": 2, "lost_committed": 2, "cut_transactions": 1},
        {"lost_records": 3, "lost_possible": 3},
        {},
        "loses 2 committed records and the end of 1 transaction; broker 1 would lose 3 possibly committed records",
    ),
    (
        "proven committed",
        {"lost_records": 2, "lost_possible": 2, "cut_transactions": 1},
        {"lost_records": 2, "lost_committed": 2},
        {},
        "loses 2 possibly committed records and the end of 1 transaction; broker 1 would lose 2 committed records",
    ),
    (
        "cut transactions",
        {},
        {"cut_transactions": 1},
        {"leads": 1, "isr": (1,)},
        f"loses {NOTHING}; broker 1 would lose the end of 1 transaction",
    ),
    (
        "unclean in place of a leader",
        {"hidden_records": 5},
        {},
        {"leads": 2, "isr": (2,)},
        "loses nothing more that the copies here have, but lacks 5 records, perhaps committed, "
        "that another replica has, a difference that no truncation finds; "
        f"broker 1 would lose {NOTHING}. Broker 1 could only be elected uncleanly, in place of a leader that may have more than its copy",
    ),
    (
        "hidden",
        {},
        {"hidden_records": 1},
        {"leads": 1},
        f"loses {NOTHING}; broker 1 would lose nothing more that the copies here have, but lacks 1 record, perhaps committed, "
        "that another replica has, "
        "a difference that no truncation finds",
    ),
    (
        "the leader, of two sides",
        {"hidden_records": 2},
        {"hidden_records": 1},
        {"leads": 2},
        "loses nothing more that the copies here have, but lacks 2 records, perhaps committed, "
        "that another replica has, a difference that no truncation finds; "
        "broker 1 would lose nothing more that the copies here have, but lacks 1 record, perhaps committed, "
        "that another replica has, a difference that "
        "no truncation finds",
    ),
    (
        "fewer hidden",
        {"hidden_records": 1, "lost_records": 9},
        {"hidden_records": 2},
        {},
        "loses 9 records that were not committed, and lacks 1 record, perhaps committed, "
        "that another replica has, a difference that no truncation finds; broker 1 would "
        "lose nothing more that the copies here have, but lacks 2 records, perhaps committed, "
        "that another replica has, a difference that no truncation finds",
    ),
    (
        "the leader",
        {"lost_records": 9},
        {},
        {"leads": 2, "damaged": (2,)},
        f"loses 9 records that were not committed; broker 1 would lose {NOTHING}. The files of broker 2 are damaged (LOG-CRC): copy "
        "them before its next start",
    ),
    (
        "the leader, stopped",
        {"lost_records": 9, "copied": {"clean_shutdown": True}},
        {},
        {"leads": 2},
        f"loses 9 records that were not committed; broker 1 would lose {NOTHING}",
    ),
    (
        "the leader, stopped, with damaged files",
        {},
        {"lost_records": 1, "copied": {"clean_shutdown": True}},
        {"leads": 1, "damaged": (1,)},
        f"loses {NOTHING}; broker 1 would lose 1 record that was not committed",
    ),
    (
        "lost at all",
        {},
        {"lost_records": 1},
        {"damaged": (2,)},
        f"loses {NOTHING}; broker 1 would lose 1 record that was not committed. The files of broker 2 are damaged (LOG-CRC): copy "
        "them before its next start",
    ),
    ("the leader, of equals", {}, {"epoch": 2}, {"leads": 2}, "is the registered leader"),
    ("damaged files", {}, {"epoch": 2}, {"damaged": (1,), "isr": (1,)}, "has no damaged file"),
    ("in sync", {}, {"epoch": 2}, {"isr": (2,)}, "is in sync"),
    ("eligible", {}, {"epoch": 2}, {"isr": (), "elr": (2,)}, "is eligible"),
    ("led last", {}, {"epoch": 2}, {"isr": (), "last_known_elr": (2,)}, "led last"),
    ("epoch", {"epoch": 2, "end": 30}, {"end": 40}, {}, "has the later leader epoch"),
    ("end", {"end": 41, "start": 10}, {"end": 40}, {}, "has the longer log of that epoch"),
    ("start", {}, {"start": 5}, {}, "has the earlier log start"),
    ("place", {}, {}, {"replicas": (2, 1)}, "comes first in the assignment"),
]


@pytest.mark.parametrize(("line", "wins", "loses", "named", "reason"), ORDER, ids=[row[0] for row in ORDER])
def test_a_line_of_the_order_decides_against_all_below_it(
    line: str, wins: dict[str, int], loses: dict[str, int], named: dict[str, Any], reason: str
) -> None:
    if not reason.startswith("loses"):
        reason = f"loses {NOTHING}; neither would broker 1. Broker 2 {reason}"
    found = chosen(candidate(1, **loses), candidate(2, **wins), **named)
    assert found.reason == f"broker 2 {reason}"
    assert found.rank(found.best) == "best" and found.best.broker_id == 2
    loses_more = {"possibly acknowledged", "proven committed", "cut transactions", "lost at all"}
    loses_more.add("the leader, stopped, with damaged files")
    assert (found.worst is not None) == (line in loses_more)
    assert found.worst is None or (found.worst.broker_id, found.rank(found.worst)) == (1, "worst")


@pytest.mark.parametrize(
    ("loss", "reason"),
    [
        ({"lost_records": 1}, "1 record that was not committed; so would broker 1"),
        ({"cut_transactions": 1}, "the end of 1 transaction; so would broker 1"),
        ({}, f"{NOTHING}; neither would broker 1"),
        (
            {"hidden_records": 1},
            "nothing more that the copies here have, but lacks 1 record, perhaps committed, "
            "that another replica has, a difference that no truncation finds; "
            "the same is true of broker 1",
        ),
    ],
)
def test_what_equals_lose_is_told_once(loss: dict[str, int], reason: str) -> None:
    found = chosen(candidate(1, 1, **loss), candidate(2, 2, **loss))
    assert found.reason == f"broker 2 loses {reason}. Broker 2 has the later leader epoch"


def test_of_several_that_lose_more_the_next_best_is_told_unless_an_equal_goes_before_it() -> None:
    others = [candidate(1, lost_records=1), candidate(3, lost_records=2)]
    assigned = {"isr": None, "replicas": (1, 2, 3, 4)}
    told = "broker 1, the next best, would lose 1 record that was not committed"
    assert chosen(candidate(2), *others, **assigned).reason == f"broker 2 loses {NOTHING}; {told}"
    beside_equal = chosen(candidate(2), *others, candidate(4), **assigned).reason
    assert beside_equal.endswith("; broker 1 would lose 1 record that was not committed")


@pytest.mark.parametrize(
    ("end", "beside"), [(40, ""), (0, ". It is empty: if records were written, they were on another disk")]
)
def test_of_a_single_log_nothing_is_compared(end: int, beside: str) -> None:
    only = candidate(1)._replace(facts=log(1, *([(0, 0)] if end else []), end=end))
    assert chosen(only).reason.startswith(f"broker 1 has the only log that is known{beside}")
    assert ("empty" in chosen(only).reason) is bool(beside)


def test_nobody_is_chosen_who_is_not_assigned() -> None:
    assert chosen(candidate(1, lost_records=9), candidate(2, lost_records=9), candidate(3)).best.broker_id == 1
    known = leadership(replicas=(3,))
    assert choose(case(candidate(1).facts, said=known), [candidate(1)], {}, (), ()) is None


_LOST = UnseenTail(2, 35, 45, 45)


@pytest.mark.parametrize(
    ("tail", "best", "open_to"),
    [
        (_LOST, 1, "brokers 1 and 2 lost offsets 35 to 44, or were"),
        # Who is elected has all that the other may have lost.
        (_LOST, 3, None),
        (_LOST._replace(end_offset=40, held_to=40), 1, None),
        # What it lacks itself is lost, and counted so.
        (_LOST._replace(end_offset=46, held_to=46), 3, None),
        # Nobody is known to have the end of it.
        (_LOST._replace(held_to=41), 3, "broker 2 lost offsets 41 to 44, or was"),
    ],
)
def test_what_a_log_may_have_lost_is_open_to_a_leader_that_stays_without_it(
    tail: UnseenTail, best: int, open_to: str | None
) -> None:
    """Another may lead already with what broker 2 lost."""
    costs = [candidate(1, lost_records=int(best != 1), lost_committed=int(best != 1)), candidate(3, end=45)]
    found = chosen(*costs, leads=1, isr=(1, 3), replicas=(1, 2, 3), unseen=(tail,))
    assert found.best.broker_id == best
    told = f". More may be lost: nothing shows whether {open_to} copied before these were written"
    assert found.reason.endswith(told) if open_to else "More may be lost" not in found.reason


_KILLED = {"killed": True, "clean_shutdown": False}
_UP_TO_45: dict[str, Any] = {"high_watermark_checkpoint": 45}


@pytest.mark.parametrize(
    ("copies", "mark", "up", "is_all_known"),
    [
        ({}, {}, None, True),
        ({1: _KILLED}, {}, None, False),
        ({2: _KILLED}, {}, None, False),
        # The end of a log that is whole bounds what was acknowledged; that of one that was killed does not.
        ({2: _KILLED}, {"hw_upper": 40, "bounding_brokers": frozenset({1, 2})}, None, True),
        ({1: _KILLED}, {"hw_upper": 40, "bounding_brokers": frozenset({1})}, None, False),
        # Too few were in sync to commit more, whatever the logs had.
        ({1: _KILLED}, {"hw_upper": 40}, None, True),
        # By --up a broker is down; broker 1 was stopped in order.
        ({}, {}, (1, 2), True),
        ({}, {}, (2,), True),
        ({}, {}, (1,), False),
        # It ran when it was copied, so its copy shows nothing of how it went.
        ({2: {"is_live": True}}, {}, (1,), True),
        # The reference lost its end, which the other has as far as its mark went; or another did, and nobody has it.
        ({2: {"end": 45}}, {}, None, True),
        ({1: _UP_TO_45, 2: {"end": 45}}, {}, None, False),
        ({3: {}}, {}, None, True),
        ({3: _UP_TO_45}, {}, None, False),
    ],
)
def test_after_a_kill_nothing_is_lost_only_where_a_whole_log_bounds_what_was_acknowledged(
    copies: dict[int, dict[str, Any]], mark: dict[str, Any], up: tuple[int, ...] | None, is_all_known: bool
) -> None:
    assert _is_all_known(copies, mark, up) is is_all_known


@pytest.mark.parametrize(
    ("said", "unseen"),
    [
        ({"replicas": None}, ()),
        # Broker 3 was not captured.
        ({"replicas": (1, 2, 3), "isr": (1, 2, 3)}, ()),
        ({}, (UnseenTail(2, 40, 45, 40),)),
    ],
    ids=["assigned to nobody knows whom", "assigned to one not here", "perhaps lost"],
)
def test_nothing_is_lost_only_where_all_that_may_have_more_is_here(
    said: dict[str, Any], unseen: tuple[UnseenTail, ...]
) -> None:
    assert not _is_all_known({}, said=said, unseen=unseen)


def _is_all_known(
    copies: Mapping[int, Mapping[str, Any]],
    mark: Mapping[str, Any] = MappingProxyType({}),
    up: tuple[int, ...] | None = None,
    said: Mapping[str, Any] = MappingProxyType({}),
    unseen: tuple[UnseenTail, ...] = (),
) -> bool:
    """True if broker 2, the best, is said to lose nothing, and not only nothing that the copies have. Broker 1 was stopped in order; `copies`
    are changes by broker."""
    one, two, *others = (
        log(broker, (0, 0), **{"end": 40, "clean_shutdown": broker == 1, **copies.get(broker, {})})
        for broker in sorted({1, 2, *copies})
    )
    known = leadership(**{"replicas": (1, 2, *(facts.broker_id for facts in others)), **said})
    made = case(one, compared(two), *map(compared, others), said=known)
    made = replace(made, high_watermark=made.high_watermark._replace(**mark))
    nothing = {"lost_records": 0, "lost_committed": 0, "lost_possible": 0, "cut_transactions": 0, "only_here": 0}
    costs = [CandidateCost(facts, (), lost_at_most=False, **nothing) for facts in (one, two)]
    costs[0] = costs[0]._replace(lost_records=1, lost_committed=1)
    found = choose(made, costs, {}, (), unseen, up)
    assert found is not None
    told = found.reason.removeprefix("broker 2 loses ").partition("; broker 1 would lose 1 committed record")[0]
    assert told in ("nothing", NOTHING)
    return told == "nothing"


@pytest.mark.parametrize(
    ("named", "copied", "best"),
    [
        ({"up": (1,)}, {"was_down": True}, 1),
        ({"up": (1,)}, {}, 2),
        ({"up": (2,)}, {"was_down": True}, 2),
        ({}, {"clean_shutdown": True}, 1),
        ({}, {"clean_shutdown": True, "in_any_order": True}, 2),
        ({"fenced": (2,)}, {"was_down": True}, 1),
        ({"fenced": (2,)}, {}, 2),
        ({"fenced": (1,)}, {"was_down": True}, 2),
        ({"leads": 3, "isr": (2, 3)}, {}, 1),
    ],
    ids=[
        "said to be down",
        "perhaps since its copy",
        "said to be up",
        "stopped",
        "perhaps stopped since its copy",
        "fenced",
        "perhaps fenced since its copy",
        "another is fenced",
        "not here",
    ],
)
def test_only_a_leader_that_was_down_as_it_was_copied_gives_way_uncleanly(
    named: dict[str, Any], copied: dict[str, bool], best: int
) -> None:
    """It lacks records that broker 1, which is not in sync, keeps unseen."""
    leader = candidate(2, copied=copied, hidden_records=1)
    assert chosen(candidate(1), leader, **{"leads": 2, "isr": (2,), **named}).best.broker_id == best


@pytest.mark.parametrize(
    ("others", "named", "advantage"),
    [
        (
            [candidate(1, 2), candidate(3)],
            {"damaged": (1,), "replicas": (1, 3, 2)},
            "comes before each of these by damage, right, epoch, log or place",
        ),
        (
            [candidate(1, 2), candidate(3, 0, 60)],
            {"isr": (2, 3), "replicas": (1, 3, 2)},
            "comes before each of these by damage, right, epoch, log or place",
        ),
        ([candidate(1, 0), candidate(3)], {"replicas": (1, 3, 2)}, "has the longer log of that epoch"),
        ([candidate(3, end=41)], {"replicas": None}, "has the lowest id"),
    ],
    ids=["damage, then length", "in sync, then the epoch", "the epoch, then length", "nothing else"],
)
def test_where_no_advantage_is_one_over_all_equals_none_is_told(
    others: list[CandidateCost], named: dict, advantage: str
) -> None:
    named = {"isr": (1, 2, 3), "replicas": (1, 2, 3), **named}
    found = chosen(candidate(2, end=41), *others, **named)
    assert found.best.broker_id == 2
    assert found.reason.endswith(f". Broker 2 {advantage}")


@pytest.mark.parametrize(
    ("said", "right"),
    [
        ({"leader_id": 2}, "leader"),
        ({"leader_id": 2, "source": "inferred"}, "isr"),
        ({"isr": (1, 2)}, "isr"),
        ({"isr": (1,), "elr": (2,)}, "out_of_sync"),
        ({"isr": (), "elr": (1, 2)}, "elr"),
        ({"isr": (), "last_known_elr": (2,)}, "last_known"),
        ({"isr": (), "elr": (1,), "last_known_elr": (2,)}, "out_of_sync"),
        ({"isr": (), "last_known_elr": (1, 2)}, "out_of_sync"),
        ({"isr": None}, "unknown"),
        ({"replicas": (1, 3)}, "unassigned"),
        ({"replicas": (1, 3), "leader_id": 2}, "unassigned"),
        ({"replicas": None}, "isr"),
        ({"isr": (1,), "last_known_elr": (2,)}, "out_of_sync"),
        # Older than the logs, it says nothing.
        ({"outdated": leadership()}, "unknown"),
    ],
)
def test_the_right_by_which_a_replica_would_lead(said: dict, right: str) -> None:
    of_reference = {name: said.pop(name) for name in ("source", "outdated") if name in said}
    known = leadership(**{"leader_id": 1, **said})
    made = case(candidate(1).facts, said=known, leader_id=known.leader_id, **of_reference)
    assert standing(made, 2) == right


#: Nobody leads any more.
_LEFT = {"leader_id": None, "isr": (1, 2)}


@pytest.mark.parametrize(
    ("said", "end", "reference", "is_open"),
    [
        (_LEFT, 30, {}, True),
        (_LEFT | {"isr": (1,)}, 30, {}, False),
        (_LEFT, 40, {}, False),
        (_LEFT, 40, {"clean_shutdown": False}, True),
        (_LEFT | {"isr": (), "elr": (1, 2)}, 30, {}, True),
        (_LEFT | {"isr": (), "elr": (1,)}, 30, {}, False),
        # KIP-966: who was in sync was killed, and came back without being elected.
        (_LEFT | {"isr": ()}, 30, {}, True),
        (_LEFT | {"isr": (), "last_known_elr": (2,)}, 30, {}, True),
        (_LEFT | {"isr": (1,), "configs": {UNCLEAN: "true"}}, 30, {}, True),
        (_LEFT | {"isr": (1,), "configs": {UNCLEAN: "true"}}, 40, {}, False),
        ({"leader_id": 1}, 30, {}, False),
        ({"leader_id": 1}, 30, {"killed": True, "clean_shutdown": False}, True),
        ({"leader_id": 1}, 40, {"killed": True, "clean_shutdown": False}, False),
        ({"leader_id": 1, "perhaps_down": {1}}, 30, {"clean_shutdown": False}, True),
        ({"leader_id": 1, "fenced": (1,)}, 30, {"clean_shutdown": False}, True),
        ({"leader_id": 1, "fenced": (2,)}, 30, {"clean_shutdown": False}, False),
        ({"leader_id": 1, "fenced": (1,)}, 30, {}, False),
        # Who leads is not here: it may run.
        ({"leader_id": 3}, 30, {"killed": True, "clean_shutdown": False}, False),
    ],
)
def test_where_the_next_starts_decide_who_leads_a_leader_is_chosen(
    said: dict[str, Any], end: int, reference: dict[str, bool], is_open: bool
) -> None:
    """All were stopped in order, but for the `reference` where that says something else; broker 2 has the log up to `end`."""
    stopped = {"clean_shutdown": True}
    one, two = log(1, (0, 0), end=40, **stopped | reference), log(2, (0, 0), end=end, **stopped)
    known = leadership(**said)
    made = case(one, compared(two), said=known, leader_id=known.leader_id, isr=known.isr, elr=known.elr)
    assert is_led_by_whoever_starts(made) is is_open


_DELETED: dict[str, Any] = {"history": history({"occasion": "deleted"})}
_DAMAGED = Finding("LOG-TAIL-GARBAGE", "medium", "proven", 2, 0, 40, "", (), None)
_KEEPS_KEYS = Finding(
    "DIV-COMPACTED", "medium", "proven", 2, 0, 40, "", (Evidence(KEPT_KEYS, broker_id=1, value="3"),), None
)


@pytest.mark.parametrize(
    ("changes", "said", "up", "is_decided"),
    [
        ({}, {}, None, False),
        ({"verdict": "LAGGING"}, {}, None, False),
        ({"verdict": "INCONCLUSIVE"}, {}, None, True),
        ({"verdict": "INCONCLUSIVE", "case": None}, {}, None, False),
        ({"verdict": "INCONCLUSIVE"}, _DELETED, None, False),
        ({"findings": (_KEEPS_KEYS,)}, {}, None, True),
        ({"findings": (_DAMAGED,)}, {}, None, False),
        # Nobody is said to be up or down; the leader is, or is not, said to be up; nobody leads, and broker 1 will by itself.
        ({}, {"leader_id": 1}, (1,), False),
        ({}, {"leader_id": 1}, (2,), True),
        ({}, {"leader_id": None}, None, False),
        ({}, {"leader_id": None}, (2,), False),
    ],
)
def test_where_there_is_nothing_to_decide_no_cost_is_computed(
    changes: dict[str, Any], said: dict[str, Any], up: tuple[int, ...] | None, is_decided: bool
) -> None:
    """All were stopped in order, and are alike."""
    one, two = (log(broker, (0, 0), end=40, clean_shutdown=True) for broker in (1, 2))
    known = leadership(**said)
    made = case(one, compared(two), said=known, leader_id=known.leader_id)
    audit = PartitionAudit(made.evidence, made, (), "CONSISTENT")._replace(**changes)
    rows = decided_rows(audit, {}, up=up).elections
    assert {(row.candidate_id, row.broker_id) for row in rows} == (
        {(1, 1), (1, 2), (2, 1), (2, 2)} if is_decided else set()
    )
    assert bool(decided_rows(audit, {}, {audit.evidence.topic_partition}).elections) is (
        audit.case is not None and said is not _DELETED
    )


@pytest.mark.parametrize(
    ("said", "rights", "best"),
    [
        ({"isr": (1, 2)}, {1: ("leader", True), 2: ("isr", True)}, 1),
        ({"leader_id": None, "isr": (), "elr": (1,)}, {1: ("elr", True), 2: ("out_of_sync", False)}, 1),
        ({"leader_id": None, "isr": None}, {1: ("unknown", None), 2: ("unknown", None)}, 1),
        ({"replicas": (3,)}, {1: ("unassigned", False), 2: ("unassigned", False)}, None),
    ],
)
def test_the_rows_of_a_choice(
    said: dict[str, Any], rights: dict[int, tuple[str, bool | None]], best: int | None
) -> None:
    """One for each candidate and each replica; the best has the reason."""
    one, two = (log(broker, (0, 0), end=40, clean_shutdown=True) for broker in (1, 2))
    known = leadership(**said)
    made = case(one, compared(two), said=known, leader_id=known.leader_id)
    rows = election_rows(PartitionAudit(made.evidence, made, (_DAMAGED, _DAMAGED), "DIVERGENT"), {})
    assert len(rows) == 4
    for row in rows:
        assert (row.standing, row.clean) == rights[row.candidate_id]
        assert (row.choice, row.reason is None) == (("best", False) if row.candidate_id == best else (None, True))
        assert row.damage == (["LOG-TAIL-GARBAGE"] if row.candidate_id == 2 else [])


def test_without_a_source_of_leadership_nobody_has_a_right() -> None:
    one, two = (log(broker, (0, 0), end=40) for broker in (1, 2))
    made = case(one, compared(two), leader_id=1, source="inferred", isr=None, leadership=None)
    audit = PartitionAudit(replace(made.evidence, leadership=None), made, (), "DIVERGENT")
    rows = decided_rows(audit, {}).elections
    assert {(row.candidate_id, row.standing, row.choice) for row in rows} == {
        (1, "unknown", "best"),
        (2, "unknown", None),
    }
    assert [row.reason for row in rows if row.reason] == [
        f"broker 1 loses {NOTHING}; neither would broker 2. Broker 1 has the lowest id"
    ] * 2


def test_only_damage_in_the_files_of_a_broker_counts() -> None:
    made = case(log(1, (0, 0)))
    others = (_KEEPS_KEYS, _DAMAGED._replace(broker_id=None), _DAMAGED._replace(severity="low"))
    assert damage_by_broker(PartitionAudit(made.evidence, made, others, "DIVERGENT")) == {}
