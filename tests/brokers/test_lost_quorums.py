"""A lost quorum brought back by a plan of `quorum`, carried out by bash from nothing but the text that it prints.

Afterwards both topics are led, producers are acknowledged by all in sync, brokers that were up are still the same processes,
and a second snapshot has nothing to decide.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.brokers.clients import produce_values, received, run, run_json
from tests.brokers.quorum_cluster import BROKERS, CONTROLLERS, QuorumCluster, QuorumOperator, make_disks, topics_of
from tests.brokers.test_elections import JARS

pytestmark = [pytest.mark.brokers, pytest.mark.timeout(1200)]

_SETTLE_SECONDS = 15


@pytest.fixture(scope="module")
def disks(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """The disks of a sound cluster, static or dynamic, made once."""
    made: dict[tuple[str, bool], Path] = {}

    def of(version: str, *, is_dynamic: bool) -> Path:
        key = version, is_dynamic
        if key not in made:
            made[key] = make_disks(tmp_path_factory.mktemp("disks"), JARS[version], is_dynamic=is_dynamic)
        return made[key]

    return of


def _lose(cluster: QuorumCluster, disks: Path, lost: tuple[int, ...], stale: bool, blank: tuple[int, ...] = ()) -> None:
    """The cluster as it runs, then all controllers killed and disks changed; brokers stay up."""
    cluster.start_all()
    cluster.kill(*CONTROLLERS)
    cluster.lose_disk(*lost)
    if stale:
        shutil.rmtree(cluster.directories[102])
        shutil.copytree(disks / "stale-102", cluster.directories[102])
    for node in blank:
        cluster.lose_disk(node)
        cluster.format(node, *(("--no-initial-controllers",) if cluster.is_dynamic else ()))


def _carry_out(cluster: QuorumCluster, before: Path, version: str, seeds: set[int]) -> dict[str, Any]:
    pids = {node: cluster.pid(node) for node in cluster.up}
    file = cluster.out / "plan.json"
    text = run("quorum", str(before), "--plan", str(file), "--kafka-version", version)
    answer = json.loads(file.read_text())
    assert answer["verdict"] == "choose", text
    assert {step["controllers"][0] for step in answer["steps"] if step["action"] in ("seed", "empty")} == seeds
    assert run("quorum", str(before), "--check", str(file)).startswith("Nothing has moved")
    operator = QuorumOperator(cluster, version, before)
    assert operator.carry_out(text, answer) == [], text
    assert set(topics_of(cluster)) == {("early", 0), ("late", 0)} and None not in topics_of(cluster).values()
    for topic in ("early", "late"):
        produce_values(cluster.bootstrap, topic, 0, ["after"])
        assert [one.value.decode() for one in received(cluster.bootstrap, topic, 0)] == [
            *(f"{topic}-{number}" for number in range(5)),
            "after",
        ]
    assert {node: cluster.pid(node) for node in cluster.up if node in pids} == pids
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
        cluster.start_all()
        cluster.kill(102)
        cluster.lose_disk(102)
        cluster.format(102, "--standalone")
        cluster.launch(102)
        time.sleep(_SETTLE_SECONDS)
        before = cluster.capture("before")
        answer = _carry_out(cluster, before, "4.3.1", {102})
    assert next(one for one in answer["copies"] if one["node_id"] == 102)["parts_at"] is not None


@pytest.mark.slow
def test_a_voter_formatted_anew_is_put_into_its_old_place(disks: Callable[..., Path], tmp_path: Path) -> None:
    """D4a: removed, then added from the directory that it has now."""
    of = disks("4.3.1", is_dynamic=True)
    with QuorumCluster(of, tmp_path / "run", JARS["4.3.1"], is_dynamic=True) as cluster:
        cluster.start_all()
        cluster.kill(102)
        cluster.lose_disk(102)
        cluster.format(102, "--no-initial-controllers")
        cluster.launch(102)
        time.sleep(_SETTLE_SECONDS)
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
            file = cluster.directories[node] / "__cluster_metadata-0" / "quorum-state"
            state = json.loads(file.read_text())
            file.write_text(json.dumps({**state, "leaderEpoch": state["leaderEpoch"] + 5}))
        cluster.lose_disk(100, 101)
        shutil.rmtree(cluster.directories[102])
        shutil.copytree(of / "stale-102", cluster.directories[102])
        answer = _carry_out(cluster, cluster.capture("before", without=(100, 101)), "4.3.1", set(CONTROLLERS))
    written = [json.loads(text)["leaderEpoch"] for step in answer["steps"] for text in step["files"].values()]
    assert written == [state["leaderEpoch"] + 5] * 3
