"""The end of a log that it lost, or that was written after it was copied, is in the plan: no election is said to lose nothing."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.support import metadata_log as write
from tests.support.encoder import flip
from tests.support.scenario import audit, written
from tests.support.snapshots import DESCRIBE, TOPIC, TOPIC_ID, Listed, Replica, write_snapshot

from replica_audit.cli.main import main
from replica_audit.config import Settings
from replica_audit.elect.election_plan import advise
from replica_audit.runner.in_process import audit_all

_CUT = Replica(written(0, 30, 0), high_watermark=40)
_WHOLE = Replica(written(0, 40, 0))
_OPEN = "nothing shows whether brokers 1, 2 and 3 lost offsets 30 to 39, or were copied before these were written"


def _said(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    capsys.readouterr()
    main([*map(str, words), "-q"])
    return capsys.readouterr().out


def _plan(capsys: pytest.CaptureFixture[str], path: Path, *words: str) -> dict:
    return json.loads(_said(capsys, "elect", path, *words, "--format", "json"))


@pytest.mark.parametrize("leader", [1, None])
@pytest.mark.parametrize("marks", [{"high_watermark": 40}, {"recovery_point": 40}])
def test_what_no_copy_has_is_copied_again_before_anybody_is_elected(
    leader: int | None, marks: Mapping[str, int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "copied"
    answer = audit(path, {broker: Replica(written(0, 30, 0), **marks) for broker in (1, 2, 3)}, leader=leader)
    assert answer.verdict == "INCONCLUSIVE"
    (reason,) = {row["reason"] for row in answer.rows("elections")} - {None}
    assert "loses nothing that the copies here have" in reason and _OPEN in reason
    plan = _plan(capsys, path)
    first = plan["steps"][0]
    assert (first["action"], first["brokers"]) == ("capture", [1, 2, 3])
    assert _OPEN.replace("39", "39 of orders-0") in first["text"] and "audit again" in first["text"]
    assert shlex.split(first["commands"][0])[:5] == [
        "replica-audit",
        "capture-plan",
        "--move-aside",
        *(["1=LOG_DIR_OF_1", "2=LOG_DIR_OF_2"] if leader is None else ["2=LOG_DIR_OF_2", "3=LOG_DIR_OF_3"]),
    ]
    assert not [step for step in plan["steps"] if step["action"] in ("start", "stop", "elect", "check")]
    # Whether anything is to be mended is told by the next audit, on the new copies.
    assert not [step for step in plan["steps"] if "-ABOVE-LEO" in step["text"]]
    assert [_OPEN in one["reason"] for one in plan["conflicts"]] == [True]
    # Do first says it once, the plan for the partition, too.
    for times, text in ((2, _said(capsys, "elect", path)), (1, _said(capsys, "show", path))):
        told = " ".join(text.split()).replace("39 of orders-0", "39")
        assert told.count(_OPEN) == times and "loses nothing;" not in told and "loses nothing." not in told
        assert told.index("Copy the log directories of brokers 1, 2 and 3 again") < len(told)
        assert "kafka-leader-election" not in told
        assert "On the broker" not in told, "the script is made where replica-audit is, and reads there or through ssh"
    shown = json.loads(_said(capsys, "show", path, "--format", "json"))
    assert {row["reason"] for row in shown["elections"]} - {None} == {reason}


def test_it_says_so_where_one_broker_is_asked_for_as_well(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    audit(tmp_path / "copied", dict.fromkeys((1, 2, 3), _CUT), leader=None)
    plan = _plan(capsys, tmp_path / "copied", "orders-0", "--candidate", "2")
    assert [_OPEN in one["reason"] for one in plan["conflicts"]] == [True] and not plan["decisions"]


def test_what_another_replica_has_leaves_nothing_open(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Whoever has it is elected."""
    answer = audit(tmp_path / "copied", {1: _CUT, 2: _WHOLE, 3: _WHOLE}, leader=None)
    assert answer.one("HWM-CP-ABOVE-LEO", 1)[:2] == ("medium", "suspect")
    plan = _plan(capsys, tmp_path / "copied")
    assert [one["candidate_id"] for one in plan["decisions"]] == [2] and not plan["conflicts"]
    assert "capture" not in {step["action"] for step in plan["steps"]}


