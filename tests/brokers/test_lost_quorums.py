"""A lost quorum brought back by a plan of `quorum`, carried out by bash from nothing but the text that it prints.

Afterwards both topics are led, producers are acknowledged by all in sync, brokers that were up are still the same processes,
and a second snapshot has nothing to decide.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.brokers.captured_cluster import JARS
from tests.brokers.carrying_out import Operator
from tests.brokers.clients import produce_values, received, run, run_json
from tests.brokers.disks import cut_middle, cut_tail, write_manifest
from tests.brokers.quorum_cluster import BROKERS, CONTROLLERS, QuorumCluster, QuorumOperator, make_disks, topics_of
from tests.support.archives import read_archive, write_directory

pytestmark = [pytest.mark.brokers, pytest.mark.timeout(1200)]

HERE = Path(__file__).parent
_SETTLE_SECONDS = 15
#: Epochs between those of backups and the last one.
_ROOM = 20


@pytest.fixture(scope="module")
def disks(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """The disks of a sound cluster, each kind made once."""
    made: dict[tuple[str, str], Path] = {}

    def of(version: str, **kind: Any) -> Path:
        key = version, repr(kind)
        if key not in made:
            made[key] = make_disks(tmp_path_factory.mktemp("disks"), JARS[version], **kind)
        return made[key]

    return of


def _lose(cluster: QuorumCluster, disks: Path, lost: tuple[int, ...], stale: bool, blank: tuple[int, ...] = ()) -> None:
    """The cluster as it runs, then all controllers killed and disks changed; brokers stay up."""
    cluster.start_all()
    cluster.kill(*CONTROLLERS)
    cluster.lose_disk(*lost)
    if stale:
        cluster.restore_backup(disks, 102)
    for node in blank:
        cluster.lose_disk(node)
        cluster.format(node, *(("--no-initial-controllers",) if cluster.is_dynamic else ()))


def _return_with_a_new_disk(cluster: QuorumCluster, how: str) -> None:
    """All nodes are up; voter 102 is killed, loses its disk and comes back with one that was formatted with the option `how`."""
    cluster.start_all()
    cluster.kill(102)
    cluster.lose_disk(102)
    cluster.format(102, how)
    cluster.launch(102)
    time.sleep(_SETTLE_SECONDS)


def _carry_out(
    cluster: QuorumCluster, before: Path, version: str, seeds: set[int], choose: int | None = None
) -> dict[str, Any]:
    pids = {node: cluster.pid(node) for node in cluster.up}
    file = cluster.out / "plan.json"
    chosen = () if choose is None else ("--choose", str(choose))
    text = run("quorum", str(before), *chosen, "--plan", str(file), "--kafka-version", version)
    answer = json.loads(file.read_text())
    assert answer["verdict"] == "choose", text
    stopped = {node for step in answer["steps"] if step["action"] == "stop" for node in step["brokers"]}
    assert {
        step["controllers"][0]
        for step in answer["steps"]
        if step["action"] in ("seed", "empty") and step["controllers"]
    } == seeds
    assert run("quorum", str(before), *chosen, "--check", str(file)).startswith("Nothing has moved")
    operator = QuorumOperator(cluster, version, before)
    assert operator.carry_out(text, answer) == [], text
    partitions = {("early", 0), ("late", 0), *([("late", 1)] if cluster.is_apart else [])}
    assert sorted(cluster.running) == sorted(cluster.directories)
    assert set(topics_of(cluster)) == partitions and None not in topics_of(cluster).values()
    for topic, partition in sorted(partitions):
        produce_values(cluster.bootstrap, topic, partition, ["after"])
        values = [one.value.decode() for one in received(cluster.bootstrap, topic, partition)]
        assert values == [*(f"{topic}-{number}" for number in range(5)), "after"]
    assert {node: cluster.pid(node) for node in cluster.up if node in pids and node not in stopped} == {
        node: pid for node, pid in pids.items() if node not in stopped
    }
    again = run_json("quorum", str(operator.after))
    assert again["verdict"] == "agree" and again["choice"] is None and not again["steps"], again["reason"]
    return answer


def test_all_seeded_from_a_broker_where_the_only_controller_left_is_stale(
    disks: Callable[..., Path], tmp_path: Path
) -> None:
    """Q1, Q6: two disks are gone, the third is from before topic late; brokers run on and have everything."""
    of = disks("4.3.1", is_dynamic=False)
    with QuorumCluster(of, tmp_path / "run", JARS["4.3.1"], is_dynamic=False) as cluster:
        _lose(cluster, of, lost=(100, 101), stale=True)
        answer = _carry_out(cluster, cluster.capture("before", without=(100, 101)), "4.3.1", set(CONTROLLERS))
    assert answer["choice"]["role"] == "broker"


@pytest.mark.slow
@pytest.mark.parametrize("version", ["4.3.1", "3.9.1"])
def test_the_good_copy_is_on_the_controller_that_is_down(
    disks: Callable[..., Path], tmp_path: Path, version: str
) -> None:
    """Q2, Q3: a blank disk and a stale one are a majority; the third controller has everything."""
    of = disks(version, is_dynamic=False)
    with QuorumCluster(of, tmp_path / "run", JARS[version], is_dynamic=False) as cluster:
        _lose(cluster, of, lost=(), stale=True, blank=(101,))
        answer = _carry_out(cluster, cluster.capture("before"), version, {101, 102})
    assert answer["choice"]["node_id"] == 100


@pytest.mark.slow
@pytest.mark.parametrize("version", ["4.3.1", "3.9.1"])
def test_a_dynamic_quorum_with_one_survivor(disks: Callable[..., Path], tmp_path: Path, version: str) -> None:
    """D1c: two of three disks are gone, and the log knows their directories by ids that nobody has any more."""
    of = disks(version, is_dynamic=True)
    with QuorumCluster(of, tmp_path / "run", JARS[version], is_dynamic=True) as cluster:
        _lose(cluster, of, lost=(), stale=False, blank=(101, 102))
        answer = _carry_out(cluster, cluster.capture("before"), version, {101, 102})
    assert answer["is_dynamic"] and answer["choice"]["node_id"] == 100


@pytest.mark.slow
def test_a_dynamic_quorum_seeded_from_a_broker(disks: Callable[..., Path], tmp_path: Path) -> None:
    """D2b: two disks are gone, the third is stale."""
    of = disks("4.3.1", is_dynamic=True)
    with QuorumCluster(of, tmp_path / "run", JARS["4.3.1"], is_dynamic=True) as cluster:
        _lose(cluster, of, lost=(100, 101), stale=True)
        answer = _carry_out(cluster, cluster.capture("before", without=(100, 101)), "4.3.1", set(CONTROLLERS))
    assert answer["choice"]["node_id"] in BROKERS


@pytest.mark.slow
def test_a_spliced_voter_fetches_the_log_anew(disks: Callable[..., Path], tmp_path: Path) -> None:
    """D4s: formatted with --standalone, it keeps a beginning of its own, and nothing but its records shows it."""
    of = disks("4.3.1", is_dynamic=True)
    with QuorumCluster(of, tmp_path / "run", JARS["4.3.1"], is_dynamic=True) as cluster:
        _return_with_a_new_disk(cluster, "--standalone")
        before = cluster.capture("before")
        answer = _carry_out(cluster, before, "4.3.1", {102})
    assert next(one for one in answer["copies"] if one["node_id"] == 102)["parts_at"] is not None


@pytest.mark.slow
def test_a_voter_formatted_anew_is_put_into_its_old_place(disks: Callable[..., Path], tmp_path: Path) -> None:
    """D4a: removed, then added from the directory that it has now."""
    of = disks("4.3.1", is_dynamic=True)
    with QuorumCluster(of, tmp_path / "run", JARS["4.3.1"], is_dynamic=True) as cluster:
        _return_with_a_new_disk(cluster, "--no-initial-controllers")
        before, file = cluster.capture("before"), cluster.out / "plan.json"
        text = run("quorum", str(before), "--plan", str(file), "--kafka-version", "4.3.1")
        answer = json.loads(file.read_text())
        assert answer["verdict"] == "rejoin", text
        assert QuorumOperator(cluster, "4.3.1", before).carry_out(text, answer) == []
        # Its new directory is in the log, and a majority without 100 elects with it.
        cluster.kill(100)
        produce_values(cluster.bootstrap, "late", 0, ["after"])
        again = run_json("quorum", str(cluster.capture("again")))
    assert again["verdict"] == "agree", again["reason"]
    assert {"node_id": 102, "directory_id": cluster.directory_id(102)} in again["copies"][0]["voter_directories"]


@pytest.mark.slow
def test_brokers_that_have_seen_a_later_epoch_register(disks: Callable[..., Path], tmp_path: Path) -> None:
    """Q7, R4: without the epoch that the plan writes into the seeds they would give up after a minute."""
    of = disks("4.3.1", is_dynamic=False)
    with QuorumCluster(of, tmp_path / "run", JARS["4.3.1"], is_dynamic=False) as cluster:
        cluster.start_all()
        cluster.stop(*BROKERS)
        cluster.kill(*CONTROLLERS)
        for node in BROKERS:
            seen = _raise_epoch(cluster, node, 5)
        cluster.lose_disk(100, 101)
        cluster.restore_backup(of, 102)
        answer = _carry_out(cluster, cluster.capture("before", without=(100, 101)), "4.3.1", set(CONTROLLERS))
    written = [json.loads(text)["leaderEpoch"] for step in answer["steps"] for text in step["files"].values()]
    assert written == [seen] * 3


def _raise_epoch(cluster: QuorumCluster, node: int, by: int) -> int:
    """Let a node have seen a later controller epoch; returns it."""
    file = cluster.metadata_log(node) / "quorum-state"
    state = json.loads(file.read_text())
    file.write_text(json.dumps({**state, "leaderEpoch": state["leaderEpoch"] + by}))
    return state["leaderEpoch"] + by


@pytest.mark.slow
@pytest.mark.parametrize("version", ["4.3.1", "3.9.1"])
def test_voters_that_lost_their_quorum_state_count_on(disks: Callable[..., Path], tmp_path: Path, version: str) -> None:
    """R4 without a lost record: each voter keeps its log, and gets a quorum-state with the epoch that brokers have seen."""
    of = disks(version, is_dynamic=False)
    with QuorumCluster(of, tmp_path / "run", JARS[version], is_dynamic=False) as cluster:
        cluster.start_all()
        cluster.stop(*BROKERS)
        cluster.kill(*CONTROLLERS)
        seen = max(_raise_epoch(cluster, node, 5) for node in BROKERS)
        answer = _carry_out(cluster, cluster.capture("before"), version, set())
        assert cluster.quorum_status("LeaderEpoch") > seen
    assert [one["action"] for one in answer["steps"]].count("mend_epoch") == 3


@pytest.mark.slow
@pytest.mark.parametrize("version", ["4.3.1", "3.9.1"])
def test_a_dynamic_quorum_counts_on_and_a_blank_voter_gets_its_old_id_back(
    disks: Callable[..., Path], tmp_path: Path, version: str
) -> None:
    """R4 with D4n: the blank voter fetches the whole log; quorum-state is of version 1, which names no voters."""
    of = disks(version, is_dynamic=True)
    with QuorumCluster(of, tmp_path / "run", JARS[version], is_dynamic=True) as cluster:
        cluster.start_all()
        cluster.stop(*BROKERS)
        cluster.kill(*CONTROLLERS)
        seen = max(_raise_epoch(cluster, node, 5) for node in BROKERS)
        cluster.lose_disk(102)
        cluster.format(102, "--no-initial-controllers")
        answer = _carry_out(cluster, cluster.capture("before"), version, {102})
        assert cluster.quorum_status("LeaderEpoch") > seen
    assert [one["controllers"] for one in answer["steps"] if one["action"] == "mend_epoch"] == [[100], [101]]


@pytest.mark.slow
def test_a_survivor_that_was_formatted_standalone_votes_again(disks: Callable[..., Path], tmp_path: Path) -> None:
    """D5b: it has a new directory id, and a checkpoint that names itself alone; the log of whichever node is newest names the three of
    before.
    """
    of = disks("4.3.1", is_dynamic=True)
    with QuorumCluster(of, tmp_path / "run", JARS["4.3.1"], is_dynamic=True) as cluster:
        cluster.start_all()
        cluster.kill(*CONTROLLERS)
        cluster.lose_disk(101, 102)
        (cluster.directories[100] / "meta.properties").unlink()
        cluster.format(100, "--standalone")
        _carry_out(cluster, cluster.capture("before", without=(101, 102)), "4.3.1", set(CONTROLLERS))


@pytest.mark.slow
def test_one_voter_has_everything_and_one_is_stale(disks: Callable[..., Path], tmp_path: Path) -> None:
    """Q5: brokers live on."""
    of = disks("4.3.1", is_dynamic=False)
    with QuorumCluster(of, tmp_path / "run", JARS["4.3.1"], is_dynamic=False) as cluster:
        _lose(cluster, of, lost=(100,), stale=True)
        _carry_out(cluster, cluster.capture("before", without=(100,)), "4.3.1", {100, 102})


@pytest.mark.slow
def test_of_two_histories_that_both_served_clients_people_choose(tmp_path: Path) -> None:
    """Q8, as it was captured on 4.3.1: voters seeded from a stale disk elected in an epoch of before, and brokers went on in both
    histories. Kept is that of the voters; brokers' logs are put aside, and what is given up is copied first.
    """
    write_directory(read_archive(HERE / "snapshots.tar.xz"), tmp_path / "snapshots")
    capture = tmp_path / "snapshots" / "two-histories"
    with QuorumCluster(capture, tmp_path / "run", JARS["4.3.1"], is_dynamic=False) as cluster:
        cluster.start_all()
        produce_values(cluster.bootstrap, "early", 0, ["of both"])
        before, file = cluster.capture("before"), cluster.out / "plan.json"
        text = run("quorum", str(before), status=1)
        assert text.startswith("Neither history is the best: keep both")
        node = re.search(r"quorum --choose (\d+) has the plan", " ".join(text.split()))[1]
        assert int(node) in CONTROLLERS
        printed = run("quorum", str(before), "--choose", node, "--plan", str(file), "--kafka-version", "4.3.1")
        answer = json.loads(file.read_text())
        assert [one["topic"] for one in answer["lost"]["topics"]] == ["late"]
        assert {(one["broker_id"], one["topic"]) for one in answer["lost"]["stray"]} == {(0, "late"), (1, "late")}
        operator = QuorumOperator(cluster, "4.3.1", before)
        assert operator.carry_out(printed, answer) == [], printed
        assert set(topics_of(cluster)) == {("early", 0)}
        produce_values(cluster.bootstrap, "early", 0, ["after"])
        assert [one.value for one in received(cluster.bootstrap, "early", 0)][-2:] == [b"of both", b"after"]
        for broker in BROKERS:
            listing = ["tar", "-tzf", f"broker-{broker}-given-up.tgz"]
            copied = subprocess.run(listing, cwd=operator.home, capture_output=True, text=True, check=True)
            assert f"./late-0/{0:020d}.log" in copied.stdout.split()
            assert list(cluster.directories[broker].glob("late-0.*-stray"))
        again = run_json("quorum", str(operator.after))
    assert again["verdict"] == "agree" and not again["steps"], again["reason"]


@pytest.mark.slow
@pytest.mark.parametrize("blank", [(), (101, 102)], ids=["down", "lost"])
def test_elections_after_a_quorum_that_is_down_or_lost(
    disks: Callable[..., Path], tmp_path: Path, blank: tuple[int, ...]
) -> None:
    """A site without power: one replica has lost its end, and who starts first leads. The plan of elect starts the controllers; where
    two of three have blank disks that of quorum is followed before, to where it starts brokers.
    """
    of = disks("4.3.1", is_dynamic=False)
    with QuorumCluster(of, tmp_path / "run", JARS["4.3.1"], is_dynamic=False) as cluster:
        cluster.start_all()
        cluster.kill(*BROKERS, *CONTROLLERS)
        for broker in BROKERS:
            (cluster.directories[broker] / ".kafka_cleanshutdown").unlink(missing_ok=True)
        cut_tail(cluster.directories[0] / "early-0", 2)
        for node in blank:
            cluster.lose_disk(node)
            cluster.format(node)
        before, file = cluster.capture("before"), cluster.out / "plan.json"
        write_manifest(before, "4.3.1", BROKERS)
        shown = " ".join(run("show", str(before), status=None).split())
        assert ("replica-audit quorum SNAPSHOT" in shown) == bool(blank)
        if blank:
            text = run("quorum", str(before), "--plan", str(file), "--kafka-version", "4.3.1")
            answer = json.loads(file.read_text())
            ordered = next(
                at for at, one in enumerate(answer["steps"]) if "replica-audit elect AFTER" in one["commands"]
            )
            assert QuorumOperator(cluster, "4.3.1", before).carry_out(text, answer, most=ordered) == []
            before = cluster.capture("between")
            write_manifest(before, "4.3.1", BROKERS)
        text = run("elect", str(before), "--plan", str(file), "--up", "")
        plan = json.loads(file.read_text())
        started = [(*step["controllers"], *step["brokers"]) for step in plan["steps"] if step["action"] == "start"]
        assert started == [CONTROLLERS, (1,), (0,)], text
        operator = Operator(cluster, "4.3.1", before)
        assert operator.carry_out(text, plan) == [], text
        assert any("as the plan predicted" in one for one in operator.outputs.values())
        for topic in ("early", "late"):
            produce_values(cluster.bootstrap, topic, 0, ["after"])
            values = [one.value.decode() for one in received(cluster.bootstrap, topic, 0)]
            assert values == [*(f"{topic}-{number}" for number in range(5)), "after"]


def _forget_late(cluster: QuorumCluster, disks: Path, tmp_path: Path) -> Path:
    """All voters were seeded from a backup, brokers died, and restarted they set topic late aside; a copy of the disk of 100 as it
    was before.
    """
    cluster.start_all()
    cluster.kill(*CONTROLLERS)
    found = tmp_path / "found"
    shutil.copytree(cluster.directories[100], found, ignore=shutil.ignore_patterns(".lock"))
    seen = _raise_epoch(cluster, BROKERS[0], 0)
    for node in CONTROLLERS:
        shutil.rmtree(cluster.metadata_log(node))
        shutil.copytree(disks / "stale-102", cluster.metadata_log(node))
        # Of a later epoch than brokers have seen: with an earlier one they would go on without the controllers.
        _raise_epoch(cluster, node, seen + 1)
    cluster.start_quorum()
    for broker in BROKERS:
        cluster.await_end(broker, 240)
    cluster.start(*BROKERS)
    assert topics_of(cluster).keys() == {("early", 0)}
    return found


@pytest.mark.slow
def test_a_disk_that_was_found_knows_directories_that_brokers_set_aside(
    disks: Callable[..., Path], tmp_path: Path
) -> None:
    """Q4: all voters were seeded from a stale disk, brokers died, and restarted they set topic late aside. Then the disk of 100 is
    found, which has everything.
    """
    of = disks("4.3.1", is_dynamic=False)
    with QuorumCluster(of, tmp_path / "run", JARS["4.3.1"], is_dynamic=False) as cluster:
        found = _forget_late(cluster, of, tmp_path)
        assert all(list(cluster.directories[broker].glob("late-0.*-stray")) for broker in BROKERS)
        forgotten = run_json("quorum", str(cluster.capture("forgotten")))
        assert forgotten["verdict"] == "agree" and "as -stray, which no log here knows" in forgotten["reason"]
        cluster.kill(*BROKERS, *CONTROLLERS)
        shutil.rmtree(cluster.directories[100])
        shutil.copytree(found, cluster.directories[100])
        answer = _carry_out(cluster, cluster.capture("before"), "4.3.1", {101, 102})
    assert answer["choice"]["node_id"] == 100
    assert [step["brokers"] for step in answer["steps"] if step["action"] == "put_back"] == [[0], [1]]


def _elect_in_the_same_epoch(cluster: QuorumCluster, disks: Path, *, brokers_up: bool) -> tuple[int, tuple[int, ...]]:
    """Two controllers restored from backups elect one of them in the epoch in which the third had led, which is down; it and the two."""
    for node in CONTROLLERS:
        _raise_epoch(cluster, node, _ROOM)
    cluster.start_all()
    leader, epoch = cluster.quorum_status("LeaderId"), cluster.quorum_status("LeaderEpoch")
    cluster.kill(*CONTROLLERS, *(() if brokers_up else BROKERS))
    stale = tuple(node for node in CONTROLLERS if node != leader)
    # Whoever waits for the other one long enough goes through several epochs.
    before, found = epoch - 1, None
    while found != epoch:
        cluster.kill(*(node for node in stale if node in cluster.running))
        cluster.restore_backup(disks, *stale)
        for node in stale:
            _raise_epoch(cluster, node, before - _raise_epoch(cluster, node, 0))
            cluster.launch(node)
        found = cluster.quorum_status("LeaderEpoch")
        before -= found - epoch
        assert before > epoch - _ROOM
    return leader, stale


@pytest.mark.slow
@pytest.mark.parametrize("version", ["4.3.1", "3.9.1"])
def test_the_same_epoch_of_two_leaders(disks: Callable[..., Path], tmp_path: Path, version: str) -> None:
    """D3: brokers die, and as the third controller is started, so do the other two; it has everything."""
    of = disks(version, is_dynamic=True)
    with QuorumCluster(of, tmp_path / "run", JARS[version], is_dynamic=True) as cluster:
        leader, stale = _elect_in_the_same_epoch(cluster, of, brokers_up=True)
        for broker in BROKERS:
            cluster.await_end(broker, 240)
        cluster.launch(leader)
        time.sleep(_SETTLE_SECONDS)
        cluster.kill(*cluster.running)
        answer = _carry_out(cluster, cluster.capture("before"), version, set(stale))
    assert answer["choice"]["node_id"] == leader


@pytest.mark.slow
def test_a_fork_within_one_epoch_has_the_history_that_people_choose(disks: Callable[..., Path], tmp_path: Path) -> None:
    """D3v: two stale controllers elect in the epoch of the third, and once more; then it and the brokers join, and keep some of their
    own records below those of the new leader: their logs are spliced, nobody has a whole one with topic late.
    """
    of = disks("4.3.1", is_dynamic=True)
    with QuorumCluster(of, tmp_path / "run", JARS["4.3.1"], is_dynamic=True) as cluster:
        leader, stale = _elect_in_the_same_epoch(cluster, of, brokers_up=False)
        time.sleep(_SETTLE_SECONDS)
        cluster.kill(*stale)
        for node in stale:
            cluster.launch(node)
        cluster.quorum_status("LeaderEpoch")
        cluster.launch(leader)
        time.sleep(_SETTLE_SECONDS)
        for broker in BROKERS:
            cluster.launch(broker)
        time.sleep(2 * _SETTLE_SECONDS)
        before, file = cluster.capture("before"), cluster.out / "plan.json"
        assert "spliced from two histories" in run("quorum", str(before), status=1)
        printed = run("quorum", str(before), "--choose", str(stale[0]), "--plan", str(file), "--kafka-version", "4.3.1")
        answer = json.loads(file.read_text())
        assert [one["topic"] for one in answer["lost"]["topics"]] == ["late"]
        operator = QuorumOperator(cluster, "4.3.1", before)
        assert operator.carry_out(printed, answer) == [], printed
        assert set(topics_of(cluster)) == {("early", 0)}
        produce_values(cluster.bootstrap, "early", 0, ["after"])
        again = run_json("quorum", str(operator.after))
    assert again["verdict"] == "agree" and not again["steps"], again["reason"]


@pytest.mark.slow
@pytest.mark.parametrize("version", ["4.3.1", "3.9.1"])
@pytest.mark.parametrize("file", ["", "quorum-state"], ids=["meta.properties", "quorum-state-too"])
def test_the_only_controller_left_was_formatted_standalone_and_is_the_newest(
    disks: Callable[..., Path], tmp_path: Path, version: str, file: str
) -> None:
    """D5b, D5c: it keeps its log, and gets its old directory id back; brokers are down and hold less."""
    of = disks(version, is_dynamic=True)
    with QuorumCluster(of, tmp_path / "run", JARS[version], is_dynamic=True) as cluster:
        cluster.start_all()
        cluster.stop(*BROKERS)
        time.sleep(3)
        cluster.kill(101, 102)
        cluster.kill(100)
        cluster.lose_disk(101, 102)
        (cluster.directories[100] / "meta.properties").unlink()
        if file:
            (cluster.metadata_log(100) / file).unlink()
        cluster.format(100, "--standalone")
        answer = _carry_out(cluster, cluster.capture("before", without=(101, 102)), version, set(CONTROLLERS))
    assert answer["choice"]["node_id"] == 100


@pytest.mark.slow
def test_metadata_apart_from_two_disks_that_have_directories_to_put_back(
    disks: Callable[..., Path], tmp_path: Path
) -> None:
    """Q4 with metadata.log.dir, and late-0 and late-1 on a disk each; of the found one's fellows one is stale, one formatted anew."""
    of = disks("4.3.1", is_dynamic=True, is_apart=True)
    with QuorumCluster(of, tmp_path / "run", JARS["4.3.1"], is_dynamic=True, is_apart=True) as cluster:
        found = _forget_late(cluster, of, tmp_path)
        for broker in BROKERS:
            assert [len(list(disk.glob("late-*-stray"))) for disk in cluster.log_dirs(broker)] == [0, 1, 1]
        cluster.kill(*BROKERS, *CONTROLLERS)
        cluster.lose_disk(100, 101)
        shutil.copytree(found, cluster.directories[100], dirs_exist_ok=True)
        cluster.format(101, "--no-initial-controllers")
        # Leaders changed without topic late: which history to give up is for people.
        answer = _carry_out(cluster, cluster.capture("before"), "4.3.1", {101, 102}, choose=100)
    put_back = [step for step in answer["steps"] if step["action"] == "put_back"]
    assert [(step["brokers"], len(step["commands"])) for step in put_back] == [([0], 2), ([1], 2)]


