"""Effect of the leadership history on the audit, on captures of real clusters and in scenes."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from tests.support import metadata_log as write
from tests.support.captures import CAPTURES, EXPECTED, FIXTURES, audit_by_listing, audit_capture, told, truth
from tests.support.encoder import encode_marker
from tests.support.report_rows import tables_of
from tests.support.scenario import Answer, audit, written
from tests.support.scenes import COMMON, UNCLEAN_TO_2, change, scene
from tests.support.snapshots import TOPIC, TOPIC_ID, Replica, make_uuid, write_log_dir
from tests.support.some import some

from replica_audit.auditing.catalogue import at_or_above
from replica_audit.config import Settings
from replica_audit.errors import UsageError
from replica_audit.model import TopicPartition
from replica_audit.runner.in_process import audit_all, audit_one

KRAFT = [name for name in CAPTURES if any((FIXTURES / name).glob("*/__cluster_metadata-0"))]
STOPPED = ("healthy", "diverged-healed", "diverged-multi-healed", "diverged-multi2-healed")
#: Captures with records that an unclean election left behind, and with a tail that a clean one did.
UNCLEAN = (
    *(
        "diverged-unclean",
        "diverged-multi",
        "diverged-multi2",
        "kafka-3.6-diverged-unclean",
        "kafka-3.9-diverged-unclean",
    ),
    *("last-replica-elr-2-cut", "quorum3-1-unclean", "txn-failover-1-unclean"),
)
CLEAN = ("diverged-clean", "elr-elected")


def findings(capture: str, *codes: str) -> list[dict]:
    rows = [row for results in audit_capture(capture).values() for row in results.rows("findings")]
    return [row for row in rows if row["code"] in codes]


def test_the_metadata_log_goes_before_the_listing():
    for capture in KRAFT:
        for partition, results in some(audit_capture(capture).items()):
            sources = {row["leadership_source"] for row in results.rows("high_watermarks")}
            assert sources == {"metadata_log"}, (capture, partition)


@pytest.mark.parametrize("capture", [name for name in KRAFT if name in EXPECTED])
def test_with_the_history_verdicts_are_those_of_the_independent_script_but_for_unclean_elections(capture):
    for partition, answer in some(EXPECTED[capture].items()):
        results = audit_capture(capture)[partition]
        unclean = [
            row
            for row in results.rows("findings")
            if (row["code"], row["severity"]) == ("META-UNCLEAN-ELECTION", "high")
        ]
        expected = answer["verdict"]
        if expected == "UNCOMMITTED_DIVERGENCE" and unclean:
            expected = "WILL_LOSE_ON_TRUNCATION"
        assert results.rows("partitions")[0]["verdict"] == expected, f"{partition}\n{told(results)}"


@pytest.mark.parametrize("capture", [name for name in KRAFT if name in EXPECTED])
def test_with_the_history_the_high_watermark_and_the_runs_stay_what_they_are(capture):
    for partition, answer in some(EXPECTED[capture].items()):
        row = audit_capture(capture)[partition].rows("partitions")[0]
        if answer["high_watermark"] is not None:
            assert [row["hw_lower"], row["hw_upper"]] == answer["high_watermark"], partition
        if capture in STOPPED:
            continue  # another replica is the reference once nobody leads
        for broker, follower in answer["followers"].items():
            runs = [
                run for run in audit_capture(capture)[partition].rows("divergences") if run["broker_id"] == int(broker)
            ]
            assert [[run["start_offset"], run["end_offset"]] for run in runs] == sorted(
                follower["divergences"] + follower["holes"]
            )


# --- clean and unclean


@pytest.mark.parametrize("capture", UNCLEAN)
def test_records_that_an_unclean_election_left_behind(capture):
    found = findings(capture, "META-UNCLEAN-ELECTION")
    assert any(row["severity"] == "high" for row in found)
    tails = findings(capture, "DIV-EPOCH")
    assert tails and {row["severity"] for row in tails} == {"high"}
    assert all("unclean election" in row["message"] for row in tails)
    assert not findings(capture, "DIV-TAIL-PENDING")
    worst = {results.rows("partitions")[0]["verdict"] for results in audit_capture(capture).values()}
    assert worst & {"COMMITTED_LOSS", "WILL_LOSE_ON_TRUNCATION"}


@pytest.mark.parametrize("capture", CLEAN)
def test_a_tail_that_a_clean_election_left_behind_is_pending(capture):
    assert not findings(capture, "META-UNCLEAN-ELECTION", "DIV-EPOCH")
    tails = findings(capture, "DIV-TAIL-PENDING")
    assert len(tails) == 2 and {row["severity"] for row in tails} == {"info"}
    assert all("clean election" in row["message"] and "unclean" not in row["message"] for row in tails)
    codes = {row["code"] for results in audit_capture(capture).values() for row in results.rows("divergences")}
    assert codes == {"DIV-TAIL-PENDING"}


def test_a_clean_election_that_loses_committed_records_is_told_as_loss():
    losses = findings("last-replica-standing-2-cut", "HWM-LOSS")
    assert losses
    for row in losses:
        assert any("had lost the end of its own log" in one["text"] for one in row["evidence"])
    assert not findings("last-replica-standing-2-cut", "META-UNCLEAN-ELECTION")
    assert {row["severity"] for row in findings("last-replica-standing-2-cut", "DIV-EPOCH")} == {"medium"}


def test_the_last_known_leader_counts_as_unclean():
    found = findings("last-replica-elr-2-cut", "META-UNCLEAN-ELECTION")
    assert found and all("last known leader" in row["message"] for row in found)


@pytest.mark.parametrize("capture", [name for name in KRAFT if "healed" in name or name == "quorum3-4-back"])
def test_what_has_healed_raises_no_alarm(capture):
    found = findings(capture, "META-UNCLEAN-ELECTION", "META-NO-LEADER", "DIV-EPOCH", "DIV-TAIL-PENDING")
    assert {row["severity"] for row in found} <= {"info"}
    # Some of what they cut is still in files that Kafka is about to delete.
    assert all(row["code"].startswith("META") or "/*.deleted of broker" in row["message"] for row in found)


_SAID_UNCLEAN = re.compile(r"Setting new leader for topicId (\S+), partition (\d+) to (\d+) using an unclean election")


@pytest.mark.parametrize("capture", [name for name in KRAFT if truth(name).get("controller_log_lines")])
def test_unclean_elections_are_those_that_the_controllers_log_names(capture):
    lines = [line for of_node in truth(capture)["controller_log_lines"].values() for line in of_node]
    said = {(match[1], int(match[2]), int(match[3])) for line in lines if (match := _SAID_UNCLEAN.search(line))}
    ids = {name: results.rows("partition_states")[0]["topic_id"] for name, results in audit_capture(capture).items()}
    found = {
        (ids[f"{row['topic']}-{row['partition']}"], row["partition"], row["broker_id"])
        for row in findings(capture, "META-UNCLEAN-ELECTION")
    }
    assert found == said


def test_some_controllers_logs_name_unclean_elections():
    assert (
        sum(bool(findings(name, "META-UNCLEAN-ELECTION")) for name in KRAFT if truth(name).get("controller_log_lines"))
        >= 10
    )


@pytest.mark.parametrize(("capture", "promised"), [("diverged-unclean", {45, 17, 22}), ("elr-elected", {0})])
def test_what_was_promised_follows_from_min_insync_replicas(capture, promised):
    """Alone with min.insync.replicas=1 a leader promises all it writes; below it, nothing."""
    rows = [
        results.rows("partitions")[0] for name, results in audit_capture(capture).items() if not name.startswith("__")
    ]
    assert {row["promised_dropped"] for row in rows} == promised
    acks = truth(capture)["produced"]
    assert acks, "what was acknowledged is known"


def test_the_loss_is_counted_three_ways():
    (row,) = [row for row in findings("diverged-unclean", "META-UNCLEAN-ELECTION") if row["partition"] == 0]
    assert "45 records from 34 on, all proven committed" in row["message"]
    assert (row["start_offset"], row["end_offset"]) == (34, 79)


# --- a stopped cluster


@pytest.mark.parametrize("capture", STOPPED)
def test_a_stopped_cluster_is_audited_in_full(capture):
    for partition, results in some(audit_capture(capture).items()):
        row, mark = results.rows("partitions")[0], results.rows("high_watermarks")[0]
        assert row["leader_id"] is None and row["reference_id"] is not None
        assert (mark["method"], mark["exact"]) == ("clean_shutdown", True), partition
        assert len(results.rows("truncations")) == 8
        assert row["verdict"] == "CONSISTENT", told(results)
        no_leader = [one for one in results.rows("findings") if one["code"] == "META-NO-LEADER"]
        assert [one["severity"] for one in no_leader] == ["info"]
        asked = (truth(capture).get("watermarks_from_clients") or {}).get(partition)
        if asked and asked["high_watermark"] >= 0:
            assert mark["hw_lower"] == asked["high_watermark"]


def test_a_leader_alone_in_sync_has_committed_all_it_wrote():
    methods, alone = {}, []
    for capture in KRAFT:
        for partition, results in audit_capture(capture).items():
            mark = results.rows("high_watermarks")[0]
            methods.setdefault(mark["method"], []).append((capture, partition))
            asked = (truth(capture).get("watermarks_from_clients") or {}).get(partition)
            row = results.rows("partitions")[0]
            if row["leader_id"] is not None and row["isr"] == [row["leader_id"]] and mark["exact"]:
                alone.append((capture, partition))
                if asked:
                    assert mark["hw_lower"] == asked["high_watermark"], (capture, partition)
    assert len(alone) >= 20 and len(methods["clean_shutdown"]) >= 20
    # Nothing shows in which order the files were copied, and the high watermark that the leader wrote is at its log end.
    assert "sole_isr" not in methods


def test_a_replica_that_was_assigned_elsewhere_counts_for_nothing():
    row = audit_capture("reassigned-2-done")["left-behind-0"].rows("partitions")[0]
    assert row["verdict"] == "CONSISTENT" and row["max_lag_records"] == 0
    (stale,) = [
        one for one in audit_capture("reassigned-2-done")["left-behind-0"].rows("replicas") if one["broker_id"] == 2
    ]
    assert stale["in_isr"] is False and stale["log_end_offset"] == row["hw_upper"] - 21


def test_states_of_a_partition_are_in_the_answers():
    rows = audit_capture("diverged-unclean")["ledger-0"].rows("partition_states")
    history = [row for row in rows if row["source"] == "metadata_log"]
    assert [(row["leader_id"], row["leader_epoch"], row["isr"], row["recovering"]) for row in history] == [
        (0, 0, [0, 1, 2], False),
        (0, 0, [0, 1], False),
        (0, 0, [0], False),
        (1, 1, [1], True),
        (1, 1, [1, 2], False),
    ]
    assert [row["source"] for row in rows if row not in history] == ["topics_describe"]
    assert history[-1]["fenced"] == [0] and history[0]["configs"]["min.insync.replicas"] == "1"
    told = tables_of(audit_by_listing("diverged-unclean")["ledger-0"])
    assert [(row["source"], row["time_ms"]) for row in told["partition_states"]] == [("topics_describe", None)]
    assert {row["leadership_source"] for row in told["high_watermarks"]} == {"topics_describe"}


def test_a_source_that_says_nothing_is_an_error_and_not_another_source():
    with pytest.raises(UsageError, match=r"--leadership-source zookeeper: .* it has metadata_log, topics_describe"):
        audit_all(str(FIXTURES / "diverged-unclean"), Settings(leadership_source="zookeeper"))


# --- scenes


def test_scene_unclean_election(tmp_path):
    old = Replica([*COMMON, *written(50, 70, 0, "old ")], high_watermark=50)
    new = Replica([*COMMON, *written(50, 60, 1, "new ")])
    answer = scene(
        tmp_path,
        {1: old, 2: new, 3: new},
        change(isr=(1,)),
        change(leader=2, isr=(2,), recovering=True),
        change(isr=(2, 3)),
    )
    assert answer.runs(1) == [("DIV-EPOCH", 50, 60, 1, 0, False), ("DIV-EPOCH", 60, 70, None, 0, False)]
    assert answer.verdict == "WILL_LOSE_ON_TRUNCATION"
    assert answer.one("META-UNCLEAN-ELECTION") == ("high", "proven", 50, 70)
    assert answer.tables["partitions"][0]["promised_dropped"] == 20
    assert "2023-11-14T22:13:22.000Z" in answer.found("META-UNCLEAN-ELECTION")[0]["message"]


def test_scene_an_unclean_election_that_left_only_the_end_of_a_transaction(tmp_path):
    marker = encode_marker(50, "COMMIT", 0, producer_id=7, producer_epoch=0)
    old, new = Replica([*COMMON, marker]), Replica([*COMMON, *written(50, 60, 1, "new ")])
    moves = [change(isr=(1,)), change(leader=2, isr=(2,), recovering=True), change(isr=(2, 3))]
    (told,) = scene(tmp_path, {1: old, 2: new, 3: new}, *moves).found("META-UNCLEAN-ELECTION")
    assert (
        "broker 1 still has only transaction markers or empty batches from 50 on; broker 2 has none of them"
        in told["message"]
    )


def test_scene_clean_election(tmp_path):
    old = Replica([*COMMON, *written(50, 70, 0, "old ")], high_watermark=50)
    new = Replica([*COMMON, *written(50, 60, 1, "new ")])
    answer = scene(tmp_path, {1: old, 2: new, 3: new}, change(leader=2, isr=(2, 3)))
    assert {run[0] for run in answer.runs(1)} == {"DIV-TAIL-PENDING"}
    assert answer.verdict == "UNCOMMITTED_DIVERGENCE"
    assert not answer.codes("medium")
    # The elected broker was in sync all the time and did not have them: nobody was promised anything.
    assert answer.tables["partitions"][0]["promised_dropped"] == 0


#: Nobody leads any more, and 2 is elected uncleanly.
ALONE = (change(isr=(1,), leader=-1), change(leader=2, isr=(2,), recovering=True))


@pytest.mark.parametrize(
    ("moves", "promised"),
    [
        ((change(isr=(1, 2)), *ALONE), 0),
        ((change(isr=(1, 2)), write.registration_change(2, 1), write.register_broker(2), *ALONE), 20),
        ((change(isr=(1, 2)), write.registration_change(2, 1), write.registration_change(2, -1), *ALONE), 0),
        ((change(isr=(1, 2)), write.registration_change(2, stopping=1), write.register_broker(2), *ALONE), 0),
        ((change(isr=(1, 2)), write.register_broker(3), *ALONE), 0),
        ((change(isr=(1,)), write.register_broker(2), change(isr=(1, 2)), *ALONE), 0),
        ((change(isr=(1,)), write.register_broker(2), *ALONE), 20),
        ((change(isr=(1,), elr=(2,)), write.register_broker(2), change(isr=(), elr=(2,), leader=-1), ALONE[1]), 0),
        ((change(isr=(1,), elr=(2,)), write.register_broker(2), change(isr=(), elr=(), leader=-1), ALONE[1]), 20),
    ],
    ids=[
        *("nobody crashed", "crashed", "fenced, and up all the time", "stopped", "another crashed"),
        *("crashed and followed again", "crashed out of the ISR", "still eligible", "no longer eligible"),
    ],
)
def test_scene_one_that_crashed_may_have_had_what_it_led_without(tmp_path, moves, promised):
    """Of three, two are enough; 2 was in sync whenever two were, lacks the end of the log and was elected uncleanly."""
    old = Replica([*COMMON, *written(50, 70, 0, "old ")], high_watermark=50)
    new = Replica([*COMMON, *written(50, 60, 2, "new ")])
    answer = scene(tmp_path, {1: old, 2: new, 3: new}, *moves, configs={"min.insync.replicas": "2"})
    assert answer.tables["partitions"][0]["promised_dropped"] == promised


def test_scene_a_clean_election_left_the_tail_before_an_unclean_one(tmp_path):
    """Broker 1's tail was abandoned cleanly by 2, which wrote on; then 3 was elected uncleanly and abandoned 2's."""
    first = Replica([*COMMON, *written(50, 60, 0, "first ")], high_watermark=50)
    second = Replica([*COMMON, *written(50, 65, 1, "second ")], high_watermark=65)
    third = Replica([*COMMON, *written(50, 55, 1, "second "), *written(55, 58, 2, "third ")], high_watermark=50)
    answer = scene(
        tmp_path,
        {1: first, 2: second, 3: third},
        change(leader=2, isr=(2, 3)),
        change(isr=(2,)),
        change(leader=3, isr=(3,), recovering=True),
    )
    assert {run[0] for run in answer.runs(1)} == {"DIV-TAIL-PENDING"}
    assert [run[0] for run in answer.runs(2)] == ["DIV-EPOCH", "DIV-EPOCH"]
    assert answer.found("DIV-EPOCH", 2)[0]["severity"] == "high"
    assert answer.verdict == "COMMITTED_LOSS"
    (election,) = answer.found("META-UNCLEAN-ELECTION")
    assert "broker 2 still has 10 records" in election["message"] and "broker 1 still" not in election["message"]


def test_scene_of_several_elections_none_is_blamed_that_nothing_proves(tmp_path):
    """Broker 3 was elected uncleanly in epoch 1, and 2 in epoch 2: 3 follows 2 now, so nothing tells what it had."""
    old = Replica([*COMMON, *written(50, 70, 0, "old ")], high_watermark=50)
    new = Replica([*COMMON, *written(50, 60, 2, "new ")])
    moves = [
        change(isr=(1,)),
        change(leader=3, isr=(3,), recovering=True),
        change(leader=2, isr=(2,)),
        change(isr=(2, 3)),
    ]
    answer = scene(tmp_path, {1: old, 2: new, 3: new}, *moves)
    told = {row["message"].rpartition("; ")[2] for row in answer.found("DIV-EPOCH")}
    assert told == {
        "left behind by one of 2 elections, among them the unclean election of broker 3 at 2023-11-14T22:13:22.000Z"
    }, answer


def test_scene_elections_before_the_history_begins_are_unknown(tmp_path):
    old = Replica([*COMMON, *written(50, 70, 0, "old ")], high_watermark=50)
    new = Replica([*COMMON, *written(50, 60, 4, "new ")])
    state = write.new_topic(TOPIC, TOPIC_ID, (1, 2, 3), 2, isr=(2, 3), leader_epoch=4, partition_epoch=7)
    metadata = write.MetadataLog({90: b""}, {(90, 1): write.snapshot(state)})
    answer = audit(tmp_path, {1: old, 2: new, 3: new}, metadata={100: metadata})
    assert [run[0] for run in answer.runs(1)] == ["DIV-EPOCH", "DIV-EPOCH"]
    assert answer.verdict == "UNCOMMITTED_DIVERGENCE"
    assert {row["severity"] for row in answer.found("DIV-EPOCH")} == {"medium"}
    assert all(
        any("does not reach back" in one["text"] for one in row["evidence"]) for row in answer.found("DIV-EPOCH")
    )
    assert answer.tables["partitions"][0]["promised_dropped"] is None


def test_scene_a_leader_copied_before_it_led_proves_nothing(tmp_path):
    old = Replica([*COMMON, *written(50, 70, 0)], high_watermark=65)
    early = Replica(COMMON)
    answer = scene(tmp_path, {1: old, 2: early, 3: early}, change(leader=2, isr=(2, 3)))
    assert not answer.runs(1)
    assert not answer.codes("low") - {"REP-UNDER-REPLICATED"}
    assert any("copied before it began to lead" in row["message"] for row in answer.found("CAP-SKEW"))


@pytest.mark.parametrize(("protocol", "is_noted"), [("kip-101", False), ("fetch", True)])
def test_before_2_0_1_a_leader_that_has_written_nothing_has_no_epoch_either(tmp_path, protocol, is_noted):
    """KAFKA-7415: what was copied after its election looks the same."""
    brokers = {1: Replica([], epochs=[], high_watermark=0), 2: Replica(COMMON)}
    answer = audit(tmp_path, brokers, source="user", leader_epoch=3, protocol=protocol)
    (said,) = answer.found("CAP-SKEW", 1)
    assert ("before it began to lead or before it wrote anything as leader" in said["message"]) is not is_noted


def test_scene_who_came_into_the_isr_after_the_copies_were_made_is_not_accused(tmp_path):
    """Broker 1 has followed broker 2 since, and is in sync by a metadata log that was copied later."""
    old = Replica([*COMMON, *written(50, 70, 0, "old ")], high_watermark=50)
    new = Replica([*COMMON, *written(50, 60, 1, "new ")])
    moves = [change(isr=(1,)), change(leader=2, isr=(2,), recovering=True), change(isr=(2, 1, 3))]
    early = scene(tmp_path / "early", {1: old, 2: new, 3: new}, *moves, quiesced=True)
    assert early.found("HWM-ABOVE-ISR-PREFIX", 1), early
    unsure = scene(tmp_path / "unsure", {1: old, 2: new, 3: new}, *moves)
    assert unsure.one("CAP-SKEW", 1)[0] == "medium" and not unsure.codes("critical"), unsure
    late = scene(tmp_path / "late", {1: old, 2: new, 3: new}, *moves, change(leader=3), change(leader=2))
    assert not late.codes("critical") and late.found("CAP-SKEW"), late


def test_scene_the_end_of_a_leader_that_was_copied_before_it_led_bounds_nothing(tmp_path):
    """Broker 1 led in epoch 1 and was copied then; the others were copied when it led again, in epoch 3."""
    early = Replica(COMMON, epochs=[(0, 0), (1, 50)])
    late = Replica([*COMMON, *written(50, 70, 1)], high_watermark=65)
    moves = [change(leader=2), change(leader=1), change(leader=2), change(leader=1)]
    answer = scene(tmp_path, {1: early, 2: late, 3: late}, *moves[1:])
    assert answer.interval == (50, 70) and not answer.mark["exact"], answer
    assert "copied before it began to lead in epoch 3" in answer.mark["upper_evidence"]
    assert not answer.codes("low"), answer


def test_scene_nor_does_an_in_sync_replica_that_ends_below_what_was_checkpointed_before_clean_elections(tmp_path):
    early = Replica(COMMON, epochs=[(0, 0), (1, 50)])
    late = Replica([*COMMON, *written(50, 70, 1)], high_watermark=65)
    answer = scene(
        tmp_path, {1: early, 2: late, 3: Replica(COMMON)}, change(leader=1), change(leader=2), change(leader=1)
    )
    assert answer.interval == (50, 70), answer
    assert "broker 3 ends at 50, and another replica shows that there was more" in answer.mark["upper_evidence"]


def test_scene_a_leader_that_knows_its_epoch_has_no_more(tmp_path):
    old = Replica([*COMMON, *written(50, 70, 0)], high_watermark=65)
    elected = Replica(COMMON, epochs=[(0, 0), (1, 50)])
    answer = scene(tmp_path, {1: old, 2: elected, 3: Replica(COMMON)}, change(leader=2, isr=(2, 3)))
    assert answer.verdict == "COMMITTED_LOSS"
    assert answer.one("HWM-LOSS")[2:] == (50, 65)


def test_scene_everybody_was_stopped_one_after_the_other(tmp_path):
    brokers = {broker: Replica(COMMON, clean_shutdown=True, high_watermark=50 - broker) for broker in (1, 2, 3)}
    answer = scene(
        tmp_path,
        brokers,
        change(leader=2, isr=(2, 3)),
        change(leader=3, isr=(3,)),
        change(leader=-1, isr=(), elr=(3,), last_known_elr=(3,)),
    )
    row = answer.tables["partitions"][0]
    assert (row["leader_id"], row["reference_id"], row["leader_epoch"], row["isr"], row["under_replicated"]) == (
        None,
        3,
        3,
        [],
        None,
    )
    assert answer.verdict == "CONSISTENT"
    # What broker 3 wrote as it stopped is less than what broker 1 had learnt: then bounds are all there is.
    assert answer.interval == (49, 50)


def test_scene_the_last_leader_wrote_its_high_watermark_as_it_stopped(tmp_path):
    brokers = {
        broker: Replica(COMMON[:9], clean_shutdown=True, high_watermark=mark) for broker, mark in ((1, 40), (2, 42))
    }
    led = [*COMMON[:9], *written(45, 50, 1)]
    brokers[3] = Replica(led, clean_shutdown=True, high_watermark=45)
    changes = (change(leader=3, isr=(3,)), change(leader=-1, isr=(), elr=(3,)))
    answer = scene(tmp_path, brokers, *changes)
    assert (answer.interval, answer.mark["method"]) == ((45, 45), "clean_shutdown")
    brokers[3] = Replica(led, high_watermark=45)
    assert scene(tmp_path / "killed", brokers, *changes).interval == (45, 50)


def test_scene_a_sole_leader_is_exact_only_when_nothing_may_hold_it_back(tmp_path):
    brokers = {1: Replica(COMMON, high_watermark=30), 2: Replica(COMMON[:8]), 3: Replica(COMMON[:8])}
    fenced = (write.registration_change(2, 1), write.registration_change(3, 1))
    alone = scene(tmp_path / "alone", brokers, change(isr=(1,)), *fenced, quiesced=True)
    assert (alone.interval, alone.mark["method"]) == ((50, 50), "sole_isr")
    # Nothing shows that its log is not later than the metadata log.
    assert scene(tmp_path / "live", brokers, change(isr=(1,)), *fenced).interval == (40, 50)
    assert scene(tmp_path / "there", brokers, change(isr=(1,)), fenced[0], quiesced=True).interval == (40, 50)
    two = {"min.insync.replicas": "2"}
    assert scene(tmp_path / "two", brokers, change(isr=(1,)), *fenced, configs=two, quiesced=True).interval == (40, 50)
    old = scene(tmp_path / "old", brokers, change(isr=(1,)), *fenced, configs=two, quiesced=True, kafka_version="3.6.2")
    assert old.interval == (50, 50)
    # H3: whoever is eligible and was stopped cleanly has all that is committed; one that was killed may have lost it.
    moves = (change(isr=(1,), elr=(2,)), *fenced)
    assert scene(tmp_path / "killed", brokers, *moves, configs=two).interval == (40, 50)
    brokers[2] = Replica(COMMON[:8], clean_shutdown=True)
    assert scene(tmp_path / "elr", brokers, *moves, configs=two).interval == (40, 40)


def test_scene_epochs_that_the_metadata_log_does_not_know(tmp_path):
    """Where the epoch file has the epoch too, the metadata log is older; else the batch may have been changed."""
    ahead = Replica([*COMMON, *written(50, 60, 7)])
    for name, brokers, code in (
        ("in the file", {1: ahead, 2: Replica(COMMON)}, "META-STALE"),
        ("not in the file", {1: replace(ahead, epochs=[(0, 0)]), 2: Replica(COMMON)}, "EPO-AHEAD-OF-METADATA"),
    ):
        answer = scene(tmp_path / name, {**brokers, 3: Replica(COMMON)}, quiesced=True)
        assert answer.codes("info") & {"META-STALE", "EPO-AHEAD-OF-METADATA"} == {code}, answer


def test_scene_of_two_copies_the_one_in_the_named_directory_counts(tmp_path):
    short, long = written(0, 20, 0), written(0, 50, 0)
    for disk, batches in (("a", short), ("b", long)):
        replica = Replica(batches, high_watermark=20, recovery_point=20)
        write_log_dir(tmp_path / "broker-1" / disk, 1, [replica], directory_id=make_uuid(disk))
    begin = write.new_topic(TOPIC, TOPIC_ID, (1,), 1, directories=(make_uuid("a"),))
    write.write_metadata_log(tmp_path, 100, write.history(begin))
    answer = Answer(tables_of(audit_one(str(tmp_path), TopicPartition(TOPIC, 0), Settings())))
    assert answer.tables["high_watermarks"][0]["leader_log_end_offset"] == 20
    assert "'broker-1/b" in answer.found("META-DUP-DIR")[0]["message"]


def test_scene_a_fork_of_the_controllers_is_told(tmp_path):
    begin = write.new_topic(TOPIC, TOPIC_ID, (1, 2), 1)
    leaders = {100: 1, 101: 1, 102: 2}
    copies = {
        node: write.history(begin, change(leader=one), apart_ms=0, voters=tuple(leaders))
        for node, one in leaders.items()
    }
    answer = audit(tmp_path, {1: Replica(COMMON), 2: Replica(COMMON)}, metadata=copies)
    (fork,) = answer.found("META-FORK")
    assert (fork["severity"], fork["topic"], fork["broker_id"]) == ("critical", None, 102)


def test_nothing_above_low_for_a_running_cluster_with_a_history(tmp_path):
    """Preferred leaders moved back, a broker restarted, the ISR shrank and grew: all of it is every day's business."""
    batches = [*COMMON, *written(50, 60, 1), *written(60, 80, 2)]
    answer = scene(
        tmp_path,
        {broker: Replica(batches) for broker in (1, 2, 3)},
        change(leader=2, isr=(2, 3)),
        change(isr=(1, 2, 3)),
        change(leader=1),
        change(isr=(1, 2)),
        change(isr=(1, 2, 3)),
    )
    assert answer.verdict == "CONSISTENT"
    assert not [row for row in answer.tables["findings"] if at_or_above(row["severity"], "low")], answer


