"""More bytes than somebody agreed to: readers wait, and go on or stop as they are told; what was read by then is a snapshot."""

from __future__ import annotations

import io
import sys
import threading
from collections.abc import Iterable
from pathlib import Path

import pytest
from kafka.protocol.consumer import FetchRequest
from tests.support.answering_brokers import AnsweringBrokers, batches_of, in_sync
from tests.support.encoder import encode_batch, make_records

import replica_audit
from replica_audit.cli.main import main
from replica_audit.config import Settings
from replica_audit.observe.agreement import AgreedBytes
from replica_audit.runner.in_process import audit_all

LONG, SHORT = ("orders", 0), ("a", 0)
COMMAND = ["observe", "--bootstrap-servers", "h:1", "--rate-mib", "1000", "--yes", "--to"]


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> AnsweringBrokers:
    """One broker, so that nobody else's bytes are counted. Batches of one topic are far longer further on than where its log begins."""
    first = [encode_batch(at * 10, make_records(10), 0) for at in range(200)]
    long = [encode_batch(2000 + at, make_records(1, "x" * 200_000), 0) for at in range(40)]
    replicas = {LONG: in_sync([*first, *long], [1]), SHORT: in_sync(batches_of(0, 0), [1])}
    brokers = AnsweringBrokers(replicas, dict.fromkeys(replicas, 1), newest={FetchRequest: 12})
    monkeypatch.setattr("replica_audit.api.observation.connect", lambda *_: brokers.client())
    return brokers


class _Terminal:
    """A terminal where somebody gives these answers."""

    def __init__(self, answers: Iterable[str]) -> None:
        self.left = list(answers)

    def isatty(self) -> bool:
        return True

    def readline(self) -> str:
        return self.left.pop(0)


class _Screen(io.StringIO):
    """A terminal that is written to."""

    def isatty(self) -> bool:
        return True


def test_an_estimate_that_holds_asks_nobody(cluster: AnsweringBrokers, tmp_path: Path) -> None:
    del cluster.replicas[LONG]
    assert main([*COMMAND, str(tmp_path / "s")]) == 0


def test_where_nobody_can_be_asked_it_stops_and_tells_what_it_has(
    cluster: AnsweringBrokers, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*COMMAND, str(tmp_path / "s")]) == 1
    said = " ".join(capsys.readouterr().out.split())
    assert "1 replica read" in said and "broker 1: orders-0: nobody agreed to read more than the" in said
    results = audit_all(str(tmp_path / "s"), Settings(quiet=True))
    assert {row.topic: row.verdict for row in results.partitions} == {"a": "CONSISTENT", "orders": "INCONCLUSIVE"}
    # What is left can be read alone, by those who agree to as much.
    more = ["--topic", "orders", "--at-most-mib", "100"]
    assert main([*COMMAND, str(tmp_path / "t"), *more]) == 0
    assert audit_all(str(tmp_path / "t"), Settings(quiet=True)).partitions[0].verdict == "CONSISTENT"


