"""DIV-* and TRN-*: records that differ, and what the chosen protocol would make of them."""

from __future__ import annotations

import pytest
from tests.support.encoder import DELETE_HORIZON_BIT, encode_batch
from tests.support.scenario import audit, written, written_legacy
from tests.support.snapshots import Replica

SHARED = written(0, 20, 0)
LEADER = [*SHARED, *written(20, 40, 1, "new ")]


def test_an_old_leaders_tail_that_is_cut_is_uncommitted_divergence(tmp_path):
    old = [*SHARED, *written(20, 50, 0, "old ")]
    answer = audit(tmp_path, {1: Replica(LEADER, high_watermark=30), 2: Replica(old, high_watermark=20)}, isr=(1,))
    # One run to the leader's end, one from there to the replica's own: the leader has no record and no epoch there.
    assert answer.runs(2) == [("DIV-EPOCH", 20, 40, 1, 0, False), ("DIV-EPOCH", 40, 50, None, 0, False)]
    assert {row["severity"] for row in answer.found("DIV-EPOCH", 2)} == {"medium"}
    assert answer.cut(2)["truncate_to"] == answer.cut(2)["common_prefix_end"] == 20
    assert (answer.cut(2)["dropped_records"], answer.cut(2)["committed_dropped"]) == (30, 0)
    assert answer.verdict == "UNCOMMITTED_DIVERGENCE"
    assert answer.codes("medium") == {"DIV-EPOCH"}


@pytest.mark.parametrize(
    ("high_watermark", "committed"), [(20, None), (21, 21), (25, 25), (50, 50)], ids=["at-run", "one", "inside", "end"]
)
@pytest.mark.parametrize("in_order", [True, False])
def test_a_checkpoint_inside_the_conflict_proves_a_loss_up_to_itself(tmp_path, high_watermark, committed, in_order):
    """Where nothing shows that it is not later than the log, it makes one likely."""
    old = [*SHARED, *written(20, 50, 0, "old ")]
    brokers = {1: Replica(LEADER, high_watermark=20), 2: Replica(old, high_watermark=high_watermark)}
    answer = audit(tmp_path, brokers, isr=(1,), in_order=in_order)
    if committed is None:
        assert not answer.codes("high")
        return
    losses = answer.found("HWM-LOSS", 2)
    assert min(row["start_offset"] for row in losses) == 20
    assert max(row["end_offset"] for row in losses) == committed
    assert {(row["severity"], row["confidence"]) for row in losses} == {
        ("critical", "proven" if in_order else "likely")
    }
    assert answer.one("TRN-BELOW-HW", 2) == ("critical", "proven" if in_order else "likely", 20, committed)
    assert answer.cut(2)["committed_dropped"] == committed - 20
    assert answer.tables["partitions"][0]["committed_dropped"] == committed - 20
    assert answer.verdict == "COMMITTED_LOSS"


def test_a_checkpoint_past_a_run_above_which_the_logs_agree_proves_nothing(tmp_path):
    """It may have been learnt from the present leader."""
    odd = [*SHARED[:2], *written(10, 15, 0, "odd "), *LEADER[3:]]
    answer = audit(tmp_path, {1: Replica(LEADER), 2: Replica(odd)})
    assert answer.runs(2) == [("DIV-CONTENT", 10, 15, 0, 0, False)]
    assert not answer.found("HWM-LOSS")
    assert answer.verdict == "COMMITTED_DIVERGENCE"


@pytest.mark.parametrize(("version", "confidence"), [("2.7.2", "proven"), ("3.4.1", "suspect"), ("3.5.0", "proven")])
def test_where_checkpoints_could_run_over_a_tail_the_loss_is_suspect(tmp_path, version, confidence):
    old = [*SHARED, *written(20, 30, 0, "old ")]
    brokers = {1: Replica(LEADER, high_watermark=20), 2: Replica(old, high_watermark=30)}
    answer = audit(tmp_path, brokers, isr=(1,), kafka_version=version)
    assert {row["confidence"] for row in answer.found("HWM-LOSS")} == {confidence}


@pytest.mark.parametrize(("in_order", "confidence"), [(True, "proven"), (False, "likely")])
def test_other_records_below_the_cut_stay_for_good(tmp_path, in_order, confidence):
    """Unless the log of broker 1 begins at 20 by now, which files in order would show."""
    other = [*SHARED[:1], *written(5, 10, 1, "other "), *written(10, 20, 1), *written(20, 40, 1, "new ")]
    answer = audit(tmp_path, {1: Replica(LEADER), 2: Replica(other)}, in_order=in_order)
    assert answer.runs(2) == [("DIV-HIDDEN", 5, 20, 0, 1, False)]
    assert answer.one("DIV-HIDDEN", 2) == ("critical", confidence, 5, 20)
    assert answer.one("TRN-REPLAY-GAP", 2)[1:] == (confidence, 5, answer.cut(2)["truncate_to"])
    doubt = "nothing shows in which order the files of broker 1 were copied, and the log may begin at 20 by now"
    assert all((doubt in said) is not in_order for said in answer.messages("DIV-HIDDEN")), answer
    assert answer.verdict == "COMMITTED_DIVERGENCE"


