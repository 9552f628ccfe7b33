"""A plan carried out on real brokers by bash, from nothing but the text that `elect` prints.

After it nothing is lost but what its decision names, `verify` finds what it predicted, and a consumer that shares no code
with the project sees every record that was put back once. Where the plan ends with what comes first, no disk has changed.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.brokers.captured_cluster import JARS
from tests.brokers.carrying_out import Operator
from tests.brokers.clients import produce_values, received, run, transaction
from tests.brokers.disks import copies_of, cut_middle, cut_tail, digests, format_disk, values_of, write_manifest
from tests.brokers.elections_seen import brokers_up
from tests.brokers.printed_plan import PrintedStep
from tests.brokers.steered_cluster import SETTLE_SECONDS, SteeredCluster
from tests.brokers.steered_zookeeper import SteeredZooKeeper, cluster_of
from tests.support.archives import read_archive, unpack, write_directory
from tests.support.fixtures import FIXTURES, truth
from tests.support.in_process import run_stages
from tests.support.salvaged_captures import acknowledged, short_hash
from tests.support.some import some

from replica_audit.elect.election_plan import advise
from replica_audit.elect.plan_model import plan_object
from replica_audit.snapshot.log_dir_names import HIGH_WATERMARKS

pytestmark = [pytest.mark.brokers, pytest.mark.timeout(1200)]

HERE = Path(__file__).parent
#: Of each snapshot of snapshots.tar.xz what it is of, who ran, and the values that producers were told of.
SNAPSHOTS: Mapping[str, Any] = json.loads((HERE / "snapshots.json").read_text())

Values = Mapping[str, Counter[str | None]]


@pytest.fixture(scope="module")
def snapshots(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("snapshots")
    write_directory(read_archive(HERE / "snapshots.tar.xz"), directory)
    return directory


def _carry_out(
    cluster: SteeredCluster, before: Path, version: str, acked: Values, topics: Sequence[str] = ()
) -> dict[str, Any]:
    """The plan of `before`, or of some topics in it, as it is printed, all of it, and what a consumer has seen before and
    after what it restores.
    """
    file = cluster.out / "plan.json"
    text = run("elect", str(before), "--plan", str(file), *(word for topic in topics for word in ("--topic", topic)))
    plan = json.loads(file.read_text())
    operator = Operator(cluster, version, before)
    seen: list[Values] = []
    # After the steps that move leaders, and after those that put records back.
    for actions in (("restore",), {step["action"] for step in plan["steps"]} - {"restore"}):
        assert operator.carry_out(text, plan, without=actions) == []
        seen.append({partition: _seen(cluster.bootstrap, partition) for partition in acked})
    assert any("as the plan predicted" in one for one in operator.outputs.values())
    _judge(plan, before, acked, *seen)
    return plan


def _judge(plan: Mapping[str, Any], before: Path, acked: Values, moved: Values, restored: Values) -> None:
    named = {f"{one['topic']}-{one['partition']}": _loss(one) for one in plan["decisions"]}
    puts_back = any(step["action"] == "restore" for step in plan["steps"])
    for partition, values in acked.items():
        held = values & values_of(copies_of(before, partition))
        lost = held - moved[partition]
        # No more than the decision names, which may count what no copy has.
        assert lost.total() <= named.get(partition, 0), f"{partition}: {lost.total()} lost"
        assert puts_back or not lost, f"{partition}: {lost.total()} lost and not put back"
        assert restored[partition] == held, (
            f"{partition}: lost {held - restored[partition]}, too many {restored[partition] - held}"
        )


def _loss(decision: Mapping[str, Any]) -> int:
    (chosen,) = (one for one in decision["candidates"] if one["candidate_id"] == decision["candidate_id"])
    return chosen["lost_committed"] + chosen["lost_possible"]


def _seen(bootstrap: str, partition: str) -> Counter[str | None]:
    """How often a consumer sees each value."""
    topic, _, number = partition.rpartition("-")
    return Counter(short_hash(one.value) for one in received(bootstrap, topic, int(number)))


@pytest.mark.parametrize(
    "name",
    ["power-loss", "future-copy", pytest.param("reassigned-power-loss", marks=pytest.mark.slow)],
)
def test_of_a_captured_outage_only_what_the_decision_names_is_lost(name: str, snapshots: Path, tmp_path: Path) -> None:
    told, before = SNAPSHOTS[name], snapshots / name
    acked = {partition: Counter(values.split()) for partition, values in told["acknowledged"].items()}
    with SteeredCluster(before, tmp_path / "run", JARS[told["kafka"]]) as cluster:
        cluster.start_quorum()
        cluster.start(*told["up"])
        # Where a copy lacks a partition of another topic that is needed, there is no plan for that one.
        _carry_out(cluster, before, told["kafka"], acked, told.get("topics", ()))


@pytest.mark.parametrize(
    "capture",
    [
        "zk-2.8-diverged-unclean",
        *(
            pytest.param(one, marks=pytest.mark.slow)
            for one in ("diverged-unclean", "elr-leaderless", "last-replica-elr-2-cut", "kafka-3.9-diverged-unclean")
        ),
    ],
)
def test_of_a_wrong_leader_only_what_the_decision_names_is_lost(capture: str, tmp_path: Path) -> None:
    kafka = truth(capture)["kafka"]
    acked = {
        partition: Counter(value for _, value in held)
        for partition, held in acknowledged(capture).items()
        if not partition.startswith("__")
    }
    with cluster_of(capture, tmp_path / "run", JARS[kafka]) as cluster:
        cluster.start_all(*brokers_up(capture))
        if "2.8" in capture:  # One topic stamps its records, which the plan has to switch off while it puts them back.
            stamp = ("--entity-name", "ledger", "--add-config", "message.timestamp.type=LogAppendTime")
            place = ("--bootstrap-server", cluster.bootstrap, "--entity-type", "topics")
            assert cluster.tool("kafka-configs", *place, "--alter", *stamp)[0] == 0
        _carry_out(cluster, cluster.snapshot("before"), kafka, acked)


@pytest.mark.slow
def test_a_whole_site_that_lost_power_with_eligible_replicas(tmp_path: Path) -> None:
    """Every broker killed and its newest records gone from the disk, of each partition another number on each broker."""
    cuts = {("accounts-0", 0): 10, ("accounts-0", 2): 5, ("accounts-1", 1): 10, ("accounts-1", 0): 5}
    with SteeredCluster(FIXTURES / "elr-healed", tmp_path / "run", JARS["4.3.1"]) as cluster:
        cluster.start_all(0, 1, 2)
        for number in (0, 1):
            produce_values(cluster.bootstrap, "accounts", number, [f"{number}-{one}" for one in range(20)])
        acked = {name: _seen(cluster.bootstrap, name) for name in ("accounts-0", "accounts-1")}
        cluster.kill(*cluster.up)
        for (partition, broker), records in cuts.items():
            cut_tail(cluster.directories[broker] / partition, records)
        before = cluster.snapshot("before")
        write_manifest(before, "4.3.1", cluster.brokers)
        _carry_out(cluster, before, "4.3.1", acked)


@pytest.mark.slow
def test_a_whole_site_that_lost_power_under_zookeeper(tmp_path: Path) -> None:
    """The topic's own value allows unclean elections, and is set again."""
    capture, names = "zk-2.8-diverged-healed", [f"ledger-{number}" for number in range(3)]
    with SteeredZooKeeper(FIXTURES / capture, tmp_path / "run", JARS["2.8.2"], truth(capture)) as cluster:
        cluster.start_all(0, 1, 2)
        for number in range(3):
            produce_values(cluster.bootstrap, "ledger", number, [f"{number}-{one}" for one in range(20)])
        acked = {name: _seen(cluster.bootstrap, name) for name in names}
        cluster.kill(*cluster.up)
        for broker, records in ((0, 10), (1, 5)):
            for name in names:
                cut_tail(cluster.directories[broker] / name, records)
        time.sleep(SETTLE_SECONDS)
        before = SteeredCluster.snapshot(cluster, "before")
        write_manifest(before, "2.8.2", cluster.brokers)
        (before / "zookeeper.json").write_text(json.dumps(cluster.states("ledger", 3)))
        plan = _carry_out(cluster, before, "2.8.2", acked)
        configs = cluster.states("ledger", 3)["/config/topics/ledger"]["config"]
    assert {one["candidate_id"] for one in plan["decisions"]} == {2}
    assert configs["unclean.leader.election.enable"] == "true"


