"""Truncation replay on the traces of the reference: which generation keeps what, in which steps."""

from __future__ import annotations

import pytest
from tests.support.samples import TEXTBOOK
from tests.support.some import some

from replica_audit.literals import PROTOCOLS
from replica_audit.protocol.lineage import Lineage
from replica_audit.protocol.truncation import ReplicaState, replay
from replica_audit.schema import TruncationRound

EPOCH_PROTOCOLS = ("kip-101", "kip-279", "fetch")
LOOPING_PROTOCOLS = ("kip-279", "fetch")


def _replica(log_end: int, epochs: dict[int, int], high_watermark: int = 0, log_start: int = 0) -> ReplicaState:
    return ReplicaState(log_start, log_end, Lineage(tuple(sorted(epochs.items()))), high_watermark)


def _cuts(follower: ReplicaState, leader: ReplicaState) -> tuple[int, ...]:
    return tuple(replay(protocol, follower, leader).truncate_to for protocol in PROTOCOLS)


def _trace(step: TruncationRound) -> tuple:
    return (
        step.request_epoch,
        (step.leader_epoch, step.leader_end_offset),
        (step.replica_epoch, step.replica_end_offset),
        step.truncate_to,
    )


def test_e1_a_restarted_follower_loses_a_committed_record_by_high_watermark_and_keeps_it_by_epochs():
    follower, leader = _replica(2, {0: 0}, high_watermark=1), _replica(2, {0: 0}, high_watermark=2)
    assert _cuts(follower, leader) == (1, 2, 2, 2)
    assert replay("high-watermark", follower, leader).reason == "hw_fallback"
    assert [replay(protocol, follower, leader).reason for protocol in EPOCH_PROTOCOLS] == ["none"] * 3


def test_e2_after_a_power_loss_the_high_watermark_keeps_a_difference_that_epochs_cut():
    follower, leader = _replica(2, {0: 0}, high_watermark=2), _replica(2, {0: 0, 1: 1}, high_watermark=1)
    assert _cuts(follower, leader) == (2, 1, 1, 1)


def test_e3_after_fast_fail_overs_one_question_keeps_foreign_records_and_asking_again_does_not():
    follower = _replica(12, {0: 0, 2: 10}, high_watermark=10)
    leader = _replica(20, {0: 0, 1: 10, 3: 15}, high_watermark=10)

    assert _cuts(follower, leader) == (10, 12, 10, 10)
    for protocol in LOOPING_PROTOCOLS:
        outcome = replay(protocol, follower, leader)
        assert [_trace(step) for step in outcome.steps] == [(2, (1, 15), (0, 10), 10), (0, (0, 10), (0, 10), 10)]
        assert (outcome.rounds, outcome.reason) == (2, "stepped_back")


def test_e4_several_rounds_step_back_one_unknown_epoch_at_a_time():
    follower = _replica(20, {0: 0, 2: 10, 4: 14, 6: 18})
    leader = _replica(30, {0: 0, 1: 10, 3: 12, 5: 13, 7: 16})
    for protocol in LOOPING_PROTOCOLS:
        outcome = replay(protocol, follower, leader)
        assert [_trace(step) for step in outcome.steps] == [
            (6, (5, 16), (4, 18), 18),
            (4, (3, 13), (2, 14), 14),
            (2, (1, 12), (0, 10), 10),
            (0, (0, 10), (0, 10), 10),
        ]
        assert (outcome.truncate_to, outcome.rounds, outcome.reason) == (10, 4, "stepped_back")


def test_e5_no_generation_cuts_a_zombie_whose_tail_agrees():
    follower = _replica(60, {0: 0, 1: 50}, high_watermark=60)
    leader = _replica(60, {0: 0, 1: 40, 2: 60}, high_watermark=60)
    assert _cuts(follower, leader) == (60, 60, 60, 60)