@pytest.mark.slow
@pytest.mark.parametrize("version", ["4.3.1", "3.9.1"])
def test_who_led_is_among_those_that_lost_their_disks(disks: Callable[..., Path], tmp_path: Path, version: str) -> None:
    """The only controller left has noted who led: told so, that one would end, since it has forgotten it."""
    of = disks(version, is_dynamic=False)
    with QuorumCluster(of, tmp_path / "run", JARS[version], is_dynamic=False) as cluster:
        cluster.start_all()
        leader = cluster.quorum_status("LeaderId")
        cluster.kill(*CONTROLLERS)
        left = next(node for node in CONTROLLERS if node != leader)
        lost = {node for node in CONTROLLERS if node != left}
        cluster.lose_disk(*lost)
        answer = _carry_out(cluster, cluster.capture("before", without=tuple(lost)), version, lost)
    assert [step["controllers"] for step in answer["steps"] if step["action"] == "mend_epoch"] == [[left]]


@pytest.mark.slow
@pytest.mark.parametrize("version", ["4.3.1", "3.9.1"])
def test_brokers_that_are_controllers_too_lost_the_disk_of_their_metadata(
    disks: Callable[..., Path], tmp_path: Path, version: str
) -> None:
    """All three were killed; two have their partitions, on other disks, and an empty one in place of metadata.log.dir."""
    kind: dict[str, Any] = {"is_dynamic": True, "is_apart": True}
    of = disks(version, **kind, roles=dict.fromkeys((0, 1, 2), "combined"))
    with QuorumCluster(of, tmp_path / "run", JARS[version], **kind) as cluster:
        cluster.start_all()
        leader = cluster.quorum_status("LeaderId")
        cluster.kill(0, 1, 2)
        left = (leader + 1) % 3
        lost = {0, 1, 2} - {left}
        for node in lost:
            shutil.rmtree(cluster.log_dirs(node)[0])
            cluster.log_dirs(node)[0].mkdir()
        answer = _carry_out(cluster, cluster.capture("before"), version, lost)
    assert (answer["choice"]["node_id"], answer["choice"]["role"]) == (left, "combined")


