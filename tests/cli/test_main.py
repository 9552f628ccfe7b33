"""Exit statuses, and what goes to stdout and stderr; the engine is replaced, since only the frame is tested here."""

from __future__ import annotations

import errno
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.support.engine import Engine
from tests.support.report_rows import REPORT_FILES, finding, partition, results

from replica_audit.cli import failure
from replica_audit.cli.main import main
from replica_audit.errors import EngineError, FormatError, InputError, UsageError
from replica_audit.report.layout import WIDTH
from replica_audit.results import Results
from replica_audit.schema import REPORT_TABLES


def _last_line(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().out.splitlines()[-1]


def test_run_ingests_audits_reports_and_ends_with_the_status_line(engine: Engine, capsys: Any) -> None:
    assert main(["run", "snapshot"]) == 0
    assert [call[0] for call in engine.calls] == ["session", "ingest", "audit"]
    assert engine.calls[2:] == [("audit", "s1")] and engine.stopped == 1
    out = capsys.readouterr().out
    assert out.splitlines()[-1].startswith("OK: 1 partition, CONSISTENT; no findings")
    assert sorted(path.name for path in Path("replica-audit-report").iterdir()) == list(REPORT_FILES)
    assert all(len(line) <= WIDTH for line in out.splitlines())


@pytest.mark.parametrize(
    ("found", "arguments", "status", "word"),
    [
        (results(), [], 0, "OK"),
        (results(findings=[finding("REP-LAG", "info")]), [], 0, "OK"),
        (results(findings=[finding("LOG-GAP", "medium")]), [], 0, "WARNING"),
        (results(findings=[finding("LOG-GAP", "medium")]), ["--fail-on", "medium"], 1, "CRITICAL"),
        (results(findings=[finding("HWM-LOSS", "critical")]), ["--fail-on", "never"], 0, "WARNING"),
        (results(findings=[finding("HWM-LOSS", "critical")]), [], 1, "CRITICAL"),
        (results([partition(verdict="INCONCLUSIVE")]), [], 3, "UNKNOWN"),
        (results([partition(verdict="INCONCLUSIVE")]), ["--fail-on", "never"], 3, "UNKNOWN"),
        (results([partition(verdict="INCONCLUSIVE")], [finding("CAP-UNREADABLE", "high")]), [], 1, "CRITICAL"),
        (results([]), [], 3, "UNKNOWN"),
    ],
)
def test_the_answer_decides_exit_status_status_line_and_verdict_json(
    found: Results, arguments: list[str], status: int, word: str, engine: Engine, capsys: Any
) -> None:
    engine.results = found
    assert main(["run", "snapshot", *arguments]) == status
    assert _last_line(capsys).startswith(f"{word}: ")
    verdict = json.loads(Path("replica-audit-report/verdict.json").read_text())
    assert (verdict["status"], verdict["exit_status"]) == (word, status)


def test_a_fault_of_the_engine_is_one_sentence_and_its_trace_a_file(
    engine: Engine, capsys: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(failure, "TEMPORARY", str(tmp_path / "tmp"))
    engine.logged = "ERROR x"
    engine.error = OSError(errno.ENOSPC, "No space left on device", "replica-audit-warehouse/x.parquet")
    assert main(["run", "snapshot"]) == 4
    captured = capsys.readouterr()
    (trace,) = (tmp_path / "tmp").iterdir()
    assert captured.err.count("\n") == 1 and captured.err.endswith(f"; details are in {trace}\n")
    assert captured.err.startswith("replica-audit: no space is left on the disk (replica-audit-warehouse/x.parquet)")
    assert "Traceback" in trace.read_text() and "ERROR x" in trace.read_text() and captured.out.startswith("UNKNOWN: ")
    verdict = json.loads(Path("replica-audit-report/verdict.json").read_text())
    assert verdict["exit_status"] == 4 and verdict["untrusted"].startswith("no space is left")
    monkeypatch.setattr(failure, "TEMPORARY", str(tmp_path / "gone"))
    monkeypatch.setattr(failure.tempfile, "mkstemp", _no_space)
    assert main(["ingest", "snapshot"]) == 4
    assert capsys.readouterr().err.endswith("and run again\n")


def _no_space(**_: Any) -> Any:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_library_that_the_packages_lack_is_a_sentence(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    """As numpy says it where there is no libstdc++: the error with the reason is the cause of the one that arrives."""

    def load(name: str) -> Any:
        try:
            raise ImportError("libstdc++.so.6: cannot open shared object file: No such file or directory")
        except ImportError as error:
            raise ImportError("Importing the numpy C-extensions failed.") from error

    monkeypatch.setattr("replica_audit.cli.commands.import_module", load)
    assert main(["explain", "HWM-LOSS"]) == 4
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("replica-audit: libstdc++.so.6 is missing") and "apt-get install libstdc++6" in line


def test_errors_of_java_that_stopped_nothing_are_told_in_a_line(engine: Engine, capsys: Any) -> None:
    engine.logged = "2026-11-22T16:28:41.781Z ERROR Executor: Exception in task 0.0\n\tat a.b.C\n"
    assert main(["ingest", "snapshot"]) == 0
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("replica-audit: Java logged errors that stopped nothing, ") and "Executor" in line


def test_a_session_that_cannot_be_stopped_hides_no_error(engine: Engine, capsys: Any, monkeypatch: Any) -> None:
    engine.error = EngineError("what happened")
    monkeypatch.setattr(engine, "stop", lambda: 1 / 0)
    assert main(["run", "snapshot"]) == 4
    assert capsys.readouterr().err == "replica-audit: what happened\n"


def test_a_run_takes_the_verdict_of_the_run_before_away_as_it_begins(engine: Engine, monkeypatch: Any) -> None:
    assert main(["run", "snapshot"]) == 0
    verdict = Path("replica-audit-report/verdict.json")
    there: list[bool] = []
    ingest = sys.modules["replica_audit.spark.pipeline"]
    monkeypatch.setattr(ingest, "run_ingest", lambda *_: there.append(verdict.exists()) or "s1")
    assert main(["run", "snapshot"]) == 0
    assert there == [False] and verdict.exists()
    verdict.unlink()
    verdict.mkdir()
    assert main(["run", "snapshot"]) == 2


@pytest.mark.parametrize(
    ("error", "status", "said"),
    [
        (UsageError("--topic x matches nothing"), 2, "--topic x matches nothing"),
        (InputError("no log directory in snapshot"), 3, "no log directory"),
        (FormatError("leadership.json", 3, "a list", "{", "see the README"), 3, "leadership.json at byte 3"),
        (EngineError("Java is missing: install 17"), 4, "Java is missing"),
        (RuntimeError("a bug"), 4, "Traceback"),
        (KeyboardInterrupt(), 130, "interrupted"),
    ],
)
def test_an_error_has_its_exit_status_and_its_text_on_stderr(
    error: BaseException, status: int, said: str, engine: Engine, capsys: Any
) -> None:
    engine.error = error
    assert main(["run", "snapshot"]) == status
    captured = capsys.readouterr()
    assert said in captured.err and engine.stopped == 1
    if status != 2:
        said_in_one_line = captured.out.startswith("UNKNOWN: ") and captured.out.count("\n") == 1
        assert said_in_one_line if status != 130 else captured.out == ""
        verdict = json.loads(Path("replica-audit-report/verdict.json").read_text())
        assert (verdict["status"], verdict["exit_status"], verdict["audit_id"]) == ("UNKNOWN", status, None)
    else:
        assert captured.out == "" and not Path("replica-audit-report").exists()


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["run"], "SNAPSHOT is missing"),
        (["show"], "SNAPSHOT is missing"),
        (["walk", "snapshot"], "walk: no such command"),
        (["shwo", "snapshot"], "shwo: no such command; did you mean show?"),
        (["help", "histroy"], "did you mean history?"),
        (["show", "snapshot", "orders-0", "orders-1"], "'orders-1' is one argument too many"),
        (["elect", "snapshot", "--up", "1", "orders-0"], "'orders-0' follows an option: give it before"),
        (["run", "snapshot", "--fail-on"], "expected one argument"),
        (["verify", "a", "b"], "snapshot a does not exist"),
        (["verify", "snapshot"], "two snapshots are needed"),
        (["run", "missing"], "missing does not exist"),
        (["run", "a-file"], "is a file: give the directory above"),
        (["run", "snapshot", "--fail-on", "severe"], "'severe' is not one of critical, high"),
        (["run", "snapshot", "--protocol", "kip-1"], "did you mean kip-101?"),
        (["run", "snapshot", "--warehouse", "w", "--catalog", "a.b"], "not allowed with"),
        (["run", "snapshot", "--report-dir", "r"], "--report-dir: no such option; did you mean --report?"),
        (["run", "snapshot", "--ware", "w"], "--ware: no such option; did you mean --warehouse?"),
        (["show", "snapshot", "--topics=x"], "--topics: no such option; did you mean --topic?"),
        (["capture-plan", "1=/a", "--kind", "stoped"], "did you mean stopped?"),
        (["capture-plan", "1=/a", "2=/b,/a"], "/a is given for 2 brokers"),
        (["history", "--limit", "0"], "'0' is not a whole number of 1 or more"),
        (["completion", "tcsh"], "is not one of bash, zsh, fish"),
        (["run", "snapshot", "--warehouse", "snapshot/w"], "lies inside the snapshot"),
        (["run", "snapshot", "--warehouse", "snapshot"], "lies inside the snapshot"),
        (["run", "snapshot", "--report", "link/../link/r"], "lies inside the snapshot"),
        (["run", "file:///", "--report", "r"], "lies inside the snapshot"),
        (["run", "s3://bucket/x", "--warehouse", "s3a://bucket/x/w"], "lies inside the snapshot"),
        (["run", "snapshot", "--report", "a-file"], "is not a directory"),
        (["run", "snapshot", "--report", "s3://bucket/r"], "local directory"),
        (["run", "snapshot", "--leadership", "none.json"], "--leadership none.json: no such local file"),
        (["run", "snapshot", "--baseline", "a-file"], "baseline a-file: expected the audit.json"),
        (["run", "snapshot", "--config", "none.yaml"], "cannot read none.yaml"),
        (["show", "snapshot", "orders"], "not <topic>-<partition>"),
        (["explain", "HWM-LOS"], "did you mean HWM-LOSS"),
        (["explain", "COMMITED_LOSS"], "did you mean COMMITTED_LOSS"),
        (["explain", "nothing alike"], "replica-audit explain lists all codes"),
    ],
)
def test_wrong_usage_is_2_and_starts_nothing(argv: list[str], said: str, engine: Engine, capsys: Any) -> None:
    Path("a-file").write_text("")
    Path("link").symlink_to("snapshot")
    assert main(argv) == 2
    captured = capsys.readouterr()
    assert said in captured.err and captured.out == "" and engine.calls == []
    assert captured.err.count("\n") <= 3
    assert sorted(path.name for path in Path().iterdir()) == ["a-file", "link", "snapshot"]


