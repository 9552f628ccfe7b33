"""Text of findings on a high watermark or recovery point that a log or its in-sync replicas contradict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from tests.support.made_cases import case, compared, leadership, log, segment

from replica_audit.auditing.compare.comparison import Comparison
from replica_audit.auditing.finding import UNSEEN_TAIL, Finding
from replica_audit.auditing.findings import hwm_marks
from replica_audit.auditing.replicas.replica_facts import ReplicaFacts
from replica_audit.model import Leadership, OffsetRange
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


def test_what_the_leader_itself_lost_is_gone_in_every_version() -> None:
    (one,) = found(copy(1, 30, 40), copy(2, 30), quiesced=True, kafka_version=(3, 4))
    assert one.severity == "critical"


@pytest.mark.parametrize(
    ("others", "may_be_there"),
    [
        ([copy(3, 31)], True),
        ([copy(3, 30)], False),
        ([copy(3, 20, unproven=("left_out",))], True),
        ([copy(3, 30), copy(4, 45)], True),
    ],
    ids=["ends above", "ends there", "may go on", "one of two"],
)
def test_what_no_compared_log_has_may_be_on_one_that_was_set_aside(others, may_be_there) -> None:
    (one,) = found(copy(1, 30, 40), copy(2, 30), quiesced=True, set_aside=tuple(others))
    assert ("; the records between may be on broker" in one.message) is may_be_there
    assert (one.severity == "critical") is not may_be_there


def left_over(start: int, end: int, broker: int = 1, **changes: Any) -> ReplicaFacts:
    """A log of epoch 0 with these offsets."""
    return log(broker, (0, start), end=end, **changes)


def going(start: int, end: int, broker: int = 1) -> Comparison:
    """`.deleted` segments."""
    return compared(left_over(start, end, broker, log_dir=deleted_in(f"broker-{broker}/orders-0")))


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
        ([going(30, 40)], [copy(2, 40)], ""),
        ([going(20, 30)], [copy(2, 30)], "; no replica here has the records between"),
        (
            [going(30, 35), going(35, 40, 2)],
            [copy(2, 30)],
            THERE.replace("broker 1:", "broker 1 and broker-2/orders-0/*.deleted of broker 2:"),
        ),
    ],
    ids=["all", "and more", "the end", "the begin", "but the begin", "but the middle", "a replica, too", "what is below", "two"],
)  # fmt: skip
def test_what_only_files_about_to_go_have_of_a_lost_end_is_told(beside, others, text) -> None:
    (one,) = found(copy(1, 30, 40), *others, beside=tuple(beside))
    assert one.message == f"broker 1: its high watermark was 40, but its log ends at 30{text}"


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
        (copy(2, 35), {"found_end_offset": 39}, "medium", "INCONCLUSIVE", IF_DOWN, 35),
        (copy(2, 35), {"is_live": True}, "medium", "INCONCLUSIVE", ORDER_UNKNOWN, 35),
        (copy(2, 40), {"is_live": True}, "info", None, "; the broker ran, and its log was copied before its checkpoints", None),
        (left_over(40, 45, 2), {}, "info", None, "; the records between have been deleted since: broker 2 begins at 40", None),
        (left_over(39, 45, 2), {"is_live": True}, "info", None, "; the broker ran, and its log was copied before its checkpoints", None),
    ],
    ids=[
        *("in order", "nobody has the end", "the leader has all", "damaged to the mark", "damaged below it"),
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
    assert found(copy(1), copy(2), isr=(1,)) == []
