"""Which log ends bound the high watermark, what is proven of it all the same, and what copies of one moment tell (C.2, F.5)."""

from __future__ import annotations

import struct
from dataclasses import replace

import pytest
from tests.support.scenario import audit, written, written_legacy
from tests.support.scenes import change, scene
from tests.support.snapshots import Replica

#: What a lost tail leaves behind: the replica ends at 40 and had more.
LOST = {
    "checkpoint": {"high_watermark": 45},
    "recovery point": {"recovery_point": 45},
    "torn": {"tail": written(40, 45, 0)[0][:50]},
    "garbage": {"tail": bytes(range(1, 90))},
    "zeros": {"tail": bytes(300)},
    "zeros after a clean stop": {"tail": bytes(300), "clean_shutdown": True},
}


def lost(kind: str, end: int = 40) -> Replica:
    return Replica(written(0, end, 0, step=1), **{"high_watermark": 30, "recovery_point": 0, **LOST[kind]})


def whole(end: int, high_watermark: int = 30, **named) -> Replica:
    return Replica(written(0, end, 0, step=1), **{"high_watermark": high_watermark, "recovery_point": 0, **named})


@pytest.mark.parametrize("kind", LOST)
def test_a_member_that_lost_its_tail_bounds_nothing(tmp_path, kind):
    answer = audit(tmp_path / "member", {1: whole(60), 2: lost(kind), 3: whole(50)})
    assert answer.interval[1] == 50 and answer.mark["limiting_broker_id"] == 3, answer
    # The leader's own epoch reaches to 45: what the member's checkpoint says of it holds on the leader.
    assert answer.interval[0] == (45 if kind == "checkpoint" else 30)
    outsider = audit(tmp_path / "outsider", {1: whole(60), 2: lost(kind), 3: whole(50)}, isr=(1, 3))
    assert outsider.interval == answer.interval


@pytest.mark.parametrize("kind", LOST)
@pytest.mark.parametrize("source", ["topics_describe", "user", "inferred"])
def test_a_leader_that_lost_its_tail_bounds_nothing(tmp_path, kind, source):
    alone = audit(tmp_path / "alone", {1: lost(kind), 2: whole(35)}, isr=(1,), source=source)
    (lower, upper), mark = alone.interval, alone.mark
    assert upper is None and not mark["exact"], alone
    assert (mark["method"], mark["limiting_broker_id"]) == ("interval", None)
    assert lower == mark["proven_lower"] == (40 if kind == "checkpoint" else 30)
    if source != "inferred":
        followed = audit(tmp_path / "followed", {1: lost(kind), 2: whole(47)}, source=source)
        assert followed.interval[1] == 47 and followed.mark["limiting_broker_id"] == 2, followed


@pytest.mark.parametrize("kind", LOST)
def test_an_eligible_replica_that_lost_its_tail_bounds_nothing(tmp_path, kind):
    configs = {"min.insync.replicas": "2"}
    nobody = change(leader=-1, isr=(), elr=(1, 2))
    answer = scene(tmp_path, {1: whole(60), 2: lost(kind)}, nobody, configs=configs)
    assert answer.tables["partitions"][0]["leader_id"] is None
    assert answer.interval == (45 if kind == "checkpoint" else 30, 60), answer
    gone = scene(tmp_path / "gone", {1: lost(kind), 2: lost(kind, 35)}, nobody, configs=configs)
    assert gone.interval[1] is None, gone


def test_the_last_leader_bounds_where_nobody_leads_and_a_replica_that_never_led_does_not(tmp_path):
    nobody = change(leader=-1, isr=(), last_known_elr=(1,))
    assert scene(tmp_path / "last", {1: whole(60), 2: whole(40)}, nobody).interval == (30, 60)
    assert scene(tmp_path / "absent", {2: whole(60), 3: whole(40)}, nobody).interval == (30, None)


SEGMENT = 1 << 14


def preallocated(end: int, length: int = SEGMENT, **named) -> Replica:
    batches = written(0, end, 0, step=1)
    return Replica(batches, **{"high_watermark": 30, "tail": bytes(length - sum(map(len, batches))), **named})


