"""Partition state as ZooKeeper had it, in every shape that a user may save it in."""

from __future__ import annotations

import json
import shutil

import pytest
from tests.support.captures import FIXTURES, audit_capture, truth

from replica_audit.errors import FormatError
from replica_audit.snapshot.discovery import discover
from replica_audit.snapshot.leadership_rows import leadership_of_rows, state_rows
from replica_audit.snapshot.storage import Snapshot
from replica_audit.snapshot.zookeeper import parse_zookeeper

STATE = {"controller_epoch": 7, "leader": 1, "version": 1, "leader_epoch": 12, "isr": [2, 1]}
TOPIC = {
    "version": 3,
    "topic_id": "abc",
    "partitions": {"0": [1, 2, 3]},
    "adding_replicas": {},
    "removing_replicas": {},
}
CONFIG = {"version": 1, "config": {"min.insync.replicas": "2"}}


def parse(content):
    return parse_zookeeper(json.dumps(content), "zookeeper.json")


@pytest.mark.parametrize(
    "content",
    [
        {"/brokers/topics/a-b/partitions/0/state": STATE},
        {"/chroot/brokers/topics/a-b/partitions/0/state": json.dumps(STATE), "/controller": "whatever", "/admin": None},
        {"a-b-0": STATE},
        [{"path": "/brokers/topics/a-b/partitions/0/state", "data": json.dumps(STATE)}],
        [{"topic": "a-b", "partition": 0, "state": STATE}],
        [{"topic": "a-b", "partition": 0, **STATE}],
    ],
)
def test_every_shape_says_the_same(content):
    (found,) = parse(content)
    assert (found.topic, found.partition, found.source) == ("a-b", 0, "zookeeper")
    assert (found.leader_id, found.leader_epoch, found.isr, found.replicas) == (1, 12, (1, 2), None)


def test_topics_and_configs_complete_the_state():
    names = {"/brokers/topics/t/partitions/0/state": STATE, "/brokers/topics/t": TOPIC, "/config/topics/t": CONFIG}
    (found,) = parse(names)
    assert (found.replicas, found.topic_id, found.configs) == ((1, 2, 3), "abc", {"min.insync.replicas": "2"})
    assert found.inherits_unclean is True and parse({"t-0": STATE})[0].inherits_unclean is None
    assert leadership_of_rows(state_rows(found)) == found


def test_a_leader_of_minus_one_is_no_leader():
    (found,) = parse({"t-0": {**STATE, "leader": -1, "isr": []}})
    assert found.leader_id is None and found.isr == ()


@pytest.mark.parametrize(
    "content",
    [
        3,
        {"no partition": STATE},
        {"t-0": "no json"},
        {"t-0": []},
        {"t-0": {**STATE, "leader": None}},
        {"t-0": {**STATE, "leader": True}},
        {"t-0": {**STATE, "isr": "1,2"}},
        {"t-0": {**STATE, "isr": [1.5]}},
        [{"topic": "t"}],
        ["t"],
    ],
)
def test_anything_else_is_an_error_that_says_where(content):
    with pytest.raises(FormatError, match="zookeeper.json: expected .* found"):
        parse(content)


CAPTURES = [
    name for name in ("kip101-isr-2-truncated", "kip279-1-before", "zk-2.8-diverged-unclean", "old-silent-2-healed")
]


@pytest.mark.parametrize("capture", CAPTURES)
def test_the_state_of_a_capture_goes_before_its_listing_and_agrees_with_it(capture, tmp_path):
    shutil.copytree(FIXTURES / capture, tmp_path, dirs_exist_ok=True)
    states = truth(capture)["zookeeper_partition_states"]
    (tmp_path / "zookeeper.json").write_text(json.dumps(states))
    inventory = discover(Snapshot.open(tmp_path))
    assert inventory.counts["zookeeper"] == 1 and "zookeeper.json" in inventory.leadership_files
    for name, state in states.items():
        topic, _, partition = name.rpartition("-")
        told = {
            one.source: one for one in inventory.leaderships if (one.topic, one.partition) == (topic, int(partition))
        }
        by_listing, by_zookeeper = told["topics_describe"], told["zookeeper"]
        assert (by_zookeeper.leader_id, by_zookeeper.isr) == (by_listing.leader_id, by_listing.isr)
        assert by_zookeeper.leader_epoch == state["leader_epoch"]
        assert (by_zookeeper.replicas, by_zookeeper.configs) == (by_listing.replicas, by_listing.configs)
        rows = [row for one in told.values() for row in state_rows(one)]
        assert leadership_of_rows(rows) == by_zookeeper
    with_listing = audit_capture(capture)
    assert {row["source"] for one in with_listing.values() for row in one.rows("partition_states")} == {
        "topics_describe"
    }


def test_a_file_that_cannot_be_read_is_told(tmp_path):
    (tmp_path / "zookeeper.json").write_text("{")
    (row,) = discover(Snapshot.open(tmp_path)).quarantine
    assert row.code == "CAP-UNREADABLE" and row.path == "zookeeper.json"
