"""Scenes on which the audit once gave a false alarm or missed a loss, and their nearest neighbours."""

from __future__ import annotations

import pytest
from tests.support.encoder import flip
from tests.support.scenario import audit, written, written_legacy
from tests.support.snapshots import Replica


def test_the_start_of_an_empty_log_on_another_lineage_bounds_nothing(tmp_path):
    """Broker 2 deleted below 1 what another lineage had committed there; it shares no record with leader 1."""
    answer = audit(
        tmp_path,
        {
            1: Replica(written(0, 13, 2), high_watermark=0, epochs=[(2, 0)]),
            2: Replica([], high_watermark=1, log_start=1, first_base_offset=1, epochs=[(1, 1)]),
        },
        isr=(1,),
    )
    assert answer.interval[0] == 0, answer


def test_a_log_start_counts_where_the_two_agree_above_it(tmp_path):
    answer = audit(
        tmp_path,
        {
            1: Replica(written(0, 20, 0), high_watermark=0),
            2: Replica(written(10, 20, 0), high_watermark=None, first_base_offset=10),
        },
    )
    assert answer.interval == (10, 20)
    assert answer.mark["lower_evidence"] == "log start 10 of broker 2"


def test_a_cut_below_the_followers_own_start_is_no_needless_cut(tmp_path):
    """The two agree on nothing that both can still have: the cut at 4 below the log start 5 drops the same records."""
    answer = audit(
        tmp_path,
        {
            1: Replica([*written(0, 4, 0), *written(4, 12, 2, "new ")], high_watermark=4),
            2: Replica(
                [*written(5, 9, 1, "old ")], high_watermark=5, log_start=5, first_base_offset=5, epochs=[(0, 0), (1, 4)]
            ),
        },
        isr=(1,),
    )
    assert not answer.found("TRN-OVER-TRUNCATE"), answer


def test_records_past_the_end_of_an_empty_leader_conflict_also_from_inside_a_batch(tmp_path):
    """Leader 3 is empty at 3 in epoch 1; only offset 3 of the follower's batch 0 to 3 can be compared, and conflicts."""
    answer = audit(
        tmp_path,
        {
            2: Replica(written(0, 4, 0), high_watermark=4),
            3: Replica([], high_watermark=3, log_start=3, first_base_offset=3, epochs=[(1, 3)]),
        },
        leader=3,
        isr=(3,),
    )
    assert [run[:3] for run in answer.runs(2)] == [("DIV-EPOCH", 3, 4)], answer
    assert answer.one("HWM-LOSS", 2) == ("critical", "likely", 3, 4)
    assert answer.verdict == "COMMITTED_LOSS"


def test_an_empty_leader_without_topic_ids_is_a_loss_and_no_other_topic(tmp_path):
    answer = audit(
        tmp_path,
        {
            1: Replica([], high_watermark=0, epochs=[(3, 0)], topic_id=None),
            2: Replica(written(0, 20, 2), high_watermark=15, topic_id=None),
        },
        isr=(1,),
    )
    assert answer.verdict == "COMMITTED_LOSS", answer
    assert not answer.found("META-TOPICID-MISMATCH")


def test_logs_without_topic_ids_and_without_a_common_batch_are_not_compared(tmp_path):
    answer = audit(
        tmp_path,
        {
            1: Replica(written(0, 20, 2, "second life "), topic_id=None),
            2: Replica(written(0, 20, 2), topic_id=None),
        },
        isr=(1,),
    )
    assert answer.verdict == "INCONCLUSIVE", answer
    assert answer.one("META-TOPICID-MISMATCH", 2)[:2] == ("medium", "suspect")
    assert "HWM-LOSS" not in answer.codes("info")


def test_preallocated_zeros_on_a_copy_of_an_earlier_moment_are_no_damage(tmp_path):
    answer = audit(
        tmp_path,
        {
            1: Replica(written(0, 30, 0), high_watermark=25),
            2: Replica(written(0, 20, 0), high_watermark=15, tail=bytes(4096)),
        },
    )
    assert answer.codes("medium") == set(), answer
    assert answer.verdict in ("LAGGING", "CONSISTENT")


def test_zeros_after_a_clean_stop_where_committed_records_should_be_are_damage(tmp_path):
    answer = audit(
        tmp_path,
        {
            1: Replica(written(0, 30, 0), high_watermark=25, clean_shutdown=True),
            2: Replica(written(0, 20, 0), high_watermark=15, tail=bytes(4096), clean_shutdown=True),
        },
    )
    assert answer.one("HWM-ABOVE-ISR-PREFIX", 2)[0] == "critical", answer