@pytest.mark.parametrize(
    ("brokers", "configs", "interval"),
    [
        ({1: preallocated(60), 2: preallocated(50)}, {}, (30, 50)),
        ({1: preallocated(60), 2: whole(50)}, {"segment.bytes": str(SEGMENT)}, (30, 50)),
        ({1: preallocated(60)}, {"segment.bytes": str(SEGMENT)}, (30, 60)),
        ({1: preallocated(60, 1 << 20)}, {}, (30, 60)),
        ({1: preallocated(60)}, {}, (30, None)),
        ({1: preallocated(60), 2: preallocated(50, SEGMENT + 512)}, {}, (30, None)),
        ({1: preallocated(60, clean_shutdown=True)}, {"segment.bytes": str(SEGMENT)}, (30, None)),
    ],
    ids=["all alike", "one of segment.bytes", "alone", "of a round length", "unknown", "unlike", "after a clean stop"],
)
def test_space_that_was_set_aside_is_no_lost_tail(tmp_path, brokers, configs, interval):
    answer = audit(tmp_path, brokers, configs=configs)
    assert answer.interval == interval, answer


@pytest.mark.parametrize(("source", "epoch"), [("topics_describe", None), ("user", 0), ("user", None)])
@pytest.mark.parametrize(
    ("isr", "interval"), [((3,), (40, None)), ((1, 3), (40, 50)), ((1, 2, 3), (40, 45)), ((3, 4), (40, None))]
)
def test_the_end_of_a_leader_without_files_is_nobody_elses(tmp_path, source, epoch, isr, interval):
    brokers = {1: whole(50, 40), 2: whole(45, 38)}
    answer = audit(tmp_path, brokers, leader=3, isr=isr, source=source, leader_epoch=epoch, replicas=(1, 2, 3))
    assert answer.interval == interval and answer.mark["exact"] is False, answer
    assert (answer.mark["leader_id"], answer.mark["leader_log_end_offset"]) == (3, None)
    assert answer.tables["partitions"][0]["unread_replicas"] == sorted({3} | ({4} & set(isr)))
    assert answer.one("CAP-MISSING-REPLICA", 3)[0] == "medium"
    assert {row["broker_id"] for row in answer.found("CAP-MISSING-REPLICA")} == {3} | ({4} & set(isr))


def test_a_leader_without_files_may_have_been_elected_without_what_the_others_have(tmp_path):
    brokers = {1: whole(50, 40), 2: whole(45, 38)}
    unclean = scene(tmp_path / "unclean", brokers, change(isr=(1,)), change(leader=3, isr=(3,)))
    assert unclean.interval == (0, None), unclean
    clean = scene(tmp_path / "clean", brokers, change(leader=3, isr=(3,)))
    assert clean.interval == (40, None), clean
    said = audit(tmp_path / "said", brokers, leader=3, isr=(3,), source="user", leader_epoch=7)
    assert said.interval == (0, None), said


def test_checkpoints_past_the_end_of_a_leader_that_lost_its_tail_prove_what_it_still_has(tmp_path):
    """Three checkpoints say 82; the leader ends at 76, one follower at 90, one lost its tail as well."""
    brokers = {1: whole(76, 82), 2: whole(90, 82), 3: whole(70, 82)}
    told = audit(tmp_path / "told", brokers, quiesced=True)
    assert told.interval == (76, 90) and told.mark["proven_lower"] == 76, told
    assert told.one("REP-ISR-SHORT", 3) == ("high", "likely", 70, 76)
    assert told.one("REP-LEADER-SHORTER", 2) == ("high", "likely", 76, 90)
    assert told.one("HWM-CP-ABOVE-LEO", 1)[0] == "high"
    assert told.verdict == "COMMITTED_LOSS"
    # What is past the ends of all is gone for good.
    gone = audit(tmp_path / "gone", {1: whole(76, 82), 2: whole(78, 82), 3: whole(70, 82)}, quiesced=True)
    assert gone.interval == (76, None)
    assert gone.one("HWM-CP-ABOVE-LEO", 1)[:2] == ("critical", "likely")