def test_one_offset_one_epoch_two_records(tmp_path):
    answer = audit(tmp_path, {1: Replica(SHARED), 2: Replica([*SHARED[:3], *written(15, 20, 0, "other ")])})
    assert answer.runs(2)[0][:5] == ("DIV-CONTENT", 15, 20, 0, 0)
    assert answer.one("DIV-CONTENT", 2)[0] == "critical"


def test_a_hole_on_either_side(tmp_path):
    holed = [*LEADER[:1], *LEADER[2:]]
    here = audit(tmp_path / "here", {1: Replica(LEADER), 2: Replica(holed)})
    assert here.runs(2) == [("DIV-HIDDEN", 5, 10, 0, None, False)]
    there = audit(tmp_path / "there", {1: Replica(holed), 2: Replica(LEADER)})
    assert there.runs(2) == [("DIV-HIDDEN", 5, 10, None, 0, False)]
    assert here.verdict == there.verdict == "COMMITTED_DIVERGENCE"


def test_a_hole_in_a_tail_that_is_cut_anyway(tmp_path):
    tail = [*SHARED[:2], *SHARED[3:], *written(20, 30, 0, "old ")]
    answer = audit(
        tmp_path,
        {1: Replica(LEADER, high_watermark=0), 2: Replica(tail, high_watermark=10)},
        isr=(1,),
        protocol="high-watermark",
    )
    assert answer.one("DIV-PRESENCE", 2) == ("high", "proven", 10, 15)


def _cleaned(base: int, last: int, epoch: int, records: int, horizon: int | None = None) -> bytes:
    return encode_batch(
        base, records, epoch, mark=f"{base} ", last_offset_delta=last - base, delete_horizon_ms=horizon,
        attributes=DELETE_HORIZON_BIT if horizon else None,
    )  # fmt: skip


def test_healthy_compacted_replicas_may_differ_in_every_byte(tmp_path):
    full = written(0, 30, 0)
    thin = [_cleaned(0, 4, 0, 2), _cleaned(10, 14, 0, 1, horizon=1_700_000_009_999), *full[3:]]
    brokers = {1: Replica(full, cleaned_to=0), 2: Replica(thin, cleaned_to=25)}
    answer = audit(tmp_path, brokers, configs={"cleanup.policy": "compact"})
    assert answer.codes() == set(), answer
    assert answer.runs(2) == []
    assert answer.one("DIV-PRESENCE", 2)[0] == "info"
    assert answer.verdict == "CONSISTENT"


def test_compacted_replicas_that_only_lag_or_begin_later_are_not_said_to_differ(tmp_path):
    brokers = {1: Replica(written(5, 30, 0), first_base_offset=5), 2: Replica(written(0, 20, 0))}
    answer = audit(tmp_path, brokers, configs={"cleanup.policy": "compact"})
    assert not answer.found("DIV-PRESENCE"), answer


def test_compaction_does_not_hide_another_epoch(tmp_path):
    brokers = {
        1: Replica([*SHARED, *written(20, 40, 2)]),
        2: Replica([*SHARED, *written(20, 35, 1)], high_watermark=20),
    }
    answer = audit(tmp_path, brokers, isr=(1,), configs={"cleanup.policy": "compact"})
    assert answer.runs(2)[0][:3] == ("DIV-EPOCH", 20, 35)


@pytest.mark.parametrize("policy", ["compact,delete", "delete,compact"])
def test_both_policies_are_compaction_too(tmp_path, policy):
    brokers = {1: Replica(SHARED), 2: Replica([*SHARED[:1], *SHARED[2:]], cleaned_to=15)}
    answer = audit(tmp_path, brokers, configs={"cleanup.policy": policy})
    assert answer.codes() == set(), answer


def test_records_past_the_end_of_a_log_without_epochs_are_ahead(tmp_path):
    brokers = {1: Replica(written_legacy(0, 10), epochs=None), 2: Replica(written_legacy(0, 14), epochs=None)}
    answer = audit(tmp_path, brokers)
    assert answer.runs(2) == []
    assert answer.one("CAP-SKEW", 2) == ("info", "likely", 10, 14)


