"""Text of findings on a high watermark or recovery point that a log or its in-sync replicas contradict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import pytest
from tests.support.made_cases import batch, case, compared, leadership, log, segment

from replica_audit.auditing.compare.alignment import Alignment
from replica_audit.auditing.compare.comparison import Comparison
from replica_audit.auditing.finding import UNSEEN_TAIL, Finding
from replica_audit.auditing.findings import hwm_marks
from replica_audit.auditing.leadership.capture_times import CaptureTimes
from replica_audit.auditing.replicas.replica_facts import Cleaning, ReplicaFacts
from replica_audit.literals import CaptureKind, Occasion
from replica_audit.model import Leadership, OffsetRange, PartitionState
from replica_audit.segments.batch_rows import Batches
from replica_audit.snapshot.inventory import CopiedLogDir
from replica_audit.snapshot.log_dir_names import deleted_in


def copy(
    broker_id: int,
    end: int = 30,
    mark: int | None = None,
    recovery_point: int | None = None,
    *,
    clean: bool = False,
    unproven: tuple[str, ...] = (),
    epochs: tuple[tuple[int, int], ...] | None = ((0, 0),),
    held: tuple[tuple[int, int], ...] = ((0, 0),),
) -> ReplicaFacts:
    """A replica with the epochs `held` in its batches and `epochs` in its file."""
    named = {"high_watermark_checkpoint": mark, "recovery_point_checkpoint": recovery_point, "clean_shutdown": clean}
    files = [segment(0, end, *held, unproven=unproven)]
    return log(broker_id, *held, segments=files, checkpoint_epochs=epochs, log_end_offset=end, **named)


def found(
    *copies: ReplicaFacts,
    leader: int = 0,
    stretches: Sequence[OffsetRange] = (),
    doubts: Mapping[int, str] | None = None,
    suffix: tuple[int, int] | None = None,
    said: Leadership | None = None,
    isr: tuple[int, ...] | None = None,
    **changes: Any,
) -> list[Finding]:
    """Findings where `copies[leader]` leads; its followers differ from it at `stretches`."""
    facts = copies[leader]
    items = [
        compared(one, stretches=tuple(stretches), doubt=(doubts or {}).get(one.broker_id))
        for one in copies
        if one is not facts
    ]
    made = case(facts, *items, isr=isr, leader_epoch=0, log_epoch=0, **changes)
    evidence = "high watermark checkpoint 35 of broker 1"
    mark = made.high_watermark._replace(hw_lower=35, lower_evidence=evidence, lowest_suffix=suffix)
    return list(hwm_marks.judge(replace(made, leadership=said, high_watermark=mark)))


# --- past the log end


@pytest.mark.parametrize(
    ("other_end", "text"),
    [
        (29, "; no replica here has the records between"),
        (30, "; no replica here has the records between"),
        (31, "; no replica here has the records from 31 on"),
        (39, "; no replica here has the records from 39 on"),
        (40, ""),
        (41, ""),
    ],
)
def test_a_checkpoint_past_the_log_end_says_what_no_replica_has(other_end: int, text: str) -> None:
    for lost in (copy(1, 30, 40), copy(3, 30, 40)):
        (one,) = found(*sorted([lost, copy(2, other_end)], key=lambda facts: facts.broker_id))
        assert one.message == f"broker {lost.broker_id}: its high watermark was 40, but its log ends at 30{text}"
        assert (one.code, one.severity, one.confidence, one.verdict) == (
            "HWM-CP-ABOVE-LEO", "high", "proven", "LATENT_CORRUPTION",
        )  # fmt: skip
        assert (one.broker_id, one.start_offset, one.end_offset) == (lost.broker_id, 30, 40)


@pytest.mark.parametrize(
    ("stretch", "held"),
    [((35, 45), False), ((39, 45), False), ((35, 40), False), ((40, 45), True), ((42, 45), True), ((35, 39), True)],
)
def test_without_an_epoch_file_records_of_a_lineage_that_the_leader_has_left_are_not_the_lost_ones(
    stretch, held
) -> None:
    (one,) = found(copy(1, 30, 40, epochs=None), copy(2, 45), stretches=[OffsetRange(*stretch)])
    assert ("no replica here has" in one.message) is not held


@pytest.mark.parametrize(
    ("epochs", "held", "text"),
    [
        (((0, 0),), ((0, 0),), ""),
        (((0, 0), (1, 30)), ((0, 0), (1, 30)), ""),
        (((0, 0), (1, 20)), ((0, 0), (1, 25)), ""),
        (((0, 0), (1, 35)), ((0, 0), (1, 35)), ""),
        (((0, 0), (1, 40)), ((0, 0),), ""),
        (((0, 0), (1, 35)), ((0, 0),), "; no replica here has the records from 35 on"),
        (((0, 0),), ((0, 0), (1, 35)), "; no replica here has the records from 35 on"),
        (((0, 0), (1, 30)), ((0, 0),), "; no replica here has the records between"),
        (((0, 0),), ((0, 0), (1, 20)), "; no replica here has the records between"),
    ],
)
@pytest.mark.parametrize("left", [False, True])
def test_the_lost_records_are_those_of_the_epochs_that_the_file_still_has(epochs, held, text, left) -> None:
    """Also where the leader goes on in another epoch there."""
    stretches = [OffsetRange(28, 45)] if left else []
    (one,) = found(copy(1, 30, 40, epochs=epochs), copy(2, 45, held=held), stretches=stretches)
    assert one.message == f"broker 1: its high watermark was 40, but its log ends at 30{text}"


def test_where_all_others_end_earlier_nobody_has_what_lies_past_the_end_of_a_replica() -> None:
    (one,) = found(copy(1, 20), copy(2, 30, 40, epochs=None), stretches=[OffsetRange(15, 30)])
    assert one.message.endswith("its log ends at 30; no replica here has the records between")


def test_a_lone_replica_that_lost_all_that_it_had() -> None:
    (one,) = found(copy(1, 0, 5))
    assert (
        one.message
        == "broker 1: its high watermark was 5, but its log ends at 0; no replica here has the records between"
    )


@pytest.mark.parametrize(
    ("lost", "quiesced", "other_end", "is_gone"),
    [
        (0, True, 30, True),
        (0, True, 39, True),
        (0, True, 40, False),
        (0, False, 30, False),
        (1, True, 30, True),
        (1, True, 40, False),
    ],
)
def test_what_a_replica_of_a_cluster_at_rest_lost_and_nobody_has_is_gone(lost, quiesced, other_end, is_gone) -> None:
    copies = [copy(1, other_end), copy(2, other_end)]
    copies[lost] = copy(lost + 1, 30, 40)
    (one,) = found(*copies, quiesced=quiesced)
    assert (one.severity, one.verdict, one.confidence) == (
        ("critical", "COMMITTED_LOSS", "likely") if is_gone else ("high", "LATENT_CORRUPTION", "proven")
    )


OTHER_EPOCH = {"held": ((0, 0), (1, 20)), "epochs": ((0, 0), (1, 20))}


@pytest.mark.parametrize(
    ("leader", "lost", "named", "is_gone"),
    [
        (copy(1, 39), {}, {}, True),
        (copy(1, 35, unproven=("rest",)), {}, {}, False),
        (copy(1, 39), {}, {"kafka_version": (3, 4)}, False),
        (copy(1, 39), {}, {"is_replaced": True}, False),
        (copy(1, 39), {}, {"is_leaders": False}, False),
        (copy(1, 39), {}, {"leader_id": None}, True),
        (copy(1, 39), {}, {"leader_id": None, "said": leadership(leader_id=None, replicas=(1, 2, 3))}, False),
        (copy(1, 39), OTHER_EPOCH, {}, True),
        (copy(1, 40), OTHER_EPOCH, {}, False),
        (copy(1, 45), OTHER_EPOCH, {}, False),
        (copy(1, 45), OTHER_EPOCH, {"stretches": [OffsetRange(20, 29)]}, False),
        (copy(1, 45), OTHER_EPOCH, {"stretches": [OffsetRange(20, 30)]}, True),
        (copy(1, 45), OTHER_EPOCH, {"stretches": [OffsetRange(20, 31)]}, True),
        (copy(1, 45), OTHER_EPOCH, {"stretches": [OffsetRange(20, 30)], "kafka_version": (3, 4)}, False),
    ],
    ids=[
        *("the leader ends below", "may go on", "a mark over a tail", "may have been cut", "not the leader", "no leader"),
        *("no leader, and one unread", "other epochs, and ends below", "ends there", "ends above", "differs below its end"),
        *("differs at its end", "differs past its end", "differs, a mark over a tail"),
    ],
)  # fmt: skip
def test_what_a_follower_lost_is_gone_where_the_leader_is_known_to_lack_it(leader, lost, named, is_gone) -> None:
    (one,) = found(leader, copy(2, 30, 40, **lost), quiesced=True, **named)
    assert one.code == "HWM-CP-ABOVE-LEO" and "no replica here has" in one.message
    assert (one.severity == "critical") is is_gone


def test_what_a_log_that_may_be_of_another_topic_lost_is_not_known_to_be_gone() -> None:
    """Its checkpoint may be of that topic, too."""
    (one,) = found(copy(1, 39), strangers=((compared(copy(2, 30, 40)), "no topic id"),), quiesced=True)
    assert (one.broker_id, one.severity, one.verdict) == (2, "high", "LATENT_CORRUPTION")


def test_what_the_leader_itself_lost_is_gone_in_every_version() -> None:
    (one,) = found(copy(1, 30, 40), copy(2, 30), quiesced=True, kafka_version=(3, 4))
    assert one.severity == "critical"


@pytest.mark.parametrize(
    ("others", "may_be_there"),
    [
        ([], False),
        ([copy(3, 31)], True),
        ([copy(3, 30)], False),
        ([copy(3, 20)], False),
        ([copy(3, 20, unproven=("left_out",))], True),
        ([copy(3, 30), copy(4, 45)], True),
    ],
    ids=["none", "ends above", "ends there", "ends below", "may go on", "one of two"],
)
def test_what_no_compared_log_has_may_be_on_one_that_was_set_aside(others, may_be_there) -> None:
    for is_leaders in (True, False):
        (one,) = found(copy(1, 30, 40), copy(2, 30), quiesced=True, set_aside=tuple(others), is_leaders=is_leaders)
        assert ("; the records between may be on broker" in one.message) is may_be_there
        assert ("no replica here has" in one.message) is not may_be_there
        assert (one.severity == "critical") is (is_leaders and not may_be_there)


def left_over(start: int, end: int, broker: int = 1, epoch: int = 0, **changes: Any) -> ReplicaFacts:
    """A log of one epoch with these offsets."""
    return log(broker, (epoch, start), end=end, **changes)


def going(start: int, end: int, broker: int = 1, epoch: int = 0, starts: int | None = None) -> Comparison:
    """`.deleted` segments of a log that starts there."""
    place = deleted_in(f"broker-{broker}/orders-0")
    return compared(left_over(start, end, broker, epoch, log_dir=place, log_start_checkpoint=starts))


ONLY_THERE = "; {} between are only in broker-1/orders-0/*.deleted of broker 1: Kafka is about to delete these files"
THERE = ONLY_THERE.format("the records")
SOME_THERE = ONLY_THERE.format("some of the records")


@pytest.mark.parametrize(
    ("beside", "others", "text"),
    [
        ([going(30, 40)], [copy(2, 30)], THERE),
        ([going(20, 45)], [copy(2, 30)], THERE),
        ([going(35, 40)], [copy(2, 30)], "; no replica here has offsets 30 to 34" + SOME_THERE),
        ([going(30, 36)], [copy(2, 30)], "; no replica here has the records from 36 on" + SOME_THERE),
        ([going(30, 40)], [copy(2, 33)], SOME_THERE),
        ([going(30, 40)], [copy(2, 30), left_over(33, 36, 3, high_watermark_checkpoint=None)], SOME_THERE),
        ([going(30, 40, starts=35)], [copy(2, 30)], THERE),
        ([], [copy(2, 30), left_over(30, 45, 3, log_start_checkpoint=35)], "; no replica here has offsets 30 to 34"),
        ([going(30, 40), going(20, 30, 2)], [copy(2, 30)], THERE),
        ([going(30, 40), going(30, 40, 2, epoch=1)], [copy(2, 30)], THERE),
        ([going(30, 40)], [copy(2, 40)], ""),
        ([going(20, 30)], [copy(2, 30)], "; no replica here has the records between"),
        (
            [going(30, 35), going(35, 40, 2)],
            [copy(2, 30)],
            THERE.replace("broker 1:", "broker 1 and broker-2/orders-0/*.deleted of broker 2:"),
        ),
    ],
    ids=[
        *("all", "and more", "the end", "the begin", "but the begin", "but the middle", "all, below its log start"),
        *("a replica not below its", "another what is below", "another of another epoch", "a replica, too", "what is below", "two"),
    ],
)  # fmt: skip
def test_what_only_files_about_to_go_have_of_a_lost_end_is_told(beside, others, text) -> None:
    (one,) = found(copy(1, 30, 40), *others, beside=tuple(beside))
    assert one.message == f"broker 1: its high watermark was 40, but its log ends at 30{text}"


def with_hole(start: int, until: int, broker: int = 2, end: int = 45, **changes: Any) -> ReplicaFacts:
    """A log without a segment file for these offsets."""
    files = [segment(0, start, (0, 0)), segment(until, end, (0, until))]
    return log(broker, (0, 0), segments=files, log_end_offset=end, high_watermark_checkpoint=None, **changes)


@pytest.mark.parametrize(
    ("other", "text"),
    [
        (with_hole(32, 35), "; no replica here has offsets 32 to 34"),
        (with_hole(35, 42), "; no replica here has the records from 35 on"),
        (with_hole(32, 35, end=38), "; no replica here has offsets 32 to 34, offsets 38 to 39"),
        (with_hole(30, 35, end=38), "; no replica here has offsets 30 to 34, offsets 38 to 39"),
        (with_hole(20, 30), ""),
        (with_hole(40, 42), ""),
        (with_hole(32, 35, compacted=True, cleaning=Cleaning(40, 40)), ""),
        (with_hole(32, 35, compacted=True, cleaning=Cleaning(33, 33)), "; no replica here has offsets 32 to 34"),
    ],
    ids=[
        "inside",
        "across the mark",
        "and it ends below the mark",
        "from the end on",
        "below the end",
        "above the mark",
        "a cleaner made it",
        "no cleaner came so far",
    ],
)
def test_a_log_without_a_segment_file_does_not_have_the_lost_records_of_that(other, text) -> None:
    """It counted as one that has them all. The file may be on its broker, so that they are not called gone either."""
    (one,) = found(copy(1, 30, 40), other, quiesced=True)
    assert one.message == f"broker 1: its high watermark was 40, but its log ends at 30{text}"
    assert one.severity == "high"


@pytest.mark.parametrize(
    ("gap", "text", "severity"),
    [
        (OffsetRange(32, 35), "; no replica here has offsets 32 to 34", "critical"),
        (OffsetRange(20, 25), "", "high"),
        (OffsetRange(40, 42), "", "high"),
    ],
    ids=["inside", "below the end", "above the mark"],
)
def test_a_log_without_a_batch_does_not_have_the_lost_records_of_that(gap, text, severity) -> None:
    """Unlike a file, a batch that is missing inside one is nowhere else."""
    other = log(2, (0, 0), end=45, gaps=(gap,), high_watermark_checkpoint=None)
    (one,) = found(copy(1, 30, 40), other, quiesced=True)
    assert one.message == f"broker 1: its high watermark was 40, but its log ends at 30{text}"
    assert one.severity == severity


def state(time_ms: int, leader: int | None, occasion: Occasion = "changed") -> PartitionState:
    """One of the partition's history; nobody is elected in it."""
    nobody: tuple[()] = ()
    isr = (1, 2)
    return PartitionState(
        time_ms, 9, occasion, leader, 1, 0, isr, nobody, nobody, isr, nobody, nobody, nobody, False, {}
    )


