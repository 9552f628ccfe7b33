"""Answers of the Python API without Spark: the same as on the command line, typed, and loaded on use."""

from __future__ import annotations

import argparse
import ast
import inspect
import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
from tests.support.report_rows import answers_of, tables_of
from tests.support.samples import SAMPLES
from tests.support.some import some

import replica_audit
from replica_audit.cli.commands import COMMANDS
from replica_audit.cli.main import main
from replica_audit.cli.parser import build_parser, parsers_of
from replica_audit.config import SETTINGS, Settings
from replica_audit.errors import UsageError
from replica_audit.report.answer_html import render_answer_html

SAMPLE = str(SAMPLES / "last-replica-standing")
PACKAGE = Path(replica_audit.__file__).parent


def test_the_package_names_its_public_functions_and_types():
    assert {"audit", "show", "read_batches", "read_records", "read_metadata_log", "Audit"} <= set(dir(replica_audit))
    for name in dir(replica_audit):
        assert getattr(replica_audit, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'adit'"):
        replica_audit.adit  # noqa: B018


def test_the_types_are_shipped_and_name_what_the_package_has():
    assert (PACKAGE / "py.typed").is_file()
    tree = ast.parse((PACKAGE / "__init__.pyi").read_text())
    typed = {
        alias.asname: f"{node.module}" for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    assert set(typed) == set(replica_audit.__all__) - {"__version__"}
    for name, module in typed.items():
        assert getattr(replica_audit, name) is getattr(import_module(module), name)
    for name in ("audit", "show", "read_batches", "read_records", "read_metadata_log"):
        annotations = getattr(replica_audit, name).__annotations__
        assert "return" in annotations and all(annotations.values()), name


def test_importing_the_package_loads_nothing_else():
    program = "import sys, replica_audit; assert not {'numpy', 'pyarrow', 'pyspark'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True, cwd=PACKAGE.parent)


def test_show_answers_as_the_command_does(capsys):
    answers = replica_audit.show(SAMPLE)
    status = main(["show", SAMPLE, "--format", "json"])
    told = json.loads(capsys.readouterr().out)
    assert (answers.verdict, answers.exit_status) == (told["audit"]["verdict"], status)
    assert [dict(row) for row in answers.rows("findings")] == told["findings"]
    assert answers.arrow("partitions").num_rows == len(told["partitions"])
    assert answers.audit_id == told["audit"]["audit_id"]


def test_one_partition_is_printed_as_the_command_prints_it(capsys):
    row = replica_audit.show(SAMPLE).rows("partitions")[0]
    place = f"{row['topic']}-{row['partition']}"
    answers = replica_audit.show(SAMPLE, place)
    main(["show", SAMPLE, place])
    assert str(answers).strip() and capsys.readouterr().out.startswith(str(answers).strip()[:200])
    with pytest.raises(UsageError, match="give a partition such as orders-0"):
        replica_audit.show(SAMPLE, "orders")


def test_arguments_are_checked_as_flags_are():
    with pytest.raises(UsageError, match=r"protocol \(argument protocol\): 'kip' is not one of"):
        replica_audit.show(SAMPLE, protocol="kip")


def test_the_report_is_the_commands(tmp_path):
    answers = replica_audit.show(SAMPLE)
    written = answers.report(str(tmp_path / "report"))
    assert json.loads((tmp_path / "report" / "verdict.json").read_text()) == answers.verdict_json
    assert (Path(written) / "index.html").is_file()


def test_a_notebook_shows_the_answer_of_the_page_and_escapes_names():
    answers = replica_audit.show(SAMPLE)
    html = answers._repr_html_()
    assert answers.verdict in html and "Do first" in html and "<script" not in html
    evil = "<img src=x>"
    tables = {
        table: [{**row, "topic": evil} if row.get("topic") else row for row in rows]
        for table, rows in tables_of(answers.results).items()
    }
    shown = render_answer_html(answers_of(answers.results.audit, tables, evil), answers.verdict_json)
    assert evil not in shown and "&lt;img" in shown


#: Functions and the commands whose answers they give.
FUNCTIONS = {
    "run" if name == "audit" else name: getattr(replica_audit, name) for name in COMMANDS if name in dir(replica_audit)
}
#: Options that say how an answer is printed, or consent at a terminal, which a program does itself.
OF_PRINTING = {"help", "version", "format", "color", "quiet", "print_config", "table", "columns", "yes"}
#: Arguments that have another name in Python, where `path` is what is read.
RENAMED = {
    "snapshot": "path",
    "topic_partition": "partition",
    "topic_partitions": "partitions",
    "form": "forms",
    "since_ms": "since",
}


@pytest.mark.parametrize("command", some(sorted(FUNCTIONS)))
def test_a_function_takes_what_its_command_takes(command):
    parser = parsers_of(build_parser())[command]
    options = {action.dest for action in parser._actions if action.help != argparse.SUPPRESS} - OF_PRINTING
    # What settings `quorum` has are of printing.
    options -= {"config"} if command == "quorum" else set()
    taken = set(inspect.signature(FUNCTIONS[command]).parameters) - {"spark", "progress"}
    assert taken == {RENAMED.get(name, name) for name in options}


@pytest.mark.parametrize("function", [replica_audit.audit, replica_audit.show])
def test_arguments_that_are_settings_have_the_names_and_defaults_of_the_settings(function):
    for name, parameter in inspect.signature(function).parameters.items():
        if name in SETTINGS and name != "spark":
            # None is the default where the setting's own is a place that the caller should not have to know.
            assert parameter.default in (getattr(Settings(), name), None) or name == "quality", name
    taken = set(inspect.signature(function).parameters) - {"spark", "path", "partition", "wanted", "config", "progress"}
    assert taken <= set(SETTINGS)
