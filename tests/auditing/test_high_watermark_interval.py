"""How recorded high watermarks and log ends make an interval: every condition decides once for and once against."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.made_cases import case, compared, leadership, log

from replica_audit.auditing.compare.comparison import Comparison
from replica_audit.auditing.leadership.capture_times import CaptureTimes
from replica_audit.auditing.leadership.high_watermark_bounds import HighWatermark, bound_high_watermark
from replica_audit.model import OffsetRange

STARTS = ((0, 0), (2, 20))


def member(
    broker: int = 2, starts: Any = STARTS, end: int = 35, conflict: int | None = None, **changes: Any
) -> Comparison:
    """A follower in sync, whose own mark is low; from `conflict` on it has other records than the reference."""
    parted = () if conflict is None else (OffsetRange(conflict, end),)
    facts = log(broker, *starts, **{"end": end, "high_watermark_checkpoint": 10, **changes})
    return compared(facts, stretches=parted, common_prefix_end=end if conflict is None else conflict)


def bounded(
    *members: Comparison,
    said: dict[str, Any] | None = None,
    one: dict[str, Any] | None = None,
    one_moment: bool = False,
    shorter: bool = False,
    **of_reference: Any,
) -> HighWatermark:
    """Broker 1, the reference, ends at 40, and its mark is 30."""
    known = leadership(**said or {})
    leader = {"starts": STARTS, "end": 40, "high_watermark_checkpoint": 30, **(one or {})}
    own = log(1, *leader.pop("starts"), **leader)
    made = case(own, *members, said=known, **{"elr": known.elr, **of_reference})
    return bound_high_watermark(
        made.reference,
        made.comparisons,
        leadership=known,
        one_moment=one_moment,
        times=CaptureTimes(),
        shorter=shorter,
        stable=None,
    )


KILLED = {"killed": True}
#: A log of one epoch that goes on past the reference's end, as its own mark does.
PAST: dict[str, Any] = {"starts": ((2, 0),), "end": 50, "high_watermark_checkpoint": 45}


@pytest.mark.parametrize(
    ("members", "changes", "found", "why"),
    [
        ([member()], {}, (30, 35, "interval"), "log end 35 of broker 2"),
        ([member(end=30)], {}, (30, 30, "bounds_meet"), "log end 30 of broker 2"),
        ([member()], {"isr": None}, (30, 40, "interval"), "the in-sync replicas are not known"),
        ([member(**KILLED)], {"one": KILLED}, (30, None, "interval"), "no log end bounds it; broker 1 was killed"),
        # A member that is too short was copied earlier, unless the copies are of one moment, or it conflicts.
        ([member(end=25)], {}, (25, 30, "capture_skew"), "checkpointed high watermark 30 of broker 1"),
        ([member(end=25)], {"one_moment": True}, (30, 40, "interval"), "broker 2 ends at 25, below what is proven"),
        ([member(end=25, conflict=22)], {}, (30, 40, "interval"), "broker 2 ends at 22, below what is proven"),
        ([member(end=25, conflict=22), member(3, end=35)], {"isr": (1, 2, 3)}, (30, 40, "interval"), "log end 40"),
        # Without an epoch where they part, an election need not have cut it there.
        ([member(conflict=20)], {"one": {"high_watermark_checkpoint": 15}}, (15, 20, "interval"), "diverging tail 20"),
        (
            [member(starts=((-1, 0), (2, 25)), conflict=20)],
            {"one": {"high_watermark_checkpoint": 15}},
            (15, 40, "interval"),
            "broker 2 keeps no epochs",
        ),
        (
            [member(conflict=20)],
            {"one": {"starts": ((-1, 0), (2, 25)), "high_watermark_checkpoint": 15}},
            (15, 40, "interval"),
            "broker 2 keeps no epochs",
        ),
        # Others have more than the reference.
        ([member(end=45)], {"shorter": True}, (30, 45, "interval"), "broker 1 ends at 40, and another replica shows"),
        ([member(end=45)], {}, (30, 40, "interval"), "log end 40 of broker 1"),
        ([member()], {"shorter": True}, (30, 35, "interval"), "log end 35 of broker 2"),
        (
            [member(**PAST)],
            {"one": {"starts": ((2, 0),), "high_watermark_checkpoint": 40}},
            (40, 50, "interval"),
            "broker 1 ends at 40, and another replica shows that there was more",
        ),
    ],
)  # fmt: skip
def test_the_interval(members: list[Comparison], changes: dict[str, Any], found: tuple, why: str) -> None:
    said = {"isr": changes.pop("isr")} if "isr" in changes else {}
    mark = bounded(*members, said=said, **changes)
    assert (mark.hw_lower, mark.hw_upper, mark.method) == found
    assert why in mark.upper_evidence
    is_open = why.startswith("broker 1 ends") or mark.hw_upper is None or mark.method == "capture_skew"
    assert mark.leader_end_bounds is (not is_open and not changes.get("shorter"))


OLD = ((0, 0),)
DOWN: dict[str, Any] = {"starts": OLD, "conflict": 20, "was_down": True, "clean_shutdown": True}


@pytest.mark.parametrize(
    ("members", "changes", "lowest", "earlier"),
    [
        ([member(conflict=20)], {}, (2, 20), None),
        ([member()], {}, None, None),
        ([member(conflict=30)], {}, None, None),
        ([member(3, conflict=20)], {}, None, None),
        ([member(3, conflict=20)], {"said": {"elr": (3,)}}, (3, 20), None),
        ([member(conflict=20)], {"said": {"isr": None}}, None, None),
        ([member(conflict=20)], {"is_replaced": True}, None, None),
        # Its log begins above by now.
        ([member(conflict=20, checkpoint_epochs=((2, 32),))], {}, None, None),
        # It may have been cut since, as it does not know the reference's epoch, or by its own epoch file.
        ([member(starts=OLD, conflict=20)], {}, None, (2, 20)),
        ([member(starts=OLD, conflict=20)], {"one_moment": True}, (2, 20), None),
        ([member(starts=OLD, conflict=20)], {"leader_epoch": None}, (2, 20), None),
        (
            [member(conflict=20, checkpoint_epochs=(*STARTS, (3, 25))), member(3, (*STARTS, (3, 25)))],
            {}, None, (2, 20),
        ),
        # Not so if it is still down, and differs in what was committed before.
        ([member(**DOWN)], {"said": {"fenced": (2,)}}, (2, 20), None),
        ([member(**DOWN)], {"said": {"fenced": ()}}, None, (2, 20)),
        ([member(**DOWN)], {"said": {"fenced": None}}, None, (2, 20)),
        ([member(**DOWN | {"was_down": False})], {"said": {"fenced": (2,)}}, None, (2, 20)),
        ([member(**DOWN)], {"said": {"fenced": (2,)}, "one": {"in_any_order": True}}, None, (2, 20)),
        # The bytes after its last sound batch are damage.
        ([member(end=25, tail_kind="garbage")], {}, (2, 25), None),
        ([member(end=25)], {}, None, None),
        ([member(end=35, tail_kind="garbage")], {}, None, None),
        ([member(end=25, tail_kind="zero_filled", clean_shutdown=True)], {}, (2, 25), None),
        ([member(end=25, tail_kind="zero_filled")], {}, None, None),
        # The lowest, and of these the first.
        ([member(conflict=24), member(3, conflict=22)], {"said": {"isr": (1, 2, 3)}}, (3, 22), None),
        ([member(3, conflict=22), member(conflict=22)], {"said": {"isr": (1, 2, 3)}}, (2, 22), None),
    ],
)  # fmt: skip
def test_suffixes_of_members_that_cannot_serve_what_was_committed(
    members: list[Comparison], changes: dict[str, Any], lowest: tuple | None, earlier: tuple | None
) -> None:
    mark = bounded(*members, **changes)
    assert (mark.lowest_suffix, mark.earlier_suffix) == (lowest, earlier)