def copied(*kinds: CaptureKind | None, started_ms: int | None = 60_000, **changes: Any) -> CaptureTimes:
    """All brokers from 1 on, a second each."""
    ended = None if started_ms is None else started_ms + 1_000
    return CaptureTimes(
        tuple(
            CopiedLogDir(one, f"broker-{one}", started_ms, ended, kind, **changes) for one, kind in enumerate(kinds, 1)
        )
    )


OF_LEADER = ((0, 0), (1, 30))
LED = {"leader_epoch": 1, "log_epoch": 1}
#: Nobody knows how that leader was elected: if uncleanly, it may have cut broker 2 after the checkpoints of that were copied.
CUT = log(1, *OF_LEADER, end=60)
UNCUT = log(1, (0, 0), end=60)
SINCE_CUT = "an unclean election may have cut it after its checkpoints were copied; copy broker 2 again"
KILLED = "the broker may have been killed as it cut its log, before it wrote a smaller recovery point"
CUT_ABOVE = "it lost them, or was cut after its recovery point was copied; copy broker 2 again"
NEW_TOPIC = "of an earlier topic"
LATER_FILE = "in which order its files were copied"
AS_THE_MARK = "it lost them, or was copied before they were written, as with its high watermark of"
NOT_ON_DISK = "the log lost its end, or that end had not reached the disk"
GONE_DOWN = "may have gone down while it was copied"
INSIDE = "likely, not proven: a log that was cut inside a batch ends where that began"
IMAGE_LACKS = "the broker ran, and an image of its disk lacks what had not reached the disk"
UNTOLD = "manifest.json leaves out the kind of the copy of broker 2"
RAN = "the broker ran, and its log was copied before its checkpoints"
GONE_SINCE = "the records between have been deleted since: broker 1 begins at 50"
REASONS = {
    SINCE_CUT,
    KILLED,
    CUT_ABOVE,
    NEW_TOPIC,
    LATER_FILE,
    AS_THE_MARK,
    NOT_ON_DISK,
    GONE_DOWN,
    INSIDE,
    RAN,
    IMAGE_LACKS,
    UNTOLD,
}
PERHAPS = "a truncation: perhaps, {}"
SAID_OF_CUT = {
    KILLED: PERHAPS.format("before a smaller one was written"),
    **dict.fromkeys((SINCE_CUT, CUT_ABOVE), PERHAPS.format("after this file was copied")),
}
PROVEN, LIKELY, UNDECIDED = ("high", "proven"), ("high", "likely"), ("medium", "suspect")
CREATED = {"times": copied("live", "live"), "history": (state(60_000, 1, "created"),)}
NOBODY_LEADS = leadership(leader_id=None, history=(state(9_000, 1), state(10_000, None), state(70_000, None)))
FENCED = leadership(down_when_copied=(2,))
STOPPED = {"quiesced": True, "times": copied("stopped", "stopped")}
#: Copies with a batch of the epoch that the lost records had.
TO_50, ACROSS = (
    compared(log(3, (0, 30), log_dir="other"), alignment=Alignment(own=Batches.of([batch(30, last)])))
    for last in (49, 50)
)
UNSEEN_WITHOUT_TIMES = copied(None, None, started_ms=None, is_unseen=True)
AFTER_IT = log(1, (1, 50), end=60, log_start_offset=50)


