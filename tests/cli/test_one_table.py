"""`--table`, `--columns`, `--format csv` and `--format markdown`: one table of an answer, in the form that was asked for."""

from __future__ import annotations

import csv
import io
import json

import pytest
from tests.support.report_rows import finding, partition, results
from tests.support.samples import SAMPLES

from replica_audit.cli.answer_output import table_parts
from replica_audit.cli.main import main
from replica_audit.report.layout import WIDTH, set_text_width
from replica_audit.report.table_text import render_table
from replica_audit.row_classes import columns
from replica_audit.schema import FindingRow
from replica_audit.table_names import choose_columns

SAMPLE = str(SAMPLES / "last-replica-standing")


@pytest.fixture
def printed(capsys):
    """Runs a command and gives its status and what it wrote to stdout."""

    def run(*words: str) -> tuple[int, str]:
        status = main(list(words))
        return status, capsys.readouterr().out

    return run


def test_csv_has_the_rows_and_columns_of_audit_json(printed):
    _, text = printed("show", SAMPLE, "--format", "json")
    told = json.loads(text)
    for table in ("partitions", "findings", "truncations", "replicas", "elections"):
        status, text = printed("show", SAMPLE, "--format", "csv", "--table", table)
        rows = list(csv.DictReader(io.StringIO(text)))
        assert status == 1 and len(rows) == len(told[table]) and list(rows[0]) == list(told[table][0])
        for row, expected in zip(rows, told[table], strict=True):
            for name, value in expected.items():
                assert row[name] == ("" if value is None else value if isinstance(value, str) else row[name])
                if value is not None and not isinstance(value, str):
                    assert json.loads(row[name]) == value, name


def test_partitions_are_the_table_of_csv_and_the_summary_is_the_markdown(printed):
    _, text = printed("show", SAMPLE, "--format", "csv")
    assert text.startswith("topic,partition,topic_id,verdict,")
    status, text = printed("show", SAMPLE, "--format", "markdown")
    assert status == 1 and text.startswith("## ❌ 7 committed records") and "**Do first**" in text
    _, text = printed("show", SAMPLE, "orders-0", "--columns", "topic,verdict", "--format", "markdown")
    assert text == "| topic | verdict |\n|---|---|\n| orders | COMMITTED\\_LOSS |\n"
    _, text = printed("show", SAMPLE, "orders-0", "--columns", "topic,verdict", "--format", "json")
    assert json.loads(text) == [{"topic": "orders", "verdict": "COMMITTED_LOSS"}]
    assert printed("show", SAMPLE, "--table", "quarantine", "--format", "json")[1] == "[]\n"


def test_verify_prints_its_tables(printed):
    _, text = printed("verify", SAMPLE, SAMPLE, "--format", "json")
    told = json.loads(text)
    status, text = printed("verify", SAMPLE, SAMPLE, "--format", "csv")
    assert status == 1 and [row["verdict"] for row in csv.DictReader(io.StringIO(text))] == [
        row["verdict"] for row in told["verifications"]
    ]
    assert printed("verify", SAMPLE, SAMPLE, "--table", "gone_records", "--format", "csv")[1].startswith(
        "topic,partition"
    )


@pytest.mark.parametrize(
    ("words", "said"),
    (
        (["show", "nowhere", "--table", "finding"], "finding: no such table; did you mean findings?"),
        (
            ["show", "nowhere", "--table", "replicas", "--columns", "nope"],
            "nope: no such column of replicas; known are topic,",
        ),
        (["show", "nowhere", "--columns", "verdcit"], "verdcit: no such column of partitions; did you mean verdict?"),
        (["show", "nowhere", "--columns", ","], "has no names"),
        (["elect", "nowhere", "--format", "csv"], "'csv' is not one of text, json"),
        (["history", "--table", "replicas"], "replicas: no such table"),
    ),
)
def test_unknown_names_are_told_with_the_closest_before_anything_is_read(words, said, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "nowhere").mkdir()
    assert main(words) == 2
    assert said in capsys.readouterr().err


def test_a_format_of_the_environment_that_a_command_does_not_have(monkeypatch, capsys):
    monkeypatch.setenv("REPLICA_AUDIT_FORMAT", "csv")
    assert main(["elect", SAMPLE]) == 2
    assert "format (environment REPLICA_AUDIT_FORMAT): elect has text, json, and no csv" in capsys.readouterr().err


def rendered(form: str, *names: str, **values: object) -> str:
    found = results([partition()], [finding("HWM-LOSS", "critical", **values)])
    chosen = choose_columns(columns(FindingRow), names, "findings")
    return "".join(render_table(table_parts(found, "findings"), chosen, form))


def test_cells_that_a_spreadsheet_or_a_terminal_would_run_are_made_harmless():
    evil = "=cmd|' /C calc'!A0, \"a\" \x1b[31m"
    assert rendered("csv", "message", "partition", message=evil) == (
        'message,partition\n"\'=cmd|\' /C calc\'!A0, ""a"" \\x1b[31m",0\n'
    )
    assert rendered("csv", "message", message="a\nb") == "message\na\\nb\n"
    assert "<script>" not in rendered("markdown", "message", message="<script> | x").replace("`<script>`", "")
    assert "\\|" in rendered("markdown", "message", message="<script> | x")


def test_text_is_no_wider_than_the_screen_and_names_what_it_leaves_out():
    try:
        for width in (60, 100):
            set_text_width(width)
            whole = rendered("text", message="m" * 300)
            assert all(len(line) <= width for line in whole.splitlines()) and "Not shown" in whole
            chosen = rendered("text", "code", "message", message="m" * 300).splitlines()
            assert chosen[0].split() == ["CODE", "MESSAGE"] and "..." in chosen[1] and len(chosen[1]) <= width
    finally:
        set_text_width(None)
    assert WIDTH == 100
