"""TXN-HANGING, TXN-MARKER-LOST and TXN-ABORTED, and transactions that are simply in progress."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support import metadata_log as write
from tests.support.captures import CAPTURES, audit_capture, told
from tests.support.coordinator_log import (
    COMPLETE_COMMIT,
    LOG,
    ONGOING,
    OVER,
    PREPARE_COMMIT,
    PRODUCER,
    SHARED_OPEN,
    commit_marker,
    coordinator,
    later_batch,
    log_value,
    sent,
)
from tests.support.encoder import TIMESTAMP_MS, encode_marker, flip
from tests.support.scenario import Answer, audit, written
from tests.support.snapshots import TOPIC, TOPIC_ID, Replica
from tests.support.some import some

from replica_audit.model import CHUNK_OFFSETS


def _audit(path: Path, log: list[bytes], *values: bytes, clean: bool = False, **options) -> Answer:
    brokers = {number: Replica(log, clean_shutdown=clean) for number in (1, 2)}
    return audit(path, brokers, before_audit=coordinator(path, *values) if values else None, **options)


def test_over_for_its_coordinator_and_open_in_the_log(tmp_path):
    answer = _audit(tmp_path, LOG, log_value(PRODUCER, 0, COMPLETE_COMMIT, {}, updated=OVER))
    assert answer.one("TXN-HANGING", 1) == ("medium", "likely", 10, 15)
    assert answer.found("TXN-HANGING")[0]["message"] == (
        "the transaction of producer 7 (transactional id id) that begins at offset 10 has no marker on broker 1, and none "
        "will come: its coordinator says CompleteCommit; read_committed consumers see nothing from 10 on"
    )
    assert answer.verdict == "CONSISTENT"


def test_brokers_that_were_stopped_leave_no_doubt(tmp_path):
    answer = _audit(tmp_path, SHARED_OPEN, log_value(PRODUCER, 0, COMPLETE_COMMIT, {}, updated=OVER), clean=True)
    assert answer.one("TXN-HANGING", 1)[:2] == ("medium", "proven")


@pytest.mark.parametrize(
    "value",
    [
        log_value(PRODUCER, 0, ONGOING, {TOPIC: [0]}),
        log_value(PRODUCER, 0, PREPARE_COMMIT, {"other": [3], TOPIC: [0, 1]}, updated=OVER),
        log_value(PRODUCER, 1, PREPARE_COMMIT, {TOPIC: [0]}, updated=OVER),
    ],
    ids=["ongoing", "markers under way", "epoch raised to end it"],
)
def test_a_transaction_in_progress_is_no_finding(tmp_path, value):
    for clean in (False, True):
        answer = _audit(tmp_path / str(clean), LOG, value, clean=clean)
        assert not answer.found("TXN-HANGING"), answer


@pytest.mark.parametrize(
    ("value", "clean", "leader", "is_told"),
    [
        (log_value(PRODUCER, 0, PREPARE_COMMIT, {TOPIC: [0]}), False, 1, True),
        (log_value(PRODUCER, 0, ONGOING, {TOPIC: [0]}), False, 1, False),
        (log_value(PRODUCER, 0, ONGOING, {TOPIC: [0]}), True, 1, True),
        (log_value(PRODUCER, 0, ONGOING, {TOPIC: [0]}), False, None, True),
        (log_value(PRODUCER, 0, COMPLETE_COMMIT, {}, updated=OVER), True, None, False),
        (log_value(PRODUCER, 0, PREPARE_COMMIT, {"other": [0]}), True, None, False),
        (log_value(PRODUCER, -1, PREPARE_COMMIT, {TOPIC: [0]}), False, 1, True),
    ],
    ids=["prepared", "in progress", "at rest", "without a leader", "over", "elsewhere", "of an unknown epoch"],
)
def test_what_its_coordinator_has_yet_to_end_is_named(
    tmp_path: Path, value: bytes, clean: bool, leader: int | None, is_told: bool
) -> None:
    answer = _audit(tmp_path, SHARED_OPEN, value, clean=clean, leader=leader)
    assert [row["start_offset"] for row in answer.found("TXN-PENDING")] == [10] * is_told, answer
    for row in answer.found("TXN-PENDING"):
        assert row["severity"] == "info" and "(transactional id id)" in row["message"]
        assert row["confidence"] == ("proven" if clean else "likely")
        assert next(one["value"] for one in row["evidence"] if one["kind"] == "transaction").startswith("id (")


def test_what_its_coordinator_said_of_an_earlier_transaction_is_not_said_of_this_one(tmp_path: Path) -> None:
    """Since KIP-890 each has a later producer epoch; the coordinator's log was copied before it began."""
    log = [*written(0, 10, 0), sent(10, epoch=2)]
    answer = _audit(tmp_path, log, log_value(PRODUCER, 1, PREPARE_COMMIT, {TOPIC: [0]}))
    assert not answer.found("TXN-PENDING") and not answer.found("TXN-HANGING"), answer