Told: TypeAlias = tuple[str, str, str] | None
OF_REPLICA = ("in_any_order", "is_live", "was_down", "log_start_offset")


def check_past_end(
    leader: ReplicaFacts,
    marks: tuple[int | None, int | None],
    changes: dict[str, Any],
    of_mark: Told,
    of_point: Told,
) -> None:
    """Broker 2 ends at 30; its high watermark and its recovery point."""
    others = {"leader_epoch": 0, "log_epoch": 0, **{name: changes[name] for name in changes if name not in OF_REPLICA}}
    lost = replace(copy(2, 30, *marks), **{name: changes[name] for name in changes if name in OF_REPLICA})
    told = {one.code: one for one in hwm_marks.judge(case(leader, compared(lost), **others))}
    for code, expected in (("HWM-CP-ABOVE-LEO", of_mark), ("HWM-RP-ABOVE-LEO", of_point)):
        one = told.get(code)
        assert (one and (one.severity, one.confidence)) == (expected and expected[:2])
        if one is not None:
            assert expected[2] in one.message
            assert not [text for text in REASONS - {expected[2]} if text in one.message]
        if one is not None and of_point is expected:
            assert one.evidence[1].text.startswith(SAID_OF_CUT.get(expected[2], "a truncation at 30: no"))
        elif one is not None:
            is_explained = marks[0] == 70  # the epoch of broker 1 begins at the end
            known = "no recovery point is known" if marks[1] is None else f"recovery point {marks[1]}"
            said = "perhaps, and then" if is_explained else f"no, {known}, and no other leader"
            assert one.evidence[1].text.startswith(f"a truncation just before the copy: {said}")


