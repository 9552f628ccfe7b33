"""Ten rounds on one real tiered cluster that is sound and under load, with something usual in each: nothing is told of remote storage."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
from kafka.errors import KafkaError
from tests.brokers.clients import received, run
from tests.brokers.tiered_cluster import TieredCluster

from replica_audit.auditing.catalogue import at_or_above

pytestmark = [pytest.mark.brokers, pytest.mark.slow, pytest.mark.timeout(900)]

ROUNDS = 10
#: Retention that never ends, by size and by age in remote storage, and a topic whose beginning is deleted by hand.
TOPICS = {
    "kept": ((0, 1, 2), {"retention_ms": "-1"}),
    "sized": ((1, 2, 0), {"retention_bytes": "20000"}),
    "aged": ((2, 0, 1), {"retention_ms": "20000"}),
    "purged": ((0, 2, 1), {"retention_ms": "-1"}),
}


class Load:
    """Producers of all topics, until the end of a `with`."""

    def __init__(self, cluster: TieredCluster) -> None:
        self._cluster, self._ended = cluster, Event()
        self._thread = Thread(target=self._run)
        self.acknowledged: list[str] = []
        """Values of `kept` of which all brokers in sync are sure."""
        self.refused = 0
        """Rounds of a producer that met an election."""

    def _run(self) -> None:
        number = 0
        while not self._ended.is_set():
            for topic in TOPICS:
                try:
                    values = self._cluster.produce(topic, f"load-{number}", 20)
                except KafkaError:
                    self.refused += 1
                else:
                    self.acknowledged += values if topic == "kept" else []
            number += 1

    def __enter__(self) -> Load:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TieredCluster]:
    with TieredCluster(tmp_path_factory.mktemp("sound")) as cluster:
        cluster.start_quorum()
        cluster.start(0, 1, 2)
        for topic, (replicas, kept) in TOPICS.items():
            cluster.create(topic, replicas, local_retention_bytes="1500", file_delete_delay_ms="500", **kept)
        yield cluster


def _restart(cluster: TieredCluster, broker: int) -> None:
    """A clean stop, which moves what it leads to another in sync, and a start."""
    cluster.stop(broker)
    time.sleep(1)
    cluster.start(broker)


def _elect_preferred(cluster: TieredCluster) -> None:
    cluster.tool(
        "kafka-leader-election",
        "--bootstrap-server",
        cluster.bootstrap,
        "--election-type",
        "preferred",
        "--all-topic-partitions",
    )


def _purge(cluster: TieredCluster) -> None:
    starts = [cluster.local_start(one, "purged") for one in cluster.up]
    cluster.delete_records("purged", max(starts) + 3)


def _happenings(cluster: TieredCluster) -> list[Callable[[], None]]:
    """Events while the copies of each round are made, besides load, rolls, uploads and retention on both sides."""
    return [
        lambda: None,
        lambda: _restart(cluster, 2),
        lambda: _purge(cluster),
        lambda: _restart(cluster, 0),
        lambda: _elect_preferred(cluster),
    ]


def _audited(copies: Path, *options: str) -> dict[str, Any]:
    answer = json.loads(run("show", str(copies), *options, "--format", "json", status=None))
    assert {row["topic"] for row in answer["partitions"]} >= set(TOPICS)
    return answer


def test_of_sound_tiers_under_load_nothing_above_low_is_told(cluster: TieredCluster) -> None:
    """The copies of the brokers are of seconds apart, and the store is looked into after them."""
    seen: set[str] = set()
    with Load(cluster) as load:
        cluster.await_that("segments of every topic", lambda: all(len(cluster.objects(topic)) > 2 for topic in TOPICS))
        for number in range(ROUNDS):
            happening = Thread(target=_happenings(cluster)[number % 5])
            happening.start()
            copies = cluster.copy_live(f"round-{number}")
            answers = [_audited(copies), _audited(copies, "--remote", str(cluster.store), "--verify-remote")]
            happening.join()
            for answer in answers:
                told = [(row["severity"], row["code"], row["topic"], row["message"]) for row in answer["findings"]]
                of_tiers = [one for one in told if one[1].startswith("TIER-") and at_or_above(one[0], "medium")]
                assert not of_tiers and not [one for one in told if one[0] == "critical"], (number, told)
                assert "COMMITTED_LOSS" not in {row["verdict"] for row in answer["partitions"]}, (number, told)
                seen |= {row["state"] for row in answer["remote_segments"]}
    assert seen >= {"copy_finished", "delete_finished"}, seen
    values = {(one.value or b"").decode() for one in received(cluster.bootstrap, "kept", 0)}
    assert len(load.acknowledged) > 200 and values.issuperset(load.acknowledged), "the cluster was sound"