def test_in_the_order_of_the_manifest_it_is_lost_and_decided(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    audit(tmp_path / "copied", dict.fromkeys((1, 2, 3), _CUT), leader=None, in_order=True)
    plan = _plan(capsys, tmp_path / "copied")
    assert plan["decisions"] and not plan["conflicts"]
    assert "capture" not in {step["action"] for step in plan["steps"]}


def test_a_leader_that_lacks_it_too_may_have_lost_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """If the site lost power, broker 1 would cut broker 3, the last to have it; if it ran, broker 1 has it by now."""
    path = tmp_path / "copied"
    behind, short = Replica(written(0, 30, 0), high_watermark=28), Replica(written(0, 35, 0), high_watermark=40)
    answer = audit(path, {1: behind, 2: short, 3: _WHOLE})
    open_to_both = (
        "nothing shows whether brokers 1 and 2 lost offsets 30 to 39, or were copied before these were written"
    )
    (reason,) = {row["reason"] for row in answer.rows("elections")} - {None}
    assert reason.startswith("broker 1 loses nothing that the copies here have; neither would broker 3. "), reason
    assert reason.endswith(f"; broker 2 would lose 5 committed records. More may be lost: {open_to_both}"), reason
    plan = _plan(capsys, path)
    assert (plan["steps"][0]["action"], plan["steps"][0]["brokers"]) == ("capture", [1, 2, 3])
    assert [open_to_both in one["reason"] for one in plan["conflicts"]] == [True] and not plan["decisions"]
    asked = _plan(capsys, path, "orders-0", "--candidate", "3")
    assert [one["candidate_id"] for one in asked["decisions"]] == [3]
    assert asked["decisions"][0]["reason"] == "broker 3 was asked for; what broker 1 would lose is not known"
    assert "capture" not in {step["action"] for step in asked["steps"]}, "broker 3 is elected, and has it all"
    # One that has it leads on.
    whole = tmp_path / "whole"
    audit(whole, {1: _WHOLE, 2: short, 3: behind})
    kept = _plan(capsys, whole)
    assert not kept["conflicts"] and "capture" not in {step["action"] for step in kept["steps"]}


@pytest.mark.parametrize("begins", [35, 40, 100])
@pytest.mark.parametrize("marks", [{"high_watermark": 40}, {"recovery_point": 40}])
def test_what_was_deleted_since_leaves_nothing_open(
    begins: int, marks: Mapping[str, int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Broker 3 was away while retention deleted what it had had, and what it would have fetched."""
    rest = Replica(written(begins, 140, 0))
    answer = audit(tmp_path / "copied", {1: rest, 2: rest, 3: Replica(written(0, 30, 0), **marks)})
    assert [row["severity"] for row in answer.tables["findings"] if row["code"].endswith("-ABOVE-LEO")] == [
        "medium" if begins < 40 else "info"
    ], answer
    plan = _plan(capsys, tmp_path / "copied", "orders-0")
    assert [one["candidate_id"] for one in plan["decisions"]] == [1] and not plan["conflicts"]
    assert "capture" not in {step["action"] for step in plan["steps"]}


def test_what_a_leader_may_have_lost_is_not_what_was_deleted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A follower that begins past the leader's end shows no deletion: a leader deletes first."""
    audit(tmp_path / "copied", {1: _CUT, 2: Replica(written(35, 40, 0))})
    plan = _plan(capsys, tmp_path / "copied", "orders-0")
    assert [one["reason"] for one in plan["conflicts"]] and not plan["decisions"]


def test_a_topic_that_was_deleted_is_not_copied_again(tmp_path: Path) -> None:
    begin = write.new_topic(TOPIC, TOPIC_ID, (1, 2), 1)
    metadata = {100: write.history(begin, write.remove_topic(TOPIC_ID), apart_ms=10_000)}
    answer = audit(tmp_path / "copied", {1: _CUT, 2: _CUT}, metadata=metadata)
    assert answer.found("HWM-CP-ABOVE-LEO")
    plan = advise(audit_all(str(tmp_path / "copied"), Settings()))
    assert "capture" not in {step.action for step in plan.steps}


@pytest.mark.parametrize(
    ("up", "kinds", "said"),
    [
        ((), [], "who was down: add --kind ID=killed for each of brokers 1, 2 and 3 that is down, or ID=stopped if it"),
        (("1",), ["2=killed", "3=killed"], "who was down: write stopped instead of killed for a broker that was"),
        (("1,2,3",), [], "who was down. Until then"),
        (
            ("",),
            ["killed"],
            "who was down: write stopped instead of killed for a broker that was stopped cleanly. Until",
        ),
        (("2", "--stopped-cleanly", "1"), ["3=killed", "1=stopped"], "write stopped instead of killed for a broker"),
        (("2", "--stopped-cleanly", "1,3"), ["3=stopped", "1=stopped"], "who was down. Until then"),
    ],
)
def test_brokers_that_are_down_are_not_copied_as_running_ones(
    up: tuple[str, ...], kinds: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing that the log of a running broker lacks counts as lost. The leader's is copied last."""
    audit(tmp_path / "copied", dict.fromkeys((1, 2, 3), _CUT))
    step = _plan(capsys, tmp_path / "copied", *(["--up", *up] if up else ()))["steps"][0]
    assert said in step["text"], step["text"]
    assert shlex.split(step["commands"][0])[2:] == [
        "--move-aside",
        *(word for kind in kinds for word in ("--kind", kind)),
        *(f"{broker}=LOG_DIR_OF_{broker}" for broker in (2, 3, 1)),
        *("--to", "copied-again", ">", "copy-again.sh", "&&", "bash", "copy-again.sh"),
    ]


def test_the_commands_of_the_step_serve_as_they_are_printed_as_often_as_they_are_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Brokers that were killed lost it; with that in manifest.json there is a plan."""
    path = tmp_path / "copied"
    audit(path, dict.fromkeys((1, 2, 3), _CUT), leader=None)
    step = _plan(capsys, path, "--up", "")["steps"][0]
    monkeypatch.chdir(tmp_path)
    assert "Put the listing of the topics into copied-again, too: it is not on any broker" in step["text"]
    for _ in range(2):
        copy, elect = step["commands"]
        script, run = copy.split(" && ")
        words = shlex.split(re.sub(r"LOG_DIR_OF_(\d)", rf"{path}/broker-\1", script))
        (tmp_path / words[-1]).write_text(_said(capsys, *words[1:-2]))
        subprocess.run(["bash", "-c", run], check=True, capture_output=True)
        shutil.copy(path / DESCRIBE, "copied-again")
        plan = json.loads(_said(capsys, *shlex.split(elect)[1:], "--format", "json"))
        assert plan["decisions"] and not plan["conflicts"]
    assert len([*tmp_path.glob("copied-again*")]) == 2


def test_the_next_plan_rests_on_the_same_options(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without its version the manifest of the new copies had the rules of another one, and elect looked at all topics."""
    audit(tmp_path / "copied", dict.fromkeys((1, 2, 3), _CUT))
    given = ("--kafka-version", "2.8.1", "--topic", "orders*")
    script, elect = _plan(capsys, tmp_path / "copied", *given)["steps"][0]["commands"]
    assert "--kafka-version 2.8.1 --to copied-again > copy-again.sh && bash copy-again.sh" in script
    assert elect == "replica-audit elect copied-again --topic 'orders*' --kafka-version 2.8.1"


def test_the_next_plan_is_for_the_candidate_and_the_cluster_of_this_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its steps named HOST:PORT again, and no candidate, or one for every partition."""
    audit(tmp_path / "copied", dict.fromkeys((1, 2, 3), _CUT))
    server = ("--bootstrap-server", "kafka1:9092", "--command-config", "client.properties")
    _, elect = _plan(capsys, tmp_path / "copied", *server)["steps"][0]["commands"]
    assert elect == f"replica-audit elect copied-again {shlex.join(server)}"
    _, elect = _plan(capsys, tmp_path / "copied", "orders-0", "--candidate", "2", *server)["steps"][0]["commands"]
    assert elect == f"replica-audit elect copied-again orders-0 --candidate 2 {shlex.join(server)}"


def test_where_the_copies_say_who_leads_no_plan_is_made_unless_all_was_copied(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Else it was made from the copies of an earlier try."""
    begin = write.new_topic(TOPIC, TOPIC_ID, (1, 2, 3), 1)
    audit(tmp_path / "copied", dict.fromkeys((1, 2, 3), _CUT), metadata={100: write.history(begin)})
    (command,) = _plan(capsys, tmp_path / "copied", "--up", "")["steps"][0]["commands"]
    assert command.endswith(" > copy-again.sh && bash copy-again.sh && replica-audit elect copied-again --up ''")


def test_the_partition_states_of_zookeeper_are_put_into_the_new_copies(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file, not ZooKeeper, can be put into a directory."""
    audit(tmp_path / "copied", dict.fromkeys((1, 2, 3), _CUT))
    state = {"controller_epoch": 1, "leader": 1, "version": 1, "leader_epoch": 0, "isr": [1, 2, 3]}
    (tmp_path / "copied" / "zookeeper.json").write_text(json.dumps({f"{TOPIC}-0": state}))
    text = _plan(capsys, tmp_path / "copied")["steps"][0]["text"]
    assert text.endswith("Put zookeeper.json into copied-again, too: it is not on any broker")


_PARTED = {
    1: Replica([*written(0, 20, 0), *written(20, 40, 1)], partition=1),
    2: Replica(written(0, 20, 0), partition=1),
    3: Replica(written(0, 20, 0), partition=1),
}


@pytest.mark.parametrize("asked", [(), ("orders-1",)])
def test_no_broker_is_started_for_another_partition_meanwhile(
    asked: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """To elect broker 1 for orders-1 it is started first, leads orders-0, too, and cuts whoever still has the end of it."""
    listed = [Listed(1, (1, 2, 3), (1, 2, 3)), Listed(None, (1, 2, 3), (1,), partition=1)]
    calm = {broker: Replica(written(0, 30, 0)) for broker in (1, 2, 3)}
    path = write_snapshot(tmp_path / "calm", {one: [calm[one], _PARTED[one]] for one in (1, 2, 3)}, listed)
    assert {"start", "elect"} <= {step["action"] for step in _plan(capsys, path, *asked, "--up", "")["steps"]}
    path = write_snapshot(tmp_path / "open", {one: [_CUT, _PARTED[one]] for one in (1, 2, 3)}, listed)
    plan = _plan(capsys, path, *asked, "--up", "")
    # Nor is what is copied anyway copied twice.
    assert [(step["action"], step["brokers"]) for step in plan["steps"]] == [("capture", [1, 2, 3])]
    why = {(one["topic"], one["partition"]): one["reason"] for one in plan["conflicts"]}
    assert "its brokers also have orders-0, and starting or stopping one may cut" in why["orders", 1]
    told = " ".join(_said(capsys, "show", path).split())
    assert told.count("nothing shows whether") == 1 and "orders-1: No plan: its brokers also have orders-0" in told


@pytest.mark.parametrize("asked", [(), ("orders-1",)])
def test_no_broker_is_restarted_to_mend_another_partition_before_it_is_copied_again(
    asked: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Asked for orders-1 alone, the plan began with a restart of broker 2, which may cut the last end of orders-0."""
    sound = written(0, 20, 0)
    listed = [Listed(1, (1, 2, 3), (1, 2, 3), partition=one) for one in (0, 1)]
    other = {broker: Replica(sound, partition=1) for broker in (1, 3)}
    other[2] = Replica([sound[0], flip(sound[1], 80), *sound[2:]], partition=1)
    path = write_snapshot(tmp_path / "copied", {one: [_CUT, other[one]] for one in (1, 2, 3)}, listed)
    plan = _plan(capsys, path, *asked, "--up", "1,2,3")
    first, *rest = plan["steps"]
    assert (first["action"], first["brokers"]) == ("capture", [1, 2, 3])
    assert rest and {(step["action"], *step["brokers"]) for step in rest} == {("mend", 2)}


def test_where_it_is_on_other_brokers_nothing_is_held_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    listed = [Listed(4, (4, 5), (4, 5)), Listed(None, (1, 2, 3), (1,), partition=1)]
    path = write_snapshot(tmp_path / "apart", {4: _CUT, 5: _CUT, **_PARTED}, listed)
    plan = _plan(capsys, path, "--up", "")
    assert [one["partition"] for one in plan["conflicts"]] == [0]
    assert {"capture", "copy", "start", "elect"} <= {step["action"] for step in plan["steps"]}


def test_one_offset_is_one_whatever_the_topic_is_called(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = Replica(written(0, 30, 0), high_watermark=31)
    audit(tmp_path / "copied", {1: one, 2: one}, topic="offsets")
    text = _plan(capsys, tmp_path / "copied")["steps"][0]["text"]
    assert "brokers 1 and 2 lost offset 30 of offsets-0, or were copied before it was written" in text
