"""Records past the reference's end that were never committed, or may not have been: a row for each condition (C.1, C.2, F.0).

Broker 1 has ten of them, from offset 30 on, in two batches. Broker 3 is the reference and ends there.
"""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.histories import history
from tests.support.made_cases import batch, case, compared, divergent, leadership, log

from replica_audit.auditing.compare.alignment import Alignment
from replica_audit.auditing.compare.divergence_cause import Cause
from replica_audit.auditing.leadership.high_watermark_bounds import HighWatermark
from replica_audit.auditing.leadership.uncommitted import (
    bounded_by_frozen_epochs,
    frozen_epochs,
    with_uncommitted_tails,
)
from replica_audit.model import PartitionState
from replica_audit.protocol.election import Election
from replica_audit.segments.batch_rows import Batches

Changes = list[dict[str, Any]]
Starts = tuple[tuple[int, int], ...]
TWO = {"configs": {"min.insync.replicas": "2"}}
#: Broker 1 leads alone, while broker 3 is eligible; nobody does.
FROZEN: dict[str, Any] = TWO | {"leader_id": 1, "isr": (1,), "elr": (3,)}
NOBODY: dict[str, Any] = {"leader_id": None}
CLEAN_TO_2: dict[str, Any] = {"leader_id": 2, "isr": (2, 3)}
UNCLEAN_TO_2: dict[str, Any] = {"leader_id": 2, "isr": (2,), "recovering": True}
SNAPSHOT = {"occasion": "snapshot"}

MINIMUM, LACKED, ELIGIBLE = "the ISR never met", "did not have them", "is eligible to lead"
SHRUNK, UNSHOWN, LATER = "the ISR had shrunk", "nothing shows that it had them", "committed in epoch 2"


MARK = HighWatermark(10, 60, 10, 10, "interval", "", "lower", "upper", 2, True)


def states_of(changes: Changes) -> tuple[PartitionState, ...]:
    """A history whose first change is a snapshot begins with it."""
    return history(*map(dict, changes))[int(bool(changes) and "occasion" in changes[0]) :]


def tails(
    changes: Changes,
    holder: Starts,
    *others: Starts,
    version: tuple[int, ...] | None = None,
    epochs: tuple[int, int] | None = None,
    of_2: dict[str, Any] | None = None,
    of_1: dict[str, Any] | None = None,
    of_3: dict[str, Any] | None = None,
    **known: Any,
) -> tuple[tuple[int, str] | None, tuple[int, str] | None]:
    """(start, reason) of what was never committed, and of what is undecided. `others`: the epochs of broker 2, if it is here; `of_…`: what
    is said of a broker's log; `epochs`: those of the two batches, by default the last of `holder`."""
    first, second = epochs or (holder[-1][0], holder[-1][0])
    ahead = Batches.of((batch(30, 34, epoch=first), batch(35, 39, epoch=second)))
    states = states_of(changes)
    said = leadership(source="metadata_log", history=states, **{"leader_id": None, "isr": (), "replicas": (1, 2, 3)})
    reference = log(3, (0, 0), end=30, **{"high_watermark_checkpoint": 20, **(of_3 or {})})
    follower = log(1, *holder, **{"high_watermark_checkpoint": 20, **(of_1 or {})})
    beside = [compared(log(2, *starts, **{"high_watermark_checkpoint": 20, **(of_2 or {})})) for starts in others]
    made = case(
        reference, compared(follower, alignment=Alignment(ahead=ahead)), *beside,
        said=said, **{"leader_id": None, "history": states, **known},
    )  # fmt: skip
    frozen = frozen_epochs(made.replicas, said, version)
    item = with_uncommitted_tails(made.comparisons, made.reference, said, frozen)[0]
    never, undecided = ((one and (one.start_offset, one.why)) for one in (item.never_committed, item.undecided))
    return never, undecided


def check(found: tuple, never: tuple[int, str] | None, undecided: tuple[int, str] | None) -> None:
    for one, expected in zip(found, (never, undecided), strict=True):
        assert (one is None) == (expected is None), found
        if one is not None and expected is not None:
            assert one[0] == expected[0] and expected[1] in one[1], found


WROTE: Starts = ((0, 0), (1, 30))


