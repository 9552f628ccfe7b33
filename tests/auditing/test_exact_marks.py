"""Where the history determines the high watermark exactly (X1, X2): each condition decides once for and once against."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.histories import history
from tests.support.made_cases import case, compared, leadership, log

from replica_audit.auditing.leadership.high_watermark_bounds import HighWatermark, narrow_high_watermark

MARK = HighWatermark(10, 40, 10, 10, "interval", "", "", "", None, True)
ALONE: dict[str, Any] = {"source": "metadata_log", "isr": (1,), "fenced": (2,), "configs": {"min.insync.replicas": "1"}}


def narrowed(
    said: dict[str, Any] | None,
    mark: dict[str, Any],
    *,
    one: dict[str, Any] | None = None,
    two: dict[str, Any] | None = None,
    version: tuple[int, ...] | None = None,
    **of_reference: Any,
) -> tuple[int, int | None, str]:
    """The bounds and the method; broker 1 is the reference, up to 40 in epoch 2, which began at 20."""
    own = log(1, (0, 0), (2, 20), end=40, **one or {})
    known = leadership(**said or {})
    made = case(
        own,
        compared(log(2, (0, 0), (2, 20), end=40, **two or {})),
        said=known,
        **{"leader_id": known.leader_id, "history": known.history, **of_reference},
    )
    found = narrow_high_watermark(
        MARK._replace(**mark), made.reference, made.comparisons, None if said is None else known, version
    )
    return found.hw_lower, found.hw_upper, found.method


@pytest.mark.parametrize(
    ("said", "mark", "more", "is_exact"),
    [
        (ALONE, {}, {}, True),
        (None, {}, {}, False),
        (ALONE | {"source": "user"}, {}, {}, False),
        (ALONE, {}, {"outdated": leadership()}, False),
        (ALONE, {}, {"predates": True}, False),
        (ALONE, {"method": "capture_skew"}, {}, False),
        (ALONE, {"lowest_suffix": (2, 5)}, {}, False),
        (ALONE, {"leader_end_bounds": False}, {}, False),
        # What is proven otherwise goes before it.
        (ALONE, {"hw_upper": 39}, {}, False),
        (ALONE, {"hw_lower": 41, "hw_upper": None}, {}, False),
        (ALONE | {"leader_id": 2}, {}, {}, False),
        (ALONE | {"isr": (1, 2)}, {}, {}, False),
        (ALONE | {"isr": (2,)}, {}, {}, False),
        (ALONE | {"fenced": None}, {}, {}, False),
        (ALONE | {"fenced": ()}, {}, {}, False),
        # Its log may be later than what says that it is alone.
        (ALONE, {}, {"one": {"in_any_order": True}}, False),
        (ALONE, {}, {"two": {"in_any_order": True}}, True),
        (ALONE | {"replicas": (1, 2, 3)}, {}, {}, False),
        # One has to suffice, but in a version in which the high watermark moves all the same.
        (ALONE | {"configs": {"min.insync.replicas": "2"}}, {}, {}, False),
        (ALONE | {"configs": {"min.insync.replicas": "2"}}, {}, {"version": (3, 7)}, False),
        (ALONE | {"configs": {"min.insync.replicas": "2"}}, {}, {"version": (3, 6)}, True),
    ],
)
def test_a_leader_alone_in_sync_has_committed_all_it_wrote(
    said: dict[str, Any] | None, mark: dict[str, Any], more: dict[str, Any], is_exact: bool
) -> None:
    found = narrowed(said, mark, **more)
    expected = MARK._replace(**mark)
    assert found == ((40, 40, "sole_isr") if is_exact else (expected.hw_lower, expected.hw_upper, expected.method))


#: Broker 2 led in epoch 1, broker 1 in epoch 2, and all were stopped in order.
STATES = history({"leader_id": 2, "isr": (1, 2)}, {"leader_id": 1}, {"leader_id": None, "leader_stopped": True})
STOPPED: dict[str, Any] = {"source": "metadata_log", "leader_id": None, "leader_epoch": 3, "history": STATES}
CLEAN: dict[str, Any] = {"clean_shutdown": True}


@pytest.mark.parametrize(
    ("said", "value", "one", "two", "found"),
    [
        ({}, 35, {}, {}, (35, 35, "clean_shutdown")),
        ({}, 20, {}, {}, (20, 20, "clean_shutdown")),
        # What it learnt from an earlier leader may be too low, but nothing was committed in its epoch.
        ({}, 19, {}, {}, (10, 20, "interval")),
        # No stop leaves it below the log start.
        ({}, 20, {"log_start_offset": 20}, {}, (20, 20, "clean_shutdown")),
        ({}, 20, {"log_start_offset": 21}, {}, None),
        ({}, 12, {"log_start_offset": 12}, {}, (10, 20, "interval")),
        ({}, 12, {"log_start_offset": 13}, {}, None),
        ({}, None, {}, {}, None),
        ({}, 35, {"clean_shutdown": False}, {}, None),
        ({}, 35, {}, {"clean_shutdown": False}, None),
        ({}, 35, {"in_any_order": True}, {}, None),
        # The epoch file is damaged: the batches say where the epoch began.
        ({}, 15, {"checkpoint_epochs": ((0, 0), (2, 12))}, {}, (10, 20, "interval")),
        ({}, 15, {"checkpoint_epochs": ((2, 0), (0, 20))}, {}, (10, 20, "interval")),
        ({"leader_id": 1}, 35, {}, {}, None),
        # Who led last, or is in sync, is not here; nobody ever led.
        ({"history": STATES[:2] + STATES[3:]}, 35, {}, {}, None),
        ({"history": (*STATES[:2], STATES[2]._replace(isr=(1, 2, 3)), STATES[3])}, 35, {}, {}, None),
        ({"history": ()}, 35, {}, {}, None),
        # It led without interruption.
        (
            {"history": (STATES[0], *(one._replace(isr=(1, 2)) for one in STATES[2:]))},
            15,
            {},
            {},
            (15, 15, "clean_shutdown"),
        ),
        # It wrote nothing in its epoch.
        ({"history": (*STATES[:2], STATES[2]._replace(leader_epoch=5), STATES[3])}, 35, {}, {}, None),
    ],
)
def test_what_the_last_leader_wrote_as_it_stopped(
    said: dict[str, Any], value: int | None, one: dict[str, Any], two: dict[str, Any], found: tuple | None
) -> None:
    own = {**CLEAN, "high_watermark_checkpoint": value, **one}
    assert narrowed(STOPPED | said, {}, one=own, two=CLEAN | two) == (found or (10, 40, "interval"))


@pytest.mark.parametrize(
    ("mark", "value", "found"),
    [
        ({"hw_lower": 36}, 35, (36, 40, "interval")),
        ({"hw_upper": 34}, 35, (10, 34, "interval")),
        ({"hw_upper": None}, 35, (35, 35, "clean_shutdown")),
        ({"hw_upper": None}, 19, (10, None, "interval")),
        ({"hw_upper": 20}, 19, (10, 20, "interval")),
        ({"hw_lower": 21}, 19, (21, 40, "interval")),
        ({"hw_lower": 20}, 19, (20, 20, "bounds_meet")),
    ],
)
def test_bounds_that_are_proven_otherwise_stay(mark: dict[str, Any], value: int, found: tuple) -> None:
    own = {**CLEAN, "high_watermark_checkpoint": value}
    assert narrowed(STOPPED, mark, one=own, two=CLEAN) == found
