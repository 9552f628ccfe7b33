"""Quality checks through Great Expectations, on the warehouse of the shared session."""

from __future__ import annotations

import http.server
import json
import re
import threading
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

import pytest
from tests.support.fixtures import ATTACKS
from tests.support.quality_checks import built_in
from tests.support.report_rows import objects

from replica_audit.errors import UsageError
from replica_audit.row_classes import Column, to_dict
from replica_audit.schema import REPORT_TABLES
from replica_audit.warehouse.delta_tables import Warehouse

RUN_TIME = datetime(2026, 1, 2, tzinfo=timezone.utc)

OWN = """
suites:
  - name: findings
    table: partition_facts
    expectations:
      - {name: no-low-finding, type: expect_column_values_to_be_between, kwargs: {column: low_findings, max_value: 9}, severity: info}
      - {name: no-medium-finding, type: whatever, enabled: false}
  - name: sizes
    table: segments
    expectations:
      - {type: expect_column_values_to_be_between, kwargs: {column: size_bytes, max_value: 10}, severity: warning}
      - {name: cannot, type: expect_column_values_to_match_regex, kwargs: {column: path, regex: "["}, severity: high}
  - name: answers
    table: high_watermarks
    expectations:
      - {name: exact, type: expect_column_values_to_be_in_set, kwargs: {column: exact, value_set: [true]}, severity: low}
      - name: query
        type: unexpected_rows_expectation
        kwargs: {unexpected_rows_query: "SELECT * FROM {batch} WHERE hw_lower > hw_upper"}
actions:
  - {name: operators, type: slack, slack_webhook: "${REPLICA_TEST_HOOK}", notify_on: critical}
  - {name: nobody, type: slack, slack_webhook: "${REPLICA_TEST_HOOK}", notify_on: success}
  - {name: broken, type: pagerduty, api_key: none, routing_key: none, notify_on: all}
"""


@contextmanager
def listening():
    """A server on loopback that keeps what is posted to it: (address, bodies)."""
    bodies: list[dict] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"ok")

        def log_message(self, *arguments):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/hook", bodies
    finally:
        server.shutdown()


def check(spark, audited, plan, docs=None):
    """The plan checked on an audit."""
    from replica_audit.quality.checkpoint import run_checkpoint
    from replica_audit.spark.quality_run import count_segments, quality_frames

    warehouse = Warehouse(audited.settings.warehouse)
    counts = count_segments(warehouse, audited.snapshot_id)
    frames = quality_frames(spark, warehouse, audited.results, counts, plan.suites)
    return run_checkpoint(plan, frames, docs, audited.results.audit["audit_id"], RUN_TIME)


@pytest.fixture(scope="module")
def checked(spark, sample, tmp_path_factory):
    """The sample checked with built-in suites, suites and Actions of the user's own: (run, docs, told, persisted before and after)."""
    from replica_audit.quality.suites import load_plan

    directory = tmp_path_factory.mktemp("checked")
    own = directory / "own.yaml"
    own.write_text(OWN)

    def persisted():
        kept = dict(spark.sparkContext._jsc.getPersistentRDDs())
        # What Delta keeps of a table's log, once for each table, is not ours.
        return {number for number, rdd in kept.items() if not (rdd.name() or "").startswith("Delta Table State")}

    with pytest.MonkeyPatch.context() as patch, listening() as (address, told):
        patch.setenv("REPLICA_TEST_HOOK", address)
        plan = load_plan([str(own)])
        before = persisted()
        run = check(spark, sample, plan, str(directory / "docs"))
        return run, directory / "docs", list(told), (before, persisted())


def answers(run):
    return answers_of(run.rows)


def answers_of(rows):
    return {f"{row.suite}/{row.name}": to_dict(row) for row in rows}