@pytest.mark.parametrize(
    ("answers", "status", "read"), [(["n\n"], 1, 1), (["y\n", "n\n"], 1, 1), (["y\n"] * 20, 0, 2), ([""], 1, 1)]
)
def test_whoever_is_at_the_terminal_is_asked_each_time(
    answers: list[str],
    status: int,
    read: int,
    cluster: AnsweringBrokers,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terminal = _Terminal(answers)
    monkeypatch.setattr(sys, "stdin", terminal)
    assert main([*COMMAND, str(tmp_path / "s")]) == status
    said = capsys.readouterr()
    assert said.err.count("Read as much again?") == len(answers) - len(terminal.left) > 0
    assert f"{read} replica" in said.out
    assert all(one.stat().st_mode & 0o777 == 0o600 for one in (tmp_path / "s").rglob("*.parquet"))
    assert len(list((tmp_path / "s").rglob("*.parquet"))) == read


def test_the_question_has_a_line_of_its_own_below_the_progress(
    cluster: AnsweringBrokers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    screen = _Screen()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(sys, "stdin", _Terminal(["n\n"]))
    assert main([*COMMAND, str(tmp_path / "s")]) == 1
    (question,) = (line for line in screen.getvalue().split("\n") if "Read as much again?" in line)
    assert "reading replicas" in screen.getvalue() and question.startswith("observe: ")


def test_as_much_as_was_given_is_not_asked_for_again(
    cluster: AnsweringBrokers, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*COMMAND, str(tmp_path / "s"), "--at-most-mib", "100"]) == 0
    assert "Read as much again?" not in capsys.readouterr().err
    assert main([*COMMAND, str(tmp_path / "t"), "--at-most-mib", "1"]) == 1


def test_an_interruption_while_it_asks_ends_the_readers_that_wait(tmp_path: Path) -> None:
    cluster = AnsweringBrokers({LONG: in_sync(batches_of(*[0] * 200))}, {LONG: 1})
    plan = cluster.plan()

    def interrupt(came_bytes: int) -> bool:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cluster.observe(tmp_path / "s", plan=plan, rate=4000, agreement=AgreedBytes(1000, interrupt))
    assert not list(tmp_path.iterdir())
    assert not [one for one in threading.enumerate() if "ThreadPool" in one.name]


def test_the_last_answer_may_be_more_than_was_agreed_to(cluster: AnsweringBrokers, tmp_path: Path) -> None:
    del cluster.replicas[LONG]
    asked: list[int] = []
    found = cluster.observe(tmp_path / "s", agreement=AgreedBytes(1, lambda came: bool(asked.append(came))))
    assert found.size_bytes > 1 and not asked and not found.unread


def test_readers_of_all_brokers_go_on_after_one_answer(tmp_path: Path) -> None:
    cluster = AnsweringBrokers({LONG: in_sync(batches_of(*[0] * 200))}, {LONG: 1})
    asked: list[int] = []
    found = cluster.observe(
        tmp_path / "s", rate=4 << 14, agreement=AgreedBytes(20_000, lambda came: not asked.append(came))
    )
    sent = 3 * sum(map(len, cluster.replicas[LONG][1].batches))
    assert found.size_bytes >= sent and not found.unread
    assert 0 < len(asked) <= found.size_bytes // 20_000 and asked == sorted(asked)


def test_from_python_the_call_agrees_to_twice_the_estimate(cluster: AnsweringBrokers, tmp_path: Path) -> None:
    found = replica_audit.observe(str(tmp_path / "s"), bootstrap_servers="h:1", rate_mib=1000)
    assert found.exit_status == 1 and {one.topic for one in found.found.unread} == {"orders"}
    found = replica_audit.observe(str(tmp_path / "t"), bootstrap_servers="h:1", rate_mib=1000, at_most_mib=100)
    assert found.exit_status == 0 and not found.found.unread and found.directory == str(tmp_path / "t")
    assert "2 replicas read" in str(found) and found.to_dict()["replicas"] == 2
    assert any("will be read" in one for one in found.notes)
    assert replica_audit.show(found.directory).verdict == "CONSISTENT"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "--bootstrap-servers is missing"),
        ({"bootstrap_servers": "h"}, "expected HOST:PORT"),
        ({"bootstrap_servers": "h:1", "last": 0}, "last: expected a number of 1 or more"),
        ({"bootstrap_servers": "h:1", "rate_mib": 0}, "rate_mib: expected"),
        ({"bootstrap_servers": "h:1", "since": "yesterday"}, "since: 'yesterday' is not a time"),
        ({"bootstrap_servers": "h:1", "topics": ["none"]}, "no topic can be read"),
    ],
)
def test_arguments_from_python_are_checked(given: dict, said: str, cluster: AnsweringBrokers, tmp_path: Path) -> None:
    with pytest.raises(replica_audit.UsageError, match=said):
        replica_audit.observe(str(tmp_path / "s"), **given)
    assert not list(tmp_path.iterdir())
