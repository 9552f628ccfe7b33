"""How fast a broker is read, and that nobody is read who was not asked about."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.answering_brokers import AnsweringBrokers, batches_of, in_sync

from replica_audit.cli.main import main
from replica_audit.observe.reading import Pace

PLACE = ("orders", 0)


class _Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def test_what_came_is_paid_for_before_more_is_asked_for() -> None:
    clock = _Clock()
    pace = Pace(1000, lambda: clock.now, clock.sleep)
    for _ in range(10):
        pace.wait()
        pace.take(500)
    pace.wait()
    assert clock.now == pytest.approx(105.0)


def test_time_that_passed_is_not_saved_up() -> None:
    clock = _Clock()
    pace = Pace(1000, lambda: clock.now, clock.sleep)
    clock.now += 1000
    for _ in range(3):
        pace.wait()
        pace.take(1000)
    assert clock.now == pytest.approx(1102.0)


def test_one_answer_is_a_quarter_of_a_second_at_most() -> None:
    assert Pace(1 << 20).fetch_bytes == 1 << 18 and Pace(1 << 40).fetch_bytes == 1 << 20


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> AnsweringBrokers:
    """Of as many brokers as are asked for."""
    up = range(1, getattr(request, "param", 3) + 1)
    brokers = AnsweringBrokers({PLACE: in_sync(batches_of(0, 0), up)}, {PLACE: 1})
    monkeypatch.setattr("replica_audit.api.observation.connect", lambda *_: brokers.client())
    return brokers


@pytest.mark.parametrize(
    ("cluster", "whose"), [(3, "each of brokers 1, 2 and 3."), (1, "broker 1.")], indirect=["cluster"]
)
def test_nothing_is_read_unless_somebody_agrees(
    cluster: AnsweringBrokers, whose: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["observe", "--bootstrap-servers", "h:1", "--to", str(tmp_path / "s")]) == 2
    said = capsys.readouterr().err
    assert "give --yes" in said and f"will be read, at most 10.0 MiB a second from {whose}" in said
    assert not list(tmp_path.iterdir())


def test_a_topic_that_nobody_has_is_2(
    cluster: AnsweringBrokers, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["observe", "--bootstrap-servers", "h:1", "--to", str(tmp_path / "s"), "--yes", "--topic", "x"]) == 2
    assert "topic x: UNKNOWN_TOPIC_OR_PARTITION" in capsys.readouterr().err


def test_what_was_read_is_said(cluster: AnsweringBrokers, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["observe", "--bootstrap-servers", "h:1", "--to", str(tmp_path / "s"), "--yes"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "3 replicas read" in said and "no record was kept" in said and "Not captured: records above" in said
