"""Every line of the decision tables of `proven_below` and `recorded_marks`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.support.histories import history
from tests.support.made_cases import case, compared, leadership, log

from replica_audit.auditing.compare.comparison import Comparison
from replica_audit.auditing.leadership.high_watermark_bounds import proven_below, recorded_marks
from replica_audit.auditing.replicas.replica_facts import ReplicaFacts
from replica_audit.model import Leadership, OffsetRange, RemoteSegment
from replica_audit.protocol.election import CleanElections

LEADER = log(1, (0, 0), (2, 20), end=40)
CLEAN = CleanElections(0, ())
UNCLEAN = CleanElections(0, (2,))
#: Ends below the reference, in the epoch that the reference has there, and before that epoch began.
SHORTER = log(2, (0, 0), (2, 20), end=30)
OLDER = log(2, (0, 0), end=20)
LONGER = log(2, (0, 0), (2, 20), end=50)


@pytest.mark.parametrize(
    ("facts", "value", "offset", "as_far_as_clean"),
    [
        pytest.param(LONGER, 30, 30, 30, id="within both logs"),
        pytest.param(LONGER, 45, 40, 20, id="past the reference's end only"),
        pytest.param(SHORTER, 35, 35, 20, id="past its own end, with the reference's records"),
        pytest.param(SHORTER, 45, 40, 20, id="past both ends, with the reference's records"),
        pytest.param(OLDER, 35, 20, 20, id="past its own end, perhaps without them"),
        pytest.param(log(2, end=0, checkpoint_epochs=None), 35, 0, 0, id="past its own end, without a file"),
        pytest.param(log(2, (0, 0), end=20, checkpoint_epochs=((0, 0), (2, 20))), 35, 35, 20, id="as its epoch begins"),
        pytest.param(log(2, (0, 0), end=20, checkpoint_epochs=((0, 0), (2, 25))), 35, 20, 20, id="or begins elsewhere"),
        pytest.param(log(2, (0, 0), end=10, checkpoint_epochs=((0, 0), (2, 20))), 20, 10, 10, id="of the epoch before"),
        pytest.param(
            log(2, (0, 0), (2, 20), end=30, checkpoint_epochs=((3, 0), (2, 20))), 35, 30, 20, id="with a damaged file"
        ),
    ],
)
def test_a_recorded_high_watermark_proves_what_both_logs_had(
    facts: ReplicaFacts, value: int, offset: int, as_far_as_clean: int
) -> None:
    assert proven_below(LEADER, facts, value, CLEAN) == offset
    assert proven_below(LEADER, facts, value, UNCLEAN) == as_far_as_clean


@pytest.mark.parametrize(
    ("leader", "offset"),
    [
        (log(1, (0, 0), end=40, checkpoint_epochs=((0, 0), (2, 40))), 40),
        (log(1, (0, 0), end=40, checkpoint_epochs=((0, 0), (2, 45))), 40),
        # The first epoch of a log counts as clean, and one that begins past the value cut nothing below.
        (log(1, (2, 0), end=40), 40),
        # A cleaner left nothing of the beginning of the epoch.
        (log(1, (0, 0), (2, 30), end=40, checkpoint_epochs=((0, 0), (2, 20))), 20),
        (log(1, (0, 0), (2, 30), end=40, checkpoint_epochs=None), 30),
    ],
)
def test_where_the_first_doubtful_epoch_begins(leader: ReplicaFacts, offset: int) -> None:
    assert proven_below(leader, LONGER, 45, UNCLEAN) == offset


def follower(high_watermark: int | None, *, of: dict[str, Any] | None = None, **changes: Any) -> Comparison:
    known = {"common_prefix_end": 40, **changes}
    return compared(log(2, (0, 0), (2, 20), end=40, high_watermark_checkpoint=high_watermark, **of or {}), **known)


def longer(high_watermark: int, **changes: Any) -> Comparison:
    """One that goes on to 50, of one epoch from its beginning on."""
    own = log(2, (2, 0), end=50, high_watermark_checkpoint=high_watermark, **changes.pop("of", {}))
    return compared(own, **{"common_prefix_end": 40, **changes})


ONE_EPOCH = log(1, (2, 0), end=40)


#: Broker 3, whose log is not here, leads; all its elections are known.
ELECTED = leadership(leader_id=3, leader_epoch=3)
CLEANLY = replace(ELECTED, history=history({"leader_id": 2}, {"leader_id": 1}, {"leader_id": 3}))
CONFLICT = {"stretches": (OffsetRange(30, 40),)}
#: Its own file has a later epoch than its log, which the reference has, too.
CUT: dict[str, Any] = {"checkpoint_epochs": ((0, 0), (2, 20), (3, 30))}
NEWER = log(1, (0, 0), (2, 20), (3, 30), end=40)


@pytest.mark.parametrize(
    ("leader", "item", "said", "found"),
    [
        pytest.param(LEADER, follower(35), leadership(), (35, 35), id="any other"),
        pytest.param(LEADER, follower(None), leadership(), None, id="none"),
        pytest.param(LEADER, follower(35), ELECTED, None, id="elected since"),
        pytest.param(LEADER, follower(35), CLEANLY, (35, 35), id="cleanly"),
        pytest.param(LEADER, follower(35), replace(ELECTED, leader_epoch=2), (35, 35), id="it knows the leader's epoch"),
        pytest.param(LEADER, follower(35), replace(ELECTED, leader_epoch=None), (35, 35), id="no epoch is known"),
        pytest.param(LEADER, follower(35), replace(ELECTED, leader_id=1), (35, 35), id="the reference leads"),
        pytest.param(LEADER, follower(35, **CONFLICT), leadership(), None, id="in conflict"),
        pytest.param(LEADER, follower(30, **CONFLICT), leadership(), (30, 30), id="below the conflict"),
        pytest.param(NEWER, follower(35, of=CUT | {"in_any_order": True}), leadership(), None, id="cut since"),
        pytest.param(NEWER, follower(30, of=CUT | {"in_any_order": True}), leadership(), (30, 30), id="below the cut"),
        pytest.param(NEWER, follower(35, of=CUT), leadership(), (35, 35), id="its files are in order"),
        pytest.param(LEADER, follower(0, common_prefix_end=None), leadership(), None, id="nothing in common"),
        pytest.param(log(1, end=0), follower(0, common_prefix_end=None), leadership(), (0, 0), id="empty reference"),
        pytest.param(
            log(1, end=0), follower(0, of={"log_start_offset": 5, "local_start_offset": 5}, common_prefix_end=None),
            leadership(), None, id="empty, below the other's beginning",
        ),
        # Past the reference's end: it lacks what was committed in its own epoch, unless the mark is of before.
        pytest.param(ONE_EPOCH, longer(45), leadership(), (40, 45), id="past its end"),
        pytest.param(ONE_EPOCH, longer(39), leadership(), (39, 39), id="not past its end"),
        pytest.param(
            ONE_EPOCH, longer(45, stretches=(OffsetRange(40, 50),)), leadership(), (40, 40), id="in conflict past its end"
        ),
        pytest.param(ONE_EPOCH, longer(45), leadership(leader_epoch=3), (40, 40), id="of an earlier epoch"),
        pytest.param(
            ONE_EPOCH, longer(45), replace(CLEANLY, leader_id=1), (40, 45), id="all elections since were clean"
        ),
        pytest.param(ONE_EPOCH, longer(45, of={"has_epochs": False}), leadership(leader_epoch=3), (40, 45), id="of 0.10"),
        pytest.param(ONE_EPOCH, longer(45), leadership(leader_id=None, leader_epoch=3), (40, 45), id="nobody leads"),
        pytest.param(ONE_EPOCH, longer(45), leadership(leader_id=None, leader_epoch=4), None, id="somebody may have"),
    ],
)  # fmt: skip
def test_a_recorded_high_watermark_counts(
    leader: ReplicaFacts, item: Comparison, said: Leadership, found: tuple[int, int] | None
) -> None:
    reference = replace(case(leader, item, said=said).reference, leader_id=said.leader_id)
    marks = recorded_marks(reference, (item,), said, stable=None)
    own = [one for one in marks if one.text.startswith("checkpointed") and "broker 2" in one.text]
    assert [(one.offset, one.reached) for one in own] == ([] if found is None else [found])
    assert all(("which proves everything below 40" in one.text) is (one.offset == 40) for one in own)


def test_a_third_replica_shows_that_a_log_was_cut_since() -> None:
    item = follower(35, of=CUT | {"in_any_order": True})
    other = compared(replace(NEWER, directory=log(3).directory), common_prefix_end=40)
    for others, counts in (((), True), ((other,), False)):
        reference = case(LEADER, item, *others).reference
        marks = recorded_marks(reference, (item, *others), leadership(), stable=None)
        assert any("high watermark 35 of broker 2" in one.text for one in marks) is counts


@pytest.mark.parametrize(
    ("own", "predates", "item", "counts"),
    [
        ({"in_any_order": True}, True, {"of": {}}, False),
        ({"in_any_order": True}, True, {"of": {}, "stretches": (OffsetRange(36, 40),)}, True),
        ({"in_any_order": True}, False, {"of": {}}, True),
        ({}, True, {"of": {}}, True),
        ({"in_any_order": True}, True, {"of": None}, True),
    ],
)
def test_the_mark_of_a_reference_that_was_copied_before_it_led(
    own: dict[str, Any], predates: bool, item: dict[str, Any], counts: bool
) -> None:
    """Its mark is 36; from 30 on the follower has other records, of a later epoch unless it has none."""
    later = log(2, (0, 0), (2, 20), *([] if item["of"] is None else [(3, 30)]), end=40)
    other = compared(
        later,
        **{
            "stretches": (OffsetRange(30, 40),),
            "common_prefix_end": 30,
            **{k: v for k, v in item.items() if k != "of"},
        },
    )
    leader = replace(log(1, (0, 0), (2, 20), end=40, high_watermark_checkpoint=36), **own)
    reference = case(leader, other, predates=predates).reference
    marks = recorded_marks(reference, (other,), leadership(), stable=None)
    assert any("high watermark 36 of broker 1" in one.text for one in marks) is counts


def remote(end: int) -> tuple[int, RemoteSegment]:
    return end, RemoteSegment(
        "orders", 0, "one", 0, end - 1, "s", ((0, 0),), 1, 1, 9, 0, 0, 0, 1, 0, None, 0, True, 0, 0
    )


@pytest.mark.parametrize(
    ("said", "changes", "expected"),
    [
        (leadership(), {}, {"log start 0", "checkpointed high watermark 10"}),
        (ELECTED, {}, {"nothing"}),
        (CLEANLY, {}, {"log start 0", "checkpointed high watermark 10"}),
        (
            leadership(),
            {"cleans_below_mark": True},
            {"log start 0", "checkpointed high watermark 10", "cleaner checkpoint 12"},
        ),
        (
            leadership(),
            {"stable": remote(30)},
            {"log start 0", "checkpointed high watermark 10", "segment s in remote"},
        ),
        (ELECTED, {"stable": remote(30)}, {"nothing"}),
    ],
)
def test_what_the_reference_itself_proves(said: Leadership, changes: dict[str, Any], expected: set[str]) -> None:
    bound = {"cleans_below_mark": changes.pop("cleans_below_mark", False)}
    leader = replace(log(1, (0, 0), (2, 20), end=40, high_watermark_checkpoint=10, cleaner_checkpoint=12), **bound)
    reference = replace(case(leader, said=said).reference, leader_id=said.leader_id)
    marks = recorded_marks(reference, (), said, **{"stable": None, **changes})
    assert len({one.text for one in marks}) == len(expected)
    assert all(any(one.text.startswith(text) for one in marks) for text in expected)
    assert all((one.offset, one.reached) == (30, 30) for one in marks if one.text.startswith("segment"))
    past = recorded_marks(reference, (), said, stable=remote(50))[-1]
    assert (past.offset, past.reached) == ((0, 0) if said is ELECTED else (40, 50))
