"""Refusals before anything is produced, and the text of the plan."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.encoder import Record, encode_batch
from tests.support.fake_cluster import FakeCluster, FakeSession
from tests.support.lost_records import CLUSTER_ID, write_lost_records

from replica_audit.errors import EngineError, UsageError
from replica_audit.model import TopicPartition
from replica_audit.restore.checking import check_partition
from replica_audit.restore.cluster import ConsumedRecord, Topic
from replica_audit.restore.restore import RestoreOptions, plan_restore, restore
from replica_audit.restore.salvaged_records import SalvagedRecords, source_of, with_source

ORIGINAL = RestoreOptions(to_original=True)
COMPACTED = {"cleanup.policy": "compact"}
TEN_YEARS_MS = 10 * 365 * 86_400_000


def _refused(records: SalvagedRecords, cluster: FakeCluster, options: RestoreOptions, text: str) -> None:
    with pytest.raises(UsageError, match=text):
        plan_restore(records, cluster, options)
    assert cluster.steps == 0


def test_the_original_topics_of_another_cluster(records: SalvagedRecords) -> None:
    _refused(records, FakeCluster(id="other"), ORIGINAL, "this is cluster other")


def test_another_cluster_is_told_otherwise(records: SalvagedRecords) -> None:
    assert "this is cluster other" in plan_restore(records, FakeCluster(id="other"), RestoreOptions()).notes[0]


def test_an_original_topic_that_is_gone(records: SalvagedRecords) -> None:
    _refused(records, FakeCluster(id=CLUSTER_ID), ORIGINAL, "topic orders is not there")


def test_too_few_partitions(records: SalvagedRecords) -> None:
    cluster = FakeCluster(topics={"orders.salvaged": Topic(1, 1)})
    _refused(records, cluster, RestoreOptions(), "has 1 partition, and records are of partition 1")


def test_a_target_with_too_few_replicas_in_sync(records: SalvagedRecords) -> None:
    """A client tries again without a word until its records are too old."""
    topic = Topic(2, 3, in_sync={0: 2, 1: 1})
    cluster = FakeCluster(topics={"orders.salvaged": topic}, settings={"orders.salvaged": {"min.insync.replicas": "2"}})
    _refused(
        records, cluster, RestoreOptions(), "orders.salvaged-1 has 1 replica in sync, and takes no .* before it has 2"
    )


@pytest.mark.parametrize(
    ("replicas", "wanted", "set_to"),
    [(1, None, None), (1, "1", "1"), (1, "2", "1"), (3, "2", "2"), (2, "3", "2")],
    ids=["unknown", "as the original", "capped to one", "less than the original's", "capped"],
)
def test_a_new_topic_takes_records_as_its_original_does(
    records: SalvagedRecords, replicas: int, wanted: str | None, set_to: str | None
) -> None:
    """The brokers' own min.insync.replicas may be more than a topic with few replicas can have: before 3.7 nothing could be written."""
    settings = {} if wanted is None else {"orders": {"min.insync.replicas": wanted}}
    (new,) = plan_restore(
        records, FakeCluster(topics={"orders": Topic(2, replicas)}, settings=settings), RestoreOptions()
    ).new_topics
    assert (new.replication_factor, new.configs.get("min.insync.replicas")) == (replicas, set_to)


_ALL = {"min.insync.replicas": "2"}


@pytest.mark.parametrize("protocol", ["", "3.9-IV0", "3.7-IV4", "2.8.2.tiered"])
def test_a_minimum_above_the_replicas_is_capped_since_3_7(protocol: str, records: SalvagedRecords) -> None:
    """X: 4.3.1 and 3.9.1 write to one replica with min.insync.replicas=2."""
    topic = Topic(2, 3, in_sync={0: 1, 1: 2}, replicas={0: 1, 1: 3})
    cluster = FakeCluster(topics={"orders.salvaged": topic}, settings={"orders.salvaged": _ALL}, protocol=protocol)
    assert not [one for one in plan_restore(records, cluster, RestoreOptions()).notes if "in sync" in one]
    cluster.topics["orders.salvaged"] = replace(topic, replicas={0: 3, 1: 3})
    _refused(records, cluster, RestoreOptions(), "orders.salvaged-0 has 1 replica in sync, .* bring back the brokers")


