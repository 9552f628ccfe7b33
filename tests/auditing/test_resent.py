"""Batches that a producer sent again to the next leader, which has them at another offset, and what looks like them."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.encoder import encode_batch, encode_marker
from tests.support.scenario import Answer, audit, written
from tests.support.snapshots import Replica


def _sent(base: int, epoch: int, mark: str = "sent ", **options) -> bytes:
    sender = {"producer_id": 5, "producer_epoch": 0, "base_sequence": 0, **options}
    return encode_batch(base, 3, epoch, mark=mark, **sender)


def _both(path: Path, old: list[bytes], new: list[bytes]) -> Answer:
    common = written(0, 10, 0)
    brokers = {
        1: Replica([*common, *written(10, 11, 1, "new "), *new], high_watermark=10),
        2: Replica([*common, *old], high_watermark=13),
    }
    return audit(path, brokers, isr=(1,))


def _lost(answer: Answer) -> tuple[int, int, dict[int, int]]:
    (partition,) = answer.tables["partitions"]
    own = {row["candidate_id"]: row for row in answer.tables["elections"] if row["candidate_id"] == row["broker_id"]}
    costs = {broker: row["lost_records"] for broker, row in own.items()}
    return partition["lost_records"], partition["lost_committed"], costs


@pytest.mark.parametrize("at", [11, 16])
def test_the_leader_has_it_at_another_offset(tmp_path: Path, at: int) -> None:
    answer = _both(tmp_path, [_sent(10, 0)], [*written(11, at, 1, "new "), _sent(at, 1)])
    # What the old leader would lose is what was written in the meantime.
    assert _lost(answer) == (0, 0, {1: 0, 2: at - 10}), answer
    assert not answer.found("HWM-LOSS") and answer.verdict == "UNCOMMITTED_DIVERGENCE"
    assert answer.cut(2)["committed_dropped"] == 0


@pytest.mark.parametrize(
    "again",
    [
        {"mark": "other "},
        {"producer_id": 6},
        {"producer_epoch": 1},
        {"base_sequence": 3},
        {"producer_id": -1, "producer_epoch": -1, "base_sequence": -1},
    ],
    ids=["records of an older client", "producer", "producer epoch", "sequence", "no producer"],
)
def test_another_batch_is_not_it(tmp_path: Path, again: dict) -> None:
    answer = _both(tmp_path, [_sent(10, 0)], [_sent(11, 1, **again)])
    assert _lost(answer)[:2] == (3, 3), answer
    assert answer.verdict == "COMMITTED_LOSS"


def test_equal_records_without_a_producer_may_have_been_sent_twice(tmp_path: Path) -> None:
    nobody = {"producer_id": -1, "producer_epoch": -1, "base_sequence": -1}
    answer = _both(tmp_path, [_sent(10, 0, **nobody)], [_sent(11, 1, **nobody)])
    assert _lost(answer)[:2] == (3, 3), answer


_APPENDED = {"log_append_time": True}


@pytest.mark.parametrize("at", [10, 11, 16])
def test_of_the_brokers_own_times_none_counts(tmp_path: Path, at: int) -> None:
    new = _sent(at, 1, timestamp_ms=1_700_000_900_000, **_APPENDED)
    brokers = {
        1: Replica([*written(0, 10, 0), *written(10, at, 1, "new "), new], high_watermark=10),
        2: Replica([*written(0, 10, 0), _sent(10, 0, **_APPENDED)], high_watermark=13),
    }
    assert _lost(audit(tmp_path, brokers, isr=(1,))) == (0, 0, {1: 0, 2: at - 10})


def test_other_records_in_its_place_are_not_it_whoever_stamped_them(tmp_path: Path) -> None:
    answer = _both(tmp_path, [_sent(10, 0, **_APPENDED)], [_sent(11, 1, mark="other ", **_APPENDED)])
    assert _lost(answer)[:2] == (3, 3), answer


def test_producers_own_times_count(tmp_path: Path) -> None:
    answer = _both(tmp_path, [_sent(10, 0)], [_sent(11, 1, timestamp_ms=1_700_000_900_000)])
    assert _lost(answer)[:2] == (3, 3), answer


def test_the_same_records_in_another_codec(tmp_path: Path) -> None:
    assert _lost(_both(tmp_path, [_sent(10, 0)], [_sent(11, 1, codec="gzip")]))[:2] == (0, 0)


def test_one_batch_is_not_two(tmp_path: Path) -> None:
    # A client that begins at sequence 0 again may send equal records twice.
    answer = _both(tmp_path, [_sent(10, 0), _sent(13, 0)], [_sent(11, 1)])
    assert _lost(answer)[0] == 3, answer


def test_an_older_client_has_two_batches_of_one_sequence(tmp_path: Path) -> None:
    answer = _both(tmp_path, [_sent(10, 0), _sent(13, 0, mark="second ")], [_sent(11, 1, mark="second "), _sent(14, 1)])
    assert _lost(answer)[:2] == (0, 0), answer


def _marker(base: int, outcome: str, epoch: int) -> bytes:
    return encode_marker(base, outcome, epoch, producer_id=5, producer_epoch=0)


@pytest.mark.parametrize(
    ("here", "there", "lost"),
    [("COMMIT", "COMMIT", 0), ("ABORT", "ABORT", 0), ("COMMIT", "ABORT", 3), ("COMMIT", None, 3), (None, "COMMIT", 3)],
)
def test_a_transaction_needs_the_same_outcome(tmp_path: Path, here: str | None, there: str | None, lost: int) -> None:
    old = [_sent(10, 0, transactional=True), *([_marker(13, here, 0)] if here else [])]
    new = [_sent(11, 1, transactional=True), *([_marker(14, there, 1)] if there else [])]
    assert _lost(_both(tmp_path, old, new))[0] == lost


@pytest.mark.parametrize(
    ("tail", "there", "is_lost"),
    [
        ([], [(15, "COMMIT")], False),
        ([], [(15, "ABORT")], True),
        ([], [], True),
        # Of its next transaction, whose data the leader has.
        ([], [_sent(15, 1, transactional=True, base_sequence=3), (18, "COMMIT")], True),
        # The next transaction was sent again, too, and ended alike.
        (
            [_sent(14, 0, transactional=True, base_sequence=3), (17, "ABORT")],
            [(15, "COMMIT"), _sent(16, 1, transactional=True, base_sequence=3), (19, "ABORT")],
            False,
        ),
        (
            [_sent(14, 0, transactional=True, base_sequence=3), (17, "ABORT")],
            [(15, "COMMIT"), _sent(16, 1, transactional=True, base_sequence=3), (19, "COMMIT")],
            True,
        ),
    ],
    ids=["alike", "otherwise", "nothing", "of the next one", "with the next one", "the next one otherwise"],
)
def test_a_marker_that_the_coordinator_wrote_again_is_not_lost(
    tmp_path: Path, tail: list, there: list, is_lost: bool
) -> None:
    """The transaction's data is in what both logs have; the new leader began with records of others."""

    def batches(parts: list, epoch: int) -> list[bytes]:
        return [part if isinstance(part, bytes) else _marker(part[0], part[1], epoch) for part in parts]

    common = [*written(0, 10, 0), _sent(10, 0, transactional=True)]
    old = [*common, *batches([(13, "COMMIT"), *tail], 0)]
    new = [*common, *written(13, 15, 1, "new "), *batches(there, 1)]
    brokers = {1: Replica(new, high_watermark=13), 2: Replica(old, high_watermark=18 if tail else 14)}
    answer = audit(tmp_path, brokers, isr=(1,))
    assert (answer.verdict == "COMMITTED_LOSS") == is_lost, answer
    assert bool(answer.found("HWM-LOSS")) == is_lost and bool(answer.found("TRN-BELOW-HW")) == is_lost


def test_the_rest_of_a_tail_is_lost_all_the_same(tmp_path: Path) -> None:
    answer = _both(tmp_path, [_sent(10, 0), *written(13, 15, 0, "old ")], [_sent(11, 1)])
    assert _lost(answer)[0] == 2
    assert [run[1:3] for run in answer.runs(2)][-1][1] == 15