def test_a_snapshot_inside_the_working_directory_of_the_warehouse_is_fine(engine: Engine) -> None:
    assert main(["run", "snapshot", "--warehouse", "snapshot-warehouse", "--report", "./snapshot/../r"]) == 0


def test_each_stage_takes_what_the_one_before_wrote(engine: Engine, capsys: Any) -> None:
    assert main(["ingest", "snapshot"]) == 0
    assert capsys.readouterr().out == "snapshot s1\n"
    assert main(["audit"]) == 0 and ("audit", None) in engine.calls
    assert main(["audit", "--snapshot-id", "s9"]) == 0 and ("audit", "s9") in engine.calls
    assert not Path("replica-audit-report").exists()
    assert main(["report"]) == 0 and ("load", None) in engine.calls
    assert main(["report", "--audit-id", "a9"]) == 0 and ("load", "a9") in engine.calls
    assert Path("replica-audit-report/audit.json").exists()


@pytest.mark.parametrize(
    "argv",
    [["run", "snapshot"], ["audit"], ["report"], ["show", "snapshot", "orders-0"], ["show", "snapshot"]],
    ids=" ".join,
)
def test_json_is_one_object_with_every_table(argv: list[str], engine: Engine, capsys: Any) -> None:
    assert main([*argv, "--format", "json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert set(REPORT_TABLES) < set(content) and content["verdict"]["status"] == "OK"


def test_json_of_the_other_commands_is_one_object(engine: Engine, capsys: Any) -> None:
    assert main(["ingest", "snapshot", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"snapshot_id": "s1"}
    assert main(["explain", "hwm-loss", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["code"] == "HWM-LOSS"
    assert main(["run", "--print-config", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["origins"]["format"] == "flag --format"
    engine.error = EngineError("no Java")
    assert main(["run", "snapshot", "--format", "json"]) == 4
    assert json.loads(capsys.readouterr().out)["exit_status"] == 4


def test_show_needs_no_session_and_answers_with_its_exit_status(engine: Engine, capsys: Any) -> None:
    engine.results = results([partition(verdict="COMMITTED_LOSS")], [finding("HWM-LOSS", "critical")])
    assert main(["show", "snapshot", "my-orders-0"]) == 1
    assert engine.calls == [("show", "my-orders-0")]
    assert _last_line(capsys).startswith("CRITICAL: ")


def test_spark_settings_reach_the_session(engine: Engine) -> None:
    Path("c.yaml").write_text("spark:\n  spark.driver.memory: 4g\n")
    assert main(["run", "snapshot", "--config", "c.yaml"]) == 0
    assert engine.calls[0] == ("session", {"spark.driver.memory": "4g"})


def test_only_tables_in_a_catalog_need_delta_in_the_session(engine: Engine) -> None:
    assert main(["run", "snapshot", "--catalog", "lake.audits"]) == 0
    assert engine.calls[0] == ("session with Delta", {})


def test_help_and_version_are_0_and_go_to_stdout(engine: Engine, capsys: Any) -> None:
    for argv in (["--help"], ["--version"], ["run", "--help"], ["show", "--version"]):
        assert main(argv) == 0
    captured = capsys.readouterr()
    assert captured.err == "" and "replica-audit 0." in captured.out


def test_print_config_runs_nothing(engine: Engine, capsys: Any) -> None:
    assert main(["run", "snapshot", "--print-config"]) == 0
    assert engine.calls == [] and "fail_on: high  # default" in capsys.readouterr().out


@pytest.mark.parametrize("quiet", ["-q", "--quiet"])
def test_quiet_says_nothing_on_stderr(quiet: str, engine: Engine, capsys: Any) -> None:
    assert main(["run", "snapshot", quiet]) == 0
    assert capsys.readouterr().err == ""


def test_a_baseline_turns_what_it_has_into_known_and_what_is_gone_into_resolved(engine: Engine, capsys: Any) -> None:
    lost = finding("HWM-LOSS", "critical", finding_id="1")
    gap = finding("LOG-GAP", "medium", finding_id="2")
    engine.results = results(findings=[lost, gap])
    assert main(["run", "snapshot", "--report", "first"]) == 1
    engine.results = results(findings=[lost])
    assert main(["run", "snapshot", "--report", "second", "--baseline", "first/audit.json"]) == 0
    rows = json.loads(Path("second/audit.json").read_text())["findings"]
    assert {row["finding_id"]: row["status"] for row in rows} == {"1": "known", "2": "resolved"}
    out = capsys.readouterr().out
    assert "HWM-LOSS orders-0 (known)" in out and "1 finding of the baseline resolved" in out
    engine.results = results(findings=[lost, finding("DIV-CONTENT", "critical", finding_id="3")])
    assert main(["run", "snapshot", "--baseline", "second/audit.json"]) == 1
