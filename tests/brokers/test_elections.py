"""`elect` on real brokers: the plan of every candidate carried out by its own commands, and `verify --plan` afterwards.

A cluster is started from a capture's directories with the brokers that ran then. RECORD=yes writes what was seen to
elections_seen.json and groups_seen.json, which tests/verify compares with what plans predict.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.brokers.captured_cluster import JARS
from tests.brokers.carrying_out import PUT_BACK, Operator
from tests.brokers.elections_seen import brokers_up, entry, record, recorded
from tests.brokers.group_offsets import commit, commit_with_epochs, described, first_read, read_all
from tests.brokers.groups_seen import group_entries, record_groups, recorded_groups
from tests.brokers.steered_cluster import SETTLE_SECONDS
from tests.brokers.steered_zookeeper import cluster_of
from tests.support.fixtures import truth

from replica_audit.config import Settings
from replica_audit.elect.plan_model import parse_plan
from replica_audit.runner.in_process import audit_all
from replica_audit.verify.verification import verify_snapshots

pytestmark = [pytest.mark.brokers, pytest.mark.timeout(1200)]

#: What test_printed_plans does not have quickly; the others of CASES are left to `make test-brokers`.
QUICK = {("elr-leaderless", 1)}
CASES = [
    pytest.param(capture, candidate, marks=() if (capture, candidate) in QUICK else pytest.mark.slow)
    for capture, candidates in {
        "diverged-unclean": (0, 1, 2),
        "elr-leaderless": (0, 1, 2),
        "last-replica-elr-2-cut": (0, 1, 2),
        "last-replica-standing-2-cut": (0, 1, 2),
        "quorum3-1-unclean": (0, 1, 2),
        "txn-failover-1-unclean": (0, 1, 2),
        "kafka-3.9-diverged-unclean": (0, 1, 2),
        "zk-2.8-diverged-unclean": (0, 1, 2),
    }.items()
    for candidate in candidates
]


@pytest.mark.parametrize(("capture", "candidate"), CASES)
def test_what_a_plan_predicts_is_what_happens(capture: str, candidate: int, tmp_path: Path) -> None:
    kafka, up = truth(capture)["kafka"], brokers_up(capture)
    jars = JARS[kafka]
    assert jars.is_dir(), f"{jars}: make test-brokers brings the JARs"
    topics = sorted(truth(capture)["topics"])
    with cluster_of(capture, tmp_path / "run", jars) as cluster:
        cluster.start_all(*up)
        before = cluster.snapshot("before")
        text, plan = _elect(before, tmp_path / "plan.json", candidate, kafka, up, topics)
        assert Operator(cluster, kafka, before).carry_out(text, plan, without=PUT_BACK) == []
        time.sleep(SETTLE_SECONDS)
        after = cluster.snapshot("after")
    found = verify_snapshots(
        str(before), str(after), Settings(topics=tuple(topics), kafka_version=kafka), plan=parse_plan(plan)
    )
    seen = entry(capture, kafka, candidate, up, found)
    if os.environ.get("RECORD") == "yes":
        record(seen)
    assert found.surprises == []
    assert [one for one in recorded() if one["capture"] == capture and one["candidate"] == candidate] == [seen]


#: Of each group the offsets that the tool commits, by partition: below where the logs part, between, and at the end.
COMMITTED = {"below": (20, 20, 20), "between": (45, 50, 40), "at-end": (52, 70, 50)}
#: What a group committed that read the log of broker 0 while that led, and the epochs of what it read last.
BEFORE_FAILOVER = (45, 58, 72), (0, 1, 1)


@pytest.mark.slow
@pytest.mark.parametrize("candidate", [0, 1])
def test_groups_stand_where_a_plan_says(candidate: int, tmp_path: Path) -> None:
    """Groups of a tool, which commits no epochs, and of consumers of either log, which do."""
    capture, topic = "diverged-unclean", "ledger"
    kafka, up = truth(capture)["kafka"], brokers_up(capture)
    with cluster_of(capture, tmp_path / "run", JARS[kafka]) as cluster:
        cluster.start_all(*up)
        read_all(cluster, "java-reader", topic)
        for group, offsets in COMMITTED.items():
            commit(cluster, group, topic, offsets)
        commit_with_epochs(cluster, "before-failover", topic, *BEFORE_FAILOVER)
        before = cluster.snapshot("before")
        text, plan = _elect(before, tmp_path / "plan.json", candidate, kafka, up, [topic])
        assert Operator(cluster, kafka, before).carry_out(text, plan, without=(*PUT_BACK, "reset_offsets")) == []
        time.sleep(SETTLE_SECONDS)
        after = cluster.snapshot("after")
        standing = described(cluster)
        read = {group: first_read(cluster, group, topic) for group in (*COMMITTED, "before-failover", "java-reader")}
    settings = Settings(topics=(topic,), kafka_version=kafka)
    sides = [audit_all(str(side), settings) for side in (before, after)]
    seen = {
        "capture": capture,
        "kafka": kafka,
        "candidate": candidate,
        "up": up,
        "hits": {str(one["partition"]): _hits(one) for one in plan["decisions"]},
        **group_entries(*sides, standing, read),
    }
    if os.environ.get("RECORD") == "yes":
        record_groups(seen)
    assert [one for one in recorded_groups() if one["candidate"] == candidate] == [seen]


@pytest.mark.slow
def test_groups_that_a_plan_sets_back_skip_nothing(tmp_path: Path) -> None:
    """Broker 0 is elected uncleanly: groups that had read on in the log of broker 1 begin where the logs part."""
    capture, topic = "diverged-unclean", "ledger"
    kafka, up = truth(capture)["kafka"], brokers_up(capture)
    with cluster_of(capture, tmp_path / "run", JARS[kafka]) as cluster:
        cluster.start_all(*up)
        for group, offsets in COMMITTED.items():
            commit(cluster, group, topic, offsets)
        before = cluster.snapshot("before")
        text, plan = _elect(before, tmp_path / "plan.json", 0, kafka, up, [topic])
        assert Operator(cluster, kafka, before).carry_out(text, plan, without=PUT_BACK) == []
        time.sleep(SETTLE_SECONDS)
        read = {group: first_read(cluster, group, topic) for group in COMMITTED}
    (step,) = (one for one in plan["steps"] if one["action"] == "reset_offsets")
    found = (re.search(r"--group=(\S+) --topic=ledger:(\d) --to-offset (\d+)$", one) for one in step["commands"])
    ends = {(one[1], int(one[2])): int(one[3]) for one in found}
    assert len(ends) == sum(map(_hits, plan["decisions"])) > 0
    committed = {(group, number): offset for group, some in COMMITTED.items() for number, offset in enumerate(some)}
    assert all(ends[place] < committed[place] for place in ends)
    started = {(group, number): offset for group, some in read.items() for number, offset in some.items()}
    assert started == {place: ends.get(place, offset) for place, offset in committed.items() if place in started}
    assert ends.keys() <= started.keys()


def _hits(decision: dict) -> int:
    """How many groups a plan says its choice hits in one partition."""
    (chosen,) = (one for one in decision["candidates"] if one["candidate_id"] == decision["candidate_id"])
    return chosen["groups_hit"]


def _elect(before: Path, file: Path, candidate: int, kafka: str, up: list[int], topics: list[str]) -> tuple[str, dict]:
    """Output of the command and its plan.json, as an operator makes it."""
    command = [
        sys.executable,
        "-c",
        "from replica_audit.cli.main import entry_point; entry_point()",
        "elect",
        str(before),
    ]
    command += [
        "--candidate",
        str(candidate),
        "--kafka-version",
        kafka,
        "--up",
        ",".join(map(str, up)),
        "--plan",
        str(file),
    ]
    command += [word for topic in topics for word in ("--topic", topic)]
    made = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert file.exists(), made.stderr
    return made.stdout, json.loads(file.read_text())