@pytest.mark.slow
@pytest.mark.parametrize("version", ["4.3.1", "3.9.1"])
def test_where_brokers_are_controllers_too_and_the_leader_has_a_hole_another_one_leads(
    disks: Callable[..., Path], tmp_path: Path, version: str
) -> None:
    """All three were killed: the one to lead is elected while another one votes as a controller only."""
    of = disks(version, is_dynamic=False, roles=dict.fromkeys((0, 1, 2), "combined"))
    with QuorumCluster(of, tmp_path / "run", JARS[version], is_dynamic=False) as cluster:
        cluster.start_all()
        for number in range(6):
            produce_values(cluster.bootstrap, "early", 0, [f"{number}-{one}" for one in range(5)])
        leader = cluster.leaders(["early"])["early", 0]
        assert leader is not None
        values = [one.value for one in received(cluster.bootstrap, "early", 0)]
        cluster.kill(0, 1, 2)
        cut_middle(cluster.log_dirs(leader)[0] / "early-0", 2)
        before, file = cluster.capture("before"), cluster.out / "plan.json"
        text = run("elect", str(before), "--up", "", "--kafka-version", version, "--plan", str(file))
        plan = json.loads(file.read_text())
        assert not plan["conflicts"] and plan["decisions"][0]["candidate_id"] != leader, text
        assert Operator(cluster, version, before).carry_out(text, plan) == [], text
        time.sleep(_SETTLE_SECONDS)
        place = ("--bootstrap-server", cluster.bootstrap, "--topic", "early", "--partition", "0")
        cluster.tool("kafka-leader-election", *place, "--election-type", "preferred")
        assert [one.value for one in received(cluster.bootstrap, "early", 0)] == values
        assert sorted(cluster.up) == [0, 1, 2] and not cluster.behind()


