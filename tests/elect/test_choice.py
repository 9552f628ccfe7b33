"""The best leader among candidates: each line of the order decides against all below it, with the reason that is told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from tests.support.made_cases import case, leadership, log

from replica_audit.elect.choice import Choice, choose, standing
from replica_audit.elect.costs import CandidateCost


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
    **said: Any,
) -> Choice:
    """The choice where `leads` is registered as leader; of `damaged` brokers a code tells so."""
    leader = next((one for one in costs if one.broker_id == leads), costs[0])
    known = leadership(leader_id=leads, isr=isr, replicas=replicas, **said)
    made = case(leader.facts, said=known, leader_id=leads)
    codes = {broker: ["LOG-CRC"] for broker in damaged}
    found = choose(made, costs, codes, (), (), up)
    again = choose(made, costs[::-1], codes, (), (), up)
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
        "loses nothing more that the copies here have, but lacks 5 records that another replica has where no truncation finds them; "
        f"broker 1 would lose {NOTHING}. Broker 1 would have to be elected uncleanly in place of a leader that may have more than its copy",
    ),
    (
        "hidden",
        {},
        {"hidden_records": 1},
        {"leads": 1},
        f"loses {NOTHING}; broker 1 would lose nothing more that the copies here have, but lacks 1 record that another replica has "
        "where no truncation finds them",
    ),
    (
        "the leader, of two sides",
        {"hidden_records": 2},
        {"hidden_records": 1},
        {"leads": 2},
        "loses nothing more that the copies here have, but lacks 2 records that another replica has where no truncation finds them; "
        "broker 1 would lose nothing more that the copies here have, but lacks 1 record that another replica has where no truncation "
        "finds them",
    ),
    (
        "fewer hidden",
        {"hidden_records": 1, "lost_records": 9},
        {"hidden_records": 2},
        {},
        "loses 9 records that were not committed, and lacks 1 record that another replica has where no truncation finds them; broker 1 would "
        "lose nothing more that the copies here have, but lacks 2 records that another replica has where no truncation finds them",
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
        "lost at all",
        {},
        {"lost_records": 1},
        {"damaged": (2,)},
        f"loses {NOTHING}; broker 1 would lose 1 record that was not committed. The files of broker 2 are damaged (LOG-CRC): copy "
        "them before its next start",
    ),
    ("damaged files", {}, {"epoch": 2}, {"damaged": (1,), "isr": (1,)}, "has no damaged file"),
    ("in sync", {}, {"epoch": 2}, {"isr": (2,)}, "is in sync"),
    ("eligible", {}, {"epoch": 2}, {"isr": (), "elr": (2,)}, "is eligible"),
    ("led last", {}, {"epoch": 2}, {"isr": (), "last_known_elr": (2,)}, "led last"),
    ("epoch", {"epoch": 2, "end": 30}, {"end": 40}, {}, "has the later leader epoch"),
    ("end", {"end": 41, "start": 10}, {"end": 40}, {}, "has the longer log of that epoch"),
    ("start", {}, {"start": 5}, {}, "has the earlier log start"),
    ("place", {}, {}, {"replicas": (2, 1)}, "comes first in the assignment"),
]


@pytest.mark.parametrize(
    ("wins", "loses", "named", "reason"), [row[1:] for row in ORDER], ids=[row[0] for row in ORDER]
)
def test_a_line_of_the_order_decides_against_all_below_it(
    wins: dict[str, int], loses: dict[str, int], named: dict[str, Any], reason: str
) -> None:
    if not reason.startswith("loses"):
        reason = f"loses {NOTHING}; neither would broker 1. Broker 2 {reason}"
    found = chosen(candidate(1, **loses), candidate(2, **wins), **named)
    assert found.reason == f"broker 2 {reason}"
    assert found.rank(found.best) == "best" and found.best.broker_id == 2


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
            "has no damaged file, and of those like it has the longer log of that epoch",
        ),
        (
            [candidate(1, 2), candidate(3, 0, 60)],
            {"isr": (2, 3), "replicas": (1, 3, 2)},
            "is in sync, and of those like it has the later leader epoch",
        ),
        ([candidate(1, 0), candidate(3)], {"replicas": (1, 3, 2)}, "has the longer log of that epoch"),
        ([candidate(3, end=41)], {"replicas": None}, "has the lowest id"),
    ],
    ids=["damage, then length", "in sync, then the epoch", "the epoch, then length", "nothing else"],
)
def test_where_no_advantage_is_one_over_all_equals_they_are_told_in_turn(
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
    ],
)
def test_the_right_by_which_a_replica_would_lead(said: dict, right: str) -> None:
    source = said.pop("source", "user")
    known = leadership(**{"leader_id": 1, **said})
    made = case(candidate(1).facts, said=known, leader_id=known.leader_id, source=source)
    assert standing(made, 2) == right