@pytest.mark.parametrize("tail", [written(20, 25, 0)[0][:40], bytes(range(200)), bytes(300)])
def test_an_in_sync_replica_whose_tail_is_unreadable_bounds_nothing(tmp_path, tail):
    """The torn batch may be one that the leader had counted: the true high watermark is 25."""
    answer = audit(
        tmp_path,
        {
            1: Replica(written(0, 25, 0), high_watermark=15),
            2: Replica(written(0, 20, 0), high_watermark=15, tail=tail),
        },
    )
    assert answer.interval == (15, 25), answer
    assert answer.mark["limiting_broker_id"] is None


def test_an_unreadable_last_batch_of_the_leader_may_have_been_committed(tmp_path):
    last = flip(written(20, 25, 0)[0])
    answer = audit(
        tmp_path,
        {
            1: Replica([*written(0, 20, 0), last], high_watermark=15),
            2: Replica(written(0, 25, 0), high_watermark=15),
        },
    )
    assert answer.interval[1] == 25, answer


def test_without_the_leaders_files_a_longer_outsider_of_the_same_epoch_is_not_accused(tmp_path):
    """Copied later than broker 2, the only member at hand: the leader, whose disk is missing, may have all of it."""
    answer = audit(
        tmp_path,
        {
            2: Replica(written(0, 20, 4), high_watermark=15),
            3: Replica(written(0, 30, 4), high_watermark=25),
        },
        leader=1,
        isr=(1, 2),
        source="user",
        leader_epoch=5,
    )
    assert not answer.codes("high"), answer
    assert not answer.runs(3)
    assert answer.tables["partitions"][0]["leader_epoch"] == 5


def test_one_changed_epoch_field_is_no_second_history(tmp_path):
    """The header of batch 10 says epoch 2, which begins at 30: same bytes under the checksum, an odd header."""
    batches = [*written(0, 30, 0), *written(30, 40, 2)]
    changed = [batch if index != 2 else batch[:12] + b"\0\0\0\2" + batch[16:] for index, batch in enumerate(batches)]
    answer = audit(tmp_path, {1: Replica(batches), 2: Replica(changed, epochs=[(0, 0), (2, 30)])})
    assert answer.one("LOG-CRC-BLIND", 2)[0] == "high"
    assert not answer.found("EPO-START-MISMATCH"), answer
    assert answer.verdict == "LATENT_CORRUPTION"


@pytest.mark.parametrize(("own", "theirs"), [(0, 1), (1, 0)])
def test_messages_converted_between_the_old_formats_are_not_called_other_records(tmp_path, own, theirs):
    answer = audit(
        tmp_path,
        {
            1: Replica(written_legacy(0, 9, magic=theirs), epochs=None),
            2: Replica(written_legacy(0, 9, magic=own), epochs=None),
        },
    )
    assert answer.runs(2) == [], answer
    assert answer.one("DIV-FORMAT", 2)[:2] == ("info", "proven")


def test_a_listing_older_than_a_clean_stop_under_load_is_no_loss(tmp_path):
    """Leader 1 stopped first; 2 led epoch 1 and took ten more records before it stopped. The listing is from before."""
    answer = audit(
        tmp_path,
        {
            1: Replica(written(0, 20, 0), clean_shutdown=True),
            2: Replica([*written(0, 20, 0), *written(20, 30, 1)], clean_shutdown=True),
        },
    )
    assert answer.codes("medium") == set(), answer
    assert answer.found("CAP-SKEW", 2)


def test_a_leader_at_rest_that_is_shorter_in_its_own_epoch_lost_its_tail(tmp_path):
    brokers = {
        1: Replica(written(0, 20, 0), clean_shutdown=True),
        2: Replica(written(0, 30, 0), high_watermark=20, clean_shutdown=True),
    }
    answer = audit(tmp_path / "at rest", brokers, quiesced=True)
    assert answer.one("REP-LEADER-SHORTER", 2) == ("high", "likely", 20, 30)
    assert answer.verdict == "COMMITTED_LOSS"
    # Clean flags alone do not mean one moment: the listing may be older than the stop.
    answer = audit(tmp_path / "stopped", brokers)
    assert answer.codes("medium") == set(), answer
    assert answer.one("CAP-SKEW", 2)[2:] == (20, 30)
