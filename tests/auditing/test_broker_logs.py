"""Evidence from broker logs: losses that left no trace in the files, and a high watermark logged by a leader."""

from __future__ import annotations

import shutil
from functools import cache

import pytest
from tests.support.captures import CAPTURES, FIXTURES, audit_capture, told, truth
from tests.support.captures_with_more import with_logs
from tests.support.scenario import audit, written
from tests.support.snapshots import Replica
from tests.support.some import some

from replica_audit.config import Settings
from replica_audit.model import TopicPartition
from replica_audit.runner.in_process import audit_one
from replica_audit.snapshot.broker_logs import broker_of_path, is_broker_log, parse_broker_log
from replica_audit.snapshot.opening import open_snapshot


def codes(results, least=("critical", "high", "medium")):
    return {
        (row["code"], row["broker_id"], row["start_offset"])
        for row in results.rows("findings")
        if row["severity"] in least
    }


def test_the_loss_that_left_no_trace_is_told_by_the_logs_alone(tmp_path):
    ((name, from_files),) = audit_capture("kip101-restart-3-lost").items()
    assert from_files.rows("partitions")[0]["verdict"] == "CONSISTENT"
    results = audit_one(str(with_logs("kip101-restart-3-lost", tmp_path)), TopicPartition.parse(name), Settings())
    assert codes(results) - codes(from_files) == {("TRN-LOGGED", 1, 6)}, told(results)
    (cut,) = [row for row in results.rows("findings") if row["code"] == "TRN-LOGGED" and row["severity"] == "medium"]
    assert "led in epoch 3" in cut["message"] and "logs/broker-1/server.log line 7" in cut["message"]
    (election,) = [row for row in results.rows("findings") if row["code"] == "META-UNCLEAN-ELECTION"]
    assert (election["broker_id"], election["severity"], election["confidence"]) == (1, "info", "likely")
    assert "only broker 0 was in sync" in election["message"]


def test_before_it_the_logs_have_an_ordinary_cut(tmp_path):
    ((name, from_files),) = audit_capture("kip101-restart-1-before").items()
    results = audit_one(str(with_logs("kip101-restart-1-before", tmp_path)), TopicPartition.parse(name), Settings())
    assert codes(results) == codes(from_files)
    assert codes(results, ("info",)) - codes(from_files, ("info",)) == {("TRN-LOGGED", 1, 6)}
    assert results.rows("partitions")[0]["verdict"] == "CONSISTENT"


@pytest.mark.parametrize(
    ("capture", "partition", "start", "end"),
    [
        ("last-replica-standing-3-healed", "transfers-0", 34, 38),
        ("diverged-healed", "ledger-1", 41, 58),
        ("zk-2.8-diverged-healed", "ledger-0", 22, 53),
        ("kafka-3.9-diverged-healed", "ledger-1", 22, 35),
    ],
)
def test_committed_records_that_every_replica_has_lost_are_told(capture, partition, start, end, tmp_path):
    assert not codes(audit_capture(capture)[partition])
    results = audit_one(str(with_logs(capture, tmp_path)), TopicPartition.parse(partition), Settings())
    rows = [row for row in results.rows("findings") if row["code"] == "TRN-BELOW-HW"]
    assert rows and {(row["severity"], row["start_offset"], row["end_offset"]) for row in rows} == {
        ("critical", start, end)
    }
    assert results.rows("partitions")[0]["verdict"] == "COMMITTED_LOSS"


@pytest.mark.parametrize(
    "capture", ["healthy", "lagging-caught-up", "diverged-clean-healed", "reassigned-3-back", "retention-passed-2-back"]
)
def test_the_logs_of_clusters_that_lost_nothing_accuse_nobody(capture, tmp_path):
    path = with_logs(capture, tmp_path)
    for name, from_files in some(audit_capture(capture).items()):
        results = audit_one(str(path), TopicPartition.parse(name), Settings())
        assert codes(results, ("critical", "high", "medium", "low")) == codes(
            from_files, ("critical", "high", "medium", "low")
        ), told(results)


def test_a_version_that_could_write_too_high_a_mark_makes_it_suspect(tmp_path):
    path = with_logs("zk-2.8-diverged-healed", tmp_path)
    results = audit_one(str(path), TopicPartition("ledger", 0), Settings(kafka_version="2.8.2"))
    assert {row["confidence"] for row in results.rows("findings") if row["code"] == "TRN-BELOW-HW"} == {"suspect"}


