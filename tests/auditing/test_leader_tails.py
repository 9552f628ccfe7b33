"""Whether what others have past the reference's end was lost: each condition decides once for and once against."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.made_cases import batch, case, checkpoint_file, compared, leadership, log

from replica_audit.auditing.compare.alignment import Alignment
from replica_audit.auditing.leadership.capture_times import CaptureTimes
from replica_audit.auditing.leadership.leader_tail import LeaderTail
from replica_audit.batch_header import Batch
from replica_audit.model import Leadership
from replica_audit.segments.batch_rows import Batches
from replica_audit.snapshot.inventory import CopiedLogDir

#: The records that broker 2 has past the end of broker 1, which leads in epoch 2.
PAST = (batch(40, 49, epoch=2),)
UP = (CopiedLogDir(1, "broker-1", None, None, "live"),)
DOWN = (CopiedLogDir(1, "broker-1", None, None, "stopped"),)
AT_20, AT_60 = (
    CopiedLogDir(broker, f"broker-{broker}", second * 1_000, second * 1_000, "live")
    for broker, second in ((2, 20), (1, 60))
)
LATER = (AT_20, AT_60)
PERHAPS_LATER = (AT_20, AT_60._replace(kind=None, is_unseen=True))
FENCED: dict[str, Any] = {"source": "metadata_log", "fenced": (1,)}
EARLIER = (batch(40, 44, epoch=1), batch(45, 49, epoch=2))


def judged(
    ahead: tuple[Batch, ...],
    said: dict[str, Any],
    copies: tuple[CopiedLogDir, ...],
    changes: dict[str, Any] | None = None,
    *,
    starts: tuple[tuple[int, int], ...] = ((0, 0), (2, 20)),
    quiesced: bool = False,
    **of_reference: Any,
) -> tuple[LeaderTail, bool, bool]:
    """The tail, whether it is lost, and whether it may be; `starts` are the epochs of broker 2."""
    item = compared(log(2, *starts, end=50), alignment=Alignment(ahead=Batches.of(ahead)))
    own = log(1, (0, 0), (2, 20), end=40, **changes or {})
    known = leadership(**said)
    made = case(own, item, said=known, **{"leader_id": known.leader_id, **of_reference})
    tail = LeaderTail.of(made.reference, made.replicas, known, CaptureTimes(copies), quiesced)
    return tail, tail.is_lost(made.comparisons[0]), tail.may_be_lost(made.comparisons[0])


UNKNOWN_FILE: dict[str, Any] = {
    "epoch_file": checkpoint_file(1, "epoch_file", "not_given"),
    "checkpoint_epochs": None,
}


@pytest.mark.parametrize(
    ("ahead", "said", "changes", "of_reference", "is_lost"),
    [
        (PAST, {}, {}, {}, True),
        (PAST, {"leader_id": None}, {}, {}, True),
        (PAST, {"leader_id": 2}, {}, {}, False),
        ((), {}, {}, {}, False),
        # A later epoch may be its own, unless that is said.
        (PAST, {}, UNKNOWN_FILE, {}, True),
        (PAST, {"leader_epoch": None}, UNKNOWN_FILE, {"leader_epoch": 2}, False),
        (PAST, {"leader_epoch": None}, {}, {"leader_epoch": 2}, True),
    ],
)
def test_in_copies_of_one_moment_who_leads_lost_what_others_have_past_its_end(
    ahead: tuple[Batch, ...], said: dict[str, Any], changes: dict[str, Any], of_reference: dict[str, Any], is_lost: bool
) -> None:
    assert judged(ahead, said, UP, changes, quiesced=True, **of_reference)[1] is is_lost
    assert judged(ahead, said, UP, changes, **of_reference)[1:] == (False, False)


@pytest.mark.parametrize(
    ("ahead", "said", "copies", "of_reference", "is_lost", "may_be_lost"),
    [
        # By the times of the copies.
        (PAST, {}, LATER, {}, True, False),
        (PAST, {}, PERHAPS_LATER, {}, False, True),
        (PAST, {}, LATER[1:], {}, False, False),
        (PAST, {"leader_id": None}, LATER, {}, False, False),
        (PAST, {}, LATER, {"outdated": leadership()}, False, False),
        (PAST, {"leader_epoch": None}, LATER, {"leader_epoch": None}, False, False),
        ((batch(40, 49, epoch=3),), {}, LATER, {}, False, False),
        ((*PAST, batch(50, 59, epoch=3)), {}, LATER, {}, False, False),
        # At its election a leader has all that lies below.
        (EARLIER, {}, LATER, {"starts": ((0, 0), (1, 20), (2, 45))}, True, False),
        (EARLIER, {}, LATER, {"starts": ((0, 0), (1, 20), (2, 44))}, False, False),
        (EARLIER[:1], {}, LATER, {"starts": ((0, 0), (1, 20))}, False, False),
        (EARLIER[:1], {}, LATER, {"starts": ((0, 0), (1, 20), (2, 45))}, False, False),
        # Of before there were epochs.
        ((batch(40, 49, epoch=-1),), {}, LATER, {}, False, True),
        ((batch(40, 49, epoch=-1),), {}, LATER[1:], {}, False, False),
        ((batch(40, 49, epoch=-1), batch(50, 59, epoch=3)), {}, LATER, {}, False, False),
        ((), {}, LATER, {}, False, False),
        # It was down, or nothing tells.
        (PAST, {}, DOWN, {}, True, False),
        (PAST, {"leader_id": None}, DOWN, {}, True, False),
        (PAST, {}, DOWN, {"predates": True}, False, False),
        (PAST, {}, DOWN, {"outdated": leadership()}, False, False),
        ((batch(40, 49, epoch=3),), {}, DOWN, {}, False, False),
        ((batch(40, 49, epoch=-1),), {}, DOWN, {}, True, False),
        (PAST, {"leader_epoch": None}, DOWN, {"leader_epoch": 2}, False, False),
        (PAST, {"leader_epoch": None, "leader_id": None}, DOWN, {"leader_epoch": 2}, False, True),
        (PAST, {"leader_epoch": None, "leader_id": None}, UP, {"leader_epoch": 2}, False, False),
        (PAST, FENCED, (), {}, False, True),
        ((batch(40, 49, epoch=3),), FENCED, (), {}, False, False),
        (PAST, FENCED | {"leader_id": 2}, (), {}, False, False),
    ],
)
def test_in_copies_of_other_moments_it_depends(
    ahead: tuple[Batch, ...],
    said: dict[str, Any],
    copies: tuple[CopiedLogDir, ...],
    of_reference: dict[str, Any],
    is_lost: bool,
    may_be_lost: bool,
) -> None:
    assert judged(ahead, said, copies, **of_reference)[1:] == (is_lost, may_be_lost)


@pytest.mark.parametrize(
    ("changes", "said", "state"),
    [
        ({"high_watermark_checkpoint": 60}, FENCED, "down"),
        ({"high_watermark_checkpoint": 40}, FENCED, "undecided"),
        # The checkpoint may be the later file.
        ({"high_watermark_checkpoint": 60, "in_any_order": True}, FENCED, "undecided"),
        ({"high_watermark_checkpoint": 60}, {}, "up"),
    ],
)
def test_a_mark_past_the_end_shows_that_the_broker_was_down(
    changes: dict[str, Any], said: dict[str, Any], state: str
) -> None:
    assert judged(PAST, said, (), changes)[0].state == state


@pytest.mark.parametrize(
    ("said", "stopped", "quiesced", "one_moment"),
    [
        ({}, {}, None, True),
        ({}, {}, False, False),
        ({"source": "user"}, {}, None, False),
        ({"source": "user"}, {}, True, True),
        ({"leader_epoch": None}, {}, None, False),
        ({"leader_epoch": 1}, {}, None, False),
        ({}, {"clean_shutdown": False}, None, False),
        ({}, {"in_any_order": True}, None, False),
        (None, {}, None, False),
    ],
)
def test_copies_of_one_moment(
    said: dict[str, Any] | None, stopped: dict[str, Any], quiesced: bool | None, one_moment: bool
) -> None:
    one, two = (log(broker, (0, 0), (2, 20), end=40, **{"clean_shutdown": True, **stopped}) for broker in (1, 2))
    known: Leadership | None = None if said is None else leadership(**{"source": "metadata_log", **said})
    made = case(one, compared(two))
    assert LeaderTail.of(made.reference, (one, two), known, CaptureTimes(), quiesced).one_moment is one_moment