def test_built_in_and_own_suites_are_answered_with_our_severities(checked):
    found = answers(checked[0])
    # One built-in expectation is switched off, four are new.
    assert len(found) == built_in() - 1 + 4
    assert {name for name, row in found.items() if not row["success"]} == {
        "findings/no-critical-finding", "sizes/column-values-to-be-between-size_bytes", "sizes/cannot",
    }  # fmt: skip
    critical = found["findings/no-critical-finding"]
    assert [critical[name] for name in ("severity", "element_count", "unexpected_count", "status", "error")] == [
        "critical", 1, 1, "new", None,
    ]  # fmt: skip
    assert critical["failing"] == ["orders-0: critical_findings 2"]
    assert found["findings/no-low-finding"]["severity"] == "info" and found["findings/no-low-finding"]["success"]
    assert found["sizes/column-values-to-be-between-size_bytes"]["severity"] == "medium"
    assert found["answers/query"]["severity"] == "critical", "as in Great Expectations, where none is given"
    assert found["quarantine/quarantine-empty"]["observed"] == "0"
    assert all(set(row) == {column.name for column in REPORT_TABLES["quality"]} for row in found.values())


def test_rows_that_break_an_expectation_are_named(checked, sample):
    row = answers(checked[0])["sizes/column-values-to-be-between-size_bytes"]
    files = sorted(path for path in sample.path.glob("broker-*/orders-0/*.log"))
    assert row["unexpected_count"] == len(files) == len(row["failing"])
    assert f"orders-0 broker 1 broker-1/orders-0/{0:020d}.log: size_bytes 2890" in row["failing"]


def test_what_cannot_be_looked_at_is_an_error_and_no_failure(checked):
    row = answers(checked[0])["sizes/cannot"]
    # The engine words it by whether the query was compiled.
    assert re.search("INVALID_PARAMETER_VALUE|PatternSyntaxException", row["error"]) and row["status"] is None


def test_no_data_frame_stays_in_memory(checked):
    before, after = checked[3]
    assert after <= before


def test_actions_are_told_by_the_worst_severity_and_a_failing_one_costs_no_answer(checked):
    run, _, told, _ = checked
    (message,) = told
    assert "operators - replica-audit - Failure" in json.dumps(message)
    (warning,) = run.warnings
    assert warning.startswith("an Action of the quality checkpoint failed: ") and "pypd" in warning


def test_data_docs_are_whole_and_ask_no_other_host_for_anything(checked):
    docs = checked[1]
    index = (docs / "index.html").read_text()
    links = re.findall(r'href="((?:validations|expectations)/[^"]+)"', index)
    assert len({link for link in links if link.startswith("validations/")}) == 6
    assert all((docs / link).is_file() for link in links)
    for page in docs.rglob("*.html"):
        text = page.read_text()
        loaded = re.findall(
            r'<(?:script|img|iframe|source)[^>]*\bsrc="([^"]*)"|<link[^>]*href="([^"]*)"|url\(([^)]*)\)|@import', text
        )
        assert loaded == [("", "data:,", "")], (page, loaded)
        assert "default-src 'none'" in text
    assert {path.suffix for path in docs.rglob("*") if path.is_file()} == {".html"}
    texts = "".join(page.read_text() for page in docs.glob("validations/findings/**/*.html"))
    assert "No partition has a critical finding, save those accepted or in the baseline." in texts


