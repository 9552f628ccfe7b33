"""Evidence of real brokers, collected slowly while producers write, retention deletes and cleaners compact: a sound cluster shows nothing wrong."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from tests.brokers.captured_cluster import CapturedCluster
from tests.support.fixtures import FIXTURES

from replica_audit.auditing.catalogue import at_or_above
from replica_audit.cli.capture_plan_command import collector_text
from replica_audit.config import Settings
from replica_audit.report.wanted_ranges import render_wanted
from replica_audit.results import Results
from replica_audit.runner.in_process import audit_all
from replica_audit.snapshot.storage import Snapshot

_RETENTION = """
log.retention.check.interval.ms=1000
file.delete.delay.ms=1000
log.index.size.max.bytes=65536
log.cleaner.enable=true
log.cleaner.backoff.ms=200
log.cleaner.dedupe.buffer.size=16777216
"""
_TOPICS = "org.apache.kafka.tools.TopicCommand"
_ROUNDS = 3
_BROKERS = (0, 1, 2)


class _Cluster(CapturedCluster):
    def _configure(self, node: int, directory: Path, voters: str) -> None:
        super()._configure(node, directory, voters)
        path = self._out / f"{node}.properties"
        kept = [line for line in path.read_text().splitlines() if not re.search("retention.check|cleaner.enable", line)]
        path.write_text("\n".join(kept) + _RETENTION)


def _produce(bootstrap: str, ended: threading.Event) -> None:
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=bootstrap.split(","), acks="all", linger_ms=5, batch_size=32768)
    number = 0
    while not ended.is_set():
        producer.send("live", value=os.urandom(1500), partition=number % 3)
        # Every key is written again and again.
        producer.send("compacted", key=b"%d" % (number * 7919 % 500), value=os.urandom(1500), partition=number % 3)
        number += 1
        if number % 20 == 0:
            time.sleep(0.02)
    producer.flush()
    producer.close()


def _await_work(cluster: CapturedCluster) -> None:
    """Wait until retention has deleted segments and cleaners have compacted some, on every broker."""
    until = time.monotonic() + 120
    for broker in _BROKERS:
        directory = cluster.directory(broker)
        while (directory / "live-0" / f"{0:020d}.log").exists() or "compacted" not in (
            directory / "cleaner-offset-checkpoint"
        ).read_text():
            assert time.monotonic() < until
            time.sleep(0.5)


def _collect(cluster: CapturedCluster, snapshot: Path, *options: str, suffix: str = "") -> None:
    snapshot.mkdir(exist_ok=True)
    running = []
    for broker in _BROKERS:
        log_dir = f"{cluster.directory(broker)}=broker-{broker}"
        command = [sys.executable, "-I", "-B", "-", "--log-dir", log_dir, "--kind", "live", *options]
        with (snapshot / f"evidence-{broker}{suffix}.tar").open("wb") as out:
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=out, stderr=subprocess.PIPE)
        assert process.stdin is not None
        process.stdin.write(collector_text().encode())
        process.stdin.close()
        running.append(process)
    for process in running:
        assert process.stderr is not None
        said = process.stderr.read()
        assert process.wait(300) == 0, said


@pytest.mark.slow
def test_a_sound_cluster_collected_live_shows_nothing_wrong(tmp_path: Path) -> None:
    ended = threading.Event()
    with _Cluster(FIXTURES / "healthy-running", tmp_path / "run") as cluster:
        bootstrap = cluster.start(*_BROKERS)
        replicas = ("--partitions", "3", "--replication-factor", "3")
        compact = ("cleanup.policy=compact", "min.cleanable.dirty.ratio=0.01", "delete.retention.ms=100")
        for topic, configs in (("live", ("retention.bytes=3145728",)), ("compacted", compact)):
            given = [part for one in ("segment.bytes=1048576", *configs) for part in ("--config", one)]
            cluster.tool(_TOPICS, "--bootstrap-server", bootstrap, "--create", "--topic", topic, *replicas, *given)
        producing = threading.Thread(target=_produce, args=(bootstrap, ended))
        producing.start()
        try:
            _await_work(cluster)
            for number in range(_ROUNDS):
                _collect(cluster, tmp_path / str(number), "--rate-mib", "3")
        finally:
            ended.set()
            producing.join()
    for number in range(_ROUNDS):
        results = audit_all(str(tmp_path / str(number)), Settings(quiet=True, topics=("live", "compacted")))
        loud = [row for row in results.findings if at_or_above(row.severity, "medium")]
        # Which records of a compacted topic differ is in bytes that were not collected.
        assert {(row.topic, row.code) for row in loud} <= {("compacted", "CAP-NOT-CAPTURED")}
        assert {row.topic for row in results.partitions} == {"live", "compacted"}
        gaps = [row for row in results.findings if row.topic == "compacted" and row.code == "LOG-GAP"]
        assert number < _ROUNDS - 1 or gaps  # cleaners were at work
        assert number < _ROUNDS - 1 or any(row.log_start_offset for row in results.replicas)  # retention was at work


#: Slow on purpose: a collection takes as long as some elections and moves do.
_SLOWLY = ("--rate-mib", "2")
#: So slow that an election is over before the metadata log is read, which comes last.
_ALL_THE_WHILE = ("--rate-mib", "0.3")
_MANY = 20
_TOPICS_UNDER_LOAD = ("live", "compacted", "moved", "lost")


class _Load:
    """Load while a cluster is collected: producers, retention of seconds, compaction, preferred elections, reassignments."""

    def __init__(self, cluster: _Cluster, bootstrap: str) -> None:
        self._cluster, self._bootstrap = cluster, bootstrap.split(",")
        self._ended = threading.Event()
        self._random = random.Random(1)
        self.moves = self.sent = 0
        self.failed: list[Exception] = []
        self._threads = [threading.Thread(target=self._keep, args=(one,)) for one in (self._produce, self._steer)]

    def create(self) -> None:
        """The topics."""
        from kafka.admin import KafkaAdminClient, NewTopic

        def topic(name: str, replicas: dict[int, list[int]], **configs: str) -> NewTopic:
            named = {key.replace("_", "."): value for key, value in configs.items()}
            return NewTopic(name, replica_assignments=replicas, topic_configs={"segment.bytes": "1048576", **named})

        three = {number: [(number + one) % 3 for one in range(3)] for number in range(3)}
        two = {number: [number, (number + 1) % 3] for number in range(3)}
        compact = {"cleanup_policy": "compact", "min_cleanable_dirty_ratio": "0.01", "delete_retention_ms": "100"}
        admin = KafkaAdminClient(bootstrap_servers=self._bootstrap)
        admin.create_topics(
            [
                topic("live", three, retention_ms="5000"),
                topic("compacted", three, **compact),
                topic("moved", two, retention_bytes="2097152"),
                topic("lost", {0: [0, 1]}, unclean_leader_election_enable="true", min_insync_replicas="1"),
            ]
        )
        admin.close()

    def __enter__(self) -> _Load:
        for one in self._threads:
            one.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._ended.set()
        for one in self._threads:
            one.join()

    def _keep(self, work: Any) -> None:
        try:
            work()
        except Exception as error:
            self.failed.append(error)

    def producer(self) -> Any:
        from kafka import KafkaProducer

        return KafkaProducer(bootstrap_servers=self._bootstrap, acks="all", linger_ms=5, batch_size=16384)

    def _produce(self) -> None:
        producer = self.producer()
        while not self._ended.is_set():
            partition = self.sent % 3
            producer.send("live", value=os.urandom(1200), partition=partition)
            # Every key is written again and again.
            producer.send("compacted", key=b"%d" % (self.sent * 7919 % 300), value=os.urandom(800), partition=partition)
            producer.send("moved", value=os.urandom(800), partition=partition)
            self.sent += 1
            if self.sent % 10 == 0:
                time.sleep(0.05)
        producer.close(timeout=5)

    def _steer(self) -> None:
        from kafka import TopicPartition
        from kafka.admin import KafkaAdminClient
        from kafka.errors import KafkaError

        admin = KafkaAdminClient(bootstrap_servers=self._bootstrap)
        stay, elected = ("live", "compacted"), {one: [0, 1, 2] for one in ("live", "compacted", "moved")}
        while not self._ended.wait(self._random.uniform(6, 20)):
            first = self.moves
            moves = {TopicPartition("moved", one): [(one + first) % 3, (one + first + 1) % 3] for one in range(3)}
            moves |= {
                TopicPartition(topic, one): [(one + first + at) % 3 for at in range(3)]
                for topic in stay
                for one in range(3)
            }
            try:
                admin.alter_partition_reassignments(moves)
                self._ended.wait(1)
                admin.elect_leaders(0, elected, raise_errors=False)
            except KafkaError:
                continue  # a broker that is stopped is asked again
            self.moves += 1
        admin.close()


def _rechecked(cluster: _Cluster, snapshot: Path, rounds: int) -> tuple[Results, int]:
    """The audit after so many rounds at most of what is wanted, and how many rounds had partitions that had moved."""
    moved = 0
    for number in range(rounds + 1):
        results = audit_all(str(snapshot), Settings(quiet=True, topics=_TOPICS_UNDER_LOAD))
        found = json.loads(render_wanted(results, Snapshot.open(snapshot).evidence))
        # Cleaners are faster: what is wanted of their files is gone before it can be brought.
        found["wanted"] = [one for one in found["wanted"] if one.get("again") or "compacted-" not in one["path"]]
        if not found["wanted"] or number == rounds:
            break
        moved += any(one.get("again") for one in found["wanted"])
        (snapshot / "wanted.json").write_text(json.dumps(found))
        _collect(cluster, snapshot, "--wanted", str(snapshot / "wanted.json"), suffix=f"-wanted-{number}")
        (snapshot / "wanted.json").unlink()
    return results, moved


def _lose(cluster: _Cluster, load: _Load, meanwhile: threading.Thread) -> None:
    """Records that only broker 0 had acknowledged are lost by an unclean election of broker 1, begun before `meanwhile` is."""
    from kafka.errors import KafkaError

    producer = load.producer()
    producer.send("lost", value=b"on both", partition=0).get(60)
    cluster.send(1, signal.SIGSTOP)
    until = time.monotonic() + 60
    sent = 0
    while sent < 20:
        try:
            producer.send("lost", value=b"on one only", partition=0).get(10)
            sent += 1
        except KafkaError:
            assert time.monotonic() < until
    cluster.send(0, signal.SIGSTOP)
    meanwhile.start()
    cluster.send(1, signal.SIGCONT)
    while sent < 30:
        try:
            producer.send("lost", value=b"of the next leader", partition=0).get(10)
            sent += 1
        except KafkaError:
            assert time.monotonic() < until + 60
    producer.close(timeout=5)


# Less than 8 minutes on two cores that do nothing else.
@pytest.mark.slow
@pytest.mark.timeout(2400)
def test_twenty_collections_of_a_cluster_under_load_are_quiet_and_a_loss_is_found(tmp_path: Path) -> None:
    loud: dict[int, set[tuple]] = {}
    moved = wrong = 0
    with _Cluster(FIXTURES / "healthy-running", tmp_path / "run") as cluster:
        load = _Load(cluster, cluster.start(*_BROKERS))
        load.create()
        with load:
            _await_work(cluster)
            while not load.moves:
                time.sleep(1)
            for number in range(_MANY):
                snapshot = tmp_path / str(number)
                _collect(cluster, snapshot, *_SLOWLY)
                results, again = _rechecked(cluster, snapshot, 12)
                wrong += bool(again)
                moved += again
                loud[number] = {
                    (row.topic, row.partition, row.broker_id, row.code, row.message)
                    for row in results.findings
                    if at_or_above(row.severity, "medium")
                    and (row.topic, row.code) != ("compacted", "CAP-NOT-CAPTURED")
                }
                print(
                    f"collection {number}: {again} times read again, {load.moves} moves so far, {loud[number]}",
                    flush=True,
                )
                assert {row.topic for row in results.partitions} == set(_TOPICS_UNDER_LOAD)
            assert not load.failed
            last = tmp_path / "last"
            collecting = threading.Thread(target=_collect, args=(cluster, last, *_ALL_THE_WHILE))
            _lose(cluster, load, collecting)
            collecting.join()
            assert load.moves > _MANY and load.sent > 1000
        results, _ = _rechecked(cluster, last, 3)
    print(
        f"{_MANY} collections: {wrong} had partitions to read again, {moved} times in all; {load.moves} moves, {load.sent} records each"
    )
    assert loud == {number: set() for number in range(_MANY)}
    assert wrong  # else nothing was shown of what is read again
    found = {row.code for row in results.findings if row.topic == "lost" and at_or_above(row.severity, "high")}
    (lost,) = (row for row in results.partitions if row.topic == "lost")
    assert {"DIV-EPOCH", "META-UNCLEAN-ELECTION"} <= found
    # Whether they were committed a checkpoint of the mark shows, which is written every 5 s; a fetch may have had the first ones.
    assert lost.verdict in ("WILL_LOSE_ON_TRUNCATION", "COMMITTED_LOSS") and 15 <= (lost.lost_records or 0) <= 20
