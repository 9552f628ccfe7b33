"""`capture-plan --evidence`: the script that it prints is run, and the audit of what it collects is that of the original."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from tests.support.collected import answers
from tests.support.fixtures import FIXTURES

from replica_audit.cli.main import main
from replica_audit.parsing import parse_json

CAPTURE = FIXTURES / "compacted-skewed-2"


def _plan(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["capture-plan", *arguments]) == 0
    return capsys.readouterr().out


def _run(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    # The Python of the tests has a library for the checksums.
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    command = ["bash", "-s", "--", *arguments]
    return subprocess.run(command, input=script, capture_output=True, text=True, env={**os.environ, "PATH": path})


def _brokers(capture: Path) -> list[str]:
    return [f"{path.name[7:]}={path}" for path in sorted(capture.glob("broker-*"))]


def test_the_script_collects_and_brings_what_is_wanted(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    to, wanted = tmp_path / "a snapshot's place", tmp_path / "wanted.json"
    fast = ("--collect-options", "--raw --rate-mib 1e9 --iops 1e9")
    ended = _run(_plan(capsys, "--evidence", *_brokers(CAPTURE), "--to", str(to), *fast))
    assert ended.returncode == 0, ended.stderr
    assert sorted(path.name for path in to.iterdir()) == [f"evidence-{number}.tar" for number in range(3)]
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in to.iterdir())
    rounds = 0
    while True:
        main(["show", str(to), "-q", "--wanted", str(wanted)])
        capsys.readouterr()
        if not parse_json(wanted.read_bytes(), "wanted.json", "")["wanted"]:
            break
        rounds += 1
        ended = _run(_plan(capsys, "--wanted", str(wanted), *_brokers(CAPTURE), "--to", str(to), *fast))
        assert ended.returncode == 0, ended.stderr
    assert rounds == 2
    codes = {row["code"] for row in answers(to)["findings"]}
    assert "CAP-NOT-CAPTURED" not in codes
    assert (
        codes >= {row["code"] for row in answers(CAPTURE)["findings"] if row["severity"] in ("high", "medium")} != set()
    )


def test_how_much_there_is_to_read_is_said_first(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    to = tmp_path / "snapshot"
    ended = _run(_plan(capsys, "--evidence", *_brokers(CAPTURE), "--to", str(to)), "--dry-run")
    assert ended.returncode == 0 and not to.exists()
    assert [line.split(":")[0] for line in ended.stdout.splitlines()] == ["broker 0", "broker 1", "broker 2"]


def test_what_is_not_all_read_is_at_most_so_much(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    partition = tmp_path / "data" / "orders-0"
    partition.mkdir(parents=True)
    for name in (".log", ".log.deleted", ".log.swap", ".log.cleaned", ".index"):
        (partition / f"{0:020d}{name}").write_bytes(b"x")
    (tmp_path / "wanted.json").write_text(json.dumps({"format": 1, "wanted": []}))
    for given, said in (
        (["--evidence"], "broker 1: 3 segments"),
        (["--evidence", "--collect-options", "--topic x"], "broker 1: at most 3 segments"),
        (["--wanted", str(tmp_path / "wanted.json")], "broker 1: at most 3 segments"),
    ):
        ended = _run(_plan(capsys, *given, f"1={tmp_path}/data", "--to", str(tmp_path / "to")), "--dry-run")
        assert ended.stdout.startswith(said), ended.stderr


def _wanted_script(capsys: pytest.CaptureFixture[str], tmp_path: Path, to: Path) -> str:
    (tmp_path / "wanted.json").write_text(json.dumps({"format": 1, "wanted": []}))
    return _plan(capsys, "--wanted", str(tmp_path / "wanted.json"), *_brokers(CAPTURE)[:1], "--to", str(to))


def test_a_last_file_that_is_long_is_not_taken_for_one_that_lacks(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    to = tmp_path / "to"
    script = _wanted_script(capsys, tmp_path, to)
    lists = "    collection.lists.flush()\n"
    many = f"{lists}    collection.lists.written = [['x' * 1000, 0, '']] * 200\n"
    assert script.count(lists) == 1
    ended = _run(script.replace(lists, many))
    assert ended.returncode == 0, ended.stderr
    assert [path.name[:18] for path in to.iterdir()] == ["evidence-0-wanted-"]


@pytest.mark.parametrize("with_flock", [True, False])
def test_two_scripts_do_not_collect_a_broker_at_the_same_time(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, with_flock: bool
) -> None:
    to = tmp_path / "to"
    (to / ".lock-0").mkdir(parents=True)
    script = _wanted_script(capsys, tmp_path, to)
    if with_flock:
        (to / ".lock-0").rmdir()
        (to / ".lock-0").touch()
        script = f'exec 8<"{to}/.lock-0"\nflock -n 8\n{script}\n'
    else:
        script = script.replace("command -v flock", "false")
    ended = _run(script)
    assert ended.returncode == 1 and "broker 0: another collection into" in ended.stderr, ended.stderr
    assert [path.name for path in to.iterdir()] == [".lock-0"]
    (to / ".lock-0").unlink() if with_flock else (to / ".lock-0").rmdir()
    assert _run(_wanted_script(capsys, tmp_path, to)).returncode == 0
    assert [path.name[:18] for path in to.iterdir()] == ["evidence-0-wanted-"]


def test_a_collection_that_was_killed_bars_no_other(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    to = tmp_path / "to"
    to.mkdir()
    # Its lock is a file that nobody holds.
    (to / ".lock-0").touch()
    assert _run(_wanted_script(capsys, tmp_path, to)).returncode == 0
    assert [path.name[:18] for path in to.iterdir()] == ["evidence-0-wanted-"]


def test_what_a_script_left_that_was_killed_is_gone_on_from(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    to = tmp_path / "to"
    to.mkdir()
    (to / ".0.123.part").write_bytes(b'{"as": "frames", "path": "x"}\n')
    (to / ".0.124.part").write_bytes(b"nothing yet")
    # That of another broker may be written at this moment.
    (to / ".8.123.part").write_bytes(b"of another")
    ended = _run(_wanted_script(capsys, tmp_path, to))
    assert ended.returncode == 0 and ended.stderr.count("broker 0: a collection was killed") == 1
    kept = sorted(path.name for path in to.iterdir() if "-wanted-" not in path.name)
    assert [name[:18] for name in kept] == [".8.123.part", "evidence-0-broken-"]
    assert kept[1].endswith("-123.tar") and b"frames" in (to / kept[1]).read_bytes()


def test_each_broker_brings_what_is_wanted_of_it(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    # As on two hosts, each with its log dir at the same path.
    (segment,) = sorted(CAPTURE.glob("broker-0/*/*.log"))[:1]
    log_dir = CAPTURE / "broker-0"
    one = {"log_dir": str(log_dir), "path": str(segment.relative_to(log_dir)), "ranges": [[0, 61]]}
    wanted = [{**one, "broker_id": 7}, {**one, "broker_id": 8, "path": "not-here-0/x.log"}]
    (tmp_path / "wanted.json").write_text(json.dumps({"format": 1, "wanted": wanted}))
    sizes = {}
    for broker in (7, 9):
        to = tmp_path / f"to-{broker}"
        given = ("--wanted", str(tmp_path / "wanted.json"), f"{broker}={log_dir}", "--to", str(to))
        ended = _run(_plan(capsys, *given))
        assert ended.returncode == 0 and "could not be read" not in ended.stderr, ended.stderr
        (archive,) = to.iterdir()
        with tarfile.open(archive) as tar:
            sizes[broker] = len([name for name in tar.getnames() if ".bytes-" in name and segment.name in name])
    assert sizes == {7: 1, 9: 0}


def test_another_user_reads_on_the_brokers(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    tools, said = tmp_path / "tools", tmp_path / "said"
    tools.mkdir()
    (tools / "sudo").write_text(f'#!/bin/sh\necho "$1 $2 $3 $4" >>{said}\nshift 3\nexec "$@"\n')
    (tools / "sudo").chmod(0o755)
    script = _plan(capsys, "--evidence", "--sudo", "kafka", *_brokers(CAPTURE)[:1], "--to", str(tmp_path / "to"))
    script = f"PATH={tools}:$PATH\n{script}"
    assert _run(script, "--dry-run").returncode == 0
    ended = _run(script)
    assert ended.returncode == 0, ended.stderr
    assert said.read_text().splitlines() == ["-n -u kafka find", "-n -u kafka python3"]
    assert main(["capture-plan", "--sudo", "kafka", "1=/data"]) == 2
    assert "--sudo: only with evidence" in capsys.readouterr().err


def test_a_broker_that_cannot_be_read_does_not_stop_the_others(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    to = tmp_path / "snapshot"
    given = [*_brokers(CAPTURE)[:1], f"9={tmp_path}/nowhere"]
    ended = _run(_plan(capsys, "--evidence", *given, "--to", str(to), "--collect-options", "--rate-mib 1e9 --iops 1e9"))
    assert ended.returncode == 1
    assert "broker 9: no evidence, exit status 2" in ended.stderr and "no such directory" in ended.stderr
    assert [path.name for path in to.iterdir()] == ["evidence-0.tar"]


def test_a_directory_that_is_not_empty_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "x").write_text("x")
    ended = _run(_plan(capsys, "--evidence", *_brokers(CAPTURE), "--to", str(tmp_path)))
    assert ended.returncode == 2 and "is not empty" in ended.stderr


def test_wanted_ranges_that_are_none_are_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "wanted.json").write_text(json.dumps({"format": 1, "wanted": [{"path": "../x"}]}))
    assert main(["capture-plan", "--wanted", str(tmp_path / "wanted.json"), "1=/data"]) == 2
    assert "the wanted ranges could not be read" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--to", "x\ntouch y"], "--to with a line break"),
        (["--to", "x", "--collect-options", "--topic 'a"], "No closing quotation"),
    ],
)
def test_what_would_break_the_script_is_refused(
    capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    assert main(["capture-plan", "--evidence", "1=/data", *arguments]) == 2
    found = capsys.readouterr()
    assert said in found.err and not found.out


def test_what_was_brought_in_the_same_second_is_kept(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    to, wanted, tools = tmp_path / "snapshot", tmp_path / "wanted.json", tmp_path / "tools"
    to.mkdir()
    tools.mkdir()
    (tools / "date").write_text("#!/bin/sh\necho 20260101T000000Z\n")
    (tools / "date").chmod(0o755)
    wanted.write_text(json.dumps({"format": 1, "wanted": []}))
    script = _plan(capsys, "--wanted", str(wanted), *_brokers(CAPTURE)[:1], "--to", str(to))
    for _ in range(2):
        ended = _run(f"PATH={tools}:$PATH\n{script}")
        assert ended.returncode == 0, ended.stderr
    assert len(list(to.glob("evidence-0-wanted-20260101T000000Z-*.tar"))) == 2


def test_a_listing_that_fails_leaves_the_one_before(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    to, tools = tmp_path / "a snapshot", tmp_path / "tools"
    tools.mkdir()
    tool = tools / "kafka-topics.sh"
    fast = ("--collect-options", "--rate-mib 1e9 --iops 1e9", "--bootstrap-server", "b:9092")
    for says, status, listed in (("first", 0, "first\n"), ("half", 1, "first\n"), ("second", 0, "second\n")):
        tool.write_text(f"#!/bin/sh\necho {says}\nexit {status}\n")
        tool.chmod(0o755)
        script = _plan(capsys, "--after", "--evidence", *_brokers(CAPTURE)[:1], "--to", str(to), *fast)
        ended = _run(f"PATH={tools}:$PATH\n{script}")
        assert ended.returncode == status and ("no new listing of the topics" in ended.stderr) == bool(status)
        assert (to / "kafka-topics-describe.txt").read_text() == listed
        assert not list(to.glob(".kafka*"))
