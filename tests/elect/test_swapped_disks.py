"""Directories of a snapshot that are named for another broker than their meta.properties says: as where disks were swapped."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support import metadata_log as write
from tests.support.fixtures import FIXTURES
from tests.support.scenario import audit, written
from tests.support.snapshots import TOPIC, TOPIC_ID, Listed, Replica, make_uuid, write_log_dir, write_snapshot

from replica_audit.config import Settings
from replica_audit.elect.election_plan import plan_elections
from replica_audit.elect.plan_model import Plan
from replica_audit.model import TopicPartition
from replica_audit.report.what_to_do import tell_what_to_do
from replica_audit.results import Results
from replica_audit.runner.in_process import audit_all
from replica_audit.snapshot.inventory import LogDir
from replica_audit.snapshot.log_dirs import misnamed
from replica_audit.snapshot.storage import Snapshot

BEHIND = Replica(written(0, 50, 0))
WHOLE = Replica(written(0, 60, 0))


def audit_named(path: Path, names: dict[int, str], *, leader: int | None = None) -> tuple[Results, Plan]:
    """Brokers 1, 2 (in sync, with more records) and 3, each in the directory with that name."""
    for broker, name in names.items():
        write_log_dir(path / name, broker, [WHOLE if broker == 2 else BEHIND])
    write_snapshot(path, {}, [Listed(leader, (1, 2, 3), (2,))])
    found = audit_all(str(path), Settings())
    return found, plan_elections(found)


def test_it_is_said_first_whose_the_directories_are(tmp_path: Path) -> None:
    found, plan = audit_named(tmp_path, {1: "broker-2", 2: "broker-1", 3: "broker-3"})
    first = plan.steps[0]
    assert (first.number, first.action, first.brokers) == (1, "check_disks", (1, 2))
    assert "broker-1 in this snapshot is of broker 2; broker-2 in this snapshot is of broker 1" in first.text
    assert any("LOG_DIR_OF_2" in command for step in plan.steps for command in step.commands)
    assert "".join(tell_what_to_do(found).first[0].sentence).startswith(
        "Before anything else, check that brokers 1 and 2 have their own disks"
    )
    rows = [row for row in found.rows("findings") if row["code"] == "META-FOREIGN-DIR"]
    assert [(row["severity"], row["broker_id"]) for row in rows] == [("medium", 1), ("medium", 2)]
    assert (
        "a log dir of broker 1 by its meta.properties, in a directory that is named for broker 2" in rows[0]["message"]
    )


def test_where_nothing_is_started_or_copied_the_finding_s_remedy_is_enough(tmp_path: Path) -> None:
    _, plan = audit_named(tmp_path, {1: "broker-2", 2: "broker-1", 3: "broker-3"}, leader=2)
    assert [step.action for step in plan.steps] == ["mend"], plan.steps


def test_names_that_are_no_other_broker_s_say_nothing(tmp_path: Path) -> None:
    for number, names in enumerate(
        (
            {1: "broker-1", 2: "broker-2/a", 3: "broker-3"},
            {1: "a", 2: "b", 3: "c"},
            {1: "broker-11", 2: "x/broker-12", 3: "d"},
            {1: "broker-0", 2: "broker-1", 3: "broker-2"},
        )
    ):
        found, plan = audit_named(tmp_path / str(number), names)
        assert plan.steps[0].action != "check_disks" and len(found.rows("replicas")) == 3
        assert not [row for row in found.rows("findings") if row["code"] == "META-FOREIGN-DIR"]
        assert {(row["topic"], row["broker_id"]) for row in found.rows("replicas")} == {(TOPIC, one) for one in names}


def test_controllers_are_not_called_brokers(tmp_path: Path) -> None:
    log_dirs = [LogDir(f"controller-{201 - node}", node, None, None, False, "controller") for node in (100, 101)]
    (row, _) = misnamed(Snapshot.open(str(tmp_path)), log_dirs)
    assert (
        "a log dir of controller 100 by its meta.properties, in a directory that is named for controller 101"
        in row.reason
    )


def test_of_a_broker_with_several_disks_it_is_said_which_ones_are_copied(tmp_path: Path) -> None:
    """A partition on each of two disks of broker 2, which holds more of both than anybody else."""
    names = ("a", "b")
    write_log_dir(tmp_path / "broker-1", 1, [replace(BEHIND, topic=topic) for topic in names])
    for topic in names:
        write_log_dir(tmp_path / "broker-2" / topic, 2, [replace(WHOLE, topic=topic)])
    listed = [Listed(None, (1, 2), (2,), topic=topic) for topic in names]
    write_snapshot(tmp_path, {}, listed)
    plan = plan_elections(audit_all(str(tmp_path), Settings()))
    told = [step.text for step in plan.steps if step.action == "copy" and 2 in step.brokers]
    assert told and all(
        "LOG_DIR_OF_2 means here what the snapshot has as broker-2/a and broker-2/b, in turn" in one for one in told
    ), told
    assert not any("LOG_DIR_OF_1 is here" in step.text for step in plan.steps)


def test_a_broker_that_was_not_captured_may_have_its_partitions_on_several_disks(tmp_path: Path) -> None:
    """`tar` ends with an error for what the log dir that it is given does not have."""
    missing = tmp_path / "missing"
    shutil.copytree(FIXTURES / "diverged-unclean", missing, ignore=shutil.ignore_patterns("broker-0", "dump"))
    plan = plan_elections(audit_all(str(missing), Settings(kafka_version="4.3.1")))
    several = [one for one in plan.steps if one.action == "capture"]
    alone = plan_elections(
        audit_all(str(missing), Settings(kafka_version="4.3.1")), asked=[TopicPartition("ledger", 0)]
    )
    for steps, is_told in ((several, True), ([one for one in alone.steps if one.action == "capture"], False)):
        (step,) = steps
        assert ("run tar for each, into an archive of its own" in step.text) is is_told, step.text


def write_exchanged(
    path: Path, disks: dict[int, int], moved: bytes | None = None, replicas: tuple[int, ...] = (1, 2, 3)
) -> Path:
    """Brokers 1, 2 (in sync, down and with more records) and 3, each with the disk that the broker in `disks` registered, and node.id
    changed; `moved` is a record that the controllers wrote last."""
    ids = {broker: make_uuid(f"disk {broker}") for broker in (1, 2, 3)}
    begin = [write.register_broker(broker, log_dirs=(ids[broker],)) for broker in ids]
    begin += [
        write.topic(TOPIC, TOPIC_ID),
        write.partition(TOPIC_ID, replicas, 2, isr=(2,), directories=tuple(map(ids.get, replicas))),
    ]
    later = [write.registration_change(2, 1), write.change(TOPIC_ID, leader=-1), *([moved] if moved else [])]
    for broker, owner in disks.items():
        own = replace(WHOLE if owner == 2 else BEHIND, topic_id=TOPIC_ID)
        write_log_dir(path / f"broker-{broker}", broker, [own], directory_id=ids[owner])
    return write_snapshot(path, {}, metadata={100: write.history(begin, *later)})


def test_where_ids_were_changed_so_that_the_others_disks_start_there_is_no_plan(tmp_path: Path) -> None:
    """It said that the disk of broker 2 had been replaced, and planned with the log of broker 1 as its."""
    found = audit_all(str(write_exchanged(tmp_path, {1: 2, 2: 1, 3: 3})), Settings())
    rows = [row for row in found.rows("findings") if row["code"] == "META-DIR-OWNER"]
    assert [(row["severity"], row["broker_id"]) for row in rows] == [("high", 1), ("high", 2)]
    assert "of broker 1 by node.id in its meta.properties, and of broker 2 by its directory.id" in rows[0]["message"]
    plan = plan_elections(found)
    assert not {step.action for step in plan.steps} & {"start", "elect", "stop"}, plan.steps
    reasons = [one.reason for one in plan.conflicts]
    assert ["another broker's by its directory.id" in one for one in reasons] == [True], reasons


@pytest.mark.parametrize("replicas", [(1, 2, 3), (2, 3)])
@pytest.mark.parametrize(
    ("disks", "is_sought"), [({1: 2, 2: 1, 3: 3}, False), ({1: 2, 3: 3}, False), ({1: 1, 3: 3}, True)]
)
def test_the_disk_of_a_broker_is_not_looked_for_where_another_has_it(
    tmp_path: Path, disks: dict[int, int], is_sought: bool, replicas: tuple[int, ...]
) -> None:
    """It goes back first; what is copied again before that says the same. Nor where that one is not assigned."""
    plan = plan_elections(audit_all(str(write_exchanged(tmp_path, disks, replicas=replicas)), Settings()))
    assert any(step.action == "capture" for step in plan.steps) is is_sought, plan.steps


def test_a_disk_that_its_broker_registered_since_is_its_own(tmp_path: Path) -> None:
    sound = audit_all(str(write_exchanged(tmp_path / "sound", {1: 1, 2: 2, 3: 3})), Settings())
    assert not [row for row in sound.rows("findings") if row["code"] == "META-DIR-OWNER"]
    again = write.register_broker(2, log_dirs=(make_uuid("another disk"),), fenced=True)
    given = audit_all(str(write_exchanged(tmp_path / "given", {1: 2, 3: 3}, again)), Settings())
    assert not [row for row in given.rows("findings") if row["code"] == "META-DIR-OWNER"]


@pytest.mark.parametrize(("version", "is_told"), [("4.3.1", True), (None, True), ("3.6.1", False)])
def test_a_broker_that_is_not_elected_as_it_comes_up_is_started_once_more(
    tmp_path: Path, version: str | None, is_told: bool
) -> None:
    """With its own disk again; the controllers had been told of another one."""
    stopped = replace(WHOLE, clean_shutdown=True)
    audit(tmp_path, {1: stopped, 2: stopped}, leader=None, isr=(2,), quiesced=True)
    asked = [TopicPartition(TOPIC, 0)]
    found = audit_all(str(tmp_path), Settings(kafka_version=version), asked=asked)
    plans = (plan_elections(found, asked=asked, up=(), candidate_id=one) for one in (None, 1))
    texts = [[step.text for step in plan.steps if step.action == "check"] for plan in plans]
    is_said = [any("stop it with SIGTERM and start it once more" in text for text in some) for some in texts]
    assert is_said == [is_told, False], texts


@pytest.mark.parametrize("replicas", [(1,), (1, 2)])
def test_where_the_only_disk_is_lost_the_topic_is_created_anew_or_led_by_an_empty_log(
    tmp_path: Path, replicas: tuple[int, ...]
) -> None:
    """Nobody has a log that a plan with --candidate could choose."""
    old, own = make_uuid("lost disk"), make_uuid("disk 2")
    begin = [write.register_broker(1, log_dirs=(old,)), write.register_broker(2, log_dirs=(own,))]
    directories = (old, own)[: len(replicas)]
    begin += [write.topic(TOPIC, TOPIC_ID), write.partition(TOPIC_ID, replicas, 1, isr=(1,), directories=directories)]
    gone = [write.registration_change(1, 1), write.change(TOPIC_ID, leader=-1, isr=(), elr=(1,))]
    write_log_dir(tmp_path / "broker-1", 1, [], directory_id=make_uuid("new disk"))
    logs = [replace(BEHIND, topic_id=TOPIC_ID)] if 2 in replicas else []
    write_log_dir(tmp_path / "broker-2", 2, logs, directory_id=own)
    write_snapshot(tmp_path, {}, metadata={100: write.history(begin, *gone)})
    plan = plan_elections(audit_all(str(tmp_path), Settings()))
    (step,) = [step for step in plan.steps if step.action == "capture"]
    assert ("no record of orders-0 is left" in step.text) is (replicas == (1,)), step.text
    assert ("--candidate" in step.text) is (replicas != (1,)), step.text


@pytest.mark.parametrize(("log", "is_told"), [(Replica([]), True), (BEHIND, False)])
def test_of_an_only_log_that_is_empty_the_choice_says_so(tmp_path: Path, log: Replica, is_told: bool) -> None:
    """A broker that came back with a new disk."""
    audit(tmp_path, {1: log}, leader=None, isr=(), quiesced=True)
    (decision,) = plan_elections(audit_all(str(tmp_path), Settings())).decisions
    assert ("It is empty: if records were written" in decision.reason) is is_told, decision.reason