def test_the_producer_is_at_something_else(tmp_path):
    value = log_value(PRODUCER, 0, ONGOING, {"other": [0]}, updated=OVER)
    assert _audit(tmp_path, LOG, value).one("TXN-HANGING", 1)[0] == "medium"


def test_a_later_transaction_of_the_producer_ends_it_with_its_own_marker(tmp_path):
    """Real brokers of 4.3.1: the abort marker of a producer's next transaction ended what lacked its marker since an unclean election,
    and had been committed. That the marker was lost is told all the same."""
    value = log_value(PRODUCER, 1, ONGOING, {TOPIC: [0]}, updated=OVER)
    brokers = {
        1: Replica([*SHARED_OPEN, *written(15, 25, 1, "new ")], high_watermark=15),
        2: Replica([*SHARED_OPEN, commit_marker(15)], high_watermark=15),
    }
    answer = audit(tmp_path, brokers, isr=(1,), before_audit=coordinator(tmp_path, value))
    assert answer.one("TXN-MARKER-LOST", 2) == ("medium", "likely", 15, 16)
    assert not answer.found("TXN-HANGING"), answer


def test_nothing_is_concluded_without_the_coordinator(tmp_path):
    assert not _audit(tmp_path / "none", LOG).found("TXN-HANGING")
    other = log_value(99, 0, COMPLETE_COMMIT, {}, updated=OVER)
    assert not _audit(tmp_path / "unknown", LOG, other).found("TXN-HANGING")


def test_a_partition_copied_before_the_transaction_ended_is_no_proof(tmp_path):
    """Nothing in the log is later than what the coordinator says: the marker may have come after the copy."""
    value = log_value(PRODUCER, 0, COMPLETE_COMMIT, {}, updated=OVER)
    assert not _audit(tmp_path, SHARED_OPEN, value).found("TXN-HANGING")


def test_a_coordinators_log_copied_before_the_transaction_began_is_no_proof(tmp_path):
    value = log_value(PRODUCER, 0, COMPLETE_COMMIT, {}, updated=TIMESTAMP_MS - 1)
    assert not _audit(tmp_path, LOG, value).found("TXN-HANGING")


def test_a_producer_that_went_on_in_a_later_epoch(tmp_path):
    """Whether the later transaction is over as well only its coordinator knows, by a word that is newer than its records."""
    log = [*written(0, 10, 0), sent(10, epoch=0), sent(15, epoch=1)]
    assert _audit(tmp_path / "unknown", log).one("TXN-HANGING", 1) == ("medium", "suspect", 10, 20)
    older = log_value(PRODUCER, 1, COMPLETE_COMMIT, {}, updated=TIMESTAMP_MS - 1)
    assert _audit(tmp_path / "older", log, older).one("TXN-HANGING", 1)[1] == "suspect"
    over = log_value(PRODUCER, 2, COMPLETE_COMMIT, {}, updated=OVER)
    assert _audit(tmp_path / "over", log, over, clean=True).one("TXN-HANGING", 1)[1] == "proven"


def test_a_transaction_that_ended_is_no_finding_whatever_comes_after(tmp_path):
    log = [*SHARED_OPEN, commit_marker(15), later_batch(16)]
    assert not _audit(tmp_path, log, log_value(PRODUCER, 0, COMPLETE_COMMIT, {}, updated=OVER), clean=True).found(
        "TXN-HANGING"
    )


@pytest.mark.parametrize("damage", ["marker", "hole", "tail"])
def test_a_marker_that_may_have_been_in_what_is_damaged_is_not_missed(tmp_path, damage):
    marker = flip(commit_marker(15))
    log = {
        "marker": [*SHARED_OPEN, marker, later_batch(16)],
        "hole": [*SHARED_OPEN, later_batch(16)],
        "tail": SHARED_OPEN,
    }[damage]
    brokers = {1: Replica(log, tail=later_batch(15)[:30] if damage == "tail" else b"", clean_shutdown=True)}
    value = log_value(PRODUCER, 0, COMPLETE_COMMIT, {}, updated=OVER)
    answer = audit(tmp_path, brokers, before_audit=coordinator(tmp_path, value))
    assert not answer.found("TXN-HANGING"), answer