def test_a_minimum_above_the_replicas_takes_no_records_before_3_7(records: SalvagedRecords) -> None:
    """X: 2.8.2 answers NotEnoughReplicas, and no broker that comes back changes it."""
    topic = Topic(2, 1, in_sync={0: 1, 1: 1}, replicas={0: 1, 1: 1})
    cluster = FakeCluster(topics={"orders.salvaged": topic}, settings={"orders.salvaged": _ALL}, protocol="3.6-IV2")
    _refused(
        records, cluster, RestoreOptions(), "orders.salvaged-0 has 1 replica, .*version 3.6, .* set that to 1 first$"
    )


def test_a_minimum_above_the_replicas_is_no_obstacle_where_the_protocol_is_not_told(
    records: SalvagedRecords, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = Topic(2, 1, in_sync={0: 1, 1: 1}, replicas={0: 1, 1: 1})
    cluster = FakeCluster(topics={"orders.salvaged": topic}, settings={"orders.salvaged": _ALL})

    def fail(_: object) -> str:
        raise EngineError("not authorized")

    monkeypatch.setattr(FakeCluster, "protocol_version", fail)
    assert not plan_restore(records, cluster, RestoreOptions()).new_topics


def test_a_target_without_a_leader(records: SalvagedRecords) -> None:
    cluster = FakeCluster(topics={"orders.salvaged": Topic(2, 3, frozenset({1}))})
    _refused(records, cluster, RestoreOptions(), "nobody leads orders.salvaged-1")


def test_coordinators_with_too_few_replicas_in_sync_are_told(records: SalvagedRecords) -> None:
    """Which of its partitions a transaction needs is the brokers' affair."""
    states = {"__transaction_state": {"min.insync.replicas": "2"}}
    for in_sync, also in (({0: 3, 1: 1}, ""), ({0: 3, 1: 1, 2: 1, 3: 0}, "; 2 more partitions of it take none either")):
        topic = Topic(len(in_sync), 3, in_sync=in_sync)
        cluster = FakeCluster(topics={"__transaction_state": topic}, settings=states)
        (told,) = [one for one in plan_restore(records, cluster, RestoreOptions()).notes if "in sync" in one]
        assert told.startswith("Restoring may wait: __transaction_state-1 has 1 replica in sync")
        assert told.endswith(f"bring back the brokers of the others first{also}.")


def test_replicas_that_are_lost_meanwhile_are_told_with_the_clients_error(
    records: SalvagedRecords, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = Topic(2, 3, in_sync={0: 2, 1: 2})
    cluster = FakeCluster(topics={"orders.salvaged": topic}, settings={"orders.salvaged": {"min.insync.replicas": "2"}})
    plan = plan_restore(records, cluster, RestoreOptions())

    def fail(*_: object) -> None:
        cluster.topics["orders.salvaged"] = replace(topic, in_sync={0: 1, 1: 2})
        raise EngineError("orders.salvaged-0: timed out")

    monkeypatch.setattr(FakeSession, "produce", fail)
    with pytest.raises(EngineError, match=r"timed out; orders\.salvaged-0 has 1 replica in sync"):
        restore(records, plan, cluster, RestoreOptions())


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        (COMPACTED, "is compacted"),
        ({"message.timestamp.type": "LogAppendTime"}, "LogAppendTime"),
        ({"max.message.bytes": "100"}, "takes messages of 100 bytes"),
        ({"retention.ms": "604800000"}, "deletes records that are older than 604800000 ms.*, and there is one of"),
        ({"message.timestamp.before.max.ms": "1000"}, "more than 1000 ms older .*before.max.ms"),
        ({"message.timestamp.before.max.ms": str(2**63 - 1), "message.timestamp.difference.max.ms": "9"}, "9 ms older"),
        ({"message.timestamp.after.max.ms": str(-TEN_YEARS_MS)}, "later than its broker's clock .*after.max.ms"),
    ],
)
def test_a_target_that_would_not_keep_them(settings: dict[str, str], text: str, records: SalvagedRecords) -> None:
    cluster = FakeCluster(topics={"orders.salvaged": Topic(2, 1)}, settings={"orders.salvaged": settings})
    _refused(records, cluster, RestoreOptions(), text)


