"""The step that copies contradicting metadata logs has a command for every node whose copy may be the right one."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
from tests.support import metadata_log as write
from tests.support.controllers import APPLIED, BEGIN, LATE, TOPIC_ID, VOTERS, moved
from tests.support.encoder import Record, encode_batch
from tests.support.fixtures import ATTACKS
from tests.support.metadata_log import MetadataLog
from tests.support.snapshots import Replica, write_snapshot

from replica_audit.config import Settings
from replica_audit.elect.election_plan import advise, plan_elections
from replica_audit.elect.plan_model import Step, plan_object
from replica_audit.report.plan_text import render_plan
from replica_audit.report.show_text import render_summary
from replica_audit.results import Results
from replica_audit.runner.in_process import audit_all

FORKED = sorted((ATTACKS / "13-forked-metadata").iterdir())


def step_of(results: Results) -> Step:
    """The one that copies metadata logs: the plan begins with it."""
    first, *others = advise(results).steps
    assert first.action == "copy" and not [one for one in others if "__cluster_metadata" in one.text]
    return first


def copied_nodes(step: Step) -> list[int]:
    """Nodes that the commands copy."""
    return [int(found) for one in step.commands for found in re.findall(r" LOG_DIR_OF_(\d+) ", one)]


def forked(path: Path, *, voters: tuple[int, ...] = VOTERS, captured: tuple[int, ...] = VOTERS) -> Results:
    """Voters that were seeded from one stale disk, of which some were captured; brokers 1 and 2 know topic late."""
    begin = write.leader_change(0, voters[0], voters) + BEGIN[len(write.leader_change(0, 100, VOTERS)) :]
    seeded = begin + write.leader_change(3, voters[1], voters, epoch=2) + moved(4, 1, 2)
    logs = {**dict.fromkeys(captured, seeded), **dict.fromkeys((1, 2), begin + LATE)}
    return audit_all(str(write_snapshot(path, {2: APPLIED}, metadata=logs)), Settings())


@pytest.mark.parametrize("capture", FORKED)
def test_the_commands_carried_out_keep_every_copy(tmp_path, capture):
    """Run by bash on the captured directories; what they keep is audited like the whole."""
    results = audit_all(str(capture), Settings())
    step = step_of(results)
    directories = {int(path.name.rpartition("-")[2]): path for path in capture.iterdir()}
    assert copied_nodes(step) == sorted(directories)
    for command in step.commands:
        said = re.sub(r"LOG_DIR_OF_(\d+)", lambda found: str(directories[int(found[1])]), command)
        subprocess.run(["bash", "-ec", said], cwd=tmp_path, check=True)
    archives = sorted(path.name for path in tmp_path.iterdir())
    assert archives == sorted(f"{path.name}.tgz" for path in directories.values())
    for archive in archives:
        kept = tmp_path / "kept" / archive.removesuffix(".tgz")
        kept.mkdir(parents=True)
        subprocess.run(["tar", "-xzf", tmp_path / archive, "-C", kept], check=True)
    (reason,) = [row["reason"] for row in results.rows("quarantine") if row["code"] == "META-FORK"]
    (again,) = [
        row["reason"]
        for row in audit_all(str(tmp_path / "kept"), Settings()).rows("quarantine")
        if row["code"] == "META-FORK"
    ]
    assert again.partition(": ")[0] == reason.partition(": ")[0], "node ids and records are in the copies"


@pytest.mark.parametrize(
    ("voters", "captured"),
    [
        (VOTERS, VOTERS),
        (VOTERS, (100,)),
        (VOTERS, (101, 102)),
        ((100, 101, 102, 103, 104), (100, 104)),
        ((2, 100, 101), (100, 101)),  # broker 2 is a controller too
    ],
)
def test_a_command_for_every_voter_captured_or_not_and_every_broker(tmp_path, voters, captured):
    results = forked(tmp_path / "snapshot", voters=voters, captured=captured)
    step = step_of(results)
    assert copied_nodes(step) == sorted({1, 2, *voters})
    assert step.brokers == (1, 2)
    assert step.controllers == tuple(sorted({*voters} - {1, 2}))
    for node, command in zip(copied_nodes(step), step.commands, strict=True):
        kind = "controller" if node in step.controllers else "broker"
        assert command.startswith(f"tar -czf {kind}-{node}.tgz -C LOG_DIR_OF_{node} -- ")
    planned = json.loads(json.dumps(plan_object(advise(results))))["steps"][0]
    assert planned["controllers"] == list(step.controllers) and planned["commands"] == list(step.commands)
    for text in (render_summary(results), render_plan(advise(results))):
        said = " ".join(text.replace("\\\n", "").split())
        assert all(command in said for command in step.commands)


def without_power(path: Path, **logs: bytes | None) -> Results:
    """A site that lost power: in a partition that brokers 1 and 2 had in sync, 2 lost the end of its log; `logs` are of controllers."""
    whole = [encode_batch(offset, [Record(None, b"1")], 0) for offset in range(3)]
    held = {
        broker: Replica(whole[:kept], topic="t", topic_id=TOPIC_ID, recovery_point=3, high_watermark=3)
        for broker, kept in ((1, 3), (2, 2))
    }
    own = {node: logs.get(f"of_{node}", BEGIN) for node in VOTERS}
    metadata = {
        node: MetadataLog({0: one}, voters=VOTERS, leader_epoch=1) for node, one in own.items() if one is not None
    }
    return audit_all(str(write_snapshot(path, held, metadata={**metadata, 1: BEGIN, 2: BEGIN})), Settings())


def test_it_is_said_first_whose_the_disks_of_controllers_are(tmp_path: Path) -> None:
    """Neither of the two starts with the other's, and the plan would wait for a leader for ever."""
    without_power(tmp_path)
    one, two, between = (tmp_path / name for name in ("controller-100", "controller-101", "between"))
    for source, target in ((one, between), (two, one), (between, two)):
        source.rename(target)
    results = audit_all(str(tmp_path), Settings())
    first, *rest = plan_elections(results, up=()).steps
    assert (first.action, first.controllers, first.brokers) == ("check_disks", (100, 101), ()), first
    assert "check that nodes 100 and 101 have their own disks" in first.text
    assert "controller-100 in this snapshot is of node 101" in first.text
    assert any(step.controllers == VOTERS for step in rest if step.action == "start")
    # Where the plan starts no controller they are left alone.
    steps = plan_elections(results, up=(1, 2)).steps
    assert not [step for step in steps if step.controllers], steps