@pytest.mark.parametrize(
    ("leader", "marks", "changes", "of_mark", "of_point"),
    [
        # the log of a running broker
        (UNCUT, (40, 40), {}, (*PROVEN, ""), (*PROVEN, "")),
        (UNCUT, (40, None), {}, (*PROVEN, ""), None),
        (UNCUT, (None, 40), {}, None, (*PROVEN, "")),
        (CUT, (40, 40), LED, (*LIKELY, SINCE_CUT), (*LIKELY, SINCE_CUT)),
        (CUT, (30, 40), LED, None, (*UNDECIDED, CUT_ABOVE)),
        (CUT, (None, 40), LED, None, (*UNDECIDED, CUT_ABOVE)),
        (CUT, (40, 40), LED | {"said": NOBODY_LEADS, "times": copied("live", "live", started_ms=13_000)}, (*PROVEN, ""), (*PROVEN, "")),
        (CUT, (40, 40), LED | {"said": NOBODY_LEADS, "times": copied("live", "live", started_ms=9_000)}, (*LIKELY, SINCE_CUT), (*LIKELY, SINCE_CUT)),
        (UNCUT, (40, 40), CREATED, (*UNDECIDED, NEW_TOPIC), (*UNDECIDED, NEW_TOPIC)),
        (CUT, (30, 40), LED | CREATED, None, (*UNDECIDED, CUT_ABOVE)),
        # A log that ends below its own start restarts there.
        (UNCUT, (None, 40), {"log_start_offset": 39}, None, (*PROVEN, "")),
        (UNCUT, (None, 40), {"log_start_offset": 40}, None, None),
        # of one that was down
        (UNCUT, (40, 40), {"quiesced": True}, (*PROVEN, ""), (*PROVEN, "")),
        (CUT, (40, 40), LED | {"quiesced": True}, (*LIKELY, KILLED), (*LIKELY, KILLED)),
        (CUT, (30, 40), LED | {"quiesced": True}, None, (*LIKELY, KILLED)),
        (CUT, (70, 30), LED | {"quiesced": True}, ("critical", "likely", "no replica here has the records between"), None),
        (CUT, (70, 20), LED | {"quiesced": True, "is_leaders": False}, (*PROVEN, "no replica here has the records between"), None),
        (CUT, (70, 30), LED | {"quiesced": True, "is_leaders": False}, (*PROVEN, "no replica here has the records between"), None),
        (UNCUT, (40, 40), {"said": FENCED, "was_down": True}, (*LIKELY, GONE_DOWN), (*LIKELY, GONE_DOWN)),
    ],
)  # fmt: skip
def test_a_checkpoint_past_the_log_end_is_as_sure_as_no_cut_explains_it(
    leader, marks, changes, of_mark, of_point
) -> None:
    check_past_end(leader, marks, changes, of_mark, of_point)