@pytest.mark.slow
@pytest.mark.parametrize(("version", "is_dynamic"), [("4.3.1", False), ("3.9.1", True)])
def test_brokers_that_are_controllers_too_lost_all_their_disks(
    disks: Callable[..., Path], tmp_path: Path, version: str, is_dynamic: bool
) -> None:
    """Two of three. By the log their empty replicas are in sync: one led, and the third was cut to nothing (3.9.1)."""
    of = disks(version, is_dynamic=is_dynamic, roles=dict.fromkeys((0, 1, 2), "combined"))
    with QuorumCluster(of, tmp_path / "run", JARS[version], is_dynamic=is_dynamic) as cluster:
        cluster.start_all()
        cluster.kill(0, 1, 2)
        cluster.lose_disk(1, 2)
        before, file = cluster.capture("before", without=(1, 2)), cluster.out / "plan.json"
        text = run("quorum", str(before), "--plan", str(file), "--kafka-version", version)
        operator = QuorumOperator(cluster, version, before, has_no_order=True)
        assert operator.carry_out(text, json.loads(file.read_text())) == [], text
        assert topics_of(cluster) == {("early", 0): 0, ("late", 0): 0}
        for topic in ("early", "late"):
            produce_values(cluster.bootstrap, topic, 0, ["after"])
            values = [one.value.decode() for one in received(cluster.bootstrap, topic, 0)]
            assert values == [*(f"{topic}-{number}" for number in range(5)), "after"]
        again = run_json("quorum", str(operator.after))
    assert again["verdict"] == "agree" and not again["steps"], again["reason"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("version", "removed"), [("4.3.1", (102,)), ("3.9.1", (102,)), ("4.3.1", (102, 101))], ids=["4.3.1", "3.9.1", "two"]
)
def test_voters_of_before_would_elect_among_themselves(
    disks: Callable[..., Path], tmp_path: Path, version: str, removed: tuple[int, ...]
) -> None:
    """By the logs that 101 and 102 have they are two of three voters; the others have the record that removed one of them, or both."""
    of = disks(version, is_dynamic=True)
    with QuorumCluster(of, tmp_path / "run", JARS[version], is_dynamic=True) as cluster:
        cluster.start_all()
        cluster.quorum_status("LeaderEpoch")
        for node in removed:
            named = ("--controller-id", str(node), "--controller-directory-id", cluster.directory_id(node))
            cluster.change_quorum("kafka-metadata-quorum", "remove-controller", *named)
            time.sleep(_SETTLE_SECONDS)
        cluster.kill(*CONTROLLERS)
        cluster.restore_backup(of, 101, 102)
        answer = _carry_out(cluster, cluster.capture("before"), version, {101, 102})
        left = [node for node in CONTROLLERS if node not in removed]
        assert cluster.quorum_status("LeaderId") in left
    assert (answer["choice"]["node_id"], answer["voters"]) == (100, left)


