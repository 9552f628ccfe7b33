"""Which open transactions are over, by whom, and what is said of them: the boundaries of the family TXN."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support import metadata_log as write
from tests.support.coordinator_log import (
    AFTER,
    COMPLETE_COMMIT,
    LOG,
    ONGOING,
    OVER,
    PRODUCER,
    SHARED_OPEN,
    commit_marker,
    coordinator,
    later_batch,
    log_value,
    sent,
)
from tests.support.encoder import TIMESTAMP_MS, encode_batch, encode_marker
from tests.support.made_cases import case, log
from tests.support.scenario import Answer, audit, written
from tests.support.snapshots import TOPIC, TOPIC_ID, Replica, write_manifest

from replica_audit.auditing.findings.txn import is_ended
from replica_audit.model import OpenTransaction, TopicPartition, TransactionState

OTHER = 8


def _ended(epoch: int = 0, updated: int = OVER) -> bytes:
    return log_value(PRODUCER, epoch, COMPLETE_COMMIT, {}, updated=updated)


def _batch(base: int, producer: int = PRODUCER, epoch: int = 0, count: int = 5) -> bytes:
    return encode_batch(base, count, 0, producer_id=producer, producer_epoch=epoch, base_sequence=0, transactional=True)


def _audit(path: Path, log: list[bytes], *values: bytes, **named) -> Answer:
    """One broker alone, with the coordinator's log that holds `values`."""
    options = {"before_audit": coordinator(path, *values)} if values else {}
    fields = {name: named.pop(name) for name in ("log_start", "first_base_offset", "tail") if name in named}
    return audit(path, {1: Replica(log, **fields)}, **options, **named)


def hanging(answer: Answer) -> list[tuple]:
    return [(row["confidence"], row["start_offset"], row["end_offset"]) for row in answer.found("TXN-HANGING")]


def said_of(answer: Answer) -> str:
    """Evidence from the coordinator."""
    (row,) = answer.found("TXN-HANGING")
    return next(one["text"] for one in row["evidence"] if one["kind"] == "transaction")


# --- each transaction is judged by itself


@pytest.mark.parametrize(
    ("first", "values", "fields"),
    [
        ([_batch(0), *written(5, 10, 0)], [log_value(PRODUCER, 0, ONGOING, {TOPIC: [0]})], {}),
        ([_batch(0), *written(5, 10, 0)], [], {"log_start": 5}),
        ([_batch(0)], [], {}),
    ],
    ids=["in progress", "below the log start", "a hole after it"],
)
def test_one_that_is_left_alone_hides_none_after_it(tmp_path, first, values, fields):
    log = [*first, _batch(10, OTHER), _batch(15, OTHER, epoch=1)]
    assert hanging(_audit(tmp_path, log, *values, **fields)) == [("suspect", 10, 20)]


def test_one_whose_last_record_is_the_first_of_the_log_is_still_open(tmp_path):
    log = [_batch(5, epoch=0), _batch(10, epoch=1, count=1), *written(11, 20, 0)]
    assert hanging(_audit(tmp_path, log, log_start=10, first_base_offset=5)) == [("suspect", 5, 11)]
    assert hanging(_audit(tmp_path / "gone", log, log_start=11, first_base_offset=5)) == []


@pytest.mark.parametrize(
    ("log", "open_"),
    [
        ([*written(0, 5, 0), _batch(10), _batch(15, epoch=1)], [("suspect", 10, 20)]),
        ([_batch(0), _batch(10, epoch=1, count=1)], [("suspect", 0, 11)]),
        ([_batch(0), _batch(5, epoch=1), *written(20, 25, 0)], []),
    ],
    ids=["before it", "inside of it", "after it"],
)
def test_only_a_hole_after_its_last_record_may_have_held_the_marker(tmp_path, log, open_):
    assert hanging(_audit(tmp_path, log)) == open_


# --- over for its coordinator, but when


@pytest.mark.parametrize(
    ("epoch", "updated", "found"),
    [
        (0, TIMESTAMP_MS - 1, False),
        (0, TIMESTAMP_MS, True),
        (0, AFTER - 1, True),
        (0, AFTER, False),
        (1, TIMESTAMP_MS - 1, True),
    ],
    ids=["before the records", "with them", "after them", "with the last record of the log", "a later producer epoch"],
)
def test_the_coordinators_word_is_newer_than_the_records_and_older_than_the_end_of_the_log(
    tmp_path, epoch, updated, found
):
    answer = _audit(tmp_path, LOG, _ended(epoch, updated))
    assert hanging(answer) == ([("likely", 10, 15)] if found else [])
    if found:
        assert said_of(answer) == (
            f"CompleteCommit at {updated} ms, producer epoch {epoch}; the log has records with timestamp {AFTER} ms, after that"
        )