@pytest.mark.parametrize(
    ("leader", "marks", "changes", "of_mark", "of_point"),
    [
        (CUT, (40, 40), LED | {"in_any_order": True}, (*UNDECIDED, LATER_FILE), (*UNDECIDED, AS_THE_MARK)),
        (UNCUT, (None, 40), {"in_any_order": True}, None, (*UNDECIDED, LATER_FILE)),
        (UNCUT, (40, 70), {"in_any_order": True, "is_live": True}, ("info", "suspect", RAN), (*UNDECIDED, LATER_FILE)),
        (CUT, (40, 40), LED | {"in_any_order": True, "times": copied("live", "image")}, (*UNDECIDED, NOT_ON_DISK), (*PROVEN, "")),
        (UNCUT, (40, 40), {"in_any_order": True, "times": copied(None, None, is_unseen=True)}, (*UNDECIDED, NOT_ON_DISK), (*PROVEN, "")),
        (UNCUT, (40, 40), {"in_any_order": True, "times": UNSEEN_WITHOUT_TIMES}, (*UNDECIDED, LATER_FILE), (*UNDECIDED, AS_THE_MARK)),
        (UNCUT, (40, 40), {"in_any_order": True, "times": copied("live", "image", started_ms=None)}, (*UNDECIDED, NOT_ON_DISK), (*PROVEN, "")),
        (UNCUT, (40, 20), {"in_any_order": True, "is_live": True, "times": copied("live", "image")}, ("info", "suspect", IMAGE_LACKS), None),
        (UNCUT, (40, 20), {"times": copied(None, None)}, (*LIKELY, UNTOLD), None),
        # below the leader's log start
        (AFTER_IT, (50, 50), {"in_any_order": True}, ("info", "suspect", GONE_SINCE), ("info", "suspect", GONE_SINCE)),
        (AFTER_IT, (45, 45), {"in_any_order": True}, ("info", "suspect", GONE_SINCE), ("info", "suspect", GONE_SINCE)),
        (AFTER_IT, (51, 51), {"in_any_order": True}, (*UNDECIDED, LATER_FILE), (*UNDECIDED, AS_THE_MARK)),
        (AFTER_IT, (50, 50), {"quiesced": True}, (*LIKELY, INSIDE), (*LIKELY, INSIDE)),
        (AFTER_IT, (50, 50), {"said": FENCED, "was_down": True}, (*LIKELY, GONE_DOWN), (*LIKELY, GONE_DOWN)),
        (AFTER_IT, (50, 50), {"quiesced": True, "beside": (TO_50,)}, (*PROVEN, GONE_SINCE), (*PROVEN, GONE_SINCE)),
        (AFTER_IT, (50, 50), {"quiesced": True, "beside": (ACROSS,)}, ("info", "suspect", GONE_SINCE), ("info", "suspect", GONE_SINCE)),
        (AFTER_IT, (50, 50), STOPPED | {"beside": (ACROSS,)}, ("info", "suspect", GONE_SINCE), ("info", "suspect", GONE_SINCE)),
    ],
)  # fmt: skip
def test_a_checkpoint_past_the_log_end_may_be_the_later_file_or_of_what_is_deleted(
    leader, marks, changes, of_mark, of_point
) -> None:
    check_past_end(leader, marks, changes, of_mark, of_point)


