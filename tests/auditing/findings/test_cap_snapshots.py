"""META-*, CAP-* and the choice of the reference (F.0, F.7), and names and numbers of every kind."""

from __future__ import annotations

import pytest
from tests.support.scenario import audit, written
from tests.support.snapshots import Replica, make_uuid, write_log_dir

LOG = written(0, 30, 2)


@pytest.mark.parametrize(("clean", "severity"), [(True, "info"), (False, "medium")])
def test_no_leader_is_normal_only_after_a_clean_stop(tmp_path, clean, severity):
    brokers = {number: Replica(LOG, clean_shutdown=clean) for number in (1, 2)}
    answer = audit(tmp_path, brokers, leader=None, isr=(1, 2))
    assert answer.one("META-NO-LEADER")[0] == severity
    row = answer.tables["partitions"][0]
    assert (row["leader_id"], row["reference_id"]) == (None, 1)


def test_without_a_leader_the_best_of_the_members_is_the_reference(tmp_path):
    brokers = {1: Replica(LOG[:3]), 2: Replica(LOG), 3: Replica([*LOG, *written(30, 40, 3)])}
    answer = audit(tmp_path, brokers, leader=None, isr=(1,), elr=(2,))
    assert answer.tables["partitions"][0]["reference_id"] == 2


@pytest.mark.parametrize(
    ("one", "two", "reference"),
    [
        (Replica(written(0, 30, 1)), Replica(written(0, 10, 2)), 2),
        (Replica(written(0, 10, 1)), Replica(written(0, 20, 1)), 2),
        (Replica(written(0, 20, 1)), Replica(written(0, 20, 1)), 1),
        (Replica(written(0, 20, 1)), Replica(written(0, 10, 1), epochs=[(1, 0), (2, 10)]), 2),
        (Replica(written(0, 20, 1)), Replica(written(0, 10, 1), epochs=[(1, 0), (9, 33)]), 1),
        (Replica(written(0, 20, 1)), Replica(written(0, 10, 1), epochs=[(3, 0), (2, 5), (9, 10)]), 1),
    ],
    ids=["epoch", "end", "lowest-id", "epoch-without-records", "past-the-end", "decreasing"],
)
def test_the_inferred_reference_has_the_greatest_epoch_then_end_then_the_lowest_id(tmp_path, one, two, reference):
    answer = audit(tmp_path, {1: one, 2: two}, source="inferred")
    assert answer.tables["partitions"][0]["reference_id"] == reference
    assert answer.tables["partitions"][0]["leader_id"] == reference


def test_an_epoch_without_records_makes_a_longer_follower_conflict(tmp_path):
    brokers = {1: Replica(LOG[:4], epochs=[(2, 0), (4, 20)], high_watermark=20), 2: Replica(LOG, high_watermark=20)}
    answer = audit(tmp_path, brokers, isr=(1,))
    assert answer.tables["partitions"][0]["leader_epoch"] == 4
    assert answer.runs(2) == [("DIV-EPOCH", 20, 30, None, 2, False)]


def test_an_epoch_without_records_counts_only_where_it_began_below_the_leaders_end(tmp_path):
    """As brokers are stopped leaders move, and nothing is written any more; records above it were written before it."""
    moved = {1: Replica(LOG, high_watermark=20), 2: Replica(LOG, epochs=[(2, 0), (4, 30)], high_watermark=20)}
    answer = audit(tmp_path / "moved", moved)
    assert (answer.tables["partitions"][0]["leader_id"], answer.tables["partitions"][0]["leader_epoch"]) == (1, 2)
    assert answer.verdict == "CONSISTENT"
    elected = {1: Replica(LOG, high_watermark=20), 2: Replica(LOG[:4], epochs=[(2, 0), (4, 20)], high_watermark=20)}
    answer = audit(tmp_path / "elected", elected)
    assert (answer.tables["partitions"][0]["leader_id"], answer.tables["partitions"][0]["leader_epoch"]) == (2, 4)
    assert answer.runs(1) == [("DIV-EPOCH", 20, 30, None, 2, False)]