@pytest.mark.parametrize(
    ("changes", "others", "version", "never", "undecided"),
    [
        # All of its epoch the ISR was below the minimum, and the version has the rule, as eligible replicas show.
        ([FROZEN], (), None, (30, MINIMUM), None),
        ([FROZEN | {"elr": ()}], (), (3, 7), (30, MINIMUM), None),
        ([FROZEN | {"elr": ()}], (), None, None, None),
        ([FROZEN], (), (3, 6), None, None),
        ([FROZEN | {"configs": {}}], (), (3, 7), None, None),
        # It was not at first, or at last.
        ([FROZEN | {"isr": (1, 3)}, {"isr": (1,)}], (), (3, 7), None, (30, SHRUNK)),
        ([FROZEN, {"isr": (1, 3)}], (), (3, 7), None, None),
        # A later leader that may have had them met it, or was without them.
        ([FROZEN, {"leader_id": 1, "isr": (1, 3)}], (), (3, 7), None, (30, LATER)),
        ([FROZEN, CLEAN_TO_2], (((0, 0), (1, 30), (2, 40)),), (3, 7), None, (30, LATER)),
        ([FROZEN, CLEAN_TO_2], (((0, 0), (2, 30)),), (3, 7), (30, MINIMUM), None),
        ([FROZEN, UNCLEAN_TO_2], (((0, 0), (1, 30), (2, 40)),), (3, 7), (30, MINIMUM), None),
        # While nobody led nothing was committed, whatever the minimum was.
        ([FROZEN, NOBODY, {"configs": {}}], (), (3, 7), (30, MINIMUM), None),
        # States of the epoch before the snapshot are not known.
        ([FROZEN | SNAPSHOT], (), (3, 7), None, (30, SHRUNK)),
        ([SNAPSHOT, FROZEN], (), (3, 7), (30, MINIMUM), None),
    ],
)
def test_what_was_written_below_the_minimum(
    changes: Changes,
    others: tuple[Starts, ...],
    version: tuple[int, ...] | None,
    never: tuple[int, str] | None,
    undecided: tuple[int, str] | None,
) -> None:
    check(tails(changes, WROTE, *others, version=version), never, undecided)


def test_a_partition_that_was_created_below_the_minimum_never_met_it() -> None:
    first, *_ = history()
    states = (first._replace(isr=(1,), **TWO),)
    frozen = frozen_epochs((), leadership(source="metadata_log", history=states), (3, 7))
    assert frozen is not None and (frozen.epochs, frozen.committing, frozen.lowered) == ({0}, set(), {0})
    found = bounded_by_frozen_epochs(MARK._replace(hw_lower=0, reached=0), case(log(3, *STAY)).reference, frozen)
    assert found.hw_upper == 0


def test_only_a_later_leader_may_have_committed_them() -> None:
    said = leadership(source="metadata_log", history=states_of([FROZEN]))
    frozen = frozen_epochs((log(1, (0, 0), (1, 20)),), said, (3, 7))
    assert frozen is not None and frozen.committing == {0}
    assert frozen.never_committed(1, 30) and not frozen.never_committed(0, 10) and not frozen.never_committed(None, 30)


STAY: Starts = ((0, 0),)
#: The log of a leader of epoch 1 that began below them, and above.
SHORTER, LONGER = ((0, 0), (1, 30)), ((0, 0), (1, 40))