@pytest.mark.parametrize(("start", "is_later"), [(25, True), (30, False), (None, False)])
@pytest.mark.parametrize("leader_epoch", [1, 2], ids=["perhaps cut by nobody", "perhaps cut"])
def test_an_epoch_file_that_is_later_than_its_log_does_not_say_who_has_what_that_lost(
    start: int | None, is_later: bool, leader_epoch: int
) -> None:
    """It has that leader's epoch from below the log's end on, where the log is of epoch 0. Records of the leader counted as the lost ones."""
    of_leader = ((0, 0), (leader_epoch, start or 30))
    lost = copy(2, 30, 40, 40, epochs=((0, 0),) if start is None else of_leader)
    made = case(
        log(1, *of_leader, end=35, high_watermark_checkpoint=35),
        compared(lost),
        leader_epoch=leader_epoch,
        log_epoch=leader_epoch,
    )
    told = next(one for one in hwm_marks.judge(made) if one.code == "HWM-CP-ABOVE-LEO")
    assert ("no replica here has" in told.message) is not is_later


@pytest.mark.parametrize(
    ("lost", "leader", "is_lacking"),
    [
        (copy(2, 30, 40), copy(1, 35), True),
        (copy(2, 30, 40), copy(1, 40), False),
        (copy(2, 30, 50, 50), log(1, (1, 50), end=60, log_start_offset=50), False),
        (copy(2, 30, 30), copy(1, 25), False),
        (copy(2, 30, None), copy(1, 25), False),
        # Another leader begins where it ends: it was cut.
        (copy(2, 30, 40, 30), log(1, (0, 0), (2, 30), end=45), False),
        (copy(2, 30, 40, 31), log(1, (0, 0), (2, 30), end=45), True),
    ],
    ids=[
        "ends below the mark",
        "ends there",
        "deleted since",
        "a mark at the end",
        "no mark",
        "cut",
        "flushed beyond that",
    ],
)
def test_whether_no_copy_has_what_was_committed(lost: ReplicaFacts, leader: ReplicaFacts, is_lacking: bool) -> None:
    assert hwm_marks.may_lack_committed_everywhere(case(leader, compared(lost))) is is_lacking


@pytest.mark.parametrize(("log_dir", "is_gone"), [("other", False), (deleted_in("broker-1/orders-0"), True)])
def test_deleted_segments_are_a_part_of_a_log_that_no_file_is_missing_from(log_dir: str, is_gone: bool) -> None:
    beside = (compared(with_hole(32, 35, 1, log_dir=log_dir)),)
    (one,) = found(copy(1, 30, 40), copy(2, 30), beside=beside, quiesced=True)
    assert "; no replica here has offsets 32 to 34" in one.message
    assert (one.severity == "critical") is is_gone