@pytest.mark.slow
@pytest.mark.parametrize("is_moving", [False, True])
def test_a_leader_with_a_hole_follows_a_whole_replica(tmp_path: Path, *, is_moving: bool) -> None:
    """Its disk lost two batches in the middle, which its followers have and no truncation finds. It has them again once a preferred election
    gives it the leadership back, also where it was about to move the log to another disk, copied with its hole."""
    with SteeredCluster(FIXTURES / "lagging-caught-up", tmp_path / "run", JARS["4.3.1"]) as cluster:
        if is_moving:
            _give_second_disks(cluster)
        cluster.start_all(0, 1, 2)
        produce_values(cluster.bootstrap, "orders", 0, [f"0-{one}" for one in range(30)])
        acked = {"orders-0": _seen(cluster.bootstrap, "orders-0")}
        leader = cluster.leaders(["orders"])["orders", 0]
        assert leader is not None
        # Without a controller the leader stays registered.
        cluster.kill(*cluster.controllers, *cluster.up)
        disk, *others = cluster.log_dirs(leader)
        cut_middle(disk / "orders-0", 2)
        for other in others:
            shutil.copytree(disk / "orders-0", other / f"orders-0.{'ab' * 16}-future")
            # The copy has caught up.
            shutil.copy(disk / HIGH_WATERMARKS, other / HIGH_WATERMARKS)
        before = cluster.snapshot("before")
        write_manifest(before, "4.3.1", cluster.brokers)
        cluster.start_quorum()
        plan = _carry_out(cluster, before, "4.3.1", acked)
        place = ("--bootstrap-server", cluster.bootstrap, "--topic", "orders", "--partition", "0")
        status, text = cluster.tool("kafka-leader-election", *place, "--election-type", "preferred")
        assert status == 0, text
        assert cluster.leaders(["orders"])["orders", 0] == leader
        assert _seen(cluster.bootstrap, "orders-0") == acked["orders-0"]
        assert not any((other / "orders-0").exists() for other in others)
    (decision,) = [one for one in plan["decisions"] if one["partition"] == 0]
    assert decision["candidate_id"] != leader