@pytest.mark.slow
@pytest.mark.parametrize("version", ["4.3.1", "3.9.1"])
def test_the_only_controller_left_was_removed_from_the_voters(
    disks: Callable[..., Path], tmp_path: Path, version: str
) -> None:
    """Its disk, from before topic late, is found; by that it is a voter still, and fetches all anew. Both voters lost theirs, and brokers
    run on and have everything.
    """
    of = disks(version, is_dynamic=True)
    with QuorumCluster(of, tmp_path / "run", JARS[version], is_dynamic=True) as cluster:
        cluster.start_all()
        cluster.quorum_status("LeaderEpoch")
        named = ("--controller-id", "102", "--controller-directory-id", cluster.directory_id(102))
        cluster.change_quorum("kafka-metadata-quorum", "remove-controller", *named)
        time.sleep(_SETTLE_SECONDS)
        cluster.kill(*CONTROLLERS)
        cluster.lose_disk(100, 101)
        cluster.restore_backup(of, 102)
        answer = _carry_out(cluster, cluster.capture("before", without=(100, 101)), version, {100, 101, 102})
    assert answer["choice"]["node_id"] in BROKERS and answer["voters"] == [100, 101]


@pytest.mark.slow
def test_three_of_five_voters_lost_their_disks(disks: Callable[..., Path], tmp_path: Path) -> None:
    """The leader too, whom both that are left have noted (D6)."""
    roles = {**dict.fromkeys(range(100, 105), "controller"), **dict.fromkeys(BROKERS, "broker")}
    of = disks("4.3.1", is_dynamic=False, roles=roles)
    with QuorumCluster(of, tmp_path / "run", JARS["4.3.1"], is_dynamic=False) as cluster:
        cluster.start_all()
        leader = cluster.quorum_status("LeaderId")
        cluster.kill(*cluster.controllers)
        others = [node for node in cluster.controllers if node != leader]
        lost = {leader, *others[:2]}
        cluster.lose_disk(*lost)
        answer = _carry_out(cluster, cluster.capture("before", without=tuple(lost)), "4.3.1", lost)
    assert [step["controllers"] for step in answer["steps"] if step["action"] == "mend_epoch"] == [
        [node] for node in others[2:]
    ]