DECIDES = "copy it again {}its checkpoints first and with begin and end in manifest.json{}"
ORDER_UNKNOWN = f"nothing shows in which order its files were copied; {DECIDES.format('', '')}"
IF_DOWN = DECIDES.format("while it is down, or ", "; if it was down, give its kind there")
STATE_UNKNOWN = f"that broker 1 was down, or in which order its files were copied; {IF_DOWN}"


@pytest.mark.parametrize(
    ("leader", "facts", "severity", "verdict", "more", "held_to"),
    [
        (copy(2, 35), {"in_any_order": False}, "high", "LATENT_CORRUPTION", None, None),
        (copy(2, 35, mark=35), {}, "medium", "INCONCLUSIVE", STATE_UNKNOWN, 35),
        (copy(2, 40), {}, "medium", "INCONCLUSIVE", STATE_UNKNOWN, 40),
        (copy(2, 35), {"found_end_offset": 40}, "medium", "INCONCLUSIVE", IF_DOWN, None),
        (copy(2, 35), {"found_end_offset": 41}, "medium", "INCONCLUSIVE", IF_DOWN, None),
        (copy(2, 35), {"found_end_offset": 39}, "medium", "INCONCLUSIVE", IF_DOWN, 35),
        (with_hole(32, 35, end=38), {}, "medium", "INCONCLUSIVE", STATE_UNKNOWN, 32),
        (copy(2, 35), {"is_live": True}, "medium", "INCONCLUSIVE", ORDER_UNKNOWN, 35),
        (copy(2, 40), {"is_live": True}, "info", None, "; the broker ran, and its log was copied before its checkpoints", None),
        (left_over(40, 45, 2), {}, "info", None, "; the records between have been deleted since: broker 2 begins at 40", None),
        (left_over(39, 45, 2), {"is_live": True}, "info", None, "; the broker ran, and its log was copied before its checkpoints", None),
    ],
    ids=[
        *("in order", "nobody has the end", "the leader has all", "damaged to the mark", "damaged past it", "damaged below it", "a file is missing"),
        *("live, and nobody has the end", "live, and the leader has all", "deleted since", "live, and the leader has the last"),
    ],
)  # fmt: skip
def test_a_checkpoint_past_the_end_of_files_in_any_order_may_be_the_later_file(
    leader, facts, severity, verdict, more, held_to
) -> None:
    """Broker 1 follows broker 2, and ends at 30 with a high watermark of 40."""
    lost = replace(copy(1, 30, 40), **{"in_any_order": True, **facts})
    (one,) = found(leader, lost)
    assert (one.severity, one.verdict) == (severity, verdict)
    assert more is None or one.message.endswith(more)
    assert [found.value for found in one.evidence if found.kind == UNSEEN_TAIL] == (
        [] if held_to is None else [str(held_to)]
    )


@pytest.mark.parametrize("broker", [2, 3, 4])
def test_a_member_that_perhaps_differs_below_what_is_committed_is_told_as_skew(broker: int) -> None:
    made = case(copy(1), *(compared(copy(number)) for number in (2, 3, 4)))
    mark = made.high_watermark._replace(proven_lower=35, earlier_suffix=(broker, 20))
    (one,) = hwm_marks.judge(replace(made, leadership=None, high_watermark=mark))
    assert (one.code, one.verdict, one.broker_id) == ("CAP-SKEW", "INCONCLUSIVE", broker)
    assert (one.start_offset, one.end_offset) == (20, 35)
    assert one.message.startswith(f"broker {broker} counts as in sync but has other records from 20 on")


@pytest.mark.parametrize(("mark", "told"), [(None, False), (29, False), (30, False), (31, True)])
def test_a_checkpoint_within_the_log_is_none_of_it(mark: int | None, told: bool) -> None:
    assert bool(found(copy(1, 30, mark), copy(2))) is told


@pytest.mark.parametrize(("point", "told"), [(None, False), (29, False), (30, False), (31, True)])
def test_a_recovery_point_past_the_log_end(point: int | None, told: bool) -> None:
    messages = [one.message for one in found(copy(1, 30, None, point), copy(2))]
    assert messages == ["broker 1: offsets below 31 were flushed to disk, but its log ends at 30"] * told


def test_nothing_is_said_of_a_log_that_may_go_on_past_what_is_shown() -> None:
    assert found(copy(1, 30, 40, 50, unproven=("rest",)), copy(2)) == []


# --- and the in-sync replicas


@pytest.mark.parametrize("broker", [2, 3, 4])
def test_a_member_that_differs_below_what_is_committed(broker: int) -> None:
    copies = [copy(number) for number in (1, 2, 3, 4)]
    (one,) = found(*copies, suffix=(broker, 20), doubts={3: "no topic id"})
    assert one.message == (
        f"broker {broker} counts as in sync but has other or unreadable records from 20 on, though everything below 35 is committed"
    )
    assert (one.broker_id, one.start_offset, one.end_offset) == (broker, 20, 35)
    assert one.confidence == ("likely" if broker == 3 else "proven")


