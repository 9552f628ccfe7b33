"""The procedure that a decision wants, line by line of its table (docs/semantics.md, H)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from replica_audit.elect.cluster_state import Controllers, PresentState
from replica_audit.elect.kafka_commands import Tools
from replica_audit.elect.order_search import sort_out
from replica_audit.elect.plan_model import Candidate, Decision
from replica_audit.protocol.controller import Registration

PLACE = ("t", 0)
LED = Registration(replicas=(1, 2, 3), leader_id=1, leader_epoch=0, isr=frozenset((1, 2)))
NOBODY = LED._replace(leader_id=None, isr=frozenset((1,)))
BASE = PresentState(
    partitions={PLACE: LED},
    unclean_said={PLACE: False},
    up=frozenset((1, 2, 3)),
    clean=frozenset(),
    unknown=frozenset(),
    has_elr=False,
    mode="kraft",
    epoch_said=frozenset((PLACE,)),
)


def state(registration: Registration | None = LED, *, up: tuple[int, ...] = (1, 2, 3), **said: object) -> PresentState:
    partitions = {} if registration is None else {PLACE: registration}
    return replace(BASE, partitions=partitions, up=frozenset(up), **said)  # type: ignore[arg-type]


def decision(choice: int, *, standing: str = "isr", depends_on: tuple[int, ...] = (), asked: bool = False) -> Decision:
    candidate = Candidate(
        choice, standing, None, 10, 0, 0, 0, False, cut_transactions=0, hidden_records=0, groups_hit=None, damage=()
    )
    return Decision(
        *PLACE, choice, "", asked, 1, None, None, "none", candidates=(candidate,), salvage=(), depends_on=depends_on
    )


@pytest.mark.parametrize(
    ("present", "chosen", "procedure", "reason"),
    [
        (
            state(controllers=Controllers(holders=((1,), (9,)), is_doubted=True)),
            decision(1),
            "unplanned",
            "copies of the metadata log are stale",
        ),
        (state(overtaken=frozenset((PLACE,))), decision(1), "unplanned", "is older than the logs"),
        (state(), decision(1, depends_on=(4,)), "unplanned", "the replica on broker 4 was not captured"),
        (state(), decision(1, depends_on=(4,), asked=True), "none", None),
        (
            state(up=(1,), unknown=frozenset((2, 3)), contradicted=frozenset((3,))),
            decision(1),
            "unplanned",
            "it is not known whether broker 3 is up: the metadata log counts it as up, but its log ends below its own checkpoints",
        ),
        (
            state(up=(1,), unknown=frozenset((2, 3)), contradicted=frozenset((2, 3, 4))),
            decision(1),
            "unplanned",
            "it is not known whether brokers 2 and 3 are up: the metadata log counts them as up, but their logs end below their own",
        ),
        (state(None), decision(1, standing="leader"), "none", None),
        (state(None, up=(), unknown=frozenset((1,))), decision(1, standing="leader"), "confirm", None),
        (state(None, up=()), decision(1, standing="leader"), "unplanned", "nothing says who is assigned"),
        (state(None), decision(2), "unplanned", "nothing says who is assigned"),
        (state(), decision(1), "none", None),
        (state(up=(2, 3), unknown=frozenset((1,))), decision(1), "confirm", None),
        (state(up=(2, 3)), decision(2), "confirm", None),
        (state(), decision(4), "unplanned", "broker 4 is not assigned to it"),
        (state(), decision(2), "reorder", None),
        (state(up=(1, 2)), decision(2), "elect", None),
        (state(), decision(3), "elect", None),
        (state(NOBODY), decision(1), "elect", None),
    ],
)
def test_the_first_line_that_holds_decides(
    present: PresentState, chosen: Decision, procedure: str, reason: str | None
) -> None:
    found, why = sort_out(present, chosen, Tools((3, 9)))
    assert found == replace(chosen, procedure=procedure)
    assert (why is None) if reason is None else (why is not None and reason in why)


def test_a_version_without_a_tool_elects_nobody() -> None:
    found, why = sort_out(state(up=(1, 2)), decision(2), Tools((2, 3)))
    assert found.procedure == "unplanned"
    assert why is not None and "no tool of this version" in why