@pytest.mark.parametrize(
    ("changes", "others", "known", "never", "undecided"),
    [
        # A clean winner did not have them, by its log.
        ([CLEAN_TO_2], (SHORTER,), {}, (30, f"broker 2 {LACKED}"), None),
        ([CLEAN_TO_2], (LONGER,), {}, None, None),
        ([CLEAN_TO_2], (), {}, None, (30, UNSHOWN)),
        ([CLEAN_TO_2], (((0, 0), (1, 35)),), {}, (35, LACKED), None),
        ([UNCLEAN_TO_2], (SHORTER,), {}, None, (30, UNSHOWN)),
        ([NOBODY | {"isr": (2,)}, {"leader_id": 2}], (((0, 0), (2, 30)),), {}, None, (30, UNSHOWN)),
        # It has lost the end of its log since.
        ([CLEAN_TO_2], (SHORTER,), {"of_2": {"high_watermark_checkpoint": 50}}, None, (30, UNSHOWN)),
        # The history begins later.
        ([CLEAN_TO_2 | SNAPSHOT], (SHORTER,), {}, None, (30, UNSHOWN)),
        ([SNAPSHOT, CLEAN_TO_2], (SHORTER,), {}, (30, LACKED), None),
        # Some of them are proven committed, by the holder's mark, or by that of another that has them.
        ([CLEAN_TO_2], (SHORTER,), {"of_1": {"high_watermark_checkpoint": 33}}, None, (35, UNSHOWN)),
        ([CLEAN_TO_2], (SHORTER,), {"of_1": {"high_watermark_checkpoint": 40}}, None, None),
        ([CLEAN_TO_2], (SHORTER,), {"of_1": {"high_watermark_checkpoint": 30}}, (30, LACKED), None),
        ([CLEAN_TO_2], (SHORTER,), {"of_1": {"high_watermark_checkpoint": 41}}, (30, LACKED), None),
        ([CLEAN_TO_2], (SHORTER,), {"of_2": {"high_watermark_checkpoint": 33}}, (30, LACKED), None),
        ([CLEAN_TO_2], (STAY,), {"of_2": {"high_watermark_checkpoint": 33}}, None, (35, UNSHOWN)),
        # What another deleted below its log start was the same, if it goes on in the same epoch there.
        ([CLEAN_TO_2], (((0, 35),),), {"of_2": {"log_start_offset": 35}}, None, (35, UNSHOWN)),
        ([CLEAN_TO_2], (((1, 35),),), {"of_2": {"log_start_offset": 35}}, (35, LACKED), (30, UNSHOWN)),
        # The reference's own mark is past its end.
        ([CLEAN_TO_2], (), {"of_3": {"high_watermark_checkpoint": 33}}, None, (35, UNSHOWN)),
        ([CLEAN_TO_2], (SHORTER,), {"of_1": {"high_watermark_checkpoint": 35}}, None, (35, UNSHOWN)),
        ([CLEAN_TO_2], (SHORTER,), {"of_2": {"high_watermark_checkpoint": None}}, (30, LACKED), None),
        # Nobody led since.
        ([NOBODY | SNAPSHOT], (), {}, None, None),
        ([], (), {}, None, None),
        ([NOBODY], (), {}, None, None),
        # The logs are later than the history.
        ([CLEAN_TO_2], (SHORTER,), {"outdated": leadership()}, None, None),
    ],
)
def test_what_an_election_left_behind(
    changes: Changes,
    others: tuple[Starts, ...],
    known: dict[str, Any],
    never: tuple[int, str] | None,
    undecided: tuple[int, str] | None,
) -> None:
    check(tails(changes, STAY, *others, **known), never, undecided)


@pytest.mark.parametrize(
    ("changes", "of_2", "of_3", "never"),
    [
        # Broker 2 led epoch 1 without them, and broker 3, which had not followed it yet, epoch 2 with them.
        ([CLEAN_TO_2, {"leader_id": 3}], SHORTER, ((0, 0), (2, 40)), None),
        ([CLEAN_TO_2, {"leader_id": 3}], SHORTER, ((0, 0), (1, 30), (2, 30)), f"broker 2 {LACKED}"),
        ([CLEAN_TO_2, {"leader_id": 3}], SHORTER, STAY, f"broker 2 {LACKED}"),
        # The history begins after they were written.
        ([CLEAN_TO_2 | SNAPSHOT, {"leader_id": 3}], STAY, ((0, 0), (2, 30)), None),
        # What broker 2 had is not known, and broker 3 did not have them.
        ([CLEAN_TO_2, {"leader_id": 3}], STAY, ((0, 0), (2, 30)), f"broker 3 {LACKED}"),
    ],
)
def test_the_first_leader_without_them_counts_if_none_had_them_later(
    changes: Changes, of_2: Starts, of_3: Starts, never: str | None
) -> None:
    found, _ = tails(changes, STAY, of_2, of_3={"checkpoint_epochs": of_3})
    assert (found and found[0]) == (None if never is None else 30), found
    assert never is None or (found is not None and never in found[1]), found


def test_how_their_own_leader_was_elected_does_not_matter() -> None:
    changes = [CLEAN_TO_2, {"leader_id": 1, "isr": (1,), "recovering": True}, {"isr": (1, 2, 3)}, CLEAN_TO_2]
    check(tails(changes, ((0, 0), (2, 30)), ((0, 0), (3, 30))), (30, LACKED), None)