DAMAGED = {"unreadable": (OffsetRange(20, 25),), "in_any_order": True}
OPEN, SURE = ("high", "suspect", "INCONCLUSIVE"), ("critical", "proven", "COMMITTED_DIVERGENCE")
ON_NO_DISK = "these are damaged, or had not reached its disk when an image of that was made, which nothing rules out"


HAD_REACHED = "by its own epoch file the log of broker 2 had reached 41"


@pytest.mark.parametrize(
    ("leader", "member", "changes", "expected", "why"),
    [
        (copy(1), {}, {}, SURE, ""),
        (copy(1), DAMAGED, {}, OPEN, ON_NO_DISK),
        (copy(1), DAMAGED | {"recovery_point_checkpoint": 20}, {}, OPEN, ON_NO_DISK),
        (copy(1), DAMAGED | {"recovery_point_checkpoint": 21}, {}, SURE, ""),
        (copy(1), DAMAGED | {"unreadable": (OffsetRange(21, 25),)}, {}, SURE, ""),
        (copy(1), DAMAGED | {"is_live": True}, {}, SURE, ""),
        (copy(1), DAMAGED | {"is_live": True}, {"times": copied("live", "image")}, OPEN, ON_NO_DISK),
        (copy(1), DAMAGED | {"in_any_order": False}, {}, SURE, ""),
        (copy(1), DAMAGED | {"in_any_order": False}, {"times": copied(None, None)}, ("critical", "likely", SURE[2]), UNTOLD),
        (copy(1), {"unreadable": (OffsetRange(21, 25),)}, {"times": copied(None, None)}, SURE, ""),
        (copy(1), {}, {"times": copied(None, None)}, SURE, ""),
        (log(1, (0, 0), (1, 10)), {}, {}, OPEN, "is older than the log of broker 1, which has epoch 1: it does not say who is in sync now"),
        (copy(1), {"checkpoint_epochs": ((0, 0), (1, 41)), "in_any_order": True}, {}, OPEN, HAD_REACHED),
        (copy(1), {"starts": ((0, 0), (1, 20))}, {}, OPEN, "a later leader than broker 1 of epoch 0 had them"),
    ],
    ids=[
        *("differs", "damaged", "damaged from where it was flushed", "damaged below that", "damaged above", "damaged, and ran"),
        *("damaged, and an image", "damaged, in order", "damaged, and no kind", "damaged above, and no kind", "no kind"),
        *("an older source", "had more", "of a later leader"),
    ],
)  # fmt: skip
def test_a_member_that_differs_was_in_sync_with_other_records_perhaps(
    leader: ReplicaFacts, member: dict[str, Any], changes: dict[str, Any], expected: tuple[str, str, str], why: str
) -> None:
    """Broker 2, from 20 on."""
    starts = member.get("starts", ((0, 0),))
    facts = log(2, *starts, **{name: value for name, value in member.items() if name != "starts"})
    made = case(leader, compared(facts), leader_epoch=0, log_epoch=0, **changes)
    mark = made.high_watermark._replace(hw_lower=35, lowest_suffix=(2, 20))
    one = next(one for one in hwm_marks.judge(replace(made, high_watermark=mark)) if one.code == "HWM-ABOVE-ISR-PREFIX")
    assert (one.severity, one.confidence, one.verdict) == expected
    said = one.message.partition("everything below 35 is committed")[2]
    assert said.startswith("; ") and why in said if why else said == ""


@pytest.mark.parametrize(
    ("minimum", "isr", "assigned", "text"),
    [
        ("2", (1,), (1, 2, 3), "only 1 replica is in sync, but min.insync.replicas is 2"),
        ("3", (1, 2), (1, 2, 3), "only 2 replicas are in sync, but min.insync.replicas is 3"),
        ("2", (), (), "only 0 replicas are in sync, but min.insync.replicas is 2"),
        ("2", (1, 2), (1, 2, 3), None),
        ("2", (1, 2, 3), (1, 2, 3), None),
        # There are not so many replicas, or it is not known.
        ("2", (1,), (1,), None),
        ("2", (1,), (), None),
        ("2", None, (1, 2, 3), None),
        (None, (1,), (1, 2, 3), None),
        ("two", (1,), (1, 2, 3), None),
    ],
)
def test_fewer_in_sync_than_the_minimum_asks_for(minimum, isr, assigned, text) -> None:
    configs = {} if minimum is None else {"min.insync.replicas": minimum}
    said = leadership(replicas=assigned, configs=configs)
    messages = [one.message.partition(":")[0] for one in found(copy(1), copy(2), isr=isr, said=said)]
    assert messages == ([] if text is None else [text])


def test_the_minimum_matters_while_somebody_runs() -> None:
    said = leadership(configs={"min.insync.replicas": "2"})
    stopped = [copy(1, clean=True), copy(2, clean=True)]
    assert found(*stopped, isr=(1,), said=said, leader_id=None) == []
    assert found(*stopped, isr=(1,), said=said)
    assert found(copy(1), copy(2), isr=(1,), said=said, leader_id=None) == []
    assert found(copy(1), copy(2), isr=(1,)) == []