def test_a_transaction_below_the_log_start_is_gone(tmp_path):
    brokers = {1: Replica(LOG, log_start=15, clean_shutdown=True)}
    value = log_value(PRODUCER, 0, COMPLETE_COMMIT, {}, updated=OVER)
    assert not audit(tmp_path, brokers, before_audit=coordinator(tmp_path, value)).found("TXN-HANGING")


def test_a_marker_on_a_conflicting_tail(tmp_path):
    brokers = {
        1: Replica([*SHARED_OPEN, *written(15, 25, 1, "new ")], high_watermark=15),
        2: Replica([*SHARED_OPEN, *written(15, 20, 0, "old "), commit_marker(20)], high_watermark=15),
    }
    answer = audit(tmp_path, brokers, isr=(1,))
    assert answer.one("TXN-MARKER-LOST", 2) == ("medium", "likely", 20, 21)
    assert not answer.found("TXN-HANGING"), "whether the coordinator holds it for ended is not known"


@pytest.mark.parametrize(
    ("epoch", "confidence"), [(3, "likely"), (6, "suspect")], ids=["it led", "it has come to lead since"]
)
def test_a_leader_that_was_copied_before_it_led_may_have_the_marker(
    tmp_path: Path, epoch: int, confidence: str
) -> None:
    """Broker 2 led in epoch 2, broker 1 leads in epoch 3, or in 6, of which its files know nothing: it may have followed meanwhile."""
    brokers = {
        1: Replica([*SHARED_OPEN, *written(15, 20, 0, "old "), *written(20, 25, 3) * (epoch == 3)], high_watermark=15),
        2: Replica([*SHARED_OPEN, commit_marker(15, leader_epoch=2)], high_watermark=15),
    }
    answer = audit(tmp_path, brokers, source="user", leader_epoch=epoch)
    assert answer.one("TXN-MARKER-LOST", 2) == ("medium", confidence, 15, 16)
    is_open = "broker 1, which leads, may have them, and the log" in answer.messages("TXN-MARKER-LOST")[0]
    assert is_open == (confidence == "suspect")


@pytest.mark.parametrize(
    ("value", "is_told"),
    [
        (log_value(PRODUCER, 1, ONGOING, {TOPIC: [0]}, updated=OVER), True),
        (log_value(PRODUCER, 2, PREPARE_COMMIT, {TOPIC: [0]}, updated=OVER), True),
        (log_value(PRODUCER, 1, PREPARE_COMMIT, {TOPIC: [0]}, updated=OVER), False),
    ],
    ids=["in progress", "about to end", "the first is about to end"],
)
def test_the_marker_of_what_its_producer_went_on_after_is_lost_though_the_later_one_is_unfinished(
    tmp_path: Path, value: bytes, is_told: bool
) -> None:
    """What was committed before an unclean election is decided by the outcome of the next transaction."""
    brokers = {
        1: Replica([*SHARED_OPEN, *written(15, 20, 1, "new "), sent(20, 1, leader_epoch=1)], high_watermark=15),
        2: Replica([*SHARED_OPEN, sent(15), commit_marker(20, epoch=1)], high_watermark=15),
    }
    answer = audit(tmp_path, brokers, isr=(1,), quiesced=True, before_audit=coordinator(tmp_path, value))
    assert [row["confidence"] for row in answer.found("TXN-MARKER-LOST", 2)] == ["proven"] * is_told, answer
    assert answer.found("TXN-PENDING") and not answer.found("TXN-HANGING"), answer


@pytest.mark.parametrize(("state", "is_told"), [(ONGOING, True), (PREPARE_COMMIT, False)])
@pytest.mark.parametrize("updated", [TIMESTAMP_MS - 1, TIMESTAMP_MS + 1], ids=["before the marker", "after it"])
def test_a_marker_before_the_unfinished_transaction_began_ended_an_earlier_one(
    tmp_path: Path, state: int, updated: int, is_told: bool
) -> None:
    """Before KIP-890 all have one epoch. The marker of what is about to end is written again."""
    brokers = {
        1: Replica([*SHARED_OPEN, *written(15, 20, 1, "new ")], high_watermark=15),
        2: Replica([*SHARED_OPEN, commit_marker(15)], high_watermark=15),
    }
    value = log_value(PRODUCER, 0, state, {TOPIC: [0]}, updated=updated)
    answer = audit(tmp_path, brokers, isr=(1,), before_audit=coordinator(tmp_path, value))
    told = is_told and updated > TIMESTAMP_MS
    assert [row["confidence"] for row in answer.found("TXN-MARKER-LOST", 2)] == ["likely"] * told, answer