def test_a_record_of_the_same_epoch_at_the_same_offset_is_the_same() -> None:
    """Whatever the lineages below it are: the mark of broker 2 proves it committed."""
    found = tails([{"leader_id": 1}, CLEAN_TO_2], ((0, 0), (1, 20)), ((1, 10),), of_2={"high_watermark_checkpoint": 33})
    check(found, None, (35, UNSHOWN))


CLEAN: dict[str, Any] = {"elr": (3,), "of_3": {"clean_shutdown": True}}


@pytest.mark.parametrize(
    ("changes", "known", "is_never"),
    [
        ([CLEAN_TO_2], CLEAN, True),
        ([CLEAN_TO_2], CLEAN | {"of_3": {}}, False),
        ([CLEAN_TO_2], CLEAN | {"elr": ()}, False),
        ([CLEAN_TO_2], CLEAN | {"leader_id": 2}, False),
        ([CLEAN_TO_2], CLEAN | {"of_3": {"clean_shutdown": True, "high_watermark_checkpoint": 33}}, False),
        ([UNCLEAN_TO_2], CLEAN, False),
        # It led epoch 2, in which they were written, and has lost them since, or epoch 1.
        ([NOBODY, {"leader_id": 3}, CLEAN_TO_2], CLEAN | {"epochs": (2, 2)}, False),
        ([{"leader_id": 3}, {"leader_id": 1}, CLEAN_TO_2], CLEAN | {"epochs": (2, 2)}, True),
    ],
)
def test_who_is_eligible_and_was_stopped_cleanly_has_all_that_was_committed(
    changes: Changes, known: dict[str, Any], is_never: bool
) -> None:
    never, undecided = tails(changes, ((0, 0), (2, 30)) if "epochs" in known else STAY, **known)
    assert (never is not None and ELIGIBLE in never[1]) is is_never, never
    assert is_never or (undecided is not None and UNSHOWN in undecided[1])


def test_a_tail_ends_where_a_batch_has_no_reason() -> None:
    assert tails([FROZEN], WROTE, epochs=(0, 1), version=(3, 7))[0][0] == 35
    assert tails([FROZEN], WROTE, epochs=(1, 0), version=(3, 7))[0] is None
    assert tails([CLEAN_TO_2], STAY, SHORTER, epochs=(-1, -1)) == (None, None)
    # Nor has it one if its epoch is later than the history.
    assert tails([CLEAN_TO_2], ((0, 0), (2, 30))) == (None, None)


BEGAN: Starts = ((0, 0), (1, 30))


@pytest.mark.parametrize(
    ("changes", "reference", "other", "mark", "upper"),
    [
        ([FROZEN], BEGAN, STAY, {}, 30),
        ([FROZEN], BEGAN, STAY, {"hw_upper": None}, 30),
        ([FROZEN], BEGAN, STAY, {"hw_upper": 30}, None),
        ([FROZEN], BEGAN, STAY, {"hw_upper": 29}, None),
        ([FROZEN], BEGAN, STAY, {"hw_lower": 30}, 30),
        # More is proven.
        ([FROZEN], BEGAN, STAY, {"hw_lower": 31}, None),
        ([FROZEN], BEGAN, STAY, {"reached": 31}, None),
        ([FROZEN], BEGAN, STAY, {"method": "capture_skew"}, None),
        # It has stood still since the first frozen epoch after which none may have committed.
        ([FROZEN, {"leader_id": 1}], (*BEGAN, (2, 40)), STAY, {}, 30),
        ([FROZEN, {"leader_id": 1, "isr": (1, 3)}, {"leader_id": 1, "isr": (1,)}], (*BEGAN, (2, 40), (3, 50)), STAY, {}, 50),
        ([FROZEN, {"leader_id": 1, "isr": (1, 3)}], (*BEGAN, (2, 40)), STAY, {}, None),
        # The log has an epoch that the history, or its committed part, has not.
        ([FROZEN], (*BEGAN, (2, 40)), STAY, {}, None),
        ([FROZEN, {"leader_id": 1, "isr": (1, 3), "uncommitted": True}], (*BEGAN, (2, 40)), STAY, {}, None),
        ([FROZEN, {"leader_id": 1, "isr": (1, 3), "uncommitted": True}], BEGAN, STAY, {}, 30),
        # The reference has not got that epoch: another log tells where it began, if every election since was clean.
        ([FROZEN], STAY, ((0, 0), (1, 35)), {}, 35),
        ([FROZEN], STAY, STAY, {}, None),
        ([FROZEN, FROZEN | UNCLEAN_TO_2], STAY, ((0, 0), (1, 35)), {}, None),
        ([FROZEN | UNCLEAN_TO_2], STAY, ((0, 0), (1, 35)), {}, None),
        ([UNCLEAN_TO_2, FROZEN | {"leader_id": 1, "recovering": False, "isr": (1, 2)}, FROZEN | {"leader_id": 1}], STAY, ((0, 0), (3, 35)), {}, 35),
        ([FROZEN], BEGAN, ((0, 0), (1, 25)), {}, 30),
    ],
)  # fmt: skip
def test_the_high_watermark_stands_still_since_a_frozen_epoch_began(
    changes: Changes, reference: Starts, other: Starts, mark: dict[str, Any], upper: int | None
) -> None:
    said = leadership(source="metadata_log", history=states_of(changes))
    made = case(log(3, *reference, end=60), compared(log(1, *other, end=60)), said=said)
    frozen = frozen_epochs(made.replicas, said, (3, 7))
    known = MARK._replace(**mark)
    found = bounded_by_frozen_epochs(known, made.reference, frozen)
    if upper is None:
        assert found == known
    else:
        assert (found.hw_upper, found.method) == (upper, "bounds_meet" if known.hw_lower == upper else "interval")
        assert found.upper_evidence.startswith(f"start {upper} of leader epoch ")