@pytest.mark.parametrize("topic", ["orders.salvaged", "__consumer_offsets"])
@pytest.mark.parametrize("version", ["0.10.2-IV0", "0.9.0.0"])
def test_a_message_format_without_transactions(topic: str, version: str, records: SalvagedRecords) -> None:
    """Topics were created, and then nothing could be produced; brokers of 3.0 and later show the setting without heeding it."""
    cluster = FakeCluster(topics={topic: Topic(2, 1)}, settings={topic: {"message.format.version": version}})
    _refused(records, cluster, RestoreOptions(), f"topic {topic} has the message format of {version} ")
    cluster.settings[topic]["message.format.version"] = "0.11.0-IV0"
    plan_restore(records, cluster, RestoreOptions())
    cluster.settings[topic]["message.format.version"] = version
    cluster.protocol = "3.0-IV1"
    plan_restore(records, cluster, RestoreOptions())


def test_configs_of_the_groups_topic_that_may_not_be_read_are_told(
    records: SalvagedRecords, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = FakeCluster(topics={"__consumer_offsets": Topic(1, 1)})

    def deny(name: str) -> dict[str, str]:
        raise EngineError(f"the configuration of topic {name}: denied")

    monkeypatch.setattr(cluster, "configs", deny)
    assert "__consumer_offsets: denied" in plan_restore(records, cluster, RestoreOptions()).notes[-1]


@pytest.mark.parametrize(
    ("options", "retention", "goes"),
    [(ORIGINAL, 604800000, True), (ORIGINAL, TEN_YEARS_MS, False), (RestoreOptions(), TEN_YEARS_MS, False)],
)
def test_retention_of_the_target_is_told(
    options: RestoreOptions, retention: int, records: SalvagedRecords, *, goes: bool
) -> None:
    """And that the original topic deletes what is too old already."""
    name = "orders" if options.to_original else "orders.salvaged"
    settings = {name: {"retention.ms": str(retention), "message.timestamp.before.max.ms": str(2**63 - 1)}}
    cluster = FakeCluster(id=CLUSTER_ID, topics={name: Topic(2, 1)}, settings=settings)
    note = plan_restore(records, cluster, options).notes[-1]
    assert f"{retention} ms" in note and ("which goes again" in note) == goes


def _compacted(path: Path, lost: list[Record], leader: list[Record]) -> tuple[SalvagedRecords, FakeCluster]:
    """Lost records of a compacted topic, and its cluster, which holds what the leader had."""
    target = write_lost_records(path, {0: 0}, records=lost, leader_records=leader, configs=COMPACTED)
    cluster = FakeCluster(id=CLUSTER_ID, topics={"orders": Topic(1, 1)}, settings={"orders": COMPACTED})
    cluster.logs["orders", 0] = [
        ConsumedRecord(10 + at, 2, 1, record.key, record.value, record.headers) for at, record in enumerate(leader)
    ]
    return SalvagedRecords(target), cluster


def test_a_compacted_topic_with_a_later_value_of_a_key(tmp_path: Path) -> None:
    found = _compacted(tmp_path, [Record(b"a", b"old"), Record(b"b", b"old")], [Record(b"a", b"new")])
    _refused(*found, ORIGINAL, "later value of the key of 1 of 2 records")


def test_old_values_of_a_compacted_topic_are_left_out_where_that_is_asked_for(tmp_path: Path) -> None:
    """One of them kept all other records, of all topics, from being restored."""
    records, cluster = _compacted(
        tmp_path, [Record(b"a", b"old"), Record(b"b", b"own")], [Record(b"a", b"new"), Record(b"z", b"new")]
    )
    skips = RestoreOptions(to_original=True, skip_superseded=True)
    place = TopicPartition("orders", 0)
    for before in (0, 2):
        (outcome,) = restore(records, plan_restore(records, cluster, skips), cluster, skips)
        assert (outcome.before, outcome.superseded, outcome.left) == (
            before,
            1 if not before else 0,
            1 if not before else 0,
        )
    stored = [(one.key, one.value) for one in cluster.read("orders", 0)]
    assert stored[-1] == (b"b", b"own") and (b"a", b"old") not in stored
    check = check_partition(records, place, place, cluster, skips)
    assert check.is_whole and (check.found, check.superseded) == (1, 1)


def test_a_compacted_topic_whose_later_value_is_a_tombstone(tmp_path: Path) -> None:
    found = _compacted(tmp_path, [Record(b"a", b"old")], [Record(b"a", None)])
    _refused(*found, ORIGINAL, "later value of the key of 1 of 1 record ")


def test_a_compacted_topic_that_got_a_later_value_since(tmp_path: Path) -> None:
    records, cluster = _compacted(tmp_path, [Record(b"a", b"old")], [Record(b"z", b"new")])
    plan_restore(records, cluster, ORIGINAL)
    cluster.logs["orders", 0].append(ConsumedRecord(50, 7, 2, b"a", b"newer", ()))
    _refused(records, cluster, ORIGINAL, "later value")


def test_a_compacted_topic_without_later_values_is_taken_and_taken_up(tmp_path: Path) -> None:
    records, cluster = _compacted(tmp_path, [Record(b"a", b"1"), Record(b"a", b"2")], [Record(b"z", b"new")])
    cluster.logs["orders", 0].insert(0, ConsumedRecord(3, 0, 1, b"a", b"older", ()))
    for _ in range(2):  # what is ours is no later value
        restore(records, plan_restore(records, cluster, ORIGINAL), cluster, ORIGINAL, 1)
    assert [one.value for one in cluster.logs["orders", 0]] == [b"older", b"new", b"1", b"2"]


def test_a_compacted_topic_without_headers(tmp_path: Path) -> None:
    found = _compacted(tmp_path, [Record(b"a", b"1")], [Record(b"z", b"new")])
    _refused(*found, RestoreOptions(to_original=True, headers=False), "only headers tell")


def test_a_record_without_a_key_for_a_compacted_topic(tmp_path: Path) -> None:
    found = _compacted(tmp_path, [Record(None, b"1")], [Record(b"z", b"new")])
    _refused(*found, ORIGINAL, "no records without a key")


def test_a_timestamp_that_cannot_be_produced(tmp_path: Path) -> None:
    records = SalvagedRecords(write_lost_records(tmp_path, {0: 0}, records=[Record(b"k", b"v", timestamp_ms=0)]))
    _refused(records, FakeCluster(), RestoreOptions(), "at offset 10 has the timestamp 0")


def test_a_large_record_makes_a_topic_that_takes_it(tmp_path: Path) -> None:
    records = SalvagedRecords(write_lost_records(tmp_path, {0: 0}, records=[Record(b"k", b"v" * 2_000_000)]))
    (topic,) = plan_restore(records, FakeCluster(), RestoreOptions()).new_topics
    assert 2_000_000 < int(topic.configs["max.message.bytes"]) < 2_100_000


@pytest.mark.parametrize("headers", [(), (("h" * 30, b"v" * 40),) * 20])
def test_a_record_that_fits_is_not_refused_for_the_bound_of_its_size(
    headers: tuple[tuple[str, bytes], ...], tmp_path: Path
) -> None:
    record = Record(b"k", b"v" * 3000, headers=headers)
    records = SalvagedRecords(write_lost_records(tmp_path, {0: 0}, records=[record]))
    (salvaged,) = records.of_partition(TopicPartition("orders", 0))
    added = with_source(headers, source_of(salvaged, CLUSTER_ID))
    size = len(encode_batch(0, [Record(b"k", b"v" * 3000, headers=added)], 0))
    refused = FakeCluster(
        topics={"orders.salvaged": Topic(2, 1)}, settings={"orders.salvaged": {"max.message.bytes": str(size - 1)}}
    )
    _refused(records, refused, RestoreOptions(), "there is one of about")
    limit = size + 20 + 10 * len(added)
    taken = replace(refused, settings={"orders.salvaged": {"max.message.bytes": str(limit)}})
    assert not plan_restore(records, taken, RestoreOptions()).new_topics


@pytest.mark.parametrize(
    ("settings", "most"),
    [
        ({}, 1_000_000),
        ({"max.message.bytes": "1048588", "segment.bytes": "1073741824"}, 1_000_000),
        ({"max.message.bytes": "100000"}, 100_000),
        ({"segment.bytes": "2500"}, 2_500),
    ],
)
def test_batches_are_no_greater_than_the_target_takes(settings: dict[str, str], most: int, tmp_path: Path) -> None:
    records = SalvagedRecords(write_lost_records(tmp_path, {0: 2}))
    cluster = FakeCluster(topics={"orders.salvaged": Topic(1, 1)}, settings={"orders.salvaged": settings})
    assert plan_restore(records, cluster, RestoreOptions()).batch_bytes == most


def test_a_salvage_without_payloads(tmp_path: Path) -> None:
    from replica_audit.cli.main import main

    write_lost_records(tmp_path, {0: 2})
    assert main(["salvage", str(tmp_path / "snapshot"), "--to", str(tmp_path / "counted")]) == 0
    with pytest.raises(UsageError, match="run salvage again with --payloads"):
        SalvagedRecords(tmp_path / "counted")


def test_a_salvage_in_another_form(tmp_path: Path) -> None:
    target = write_lost_records(tmp_path, {0: 2}, "--form", "parquet")
    with pytest.raises(UsageError, match="--form jsonl"):
        SalvagedRecords(target)


@pytest.mark.parametrize("encoding", ["base64", "text"])
def test_records_come_back_as_they_were(encoding: str, tmp_path: Path) -> None:
    odd = [Record(b"\xff", None), Record(None, b""), Record(b"", "ü".encode(), headers=(("ü", b"\x00"), ("n", None)))]
    target = write_lost_records(tmp_path, {0: 0}, "--encoding", encoding, records=odd)
    records = SalvagedRecords(target)
    (row,) = records.partitions()

    found = list(records.of_partition(TopicPartition(row.topic, row.partition)))
    assert [(one.key, one.value, one.headers) for one in found] == [(one.key, one.value, one.headers) for one in odd]


def test_a_file_that_was_changed(salvage_directory: Path, tmp_path: Path) -> None:
    shutil.copytree(salvage_directory, tmp_path / "copy")
    path = tmp_path / "copy" / "orders-0" / "records.jsonl"
    path.write_bytes(path.read_bytes()[:-1] + b" ")
    with pytest.raises(UsageError, match="not the file that salvage wrote"):
        SalvagedRecords(tmp_path / "copy")


def test_a_directory_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="give a directory that replica-audit salvage wrote"):
        SalvagedRecords(tmp_path)


