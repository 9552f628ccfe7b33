"""Who leads: topic listings of all generations, leadership.json; and manifest.json."""

from __future__ import annotations

import json
import tracemalloc

import pytest
from tests.support.scanned import CAPTURES, FIXTURES

from replica_audit.errors import FormatError
from replica_audit.model import Leadership
from replica_audit.snapshot.inventory import CopiedLogDir, Manifest
from replica_audit.snapshot.leadership_sources import RootFiles, parse_leadership
from replica_audit.snapshot.manifest import parse_manifest
from replica_audit.snapshot.storage import GREATEST_SMALL_FILE, Snapshot
from replica_audit.snapshot.topics_describe import parse_topics_describe

LISTED = [capture for capture in CAPTURES if (FIXTURES / capture / "kafka-topics-describe.txt").exists()]


@pytest.mark.parametrize("capture", LISTED)
def test_every_line_of_the_captured_listings_is_understood(capture):
    text = (FIXTURES / capture / "kafka-topics-describe.txt").read_text(encoding="utf-8")
    listing = parse_topics_describe(text, "kafka-topics-describe.txt")
    assert listing.problems == ()
    lines = [line for line in text.splitlines() if "\tPartition: " in line]
    assert len(listing.leaderships) == len(lines) > 0
    for line, leadership in zip(sorted(lines, key=_place), listing.leaderships, strict=True):
        fields = dict(field.split(": ", 1) for field in (part.strip() + " " for part in line.strip().split("\t")))
        leader = fields["Leader"].strip()
        assert leadership.leader_id == (None if leader in ("none", "-1") else int(leader))
        assert leadership.replicas == tuple(int(one) for one in fields["Replicas"].split(","))
        assert leadership.isr == tuple(sorted(int(one) for one in fields["Isr"].split(",") if one.strip()))


def _place(line: str) -> tuple[str, int]:
    fields = line.split("\t")
    return fields[1].removeprefix("Topic: "), int(fields[2].removeprefix("Partition: "))


def test_a_listing_of_4_x_has_ids_configs_and_eligible_leaders():
    text = (
        "Topic: moving.a_b-c\tTopicId: o42l77fsTvCGq9MIScD_bw\tPartitionCount: 1\tReplicationFactor: 3\tConfigs: "
        "leader.replication.throttled.replicas=0:1,0:2,cleanup.policy=compact,delete,min.insync.replicas=2\n"
        "\tTopic: moving.a_b-c\tPartition: 0\tLeader: none\tReplicas: 2,0,1\tIsr: \tAdding Replicas: 3\t"
        "Removing Replicas: 2\tElr: 1,0\tLastKnownElr: 2\n"
    )
    ((leadership,), problems, _) = parse_topics_describe(text, "d")
    assert problems == ()
    assert leadership == Leadership(
        "moving.a_b-c", 0, "topics_describe", None, None, (), (0, 1), (2,), (2, 0, 1), "o42l77fsTvCGq9MIScD_bw",
        {
            "leader.replication.throttled.replicas": "0:1,0:2",
            "cleanup.policy": "compact,delete",
            "min.insync.replicas": "2",
        },
    )  # fmt: skip


@pytest.mark.parametrize("blank", ["", " "])
@pytest.mark.parametrize("tab", ["\t", "    "])
def test_a_listing_of_0_10_is_read_without_blanks_and_pasted_without_tabs(blank, tab):
    text = (
        f"Topic:t{tab}PartitionCount:{blank}1{tab}ReplicationFactor:{blank}2{tab}Configs:{blank}cleanup.policy=compact\r\n"
        f"{tab}Topic: t{tab}Partition: 0{tab}Leader: -1{tab}Replicas: 1,0{tab}Isr: 1\r\n"
    )
    ((leadership,), problems, _) = parse_topics_describe(text, "d")
    assert problems == ()
    assert (leadership.leader_id, leadership.isr, leadership.replicas) == (None, (1,), (1, 0))
    assert leadership.configs == {"cleanup.policy": "compact"} and leadership.topic_id is None


@pytest.mark.parametrize(
    "line",
    [
        "[2024-01-01] WARN something",
        "\tTopic: t\tPartition: x\tLeader: 0\tReplicas: 0\tIsr: 0",
        "\tTopic: t\tPartition: 1\tLeader: zero\tReplicas: 0\tIsr: 0",
        "\tTopic: t\tPartition: 1\tLeader: 0\tReplicas: 0;1\tIsr: 0",
        "\tTopic: t\tPartition: 1\tLeader: 0\tReplicas: 0",
        "\tTopic: t\tPartition: 1\tLeader: \tReplicas: 0\tIsr: 0",
        "\tTopic: \tPartition: 1\tLeader: 0\tReplicas: 0\tIsr: 0",
        "Topic: t\tPartitionCount: 1\tReplicationFactor: 1\tConfigs: nonsense",
        "xTopic: t\tPartition: 1\tLeader: 0\tReplicas: 0\tIsr: 0",
    ],
)
def test_a_line_that_cannot_be_read_is_a_problem_and_the_others_stand(line):
    good = "\tTopic: t\tPartition: 0\tLeader: 0\tReplicas: 0\tIsr: 0"
    listing = parse_topics_describe(f"{line}\n\n{good}\n", "d.txt")
    assert [leadership.partition for leadership in listing.leaderships] == [0]
    (problem,) = listing.problems
    assert "line 1" in str(problem) and "d.txt" in str(problem)


