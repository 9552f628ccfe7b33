"""Copies without a manifest: logs and checkpoints of different moments, and what was lost for sure all the same (C.2, "Files in any order")."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.scenario import Answer, audit
from tests.support.scenes import NEW, OLD, UNCLEAN_TO_2, log, scene
from tests.support.snapshots import Replica


def loss(answer: Answer) -> tuple[str, set[tuple[str, str]]]:
    """The verdict, and broker, severity of each HWM-LOSS."""
    return answer.verdict, {(row["broker_id"], row["severity"]) for row in answer.found("HWM-LOSS")}


@pytest.mark.parametrize(
    ("leader_epoch", "own", "quiesced", "lost"),
    [
        (2, ((0, 0), (1, 10)), None, True),
        (3, ((0, 0), (1, 10)), None, False),
        (3, ((0, 0), (1, 10)), True, True),
        (3, ((0, 0), (2, 10)), None, True),
        (3, (), None, False),
        (3, (), True, True),
    ],
)
def test_the_last_in_sync_without_a_leader_had_led_in_the_epoch_before(
    tmp_path: Path, leader_epoch: int, own, quiesced: bool | None, lost: bool
) -> None:
    """Broker 2; its log was copied before that if its files do not know the epoch."""
    brokers = {1: log(20, 20), 2: log(12 if own else 0, 10 if own else 0, own)}
    answer = audit(
        tmp_path, brokers, leader=None, isr=(2,), source="user", leader_epoch=leader_epoch, quiesced=quiesced
    )
    assert (answer.verdict == "COMMITTED_LOSS") is lost, answer
    if not lost:
        assert answer.verdict == "INCONCLUSIVE"
        (told,) = [row["message"] for row in answer.found("CAP-SKEW", 2)]
        assert told.startswith(
            "broker 2 led last, in epoch 2 unless the epoch was raised once more since, by the leadership file, but its own epoch file does not"
        ), told
        assert answer.mark["upper_evidence"].endswith("the files of broker 2 were copied before it led last"), (
            answer.mark
        )


@pytest.mark.parametrize(("isr", "leader"), [((2, 3), None), ((2,), 2)])
def test_it_is_not_known_of_one_among_several_in_sync(tmp_path: Path, isr: tuple[int, ...], leader: int | None) -> None:
    """Any of them may have led."""
    epochs = ((0, 0), (1, 10)) if leader is None else ((0, 0), (3, 10))
    brokers = {1: log(20, 20), 2: log(12, 10, epochs), 3: log(11, 10, epochs)}
    answer = audit(tmp_path, brokers, leader=leader, isr=isr, source="user", leader_epoch=3)
    assert answer.verdict == "COMMITTED_LOSS", answer


@pytest.mark.parametrize(("kept_to", "lost"), [(49, False), (48, True), (45, True)])
def test_what_a_later_leaders_log_has_on_another_replica_is_not_lost(tmp_path: Path, kept_to: int, lost: bool) -> None:
    """Broker 1 led in epoch 5 from 44 on, then somebody in epoch 6: broker 2 has records of that, and its epoch file was copied before."""
    brokers = {
        1: log(44, 37, ((3, 0), (5, 44))),
        2: replace(log(54, 37, ((3, 0), (6, kept_to))), epochs=((3, 0),)),
        3: log(49, 49, ((3, 0),)),
    }
    answer = audit(tmp_path, brokers, leader=3, isr=(1, 3), source="user", leader_epoch=3)
    assert answer.mark["reference_id"] == 1
    assert (answer.verdict == "COMMITTED_LOSS") is lost, answer
    assert ((3, "critical") in loss(answer)[1]) is lost, answer


@pytest.mark.parametrize(
    ("flag", "flushed", "quiesced", "lost"),
    [(True, 0, None, False), (True, 6, None, True), (False, 0, None, True), (True, 0, True, True)],
    ids=["contradicted", "as a stop leaves it", "no flag", "stopped by the manifest"],
)
def test_a_mark_beside_a_flag_that_the_files_contradict_may_be_later_than_the_log(
    tmp_path: Path, flag: bool, flushed: int, quiesced: bool | None, lost: bool
) -> None:
    """Broker 1 may have been cut at 0 and fetched from broker 2 before it was stopped."""
    brokers = {1: log(6, 4, recovery_point=flushed, clean_shutdown=flag), 2: log(6, 0, ((2, 0),))}
    answer = audit(tmp_path, brokers, leader=2, isr=(2,), quiesced=quiesced)
    assert (answer.verdict == "COMMITTED_LOSS") is lost, answer
    (told,) = answer.found("HWM-LOSS", 1)
    assert (told["severity"], "contradict its clean-shutdown flag" in told["message"]) == (
        ("critical", False) if lost else ("high", True)
    )


@pytest.mark.parametrize(("begins", "contradicted"), [(4, True), (12, True), (13, False)])
def test_an_epoch_that_begins_among_records_of_an_earlier_one_contradicts_a_stop(
    tmp_path: Path, begins: int, contradicted: bool
) -> None:
    """Broker 1 was cut after its log was copied, and stopped at the same offset as before: DIV-HIDDEN."""
    brokers = {
        1: log(13, 0, clean_shutdown=True),
        2: log(begins + 3, begins, ((0, 0), (6, begins))),
    }
    brokers[1] = replace(brokers[1], epochs=((0, 0), (6, begins)))
    answer = audit(tmp_path, brokers, isr=(1,))
    assert bool(answer.found("DIV-HIDDEN")) is False and answer.verdict != "COMMITTED_DIVERGENCE", answer
    assert (answer.verdict == "INCONCLUSIVE") is contradicted, answer


@pytest.mark.parametrize(("file", "in_order", "lost"), [((), False, False), ((), True, True), (((0, 0),), False, True)])
def test_a_mark_beside_an_empty_epoch_file_may_be_later_than_the_log(
    tmp_path: Path, file: tuple[tuple[int, int], ...], in_order: bool, lost: bool
) -> None:
    """Broker 1 may have begun its log anew beside broker 2 since its log was copied: HWM-LOSS."""
    brokers = {1: replace(log(3, 2), epochs=file), 2: replace(log(0, 0), epochs=((2, 0),))}
    answer = audit(tmp_path, brokers, leader=2, isr=(2,), source="user", leader_epoch=2, in_order=in_order)
    assert (answer.verdict == "COMMITTED_LOSS") is lost, answer
    assert lost or answer.one("HWM-LOSS", 1)[:2] == ("high", "suspect")


def test_such_a_mark_counts_where_an_election_is_known_to_have_been_unclean(tmp_path: Path) -> None:
    old = Replica(OLD, high_watermark=55, recovery_point=0, clean_shutdown=True)
    answer = scene(tmp_path, {1: old, 2: NEW, 3: NEW}, *UNCLEAN_TO_2)
    assert loss(answer) == ("COMMITTED_LOSS", {(1, "critical")}), answer