#: Heads of a manifest that somebody else wrote, by what is in place of what salvage writes; None: the key is gone.
HEADS = [
    *({name: value} for name in ("payloads", "files", "partitions", "totals", "snapshot") for value in (None, 5, "x")),
    *({"partitions": [row]} for row in (1, {}, {"topic": [], "partition": 0}, {"topic": "t", "partition": "0"})),
    {"partitions": [{"topic": "t", "partition": 0, "records": -1}]},
    {"files": [{"path": 1, "sha256": "x"}]},
    {"totals": {"records": True}},
]


@pytest.mark.parametrize("changes", HEADS)
def test_a_manifest_of_another_program(changes: dict, salvage_directory: Path, tmp_path: Path) -> None:
    text = (salvage_directory / "manifest.json").read_text()
    head = {**json.loads(text), **changes, "records": []}
    shown = json.dumps({key: value for key, value in head.items() if value is not None}, indent=1)
    (tmp_path / "manifest.json").write_text(shown.replace(' "records": []\n}', '"records": [\n]\n}'))
    with pytest.raises(UsageError, match="expected a manifest of version 1"):
        SalvagedRecords(tmp_path)


@pytest.mark.parametrize("line", ["[" * 60_000, "{", "[]", "{}", '{"topic": "orders", "partition": 0}'])
def test_a_manifest_with_another_line(line: str, salvage_directory: Path, tmp_path: Path) -> None:
    shutil.copytree(salvage_directory, tmp_path / "copy")
    path = tmp_path / "copy" / "manifest.json"
    head, records = path.read_text().split('"records": [\n')
    first, _, others = records.partition("\n")
    path.write_text(f'{head}"records": [\n{first}\n{line},\n{others}')
    copied = SalvagedRecords(tmp_path / "copy")
    with pytest.raises(UsageError, match="expected a manifest of version 1"):
        list(copied.of_partition(TopicPartition("orders", 0)))
