"""Salvage and restore with real brokers: each record once, in order, whatever happens in between."""

from __future__ import annotations

import hashlib
import json
import random
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from tests.brokers.captured_cluster import CapturedCluster
from tests.brokers.clients import Received, produce, received, run, run_json, start
from tests.support.encoder import Record
from tests.support.fixtures import FIXTURES
from tests.support.lost_records import lost_record, write_lost_records
from tests.support.salvaged_captures import acknowledged, copies_of, records_of, short_hash
from tests.support.some import some

CLUSTER_ID = "2RmL7UgiRAy2UDcDqvZiEg"
Diverged = tuple[CapturedCluster, str]
KILLS = 20


def _own(one: Received) -> Received:
    """Without the headers that name the source."""
    assert one.headers[-5][0] == "replica-audit.source.cluster"
    return one._replace(headers=one.headers[:-5])


def _as_received(record: Record) -> Received:
    return Received(record.key, record.value, record.timestamp_ms, record.headers)


def test_what_the_capture_lost_is_put_back_once(diverged: Diverged, tmp_path: Path) -> None:
    _, bootstrap = diverged
    target = tmp_path / "salvaged"
    run("salvage", str(FIXTURES / "diverged-unclean"), "--to", str(target), "--payloads")
    options = ("restore", str(target), "--bootstrap-servers", bootstrap)
    assert "84 records would be produced" in run(*options, "--dry-run")
    assert "give --yes" in run(*options, status=2)
    run(*options, "--check", status=2)  # the target is not there: nothing was written so far
    for _ in range(2):
        run(*options, "--yes")
    assert run(*options, "--check").count("OK: ") == 3
    capture = "diverged-unclean"
    for partition in range(3):
        name = f"ledger-{partition}"
        lost = acknowledged(capture)[name] - records_of(FIXTURES / capture / "broker-1" / name)
        assert lost <= set().union(*(records_of(path) for path in copies_of(capture, name, None)))
        found = received(bootstrap, "ledger.salvaged", partition)
        assert [int(dict(one.headers)["replica-audit.source.offset"]) for one in found] == sorted(at for at, _ in lost)
        assert [short_hash(one.value) for one in found] == [value for _, value in sorted(lost)]


def _killed(options: tuple[str, ...], seconds: float) -> int:
    """Start a restore, kill it after some time, and say how many records are there then."""
    process = start(*options)
    time.sleep(seconds)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)
    return run_json(*(one for one in options if one != "--yes"), "--dry-run")["before"]


@pytest.mark.slow
def test_killed_at_random_moments_each_record_is_there_once_in_order(diverged: Diverged, tmp_path: Path) -> None:
    _, bootstrap = diverged
    counts = {0: 1500, 1: 4500}
    target = write_lost_records(tmp_path, counts, cluster_id=CLUSTER_ID, topic="killed")
    options = ("restore", str(target), "--bootstrap-servers", bootstrap, "--yes", "--transaction-records", "10")
    begun = time.monotonic()
    run_json(*(one for one in options if one != "--yes"), "--dry-run")
    # What a run needs before its first record is about what looking takes; most are killed while they produce.
    until_first = time.monotonic() - begun
    chosen = random.Random(20)
    progress = [_killed(options, chosen.uniform(0.8, 3.5) * until_first) for _ in range(KILLS)]
    print("records that were there after each kill:", *progress)
    assert progress == sorted(progress) and len(set(progress)) > KILLS // 4 and 0 < progress[-1] < 6_000
    run(*options[:-2])
    assert run(*options, "--check").count("OK: ") == 2
    for partition, count in counts.items():
        found = [_own(one) for one in received(bootstrap, "killed.salvaged", partition)]
        assert found == [_as_received(lost_record(partition, number)) for number in range(count)]


def test_an_expired_offset_is_found_again_from_the_target(diverged: Diverged, tmp_path: Path) -> None:
    cluster, bootstrap = diverged
    target = write_lost_records(tmp_path, {0: 3000}, cluster_id=CLUSTER_ID, topic="expired")
    options = ("restore", str(target), "--bootstrap-servers", bootstrap, "--yes", "--transaction-records", "10")
    seconds = 2.0
    while not 0 < (before := _killed(options, seconds)) < 3000:
        seconds *= 1.5
    groups = ("org.apache.kafka.tools.consumer.group.ConsumerGroupCommand", "--bootstrap-server", bootstrap)
    # An open transaction of the killed run holds its group; it is ended by the transaction's own timeout at the latest.
    digest = hashlib.sha256((target / "manifest.json").read_bytes()).hexdigest()
    group = f"replica-audit-restore-{digest[:32]}"
    assert group in cluster.tool(*groups, "--list").split()
    offsets = ("--delete-offsets", "--group", group, "--topic", "expired.salvaged")
    cluster.tool(*groups, *offsets)
    look = run_json(*(one for one in options if one != "--yes"), "--dry-run")
    assert look["before"] == before
    run(*options)
    assert "OK: " in run(*options, "--check")
    assert len(received(bootstrap, "expired.salvaged", 0)) == 3000


def test_odd_records_are_kept_as_they_were(diverged: Diverged, tmp_path: Path) -> None:
    _, bootstrap = diverged
    odd = [
        Record(None, None, 1_600_000_000_000),
        Record(b"", b"", 1_600_000_000_001),
        Record(b"\xff\x00", b"x" * 1_500_000, 1),
        Record(
            b"h", b"v", 1_500_000_000_000, headers=(("b", b"1"), ("a", None), ("b", b"1"), ("b", b""), ("ü", b"\xff"))
        ),
        Record(b"none", b"no timestamp", -1),
    ]
    target = write_lost_records(tmp_path, {0: 0}, records=odd, cluster_id=CLUSTER_ID, topic="odd")
    options = ("restore", str(target), "--bootstrap-servers", bootstrap)
    run(*options, "--yes", "--no-headers")
    assert "OK: " in run(*options, "--check", "--no-headers")
    assert received(bootstrap, "odd.salvaged", 0) == [_as_received(record) for record in odd]