def test_built_in_suites_are_answered_alike_on_both_engines(spark):
    """Rows with nulls, with whole numbers above what a float holds, more that fail than are named, and none at all."""
    import pyarrow as pa

    from replica_audit.arrow_rows import arrow_schema
    from replica_audit.quality.checkpoint import run_checkpoint
    from replica_audit.quality.suites import load_plan
    from replica_audit.schema import FACT_TABLES

    plan = load_plan()
    tables = {"quarantine": (Column("place", "string"), *REPORT_TABLES["quarantine"]), **FACT_TABLES}

    def rows(table, count):
        values = {
            "string": lambda row, number: f"t-{row} &lt;{number}&gt;",
            "boolean": lambda row, number: None if row % 3 else bool(number % 2),
            "bigint": lambda row, number: (None, 0, -5, 2**53 + 1 + row)[(row + number) % 4],
            "int": lambda row, number: row,
        }
        columns = list(enumerate(tables[table]))
        return [{one.name: values[one.type](row, number) for number, one in columns} for row in range(count)]

    def answer(count, null_column=None):
        local = {}
        for suite in plan.suites:
            made = [{**row, **({null_column: None} if null_column else {})} for row in rows(suite.table, count)]
            local[suite.name] = pa.Table.from_pylist(made, arrow_schema(tables[suite.table]))
        on_spark = {name: spark.createDataFrame(table) for name, table in local.items()}
        return [run_checkpoint(plan, frames, None, "x", RUN_TIME).rows for frames in (local, on_spark)]

    by_pandas, by_spark = answer(90)
    assert by_pandas == by_spark
    failed = answers_of(by_pandas)["replicas/offsets-ascending"]
    wrong = [row for row in rows("replica_facts", 90) if (row["offset_regressions"] or 0) > 0]
    assert (failed["success"], failed["unexpected_count"], len(failed["failing"])) == (False, len(wrong), 20)
    assert re.fullmatch(r"t-\d+ <0>: offset_regressions 90071992547409\d\d", failed["failing"][0])
    assert answers_of(by_pandas)["quarantine/quarantine-empty"]["observed"] == "90"
    for shape in (0,), (3, "wrong_crcs"):
        by_pandas, by_spark = answer(*shape)
        assert by_pandas == by_spark
    assert not [row.error for row in by_pandas if row.error]


@pytest.mark.parametrize(
    ("suite", "said"),
    [
        (
            "{type: expect_column_values_to_be_btween, kwargs: {column: place}}",
            "did you mean expect_column_values_to_be_between",
        ),
        ("{type: expect_column_values_to_be_between, kwargs: {column: place, max: 3}}", "extra fields not permitted"),
        ("{type: expect_column_values_to_be_in_set, kwargs: {column: place}}", "value_set: field required"),
    ],
)
def test_an_expectation_that_great_expectations_does_not_know_is_told(spark, sample, tmp_path, suite, said):
    from replica_audit.quality.suites import load_plan

    own = tmp_path / "own.yaml"
    own.write_text(f"suites: [{{name: own, table: partitions, expectations: [{suite}]}}]\n")
    with pytest.raises(UsageError, match="own.yaml: line 1: suite own: expectation") as caught:
        check(spark, sample, load_plan([str(own)]))
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("action", "said"),
    [
        ("{name: a, type: pigeon}", "no Action of type pigeon; known are"),
        ("{name: a, type: slack}", "provide either slack_webhook or slack_token"),
    ],
)
def test_an_action_that_great_expectations_does_not_know_is_told(spark, sample, tmp_path, action, said):
    from replica_audit.quality.suites import load_plan

    own = tmp_path / "own.yaml"
    own.write_text(f"actions: [{action}]\n")
    with pytest.raises(UsageError, match="own.yaml: line 1: action a: ") as caught:
        check(spark, sample, load_plan([str(own)]))
    assert said in str(caught.value)


def test_a_name_is_never_markup_in_data_docs(spark, sample, tmp_path):
    from replica_audit.quality.suites import load_plan

    bad = "<img src=x onerror=alert(1)>"
    rows = [{**row, "topic": bad} for row in sample.results.rows("partitions")]
    findings = [{**row, "topic": bad} for row in sample.results.rows("findings")]
    renamed = replace(
        sample,
        results=replace(sample.results, partitions=objects("partitions", rows), findings=objects("findings", findings)),
    )
    run = check(spark, renamed, load_plan(), str(tmp_path / "docs"))
    assert answers(run)["findings/no-critical-finding"]["failing"] == [f"{bad}-0: critical_findings 2"]
    pages = "".join(page.read_text() for page in (tmp_path / "docs").rglob("*.html"))
    assert "<img" not in pages and "&lt;img src=x" in pages


@pytest.fixture
def in_session(spark, monkeypatch):
    """Commands run in the shared session."""

    @contextmanager
    def session(app_name, settings, meanwhile=None):
        yield spark

    monkeypatch.setattr("replica_audit.cli.warehouse_commands.spark_session", session)
    for name in [name for name in __import__("os").environ if name.startswith("REPLICA_AUDIT_")]:
        monkeypatch.delenv(name)