@pytest.mark.parametrize("is_shared", [True, False])
def test_a_marker_on_another_tail_is_not_of_a_transaction_that_began_after_the_logs_parted(
    tmp_path: Path, is_shared: bool
) -> None:
    """That one is in progress; the marker is of the transaction before it, which ends in both logs."""
    ended = [] if is_shared else [commit_marker(15, leader_epoch=1, epoch=1)]
    start = 15 + len(ended)
    brokers = {
        1: Replica([*SHARED_OPEN, *ended, sent(start, 1, leader_epoch=1)], high_watermark=15),
        2: Replica([*SHARED_OPEN, *written(15, 25, 0, "old "), commit_marker(25, epoch=1)], high_watermark=15),
    }
    value = log_value(PRODUCER, 1, ONGOING, {TOPIC: [0]}, updated=OVER)
    answer = audit(tmp_path, brokers, isr=(1,), quiesced=True, before_audit=coordinator(tmp_path, value))
    assert bool(answer.found("TXN-MARKER-LOST", 2)) == is_shared, answer


def test_a_marker_that_a_clean_election_left_behind_is_not_lost(tmp_path: Path) -> None:
    """It was never committed: its coordinator sends it to the next leader, too, whether or not its log is here."""
    brokers = {
        1: Replica([*SHARED_OPEN, commit_marker(15)], high_watermark=10),
        2: Replica([*SHARED_OPEN, *written(15, 20, 1, "new ")], high_watermark=10),
        3: Replica([*SHARED_OPEN, *written(15, 20, 1, "new ")], high_watermark=10),
    }
    begin = write.new_topic(TOPIC, TOPIC_ID, (1, 2, 3), 1)
    for unclean, change in (
        (False, write.change(TOPIC_ID, leader=2, isr=(2, 3))),
        (True, write.change(TOPIC_ID, leader=2, isr=(2,))),
    ):
        moves = [write.change(TOPIC_ID, isr=(1,))] * unclean
        metadata = {100: write.history(begin, *moves, change)}
        answer = audit(tmp_path / str(unclean), brokers, leader=2, metadata=metadata)
        assert bool(answer.found("TXN-MARKER-LOST", 1)) == unclean, answer


def test_a_marker_that_the_leader_wrote_again_is_not_lost(tmp_path):
    brokers = {
        1: Replica([*SHARED_OPEN, commit_marker(15, leader_epoch=1)], high_watermark=15),
        2: Replica([*SHARED_OPEN, commit_marker(15)], high_watermark=15),
    }
    assert not audit(tmp_path, brokers, isr=(1,)).found("TXN-MARKER-LOST")


def test_a_marker_of_another_producer_or_of_an_earlier_transaction_is_none_of_it(tmp_path):
    brokers = {
        1: Replica([*written(0, 10, 0), *[sent(10)], *written(15, 25, 1)], high_watermark=10),
        2: Replica(
            [*written(0, 10, 0), sent(10), encode_marker(15, "ABORT", 0, producer_id=8, producer_epoch=0)],
            high_watermark=10,
        ),
    }
    assert not audit(tmp_path, brokers, isr=(1,)).found("TXN-MARKER-LOST")


@pytest.mark.parametrize(("capture", "lost"), [("txn-failover-1-unclean", True), ("txn-failover-2-healed", False)])
def test_the_transaction_that_really_hung(capture, lost):
    audits = audit_capture(capture)
    for partition, (start, end, marker) in {"wallet-0": (9, 14, 17), "wallet-1": (9, 12, 16)}.items():
        rows = {row["code"]: row for row in audits[partition].rows("findings") if row["code"].startswith("TXN-")}
        hanging = rows["TXN-HANGING"]
        assert (hanging["severity"], hanging["start_offset"], hanging["end_offset"]) == ("medium", start, end)
        assert ("TXN-MARKER-LOST" in rows) == lost, told(audits[partition])
        if lost:
            assert (rows["TXN-MARKER-LOST"]["broker_id"], rows["TXN-MARKER-LOST"]["start_offset"]) == (0, marker)