@pytest.mark.slow
def test_a_follower_with_a_hole_fetches_its_log_anew(tmp_path: Path) -> None:
    """It was killed, its disk lost two batches in the middle, and the others serve on."""
    with SteeredCluster(FIXTURES / "lagging-caught-up", tmp_path / "run", JARS["4.3.1"]) as cluster:
        cluster.start_all(0, 1, 2)
        produce_values(cluster.bootstrap, "orders", 0, [f"0-{one}" for one in range(30)])
        acked = {"orders-0": _seen(cluster.bootstrap, "orders-0")}
        follower = min({0, 1, 2} - {cluster.leaders(["orders"])["orders", 0]})
        cluster.kill(follower)
        cut_middle(cluster.directories[follower] / "orders-0", 2)
        time.sleep(SETTLE_SECONDS)
        before = cluster.snapshot("before")
        file = cluster.out / "plan.json"
        text = run("elect", str(before), "--kafka-version", "4.3.1", "--plan", str(file))
        plan = json.loads(file.read_text())
        actions = [(step["action"], step["brokers"]) for step in plan["steps"]]
        assert actions == [("put_aside", [follower]), ("start", [follower])], text
        assert Operator(cluster, "4.3.1", before).carry_out(text, plan) == []
        time.sleep(SETTLE_SECONDS)
        assert values_of([cluster.directories[follower] / "orders-0"]) == acked["orders-0"]


@pytest.mark.slow
def test_a_disk_from_a_backup(tmp_path: Path) -> None:
    """The leader of most partitions comes back with its disk as it was 20 records before, and everybody else was killed."""
    places = [f"orders-{number}" for number in range(3)]
    with SteeredCluster(FIXTURES / "lagging-caught-up", tmp_path / "run", JARS["4.3.1"]) as cluster:
        cluster.start_all(0, 1, 2)
        cluster.stop(0)
        shutil.copytree(cluster.directories[0], tmp_path / "backup")
        cluster.start(0)
        time.sleep(SETTLE_SECONDS)
        for number in range(3):
            produce_values(cluster.bootstrap, "orders", number, [f"{number}-{one}" for one in range(20)])
        acked = {name: _seen(cluster.bootstrap, name) for name in places}
        cluster.kill(*cluster.up)
        shutil.rmtree(cluster.directories[0])
        shutil.copytree(tmp_path / "backup", cluster.directories[0])
        before = cluster.snapshot("before")
        write_manifest(before, "4.3.1", cluster.brokers)
        _carry_out(cluster, before, "4.3.1", acked)