def test_e6_a_leader_that_lost_its_tail_makes_every_generation_drop_committed_records():
    follower = _replica(100, {4: 0}, high_watermark=100)
    leader = _replica(93, {4: 0, 5: 93}, high_watermark=93)
    assert _cuts(follower, leader) == (93, 93, 93, 93)
    assert replay("high-watermark", follower, leader).reason == "out_of_range_tail"
    assert replay("fetch", follower, leader).reason == "epoch_match"


def test_high_watermark_uses_no_answer_of_the_leader_kip_101_uses_one():
    follower, leader = _replica(12, {0: 0, 2: 10}, 10), _replica(20, {0: 0, 1: 10, 3: 15})
    assert replay("high-watermark", follower, leader).rounds == 0
    outcome = replay("kip-101", follower, leader)
    assert outcome.rounds == 1
    assert _trace(outcome.steps[0]) == (2, (None, 15), (None, None), 12)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_follower_without_epochs_falls_back_to_its_high_watermark(protocol):
    outcome = replay(protocol, _replica(9, {}, high_watermark=4), _replica(20, {3: 0}))
    assert (outcome.truncate_to, outcome.rounds, outcome.reason) == (4, 0, "hw_fallback")


def test_a_leader_without_epochs_answers_undefined():
    follower, leader = _replica(9, {1: 0}, high_watermark=4), _replica(20, {})
    assert _cuts(follower, leader) == (4, 4, 4, 9)
    assert replay("kip-101", follower, leader).reason == "hw_fallback"
    assert replay("kip-279", follower, leader).reason == "hw_fallback"
    # Fetching, the follower is told that it is out of range, which it is not, and keeps everything.
    assert replay("fetch", follower, leader).truncate_to == 9


def test_a_leader_that_never_heard_of_the_followers_epoch_answers_undefined():
    follower, leader = _replica(9, {0: 0, 5: 6}, high_watermark=4), _replica(7, {0: 0, 3: 5})
    assert _cuts(follower, leader) == (4, 4, 4, 7)
    assert replay("fetch", follower, leader).reason == "out_of_range_tail"


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_follower_past_the_end_of_the_leader_is_cut_to_it(protocol):
    outcome = replay(protocol, _replica(12, {0: 0}, high_watermark=12), _replica(7, {0: 0}))
    assert outcome.truncate_to == 7


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_follower_below_the_leaders_start_is_emptied_and_starts_there(protocol):
    outcome = replay(protocol, _replica(12, {0: 0}, high_watermark=12), _replica(90, {3: 40}, log_start=40))
    assert (outcome.truncate_to, outcome.reason) == (40, "full_truncate")


@pytest.mark.parametrize(
    ("protocol", "end", "expected"),
    [
        ("fetch", 39, (40, "tiered_restart", 39, 39)),
        ("fetch", 40, (40, "none", None, 40)),
        ("fetch", 19, (20, "full_truncate", None, 20)),
        ("kip-279", 39, (39, "none", None, 39)),
    ],
    ids=["below its local log", "where that begins", "below all of it", "before remote storage"],
)
def test_a_follower_below_the_leaders_local_log_restarts_there_and_keeps_what_is_in_remote_storage(
    protocol, end, expected
):
    leader = _replica(60, {0: 0}, log_start=20)._replace(local_start_offset=40)
    outcome = replay(protocol, _replica(end, {0: 0}), leader)
    assert (outcome.truncate_to, outcome.reason, outcome.tiered_from, outcome.kept_to) == expected
    assert outcome.rounds == len(outcome.steps) == 1


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_empty_follower_at_the_leaders_start_has_nothing_to_cut(protocol):
    outcome = replay(protocol, _replica(0, {}), _replica(5, {0: 0}))
    reason = "none" if protocol == "high-watermark" else "hw_fallback"
    assert (outcome.truncate_to, outcome.reason) == (0, reason)


