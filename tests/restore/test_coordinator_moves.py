"""A group's coordinator moves while brokers start: restore asks again, as any consumer does."""

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

    def __init__(self, code: int) -> None:
        self._code = code

    def code(self) -> int:
        return self._code

    def str(self) -> str:
        return f"error {self._code}"


class _Raised(Exception):  # noqa: N818 - as confluent-kafka's KafkaException
    pass


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

    class Consumer:
        def __init__(self, _: Any) -> None: ...
        def close(self) -> None: ...
        def committed(self, places: list[_Place], timeout: float) -> list[_Place]:
            if codes:
                raise _Raised(_Error(codes.pop(0)))
            return places

    kafka = ModuleType("confluent_kafka")
    admin = ModuleType("confluent_kafka.admin")
    admin.AdminClient = lambda _: None  # type: ignore[attr-defined]
    for name, one in {
        "admin": admin,
        "Consumer": Consumer,
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
