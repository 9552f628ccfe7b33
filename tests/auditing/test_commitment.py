"""A replica's checkpoint proves records committed on every replica that has the same records (F.0)."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.encoder import encode_batch
from tests.support.scenario import audit, written, written_legacy
from tests.support.snapshots import Replica

LEADER = Replica([*written(0, 30, 1), *written(30, 34, 3)])


def tail(end: int, high_watermark: int, epoch: int = 1, mark: str = "") -> Replica:
    return Replica([*written(0, 30, 1), *written(30, end, epoch, mark)], high_watermark=high_watermark)


@pytest.mark.parametrize(
    ("proof", "end", "committed"),
    [
        (45, 50, 45),
        (45, 45, 45),
        # The proven records are more than this replica has.
        (48, 40, 40),
        # Inside a batch.
        (43, 50, 43),
    ],
)
@pytest.mark.parametrize("epochs", [(1,), (1, 2)])
def test_the_same_records_are_committed_everywhere(
    tmp_path: Path, proof: int, end: int, committed: int, epochs: tuple[int, ...]
) -> None:
    def broker(end: int, high_watermark: int) -> Replica:
        batches = [*written(0, 30, 1), *written(30, 35, 1), *written(35, end, epochs[-1])]
        return Replica(batches, high_watermark=high_watermark)

    answer = audit(tmp_path, {1: LEADER, 2: broker(50, proof), 3: broker(end, 10)}, isr=(1,))
    for one, count in ((2, proof - 30), (3, committed - 30)):
        assert sum(row["committed_records"] for row in answer.tables["divergences"] if row["broker_id"] == one) == count
        assert answer.cut(one)["committed_dropped"] == count
    losses = answer.found("HWM-LOSS", 3)
    assert max(row["end_offset"] for row in losses) == committed
    assert all(f"broker 2, which has the same records, reached {proof}" in row["message"] for row in losses)
    assert all(row["evidence"][0]["broker_id"] == 2 for row in losses)


@pytest.mark.parametrize(
    ("version", "horizon", "mark", "proven"),
    [
        ("3.1.0", None, 10, 10),
        ("3.0.2", None, 10, 0),
        (None, None, 10, 0),
        (None, 5, 10, 10),
        # The greater of two marks of the tail counts.
        ("3.1.0", None, 35, 10),
        ("3.1.0", None, 45, 15),
    ],
)
def test_a_cleaner_that_stays_below_the_high_watermark_proves_what_it_cleaned(
    tmp_path: Path, version: str | None, horizon: int | None, mark: int, proven: int
) -> None:
    cleaned = encode_batch(25, 2, 1, mark="25 ", last_offset_delta=4, delete_horizon_ms=horizon)
    other = [*written(0, 25, 1), cleaned, *written(30, 50, 1)]
    brokers = {1: LEADER, 2: Replica(other, high_watermark=mark, cleaned_to=40)}
    answer = audit(tmp_path, brokers, isr=(1,), configs={"cleanup.policy": "compact"}, kafka_version=version)
    assert answer.cut(2)["committed_dropped"] == proven
    told = "high watermark reached 45" if mark > 40 else "cleaner, which stays below the high watermark, reached 40"
    assert all(f"its own {told}" in row["message"] for row in answer.found("HWM-LOSS", 2))


def test_other_records_at_the_same_offsets_are_not(tmp_path: Path) -> None:
    other_epoch = Replica([*written(0, 25, 1), *written(25, 50, 2)], high_watermark=10)
    other_content = tail(50, 10, mark="x")
    brokers = {1: LEADER, 2: tail(50, 45), 3: other_epoch, 4: other_content}
    answer = audit(tmp_path, brokers, isr=(1,))
    assert {row["broker_id"] for row in answer.found("HWM-LOSS")} == {2}
    assert {row["broker_id"] for row in answer.tables["divergences"] if row["committed"]} == {2}


def test_a_replica_that_shares_the_beginning_only_is_committed_that_far(tmp_path: Path) -> None:
    shared = [*written(0, 30, 1), *written(30, 35, 1)]
    answer = audit(
        tmp_path,
        {
            1: LEADER,
            2: Replica([*shared, *written(35, 50, 1)], high_watermark=50),
            3: Replica([*shared, *written(35, 50, 2)], high_watermark=10),
        },
        isr=(1,),
    )
    rows = [row for row in answer.tables["divergences"] if row["broker_id"] == 3]
    assert [(row["start_offset"], row["end_offset"], row["committed_records"]) for row in rows] == [
        (30, 35, 5),
        (35, 50, 0),
    ]


def test_what_is_below_a_committed_record_of_its_own_log_is_committed(tmp_path: Path) -> None:
    """The checkpoint lies in the second of two stretches between which a cleaner left nothing; and broker 3, whose cleaner
    left less, has records of the same epoch."""
    leader = Replica([*written(0, 30, 1), *written(30, 35, 3, "new "), *written(40, 60, 3, "new ")])
    cleaned = [*written(0, 30, 1), *written(30, 35, 1), *written(40, 55, 1)]
    less = [*written(0, 30, 1), *written(45, 55, 1)]
    brokers = {1: leader, 2: Replica(cleaned, high_watermark=50), 3: Replica(less, high_watermark=10)}
    answer = audit(tmp_path, brokers, isr=(1,), configs={"cleanup.policy": "compact"})
    rows = answer.tables["divergences"]
    told = [(row["broker_id"], row["start_offset"], row["committed_records"], row["lost_committed"]) for row in rows]
    assert told == [(2, 30, 5, 5), (2, 40, 10, 10), (3, 45, 5, 5)], answer
    assert answer.cut(2)["committed_dropped"] == 15 and answer.cut(3)["committed_dropped"] == 5
    (partition,) = answer.tables["partitions"]
    assert partition["lost_committed"] == 15
    assert answer.replica(2)["lost_committed_held"] == 15 and answer.replica(3)["lost_committed_held"] == 5


def test_a_stretch_that_the_reference_shares_parts_two_histories(tmp_path: Path) -> None:
    """Between the two stretches both have the same records: the first one may never have been on that leader's log."""
    leader = Replica(
        [*written(0, 30, 1), *written(30, 35, 2, "new "), *written(35, 40, 3), *written(40, 50, 4, "new ")]
    )
    silent = Replica(
        [*written(0, 30, 1), *written(30, 35, 1), *written(35, 40, 3), *written(40, 55, 3)], high_watermark=50
    )
    answer = audit(tmp_path, {1: leader, 2: silent}, isr=(1,))
    told = {row["start_offset"]: row["committed_records"] for row in answer.tables["divergences"]}
    assert told[30] == 0 and told[40] == 10, answer