@pytest.mark.parametrize("protocol", EPOCH_PROTOCOLS)
def test_a_returning_leader_whose_successor_wrote_nothing_below_its_end_keeps_everything(protocol):
    follower, leader = _replica(120, {0: 0}, high_watermark=100), _replica(150, {0: 0, 1: 120})
    outcome = replay(protocol, follower, leader)
    assert (outcome.truncate_to, outcome.reason) == (120, "none")
    assert replay("high-watermark", follower, leader).truncate_to == 100


def test_a_follower_whose_first_epoch_lies_above_the_leaders_answer_keeps_nothing_of_it():
    # The leader knows epoch 3 only as something below its first entry (5, 40).
    follower, leader = _replica(30, {3: 10}, log_start=10), _replica(60, {2: 0, 5: 20})
    for protocol in LOOPING_PROTOCOLS:
        outcome = replay(protocol, follower, leader)
        assert _trace(outcome.steps[0]) == (3, (2, 20), (2, 10), 10)
        assert outcome.truncate_to == 10


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_equal_replicas_keep_everything(protocol):
    replica = _replica(50, {2: 10, 4: 20, 7: 35}, high_watermark=50, log_start=10)
    assert replay(protocol, replica, replica).truncate_to == 50


def test_an_unknown_protocol_is_refused():
    with pytest.raises(KeyError, match="kip-595"):
        replay("kip-595", _replica(1, {0: 0}), _replica(1, {0: 0}))


@pytest.mark.parametrize("name", sorted(TEXTBOOK))
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_textbook_samples_are_cut_where_their_table_says(name, protocol):
    sample = TEXTBOOK[name]
    states = {
        broker_id: _replica(broker.log_end, dict(broker.epochs), broker.high_watermark)
        for broker_id, broker in sample.brokers.items()
    }
    for broker_id, broker in some(sample.brokers.items()):
        if broker_id == sample.leader:
            continue
        follower, leader = states[broker_id], states[sample.leader]
        if protocol in ("high-watermark", "kip-101"):
            # Those generations wrote no entry for an epoch without records.
            end = leader.log_end_offset
            leader = ReplicaState(0, end, leader.lineage.truncate_from_end(end), 0)
        expected = broker.truncate_to[PROTOCOLS.index(protocol)]
        assert replay(protocol, follower, leader).truncate_to == expected


def test_a_follower_that_only_lags_takes_one_answer_of_the_leader():
    follower, leader = _replica(9, {0: 0}), _replica(20, {0: 0, 1: 12})
    for protocol in LOOPING_PROTOCOLS:
        outcome = replay(protocol, follower, leader)
        assert [_trace(step) for step in outcome.steps] == [(0, (0, 12), (0, 9), 9)]
        assert (outcome.truncate_to, outcome.rounds, outcome.reason) == (9, 1, "none")


def test_a_follower_that_ends_where_the_leader_begins_is_served():
    leader = _replica(30, {0: 10}, log_start=10)
    served = replay("fetch", _replica(10, {0: 0}), leader)
    assert (served.truncate_to, served.reason, served.steps[0].replica_epoch) == (10, "none", 0)
    out_of_range = replay("fetch", _replica(9, {0: 0}), leader)
    assert (out_of_range.truncate_to, out_of_range.reason) == (10, "full_truncate")
    assert out_of_range.steps[0].replica_epoch is None


def test_a_high_watermark_at_the_end_cuts_nothing_and_is_a_fallback_where_epochs_should_have_told():
    follower = _replica(9, {}, high_watermark=9)
    leader = _replica(20, {3: 0})
    assert replay("high-watermark", follower, leader).reason == "none"
    assert [replay(protocol, follower, leader).reason for protocol in EPOCH_PROTOCOLS] == ["hw_fallback"] * 3
    assert [replay(protocol, follower, leader).truncate_to for protocol in PROTOCOLS] == [9] * 4


def test_a_follower_that_is_told_to_be_out_of_range_and_is_not_cuts_nothing():
    outcome = replay("fetch", _replica(9, {1: 0}, high_watermark=4), _replica(20, {}))
    assert (outcome.truncate_to, outcome.reason) == (9, "none")