@pytest.mark.slow
def test_the_only_voter_was_formatted_standalone(disks: Callable[..., Path], tmp_path: Path) -> None:
    roles = {100: "controller", **dict.fromkeys(BROKERS, "broker")}
    of = disks("4.3.1", is_dynamic=True, roles=roles)
    with QuorumCluster(of, tmp_path / "run", JARS["4.3.1"], is_dynamic=True) as cluster:
        cluster.start_all()
        cluster.kill(100)
        cluster.lose_disk(100)
        cluster.format(100, "--standalone")
        answer = _carry_out(cluster, cluster.capture("before"), "4.3.1", {100})
    assert answer["choice"]["node_id"] in BROKERS


@pytest.mark.slow
@pytest.mark.parametrize("version", ["4.3.1", "3.9.1"])
def test_nodes_whose_quorum_state_a_loss_of_power_left_empty(
    disks: Callable[..., Path], tmp_path: Path, version: str
) -> None:
    """No node starts with such a one, brokers neither."""
    of = disks(version, is_dynamic=False)
    with QuorumCluster(of, tmp_path / "run", JARS[version], is_dynamic=False) as cluster:
        cluster.start_all()
        cluster.kill(*CONTROLLERS, *BROKERS)
        for node in (100, 101, 0):
            (cluster.metadata_log(node) / "quorum-state").write_text("")
        cluster.launch(100)
        cluster.await_end(100)
        answer = _carry_out(cluster, cluster.capture("before"), version, {100, 101})
    assert [step["brokers"] for step in answer["steps"] if step["action"] == "empty"] == [[0]]