def test_run_checks_keeps_and_reports_quality_and_one_flag_leaves_it_out(
    in_session, sample, tmp_path, capsys, monkeypatch
):
    from replica_audit.cli.main import main

    place = ["--warehouse", sample.settings.warehouse, "--report", str(tmp_path / "report"), "--quiet"]
    assert main(["run", str(sample.path), *place]) == 1
    assert capsys.readouterr().out.splitlines()[-1].startswith("CRITICAL: 1 partition, COMMITTED_LOSS")
    content = json.loads((tmp_path / "report" / "audit.json").read_text())
    verdict = json.loads((tmp_path / "report" / "verdict.json").read_text())
    assert len(content["quality"]) == verdict["quality"]["expectations"] == built_in()
    assert verdict["quality"]["failed"] == {"critical": 1, "high": 0, "medium": 1, "low": 1, "info": 0}
    assert (tmp_path / "report" / "data_docs" / "index.html").is_file()
    page = " ".join((tmp_path / "report" / "index.html").read_text().split())
    assert f"compared with {sample.results.audit['finished'][:10]}" in page, "with the audit before in the warehouse"

    audit_id = content["audit"]["audit_id"]
    # Built-in suites need no Java.
    again = ["quality", *place, "--audit-id", audit_id, "--format", "json"]
    with monkeypatch.context() as without_java:
        without_java.setattr("replica_audit.cli.warehouse_commands.spark_session", None)
        assert main([*again, "--fail-on", "never"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["status"] == "WARNING" and answer["audit_id"] == audit_id
    assert sorted(answer["expectations"], key=lambda row: (row["suite"], row["name"])) == content["quality"]
    assert main(["report", *place, "--audit-id", audit_id]) == 1
    assert json.loads((tmp_path / "report" / "audit.json").read_text())["quality"] == content["quality"]

    assert main(["run", str(sample.path), *place, "--no-quality", "--fail-on", "never"]) == 0
    content = json.loads((tmp_path / "report" / "audit.json").read_text())
    assert content["quality"] == []
    assert json.loads((tmp_path / "report" / "verdict.json").read_text())["quality"] is None
    assert not (tmp_path / "report" / "data_docs").exists(), "those are another audit's"


@pytest.fixture(scope="module")
def quiet(run_stages):
    """A sample without a grave finding, audited."""
    return run_stages(Path(__file__).parents[2] / "data" / "samples" / "hw-truncation-before")


@pytest.mark.parametrize(("fail_on", "status", "word"), [("high", 0, "WARNING"), ("medium", 1, "CRITICAL")])
def test_the_exit_status_follows_severity(in_session, quiet, tmp_path, capsys, fail_on, status, word):
    from replica_audit.cli.main import main

    own = tmp_path / "own.yaml"
    own.write_text(
        "suites: [{name: own, table: replicas, expectations: [{name: few, type: expect_column_values_to_be_between,"
        " kwargs: {column: record_count, max_value: 0}, severity: medium}]}]\n"
    )
    options = ["--warehouse", quiet.settings.warehouse, "--report", str(tmp_path / "report"), "--suites", str(own)]
    audit_id = quiet.results.audit["audit_id"]
    assert main(["quality", *options, "--audit-id", audit_id, "--fail-on", fail_on]) == status
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == f"{word}: {built_in() + 1} expectations; failed: 1 medium"


def test_a_high_watermark_that_nothing_bounds_breaks_no_expectation(spark, run_stages):
    from replica_audit.quality.suites import load_plan

    open_above = run_stages(ATTACKS / "04-leader-has-no-files" / "describe")
    (mark,) = open_above.results.rows("high_watermarks")
    assert (mark["hw_lower"], mark["hw_upper"], mark["proven_lower"]) == (30, None, 30)
    found = answers(check(spark, open_above, load_plan()))
    assert found["partitions/high-watermark-interval-not-empty"]["success"]
    assert found["replicas/isr-reaches-high-watermark"]["success"]
    assert not [row["error"] for row in found.values() if row["error"]]