@pytest.mark.parametrize("log_start", [0, 31, 33, 35, 38])
def test_records_below_the_log_start_of_their_holder_count_nowhere(tmp_path: Path, log_start: int) -> None:
    batches = [*written(0, 30, 1), *written(30, 50, 1)]
    holder = Replica(batches, high_watermark=45, log_start=log_start)
    answer = audit(tmp_path, {1: LEADER, 2: holder}, isr=(1,))
    lost = 50 - max(30, log_start)
    rows = answer.tables["divergences"]
    (partition,) = answer.tables["partitions"]
    (own,) = [row for row in answer.tables["elections"] if (row["candidate_id"], row["broker_id"]) == (1, 1)]
    assert partition["lost_records"] == sum(row["lost_records"] for row in rows) == lost
    assert own["lost_records"] == answer.replica(2)["lost_held"] == lost
    committed = 45 - max(30, log_start)
    assert partition["lost_committed"] == own["lost_committed"] == answer.cut(2)["committed_dropped"] == committed
    assert sum(row["committed_records"] for row in rows) == committed


def test_a_checkpoint_past_the_log_end_proves_nothing_elsewhere(tmp_path: Path) -> None:
    answer = audit(tmp_path, {1: LEADER, 2: tail(50, 60), 3: tail(50, 10)}, isr=(1,))
    assert not answer.found("HWM-LOSS") and not any(row["committed"] for row in answer.tables["divergences"])


def test_records_without_epochs_are_known_by_their_bytes(tmp_path: Path) -> None:
    def broker(mark: str, high_watermark: int) -> Replica:
        batches = [*written_legacy(0, 10), *written_legacy(10, 15, mark)]
        return Replica(batches, epochs=None, high_watermark=high_watermark)

    brokers = {1: broker("l", 15), 2: broker("x", 13), 3: broker("x", 4), 4: broker("y", 4)}
    answer = audit(tmp_path, brokers, isr=(1,))
    counts = {2: 0, 3: 0, 4: 0}
    for row in answer.tables["divergences"]:
        counts[row["broker_id"]] += row["committed_records"]
    assert counts == {2: 3, 3: 3, 4: 0}


@pytest.mark.parametrize("goes_on", [False, True])
def test_a_mark_in_records_that_stay_below_shared_ones_may_be_the_leaders(tmp_path: Path, goes_on: bool) -> None:
    """A follower that has gone on past other records, which nobody cut, gets its high watermark from the leader: HWM-LOSS, proven."""
    after = written_legacy(15, 20) if goes_on else []

    def broker(mark: str, high_watermark: int) -> Replica:
        batches = [*written_legacy(0, 10), *written_legacy(10, 15, mark), *after]
        return Replica(batches, epochs=None, high_watermark=high_watermark)

    answer = audit(tmp_path, {1: broker("l", 5), 2: broker("x", 13)}, isr=(1, 2), quiesced=True)
    assert answer.one("HWM-LOSS", 2)[1] == ("likely" if goes_on else "proven"), answer