def test_a_topic_of_another_life_is_set_aside(tmp_path):
    other = Replica(written(0, 9, 7, "first life "), topic_id=make_uuid("first life"))
    told = audit(tmp_path / "told", {1: Replica(LOG), 2: other})
    assert told.one("META-TOPICID-MISMATCH", 2)[0] == "info"
    assert told.verdict == "CONSISTENT"
    untold = audit(tmp_path / "untold", {1: Replica(LOG), 2: other}, source="inferred")
    assert untold.one("META-TOPICID-MISMATCH")[0] == "medium"
    assert untold.verdict == "INCONCLUSIVE"
    assert told.runs(2) == untold.runs(2) == []


def test_an_assigned_replica_without_files(tmp_path):
    brokers = {1: Replica(LOG, high_watermark=20)}
    member = audit(tmp_path / "in", brokers, isr=(1, 2), replicas=(1, 2))
    assert member.one("CAP-MISSING-REPLICA", 2)[0] == "medium"
    assert member.interval == (20, 30)
    outsider = audit(tmp_path / "out", brokers, isr=(1,), replicas=(1, 2))
    assert outsider.one("CAP-MISSING-REPLICA", 2)[0] == "medium"
    for answer, named_by, why in ((member, ["assignment", "isr"], "isr"), (outsider, ["assignment"], "no_history")):
        (row,) = [row for row in answer.tables["captures"] if row["broker_id"] == 2]
        assert (row["state"], row["log_dir"], row["named_by"], row["needed"]) == ("named", None, named_by, why)
        assert answer.verdict == "INCONCLUSIVE"
        assert (answer.tables["partitions"][0]["lost_records"], answer.tables["partitions"][0]["lost_at_least"]) == (
            None,
            None,
        )
    leader = audit(tmp_path / "leads", brokers, leader=2, isr=(1, 2), replicas=(1, 2))
    said, theirs = (one.found("CAP-MISSING-REPLICA", 2)[0]["message"] for one in (leader, member))
    assert said == (
        "broker 2 leads, but the snapshot has no readable files of it, so it may hold committed records that no replica here has"
    )
    assert theirs.startswith(
        "broker 2 is in sync, but the snapshot has no readable files of it; no replica here is known to have all its records, so"
    )


def test_two_copies_on_one_broker_use_the_longer(tmp_path):
    (tmp_path / "broker-2").mkdir(parents=True)
    brokers = {1: Replica(LOG)}
    for name, batches in (("disk-a", LOG[:2]), ("disk-b", LOG)):
        replica = Replica(batches, high_watermark=10, recovery_point=10)
        write_log_dir(tmp_path / "broker-2" / name, 2, [replica], directory_id=make_uuid(name))
    answer = audit(tmp_path, brokers, isr=(1, 2), replicas=(1, 2))
    assert answer.one("META-DUP-DIR", 2)[0] == "medium"
    assert answer.cut(2)["truncate_to"] == 30
    assert not answer.found("REP-LAG")


def test_an_epoch_ahead_on_an_outsider_is_skew_unless_the_cluster_was_at_rest(tmp_path):
    brokers = {1: Replica(LOG, high_watermark=20), 2: Replica([*LOG, *written(30, 35, 3)], high_watermark=20)}
    answer = audit(tmp_path / "running", brokers, isr=(1,))
    assert answer.one("CAP-SKEW", 2)[2:] == (30, 35)
    assert (answer.codes("medium"), answer.verdict) == ({"CAP-SKEW"}, "INCONCLUSIVE")
    at_rest = audit(tmp_path / "at rest", brokers, isr=(1,), quiesced=True)
    assert at_rest.one("REP-LEADER-SHORTER", 2) == ("high", "likely", 30, 35)
    assert not at_rest.found("CAP-SKEW")


@pytest.mark.parametrize(("source", "epoch"), [("topics_describe", None), ("user", 2), ("user", None)])
def test_a_fail_over_between_the_listing_and_the_copies_is_no_divergence_for_good(tmp_path, source, epoch):
    """Listed leader 1 was deposed by 2, cleanly: its last records were never committed, and 2 knows of later ones."""
    brokers = {
        1: Replica([*LOG[:4], *written(20, 40, 2, "old ")], high_watermark=20),
        2: Replica([*LOG[:4], *written(20, 60, 3)], high_watermark=55),
        3: Replica([*LOG[:4], *written(20, 60, 3)], high_watermark=55),
    }
    answer = audit(tmp_path, brokers, source=source, leader_epoch=epoch)
    assert answer.tables["partitions"][0]["reference_id"] == 2
    assert answer.one("CAP-SKEW", 2)[0] == "info"
    assert answer.runs(1) == [("DIV-EPOCH", 20, 40, 3, 2, False)]
    assert answer.interval == (55, 60)
    assert answer.verdict == "UNCOMMITTED_DIVERGENCE"


