"""Quotas, connections that are lost, and brokers that stop answering: each costs what it must and no more."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from kafka.errors import Cancelled, KafkaConnectionError, RequestTimedOutError
from tests.support.answering_brokers import AnsweringBrokers, batches_of, in_sync

from replica_audit.errors import EngineError, UsageError
from replica_audit.model import TopicPartition
from replica_audit.observe.broker_answers import LATEST, UnreachableError
from replica_audit.observe.kafka_brokers import KafkaBrokers
from replica_audit.observe.observing import check_target
from replica_audit.observe.planning import THROTTLED_ANSWERS
from replica_audit.scratch import unfinished_results

PLACES = [("a", 0), ("a", 1), ("a", 2)]


def _cluster() -> AnsweringBrokers:
    return AnsweringBrokers({place: in_sync(batches_of(0, 0, 1)) for place in PLACES}, dict.fromkeys(PLACES, 1))


def test_a_quota_is_waited_for_while_planning_too(tmp_path: Path) -> None:
    cluster = _cluster()
    cluster.throttled = 5
    found = cluster.observe(tmp_path / "s")
    assert cluster.throttled == 0 and not found.unread and {one.end_offset for one in found.replicas} == {30}


def test_a_quota_that_lets_nothing_through_is_told() -> None:
    cluster = AnsweringBrokers({("a", 0): in_sync(batches_of(0), (1,))}, {("a", 0): 1})
    cluster.throttled = THROTTLED_ANSWERS
    assert [one.problem for one in cluster.plan().replicas] == ["a quota of the broker lets nothing through"]


@pytest.mark.parametrize(("answers", "unread"), [(THROTTLED_ANSWERS - 1, 0), (THROTTLED_ANSWERS, 1)])
def test_reading_gives_up_after_as_many_answers_as_planning(answers: int, unread: int, tmp_path: Path) -> None:
    cluster = AnsweringBrokers({PLACES[0]: in_sync(batches_of(0, 0), [1])}, {PLACES[0]: 1})
    plan = cluster.plan()
    cluster.throttled = answers
    found = cluster.observe(tmp_path / "s", plan=plan)
    assert [one.problem for one in found.unread] == ["a quota of the broker lets nothing through"] * unread


def test_nothing_is_sent_on_a_connection_that_a_quota_has_muted() -> None:
    cluster = _cluster()
    cluster.delays = {1: 700.0}
    cluster.client().offsets(1, [TopicPartition("a", 0)], LATEST)
    assert cluster.waited_ms == 700.0


@pytest.mark.parametrize("error", [KafkaConnectionError("socket disconnected"), Cancelled()])
def test_a_request_whose_connection_was_closed_is_sent_again(error: Exception) -> None:
    cluster = _cluster()
    cluster.drops = [error, error]
    assert cluster.client().cluster([]).brokers == (1, 2, 3)
    cluster.drops = [error] * 9
    with pytest.raises(UnreachableError):
        cluster.client().cluster([])
    # Three brokers, each asked three times.
    assert not cluster.drops


def test_a_request_that_timed_out_is_not_sent_again() -> None:
    cluster = _cluster()
    cluster.drops = [RequestTimedOutError("30 s"), KafkaConnectionError("other")]
    with pytest.raises(UnreachableError, match="30 s"):
        cluster.client().offsets(1, [TopicPartition("a", 0)], LATEST)
    assert len(cluster.drops) == 1


def test_a_connection_lost_while_reading_costs_nothing(tmp_path: Path) -> None:
    cluster = _cluster()
    plan = cluster.plan()
    cluster.drops = [KafkaConnectionError("socket disconnected"), RequestTimedOutError("30 s")]
    found = cluster.observe(tmp_path / "s", plan=plan)
    assert not found.unread and not found.refused and not cluster.drops


@pytest.mark.parametrize("error", [EngineError("no broker"), UsageError("EHOSTUNREACH")])
def test_a_connection_that_fails_costs_that_broker_only(error: Exception, tmp_path: Path) -> None:
    cluster = _cluster()
    plan = cluster.plan()

    asking: list[int] = []
    all_ask = threading.Barrier(3)

    def connect() -> KafkaBrokers:
        own = threading.get_ident()
        is_new = own not in asking
        asking.append(own)
        if is_new:
            all_ask.wait(30)
        if own == asking[0]:
            raise error
        return cluster.client()

    found = cluster.observe(tmp_path / "s", plan=plan, connect=connect)
    (dead,) = {one.broker_id for one in found.unread}
    assert {one.problem for one in found.unread} == {f"it does not answer: {error}"}
    assert {one.broker_id for one in found.replicas if one.problem is None} == {1, 2, 3} - {dead}
    assert asking.count(asking[0]) == 4


def test_a_connection_that_comes_back_costs_nothing(tmp_path: Path) -> None:
    cluster = _cluster()
    plan = cluster.plan()
    problems: list[Exception] = [EngineError("no broker"), UsageError("EHOSTUNREACH")]

    def connect() -> KafkaBrokers:
        if problems:
            raise problems.pop()
        return cluster.client()

    found = cluster.observe(tmp_path / "s", plan=plan, connect=connect)
    assert not found.unread and not problems


def test_what_a_killed_observation_left_is_told_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "s.partial").mkdir()
    with pytest.raises(UsageError, match=r"s\.partial exists: another observation writes it, or was killed.*remove it"):
        check_target(str(tmp_path / "s"))


def test_nothing_is_left_of_an_observation_that_is_interrupted(tmp_path: Path) -> None:
    cluster = _cluster()
    plan = cluster.plan()
    held = []

    def connect() -> KafkaBrokers:
        # What the handler of a signal removes, in a thread of its own.
        held.append(unfinished_results())
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cluster.observe(tmp_path / "s", plan=plan, connect=connect)
    assert held[0] == (tmp_path / "s.partial",)
    assert not unfinished_results() and not list(tmp_path.iterdir())
    cluster.observe(tmp_path / "t")
    assert not unfinished_results()


def test_only_its_owner_can_read_what_is_written(tmp_path: Path) -> None:
    _cluster().observe(tmp_path / "s")
    modes = {path.stat().st_mode & 0o777 for path in (tmp_path / "s").rglob("*") if path.is_file()}
    assert modes == {0o600}
    assert {(tmp_path / "s" / one).stat().st_mode & 0o777 for one in (".", "batches")} == {0o700}


def test_a_broker_that_does_not_answer_costs_its_own_groups_only() -> None:
    cluster = _cluster()
    # The groups are broker 1's.
    cluster.groups = {"g": {PLACES[0]: (7, 0)}}
    client = cluster.client()
    cluster.down = {2}
    found = client.committed((1, 2, 3))
    assert found.offsets == {"g": {TopicPartition("a", 0): (7, 0)}}
    assert [one.partition(":")[0] for one in found.refused] == ["the groups of broker 2"]