def test_an_earlier_producer_epoch_is_of_an_earlier_transaction(tmp_path):
    log = [*written(0, 10, 0), sent(10, epoch=1), later_batch(15)]
    assert hanging(_audit(tmp_path, log, _ended(0, TIMESTAMP_MS - 1))) == []


def test_the_transactions_own_records_are_nothing_after_it(tmp_path):
    ended = _ended(1, TIMESTAMP_MS - 1)
    assert hanging(_audit(tmp_path, SHARED_OPEN, ended)) == []
    one_more = [*SHARED_OPEN, *written(15, 16, 0)]
    assert hanging(_audit(tmp_path / "more", one_more, ended)) == [("likely", 10, 15)]


def test_a_state_without_an_epoch_that_is_ongoing_is_taken_for_this_one(tmp_path):
    assert hanging(_audit(tmp_path, LOG, log_value(PRODUCER, -1, ONGOING, {TOPIC: [0]}, updated=OVER))) == []


def test_while_nothing_was_written_any_word_of_the_coordinator_counts(tmp_path):
    answer = _audit(tmp_path, SHARED_OPEN, _ended(0, TIMESTAMP_MS - 1), quiesced=True)
    assert hanging(answer) == [("proven", 10, 15)]
    assert said_of(answer).endswith("; nothing was written while the copies were made")


@pytest.mark.parametrize(
    ("epochs", "updated", "elected"),
    [
        (2, 500, 1000),
        (2, 1000, 2000),
        (2, 2000, None),
        (1, 1000, None),
    ],
    ids=["the first after it", "not one at the same time", "none later", "none that the log knows"],
)
def test_an_election_that_the_log_knows_proves_that_it_went_on(tmp_path, epochs, updated, elected):
    """Elected in epochs 1, 2 and 3, each a second after the last; the records of all are of one moment."""
    log = [*written(0, 10, 0), sent(10), *written(15, 20, 1), *(written(20, 25, 2) if epochs > 1 else [])]
    begin = write.new_topic(TOPIC, TOPIC_ID, (1,), 1)
    metadata = {100: write.history(begin, *[write.change(TOPIC_ID, leader=1)] * 3)}
    ended = coordinator(tmp_path, _ended(0, TIMESTAMP_MS + updated))
    answer = audit(tmp_path, {1: Replica(log)}, metadata=metadata, before_audit=ended)
    if elected is None:
        assert hanging(answer) == [], answer
    else:
        assert hanging(answer) == [("proven", 10, 15)]
        assert said_of(answer).endswith(
            f"; the log has the epoch of an election at {TIMESTAMP_MS + elected} ms, after that"
        )


def test_another_isr_in_the_same_epoch_is_no_election(tmp_path):
    """A leader that was copied before the marker came, and a follower that left the ISR since: nothing hung."""
    begin = write.new_topic(TOPIC, TOPIC_ID, (1, 2), 1)
    metadata = {100: write.history(begin, write.change(TOPIC_ID, isr=(1,)))}
    log = [*written(0, 10, 0), sent(10)]
    marked = Replica([*log, encode_marker(15, "COMMIT", 0, producer_id=PRODUCER, producer_epoch=0)])
    ended = coordinator(tmp_path, _ended(0, TIMESTAMP_MS + 500))
    answer = audit(tmp_path, {1: Replica(log), 2: marked}, metadata=metadata, in_order=True, before_audit=ended)
    assert hanging(answer) == [], answer


def test_what_is_said_of_a_producer_that_went_on_in_a_later_epoch(tmp_path):
    (row,) = _audit(tmp_path, [*written(0, 10, 0), _batch(10), _batch(15, epoch=1)]).found("TXN-HANGING")
    assert row["message"] == (
        "the transaction of producer 7 that begins at offset 10 has no marker on broker 1, and its own will not come: it continued "
        "with producer epoch 1 after 0, and a producer gets a new epoch only when its transaction has ended; read_committed consumers "
        "see nothing from 10 on, unless the later transaction is in progress, whose end will end this one, too"
    )
    assert [one["kind"] for one in row["evidence"]] == ["batch", "considered"]


def _said(state: str = "CompleteCommit", epoch: int = 0, updated: int = 10) -> TransactionState:
    """The coordinator's word on a transaction of one record, at 10 ms, with this partition."""
    return TransactionState(PRODUCER, epoch, state, (TopicPartition(TOPIC, 0),), updated, 0, 0)


