"""Which candidates a search tries, and what it makes of the outcome; what each try makes of an attempt that has to be changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from replica_audit.elect import order_search
from replica_audit.elect.cluster_state import Controllers, PresentState
from replica_audit.elect.kafka_commands import BROKER, CONTROLLER, ZOOKEEPER_ITSELF, Tools
from replica_audit.elect.order_search import Search, Try
from replica_audit.elect.plan_model import Alternative, Candidate, Conflict, Decision
from replica_audit.model import TopicPartition
from replica_audit.protocol.controller import Registration

A, B = TopicPartition("a", 0), TopicPartition("b", 0)
EVERYONE = (1, 2, 3, 4)
LED = Registration(replicas=EVERYONE, leader_id=None, leader_epoch=0, isr=frozenset())
STATE = PresentState(
    partitions={A: LED, B: LED},
    unclean_said={A: False, B: False},
    up=frozenset(EVERYONE),
    clean=frozenset(),
    unknown=frozenset(),
    has_elr=False,
    mode="kraft",
    epoch_said=frozenset((A, B)),
)
KAFKA = Tools((3, 9), mode="kraft")


def wish(
    place: TopicPartition = A,
    choice: int = 1,
    equals: tuple[int, ...] = (),
    procedure: str = "elect",
    asked: bool = False,
    offline: tuple[int, ...] = (),
) -> Decision:
    """A decision; its `equals` would lose as much."""
    costs = [
        Candidate(one, "isr", None, 10, 0, 0, 0, False, 0, hidden_records=0, groups_hit=None, damage=())
        for one in (choice, *equals)
    ]
    return Decision(
        *place, choice, "", asked, None, None, None, procedure, candidates=tuple(costs), salvage=(), depends_on=(),
        offline=offline,
    )  # fmt: skip


class NoCosts:
    """In place of a matrix: a decision with another candidate, and why."""

    def instead(self, decision: Decision, candidate_id: int, why: str) -> Decision:
        return replace(decision, candidate_id=candidate_id, reason=why)


Outcomes = Mapping[tuple[int, ...], tuple[str, int]]


class Told(Search):
    """A search whose outcomes are told: by the candidates of a and b the partitions without an order, and the number of
    conflicts. What is not told is all well."""

    def __init__(self, outcomes: Outcomes, simulated: int = 0) -> None:
        super().__init__(STATE, NoCosts(), KAFKA)  # type: ignore[arg-type]
        self.outcomes, self.each, self.chosen = outcomes, simulated, []

    def tried(self, decisions: Sequence[Decision]) -> Try:
        self.tries += 1
        self.simulated += self.each
        chosen = tuple(one.candidate_id for one in decisions)
        self.chosen.append(chosen)
        unserved, conflicts = self.outcomes.get(chosen, ("", 0))
        places = frozenset(TopicPartition(one, 0) for one in unserved)
        return Try(tuple(decisions), (), (), (Conflict("a", 0, ""),) * conflicts, (), (), places)


@pytest.mark.parametrize(
    ("wishes", "outcomes", "tried", "chosen"),
    [
        ([wish(equals=(2,))], {}, [(1,)], (1,)),
        # Without an order equal candidates are tried, each once.
        ([wish(equals=(2,))], {(1,): ("a", 0)}, [(1,), (2,)], (2,)),
        ([wish(equals=(2, 3))], {(1,): ("a", 0), (3,): ("a", 0)}, [(1,), (3,), (2,)], (2,)),
        ([wish(equals=(2,))], {(1,): ("a", 0), (2,): ("a", 0)}, [(1,), (2,)], (1,)),
        ([wish()], {(1,): ("a", 0)}, [(1,)], (1,)),
        ([wish(equals=(2,), asked=True)], {(1,): ("a", 0)}, [(1,)], (1,)),
        # Only where there is none; of two partitions the same broker may be tried for each.
        ([wish(equals=(2,)), wish(B, equals=(2,))], {(1, 1): ("b", 0)}, [(1, 1), (1, 2)], (1, 2)),
        (
            [wish(equals=(2,)), wish(B, equals=(2,))],
            {(1, 1): ("b", 0), (1, 2): ("a", 0)},
            [(1, 1), (1, 2), (2, 2)],
            (2, 2),
        ),
        # The outcome that serves most counts, not the last, and of equal ones the first.
        (
            [wish(equals=(2,)), wish(B, equals=(2,))],
            {(1, 1): ("b", 0), (1, 2): ("ab", 0), (2, 2): ("ab", 0)},
            [(1, 1), (1, 2), (2, 2)],
            (1, 1),
        ),
        (
            [wish(equals=(2,)), wish(B, equals=(2,))],
            {(1, 1): ("ab", 0), (2, 2): ("a", 0)},
            [(1, 1), (2, 2)],
            (2, 2),
        ),
    ],
)
def test_which_candidates_are_tried_and_which_outcome_counts(
    wishes: list[Decision], outcomes: Outcomes, tried: list[tuple[int, ...]], chosen: tuple[int, ...]
) -> None:
    search = Told(outcomes)
    best = search.best(wishes)
    assert search.chosen == tried
    assert tuple(one.candidate_id for one in best.decisions) == chosen


def test_a_candidate_that_is_taken_instead_has_the_reason() -> None:
    (served,) = Told({(1,): ("a", 0)}).best([wish(equals=(2,))]).decisions
    assert served.reason == "for broker 2 there is an order of steps"


@pytest.mark.parametrize(("simulated", "tries"), [(0, 4), (16_666, 4), (16_667, 3), (25_000, 3), (50_000, 3)])
def test_the_search_ends_after_enough_tries_and_enough_simulated(simulated: int, tries: int) -> None:
    search = Told({(one,): ("a", 0) for one in EVERYONE}, simulated)
    search.best([wish(equals=(2, 3, 4))])
    assert len(search.chosen) == tries


@dataclass
class Attempt:
    """In place of an attempt: what it has to be changed for, in the order of attempts."""

    script: list[dict[str, Any]]
    made: list[tuple[dict[TopicPartition, str], frozenset[str], str | None]]

    def __call__(self, state, matrix, decisions, tools, transitions, forbidden, way):
        procedures = {TopicPartition(one.topic, one.partition): one.procedure for one in decisions}
        self.made.append((procedures, forbidden, way))
        told = {"dragged": set(), "risky": frozenset(), "unserved": {}, "outrun": set()}
        told |= self.script.pop(0) if self.script else {}
        vars(self).update(told, procedures=procedures, size=7)
        return self

    def carry_out(self) -> None:
        pass

    def steps(self) -> list:
        return []

    def held(self, steps: tuple) -> list:
        return []


@pytest.fixture
def attempts(monkeypatch: pytest.MonkeyPatch) -> Attempt:
    found = Attempt([], [])
    monkeypatch.setattr(order_search, "PlanAttempt", found)
    return found


def tried(wishes: Sequence[Decision], tools: Tools = KAFKA, **said: Any) -> tuple[Search, Try]:
    search = Search(replace(STATE, **said), NoCosts(), tools)  # type: ignore[arg-type]
    return search, search.tried(wishes)


LED_BY_1 = LED._replace(leader_id=1, isr=frozenset((1,)))
ONE_LEADS = {"partitions": {A: LED, B: LED_BY_1}}
ALLOWED = {"unclean_said": {A: True, B: True}}


@pytest.mark.parametrize(
    ("script", "said", "made"),
    [
        # By attempt the procedures of a and b, and the topics for which unclean elections are forbidden first.
        ([], {}, [("elect", "none", set())]),
        # A topic that allows them, where somebody is elected.
        ([], ALLOWED, [("elect", "none", {"a"})]),
        ([], {"unclean_said": {A: None, B: True}}, [("elect", "none", set())]),
        # Whom an attempt cannot leave alone is elected in the next.
        ([{"dragged": {B}}], ALLOWED, [("elect", "none", {"a"}), ("elect", "elect", {"a", "b"})]),
        # What an attempt shows to be risky is forbidden in the next, once.
        ([{"risky": frozenset("b")}] * 2, {}, [("elect", "none", set()), ("elect", "none", {"b"})]),
        ([{"risky": frozenset("a")}], ALLOWED, [("elect", "none", {"a"})]),
        # What has no order loses its steps; what has none anyway ends the search.
        ([{"unserved": {A: "why"}}], {}, [("elect", "none", set()), ("unplanned", "none", set())]),
        ([{"unserved": {B: "why"}}], {}, [("elect", "none", set())]),
        ([{"unserved": {A: "why"}}] * 2, {}, [("elect", "none", set()), ("unplanned", "none", set())]),
        (
            [{"unserved": {A: "why"}, "dragged": {B}}, {"unserved": {B: "why"}}],
            {},
            [("elect", "none", set()), ("elect", "elect", set()), ("elect", "unplanned", set())],
        ),
    ],
)
def test_an_attempt_is_changed_until_nothing_has_to_be(
    attempts: Attempt, script: list[dict[str, Any]], said: dict[str, Any], made: list[tuple[str, str, set[str]]]
) -> None:
    attempts.script += script
    search, outcome = tried([wish(), wish(B)], **ONE_LEADS, **said)
    assert [(one[A], one[B], forbidden) for one, forbidden, _ in attempts.made] == made
    assert (search.tries, search.simulated) == (1, 7 * len(made))
    assert [(one.procedure) for one in outcome.decisions] == [*made[-1][:2]]


def test_the_outcome_names_what_has_no_order_and_which_leaders_are_outrun(attempts: Attempt) -> None:
    attempts.script += [
        {"unserved": {A: "why", B: "led"}},
        {"unserved": {B: "led"}, "outrun": {(2, B), (1, A)}},
    ]
    _, outcome = tried([wish(), wish(B)], **ONE_LEADS)
    assert outcome.conflicts == (Conflict("a", 0, "why"), Conflict("b", 0, "led"))
    assert (outcome.unserved, outcome.outrun) == ({A, B}, ((1, A), (2, B)))


def test_what_cannot_be_decided_is_a_conflict_of_its_own(attempts: Attempt) -> None:
    _, outcome = tried([wish(choice=9)])
    assert [one.reason for one in outcome.conflicts] == ["broker 9 is not assigned to it, so no election can choose it"]
    assert not outcome.unserved and not outcome.alternatives


@pytest.mark.parametrize(
    ("wishes", "said", "script", "found"),
    [
        ([wish(B, 3), wish(A, 2)], {}, [], [Alternative("a", 0, (2, 1, 3, 4)), Alternative("b", 0, (3, 1, 2, 4))]),
        ([wish(A, 2)], {"mode": "zookeeper"}, [], []),
        # The controller would pass over it.
        ([wish(A, 2, offline=(2,))], {}, [], []),
        ([wish(A, 2, offline=(3,))], {}, [], [Alternative("a", 0, (2, 1, 3, 4))]),
        ([wish(B)], ONE_LEADS, [], []),
        # Nothing but this serves it.
        ([wish(A, 2)], {}, [{"unserved": {A: "why"}}], [Alternative("a", 0, (2, 1, 3, 4))]),
        ([wish(A, 9)], {}, [], []),
        # It had to be elected at first, and then is left alone.
        ([wish(B, 1)], ONE_LEADS, [{"dragged": {B}}], [Alternative("b", 0, (1, 2, 3, 4))]),
    ],
)  # fmt: skip
def test_the_admin_client_can_elect_whoever_is_elected(
    attempts: Attempt,
    wishes: list[Decision],
    said: dict[str, Any],
    script: list[dict[str, Any]],
    found: list[Alternative],
) -> None:
    attempts.script += script
    assert list(tried(wishes, **said)[1].alternatives) == found


#: Brokers 1 to 3 are the controllers.
COMBINED = Controllers(frozenset((1, 2, 3)))
NONE_UP: dict[str, Any] = {"up": frozenset()}
MAYBE_UP: dict[str, Any] = NONE_UP | {"unknown": frozenset(EVERYONE)}


@pytest.mark.parametrize(
    ("said", "tools", "way"),
    [
        ({}, KAFKA, BROKER),
        (NONE_UP, KAFKA, CONTROLLER),
        (NONE_UP, Tools((3, 6), mode="kraft"), None),
        (NONE_UP, Tools((2, 8), mode="zookeeper"), ZOOKEEPER_ITSELF),
        # Without brokers the controllers have no majority: one of those that may be up serves, or the first that is started, if any can.
        (NONE_UP | {"controllers": COMBINED}, KAFKA, CONTROLLER),
        (MAYBE_UP | {"controllers": COMBINED}, KAFKA, BROKER),
        (NONE_UP | {"controllers": COMBINED._replace(is_lost=True)}, KAFKA, None),
        (NONE_UP | {"controllers": Controllers(frozenset((7, 8, 9)), is_lost=True)}, KAFKA, CONTROLLER),
        (MAYBE_UP | {"controllers": Controllers(frozenset((7, 8, 9)))}, KAFKA, CONTROLLER),
    ],
)
def test_unclean_elections_are_forbidden_where_they_can_be(
    attempts: Attempt, said: dict[str, Any], tools: Tools, way: str | None
) -> None:
    """Without a way nothing is forbidden, whatever is risky."""
    attempts.script += [{"risky": frozenset("b")}]
    tried([wish()], tools, **said, **ALLOWED)
    assert {one for _, _, one in attempts.made} == {way}
    assert attempts.made[-1][1] == (set() if way is None else {"a", "b"})
