"""The command `elect`: what it prints, writes and returns."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path

import pytest
from tests.support.fixtures import FIXTURES
from tests.support.samples import SAMPLES
from tests.support.some import some

from replica_audit.cli.main import main
from replica_audit.config import Settings
from replica_audit.runner.in_process import audit_all

LISTING = "Topic: orders\tPartition: 0\tLeader: 2\tReplicas: {}\tIsr: {}\n"
UNCLEAN, HEALED = str(FIXTURES / "diverged-unclean"), str(FIXTURES / "diverged-healed")


def test_the_plan_is_printed_and_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "new" / "plan.json"
    assert main(["elect", UNCLEAN, "--kafka-version", "4.3.1", "--plan", str(path)]) == 0
    text = capsys.readouterr().out
    plan = json.loads(path.read_text(encoding="utf-8"))
    assert re.search(
        r"ledger-0\n +Each choice loses something: salvage \[34, 52\) from broker 1 first, then elect broker 0\.", text
    )
    assert all(len(line) <= 100 for line in text.splitlines())
    # Broken lines are what a shell puts together again.
    lines = [line for line in text.replace(" \\\n", " ").splitlines() if line.startswith("   ") and "'" not in line]
    printed = [shlex.split(line) for line in lines]
    assert [
        command for step in plan["steps"] for command in step["commands"] if shlex.split(command) not in printed
    ] == []
    assert main(["elect", UNCLEAN, "--kafka-version", "4.3.1", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == plan


def test_what_has_moved_is_told_and_makes_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "plan.json"
    assert main(["elect", UNCLEAN, "--plan", str(path)]) == 0
    capsys.readouterr()
    assert main(["elect", UNCLEAN, "--check", str(path)]) == 0
    assert capsys.readouterr().out == "Nothing has moved: the plan still holds.\n"
    assert main(["elect", HEALED, "--check", str(path)]) == 1
    text = capsys.readouterr().out
    assert "  ledger-0: log end of broker 0 was 79, is 52\n" in text
    assert re.match(r"\d+ premises of the plan have changed; make a new plan:\n", text)
    assert main(["elect", HEALED, "--check", str(path), "--format", "json"]) == 1
    assert {
        "topic": "ledger",
        "partition": 0,
        "broker_id": 0,
        "what": "log end",
        "before": 79,
        "now": 52,
    } in json.loads(capsys.readouterr().out)["moved"]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["ledger-9"], "ledger-9 is not in"),
        (["ledger-9"], "; of that topic there are ledger-0, ledger-1, ledger-2"),
        (["nothing-0"], "; topics there: __consumer_offsets, ledger"),
        (["ledger"], "give a partition such as orders-0"),
        (
            ["ledger-0", "--candidate", "7"],
            "broker 7 has no replica of ledger-0 in the snapshot; brokers 0, 1 and 2 have one",
        ),
        (["--up", "1,x"], "'x' is not a broker id"),
        (
            ["--up", "0,7"],
            "--up: the snapshot has nothing of broker 7, and no partition is assigned to it; it has brokers 0, 1 and 2",
        ),
        (
            ["--stopped-cleanly", "8,7"],
            "--stopped-cleanly: the snapshot has nothing of broker 7 or 8, and no partition is assigned to them",
        ),
        (
            ["--check", "/nowhere.json"],
            "--check /nowhere.json: cannot be read: No such file or directory; give the plan",
        ),
        (["--plan", f"{UNCLEAN}/plan.json"], "lies inside the snapshot"),
        (["--check", "a.json", "--plan", "b.json"], "--plan: with --check no plan is written: give one of the two"),
        (["--up", "0,1", "--stopped-cleanly", "1,2"], "--stopped-cleanly: broker 1 is up by --up"),
    ],
)
def test_mistakes_are_2_and_told(more: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["elect", UNCLEAN, *more]) == 2
    assert said in capsys.readouterr().err


def test_a_partition_without_a_plan_makes_1(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["elect", UNCLEAN, "--kafka-version", "2.3.0"]) == 1
    text = " ".join(capsys.readouterr().out.split())
    assert "No plan: kafka-leader-election.sh exists since Kafka 2.4" in text


def test_where_nothing_is_to_be_decided_it_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["elect", str(FIXTURES / "healthy-running")]) == 0
    assert capsys.readouterr().out.startswith("Nothing to decide")


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ([], "Keep broker 2 as leader, if it leads."),
        (["--up", "1,2"], "Nothing needs to be done."),
        (
            ["--up", "1"],
            "No plan: nothing says who is assigned and in sync (add a listing of kafka-topics.sh --describe, or leadership.json). "
            "The best choice would be to elect broker 2.",
        ),
    ],
    ids=["nothing says who is up", "the leader is up", "the leader is down"],
)
def test_a_leader_of_which_only_its_name_is_known_leads_only_where_it_is_up(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], more: list[str], said: str
) -> None:
    for broker in ("broker-1", "broker-2"):
        directory = SAMPLES / "last-replica-standing" / broker
        shutil.copytree(directory, tmp_path / broker, ignore=shutil.ignore_patterns("__cluster_metadata-0"))
    (tmp_path / "leadership.json").write_text('[{"topic": "orders", "partition": 0, "leader": 2}]', encoding="utf-8")
    main(["elect", str(tmp_path), "orders-0", *more])
    text = " ".join(capsys.readouterr().out.split())
    assert text.startswith(f"orders-0 {said}")
    assert (" check that broker 2 leads " in text.lower()) == (not more)


def test_a_calm_partition_that_is_asked_for_has_its_costs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["elect", str(FIXTURES / "lagging"), "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["decisions"] == []
    name = next(
        path.name for path in sorted((FIXTURES / "lagging").glob("broker-*/*-0")) if not path.name.startswith("__")
    )
    assert main(["elect", str(FIXTURES / "lagging"), name, "--format", "json"]) == 0
    (decision,) = json.loads(capsys.readouterr().out)["decisions"]
    assert decision["procedure"] == "none"
    assert any(one["lost_records"] for one in decision["candidates"])


def _leaders(snapshot: Path) -> dict[str, int]:
    """The leader of each partition."""
    rows = audit_all(str(snapshot), Settings()).rows("partitions")
    return {f"{row['topic']}-{row['partition']}": row["leader_id"] for row in rows}


def _decided(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, dict]:
    main(["elect", *words, "--format", "json"])
    found = json.loads(capsys.readouterr().out)["decisions"]
    return {f"{one['topic']}-{one['partition']}": one for one in found}


@pytest.mark.parametrize("capture", ["lagging", "healthy-running"])
def test_a_leader_that_is_said_to_be_down_leaves_a_decision_however_calm_the_logs_are(
    capture: str, capsys: pytest.CaptureFixture[str]
) -> None:
    snapshot = FIXTURES / capture
    leaders = _leaders(snapshot)
    brokers = {int(path.name.partition("-")[2]) for path in snapshot.glob("broker-*")}
    before = _decided(capsys, str(snapshot))
    assert _decided(capsys, str(snapshot), "--up", ",".join(map(str, sorted(brokers)))).keys() == before.keys()
    for down in some(sorted(set(leaders.values()) & brokers)):
        up = sorted(brokers - {down})
        if not up:
            continue
        decided = _decided(capsys, str(snapshot), "--up", ",".join(map(str, up)))
        assert decided.keys() - before.keys() == {
            place for place, leader in leaders.items() if leader == down and place not in before
        }


def test_the_tail_that_only_a_leader_that_is_said_to_be_down_has_is_counted(
    capsys: pytest.CaptureFixture[str],
) -> None:
    snapshot = FIXTURES / "lagging"
    leaders = {place: leader for place, leader in _leaders(snapshot).items() if not place.startswith("__")}
    brokers = {int(path.name.partition("-")[2]) for path in snapshot.glob("broker-*")}
    behind = []
    for down in some(sorted(set(leaders.values()))):
        decided = _decided(capsys, str(snapshot), "--up", ",".join(map(str, sorted(brokers - {down}))))
        for place in some([place for place, leader in leaders.items() if leader == down]):
            lost = {one["candidate_id"]: one["lost_records"] for one in decided[place]["candidates"]}
            assert lost[down] == 0
            behind += [number for broker, number in lost.items() if broker != down]
    assert any(behind)


@pytest.mark.parametrize("up", [(), (1,), (2,), (1, 2)])
@pytest.mark.parametrize(
    ("name", "said", "bounding"),
    [
        ("leadership.json", "[]", None),
        ("leadership.json", '[{"topic": "orders", "partition": 0, "leader": 2}]', None),
        ("leadership.json", '[{"topic": "orders", "partition": 0, "leader": 2, "isr": [1, 2]}]', None),
        ("kafka-topics-describe.txt", LISTING.format("1,2", "2"), 2),
        ("kafka-topics-describe.txt", LISTING.format("2,1", "1,2"), 1),
    ],
    ids=["nothing", "the leader", "leader and ISR", "assignment", "another order"],
)
def test_nobody_loses_nothing_where_nothing_says_who_is_assigned_or_what_bounds_the_mark_may_have_been_killed(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    name: str,
    said: str,
    bounding: int | None,
    up: tuple[int, ...],
) -> None:
    """`bounding`: the broker whose log end bounds the high watermark, where it is said who is assigned."""
    for broker in ("broker-1", "broker-2"):
        directory = SAMPLES / "last-replica-standing" / broker
        shutil.copytree(directory, tmp_path / broker, ignore=shutil.ignore_patterns("__cluster_metadata-0"))
    (tmp_path / name).write_text(said, encoding="utf-8")
    main(["elect", str(tmp_path), "orders-0", *(["--up", ",".join(map(str, up))] if up else [])])
    text = " ".join(capsys.readouterr().out.split())
    assert re.search(r"loses? nothing", text)
    is_known = bounding is not None and (not up or bounding in up)
    assert bool(re.search(r"loses? nothing(?! that the copies here have)", text)) == is_known, text


def test_the_whole_text_is_as_it_was_read(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FIXTURES)
    assert main(["elect", "diverged-unclean", "--kafka-version", "4.3.1"]) == 0
    golden = Path(__file__).parents[1] / "elect" / "golden" / "diverged-unclean.txt"
    assert capsys.readouterr().out == golden.read_text(encoding="utf-8")


def test_commands_of_a_plan_repeat_what_it_rests_on(capsys: pytest.CaptureFixture[str]) -> None:
    """A plan for one topic said to make plan.json for all of them, by another source of leadership."""
    sample = str(SAMPLES / "last-replica-standing")
    given = ["--topic", "ord*", "--leadership-source", "topics_describe", "--kafka-version", "4.0"]
    main(["elect", sample, *given, "--candidate", "1", "--format", "json"])
    (step,) = (one for one in json.loads(capsys.readouterr().out)["steps"] if one["action"] == "salvage")
    makes_plan, salvages = map(shlex.split, step["commands"])
    assert makes_plan == ["replica-audit", "elect", sample, "--candidate", "1", "--plan", "plan.json", *given]
    assert salvages == [
        "replica-audit", "salvage", sample, "--plan", "plan.json", "--payloads", "--to", "salvaged", *given,
    ]  # fmt: skip
    main(["show", sample, *given])
    shown = " ".join(capsys.readouterr().out.replace("\\\n", "").split())
    assert f"replica-audit elect {sample} {shlex.join(given)}" in shown