@pytest.mark.parametrize(
    ("said", "last_epoch", "is_over"),
    [
        (None, 0, False),
        (None, 1, True),
        (_said(), 0, True),
        (_said(updated=9), 0, False),
        (_said(updated=9, epoch=1), 0, True),
        (_said("Ongoing"), 0, False),
        (_said("PrepareCommit"), 0, False),
        (_said("Ongoing", epoch=1), 1, True),
    ],
    ids=["unknown", "went on", "ended", "before it", "later epoch", "in progress", "about to end", "another's"],
)
def test_whether_what_a_replica_leaves_open_was_ended(
    said: TransactionState | None, last_epoch: int, is_over: bool
) -> None:
    made = case(log(1, (0, 0)), transactions={} if said is None else {PRODUCER: said})
    assert is_ended(made, OpenTransaction(PRODUCER, 0, last_epoch, 30, 30, 10)) is is_over


# --- a marker among conflicting records


def _abort(base: int, producer: int) -> bytes:
    return encode_marker(base, "ABORT", 0, producer_id=producer, producer_epoch=0)


@pytest.mark.parametrize(
    ("tail", "marker"),
    [
        ([*written(15, 20, 0, "old "), commit_marker(20)], 20),
        ([_batch(15), commit_marker(20)], 20),
        ([_abort(15, 6), _abort(16, 9), commit_marker(17), *written(18, 20, 0, "old "), commit_marker(20)], 17),
        ([_abort(15, 6), _abort(16, 9), *written(17, 20, 0, "old ")], None),
    ],
    ids=["after other records", "after records of its own", "after markers of others", "of others alone"],
)
def test_the_first_marker_of_its_producer_on_a_conflicting_tail(tmp_path, tail, marker):
    brokers = {
        1: Replica([*SHARED_OPEN, *written(15, 25, 1, "new ")], high_watermark=15),
        2: Replica([*SHARED_OPEN, *tail], high_watermark=15),
    }
    answer = audit(tmp_path, brokers, isr=(1,))
    assert [(row["start_offset"], row["end_offset"]) for row in answer.found("TXN-MARKER-LOST")] == (
        [] if marker is None else [(marker, marker + 1)]
    )
    for row in answer.found("TXN-MARKER-LOST"):
        assert row["message"] == (
            f"the transaction of producer 7 with offsets 10 to 14 is open on broker 1 and ended on broker 2 at offset {marker}, "
            "among records that broker 1 does not have; likely, not proven: its coordinator may have written it again since broker 1 was "
            "copied, or may yet"
        )


@pytest.mark.parametrize(("at", "lost"), [(10, False), (14, False), (15, True)])
def test_a_marker_below_the_transactions_last_record_is_of_an_earlier_one(tmp_path, at, lost):
    """The leader's transaction is of a later epoch than all that the other has from 10 on."""
    tail = [*written(10, at, 0, "old "), commit_marker(at), *written(at + 1, 20, 0, "old ")]
    brokers = {
        1: Replica([*written(0, 10, 0), sent(10, leader_epoch=1), *written(15, 25, 1)], high_watermark=10),
        2: Replica([*written(0, 10, 0), *tail], high_watermark=10),
    }
    assert bool(audit(tmp_path, brokers, isr=(1,)).found("TXN-MARKER-LOST")) == lost


def test_a_hole_on_the_leader_before_the_conflict_hides_no_marker(tmp_path):
    """What the leader lacks at 5 to 9 does not conflict with what it has."""
    brokers = {
        1: Replica([*written(0, 5, 0), sent(10), *written(15, 25, 1, "new ")], high_watermark=15),
        2: Replica([*SHARED_OPEN, commit_marker(15)], high_watermark=15),
    }
    answer = audit(tmp_path, brokers, isr=(1,))
    assert [run[0] for run in answer.runs(2)] == ["DIV-HIDDEN", "DIV-EPOCH"], answer.runs(2)
    assert answer.one("TXN-MARKER-LOST", 2)[2:] == (15, 16)


@pytest.mark.parametrize(
    ("started", "kind", "found"),
    [("22:13:25", "live", True), ("22:13:21", "live", False), ("22:13:25", "killed", False)],
    ids=["after it", "as clocks may differ", "of a broker that was down"],
)
def test_a_log_that_ends_with_it_and_was_copied_later_gets_no_marker_any_more(tmp_path, started, kind, found):
    """4.3.1: a coordinator that came up while the partition had no leader took it for deleted, and the transaction for complete."""

    def describe() -> None:
        coordinator(tmp_path, _ended())()
        day = "2023-11-14T"
        copy = {"broker_id": 1, "log_dir": "broker-1", "started": f"{day}{started}Z", "finished": f"{day}22:14:00Z"}
        write_manifest(tmp_path, brokers=[{**copy, "kind": kind}])

    answer = audit(tmp_path, {1: Replica(SHARED_OPEN)}, before_audit=describe)
    assert hanging(answer) == ([("likely", 10, 15)] if found else [])