LED = (
    "[2024-01-31 10:00:00,123] INFO [Broker id=1] Leader orders-0 with topic id Some({id}) starts at "
    "leader epoch 2 from offset 30 with partition "
)
LED += (
    "epoch 7, high watermark {mark}, ISR [1,2], adding replicas [] and removing replicas [] . Previous "
    "leader Some(2) and previous leader epoch was 1."
)


def scene(tmp_path, lines, **named):
    """Two replicas to 40, epoch 2 from 30 on; checkpoints of long ago."""
    from tests.support.snapshots import TOPIC_ID

    batches = [*written(0, 30, 1), *written(30, 40, 2)]

    def write():
        log = tmp_path / "broker-1" / "logs" / "state-change.log"
        log.parent.mkdir()
        log.write_text("\n".join(line.replace("{id}", TOPIC_ID) for line in lines))

    brokers = {1: Replica(batches, high_watermark=20), 2: Replica(batches, high_watermark=15)}
    return audit(tmp_path, brokers, before_audit=write, **named)


def test_a_leaders_own_words_raise_the_lower_bound_and_are_named(tmp_path):
    answer = scene(tmp_path, [LED.replace("{mark}", "28")])
    assert answer.interval == (28, 40)
    assert (
        "began to lead in epoch 2 at 30 (broker-1/logs/state-change.log line 1, 2024-01-31 10:00:00,123)"
        in answer.mark["lower_evidence"]
    )


@pytest.mark.parametrize(
    "line",
    [
        LED.replace("{mark}", "28").replace("orders-0", "orders-1"),
        LED.replace("{mark}", "28").replace("{id}", "AAAAAAAAAAAAAAAAAAAAAA"),
    ],
    ids=[
        "another partition",
        "another topic of that name",
    ],
)
def test_words_about_another_partition_count_for_nothing(tmp_path, line):
    assert scene(tmp_path, [line]).interval == (20, 40)


def test_where_brokers_logs_lie_and_whose_they_are(tmp_path):
    for place in (
        "logs/broker-{}/server.log",
        "broker-{}/server.log.2024-01-31-10",
        "more/broker-{}/x/kafkaServer.out",
    ):
        folder = tmp_path / place.partition("/")[0]
        folder.mkdir()
        (folder / "in").mkdir()
    for name in ("server.log", "state-change.log.2024-01-31-10", "controller.log.1", "kafkaServer.out"):
        assert is_broker_log(f"x/{name}")
    for name in (
        "00000000000000000000.log",
        "server.log.gz",
        "log-cleaner.log",
        "kafka-request.log",
        "server.log.properties.d/x",
    ):
        assert not is_broker_log(f"x/{name}")
    assert broker_of_path("logs/broker-12/old/server.log") == 12 and broker_of_path("server.log") is None
    assert broker_of_path("broker-1/logs/broker-99999999999/server.log") == 1, "no broker has an id above int32"


@pytest.mark.parametrize("place", ["logs/broker-{}/server.log", "broker-logs/broker-{}/server.log.2024-01-31-10"])
def test_logs_are_input_and_nothing_is_in_quarantine_for_them(place, tmp_path):
    _, inventory = open_snapshot(str(with_logs("kip279-1-before", tmp_path, place)), (), None)
    assert {file.broker_id for file in inventory.broker_logs} == {0, 1} and inventory.counts["broker_log"] == 2
    assert not [row for row in inventory.quarantine if "log" in row.path.rpartition("/")[2]]


def test_a_log_of_nobody_is_told(tmp_path):
    shutil.copytree(FIXTURES / "lagging", tmp_path, dirs_exist_ok=True)
    (tmp_path / "server.log").write_text("x\n")
    _, inventory = open_snapshot(str(tmp_path), (), None)
    (row,) = [row for row in inventory.quarantine if row.path == "server.log"]
    assert row.code == "INPUT-IGNORED" and "broker-<id>" in row.reason
    assert [file.broker_id for file in inventory.broker_logs] == [None]


