"""Plans for Kafka's own topics: of those that elect a coordinator of transactions the order (docs/semantics.md H22)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from tests.elect.clusters import Part, outline, results_of
from tests.support import metadata_log as write
from tests.support.report_rows import row
from tests.support.scenario import written
from tests.support.snapshots import Replica, make_uuid, write_snapshot

from replica_audit.config import Settings
from replica_audit.elect.election_plan import plan_elections
from replica_audit.elect.plan_model import Plan
from replica_audit.report.plan_text import tell_decisions
from replica_audit.runner.in_process import audit_all
from replica_audit.schema import Evidence, FindingRow
from replica_audit.snapshot.transaction_log import TOPIC as _STATE


def _plan(*parts: Part, up: Sequence[int] = (), version: str = "4.3.1") -> Plan:
    results = results_of(parts, version, "metadata_log")
    found = replace(results, partitions=[row._replace(lost_records=0) for row in results.partitions])
    return plan_elections(found, up=up, stopped_cleanly=())


def _starts(plan: Plan) -> list[tuple[int, ...]]:
    return [brokers for action, brokers in outline(plan) if action == "start"]


def _unmarked(plan: Plan) -> list[tuple[str, tuple[int, ...], str]]:
    """Action and brokers of each step that tells of partitions without a leader, and their names."""
    told = ((step, one) for step in plan.steps for one in step.before)
    return [
        (step.action, step.brokers, one.partition(" may have no leader")[0])
        for step, one in told
        if "transaction-log" in one
    ]


def test_a_coordinator_of_transactions_is_elected_once_other_partitions_have_leaders() -> None:
    """4.3.1: a coordinator that came up alone took the partitions of a transaction in PrepareCommit for deleted; it hung, and the 14
    records that its client was told of were never seen."""

    def plan(topic: str, up: Sequence[int] = ()) -> Plan:
        apart = Part("tx", (3,), next(iter(up), None), (3,), choice=3, calm=True)
        return _plan(Part(topic, (1, 2), None, (1,), choice=1), apart, up=up)

    assert _starts(plan(_STATE)) == [(3,), (1,), (2,)]
    assert _starts(plan("orders")) == [(1,), (2,), (3,)]
    assert _starts(plan(_STATE, up=(3,))) == [(1,), (2,)]
    assert not _unmarked(plan("orders")) and not _unmarked(plan(_STATE, up=(3,)))
    # With eligible replicas nobody may lead it: broker 3 was killed.
    assert [names for _, _, names in _unmarked(plan(_STATE))] == ["tx-0"]


def test_it_is_elected_after_others_whose_leaders_may_stay_up() -> None:
    state = Part(_STATE, (1, 2), None, (1,), choice=1)
    plan = _plan(state, Part("a", (3, 4), None, (3,), choice=3), Part("b", (5,), None, (5,), choice=5))
    assert [one for one in _starts(plan) if one in [(1,), (3,), (5,)]] == [(3,), (5,), (1,)]
    assert [step.brokers for step in plan.steps if step.action == "stop"] == []


def test_its_broker_takes_no_partition_from_one_that_leads_by_right() -> None:
    """4.3.1: orders was elected uncleanly with the coordinator, as equal logs allow, before the broker that had it and paid in sync was
    started; the twelve records of a committed transaction were never seen."""
    state = Part(_STATE, (1, 2), None, (1,), choice=1)
    orders = Part("orders", (1, 2, 3), None, (3,), choice=3, equals=(1, 2))
    plan = _plan(state, orders, Part("paid", (3, 2), None, (3,), choice=3, equals=(2,)))
    assert [one.candidate_id for one in plan.decisions] == [1, 3, 3]
    assert _starts(plan)[:2] == [(3,), (1,)] and not _unmarked(plan)


def test_partitions_that_nobody_leads_when_it_begins_are_named() -> None:
    """Broker 2 alone has b-0, and would take the coordinator's partition with a shorter log. 4.3.1: six records that their client was
    told of were never seen, though the plan said that these partitions have leaders first."""
    state = Part(_STATE, (1, 2, 3), None, (2,), choice=3)
    plan = _plan(state, Part("a", (1, 2, 3), None, (2,), choice=1), Part("b", (1, 2, 3), None, (2,), choice=2), up=())
    told = _unmarked(plan)
    assert told and {names for _, _, names in told} <= {"a-0 and b-0", "b-0"}, told


def test_the_transactions_that_are_about_to_end_there_are_named() -> None:
    """As the copy of their coordinator's log has them."""
    state = Part(_STATE, (1, 2, 3), None, (2,), choice=3)
    parts = state, Part("a", (1, 2, 3), None, (2,), choice=1), Part("b", (1, 2, 3), None, (2,), choice=2)
    results = results_of(parts, "4.3.1", "metadata_log")
    said = {
        "topic": "b",
        "partition": 0,
        "code": "TXN-PENDING",
        "severity": "info",
        "confidence": "proven",
        "broker_id": 2,
    }
    pending = FindingRow(**row("findings", **said))._replace(
        evidence=[Evidence("transaction", text="", value="payments (PrepareCommit)")]
    )
    plan = plan_elections(replace(results, findings=[pending]), up=(), stopped_cleanly=())
    (told,) = {one for step in plan.steps for one in step.before if "transaction-log" in one}
    assert (
        "with their partitions; in the copies here these are payments (PrepareCommit) in b-0, which kafka-transactions.sh describe "
        "--transactional-id shows later. If there is one" in told
    )