@pytest.mark.slow
def test_a_coordinator_of_transactions_is_elected_after_what_it_writes_to(tmp_path: Path) -> None:
    """H22: its client was told that the transaction is committed, and whoever leads the partition stopped before it had the marker."""
    partition, values = "paid-0", [f"of the transaction-{one}" for one in range(12)]
    with SteeredCluster(FIXTURES / "lagging-caught-up", tmp_path / "run", JARS["4.3.1"]) as cluster:
        cluster.start_quorum()
        cluster.start(0, 1, 2)
        for topic, replicas in (("paid", "1:2"), ("__transaction_state", "0:2")):
            place = ("--bootstrap-server", cluster.bootstrap, "--create", "--topic", topic)
            status, text = cluster.tool("kafka-topics", *place, "--replica-assignment", replicas)
            assert status == 0, text
        with transaction(cluster.bootstrap, "paid", 0, values, "payments") as commit:
            cluster.stop(2)
            os.kill(cluster.pid(1), signal.SIGSTOP)
            commit()
        cluster.kill(0, 1)
        time.sleep(SETTLE_SECONDS)
        acked = {partition: Counter(map(short_hash, (one.encode() for one in values)))}
        plan = _carry_out(cluster, cluster.snapshot("before"), "4.3.1", acked)
    started = [broker for step in plan["steps"] if step["action"] == "start" for broker in step["brokers"]]
    assert [one for one in started if one != 2] == [1, 0]


@pytest.mark.slow
def test_what_one_broker_alone_still_has_is_copied_before_another_partition_is_served(tmp_path: Path) -> None:
    """The site lost power. Copies of orders-0 are of before its last records, and only broker 2 still has these; of orders-1 only broker
    0 has all. A plan for that alone would start broker 0 first, which leads orders-0, too, and cuts broker 2."""
    names = ["orders-0", "orders-1"]
    with SteeredCluster(FIXTURES / "lagging-caught-up", tmp_path / "run", JARS["4.3.1"]) as cluster:
        cluster.start_all(0, 1, 2)
        early = cluster.snapshot("early")
        for number in (0, 1):
            produce_values(cluster.bootstrap, "orders", number, [f"{number}-{one}" for one in range(20)])
        acked = {name: _seen(cluster.bootstrap, name) for name in names}
        time.sleep(SETTLE_SECONDS)
        cluster.kill(*cluster.up)
        for partition, short in (("orders-0", (0, 1)), ("orders-1", (1, 2))):
            for broker in short:
                cut_tail(cluster.directories[broker] / partition, 20)
        before = cluster.snapshot("before")
        for broker in cluster.brokers:
            shutil.rmtree(before / f"broker-{broker}" / "orders-0")
            shutil.copytree(early / f"broker-{broker}" / "orders-0", before / f"broker-{broker}" / "orders-0")
        file = cluster.out / "first.json"
        text = run("elect", str(before), *names, "--up", "", "--plan", str(file), status=1)
        plan = json.loads(file.read_text())
        assert [step["action"] for step in plan["steps"]] == ["capture"] and len(plan["conflicts"]) == 2
        operator = Operator(cluster, "4.3.1", before)
        brokers = [cluster.directories[broker] for broker in cluster.brokers]
        disks = digests(brokers)
        assert operator.carry_out(text, plan) == []
        assert digests(brokers) == disks
        # The second copy moves the first aside.
        assert operator.carry_out(text, plan) == []
        again = operator.home / "copied-again"
        assert len([*operator.home.glob("copied-again*")]) == 2
        leads = {
            one["partition"]: one["candidate_id"] for one in _carry_out(cluster, again, "4.3.1", acked)["decisions"]
        }
        assert (leads[0], leads[1]) == (2, 0)


def _give_second_disks(cluster: SteeredCluster) -> None:
    """Give each broker a second log directory, which is empty."""
    for broker in cluster.brokers:
        place = cluster.directories[broker]
        shutil.move(place, place.with_name("first"))
        place.mkdir()
        shutil.move(place.with_name("first"), place / "a")
        format_disk(place / "b", place / "a")
    cluster.write_properties()


class _KnowingDisks(Operator):
    """Takes the log directories that the steps name; `mounted` has the place of each by its name in the snapshot."""

    def __init__(self, cluster: SteeredCluster, version: str, before: Path, mounted: Mapping[str, Path]) -> None:
        super().__init__(cluster, version, before)
        self._mounted, self._copied_from = mounted, ""

    def _take(self, printed: PrintedStep, step: Mapping[str, Any]) -> list[str]:
        named = re.search(
            r"LOG_DIR_OF_\d+ means here what the snapshot has as (\S+), wherever it is mounted", step["text"]
        )
        self._copied_from = named[1] if named else ""
        for text in step["before"]:
            if found := re.match(
                r"Broker (\d+) starts with the log directory that the snapshot has as (\S+), or", text
            ):
                place = self._cluster.directories[int(found[1])]
                shutil.move(place, place.with_name("put-away"))
                shutil.move(self._mounted[found[2]], place)
        return super()._take(printed, step)

    def _log_dir(self, node: int, named: Iterable[str]) -> Path:
        return self._mounted.get(self._copied_from) or super()._log_dir(node, named)