@pytest.mark.slow
def test_a_quorum_that_became_dynamic_since_the_backup_of_a_voter(disks: Callable[..., Path], tmp_path: Path) -> None:
    """The log of the only whole voter knows them by directories since kraft.version 1, that of the stale one by ids."""
    of = disks("4.3.1", is_dynamic=False)
    with QuorumCluster(of, tmp_path / "run", JARS["4.3.1"], is_dynamic=False) as cluster:
        cluster.is_moving = True
        cluster.write_properties()
        cluster.start_all()
        cluster.quorum_status("LeaderEpoch")
        cluster.change_quorum("kafka-features", "upgrade", "--feature", "kraft.version=1")
        time.sleep(_SETTLE_SECONDS)
        cluster.kill(*CONTROLLERS, *BROKERS)
        cluster.is_dynamic = True
        cluster.write_properties()
        cluster.restore_backup(of, 102)
        cluster.lose_disk(101)
        answer = _carry_out(cluster, cluster.capture("before", without=(101,)), "4.3.1", {101, 102})
        assert cluster.quorum_status("LeaderEpoch")
    assert answer["is_dynamic"] and answer["voters"] == list(CONTROLLERS)


@pytest.mark.slow
def test_a_follower_alone_has_what_the_leader_lost_with_its_power(disks: Callable[..., Path], tmp_path: Path) -> None:
    """Q11: a change of configuration, which no file of a broker shows; the leader, the third voter and both brokers lost their ends."""
    of = disks("4.3.1", is_dynamic=False)
    with QuorumCluster(of, tmp_path / "run", JARS["4.3.1"], is_dynamic=False) as cluster:
        cluster.start_all()
        leader = cluster.quorum_status("LeaderId")
        before = {
            node: next(iter(cluster.metadata_log(node).glob("*.log"))).stat().st_size for node in cluster.directories
        }
        place = ("--bootstrap-server", cluster.bootstrap, "--entity-type", "topics", "--entity-name", "late")
        status, text = cluster.tool("kafka-configs", *place, "--alter", "--add-config", "max.message.bytes=2000000")
        assert status == 0, text
        time.sleep(_SETTLE_SECONDS)
        cluster.kill(*CONTROLLERS, *BROKERS)
        left = next(node for node in CONTROLLERS if node != leader)
        for node in before.keys() - {left}:
            with next(iter(cluster.metadata_log(node).glob("*.log"))).open("r+b") as stream:
                stream.truncate(before[node])
        answer = _carry_out(cluster, cluster.capture("before"), "4.3.1", set(CONTROLLERS) - {left})
        assert "max.message.bytes=2000000" in cluster.tool("kafka-configs", *place, "--describe")[1]
    assert answer["choice"]["node_id"] == left