def test_a_partition_listed_twice_otherwise_is_a_problem_and_the_later_line_counts():
    lines = [f"\tTopic: t\tPartition: 0\tLeader: {leader}\tReplicas: 0,1\tIsr: 0,1" for leader in (0, 0, 1)]
    listing = parse_topics_describe("\n".join(lines), "d")
    assert [one.leader_id for one in listing.leaderships] == [1] and len(listing.problems) == 1


def test_leadership_of_a_user():
    entries = [
        {"topic": "t", "partition": 0, "leader": 2, "leader_epoch": 5, "isr": [2, 0, 2]},
        {"topic": "t", "partition": 1, "leader": -1},
        {"topic": "t", "partition": 2, "leader": None, "isr": None},
    ]
    found = parse_leadership(json.dumps(entries), "leadership.json")
    assert [(one.leader_id, one.leader_epoch, one.isr, one.source) for one in found] == [
        (2, 5, (0, 2), "user"),
        (None, None, None, "user"),
        (None, None, None, "user"),
    ]


def test_of_a_list_of_very_many_partitions_one_entry_is_held_as_json():
    few = {"leader": 0, "leader_epoch": 1, "isr": [0, 1]}
    text = json.dumps([{"topic": "orders", "partition": number, **few} for number in range(5_000)])
    tracemalloc.start()
    found = parse_leadership(text, "leadership.json")
    held, peak = (size / len(found) for size in tracemalloc.get_traced_memory())
    tracemalloc.stop()
    assert held < 230 and peak - held < 150
    assert len({id(one.configs) for one in found} | {id(one.topic) for one in found}) == 2


def test_a_list_may_be_larger_than_a_checkpoint(tmp_path):
    """That of a million partitions has some 90 bytes for each, and a listing twice as many."""
    entry = {"topic": "t", "partition": 0, "leader": 2}
    (tmp_path / "leadership.json").write_bytes(json.dumps([entry]).encode() + b"\n" * GREATEST_SMALL_FILE)
    root = RootFiles(Snapshot.open(tmp_path), ("leadership.json",))
    found = root.read("leadership.json", "leadership", parse_leadership)
    assert not root.quarantine and found is not None and found[0].leader_id == 2


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "JSON"),
        ("{}", "a list"),
        ("[3]", "entry 1 an object"),
        ('[{"topic": "t", "partition": 0, "leader": 1}, {"topic": "t", "partition": 1}]', "entry 2 the key 'leader'"),
        ('[{"topic": "", "partition": 0, "leader": 1}]', "entry 1 a topic name"),
        ('[{"topic": "t", "partition": "0", "leader": 1}]', "entry 1 a whole number from 0 for 'partition'"),
        ('[{"topic": "t", "partition": 0, "leader": true}]', "entry 1 a whole number"),
        ('[{"topic": "t", "partition": 0, "leader": -2}]', "entry 1 a whole number from -1"),
        ('[{"topic": "t", "partition": 0, "leader": 1, "isr": 1}]', "entry 1 a list of broker ids"),
        ('[{"topic": "t", "partition": 0, "leader": 1, "isr": [-1]}]', "entry 1 a whole number from 0 for 'isr'"),
        ('[{"topic": "t", "partition": 0, "leader": 1, "epoch": 1}]', "entry 1 no other keys"),
        ('[{"topic":"t","partition":0,"leader":1},{"topic":"t","partition":0,"leader":1}]', "entry 2 a new partition"),
    ],
)
def test_an_error_in_leadership_json_names_the_entry(text, words):
    with pytest.raises(FormatError, match=words):
        parse_leadership(text, "leadership.json")


def test_a_manifest_has_times_and_kinds_of_copies():
    text = json.dumps(
        {
            "schema_version": 1,
            "quiesced": False,
            "kafka_version": "3.9.1",
            "brokers": [
                {"broker_id": 1, "log_dir": "broker-1/", "started": "2024-01-01T00:00:00Z", "kind": "live"},
                {"broker_id": 2, "log_dir": "b", "finished": "2024-01-01T01:00:00+01:00", "later": 1},
            ],
        }
    )
    start = 1_704_067_200_000
    brokers = (CopiedLogDir(1, "broker-1", start, None, "live"), CopiedLogDir(2, "b", None, start, None))
    assert parse_manifest(text, "manifest.json") == Manifest(False, "3.9.1", brokers)
    assert parse_manifest('{"schema_version": 1, "quiesced": null}', "m") == Manifest(None, None, ())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[]", "an object"),
        ("{}", "schema_version 1"),
        ('{"schema_version": true}', "schema_version 1"),
        ('{"schema_version": 1, "quiesced": "no"}', "quiesced"),
        ('{"schema_version": 1, "brokers": {}}', "a list at brokers"),
        ('{"schema_version": 1, "brokers": [{"log_dir": "x"}]}', "brokers.0..broker_id"),
        ('{"schema_version": 1, "brokers": [{"broker_id": 1, "kind": "dead"}]}', "brokers.0..kind"),
        ('{"schema_version": 1, "brokers": [{"broker_id": 1, "started": "noon"}]}', "brokers.0..started"),
        ('{"schema_version": 1, "brokers": [{"broker_id": 1, "started": [1]}]}', "brokers.0..started"),
    ],
)
def test_an_error_in_a_manifest_names_the_place(text, words):
    with pytest.raises(FormatError, match=words):
        parse_manifest(text, "manifest.json")