def test_a_checkpoint_of_before_an_unclean_election_proves_nothing_of_what_was_written_since(tmp_path):
    """Its log was cut to 45 by that election and had fetched to 48 again when it was copied."""
    since = [*written(0, 45, 0), *written(45, 60, 2)]
    cut = Replica([*written(0, 45, 0), *written(45, 48, 2)], high_watermark=51, recovery_point=45)
    leader = Replica(since, high_watermark=20)
    for name, answer in {
        "listing": audit(tmp_path / "listing", {1: leader, 2: cut}),
        "user": audit(tmp_path / "user", {1: leader, 2: cut}, source="user", leader_epoch=2),
        "inferred": audit(tmp_path / "inferred", {1: leader, 2: cut}, source="inferred"),
        "unclean": scene(
            tmp_path / "unclean", {1: leader, 2: cut}, change(leader=2, isr=(2,)), change(leader=1, isr=(1,))
        ),
    }.items():
        assert answer.mark["proven_lower"] == 45, (name, answer)
    clean = scene(tmp_path / "clean", {1: leader, 2: cut}, change(leader=2, isr=(1, 2)), change(leader=1, isr=(1, 2)))
    assert clean.mark["proven_lower"] == 51, clean


def test_a_log_without_epochs_proves_what_it_still_has(tmp_path):
    def old(end: int, high_watermark: int) -> Replica:
        return Replica(written_legacy(0, end), high_watermark=high_watermark, epochs=None, topic_id=None)

    answer = audit(tmp_path, {1: old(60, 20), 2: old(45, 50)})
    assert answer.interval == (45, 60), answer


def test_what_is_proven_is_told_beside_the_interval_of_skewed_copies(tmp_path):
    answer = audit(tmp_path, {1: whole(60, 50), 2: whole(40, 35)})
    assert (answer.interval, answer.mark["method"], answer.mark["proven_lower"]) == ((40, 50), "capture_skew", 50)
    assert answer.one("CAP-SKEW", 2)[2:] == (40, 50)


@pytest.mark.parametrize("stopped", [False, True])
@pytest.mark.parametrize("source", ["topics_describe", "user"])
def test_a_short_member_of_a_cluster_at_rest_is_no_skew(tmp_path, source, stopped):
    brokers = {number: whole(end, mark, clean_shutdown=stopped) for number, end, mark in
               ((1, 100, 95), (2, 85, 80), (3, 98, 90))}  # fmt: skip
    named = {"source": source, "leader_epoch": 0}
    told = audit(tmp_path / "rest", brokers, quiesced=True, **named)
    assert (told.interval, told.mark["method"], told.mark["proven_lower"]) == ((95, 98), "interval", 95), told
    assert told.one("REP-ISR-SHORT", 2) == ("high", "likely", 85, 95)
    assert not told.found("CAP-SKEW")
    # The brokers may have been stopped one after the other, after the listing was made.
    for name, said in (("unsaid", None), ("not at rest", False)):
        skewed = audit(tmp_path / name, brokers, quiesced=said, **named)
        assert (skewed.interval, skewed.mark["method"], skewed.mark["proven_lower"]) == ((85, 95), "capture_skew", 95)
        assert not skewed.found("REP-ISR-SHORT") and skewed.codes("medium") == set(), skewed


def test_a_member_that_lost_its_tail_is_short_where_the_cluster_was_at_rest_and_no_skew_where_not(tmp_path):
    brokers = {1: whole(80, 40), 2: whole(70, 80), 3: whole(80, 40)}
    for quiesced in (True, None):
        answer = audit(tmp_path / str(quiesced), brokers, quiesced=quiesced, in_order=True)
        assert answer.interval == (80, 80), answer
        assert answer.one("HWM-CP-ABOVE-LEO", 2)[0] == "high"
        assert bool(answer.found("REP-ISR-SHORT")) == bool(quiesced)
        assert not answer.found("CAP-SKEW")


