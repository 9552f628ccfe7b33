"""Costs where the message format was raised broker by broker: one that has the older format keeps no epochs (2.1.1 to 3.x)."""

from __future__ import annotations

import pytest
from tests.support.scenario import Answer, audit, written, written_legacy
from tests.support.snapshots import Replica
from tests.support.some import some

#: Epoch 0 in the new format, then 20 to 24 by a leader with the older one.
OLD = [*written(0, 20, 0), *written_legacy(20, 25)]
#: Another leader went on from 20 in epoch 2.
NEW = [*written(0, 20, 0), *written(20, 30, 2)]


def losses(answer: Answer) -> dict[int, tuple[int, int, int]]:
    """(lost, thereof committed, possibly) by candidate."""
    names = ("lost_records", "lost_committed", "lost_possible")
    return {row["candidate_id"]: tuple(row[name] for name in names) for row in answer.rows("elections")}


def kept(answer: Answer, candidate: int) -> dict[int, int]:
    return {row["broker_id"]: row["kept_to"] for row in answer.rows("elections") if row["candidate_id"] == candidate}


@pytest.mark.parametrize("protocol", ["kip-279", "kip-101"])
@pytest.mark.parametrize("mark", [10, 15])
def test_followers_of_a_leader_without_epochs_are_cut_to_their_high_watermark(tmp_path, protocol, mark):
    """`Log.endOffsetForEpoch` without a cache answers no epoch, so that `AbstractFetcherThread.getOffsetTruncationState` takes the high
    watermark: what the candidate has there is fetched again, what it lacks is lost."""
    new = Replica(NEW, epochs=[(0, 0), (2, 20)], high_watermark=mark)
    answer = audit(tmp_path, {1: new, 2: Replica(OLD, epochs=None)}, quiesced=True, protocol=protocol)
    assert kept(answer, 2) == {1: mark, 2: 25} and losses(answer)[2][0] == 10, answer


@pytest.mark.parametrize("epochs", [[], [(0, 0)], [(0, 0), (1, 20)]])
def test_followers_of_a_leader_with_the_new_format_are_cut_where_its_epoch_begins(tmp_path, epochs):
    """Its file is there, and its own epoch is in it as soon as it is elected: nothing goes that the new log has no other record for."""
    new = Replica(NEW, epochs=[(0, 0), (2, 20)], high_watermark=10)
    answer = audit(tmp_path, {1: new, 2: Replica(OLD, epochs=epochs)}, quiesced=True, protocol="kip-279")
    assert kept(answer, 2)[1] >= 20, answer


def test_a_follower_without_epochs_is_cut_to_its_high_watermark(tmp_path):
    """Its own log would be cut at 20 if it had epochs; the five records of the older format stay below it, hidden."""
    follower = Replica(OLD, epochs=None, high_watermark=25)
    answer = audit(tmp_path / "old", {1: Replica(NEW), 2: follower}, quiesced=True, protocol="kip-279")
    assert answer.cut(2, "kip-279")["truncate_to"] == 25 and "DIV-HIDDEN" in answer.codes(), answer


def test_where_a_format_may_be_raised_by_the_start_the_greater_loss_counts_and_the_lesser_is_proven(tmp_path):
    """With the older format the follower keeps what is below its high watermark; recovery with the new one finds epoch 0, whose end on the
    leader is 10, and all above goes."""
    leader = Replica([*written(0, 10, 0), *written(10, 40, 3, "other ")], epochs=[(0, 0), (3, 10)])
    other = Replica([*written(0, 10, 0), *written(10, 30, 0)], epochs=None, high_watermark=30)
    third = Replica(written_legacy(0, 5), epochs=None, high_watermark=5)
    answer = audit(tmp_path, {1: leader, 2: other, 3: third}, quiesced=True, protocol="kip-279", isr=(1,))
    lost, committed, possible = losses(answer)[1]
    assert (lost, committed + possible) == (20, 20) and committed == 0, answer
    # Without any batch of an older format the file was lost, and recovery alone is expected.
    answer = audit(tmp_path / "new", {1: leader, 2: other}, quiesced=True, protocol="kip-279", isr=(1,))
    assert losses(answer)[1] == (20, 20, 0), answer


@pytest.mark.parametrize("protocol", ["kip-279", "fetch"])
def test_a_partition_of_one_format_costs_the_same_whether_or_not_files_are_missing(tmp_path, protocol):
    answers = [
        audit(
            tmp_path / str(epochs is None),
            {1: Replica(NEW, high_watermark=20), 2: Replica(written(0, 25, 0), epochs=epochs, high_watermark=20)},
            quiesced=True,
            protocol=protocol,
        )
        for epochs in ([(0, 0)], None)
    ]
    assert losses(answers[0]) == losses(answers[1]) and some(losses(answers[0]))
