"""Plans where a broker that is up has a partition on a log dir that is offline (KIP-858; docs/semantics.md H19)."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from tests.elect.clusters import Part, captured, outline, plan_of, results_of
from tests.support import metadata_log as write
from tests.support.captures import audit_whole
from tests.support.fixtures import FIXTURES
from tests.support.scenario import written
from tests.support.snapshots import TOPIC, TOPIC_ID, Replica, write_snapshot

from replica_audit.config import Settings
from replica_audit.elect.cluster_state import present_state
from replica_audit.elect.election_plan import advise, plan_elections
from replica_audit.elect.plan_model import Plan, Step
from replica_audit.report.plan_text import render_plan
from replica_audit.results import FurtherStates
from replica_audit.runner.in_process import audit_all

LEADERLESS = Part("t", (1, 2), None, (1,), choice=1, offline=(1,))


def the(plan: Plan, action: str, broker: int) -> Step:
    return next(step for step in plan.steps if step.action == action and step.brokers == (broker,))


def test_the_chosen_replica_is_started_again_with_its_log_dir_before_it_is_elected() -> None:
    plan = plan_of(LEADERLESS, up=(1,))
    assert plan.decisions[0].kafka_choice_id is None
    assert not plan.alternatives
    steps = outline(plan)
    assert (
        steps.index(("stop", (1,)))
        < steps.index(("start", (1,)))
        < steps.index(("check", (1,)))
        < steps.index(("start", (2,)))
    )
    assert any(
        "log directory of broker 1 with t-0, which is offline, is back" in one for one in the(plan, "start", 1).before
    )
    text = " ".join(render_plan(plan).split())
    assert "Kafka elects nobody, and not broker 1 however long it is up" in text
    assert "Kafka chooses broker 1" not in text


def test_a_chosen_replica_that_is_down_is_started_only_with_its_log_dir() -> None:
    plan = plan_of(LEADERLESS, up=())
    assert ("stop", (1,)) not in outline(plan)
    assert any("which is offline, is back" in one for one in the(plan, "start", 1).before)
    sound = plan_of(Part("t", (1, 2), None, (1,), choice=1), up=())
    assert not any("offline" in one for one in the(sound, "start", 1).before)


def test_who_is_passed_over_is_not_stopped_for_another() -> None:
    other = Part("t", (1, 2), None, (1,), choice=2, offline=(1,))
    plan = plan_of(other, up=(1, 2))
    assert "stop" not in [action for action, _ in outline(plan)]
    assert [one.broker_id for step in plan.steps for one in step.after] == [2]
    assert any("the log directory of broker 1 is offline" in one for one in the(plan, "elect", 2).before)
    assert ("stop", (1,)) in outline(plan_of(Part("t", (1, 2), None, (1,), choice=2), up=(1, 2)))


@pytest.mark.parametrize("topic", ["a", "b"])
def test_one_that_does_not_lead_though_a_source_without_log_dirs_entitles_it_is_started_again(topic: str) -> None:
    """Where the metadata log tells of a partition alike, it had told of a log dir that is offline."""
    results = results_of([Part(one, (1, 2), None, (1,), choice=1) for one in "ab"], "4.3.1", "metadata_log")
    states = [row._replace(source="user") if row.topic == topic else row for row in results.partition_states]
    plan = plan_elections(replace(results, partition_states=states), up=(1,), stopped_cleanly=())
    assert any(f"does not lead {topic}-0, though" in one for one in the(plan, "stop", 1).before), outline(plan)


def test_a_broker_that_stopped_without_one_of_its_log_dirs_counts_as_killed() -> None:
    results = results_of([LEADERLESS], None, "metadata_log")
    assert present_state(results, up=(), stopped_cleanly=(1, 2)).clean == {2}


def test_a_large_audit_knows_of_partitions_without_details_which_log_dirs_are_offline() -> None:
    whole = results_of([LEADERLESS], None, "metadata_log")
    ((place, state),) = whole.states()
    further = replace(whole, partition_states=[], further=FurtherStates([place], [state]))
    assert present_state(further, up=(1,)).partitions[place].offline == {1}


def test_a_chosen_replica_that_recovers_its_logs_needs_room_on_its_disk() -> None:
    """On a full disk 4.3.1 cut 107 acknowledged records to 0, led with that, and the others followed (H20)."""

    def asks_for_room(version: str | None, clean: Sequence[int]) -> list[int]:
        plan = plan_elections(results_of([LEADERLESS], version, "metadata_log"), up=(), stopped_cleanly=clean)
        return [
            broker
            for step in plan.steps
            for broker in step.brokers
            if any("have room: on" in one for one in step.before)
        ]

    assert asks_for_room("4.3.1", ()) == asks_for_room(None, (2,)) == [1]
    assert asks_for_room("3.9.1", ()) == []
    calm = Part("t", (1, 2), None, (1,), choice=1)
    assert not any("have room: on" in one for one in the(plan_of(calm, up=(), version="4.3.1"), "start", 1).before)


def test_so_does_a_broker_that_leads_a_partition_without_a_decision() -> None:
    """Broker 2 leads the other partition as soon as it is back with the rest."""

    def asked(version: str, clean: Sequence[int], leader: int | None) -> list[int]:
        other = Part("u", (2, 3), leader, (2,) if leader is None else (3,), choice=2, calm=True)
        plan = plan_elections(results_of([LEADERLESS, other], version, "metadata_log"), up=(), stopped_cleanly=clean)
        steps = [step for step in plan.steps if any("have room: on" in one for one in step.before)]
        return [broker for step in steps for broker in step.brokers if broker != 1]

    assert asked("4.3.1", (), None) == [2]
    assert asked("4.3.1", (2,), None) == asked("3.9.1", (), None) == asked("4.3.1", (), 3) == []


@pytest.mark.parametrize(("version", "asks"), [("4.3.1", True), (None, True), ("3.9.1", False)])
def test_a_controller_recovers_its_metadata_log_at_every_start(tmp_path: Path, version: str | None, asks: bool) -> None:
    """After a clean stop, too (`KafkaMetadataLog`: the recovery point is 0, and no stop is a clean one)."""
    begin = (
        write.topic(TOPIC, TOPIC_ID),
        *map(write.register_broker, (1, 2)),
        write.partition(TOPIC_ID, (1, 2), 1),
    )
    alone = [write.change(TOPIC_ID, isr=(1,)), write.change(TOPIC_ID, leader=-1), write.registration_change(1, 1)]
    logs = {1: Replica(written(0, 20, 0)), 2: Replica(written(0, 10, 0))}
    write_snapshot(tmp_path, logs, metadata={100: write.history(begin, *alone)})
    plan = plan_elections(audit_all(str(tmp_path), Settings(kafka_version=version)), up=())
    (start,) = (step for step in plan.steps if step.action == "start" and step.controllers == (100,))
    assert (
        any(
            one.startswith("There is room on the disk with the metadata log of controller 100:") for one in start.before
        )
        is asks
    ), start


def test_so_does_a_broker_that_is_one() -> None:
    """Broker 2 leads nothing; broker 1 needs room for its other logs, too, unless it was stopped in order."""
    voters = [captured("__cluster_metadata", node, named_by=("voters",), state="named") for node in (1, 2, 100)]
    calm = Part("t", (1, 2), None, (1,), choice=1)
    results = replace(results_of([calm], "4.3.1", "metadata_log"), captures=voters)

    def asked(clean: Sequence[int]) -> dict[tuple[int, ...], list[str]]:
        steps = [one for one in plan_elections(results, up=(), stopped_cleanly=clean).steps if one.action == "start"]
        return {
            step.brokers: [one for one in step.before if "have room" in one or "is room" in one]
            for step in steps
            if step.brokers
        }

    ((first,), (second,)) = asked(()).values()
    assert "the logs that it recovers after a crash" in first and "votes for a node that lacks" in second
    assert [["votes for a node that lacks" in one for one in told] for told in asked((1, 2)).values()] == [
        [True],
        [True],
    ]


def test_files_that_a_broker_cannot_read_are_mended_before_it_starts(tmp_path: Path) -> None:
    """4.3.1 ended as it became a follower: "Shutdown broker because all log dirs … have failed"."""
    shutil.copytree(FIXTURES / "elr-leaderless", tmp_path / "s", ignore=shutil.ignore_patterns("dump"))
    for broker, name in ((0, "replication-offset-checkpoint"), (1, "accounts-0/leader-epoch-checkpoint")):
        (tmp_path / "s" / f"broker-{broker}" / name).write_text("0\n3\n")
    plan = advise(audit_whole(tmp_path / "s"))
    told = {
        step.brokers: [one for one in step.before if "repaired" in one] for step in plan.steps if step.action == "start"
    }
    assert len(told) == 3 and told.pop((2,)) == []
    assert (
        "You have repaired broker-0/replication-offset-checkpoint of broker 0 by hand, as replica-audit explain CHK-MALFORMED"
        in told[0,][0]
    )
    assert "explain EPO-FILE-CORRUPT" in told[1,][0]


def test_a_log_that_no_other_broker_has_is_not_rebuilt_for_its_epoch_file(tmp_path: Path) -> None:
    """Broker 1 alone was in sync: rebuilt, it would begin an empty log, lead with that, and have the others cut to it."""
    batches = [*written(0, 15, 0), *written(15, 20, 2)]
    alone = [write.change(TOPIC_ID, isr=(1,)), write.change(TOPIC_ID, leader=-1), write.registration_change(1, 1)]
    begin = (
        write.topic(TOPIC, TOPIC_ID),
        *map(write.register_broker, (1, 2)),
        write.partition(TOPIC_ID, (1, 2), 1, leader_epoch=2),
    )
    logs = {1: Replica(batches), 2: Replica(batches[:10])}
    write_snapshot(tmp_path, logs, metadata={100: write.history(begin, *alone)})
    (tmp_path / "broker-1" / "orders-0" / "leader-epoch-checkpoint").write_text("0\n3\n")
    (start,) = (step for step in advise(audit_whole(tmp_path)).steps if step.action == "start" and step.brokers == (1,))
    assert any("without rebuilding a log for it" in one for one in start.before), start
    lines = "By the batches beside it the lines of broker-1/orders-0/leader-epoch-checkpoint are 0, 2, 0 0, 2 15"
    assert lines in start.before, start


def test_a_log_without_its_topic_id_gets_it_back_before_its_broker_starts(tmp_path: Path) -> None:
    """4.3.1 renamed it to -stray, and began an empty one: it would lead with that, and have the others cut to it."""
    alone = [write.change(TOPIC_ID, isr=(1,)), write.change(TOPIC_ID, leader=-1), write.registration_change(1, 1)]
    begin = (write.topic(TOPIC, TOPIC_ID), *map(write.register_broker, (1, 2)), write.partition(TOPIC_ID, (1, 2), 1))
    logs = {1: Replica(written(0, 20, 0), topic_id=None), 2: Replica(written(0, 10, 0))}
    write_snapshot(tmp_path, logs, metadata={100: write.history(begin, *alone)})
    (start,) = (step for step in advise(audit_whole(tmp_path)).steps if step.action == "start" and step.brokers == (1,))
    told = " ".join(start.before)
    assert "broker-1/orders-0/partition.metadata of broker 1 by hand, as replica-audit explain CHK-MALFORMED" in told
    assert "it sets a log without partition.metadata aside as -stray, and begins an empty one" in told
    lines = (
        f"By the metadata log the lines of broker-1/orders-0/partition.metadata are version: 0 and topic_id: {TOPIC_ID}"
    )
    assert lines in start.before, start


@pytest.mark.parametrize(
    ("gone", "clean", "is_told"),
    [
        (("orders-0/leader-epoch-checkpoint", "replication-offset-checkpoint"), True, True),
        (("orders-0/leader-epoch-checkpoint", "replication-offset-checkpoint"), False, False),
        (("orders-0/leader-epoch-checkpoint",), True, False),
    ],
)
def test_the_leader_stays_up_while_a_follower_without_epochs_and_checkpoint_fetches_all(
    tmp_path: Path, gone: tuple[str, ...], clean: bool, is_told: bool
) -> None:
    """4.3.1 cut it to 0. Recovery writes the epochs anew, and with the checkpoint it keeps what lies below."""
    begin = (write.topic(TOPIC, TOPIC_ID), *map(write.register_broker, (1, 2)), write.partition(TOPIC_ID, (1, 2), 1))
    alone = [write.change(TOPIC_ID, isr=(1,)), write.change(TOPIC_ID, leader=-1)]
    alone += [write.registration_change(one, 1) for one in (1, 2)]
    logs = {one: Replica(written(0, 20, 0), clean_shutdown=clean) for one in (1, 2)}
    write_snapshot(tmp_path, logs, metadata={100: write.history(begin, *alone)})
    for name in gone:
        (tmp_path / "broker-2" / name).unlink()
    told = the(advise(audit_whole(tmp_path)), "start", 2).before
    said = "Broker 1 stays up until broker 2 is in sync with orders-0 again"
    assert any(one.startswith(said) for one in told) is is_told, told