@pytest.mark.parametrize(("protocol", "cut"), [("kip-101", 12), ("kip-279", 10), ("fetch", 10), ("high-watermark", 10)])
def test_fast_fail_over_under_each_protocol(tmp_path, protocol, cut):
    brokers = {
        1: Replica([*written(0, 10, 0), *written(10, 15, 1), *written(15, 20, 3)], high_watermark=10),
        2: Replica([*written(0, 10, 0), *written(10, 12, 2, "other ", step=1)], high_watermark=10),
    }
    answer = audit(tmp_path, brokers, isr=(1,), protocol=protocol)
    assert answer.cut(2, protocol)["truncate_to"] == cut
    if cut == 12:
        assert answer.one("TRN-REPLAY-GAP", 2) == ("critical", "proven", 10, 12)
        assert answer.runs(2)[0][0] == "DIV-HIDDEN"
        assert answer.verdict == "COMMITTED_DIVERGENCE"
    else:
        assert not answer.found("TRN-REPLAY-GAP")
        assert answer.verdict == "UNCOMMITTED_DIVERGENCE"


def test_a_cut_inside_a_batch_takes_the_whole_of_it(tmp_path):
    """KIP-101's one round: the leader's epoch 1 ends at 17, inside the follower's batch 12 to 20."""
    brokers = {
        1: Replica([*written(0, 12, 0), *written(12, 17, 1), *written(17, 25, 3)], high_watermark=12),
        2: Replica([*written(0, 12, 0), encode_batch(12, 9, 2, mark="x")], high_watermark=12),
    }
    answer = audit(tmp_path, brokers, isr=(1,), protocol="kip-101")
    assert answer.one("TRN-MID-BATCH", 2)[:3] == ("medium", "proven", 17)
    assert answer.cut(2, "kip-101")["dropped_records"] == 9
    assert answer.tables["partitions"][0]["promised_dropped"] is None, "nothing shows who was in sync: it was at most 0"
    assert answer.messages("TRN-REPLAY-GAP") == [
        "broker 2 keeps everything below 12 under kip-101, but agrees with broker 1 only up to 12: a hole stays at offsets 12 to 16"
    ]
    assert "stays for good" not in str(answer) and "so this stays" not in str(answer)


@pytest.mark.parametrize(("leader_start", "severity"), [(0, "low"), (15, "medium")])
def test_a_needless_cut_matters_where_the_leader_cannot_give_the_records_back(tmp_path, leader_start, severity):
    leader = Replica(LEADER[leader_start // 5 :], first_base_offset=leader_start)
    answer = audit(tmp_path, {1: leader, 2: Replica(LEADER, high_watermark=10)}, protocol="high-watermark")
    if leader_start:
        # Below the leader's start the follower does not stay at 10: it starts anew.
        assert answer.cut(2, "high-watermark")["reason"] == "full_truncate"
        assert not answer.found("TRN-OVER-TRUNCATE")
    else:
        assert answer.one("TRN-OVER-TRUNCATE", 2) == (severity, "proven", 10, 40)


def test_a_follower_below_the_leaders_start_begins_anew(tmp_path):
    leader = Replica(written(30, 50, 0), first_base_offset=30)
    answer = audit(tmp_path, {1: leader, 2: Replica(written(0, 20, 0))}, isr=(1,))
    assert answer.one("TRN-FULL", 2)[0] == "low"
    assert answer.cut(2)["truncate_to"] == 30
    assert answer.replica(2)["common_prefix_end"] is None
    assert answer.verdict == "LAGGING"


def test_a_new_and_empty_follower_is_no_fallback_worth_telling(tmp_path):
    answer = audit(tmp_path, {1: Replica(SHARED), 2: Replica([], epochs=[], high_watermark=0)}, isr=(1,))
    assert answer.codes() == {"REP-UNDER-REPLICATED"}
    assert answer.verdict == "LAGGING"


def test_a_file_that_would_have_the_follower_cut_elsewhere(tmp_path):
    brokers = {
        1: Replica(LEADER),
        2: Replica([*SHARED, *written(20, 30, 0, "old ")], high_watermark=15, epochs=[(0, 0), (1, 5)]),
    }
    answer = audit(tmp_path, brokers, isr=(1,))
    assert answer.found("TRN-CACHE-DISAGREES", 2), answer
    assert answer.one("TRN-CACHE-DISAGREES", 2)[0] == "medium"
    assert answer.cut(2)["truncate_to"] == 20


@pytest.mark.parametrize(("step", "dropped"), [(10, 10), (5, 10), (1, 7)])
def test_committed_records_of_a_batch_that_a_cut_goes_through_are_dropped_with_it(tmp_path, step, dropped):
    leader = [*SHARED, *written(20, 23, 2, "two "), *written(23, 40, 10, "ten ")]
    old = [*SHARED, *written(20, 30, 8, "old ", step=step)]
    answer = audit(tmp_path, {1: Replica(leader), 2: Replica(old)}, isr=(1,), protocol="kip-101")
    cut = answer.cut(2, "kip-101")
    assert (cut["truncate_to"], cut["dropped_records"], cut["committed_dropped"]) == (23, dropped, dropped), answer
    cut = answer.cut(2, "fetch")
    assert (cut["truncate_to"], cut["dropped_records"], cut["committed_dropped"]) == (20, 10, 10)