@pytest.mark.parametrize("capture", [name for name in CAPTURES if not name.startswith("txn-failover")])
def test_no_other_real_cluster_has_one_the_open_one_of_healthy_included(capture):
    for partition, results in some(audit_capture(capture).items()):
        found = [row for row in results.rows("findings") if row["code"].startswith("TXN-")]
        assert {row["code"] for row in found} <= {"TXN-PENDING"}, f"{partition}\n{told(results)}"


def _marker(base: int, outcome: str, leader_epoch: int = 1, epoch: int = 0) -> bytes:
    return encode_marker(base, outcome, leader_epoch, producer_id=PRODUCER, producer_epoch=epoch)


@pytest.mark.parametrize(
    ("ours", "theirs", "is_told"),
    [
        ([_marker(15, "ABORT")], [_marker(15, "COMMIT", 0)], True),
        ([*written(15, 20, 1), _marker(20, "ABORT", epoch=1)], [_marker(15, "COMMIT", 0)], True),
        ([sent(15, leader_epoch=1), _marker(20, "ABORT")], [_marker(15, "COMMIT", 0)], True),
        ([_marker(15, "COMMIT"), sent(16, leader_epoch=1), _marker(21, "ABORT")], [_marker(15, "COMMIT", 0)], False),
        ([_marker(15, "COMMIT")], [_marker(15, "ABORT", 0)], False),
        ([_marker(15, "ABORT")], [_marker(15, "ABORT", 0)], False),
        ([_marker(15, "ABORT")], written(15, 20, 0, "old "), False),
        (written(15, 20, 1), [_marker(15, "COMMIT", 0)], False),
        (
            [*written(15, 20, 1), _marker(20, "ABORT")],
            [_marker(15, "ABORT", 0), sent(16), _marker(21, "COMMIT", 0)],
            False,
        ),
    ],
    ids=[
        "marker",
        "KIP-890",
        "with the next one",
        "the next one",
        "the other way",
        "both abort",
        "no end",
        "open",
        "aborted again, and the next one lost",
    ],
)
def test_what_the_leader_aborts_and_another_log_commits_is_told(
    tmp_path: Path, ours: list[bytes], theirs: list[bytes], is_told: bool
) -> None:
    brokers = {number: Replica([*SHARED_OPEN, *log], high_watermark=15) for number, log in ((1, ours), (2, theirs))}
    answer = audit(tmp_path, brokers, isr=(1,))
    assert [row["broker_id"] for row in answer.found("TXN-ABORTED")] == [2] * is_told, answer
    if is_told:
        (row,) = answer.found("TXN-ABORTED")
        assert (row["severity"], row["confidence"], row["start_offset"]) == ("medium", "proven", 15)
        assert "the transaction of producer 7 with offsets 10 to 14 is aborted on broker 1 at offset " in row["message"]
        assert not answer.found("TXN-MARKER-LOST") and not answer.found("HWM-LOSS"), answer


def test_what_a_leader_that_is_not_here_may_not_abort_is_open(tmp_path: Path) -> None:
    ends = {1: _marker(15, "ABORT"), 2: _marker(15, "COMMIT", 0)}
    brokers = {one: Replica([*SHARED_OPEN, end], high_watermark=15) for one, end in ends.items()}
    answer = audit(tmp_path, brokers, leader=3, isr=(3,), replicas=(1, 2, 3))
    assert answer.one("TXN-ABORTED", 2)[:2] == ("medium", "suspect")
    assert "broker 3, which leads, may have them, and its log is not here" in answer.messages("TXN-ABORTED")[0]


def test_a_transaction_that_ended_where_nothing_was_read_is_not_aborted(tmp_path: Path) -> None:
    """It goes on from one segment into the next, and ends in a chunk in which both logs are alike, far below the fork."""
    far = CHUNK_OFFSETS + 100
    ended = [_marker(20, "COMMIT", 0), *written(21, 26, 0), *written(26, far, 0, step=far)]
    shared = [*SHARED_OPEN, *written(15, 20, 0), *ended]
    ends = {
        1: [sent(far, leader_epoch=1), _marker(far + 5, "ABORT")],
        2: [sent(far), _marker(far + 5, "COMMIT", 0)],
    }
    brokers = {one: Replica([*shared, *end], high_watermark=far, per_segment=4) for one, end in ends.items()}
    assert not audit(tmp_path, brokers, isr=(1,)).found("TXN-ABORTED")