@pytest.mark.slow
@pytest.mark.parametrize("version", ["4.3.1", "3.9.1"])
def test_where_no_log_is_right_a_stale_one_is_gone_on_with(
    disks: Callable[..., Path], tmp_path: Path, version: str
) -> None:
    """Q10, Q13: nobody's metadata log knows topic late, later leader epochs of early-0, or the ids of its producers."""
    of = disks(version, is_dynamic=False)
    with QuorumCluster(of, tmp_path / "run", JARS[version], is_dynamic=False) as cluster:
        cluster.start_all()
        values = [*(f"early-{number}" for number in range(5)), *_produce_from_new_blocks(cluster, "before")]
        cluster.stop(*BROKERS)
        cluster.kill(*CONTROLLERS)
        for broker in BROKERS:
            shutil.rmtree(cluster.metadata_log(broker))
        cluster.restore_backup(of, *CONTROLLERS)
        before, file = cluster.capture("before"), cluster.out / "plan.json"
        told = " ".join(run("quorum", str(before), status=1).split())
        # Those of backups end where they were copied.
        node = re.search(r"quorum --choose (\d+) has the plan", told)[1]
        text = run("quorum", str(before), "--choose", node, "--plan", str(file), "--kafka-version", version)
        answer = json.loads(file.read_text())
        assert {(one["topic"], one["records"]) for one in answer["lost"]["stray"]} == {("late", 5)}
        operator = QuorumOperator(cluster, version, before)
        assert operator.carry_out(text, answer) == [], text
        assert {f"broker-{broker}-given-up.tgz" for broker in BROKERS} <= {one.name for one in operator.home.iterdir()}
        _await_in_sync(cluster)
        values += _produce_from_new_blocks(cluster, "after")
        assert [one.value.decode() for one in received(cluster.bootstrap, "early", 0)] == values
        cluster.stop(cluster.leaders(("early",))["early", 0])
        assert [one.value.decode() for one in received(cluster.bootstrap, "early", 0)] == values


def _produce_from_new_blocks(cluster: QuorumCluster, name: str) -> list[str]:
    """Values of records of which each is of a new producer: a broker that was started anew gives out ids of a new block."""
    values = [f"{name}-{number}" for number in range(2 * len(BROKERS))]
    for broker, value in zip(BROKERS * 2, values, strict=True):
        cluster.stop(broker)
        cluster.start(broker)
        _await_in_sync(cluster)
        produce_values(cluster.bootstrap, "early", 0, [value])
    return values


def _await_in_sync(cluster: QuorumCluster) -> None:
    """Wait until both brokers are in the ISR."""
    cluster.await_followers(120)
    assert not cluster.behind()
