"""Tiered topics on real brokers with LocalTieredStorage: what was lost to the store is found there, told, and put back."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread

import pytest
from tests.brokers.carrying_out import Operator
from tests.brokers.clients import ROOT, received, run
from tests.brokers.tiered_cluster import CONTROLLER, VERSION, TieredCluster

pytestmark = [pytest.mark.brokers, pytest.mark.slow, pytest.mark.timeout(1200)]

#: Each with its replicas; the first is lost to an unclean election, of broker 2's nothing is.
_TOPICS = {
    "lossy": (0, 1),
    "sound": (2, 0, 1),
    "retained": (2, 1, 0),
    "purged": (2, 0, 1),
    "removed": (2, 1, 0),
    "leaked": (2, 0, 1),
    "again": (2, 1, 0),
}
_LEAKED_ID = "LeakedLeakedLeakedLeak"


@dataclass
class History:
    """A cluster on which all of it has happened, and what was written."""

    cluster: TieredCluster
    values: dict[str, list[str]] = field(default_factory=dict)

    def write(self, topic: str, tag: str, number: int) -> None:
        self.values.setdefault(topic, []).extend(self.cluster.produce(topic, tag, number))

    def write_all(self, tag: str, number: int) -> None:
        for topic in _TOPICS:
            self.write(topic, tag, number)

    def await_copied(self, topic: str, count: int) -> None:
        self.cluster.await_that(
            f"{count} segments of {topic} in the store", lambda: len(self.cluster.objects(topic)) >= count
        )


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Iterator[History]:
    with TieredCluster(tmp_path_factory.mktemp("tiered")) as cluster:
        yield make_history(cluster)


def make_history(cluster: TieredCluster) -> History:
    """Broker 0 leads `lossy` alone and copies, dies, and broker 1 is elected uncleanly; on the others what is usual happens, and two
    things that are not.
    """
    found = History(cluster)
    cluster.start_quorum()
    cluster.start(2, 0, 1)
    for topic, replicas in _TOPICS.items():
        kept = {"retention_bytes": "5000"} if topic == "retained" else {"retention_ms": "-1"}
        cluster.create(topic, replicas, local_retention_bytes="1500", file_delete_delay_ms="500", **kept)
    found.write_all("first", 40)
    cluster.await_in_sync("lossy", 0, 1)
    cluster.kill(1)
    cluster.await_in_sync("lossy", 0)
    copied = len(cluster.objects("lossy"))
    found.write("lossy", "alone", 45)
    found.await_copied("lossy", copied + 2)
    time.sleep(2)
    cluster.kill(0)
    cluster.start(1)
    cluster.await_leader("lossy", None)
    cluster.ask("kafka-leader-election", "--election-type", "unclean", "--topic", "lossy", "--partition", "0")
    cluster.await_leader("lossy", 1)
    copied = len(cluster.objects("lossy"))
    found.write("lossy", "after", 30)
    found.await_copied("lossy", copied + 1)
    cluster.start(0)
    for topic, replicas in _TOPICS.items():
        cluster.await_in_sync(topic, *replicas)
    cluster.delete_records("purged", 25)
    cluster.ask("kafka-topics", "--delete", "--topic", "again")
    for path in cluster.objects("removed")[1:2]:
        for file in path.parent.glob(f"{path.stem}.*"):
            file.unlink()
    for path in cluster.objects("leaked")[:1]:
        for file in path.parent.glob(f"{path.stem}.*"):
            shutil.copy2(file, file.with_name(f"{path.stem[:20]}-{_LEAKED_ID}{file.suffix}"))
    time.sleep(3)
    cluster.create("again", _TOPICS["again"], local_retention_bytes="1500", retention_ms="-1")
    found.values["again"] = []
    found.write_all("last", 40)
    time.sleep(5)
    return found


def _told(*arguments: str) -> dict[str, set[str]]:
    """Codes of the findings by topic, worse than info, as `show` has them."""
    answer = json.loads(run("show", *arguments, "--format", "json", status=None))
    found: dict[str, set[str]] = {}
    for row in answer["findings"]:
        if row["severity"] != "info":
            found.setdefault(row["topic"], set()).add(row["code"])
    return found


_STORY = {
    "lossy": {"TIER-ORPHAN"},
    "removed": {"TIER-OBJECT-MISSING"},
    "leaked": {"TIER-OBJECT-LEAKED"},
}


def test_what_happened_is_told_and_nothing_of_the_sound_topics(history: History) -> None:
    """Load, retention on both sides, DeleteRecords, and a topic that was deleted and created again are nothing to tell."""
    before = history.cluster.capture("told")
    store = str(history.cluster.store)
    assert _told(str(before), "--remote", store) == _STORY
    assert _told(str(before), "--remote", store, "--verify-remote") == _STORY
    assert _told(str(before)) == {"lossy": {"TIER-ORPHAN"}}, "only --remote reads a store"


def test_a_listing_beside_the_snapshot_tells_the_same(history: History) -> None:
    """Made by the commands of docs/capture.md."""
    before = history.cluster.capture("listed")
    text = (ROOT / "docs" / "capture.md").read_text()
    (script,) = re.findall(r"<!-- variables: STORE TO -->\n```bash\n(.*?)```", text, re.S)
    places = {"STORE": str(history.cluster.store), "TO": str(before)}
    subprocess.run(["bash", "-e", "-c", script], check=True, env={**os.environ, **places})
    assert _told(str(before)) == _STORY


def test_what_only_the_store_has_is_salvaged_and_put_back_once(history: History) -> None:
    """The printed plan of elect, carried out as it is printed; retention is off first."""
    cluster, store = history.cluster, str(history.cluster.store)
    before, file = str(cluster.capture("before")), cluster.out / "plan.json"
    values = Counter(history.values["lossy"])
    lost = values - _values(cluster, "lossy")
    text = run("elect", before, "lossy-0", "--remote", store, "--plan", str(file))
    plan = json.loads(file.read_text())
    # What a replica still has of which local retention has deleted the leader's files is in the store, as it was listed.
    actions = [step["action"] for step in plan["steps"]]
    assert actions[:3] == ["keep_remote", "salvage", "restore"], text
    (decision,) = plan["decisions"]
    chosen = next(one for one in decision["candidates"] if one["candidate_id"] == decision["candidate_id"])
    assert chosen["remote_records"] == chosen["lost_committed"] > 0
    operator = Operator(cluster, VERSION, Path(before))
    assert operator.carry_out(text, plan) == []

    head = json.loads((operator.home / "salvaged" / "manifest.json").read_text())
    (partition,) = [one for one in head["partitions"] if one["records"]]
    assert {copy["kind"] for copy in partition["copies"] if copy["records"]} == {"remote"}
    assert all(one["file"].startswith("remote://lossy-0-") for one in head["records"])
    described = cluster.ask("kafka-configs", "--describe", "--entity-type", "topics", "--entity-name", "lossy")
    assert "retention.bytes=-1" in described
    again = values - _values(cluster, "lossy")
    assert (lost - again).total() == chosen["lost_committed"] and again == lost - (lost - again)
    assert not _values(cluster, "lossy") - values, "nothing is there twice"

    # What is restored is restored once, by hand too.
    by_hand = cluster.out / "by-hand"
    run("salvage", before, "--remote", store, "--payloads", "--to", str(by_hand), "--topic", "lossy")
    restore = ("restore", str(by_hand), "--bootstrap-servers", cluster.bootstrap, "--to-original")
    assert "OK: " in run(*restore, "--check")
    run(*restore, "--yes")
    assert not _values(cluster, "lossy") - values


def _values(cluster: TieredCluster, topic: str) -> Counter[str]:
    """How often a consumer sees each value."""
    return Counter((one.value or b"").decode() for one in received(cluster.bootstrap, topic, 0))


_SOUND = ("sound", "retained", "purged", "again")


def test_sound_topics_under_load_are_nothing_to_tell(history: History) -> None:
    """Copies one after the other while everything goes on: uploads, retention, DeleteRecords."""
    cluster, ended = history.cluster, Event()

    def load() -> None:
        number = 0
        while not ended.is_set():
            for topic in _SOUND:
                history.write(topic, f"load-{number}", 20)
            number += 1

    writer = Thread(target=load)
    writer.start()
    try:
        for number in range(3):
            before = cluster.copy_live(f"load-{number}")
            topics = [word for topic in _SOUND for word in ("--topic", topic)]
            told = _told(str(before), "--remote", str(cluster.store), "--verify-remote", *topics)
            # The brokers were copied seconds apart, and keep local files for less: what is low is true of the copies.
            assert set().union(*told.values()) <= {"TRN-FULL"}, told
            cluster.delete_records("purged", 30 + 10 * number)
    finally:
        ended.set()
        writer.join()


def test_a_stopped_cluster_tells_the_same(history: History) -> None:
    """The last test of this cluster: brokers are stopped one after the other, and then the controller."""
    cluster = history.cluster
    cluster.stop(0, 1, 2)
    cluster.kill(CONTROLLER)
    at_rest = cluster.capture("rest", quiesced=True)
    assert _told(str(at_rest), "--remote", str(cluster.store)) == _STORY
    salvaged = cluster.out / "at-rest"
    run("salvage", str(at_rest), "--remote", str(cluster.store), "--to", str(salvaged), "--topic", "lossy")