# --- what an unclean election lost, when nothing holds it any more


def may_have_lost(answer: Answer) -> bool:
    (row,) = answer.found("META-UNCLEAN-ELECTION")
    assert row["severity"] == "info"
    return "it may have lost records, and these files cannot tell" in row["message"]


def test_an_unclean_election_may_have_lost_what_the_old_leader_has_cut_since(tmp_path):
    healed = Replica([*COMMON, *written(50, 60, 1, "new ")])
    brokers = {1: healed, 2: healed, 3: healed}
    assert may_have_lost(scene(tmp_path / "healed", brokers, *UNCLEAN_TO_2, change(isr=(1, 2, 3))))
    # The new leader wrote nothing, so that no epoch of its own shows that the old one has followed it.
    idle = dict.fromkeys((1, 2, 3), Replica(COMMON))
    back = write.registration_change(1, -1)
    assert may_have_lost(scene(tmp_path / "idle", idle, *UNCLEAN_TO_2, back, change(isr=(1, 2, 3))))
    assert may_have_lost(scene(tmp_path / "back", idle, *UNCLEAN_TO_2, back))
    down = (change(isr=(1, 2)), change(isr=(2,)), write.registration_change(1, 1))
    assert may_have_lost(scene(tmp_path / "down", idle, *UNCLEAN_TO_2, back, *down))
    # Purged since: what was lost lies below every log start.
    purged = Replica(written(60, 70, 1, "new "), log_start=60, epochs=[(1, 60)])
    assert may_have_lost(scene(tmp_path / "purged", dict.fromkeys((1, 2, 3), purged), *UNCLEAN_TO_2))
    # Nobody knows what the old leader had.
    assert may_have_lost(scene(tmp_path / "gone", {2: healed, 3: healed}, *UNCLEAN_TO_2))


def test_a_clean_failover_that_healed_has_no_such_finding(tmp_path):
    healed = Replica([*COMMON, *written(50, 60, 1, "new ")])
    answer = scene(tmp_path, dict.fromkeys((1, 2, 3), healed), change(leader=2, isr=(2, 3)), change(isr=(1, 2, 3)))
    assert not answer.found("META-UNCLEAN-ELECTION") and answer.verdict == "CONSISTENT"