def test_nor_is_one_forgotten_that_takes_its_partition_by_itself() -> None:
    """Nothing is to be decided of the coordinator's partition, and broker 1, which is started for another, leads it at once."""
    state = Part(_STATE, (1, 2), None, (1,), choice=1, calm=True)
    plan = _plan(state, Part("a", (1, 2), None, (1,), choice=1), Part("b", (3, 4), None, (4,), choice=3))
    assert _unmarked(plan) == [("start", (1,), "b-0")], _unmarked(plan)


@pytest.mark.parametrize("asked", [(), ("__*",)], ids=["", "asked for"])
@pytest.mark.parametrize(
    ("topic", "means"),
    [
        ("__consumer_offsets", "Groups whose last commits it loses go back to earlier ones"),
        ("__transaction_state", "may be aborted, or hang (kafka-transactions.sh find-hanging)"),
        ("__share_group_state", "they are given records again that they had acknowledged"),
        ("__remote_log_metadata", "Brokers forget the remote segments"),
        ("__of_an_application", ""),
        ("orders", ""),
    ],
)
def test_what_a_loss_of_kafka_s_own_records_means_is_said_in_place_of_a_salvage_that_no_step_has(
    tmp_path: Path, topic: str, means: str, asked: tuple[str, ...]
) -> None:
    topic_id = make_uuid(topic)
    begin = [*map(write.register_broker, (1, 2)), *write.new_topic(topic, topic_id, (1, 2), 1)]
    lost = [write.change(topic_id, leader=2, isr=(2,), recovering=True), write.registration_change(1, 1)]
    brokers = {
        1: Replica(written(0, 30, 0), topic=topic, topic_id=topic_id, clean_shutdown=True),
        2: Replica([*written(0, 20, 0), *written(20, 25, 1, "other ")], topic=topic, topic_id=topic_id),
    }
    metadata = {100: write.history(begin, write.change(topic_id, isr=(1,)), lost)}
    write_snapshot(tmp_path, brokers, metadata=metadata)
    if asked and not topic.startswith("__"):
        asked = (topic,)
    plan = plan_elections(audit_all(str(tmp_path), Settings(topics=asked)))
    (told,) = tell_decisions(plan)
    has_step = any(step.action == "salvage" for step in plan.steps)
    assert plan.decisions[0].loses_acknowledged and has_step is (topic == "orders" or bool(asked)), plan.steps
    assert ("alvage" in told.sentence) is has_step and means in told.sentence, told.sentence
