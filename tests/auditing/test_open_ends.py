"""Why a replica may have had more than its files show, and which log ends so bound the high watermark."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.histories import history
from tests.support.made_cases import case, compared, leadership, log, segment

from replica_audit.auditing.leadership.capture_times import CaptureTimes
from replica_audit.auditing.leadership.high_watermark_bounds import bounding_ends, is_preallocated, why_down, why_open
from replica_audit.auditing.replicas.replica_facts import ReplicaFacts
from replica_audit.model import ChunkDigest, OffsetRange
from replica_audit.snapshot.inventory import CopiedLogDir

#: A length of no configuration.
ODD = 12_345


def ended(size: int = ODD, broker: int = 1, tail_kind: Any = "zero_filled", **changes: Any) -> ReplicaFacts:
    """A log with one file of that size, and zeros after its last batch."""
    file = segment(0, 40, (0, 0), size_bytes=size)
    return log(broker, (0, 0), end=40, segments=(file,), tail_kind=tail_kind, **changes)


@pytest.mark.parametrize(
    ("facts", "why"),
    [
        (log(1, (0, 0)), None),
        (log(1, (0, 0), is_left=True), "left the disk"),
        (log(1, (0, 0), segments=(segment(0, 40, (0, 0), unproven=("rest",)),)), "may go on past 40"),
        (log(1, (0, 0), high_watermark_checkpoint=41), "below its own checkpointed high watermark 41"),
        (log(1, (0, 0), high_watermark_checkpoint=None), None),
        (log(1, (0, 0), recovery_point_checkpoint=41), "below its own recovery point 41"),
        (log(1, (0, 0), recovery_point_checkpoint=40), None),
        (log(1, (0, 0), checkpoint_epochs=((0, 0), (1, 45))), "below 45, where an epoch begins"),
        (log(1, (0, 0), checkpoint_epochs=((0, 45),)), "below 45, where the log begins"),
        (log(1, (0, 0), checkpoint_epochs=((0, 0), (1, 40))), None),
        (ended(), "has zeros after its last batch at 40"),
        (ended(size=1 << 30), None),
        (ended(tail_kind="partial"), "has unreadable bytes"),
        (ended(tail_kind="garbage"), "has unreadable bytes"),
        (ended(tail_kind="clean"), None),
    ],
)
def test_why_files_may_not_show_all(facts: ReplicaFacts, why: str | None) -> None:
    found = why_open(facts, (facts,), None)
    assert (found is None) if why is None else why in (found or "")


@pytest.mark.parametrize(
    ("changes", "said", "why"),
    [
        ({"clean_shutdown": False}, {"fenced": ()}, None),
        ({"clean_shutdown": False, "killed": True}, None, "was killed, and"),
        ({"clean_shutdown": True, "killed": True}, {"fenced": (1,)}, None),
        ({"clean_shutdown": False}, None, None),
        ({"clean_shutdown": False}, {"perhaps_down": frozenset({1})}, "may have been killed, and"),
        ({"clean_shutdown": False}, {"perhaps_down": frozenset({2})}, None),
        ({"clean_shutdown": False}, {"fenced": (1,)}, "was killed or lost power"),
        ({"clean_shutdown": False}, {"fenced": (2,)}, None),
        # Without the metadata log an eligible replica that does not lead is in doubt.
        ({"clean_shutdown": False}, {"leader_id": 2, "elr": (1,)}, "is eligible to lead, and may have been killed"),
        ({"clean_shutdown": False}, {"leader_id": 1, "elr": (1,)}, None),
        ({"clean_shutdown": False}, {"leader_id": 2, "elr": (2,)}, None),
        ({"clean_shutdown": False}, {"leader_id": 2, "elr": (1,), "fenced": ()}, None),
    ],
)
def test_why_a_broker_may_have_lost_its_end(
    changes: dict[str, Any], said: dict[str, Any] | None, why: str | None
) -> None:
    found = why_down(log(1, (0, 0), **changes), None if said is None else leadership(**said))
    assert (found is None) if why is None else why in (found or "")


@pytest.mark.parametrize(
    ("facts", "others", "configs", "is_expected"),
    [
        (ended(), (), {}, False),
        (ended(size=1 << 30), (), {}, True),
        (ended(size=3 << 20), (), {}, True),
        (ended(), (), {"segment.bytes": str(ODD)}, True),
        (ended(), (), {"segment.bytes": "many"}, False),
        (ended(size=(1 << 30) + 1), (), {"segment.bytes": str(ODD)}, False),
        (ended(), (ended(broker=2),), {}, True),
        (ended(), (ended(ODD + 1, broker=2),), {}, False),
        (ended(), (ended(broker=2, tail_kind="clean"),), {}, False),
        # A clean stop trims them.
        (ended(size=1 << 30, clean_shutdown=True), (), {}, False),
    ],
)
def test_zeros_that_were_preallocated(
    facts: ReplicaFacts, others: tuple[ReplicaFacts, ...], configs: dict[str, str], is_expected: bool
) -> None:
    assert is_preallocated(facts, (facts, *others), leadership(configs=configs)) is is_expected
    if not configs:
        assert is_preallocated(facts, (facts, *others), None) is is_expected


BOTH = [(1, 40), (2, 35)]
#: Broker 1 led last, in epoch 3, and announced its stop.
LED = history({"leader_id": 2}, {"leader_id": 3}, {"leader_id": 1}, {"leader_id": None})
LED = (*LED[:-1], LED[-1]._replace(leader_stopped=True))


@pytest.mark.parametrize(
    ("said", "one", "two", "of_reference", "ends", "why"),
    [
        ({}, {}, {}, {}, BOTH, None),
        ({"isr": None}, {}, {}, {}, BOTH[:1], None),
        ({"isr": (1, 2, 3)}, {}, {}, {}, BOTH, "no usable log of broker 3 is here"),
        ({"leader_id": 3}, {}, {}, {}, BOTH, "no usable log of broker 3 is here"),
        ({"leader_id": 2, "isr": (2,)}, {}, {}, {}, BOTH[1:], None),
        ({"leader_id": None}, {}, {}, {}, BOTH, None),
        # Eligible to lead, and not known to have been killed.
        ({"isr": (1,)}, {}, {}, {}, BOTH[:1], None),
        ({"isr": (1,), "elr": (2,), "fenced": ()}, {}, {}, {}, BOTH, None),
        ({"isr": (1,), "elr": (2,)}, {}, {}, {}, BOTH[:1], "broker 2 is eligible to lead, and may have been killed"),
        # A log that may have gone on, or lost its end, bounds nothing.
        (
            {},
            {},
            {"recovery_point_checkpoint": 36},
            {},
            BOTH[:1],
            "broker 2 ends at 35, below its own recovery point 36",
        ),
        ({}, {}, {"killed": True}, {}, BOTH[:1], "broker 2 was killed, and"),
        (
            {},
            {"recovery_point_checkpoint": 41},
            {},
            {},
            BOTH[1:],
            "broker 1 ends at 40, below its own recovery point 41",
        ),
        ({}, {"killed": True}, {}, {}, BOTH[1:], "broker 1 was killed, and"),
        ({}, {}, {}, {"predates": True}, BOTH[1:], "were copied before it began to lead in epoch 2"),
        ({"leader_id": None}, {}, {}, {"predates": True}, BOTH[1:], "were copied before it led last"),
        # An assigned broker may lead that is not here.
        (
            {},
            {},
            {},
            {"outdated": leadership(replicas=(1, 2, 3))},
            BOTH[1:],
            "and broker 3, of which no log is here, may lead",
        ),
        ({}, {}, {}, {"outdated": leadership(replicas=(1, 2))}, BOTH, None),
        (
            {"leader_epoch": 1},
            {},
            {},
            {},
            BOTH[1:],
            "broker 2 has records of leader epoch 2, later than that of broker 1",
        ),
        (
            {"leader_id": None, "history": LED},
            {"clean_shutdown": True},
            {},
            {},
            BOTH[1:],
            "is not the one with which it led",
        ),
        ({}, {}, {}, {"outdated": leadership(replicas=None)}, BOTH, None),
    ],
)
def test_log_ends_that_bound_the_high_watermark(
    said: dict[str, Any],
    one: dict[str, Any],
    two: dict[str, Any],
    of_reference: dict[str, Any],
    ends: list[tuple[int, int]],
    why: str | None,
) -> None:
    """Broker 1, the reference, ends at 40, and broker 2 at 35; both are in sync unless something else is said."""
    marks = {"high_watermark_checkpoint": 30}
    known = leadership(**said)
    item = compared(log(2, (0, 0), (2, 20), end=35, **marks | two))
    made = case(
        log(1, (0, 0), (2, 20), end=40, **marks | one),
        item,
        said=known,
        **{"leader_id": known.leader_id, "elr": known.elr, **of_reference},
    )
    found, reasons = bounding_ends(made.reference, made.comparisons, known, one_moment=False, times=CaptureTimes())
    assert [(end.broker_id, end.offset) for end in found] == ends
    assert [end.limiting_broker_id for end in found] == [None if broker == 1 else broker for broker, _ in ends]
    assert len(reasons) == (why is not None) and (why or "") in "".join(reasons)


OUT, IN = {"isr": (1, 3)}, {"isr": (1, 2, 3)}
#: The terms in which brokers 3 and 1 led, in epochs 1 and 2.
THREE, ONE = {"leader_id": 3}, {"leader_id": 1}
JOINED = [THREE, ONE, OUT, IN]


def written_until(time_ms: int | None) -> dict[str, Any]:
    return {
        "chunks": {0: ChunkDigest(0, 1, 1, 1, 0, 0, 0, None, None), 1: ChunkDigest(1, 1, 1, 1, 0, 0, 0, 0, time_ms)}
    }


@pytest.mark.parametrize(
    ("changes", "two", "one_moment", "why"),
    [
        ([THREE, ONE], {}, False, None),
        (JOINED, {}, False, "may have been copied before it came in sync"),
        (JOINED, {}, True, None),
        (JOINED, {"end": 40}, False, None),
        (JOINED, {"was_down": True}, False, None),
        # It had reached the begin of epoch 2, in which it came in sync.
        (JOINED, {"was_down": True, "end": 20, "high_watermark_checkpoint": 10}, False, None),
        (
            JOINED,
            {"was_down": True, "end": 19, "high_watermark_checkpoint": 10},
            False,
            "may have been copied before it came in sync",
        ),
        ([THREE, ONE, OUT | {"elr": (2,)}, IN | {"elr": ()}], {}, False, None),
        # A record of that time shows that it was copied later, as a later epoch and the begin of the copy do.
        (JOINED, written_until(1004), False, None),
        (JOINED, written_until(1003), False, "may have been copied before it came in sync"),
        (JOINED, written_until(None), False, "may have been copied before it came in sync"),
        ([*JOINED, OUT, IN], written_until(1005), False, "may have been copied before it came in sync"),
        ([OUT, THREE, IN, ONE], {}, False, None),
        (JOINED, {"begun": 3004}, False, None),
        (JOINED, {"begun": 3003}, False, "may have been copied before it came in sync"),
        ([THREE, ONE], {"checkpoint_epochs": ((0, 0), (2, 20), (3, 30))}, False, "was cut after it was copied"),
        ([THREE, ONE], {"checkpoint_epochs": ((0, 0), (2, 20), (3, 30))}, True, None),
    ],
)
def test_a_member_that_was_copied_too_early_bounds_nothing(
    changes: list[dict], two: dict[str, Any], one_moment: bool, why: str | None
) -> None:
    """Broker 2, which is in sync by now, ends at 35."""
    found, reasons = _bounding(changes, {}, one_moment=one_moment, **two)
    assert found == ([1, 2] if why is None else [1])
    assert (why is None and not reasons) or why in reasons[0]


@pytest.mark.parametrize(("changes", "found"), [([THREE, ONE], [2]), (JOINED, [])])
def test_a_member_as_long_as_a_leader_that_does_not_bound(changes: list[dict], found: list[int]) -> None:
    assert _bounding(changes, {"killed": True}, end=40)[0] == found


@pytest.mark.parametrize(("changes", "found"), [([THREE, ONE], [1, 2]), (JOINED, [1])])
def test_a_member_as_long_as_the_leader_with_other_records(changes: list[dict], found: list[int]) -> None:
    """It was copied before it was cut and came in sync, or has not fetched since the election."""
    assert _bounding(changes, {}, stretches=(OffsetRange(32, 40),), end=40)[0] == found


def _bounding(
    changes: list[dict],
    one: dict[str, Any],
    *,
    one_moment: bool = False,
    begun: int | None = None,
    stretches: tuple[OffsetRange, ...] = (),
    **two: Any,
) -> tuple[list[int], list[str]]:
    """Brokers whose ends bound, and why others do not; `begun`: when the copy of broker 2 began."""
    known = leadership(source="metadata_log", leader_epoch=3, history=history(*map(dict, changes)))
    facts = log(2, (0, 0), (2, 20), **{"end": 35, "high_watermark_checkpoint": 30, **two})
    made = case(
        log(1, (0, 0), (2, 20), (3, 30), end=40, **one),
        compared(facts, stretches=stretches),
        said=known,
        history=known.history,
    )
    copies = () if begun is None else (CopiedLogDir(*facts.key, begun, begun, "live"),)
    found, reasons = bounding_ends(
        made.reference, made.comparisons, known, one_moment=one_moment, times=CaptureTimes(copies)
    )
    return [end.broker_id for end in found], reasons
