"""Logs without topic ids and without a batch in common: an empty replica was elected, or the topic was created again (F.4)."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support import metadata_log as write
from tests.support.scenario import Answer, audit, written, written_legacy
from tests.support.snapshots import TOPIC, TOPIC_ID, Replica, write_manifest

from replica_audit.text import render_time


def lives(path: Path, new: Replica, old: Replica, **options) -> Answer:
    options.setdefault("isr", (1,))
    return audit(path, {1: new, 2: old}, listed_topic_id=None, **options)


def anonymous(batches, **values) -> Replica:
    return Replica(batches, topic_id=None, **values)


def old(*epochs: int, start: int = 0, **values) -> Replica:
    """Ten records in each epoch."""
    batches = [
        batch
        for number, epoch in enumerate(epochs)
        for batch in written(start + 10 * number, start + 10 * number + 10, epoch, "first life ")
    ]
    return anonymous(batches, **values)


def assert_judged(answer: Answer) -> None:
    assert answer.verdict == "COMMITTED_LOSS", answer
    assert not answer.found("META-TOPICID-MISMATCH")
    of_other = [row for row in answer.tables["findings"] if row["broker_id"] == 2]
    for row in of_other:
        if row["code"].startswith(("DIV-", "TRN-", "HWM-LOSS", "HWM-ABOVE")):
            assert row["confidence"] == "likely", row
            assert any("deleted and created again: not excluded" in one["text"] for one in row["evidence"])
    assert all("unless the topic was deleted and created again" in row["message"] for row in answer.found("HWM-LOSS"))
    assert answer.replica(2)["role"] == "compared"


def assert_open(answer: Answer) -> None:
    assert answer.verdict == "INCONCLUSIVE", answer
    assert answer.one("META-TOPICID-MISMATCH", 2)[:2] == ("medium", "suspect")
    assert answer.codes("medium") == {"META-TOPICID-MISMATCH"}, answer
    for row in answer.tables["divergences"]:
        assert (row["committed"], row["committed_records"], row["committed_evidence"]) == (False, 0, None)
        assert row["lost_records"] is None
    row = answer.tables["partitions"][0]
    assert (row["lost_records"], row["lost_committed"], row["committed_dropped"]) == (None, None, 0)
    assert row["dropped_records"] == answer.cut(2)["dropped_records"]
    assert answer.replica(2)["role"] == "set_aside"


@pytest.mark.parametrize(
    ("new", "other"),
    [
        (anonymous(written(0, 12, 3)), old(0, 2)),
        (anonymous(written(0, 50, 3)), old(0, 2)),
        (anonymous(written(0, 12, 1)), old(0)),
        (anonymous(written(0, 12, 3), log_start=5), old(0, 2)),
        (anonymous(written(0, 12, 3)), old(0, 2, start=5, log_start=5)),
        (anonymous([], high_watermark=0, epochs=[(3, 0)]), old(0, 2)),
    ],
    ids=["shorter", "longer", "next-epoch", "purged", "other-start", "empty"],
)
def test_epochs_that_went_on_growing_are_judged(tmp_path: Path, new: Replica, other: Replica) -> None:
    answer = lives(tmp_path, new, other)
    assert_judged(answer)
    row = answer.tables["partitions"][0]
    assert row["lost_records"] == row["lost_committed"] > 0


@pytest.mark.parametrize("epochs", [(0, 1), (0, 5), (2,), (1,)])
def test_a_topic_created_again_whose_first_record_came_after_an_election_is_open(
    tmp_path: Path, epochs: tuple[int, ...]
) -> None:
    """Its first epoch is 1, which the log of its first life had reached or passed."""
    assert_open(lives(tmp_path, anonymous(written(0, 12, 1, "second life ")), old(*epochs)))


@pytest.mark.parametrize("first", [0, 1, 2])
def test_logs_that_begin_elsewhere_are_open_all_the_same(tmp_path: Path, first: int) -> None:
    new = anonymous(written(0, 30, first, "second life "))
    assert_open(lives(tmp_path, new, old(0, 2, start=5, log_start=5)))


def test_without_epochs_it_is_open(tmp_path: Path) -> None:
    new = anonymous(written_legacy(0, 12, "second life "), epochs=None)
    assert_open(lives(tmp_path / "both", new, anonymous(written_legacy(0, 20, "first life "), epochs=None)))
    assert_open(lives(tmp_path / "one", anonymous(written(0, 12, 4)), anonymous(written_legacy(0, 20), epochs=None)))


def test_a_batch_in_common_is_one_topic(tmp_path: Path) -> None:
    shared = written(0, 5, 0)
    new, other = ([*shared, *written(5, end, epoch)] for end, epoch in ((12, 3), (40, 2)))
    answer = lives(tmp_path, anonymous(new), anonymous(other))
    assert answer.verdict == "COMMITTED_LOSS" and {row["confidence"] for row in answer.found("HWM-LOSS")} == {"likely"}


def test_topic_ids_decide(tmp_path: Path) -> None:
    new, other = Replica(written(0, 12, 1, "second ")), Replica(written(0, 20, 1, "first "))
    answer = audit(tmp_path, {1: new, 2: other}, isr=(1,))
    assert answer.verdict == "COMMITTED_LOSS" and not answer.found("META-TOPICID-MISMATCH")
    assert {row["confidence"] for row in answer.found("DIV-CONTENT")} == {"proven"}


def test_an_id_on_one_side_only_decides_nothing(tmp_path: Path) -> None:
    new, other = Replica(written(0, 12, 1, "second "), topic_id=TOPIC_ID), old(0, 1)
    assert_open(audit(tmp_path, {1: new, 2: other}, isr=(1,)))


def test_an_in_sync_stranger_is_open_too(tmp_path: Path) -> None:
    assert_open(lives(tmp_path, anonymous(written(0, 12, 1, "second life ")), old(0, 1), isr=(1, 2)))


@pytest.mark.parametrize(("seconds", "is_open"), [(-1, True), (0.4, True), (6, True), (8, False)])
def test_the_checkpoint_of_a_topic_that_was_created_anew_just_before_the_copy_proves_nothing(
    tmp_path: Path, seconds: float, is_open: bool
) -> None:
    """It names no topic id, and is written every 5 s. X, 4.3.1: a topic was deleted and created anew while brokers were collected."""
    begun, ended = (render_time(write.TIME_MS + int(one * 1000)) for one in (seconds, seconds + 3))
    said = [
        {"broker_id": one, "log_dir": f"broker-{one}", "kind": "live", "started": begun, "finished": ended}
        for one in (1, 2)
    ]
    created = [*map(write.register_broker, (1, 2)), *write.new_topic(TOPIC, TOPIC_ID, (1, 2), 1)]
    answer = audit(
        tmp_path,
        {1: Replica(written(0, 20, 0)), 2: Replica(written(0, 20, 0), high_watermark=343)},
        metadata={100: write.history(created)},
        before_audit=lambda: write_manifest(tmp_path, brokers=said),
    )
    told = ("medium", "suspect") if is_open else ("high", "proven")
    assert answer.one("HWM-CP-ABOVE-LEO", 2)[:2] == told, answer
    assert (answer.verdict == "INCONCLUSIVE") is is_open, answer