def test_controllers_are_started_before_the_first_broker(tmp_path: Path) -> None:
    """Where somebody is up, and nothing says that a controller is down, they are left alone."""
    results = without_power(tmp_path)
    steps = [step for step in plan_elections(results, up=()).steps if step.action in ("start", "elect", "check")]
    assert (steps[0].controllers, steps[0].brokers, steps[1].action) == (VOTERS, (), "check")
    assert "kafka-server-start.sh -daemon SERVER_PROPERTIES_OF_101" in steps[0].commands
    (room,) = steps[0].before
    assert room.startswith("There is room on the disk with the metadata log of controllers 100, 101 and 102"), room
    assert "describe --status" in steps[1].commands[0] and steps[2].brokers == (1,)
    assert "The controllers have a leader" in steps[2].before
    some_up = plan_elections(results, up=(2,)).steps
    assert not any(step.action == "start" and step.controllers for step in some_up)


@pytest.mark.parametrize(("blank", "captured"), [(b"", True), (None, True), (None, False)])
def test_where_too_few_controllers_can_vote_quorum_comes_first(
    tmp_path: Path, blank: bytes | None, captured: bool
) -> None:
    """Disks of two of three that were formatted anew; controllers that were only not captured are not taken for lost."""
    for node in (101, 102) if captured and blank is None else ():
        (tmp_path / f"controller-{node}").mkdir(parents=True)
        (tmp_path / f"controller-{node}/meta.properties").write_text(f"version=1\nnode.id={node}\n")
    results = without_power(tmp_path, of_101=blank, of_102=blank)
    plan = plan_elections(results, up=())
    start = next(step for step in plan.steps if step.action == "start")
    assert start.controllers == VOTERS
    if not captured:
        assert len(start.before) == 1 and "quorum" not in render_plan(plan).replace("metadata-quorum", "")
        return
    assert plan.steps[0].action == "copy" and copied_nodes(plan.steps[0]) == [1, 2, *VOTERS]
    assert (
        "controllers 101 and 102 have no metadata log to vote with, and without them there is no majority"
        in plan.steps[0].text
    )
    assert (
        "The plan of replica-audit quorum BEFORE is carried out up to the step that starts brokers" in start.before[0]
    )
    said = " ".join(render_summary(results).split())
    assert "Do first 1. Start no controller and no broker" in said and "replica-audit quorum SNAPSHOT" in said