@pytest.mark.parametrize("place", ["logs/broker-{}/server.log", "collected/{}/server.log", "server.log.{}"])
def test_a_cut_below_the_high_watermark_is_evidence_wherever_its_line_lies(tmp_path, place):
    """Broker 0 cut ledger-1 at 41 when it came back; its high watermark had been 58, and epoch 2 begins at 41."""
    uri = with_logs("diverged-healed", tmp_path, place)
    results = audit_one(str(uri), TopicPartition("ledger", 1), Settings())
    (cut,) = [row for row in results.rows("findings") if row["code"] == "TRN-BELOW-HW"]
    owner = 0 if "broker-" in place else None
    assert (cut["broker_id"], cut["start_offset"], cut["end_offset"]) == (owner, 41, 58)
    assert cut["message"].startswith("broker 0 cut" if owner == 0 else "a broker cut")
    assert results.rows("partitions")[0]["verdict"] == "COMMITTED_LOSS"
    if owner is None:
        said = {row["broker_id"] for row in results.rows("findings") if row["code"] in ("TRN-BELOW-HW", "TRN-LOGGED")}
        assert said == {None}


@cache
def lines_of_all_captures():
    found = {}
    for capture in CAPTURES:
        content = truth(capture)
        for lines in content.get("broker_log_lines", {}).values():
            found.setdefault(content.get("kafka"), []).extend(lines)
    return found


KINDS = {
    "0.10.2.2": {"created", "cut", "elected", "isr"},
    "1.1.1": {"created", "loaded", "starts", "cut", "no_cut", "isr"},
    "2.8.2": {"created", "loaded", "starts", "asked_to_cut", "cut", "no_cut", "mark_went_back", "isr"},
    "3.6.2": {"created", "loaded", "starts", "asked_to_cut", "cut", "no_cut", "mark_went_back", "isr"},
    "3.9.1": {"created", "loaded", "starts", "asked_to_cut", "cut", "no_cut", "mark_went_back", "isr"},
    "4.3.1": {
        "created",
        "loaded",
        "starts",
        "asked_to_cut",
        "cut",
        "no_cut",
        "cut_below_mark",
        "mark_went_back",
        "isr",
    },
}


@pytest.mark.parametrize("version", KINDS)
def test_every_line_of_that_version_that_starts_cuts_or_changes_the_isr_is_understood(version):
    lines = lines_of_all_captures()[version]
    events = {event.line: event for event in parse_broker_log((line.encode() for line in lines), "log", 0)}
    assert {event.kind for event in events.values()} >= KINDS[version]
    words = (
        "Truncating",
        "starts at",
        "ISR updated",
        "Expanding ISR",
        "Shrinking ISR",
        "eader and ISR",
        "initial high watermark",
        "Non-monotonic",
    )
    missed = [
        line for number, line in enumerate(lines, 1) if number not in events and any(word in line for word in words)
    ]
    assert not missed, missed[:5]
    for event in events.values():
        assert event.clock_ms is not None and event.topic and (event.kind != "starts" or event.leader_epoch is not None)


def test_a_broker_that_refused_to_lose_records_says_so():
    line = (
        b"FATAL [ReplicaFetcherThread-0-1], Exiting because log truncation is not allowed for partition "
        b"t-0, Current leader 1's latest "
    )
    line += b"offset 17 is less than replica 0's latest offset 21 (kafka.server.ReplicaFetcherThread)"
    (event,) = parse_broker_log([line], "server.log", 0)
    assert (event.kind, event.leader_id, event.offset, event.high_watermark) == ("refused", 1, 17, 21)


def test_a_line_with_and_without_a_date():
    lines = [
        b"[2024-01-31 10:00:01,500] INFO Truncating log a-b-0 to offset 5. (kafka.log.Log)",
        b"10:00:01,500 INFO Truncating log a-b-0 to offset 5.",
    ]
    dated, bare = parse_broker_log(lines, "server.log", 3)
    assert (dated.topic, dated.partition, dated.offset, dated.broker_id) == ("a-b", 0, 5, 3)
    assert dated.clock_ms == 1_706_695_201_500 and bare.clock_ms == 36_001_500


def test_lines_that_only_look_alike_are_none():
    lines = [
        b"Truncating to offset 5",
        b"\xff\xfe New leader and ISR for partition [t,0] is {broken",
        b"x starts at y",
        b'New leader and ISR {"leader":1}',
    ]
    assert list(parse_broker_log(lines, "server.log", 0)) == []
