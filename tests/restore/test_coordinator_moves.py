"""A group's coordinator moves while brokers start: restore asks again, as any consumer does; or it, or a topic, is closed to the user."""

from __future__ import annotations

import sys
import time
from types import ModuleType
from typing import Any, NamedTuple

import pytest

from replica_audit.client_properties import ClientProperties
from replica_audit.errors import EngineError
from replica_audit.restore.cluster import RestoreProgress
from replica_audit.restore.kafka_client import Contact


class _Error:
    COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR = 14, 15, 16
    GROUP_AUTHORIZATION_FAILED, _TIMED_OUT, _PARTITION_EOF, _STATE, _FENCED = 30, -185, -191, -172, -144

    def __init__(self, code: int) -> None:
        self._code = code

    def code(self) -> int:
        return self._code

    def str(self) -> str:
        return f"error {self._code}"

    def retriable(self) -> bool:
        return False

    def txn_requires_abort(self) -> bool:
        return True


class _Raised(Exception):  # noqa: N818 - as confluent-kafka's KafkaException
    pass


class _Message(NamedTuple):
    code: int

    def error(self) -> _Error:
        return _Error(self.code)


class _Place(NamedTuple):
    topic: str
    partition: int
    offset: int = 7
    metadata: str = "m"
    error: _Error | None = None


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Codes with which committed offsets are refused, one for each request, before they are answered."""
    codes: list[int] = []
    asked: list[int] = []

    class Consumer:
        def __init__(self, _: Any) -> None: ...
        def close(self) -> None: ...
        def assign(self, places: list[_Place]) -> None: ...
        def poll(self, seconds: float) -> _Message:
            return _Message(_Error._PARTITION_EOF if asked else asked.append(1) or _Error.GROUP_AUTHORIZATION_FAILED)

        def committed(self, places: list[_Place], timeout: float) -> list[_Place]:
            if codes:
                raise _Raised(_Error(codes.pop(0)))
            return places

        def consumer_group_metadata(self) -> None: ...

    class Producer:
        """Refuses the progress of each transaction with the next code."""

        def __init__(self, _: Any) -> None: ...
        def init_transactions(self, seconds: float) -> None: ...
        def begin_transaction(self) -> None: ...
        def abort_transaction(self, seconds: float) -> None: ...
        def send_offsets_to_transaction(self, places: list[_Place], group: None, seconds: float) -> None:
            raise _Raised(_Error(codes.pop(0)))

    kafka = ModuleType("confluent_kafka")
    kafka.OFFSET_BEGINNING = -2  # type: ignore[attr-defined]
    admin = ModuleType("confluent_kafka.admin")
    admin.AdminClient = lambda _: None  # type: ignore[attr-defined]
    for name, one in {
        "admin": admin,
        "Consumer": Consumer,
        "Producer": Producer,
        "KafkaError": _Error,
        "KafkaException": _Raised,
        "TopicPartition": _Place,
    }.items():
        setattr(kafka, name, one)
    monkeypatch.setitem(sys.modules, "confluent_kafka", kafka)
    monkeypatch.setitem(sys.modules, "confluent_kafka.admin", admin)
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(time, "sleep", lambda seconds: now.append(now.pop() + seconds))
    return codes


def _progress() -> RestoreProgress | None:
    return Contact("h:1", ClientProperties("", {}, {})).progress("g", "orders", 0)


def test_a_coordinator_that_moves_or_loads_is_asked_again(answers: list[int]) -> None:
    answers += [16, 15, 14]
    assert _progress() == RestoreProgress(7, "m") and not answers


@pytest.mark.parametrize("code", [30, 16], ids=["another error", "for too long"])
def test_what_stays_refused_is_an_error(answers: list[int], code: int) -> None:
    answers += [code] * 100
    with pytest.raises(EngineError, match=f"the progress for orders-0: error {code}"):
        _progress()
    assert len(answers) == 99 if code == 30 else 0 < len(answers) < 99


def test_records_are_read_without_rights_on_the_clients_group(answers: list[int]) -> None:
    """Its rights are on the group of the progress, by name; librdkafka asks for the coordinator of any."""
    assert list(Contact("h:1", ClientProperties("", {}, {})).read("orders", 0)) == []


def test_a_group_that_the_user_may_not_read_is_told_in_place_of_a_time_out(answers: list[int]) -> None:
    answers += [_Error._TIMED_OUT]
    with pytest.raises(EngineError, match=f"the progress for orders-0: error {_Error.GROUP_AUTHORIZATION_FAILED}"):
        _progress()


@pytest.mark.parametrize(
    ("codes", "said"),
    [
        ([29, 29, _Error._STATE], "error 29"),
        ([_Error._FENCED], r"another restore .* runs, or a transaction took .* quota"),
    ],
    ids=["a topic that the user may not write to", "a quota, or another run"],
)
def test_why_a_transaction_fails_is_told(answers: list[int], codes: list[int], said: str) -> None:
    """X, 4.3.1: two attempts end with 29 (TopicAuthorizationFailed), the third with the state that follows; with 1.2 MB at
    3,000 B/s the coordinator aborts the transaction, and the client says that a newer instance has fenced it."""
    answers += codes
    session = Contact("h:1", ClientProperties("", {}, {})).session("s", 1_000)
    with pytest.raises(EngineError, match=f"orders-0: {said}"):
        session.produce("orders", 0, [], RestoreProgress(1, "m"))