def test_an_epoch_in_one_header_or_on_an_outsider_deposes_nobody(tmp_path):
    changed = LOG[-1][:12] + (9).to_bytes(4, "big") + LOG[-1][16:]
    in_header = audit(tmp_path / "header", {1: Replica(LOG), 2: Replica([*LOG[:-1], changed], epochs=[(2, 0)])})
    assert in_header.rows("partitions")[0]["reference_id"] == 1
    outsider = {1: Replica(LOG, high_watermark=25), 2: Replica([*LOG[:4], *written(20, 25, 3)], high_watermark=20)}
    answer = audit(tmp_path / "outsider", outsider, isr=(1,))
    assert answer.tables["partitions"][0]["reference_id"] == 1


def test_the_listed_leader_may_know_the_later_epoch_by_its_file_only(tmp_path):
    """Elected again in epoch 4, without records yet: the listing is right, and the follower will be cut."""
    brokers = {
        1: Replica(LOG[:4], high_watermark=20, epochs=[(2, 0), (4, 20)]),
        2: Replica([*LOG[:4], *written(20, 30, 3)], high_watermark=20),
    }
    answer = audit(tmp_path, brokers)
    assert answer.tables["partitions"][0]["reference_id"] == 1
    assert answer.runs(2) == [("DIV-EPOCH", 20, 30, None, 3, False)]


@pytest.mark.parametrize("topic", ["a", "with.dots_and-dashes-7", "-1", "__consumer_offsets", "0", "a-0-0", "x" * 200])
def test_topics_of_every_legal_name(tmp_path, topic):
    brokers = {1: Replica(LOG), 2: Replica(LOG[:4])}
    answer = audit(tmp_path, brokers, topic=topic)
    assert answer.tables["partitions"][0]["topic"] == topic
    assert answer.verdict == "LAGGING"


def test_ten_replicas_with_large_ids(tmp_path):
    first = 2_147_483_638
    brokers = {first + number: Replica(LOG, high_watermark=15 + number) for number in range(10)}
    brokers[first + 9] = Replica([*LOG[:5], *written(25, 30, 1, "other ")], high_watermark=25)
    isr = [first + number for number in range(9)]
    answer = audit(tmp_path, brokers, leader=first + 4, isr=isr, in_order=True)
    assert answer.interval == (25, 30)
    assert {row["broker_id"] for row in answer.tables["divergences"]} == {first + 9}
    assert len(answer.tables["truncations"]) == 4 * 9


def test_one_replica_alone(tmp_path):
    answer = audit(tmp_path, {5: Replica(LOG, high_watermark=20)}, leader=5)
    assert answer.interval == (20, 30)
    assert answer.tables["findings"] == []
    assert answer.verdict == "CONSISTENT"


def test_empty_logs_are_consistent(tmp_path):
    brokers = {1: Replica([], epochs=[(0, 0)]), 2: Replica([], epochs=[]), 3: Replica([], epochs=[])}
    answer = audit(tmp_path, brokers)
    assert answer.tables["findings"] == []
    assert answer.interval == (0, 0)


def test_a_log_whose_start_lies_past_the_leaders_end(tmp_path):
    brokers = {1: Replica(LOG, high_watermark=20), 2: Replica(written(50, 60, 2), first_base_offset=50)}
    answer = audit(tmp_path, brokers, isr=(1,))
    assert answer.replica(2)["common_prefix_end"] is None
    assert answer.runs(2) == []
    assert answer.verdict in ("CONSISTENT", "LAGGING"), answer


def test_a_partition_directory_without_a_segment(tmp_path):
    bare = Replica(remove=[f"{0:020d}{suffix}" for suffix in (".log", ".index", ".timeindex")])
    answer = audit(tmp_path, {1: Replica(LOG), 2: bare}, isr=(1,))
    assert answer.verdict == "INCONCLUSIVE" and answer.codes("medium") == {"CAP-MISSING-SEGMENT"}, answer
    assert answer.tables["truncations"] == [] and answer.replica(2)["log_end_offset"] is None
    assert answer.tables["partitions"][0]["unread_replicas"] == [2]