def test_clean_flags_count_beside_a_metadata_log_that_knows_every_epoch(tmp_path):
    ahead = {one: whole(end, 40, clean_shutdown=True, recovery_point=end) for one, end in ((1, 40), (2, 50))}
    told = scene(tmp_path / "told", ahead)
    assert told.one("REP-LEADER-SHORTER", 2) == ("high", "likely", 40, 50)
    assert (told.verdict, told.interval) == ("COMMITTED_LOSS", (40, 50))
    alone = scene(tmp_path / "alone", ahead, change(isr=(1,)))
    assert alone.found("REP-LEADER-SHORTER") and alone.interval == (40, None) and not alone.mark["exact"]
    stale = {1: ahead[1], 2: replace(ahead[2], batches=[*written(0, 40, 0, step=1), *written(40, 50, 3)])}
    # Broker 2 led when it stopped, and wrote nothing any more.
    elected = {1: ahead[1], 2: replace(ahead[2], epochs=[(0, 0), (1, 50)])}
    for name, brokers in (
        ("stale", stale),
        ("elected", elected),
        ("killed", {1: ahead[1], 2: replace(ahead[2], clean_shutdown=False)}),
    ):
        answer = scene(tmp_path / name, brokers, change(isr=(1,)))
        assert not answer.found("REP-LEADER-SHORTER") and answer.codes("high") == set(), answer
        assert answer.one("CAP-SKEW", 2)[2:] == (40, 50)


def _in_epoch(batch: bytes, epoch: int) -> bytes:
    """A batch whose leader epoch was changed on disk; its checksum is still right."""
    return batch[:12] + struct.pack(">i", epoch) + batch[16:]


@pytest.mark.parametrize(("broker", "offset"), [(1, 20), (2, 20), (1, 39)])
@pytest.mark.parametrize("epochs", [(0, 7), (7, 3)], ids=["higher", "lower"])
def test_a_batch_whose_epoch_was_changed_does_not_contradict_a_clean_stop(tmp_path, broker, offset, epochs):
    """Its file is not of another moment; what the leader lost is told beside the damage."""
    epoch, changed = epochs
    brokers = {}
    for one, end in ((1, 40), (2, 50)):
        batches = written(0, end, epoch, step=1)
        if one == broker:
            batches[offset] = _in_epoch(batches[offset], changed)
        brokers[one] = Replica(batches, epochs=[(epoch, 0)], high_watermark=40, recovery_point=end, clean_shutdown=True)
    told = scene(tmp_path, brokers, *[change(leader=1)] * epoch)
    assert told.one("REP-LEADER-SHORTER", 2) == ("high", "likely", 40, 50), told
    assert (told.verdict, told.interval) == ("COMMITTED_LOSS", (40, 50))
    assert told.found("LOG-CRC-BLIND", broker) or told.found("LOG-EPOCH-REGRESSION", broker), told


@pytest.mark.parametrize(("tail", "is_damage"), [(bytes(range(1, 90)), True), (bytes(300), False), (b"", False)])
def test_a_recovery_point_past_damaged_bytes_does_not_contradict_a_clean_stop(tmp_path, tail, is_damage):
    """A log that was copied before the stop has no such bytes: it ends sooner, or in zeros that are not written yet."""
    stopped = {one: whole(50, 50, clean_shutdown=True, recovery_point=50) for one in (1, 2)}
    short = whole(45, 50, clean_shutdown=True, recovery_point=50, tail=tail)
    answer = audit(tmp_path, {**stopped, 3: short}, isr=(1, 2))
    for code in ("HWM-CP-ABOVE-LEO", "HWM-RP-ABOVE-LEO"):
        assert answer.one(code, 3)[:2] == (("high", "proven") if is_damage else ("medium", "suspect")), answer
    assert answer.verdict == ("LATENT_CORRUPTION" if is_damage else "INCONCLUSIVE")


@pytest.mark.parametrize("epoch", [1, 2, 3])
@pytest.mark.parametrize("source", ["topics_describe", "user"])
def test_a_tail_ahead_of_the_leader_of_a_cluster_at_rest_is_its_loss(tmp_path, source, epoch):
    """Of the leader's own epoch, or of a later one that the given leadership does not know."""
    brokers = {1: Replica(written(0, 19, 1), high_watermark=19)}
    brokers[2] = Replica([*written(0, 19, 1), *written(19, 22, epoch)], high_watermark=22)
    named = {"isr": (1,), "replicas": (1, 2), "source": source, "leader_epoch": 1, "protocol": "kip-101"}
    told = audit(tmp_path / "rest", brokers, quiesced=True, **named)
    assert told.one("REP-LEADER-SHORTER", 2) == ("high", "likely", 19, 22), told
    assert told.verdict == "COMMITTED_LOSS"
    assert told.interval == (19, None) and told.mark["exact"] is False
    running = audit(tmp_path / "running", brokers, **named)
    assert running.one("CAP-SKEW", 2)[2:] == (19, 22) and not running.found("REP-LEADER-SHORTER")