@pytest.mark.slow
def test_a_broker_whose_disk_was_replaced_is_started_with_its_old_one(tmp_path: Path) -> None:
    """Broker 0 led alone, and has a new, empty disk in the place of the one with what only it had. The plan is that of `run`."""
    with SteeredCluster(FIXTURES / "lagging-caught-up", tmp_path / "run", JARS["4.3.1"]) as cluster:
        cluster.start_all(0, 1, 2)
        cluster.stop(1, 2)
        produce_values(cluster.bootstrap, "orders", 0, [f"0-{one}" for one in range(20)])
        acked = {"orders-0": _seen(cluster.bootstrap, "orders-0")}
        cluster.kill(0)
        place, old = cluster.directories[0], tmp_path / "old"
        shutil.move(place, old)
        format_disk(place, old)
        time.sleep(SETTLE_SECONDS)
        before = cluster.snapshot("before")
        shutil.copytree(old, before / "broker-0-old")
        file = cluster.out / "plan.json"
        text = run("elect", str(before), "--plan", str(file))
        plan = json.loads(file.read_text())
        of_run = plan_object(advise(run_stages(before, tmp_path / "warehouse").results))
        assert json.loads(json.dumps(of_run["steps"])) == plan["steps"]
        operator = _KnowingDisks(cluster, "4.3.1", before, {"broker-0-old": old})
        assert operator.carry_out(text, plan, without={"restore"}) == []
        assert any("as the plan predicted" in one for one in operator.outputs.values()), operator.outputs
        assert _seen(cluster.bootstrap, "orders-0") == acked["orders-0"]
        assert not old.exists() and acked["orders-0"].total() >= 20


def test_where_only_copies_come_first_no_disk_changes(snapshots: Path, tmp_path: Path) -> None:
    """A controller from a backup: which metadata log is right is for people, and nothing is started meanwhile."""
    told, before = SNAPSHOTS["controller-from-backup"], snapshots / "controller-from-backup"
    with SteeredCluster(before, tmp_path / "run", JARS[told["kafka"]]) as cluster:
        operator = _copy_first(cluster, before, told["kafka"])
    assert {path.name for path in operator.home.glob("*.tgz")} == {
        *(f"broker-{node}.tgz" for node in (0, 1, 2)),
        "controller-100.tgz",
    }


def test_of_a_snapshot_without_the_broker_that_holds_the_rest_it_is_what_is_copied(tmp_path: Path) -> None:
    capture, before = "diverged-unclean", tmp_path / "before"
    shutil.copytree(FIXTURES / capture, before, ignore=shutil.ignore_patterns("broker-0", "dump"))
    with SteeredCluster(FIXTURES / capture, tmp_path / "run", JARS["4.3.1"]) as cluster:
        operator = _copy_first(cluster, before, "4.3.1")
    unpack(operator.home / "broker-0.tgz", tmp_path / "copied")
    for path in some((FIXTURES / capture / "broker-0").glob("ledger-*/*.log")):
        assert (tmp_path / "copied" / path.parent.name / path.name).read_bytes() == path.read_bytes()


def _copy_first(cluster: SteeredCluster, before: Path, version: str) -> Operator:
    """Do first, and the plan that has nothing else, carried out: nothing is started, and no file on any disk changes."""
    file = cluster.out / "plan.json"
    text = run("elect", str(before), "--plan", str(file), status=1)
    plan = json.loads(file.read_text())
    assert {step["action"] for step in plan["steps"]} <= {"capture", "copy", "keep_up"} and plan["steps"]
    operator = Operator(cluster, version, before)
    disks = digests(cluster.directories.values())
    assert operator.do_first(run("show", str(before), status=None)) == []
    copied = {path.name for path in operator.home.glob("*.tgz")}
    assert operator.carry_out(text, plan) == []
    assert digests(cluster.directories.values()) == disks and not cluster.up
    assert {path.name for path in operator.home.glob("*.tgz")} == copied
    return operator
