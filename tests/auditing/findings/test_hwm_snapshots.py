"""The high watermark's interval (C.2, C.4), HWM-*, REP-* and CHK-*."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.encoder import flip
from tests.support.scenario import audit, written, written_legacy
from tests.support.scenes import change, log, scene
from tests.support.snapshots import TOPIC_ID, Replica, write_manifest


def _shared(end: int, high_watermark: int | None, **options) -> Replica:
    return Replica(written(0, end, 0, step=1), high_watermark=high_watermark, **options)


def test_h1_the_shortest_member_bounds_from_above_and_the_best_checkpoint_from_below(tmp_path):
    answer = audit(tmp_path, {1: _shared(120, 105), 2: _shared(118, 104), 3: _shared(110, 101)})
    assert answer.interval == (105, 110)
    assert (answer.mark["exact"], answer.mark["method"], answer.mark["limiting_broker_id"]) == (False, "interval", 3)


def test_h2_a_replica_out_of_sync_does_not_hold_the_high_watermark_back(tmp_path):
    answer = audit(tmp_path, {1: _shared(120, 105), 2: _shared(118, 104), 3: _shared(110, 101)}, isr=(1, 2))
    assert answer.interval == (105, 118)
    assert answer.mark["limiting_broker_id"] == 2


def test_h3_an_eligible_leader_replica_bounds_as_well(tmp_path):
    brokers = {1: _shared(150, 140), 2: _shared(140, 139, clean_shutdown=True)}
    configs = {"min.insync.replicas": "2"}
    frozen = audit(tmp_path / "elr", brokers, isr=(1,), elr=(2,), configs=configs)
    assert frozen.interval == (140, 140)
    assert (frozen.mark["exact"], frozen.mark["method"]) == (True, "bounds_meet")
    assert frozen.one("HWM-UNDER-MIN-ISR")[0] == "medium"
    assert audit(tmp_path / "without", brokers, isr=(1,), configs=configs).interval == (140, 150)
    killed = {**brokers, 2: _shared(140, 139)}
    assert audit(tmp_path / "killed", killed, isr=(1,), elr=(2,), configs=configs).interval == (140, 150)


def test_h4_an_old_leaders_checkpoint_is_evidence_of_loss_and_no_bound(tmp_path):
    leader = Replica([*written(0, 93, 0, step=1), *written(93, 100, 9, "new ", step=1)], high_watermark=90)
    answer = audit(tmp_path, {1: _shared(100, 98), 2: leader}, leader=2, isr=(2,), in_order=True)
    assert answer.interval == (90, 100)
    assert answer.one("HWM-LOSS", 1) == ("critical", "proven", 93, 98)
    assert answer.one("TRN-BELOW-HW", 1) == ("critical", "proven", 93, 98)
    assert answer.cut(1)["truncate_to"] == 93
    assert answer.cut(1)["committed_dropped"] == 5


@pytest.mark.parametrize(
    ("in_order", "high_watermark", "is_lost"),
    [(True, 45, True), (True, 30, False), (False, 45, False)],
    ids=["both committed", "the leader's not", "the leader's checkpoint may be of its log since"],
)
def test_what_two_leaders_committed_at_the_same_offsets_is_lost_whichever_is_the_later(
    tmp_path: Path, in_order: bool, high_watermark: int, is_lost: bool
) -> None:
    """Broker 2 has records of epoch 3, where broker 1 leads in epoch 2 by a source that may be older."""
    common = written(0, 30, 1)
    brokers = {
        1: Replica([*common, *written(30, 45, 2, "one ")], high_watermark=high_watermark),
        2: Replica([*common, *written(30, 40, 3, "other ")], high_watermark=40),
    }
    answer = audit(tmp_path, brokers, source="user", leader_epoch=2, isr=(1,), in_order=in_order)
    assert answer.one("HWM-LOSS", 2) == (*(("critical", "proven") if is_lost else ("high", "suspect")), 30, 40)
    assert answer.verdict == ("COMMITTED_LOSS" if is_lost else "INCONCLUSIVE")


def test_h5_all_stopped_cleanly_and_one_checkpoint_merely_lags(tmp_path):
    brokers = {
        number: _shared(50, checkpoint, clean_shutdown=True) for number, checkpoint in ((1, 50), (2, 48), (3, 50))
    }
    answer = audit(tmp_path, brokers, leader=3)
    assert answer.interval == (50, 50)
    assert answer.tables["findings"] == []


def test_unknown_in_sync_replicas_bound_nothing(tmp_path):
    answer = audit(tmp_path, {1: _shared(30, 10), 2: _shared(20, 12)}, source="inferred")
    assert answer.interval == (12, 30)
    assert answer.found("META-ISR-UNKNOWN")
    assert answer.mark["isr"] is None


def test_a_cleaner_checkpoint_bounds_where_the_cleaner_stays_below_the_high_watermark(tmp_path):
    brokers = {1: _shared(30, 10, cleaned_to=20), 2: _shared(30, 10)}
    assert audit(tmp_path / "new", brokers, kafka_version="3.1.0").interval == (20, 30)
    assert audit(tmp_path / "old", brokers, kafka_version="3.0.2").interval == (10, 30)
    assert audit(tmp_path / "unknown", brokers).interval == (10, 30)


def test_copies_of_different_moments_give_the_interval_that_the_high_watermark_moved_through(tmp_path):
    answer = audit(tmp_path, {1: _shared(30, 28), 2: _shared(20, 15)})
    assert answer.interval == (20, 28)
    assert answer.mark["method"] == "capture_skew"
    assert answer.one("CAP-SKEW", 2) == ("info", "likely", 20, 28)
    assert answer.verdict == "LAGGING"


def test_an_in_sync_replica_at_rest_below_what_is_committed_loses_it_at_the_next_election(tmp_path):
    answer = audit(tmp_path, {1: _shared(30, 28), 2: _shared(20, 15)}, quiesced=True)
    assert answer.one("REP-ISR-SHORT", 2) == ("high", "likely", 20, 28)
    assert answer.verdict == "WILL_LOSE_ON_TRUNCATION"


def test_a_member_without_epochs_that_ends_at_its_own_checkpoint_was_cut_there(tmp_path):
    from tests.support.scenario import written_legacy

    def old(end: int, checkpoint: int) -> Replica:
        return Replica(written_legacy(0, end), high_watermark=checkpoint, epochs=None, topic_id=None)

    cut = audit(tmp_path / "cut", {1: old(30, 28), 2: old(20, 20)})
    assert cut.one("REP-ISR-SHORT", 2) == ("medium", "suspect", 20, 28)
    assert cut.verdict == "INCONCLUSIVE"
    lags = audit(tmp_path / "lags", {1: old(30, 28), 2: old(20, 18)})
    assert not lags.found("REP-ISR-SHORT")
    outside = audit(tmp_path / "outside", {1: old(30, 28), 2: old(20, 20)}, isr=(1,))
    assert not outside.found("REP-ISR-SHORT")


def test_an_in_sync_replica_that_conflicts_below_what_is_committed(tmp_path):
    leader = Replica([*written(0, 20, 0), *written(20, 40, 2)], high_watermark=35)
    member = Replica([*written(0, 20, 0), *written(20, 30, 1)], high_watermark=20)
    answer = audit(tmp_path / "in", {1: leader, 2: member}, quiesced=True)
    assert answer.one("HWM-ABOVE-ISR-PREFIX", 2) == ("critical", "proven", 20, 35)
    assert answer.interval == (35, 40)
    # Copied before it was cut, it may have come in sync since.
    older = audit(tmp_path / "older", {1: leader, 2: member})
    assert older.one("CAP-SKEW", 2) == ("medium", "likely", 20, 35) and older.verdict == "INCONCLUSIVE", older
    assert not older.found("HWM-ABOVE-ISR-PREFIX") and older.mark["method"] == "capture_skew", older
    # Not where its own file knows the leader's epoch.
    knows = audit(tmp_path / "knows", {1: leader, 2: replace(member, epochs=((0, 0), (1, 20), (2, 30)))})
    assert knows.one("HWM-ABOVE-ISR-PREFIX", 2) == ("critical", "proven", 20, 35), knows
    outside = audit(tmp_path / "out", {1: leader, 2: member}, isr=(1,))
    assert not outside.found("HWM-ABOVE-ISR-PREFIX")
    assert outside.verdict == "UNCOMMITTED_DIVERGENCE"


@pytest.mark.parametrize("broker", [1, 2])
def test_a_checkpoint_past_the_log_end(tmp_path, broker):
    brokers = {1: _shared(30, 30), 2: _shared(30, 30)}
    brokers[broker] = _shared(30, 40, recovery_point=30)
    answer = audit(tmp_path / "order", brokers, in_order=True)
    assert answer.one("HWM-CP-ABOVE-LEO", broker) == ("high", "likely", 30, 40)
    assert answer.verdict == "LATENT_CORRUPTION"
    # Where nothing says in which order the files were copied, the checkpoint may be the later one.
    unordered = audit(tmp_path / "any", brokers)
    assert unordered.one("HWM-CP-ABOVE-LEO", broker) == ("medium", "suspect", 30, 40)
    assert unordered.verdict == "INCONCLUSIVE"
    message = unordered.found("HWM-CP-ABOVE-LEO")[0]["message"]
    assert "lost its end, or was copied before" in message and "copy it again while it is down" in message
    assert "if it was down, give its kind" in message


@pytest.mark.parametrize("mark", ["high_watermark", "recovery_point"])
@pytest.mark.parametrize(("held", "severity", "verdict"), [(40, "info", "LAGGING"), (39, "medium", "INCONCLUSIVE")])
def test_a_checkpoint_of_a_running_broker_is_the_later_file_where_another_log_has_the_range(
    tmp_path: Path, mark: str, held: int, severity: str, verdict: str
) -> None:
    """Where none has it, a segment may have been deleted below the running broker, which then is the last to have the records."""
    brokers = {1: _shared(held, 30), 2: replace(_shared(30, 30), **{mark: 40})}
    write_manifest(tmp_path, dict.fromkeys(brokers, "live"))
    answer = audit(tmp_path, brokers)
    code = "HWM-CP-ABOVE-LEO" if mark == "high_watermark" else "HWM-RP-ABOVE-LEO"
    assert answer.one(code, 2) == (severity, "suspect", 30, 40)
    assert answer.verdict == verdict
    message = answer.found(code, 2)[0]["message"]
    assert ("copy it again" in message) is (severity == "medium") and "down" not in message


def test_a_leader_at_rest_that_lost_what_nobody_else_has(tmp_path):
    gone = audit(tmp_path / "gone", {1: _shared(30, 40), 2: _shared(30, 30)}, quiesced=True)
    assert gone.one("HWM-CP-ABOVE-LEO", 1)[:2] == ("critical", "likely")
    assert gone.verdict == "COMMITTED_LOSS"
    held = audit(tmp_path / "held", {1: _shared(30, 40), 2: _shared(40, 40)}, isr=(1,), quiesced=True)
    assert held.one("HWM-CP-ABOVE-LEO", 1)[0] == "high"


@pytest.mark.parametrize(
    ("kinds", "severity"),
    [
        (("killed", "killed"), "critical"),
        (("killed", "stopped"), "critical"),
        (("live", "killed"), "medium"),
        ((), "medium"),
    ],
)
def test_a_leader_that_lost_what_nobody_else_has_while_all_were_down(
    tmp_path: Path, kinds: tuple[str, ...], severity: str
) -> None:
    write_manifest(tmp_path, dict(enumerate(kinds, 1)))
    answer = audit(tmp_path, {1: _shared(30, 40), 2: _shared(30, 30)})
    assert answer.one("HWM-CP-ABOVE-LEO", 1)[0] == severity
    assert answer.verdict == ("COMMITTED_LOSS" if severity == "critical" else "INCONCLUSIVE")
    assert "no replica here has the records between" in answer.found("HWM-CP-ABOVE-LEO")[0]["message"]


def test_a_follower_that_was_cut_a_moment_ago_still_has_its_old_checkpoint(tmp_path):
    leader = Replica([*written(0, 20, 0), *written(20, 60, 3)], high_watermark=55)
    follower = Replica(written(0, 20, 0), high_watermark=35, recovery_point=20)
    answer = audit(tmp_path, {1: leader, 2: follower}, isr=(1,))
    assert not answer.found("HWM-CP-ABOVE-LEO"), answer
    assert answer.verdict == "LAGGING"


def test_a_recovery_point_past_the_log_end_is_flushed_data_gone(tmp_path):
    brokers = {1: _shared(30, 30), 2: _shared(30, 30, recovery_point=35)}
    answer = audit(tmp_path / "order", brokers, in_order=True)
    assert answer.one("HWM-RP-ABOVE-LEO", 2) == ("high", "proven", 30, 35)
    unordered = audit(tmp_path / "any", brokers)
    assert unordered.one("HWM-RP-ABOVE-LEO", 2) == ("medium", "suspect", 30, 35)
    assert unordered.verdict == "INCONCLUSIVE"


@pytest.mark.parametrize(
    ("mark", "quiesced", "told"),
    [
        (20, None, ("medium", "suspect")),
        (21, None, ("medium", "suspect")),
        (0, None, ("medium", "suspect")),
        (0, True, ("high", "proven")),
    ],
)
def test_a_recovery_point_that_was_copied_before_the_log_was_cut_is_no_damage(tmp_path, mark, quiesced, told):
    """Flushed records need not be committed."""
    leader = Replica([*written(0, 20, 0), *written(20, 60, 3)], high_watermark=20)
    follower = Replica([*written(0, 20, 0), *written(20, 30, 3)], high_watermark=mark, recovery_point=35)
    answer = audit(tmp_path, {1: leader, 2: follower}, in_order=quiesced is None, quiesced=quiesced)
    assert answer.one("HWM-RP-ABOVE-LEO", 2) == (*told, 30, 35), answer
    assert answer.verdict == ("INCONCLUSIVE" if told[0] == "medium" else "LATENT_CORRUPTION"), answer
    is_proven = told[1] == "proven"
    assert ("copy broker 2 again" in answer.found("HWM-RP-ABOVE-LEO", 2)[0]["message"]) is not is_proven, answer


def test_a_log_without_epochs_may_have_been_cut_at_its_high_watermark(tmp_path):
    brokers = {
        1: Replica(written_legacy(0, 60), high_watermark=20),
        2: Replica(written_legacy(0, 30), high_watermark=20, recovery_point=35),
    }
    answer = audit(tmp_path, brokers, in_order=True)
    assert answer.one("HWM-RP-ABOVE-LEO", 2) == ("medium", "suspect", 30, 35), answer


def test_a_log_that_goes_on_with_a_damaged_batch_was_not_cut_there(tmp_path):
    leader = Replica([*written(0, 20, 0), *written(20, 60, 3)], high_watermark=20)
    damaged = [flip(one) for one in written(30, 31, 3)]
    follower = Replica([*written(0, 20, 0), *written(20, 30, 3), *damaged], high_watermark=20, recovery_point=35)
    answer = audit(tmp_path, {1: leader, 2: follower}, in_order=True)
    assert answer.one("HWM-RP-ABOVE-LEO", 2) == ("high", "proven", 30, 35), answer


def test_an_epoch_in_which_nobody_led_cut_nothing(tmp_path):
    brokers = {1: log(70, 20, ((0, 0), (2, 60))), 2: log(30, 20, recovery_point=35)}
    answer = scene(tmp_path, brokers, change(leader=-1), change(leader=1), in_order=True)
    assert answer.one("HWM-RP-ABOVE-LEO", 2) == ("high", "proven", 30, 35), answer


def test_an_unclean_election_whose_epoch_no_copy_has_may_have_cut_anywhere(tmp_path):
    brokers = {1: log(70, 20, ((0, 0), (2, 60))), 2: log(40, 50, recovery_point=50)}
    moves = (change(leader=3, isr=(3,), recovering=True), change(leader=1, isr=(1,), recovering=True))
    answer = scene(tmp_path, brokers, *moves, replicas=(1, 2, 3), in_order=True)
    told = answer.found("HWM-CP-ABOVE-LEO", 2) + answer.found("HWM-RP-ABOVE-LEO", 2)
    assert told and all("an unclean election may have cut it" in one["message"] for one in told), answer


@pytest.mark.parametrize("had_been_down", [True, False])
def test_a_leader_that_had_been_down_may_have_cut_what_it_lost(tmp_path, had_been_down):
    epoch = 2 if had_been_down else 1
    brokers = {
        1: log(30, 30),
        2: log(40, 50, ((0, 0), (epoch, 30)), recovery_point=50),
        3: log(70, 20, ((0, 0), (epoch, 30))),
    }
    moves = (change(leader=-1), change(leader=3)) if had_been_down else (change(leader=3),)
    answer = scene(tmp_path, brokers, *moves, replicas=(1, 2, 3), in_order=True)
    (told,) = answer.found("HWM-RP-ABOVE-LEO", 2)
    assert told["confidence"] == ("likely" if had_been_down else "proven"), answer


@pytest.mark.parametrize(("is_clean", "confidence"), [(True, "proven"), (False, "likely")])
def test_only_an_unclean_election_may_have_cut_what_was_committed_since_the_checkpoints_were_copied(
    tmp_path, is_clean, confidence
):
    """The recovery point was said to show that no truncation did."""
    brokers = {
        1: log(40, 60, recovery_point=60),
        2: log(60, 40, ((0, 0), (1, 40))),
        3: log(60, 60, ((0, 0), (1, 40))),
    }
    elected = change(leader=2, isr=(2, 3)) if is_clean else change(leader=2, isr=(2,), recovering=True)
    moves = (change(isr=(1, 2, 3) if is_clean else (1,)), elected)
    answer = scene(tmp_path, brokers, *moves, in_order=True)
    told = answer.found("HWM-CP-ABOVE-LEO", 1) + answer.found("HWM-RP-ABOVE-LEO", 1)
    assert len(told) == 2 and {one["confidence"] for one in told} == {confidence}, answer
    assert all(("an unclean election may have cut it" in one["message"]) is not is_clean for one in told), answer


@pytest.mark.parametrize(("minimum", "isr", "told"), [("2", (1,), True), ("2", (1, 2), False), ("5", (1, 2, 3), False)])
def test_fewer_in_sync_than_the_minimum(tmp_path, minimum, isr, told):
    brokers = {number: _shared(10, 10) for number in (1, 2, 3)}
    answer = audit(tmp_path, brokers, isr=isr, configs={"min.insync.replicas": minimum})
    assert bool(answer.found("HWM-UNDER-MIN-ISR")) == told
    assert bool(answer.found("REP-UNDER-REPLICATED")) == (len(isr) < 3)


def test_lag_is_counted_in_offsets_and_bytes(tmp_path):
    answer = audit(tmp_path, {1: _shared(30, 20), 2: _shared(22, 20)})
    assert answer.one("REP-LAG", 2) == ("info", "proven", 22, 30)
    behind = written(22, 30, 0, step=1)
    assert answer.tables["partitions"][0]["max_lag_records"] == 8
    assert answer.tables["partitions"][0]["max_lag_bytes"] == sum(map(len, behind))
    assert answer.verdict == "LAGGING"


def test_a_replica_that_is_not_assigned_neither_lags_nor_bounds(tmp_path):
    answer = audit(tmp_path, {1: _shared(30, 20), 2: _shared(30, 20), 7: _shared(5, 5)}, isr=(1, 2), replicas=(1, 2))
    assert answer.interval == (20, 30)
    assert not answer.found("REP-LAG", 7)
    assert answer.verdict == "CONSISTENT"


@pytest.mark.parametrize(("batches", "severity"), [([], "info"), (written(0, 5, 0), "low")])
def test_a_partition_that_the_checkpoint_file_does_not_have(tmp_path, batches, severity):
    brokers = {1: Replica(batches), 2: Replica(batches, high_watermark=None)}
    answer = audit(tmp_path, brokers)
    assert answer.one("CHK-MISSING", 2)[0] == severity
    assert answer.verdict == "CONSISTENT"


@pytest.mark.parametrize("is_there", [True, False])
def test_a_checkpoint_file_that_is_missing_or_empty_beside_records(tmp_path, is_there):
    def change() -> None:
        file = tmp_path / "broker-2" / "replication-offset-checkpoint"
        file.unlink()
        if is_there:
            file.touch()

    log = Replica(written(0, 5, 0))
    answer = audit(tmp_path, {1: log, 2: log}, before_audit=change)
    assert answer.one("CHK-MISSING", 2)[0] == "medium"


@pytest.mark.parametrize(
    "content", [b"0\n2\norders 0 5\n", b"3\n1\norders 0 5\n", b"0\n1\norders 0 five\n", b"0\n1\norders 0 -4\n"]
)
@pytest.mark.parametrize("file", ["replication", "recovery-point", "log-start"])
def test_a_checkpoint_file_on_which_a_broker_refuses_to_start(tmp_path, file, content):
    broker = Replica(written(0, 5, 0), replace={f"{file}-offset-checkpoint": content})
    answer = audit(tmp_path, {1: Replica(written(0, 5, 0)), 2: broker})
    assert answer.one("CHK-MALFORMED", 2)[0] == "high"
    assert answer.verdict == "INCONCLUSIVE"


@pytest.mark.parametrize(
    ("nameless", "how", "is_told"),
    [
        (Replica(written(0, 50, 0), topic_id=None), {}, True),
        (Replica(written(0, 50, 0), topic_id=None), {"kafka_version": "4.3.1"}, True),
        (Replica(written(0, 50, 0), topic_id=None), {"kafka_version": "3.6.2"}, False),
        (Replica(written(0, 50, 0)), {}, False),
        (Replica([], topic_id=None), {}, False),
    ],
)
def test_a_log_that_a_start_sets_aside_for_want_of_its_topic_id(tmp_path, nameless, how, is_told):
    answer = scene(tmp_path, {1: Replica(written(0, 50, 0)), 2: nameless}, replicas=(1, 2), **how)
    found = answer.found("CHK-MALFORMED", 2)
    assert bool(found) == is_told, answer
    if found:
        assert (
            "broker-2/orders-0/partition.metadata is missing" in found[0]["message"] and "-stray" in found[0]["message"]
        )
        assert found[0]["evidence"][0]["value"] == f"version: 0 and topic_id: {TOPIC_ID}"


def test_copies_without_partition_metadata_of_any_log_show_none_that_lost_it(tmp_path):
    """Such as `rsync --include '*.log' --include '*checkpoint*'`."""
    answer = scene(tmp_path, {one: Replica(written(0, 50, 0), topic_id=None) for one in (1, 2)}, replicas=(1, 2))
    assert (answer.verdict, answer.found("CHK-MALFORMED")) == ("CONSISTENT", []), answer


def test_the_only_log_that_was_copied_may_have_lost_its_topic_id(tmp_path):
    answer = scene(tmp_path, {1: Replica(written(0, 50, 0), topic_id=None)}, replicas=(1,))
    assert answer.found("CHK-MALFORMED", 1), answer


def test_under_zookeeper_a_log_without_its_topic_id_is_loaded(tmp_path):
    answer = audit(tmp_path, {1: Replica(written(0, 50, 0)), 2: Replica(written(0, 50, 0), topic_id=None)})
    assert not answer.found("CHK-MALFORMED"), answer


def test_a_log_start_above_the_checkpoint(tmp_path):
    broker = Replica(written(0, 30, 0), high_watermark=5, log_start=10)
    answer = audit(tmp_path, {1: broker, 2: Replica(written(0, 30, 0), high_watermark=12)})
    assert answer.one("CHK-START-ABOVE-HW", 1)[0] == "low"
    assert answer.interval[0] == 12


@pytest.mark.parametrize("high_watermark", [5, 30])
def test_a_log_start_above_the_end_of_its_own_log(tmp_path, high_watermark):
    """Nothing named it where the checkpoint is as late as the log start."""
    broker = Replica(written(0, 20, 0), high_watermark=high_watermark, log_start=30)
    answer = audit(tmp_path, {1: broker, 2: Replica(written(0, 35, 0), high_watermark=30)})
    (found,) = answer.found("CHK-START-ABOVE-HW", 1)
    assert found["severity"] == "low" and "log start 30 is above the end of its own log, 20" in found["message"]
    assert [one["value"] for one in found["evidence"]] == ["30"]


def test_an_entry_without_a_directory(tmp_path):
    extra = b"0\n2\nelsewhere 0 3\norders 0 3\n"
    answer = audit(
        tmp_path,
        {1: Replica(written(0, 5, 0)), 2: Replica(written(0, 5, 0), replace={"replication-offset-checkpoint": extra})},
    )
    assert not answer.found("CHK-ORPHAN-ENTRY"), "orders-0 is there, and elsewhere-0 is not this partition"


def test_one_broker_is_asked_for_another_copy_once(tmp_path):
    """Its recovery point and its high watermark are past its end for the same reason, which is told with the latter."""
    marks = {"high_watermark": 40, "recovery_point": 45}
    answer = audit(tmp_path / "both", {1: Replica(written(0, 30, 0), **marks), 2: Replica(written(0, 30, 0))})
    first, second = (answer.found(code, 1)[0]["message"] for code in ("HWM-CP-ABOVE-LEO", "HWM-RP-ABOVE-LEO"))
    assert "copy it again while it is down" in first and "copy it again" not in second
    assert second == (
        "broker 1: offsets below 45 were flushed to disk, but its log ends at 30; it lost them, or was copied before they were "
        "written, as with its high watermark of 40"
    )
    assert answer.one("HWM-RP-ABOVE-LEO", 1) == ("medium", "suspect", 30, 45) and answer.verdict == "INCONCLUSIVE"
    alone = audit(tmp_path / "one", {1: Replica(written(0, 30, 0), recovery_point=45), 2: Replica(written(0, 30, 0))})
    assert "copy it again while it is down" in alone.found("HWM-RP-ABOVE-LEO", 1)[0]["message"]