def test_nothing_stands_still_without_the_rule_or_if_the_logs_are_later() -> None:
    said = leadership(source="metadata_log", history=states_of([FROZEN]))
    made = case(log(3, *BEGAN), said=said)
    frozen = frozen_epochs(made.replicas, said, (3, 7))
    assert bounded_by_frozen_epochs(MARK, made.reference, None) == MARK
    outdated = case(log(3, *BEGAN), said=said, outdated=leadership()).reference
    assert bounded_by_frozen_epochs(MARK, outdated, frozen) == MARK
    assert frozen_epochs(made.replicas, None, (3, 7)) is None
    behind = case(log(3, *STAY, end=30), compared(log(1, *STAY)))
    assert with_uncommitted_tails(behind.comparisons, behind.reference, None, None) == behind.comparisons


WON = Election(3, 1, 3, 3, True, 2, (1, 2), (), (1, 2), False, False)
DATA = {"batches": [batch(30, 39)]}
CLEAN, NOT_CLEAN = Cause(WON, True, 10), Cause(WON, False, 10)
TO_33 = {"committed_end": 33, "committed_records": 3}
#: A log whose tail was lost with the disk.
TAIL_LOST = {"killed": True, "high_watermark_checkpoint": 50}


@pytest.mark.parametrize(
    ("run", "known", "copied", "at_most"),
    [
        ({"cause": None}, {}, {}, 40),
        ({"cause": Cause(WON, True, None)}, {}, {}, 40),
        ({"cause": CLEAN}, {"protocol": "high-watermark"}, {}, 40),
        # A clean election had all that was committed, if its winner's log is whole.
        ({"cause": CLEAN}, {}, {}, -1),
        ({"cause": CLEAN}, {}, TAIL_LOST, 40),
        ({"cause": Cause(WON._replace(leader_id=2), True, 10)}, {}, TAIL_LOST, -1),
        ({"cause": Cause(WON, True, 10, came_back=True)}, {}, {}, 40),
        ({"cause": CLEAN, "committed_end": 33}, {}, {}, 40),
        # Another lost what may have been acknowledged by all in sync.
        ({"cause": NOT_CLEAN}, {}, {}, 40),
        ({"cause": Cause(WON, False, 0)}, {}, {}, -1),
        ({"cause": Cause(WON, False, 0), "batches": ()}, {}, {}, 40),
        ({"cause": Cause(WON, False, 3), **TO_33}, {}, {}, 33),
        ({"cause": Cause(WON, False, 4), **TO_33}, {}, {}, 40),
    ],
)
def test_up_to_where_a_run_may_have_been_committed(
    run: dict[str, Any], known: dict[str, Any], copied: dict[str, Any], at_most: int
) -> None:
    made = case(log(1, (0, 0), (2, 20), **copied), compared(log(2, (0, 0), (1, 30))), **known)
    proven = run.get("committed_end", -1)
    assert made.committed_in(divergent(**{**DATA, **run})) == (proven, at_most)
