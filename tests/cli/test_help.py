"""Help, completion and `explain`: what a command takes is told, and nothing that does nothing."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from replica_audit.auditing.catalogue import CATALOGUE, VERDICT_MEANINGS
from replica_audit.cli import main as program
from replica_audit.cli.commands import COMMANDS, SHELLS
from replica_audit.cli.main import main
from replica_audit.cli.parser import build_parser, parsers_of
from replica_audit.config import GROUPS, SETTINGS, flag_of
from replica_audit.literals import VERDICTS

SAMPLES = Path(__file__).parents[2] / "data" / "samples"

#: The options of settings, with the commands that each has an effect on, None for all.
OPTIONS = {flag_of(name): setting.commands for name, setting in SETTINGS.items() if not setting.file_only}

#: What a command's help has, of the options that not all commands do anything with.
TAKEN = {
    "explain": {"--report", "--warehouse"},
    "show": {
        "--topic",
        "--leadership",
        "--leadership-source",
        "--remote",
        "--verify-remote",
        "--protocol",
        "--kafka-version",
        "--fail-on",
        "--baseline",
        "--accept",
        "--quiet",
    },
    "ingest": {
        "--topic",
        "--full",
        "--leadership",
        "--leadership-source",
        "--warehouse",
        "--catalog",
        "--time-travel-days",
        "--quiet",
    },
    "history": {"--topic", "--warehouse", "--catalog", "--keep-days", "--keep-audits", "--quiet"},
    "capture-plan": {"--kafka-version"},
    "run": set(OPTIONS),
}


@pytest.fixture(autouse=True)
def _no_settings_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("REPLICA_AUDIT_")]:
        monkeypatch.delenv(name)


def _said(capsys: Any, *argv: str) -> str:
    assert main(list(argv)) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    return captured.out


def test_no_arguments_is_help(capsys: Any) -> None:
    text = _said(capsys)
    assert text == _said(capsys, "help") == _said(capsys, "--help") == _said(capsys, "-h")
    for command in (*COMMANDS, "completion", "help"):
        assert re.search(rf"^    {command} +\S", text, re.M), command


@pytest.mark.parametrize("command", [*COMMANDS, "completion", "help"])
def test_help_of_a_command_is_its_help_option(command: str, capsys: Any) -> None:
    text = _said(capsys, "help", command)
    assert text == _said(capsys, command, "--help")
    assert text.startswith(f"usage: replica-audit {command}") and text.splitlines()[1] == ""


def test_version_has_a_short_option(capsys: Any) -> None:
    assert _said(capsys, "-V") == _said(capsys, "--version") == _said(capsys, "show", "-V")


def test_help_needs_no_valid_settings(capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REPLICA_AUDIT_FAIL_ON", "never ever")
    assert "usage" in _said(capsys) and "usage" in _said(capsys, "help", "run")


@pytest.mark.parametrize("command", TAKEN)
def test_help_shows_what_the_command_takes_and_no_more(command: str, capsys: Any) -> None:
    text = _said(capsys, "help", command)
    shown = set(re.findall(r"^  (?:-[a-z], )?(--[a-z-]+)", text, re.M))
    everywhere = {flag for flag, commands in OPTIONS.items() if commands is None}
    assert shown & set(OPTIONS) == TAKEN[command] | everywhere and {"--config", "--print-config"} <= shown
    headings = re.findall(r"^([a-z ]+):$", text, re.M)
    groups = [group for group in headings if group in GROUPS]
    assert groups == [group for group in GROUPS if group in groups] and groups[-1] == "settings and output"


def test_an_option_without_effect_is_taken(capsys: Any) -> None:
    argv = ["explain", "HWM-LOSS", "--warehouse", "w", "--no-quality", "--protocol", "kip-101", "--topic", "x"]
    assert main(argv) == 0 and "HWM-LOSS" in capsys.readouterr().out


def test_every_option_is_of_known_commands_and_groups() -> None:
    for setting in SETTINGS.values():
        assert setting.group in GROUPS and set(setting.commands or ()) <= set(COMMANDS)


@pytest.mark.parametrize("columns", [20, 60, 83, 120, 300, None])
def test_text_is_as_wide_as_the_terminal(columns: int | None, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "stdout_columns", lambda: columns)
    sample = str(SAMPLES / "diverged-unclean")
    longest = 0
    for argv in (
        ["show", sample],
        ["show", sample, "ledger-0"],
        ["explain"],
        ["explain", "DIV-HIDDEN"],
        ["help", "run"],
    ):
        main(argv)
        lines = capsys.readouterr().out.splitlines()
        # The status line is for programs, and is one line.
        longest = max([longest, *(len(line) for line in lines if not line.startswith("CRITICAL: "))])
    width = 100 if columns is None else min(120, max(60, columns))
    assert width - 8 <= longest <= width


def test_explain_alone_lists_every_code_and_verdict(capsys: Any) -> None:
    text = _said(capsys, "explain")
    for name in (*CATALOGUE, *VERDICTS):
        assert re.search(rf"^  {name} ", text, re.M), name
    assert [row["code"] for row in json.loads(_said(capsys, "explain", "--format", "json"))["codes"]] == list(CATALOGUE)


def test_every_verdict_has_a_meaning() -> None:
    assert tuple(VERDICT_MEANINGS) == VERDICTS


@pytest.mark.parametrize("asked", ["DIV", "div-", "LOG-TAIL", "Meta"])
def test_explain_takes_what_codes_begin_with(asked: str, capsys: Any) -> None:
    prefix = asked.upper().rstrip("-")
    wanted = [name for name in CATALOGUE if name.startswith(prefix + "-")]
    text = _said(capsys, "explain", asked)
    assert re.findall(r"^  ([A-Z-]+) ", text, re.M) == wanted and len(wanted) > 1
    codes = json.loads(_said(capsys, "explain", asked, "--format", "json"))["codes"]
    assert [row["code"] for row in codes] == wanted


@pytest.mark.parametrize("verdict", VERDICTS)
def test_explain_takes_a_verdict(verdict: str, capsys: Any) -> None:
    text = _said(capsys, "explain", verdict.lower())
    assert text.startswith(f"{verdict}\n") and VERDICT_MEANINGS[verdict].split(";")[0][:40] in text
    answer = json.loads(_said(capsys, "explain", verdict, "--format", "json"))
    assert [row["code"] for row in answer["codes"]] == [
        name for name in CATALOGUE if verdict in CATALOGUE[name].verdicts
    ]


def _completions(script: Path, *words: str) -> list[str]:
    line = " ".join(f"'{word}'" for word in words)
    call = f"source {script}; COMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; _shtab_replica_audit; echo ${{COMPREPLY[@]}}"
    done = subprocess.run(["bash", "-c", call], capture_output=True, text=True, cwd=SAMPLES.parent)
    return done.stdout.split()


def test_bash_completes_commands_options_and_values(tmp_path: Path, capsys: Any) -> None:
    script = tmp_path / "completion.bash"
    script.write_text(_said(capsys, "completion", "bash"))
    assert _completions(script, "replica-audit", "his") == ["history"]
    assert set(_completions(script, "replica-audit", "")) == set(parsers_of(build_parser()))
    assert _completions(script, "replica-audit", "run", "x", "--protocol", "kip") == ["kip-101", "kip-279"]
    assert _completions(script, "replica-audit", "explain", "HWM-L") == ["HWM-LOSS"]
    assert _completions(script, "replica-audit", "run", "samp") == ["samples"]
    shown = _completions(script, "replica-audit", "show", "--")
    assert "--topic" in shown and "--keep-days" not in shown


@pytest.mark.parametrize("shell", SHELLS)
def test_every_shell_has_a_script_with_every_command(shell: str, capsys: Any) -> None:
    text = _said(capsys, "completion", shell)
    for command in parsers_of(build_parser()):
        assert command in text
    assert "TXN-HANGING" in text and "kip-279" in text


def test_a_tab_starts_no_python(capsys: Any) -> None:
    for shell in SHELLS:
        assert not re.search(r"python|\$\(replica-audit", _said(capsys, "completion", shell))


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_help_names_the_exit_statuses_of_the_command(command: str, capsys: Any) -> None:
    """`--fail-on` moves the status of those that take it only."""
    assert main([command, "--help"]) == 0
    said = capsys.readouterr().out
    statuses = said.partition("exit status:")[2]
    assert bool(statuses) == (command not in ("completion", "help"))
    assert ("--fail-on" in statuses) == (command in ("run", "audit", "quality", "report", "show")), said


def test_help_answers_without_the_engine() -> None:
    blocked = "import sys; [sys.modules.__setitem__(name, None) for name in ('pyspark', 'delta', 'pandas', 'great_expectations')]"
    call = f"{blocked}; from replica_audit.cli.main import main; sys.exit(main())"
    done = subprocess.run([sys.executable, "-c", call], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.startswith("usage: replica-audit COMMAND")


@pytest.mark.parametrize("argument", ["-v", "--verbose", "--", "-x"])
def test_options_without_a_command_are_an_error_of_usage(argument: str, capsys: Any) -> None:
    assert main([argument]) == 2
    assert "usage: replica-audit COMMAND" in capsys.readouterr().err