def test_a_tail_past_a_replica_that_stands_in_for_the_leader_accuses_nobody(tmp_path):
    brokers = {1: whole(40, 30), 2: whole(50, 30)}
    answer = audit(tmp_path, brokers, leader=3, isr=(1, 3), quiesced=True)
    assert answer.tables["partitions"][0]["reference_id"] == 1
    assert not answer.found("REP-LEADER-SHORTER") and answer.codes("high") == set(), answer
    # But a member that lacks what is proven committed is short, whoever leads.
    for name, brokers in (
        ("ahead", {1: whole(40, 30), 2: whole(50, 47)}),
        ("lost", {1: whole(40, 30), 2: whole(45, 47)}),
    ):
        short = audit(tmp_path / name, brokers, leader=3, isr=(1, 3), quiesced=True)
        assert short.one("REP-ISR-SHORT", 1) == ("high", "likely", 40, 47), short
        assert short.interval == (40, None)
        running = audit(tmp_path / f"{name}, running", brokers, leader=3, isr=(1, 3))
        assert not running.found("REP-ISR-SHORT")


def test_a_checkpoint_of_before_a_truncation_is_no_loss(tmp_path):
    """Copied less than five seconds after an unclean election cut it: its recovery point is its log end."""
    leader = Replica([*written(0, 20, 0), *written(20, 60, 3)], high_watermark=55)
    cut = Replica(written(0, 20, 0), high_watermark=35, recovery_point=20)
    for name, isr in (("outside", (1,)), ("inside", (1, 2))):
        answer = audit(tmp_path / name, {1: leader, 2: cut}, isr=isr)
        assert not answer.codes("medium"), answer
        assert answer.interval == (55, 60)
        assert bool(answer.found("CAP-SKEW", 2)) == (name == "inside")


@pytest.mark.parametrize("source", ["topics_describe", "user"])
@pytest.mark.parametrize("quiesced", [None, True])
def test_the_end_of_an_empty_leader_bounds_nothing_that_others_saw_committed(tmp_path, source, quiesced):
    """As after its disk was replaced: its files know no epoch, so that none of the others' is a later one."""
    brokers = {1: Replica([]), 2: whole(50, 50), 3: whole(40, 40)}
    answer = audit(tmp_path, brokers, isr=(1,), source=source, quiesced=quiesced)
    assert answer.interval == (0, None) and not answer.mark["exact"], answer
    assert answer.mark["proven_lower"] == 0
    code = "REP-LEADER-SHORTER" if quiesced else "CAP-SKEW"
    assert answer.one(code, 2)[2:] == (0, 50)
    assert not [row for row in answer.found(code) if "later than" in row["message"]]
    new = audit(tmp_path / "new", {1: Replica([]), 2: Replica([])}, source=source, quiesced=quiesced)
    assert new.interval == (0, 0) and new.mark["exact"]


def test_what_no_replica_has_any_more_begins_where_the_longest_ends(tmp_path):
    answer = audit(tmp_path, {1: whole(60, 72), 2: whole(62, 71), 3: whole(61, 71)}, quiesced=True)
    said = {row["broker_id"]: row["message"].partition("; ")[2] for row in answer.found("HWM-CP-ABOVE-LEO")}
    assert said[1] == said[3] == "no replica here has the records from 62 on"
    assert said[2] == "no replica here has the records between"


def test_skew_is_no_sure_explanation_where_the_leader_itself_shows_that_it_had_more(tmp_path):
    for name, mark, words in (
        ("had more", 72, "may explain it, unless records were lost"),
        ("fine", 50, "which explains it"),
    ):
        answer = audit(tmp_path / name, {1: whole(60, mark), 2: whole(90, 50)})
        assert answer.found("CAP-SKEW", 2)[0]["message"].endswith(words), answer