def test_two_runs_at_once_do_no_harm(diverged: Diverged, tmp_path: Path) -> None:
    _, bootstrap = diverged
    target = write_lost_records(tmp_path, {0: 2000}, cluster_id=CLUSTER_ID, topic="twins")
    options = ("restore", str(target), "--bootstrap-servers", bootstrap, "--yes", "--transaction-records", "10")
    run("restore", str(target), "--bootstrap-servers", bootstrap, "--dry-run")
    twins = [start(*options)]
    time.sleep(2.5)
    twins.append(start(*options))
    ended = [twin.communicate(timeout=300) for twin in twins]
    assert sorted(twin.returncode for twin in twins) == [0, 4], ended
    assert "OK: " in run(*options, "--check")
    assert [_own(one) for one in received(bootstrap, "twins.salvaged", 0)] == [
        _as_received(lost_record(0, number)) for number in range(2000)
    ]


def test_segments_are_read_by_kafkas_own_tool(diverged: Diverged, tmp_path: Path) -> None:
    cluster, _ = diverged
    target = tmp_path / "salvaged"
    run("salvage", str(FIXTURES / "diverged-multi"), "--to", str(target), "--payloads")
    rows = json.loads((target / "manifest.json").read_text())["records"]
    for path in some(sorted(target.rglob("*.log"))):
        text = cluster.tool("org.apache.kafka.tools.DumpLogSegments", "--files", str(path), "--deep-iteration")
        offsets = [int(line.split()[2]) for line in text.splitlines() if line.startswith("| offset:")]
        name, epoch = path.parts[-4], int(path.parts[-2].removeprefix("epoch-"))
        expected = [
            row["offset"]
            for row in rows
            if f"{row['topic']}-{row['partition']}" == name and row["leader_epoch"] == epoch
        ]
        assert offsets == expected and "isvalid: false" not in text


def test_the_original_topic_takes_them_too(diverged: Diverged, tmp_path: Path) -> None:
    _, bootstrap = diverged
    target = tmp_path / "salvaged"
    run("salvage", str(FIXTURES / "diverged-unclean"), "--to", str(target), "--payloads")
    before = [len(received(bootstrap, "ledger", partition)) for partition in range(3)]
    options = ("restore", str(target), "--bootstrap-servers", bootstrap, "--to-original")
    run(*options, "--yes")
    run(*options, "--yes")
    assert run(*options, "--check").count("OK: ") == 3
    after = [len(received(bootstrap, "ledger", partition)) for partition in range(3)]
    assert [new - old for old, new in zip(before, after, strict=True)] == [45, 17, 22]


def test_a_compacted_topic_is_refused(diverged: Diverged, tmp_path: Path) -> None:
    cluster, bootstrap = diverged
    topics = ("org.apache.kafka.tools.TopicCommand", "--bootstrap-server", bootstrap, "--create", "--topic", "keys")
    cluster.tool(*topics, "--partitions", "1", "--replication-factor", "1", "--config", "cleanup.policy=compact")
    # As far as the lost records' offsets, so that what comes after is later than they are.
    for number in range(12):
        produce(bootstrap, "keys", f"z{number}".encode(), b"z")
    produce(bootstrap, "keys", b"a", b"new")
    to_original = ("--bootstrap-servers", bootstrap, "--to-original", "--yes")
    records: dict[str, list[Record]] = {
        "old": [Record(b"a", b"old"), Record(b"b", b"b")],
        "other": [Record(b"c", b"c")],
    }
    targets: dict[str, Any] = {
        name: write_lost_records(tmp_path / name, {0: 0}, records=own, cluster_id=CLUSTER_ID, topic="keys")
        for name, own in records.items()
    }
    refused = run("restore", str(targets["old"]), *to_original, status=2)
    assert "compacted" in refused and "1 of 2 records" in refused
    run("restore", str(targets["other"]), *to_original)
    assert [one.value for one in received(bootstrap, "keys", 0)][12:] == [b"new", b"c"]


def test_a_cluster_that_does_not_answer_is_told_in_a_sentence(tmp_path: Path) -> None:
    target = write_lost_records(tmp_path, {0: 1})
    properties = tmp_path / "client.properties"
    properties.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.username=me\nsasl.password=hunter2-secret\n"
    )
    options = ("restore", str(target), "--bootstrap-servers", "127.0.0.1:9", "--command-config", str(properties))
    told = run(*options, "--yes", status=4)
    assert len(told.strip().splitlines()) == 1 and "hunter2" not in told


@pytest.mark.parametrize(
    "line", ["nonsense.setting=hunter2-secret", "ssl.key.pem=hunter2-secret\nsecurity.protocol=SSL"]
)
def test_a_setting_that_is_wrong_is_told_without_its_value(line: str, tmp_path: Path) -> None:
    target = write_lost_records(tmp_path, {0: 1})
    properties = tmp_path / "client.properties"
    properties.write_text(line + "\n")
    told = run(
        "restore", str(target), "--bootstrap-servers", "127.0.0.1:9", "--command-config", str(properties), status=2
    )
    assert "hunter2" not in told and "Traceback" not in told
