"""Suites and Actions as files give them, without Great Expectations."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.quality_checks import names
from tests.support.some import some

from replica_audit.errors import UsageError
from replica_audit.quality.suites import QualityPlan, load_plan
from replica_audit.schema import FACT_TABLES

ROOT = Path(__file__).parents[2]
BETWEEN = "{name: crc-valid, type: expect_column_values_to_be_between, kwargs: {column: wrong_crcs, max_value: 0}"


def plan_of(tmp_path: Path, *texts: str) -> QualityPlan:
    paths = []
    for number, text in enumerate(texts):
        path = tmp_path / f"{number}.yaml"
        path.write_text(text)
        paths.append(str(path))
    return load_plan(paths)


def test_the_built_in_suites_ask_for_every_fact_that_is_a_count() -> None:
    plan = load_plan()
    asked = {one.kwargs.get("column") for suite in plan.suites for one in suite.expectations}
    counts = {column.name for column in FACT_TABLES["replica_facts"][12:] if column.type == "bigint"}
    # What is too old depends on how often audits are made.
    assert counts - asked == {"capture_age_ms"}
    assert plan.actions == () and len(names(plan)) == 21
    assert all(one.description for suite in plan.suites for one in suite.expectations)


def test_the_example_in_conf_adds_to_the_built_in_suites() -> None:
    added = set(names(load_plan([str(ROOT / "conf" / "quality.yaml")]))) - set(names(load_plan()))
    assert added == {
        "service-levels/lag-is-small", "service-levels/high-watermark-is-narrow", "captures/capture-is-fresh",
    }  # fmt: skip


def test_the_example_in_conf_names_every_built_in_suite_and_expectation() -> None:
    text = (ROOT / "conf" / "quality.yaml").read_text()
    for name in some(names(load_plan())):
        suite, expectation = name.split("/")
        assert suite in text and expectation in text, name


def test_the_same_suite_and_name_replace_and_others_are_added(tmp_path: Path) -> None:
    plan = plan_of(
        tmp_path,
        f"suites: [{{name: replicas, table: replica_facts, expectations: [{BETWEEN}, severity: critical}}]}}]",
        "suites: [{name: findings, table: partition_facts, expectations: [{name: no-low-finding, type: x, enabled: false}]}]",
        "suites: [{name: own, table: segments, expectations: [{type: expect_table_row_count_to_be_between, kwargs: {min_value: 1}}]}]",
    )
    found = names(plan)
    assert found["replicas/crc-valid"] == "critical" and "findings/no-low-finding" not in found
    assert found["own/table-row-count-to-be-between"] == "critical"
    assert len(found) == 21 and plan.suites[-1].table == "segments"
    assert {suite.name: suite.own for suite in plan.suites} == {
        "replicas": True, "findings": True, "own": True, "partitions": False, "quarantine": False,
    }  # fmt: skip
    assert plan.needs_spark and not load_plan().needs_spark


@pytest.mark.parametrize(
    ("given", "severity"),
    [("critical", "critical"), ("warning", "medium"), ("info", "info"), ("high", "high"), ("low", "low")],
)
def test_severities_are_those_of_findings_or_of_great_expectations(given: str, severity: str, tmp_path: Path) -> None:
    plan = plan_of(
        tmp_path, f"suites: [{{name: own, table: replica_facts, expectations: [{BETWEEN}, severity: {given}}}]}}]"
    )
    assert names(plan)["own/crc-valid"] == severity


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("suite: []", "expected suites and actions, found suite"),
        ("suites: {}", "suites: expected a list"),
        ("suites: [a]", "expected keys such as name, found 'a'"),
        ("suites: [{table: findings}]", "suite: name: expected text"),
        ("suites: [{name: a, table: finding}]", "suite a: no such table: finding; known are replica_facts"),
        (
            "suites: [{name: a, table: findings, expectation: []}]",
            "expectation is not one of expectations, name, table",
        ),
        ("suites: [{name: a, table: findings, expectations: [{kwargs: {}}]}]", "type: expected text"),
        (
            "suites: [{name: a, table: findings, expectations: [{type: t, kwargs: [1]}]}]",
            "kwargs: expected names and values",
        ),
        (
            "suites: [{name: a, table: findings, expectations: [{type: t, severity: bad}]}]",
            "severity 'bad' is not one of critical",
        ),
        (
            "suites: [{name: a, table: findings, expectations: [{type: t, enabled: 'no'}]}]",
            "enabled: expected true or false",
        ),
        (
            "suites: [{name: a, table: findings, expectations: [{type: t, kwargs: {column: x}}]}]",
            "has no column x; it has place, finding_id",
        ),
        ("suites: [{name: a, table: findings, expectations: [{type: t}, {type: t}]}]", "expectation t is there twice"),
        ("suites: [{name: a, table: findings}, {name: a, table: findings}]", "suite a is there twice"),
        (
            "suites: [{name: findings, table: replicas, expectations: []}]",
            "looks at table partition_facts, not replicas",
        ),
        ("actions: [{type: slack}]", "action: name: expected text"),
        ("actions: [{name: a}]", "action a: type: expected text"),
        ("actions: [{name: a, type: slack}, {name: a, type: slack}]", "action a is there twice"),
        (
            "actions: [{name: a, type: slack, slack_webhook: '${REPLICA_TEST_UNSET}'}]",
            "variable REPLICA_TEST_UNSET is not set",
        ),
        ("suites: [", "line"),
    ],
)
def test_a_wrong_file_is_told_with_its_place(text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        plan_of(tmp_path, text)
    assert said in str(caught.value) and "0.yaml" in str(caught.value)


#: Line 2 is the suite's, line 5 its expectation's, line 7 the action's.
WRITTEN = """suites:
  - name: own
    table: findings
    expectations:
      - {type: t}
actions:
  - {name: a, type: slack}
"""


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("table:", "tabel:", "line 2: suite: tabel is not one of"),
        ("findings", "finding", "line 2: suite own: no such table: finding"),
        ("t}", "t, severity: bad}", "line 5: suite own: expectation t: severity 'bad'"),
        ("t}", "t}\n      - {type: t}", "line 6: suite own: expectation t is there twice"),
        ("t}", "t, kwargs: {column: x}}", "line 5: suite own: expectation t-x: table findings has no column x"),
        ("actions", "  - {name: own, table: findings}\nactions", "line 6: suite own is there twice"),
        ("a, type", "a, tipe", "line 7: action a: type: expected text"),
        ("slack}", "slack}\n  - {name: a, type: slack}", "line 8: action a is there twice"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(old: str, new: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        plan_of(tmp_path, WRITTEN.replace(old, new, 1))
    assert f"0.yaml: {said}" in str(caught.value)


def test_an_action_in_two_files_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="two actions named a"):
        plan_of(tmp_path, "actions: [{name: a, type: slack}]", "actions: [{name: a, type: slack}]")


def test_great_expectations_is_imported_without_network_connect_or_analytics() -> None:
    """Also by `python -c`, where Spark would end the process on the way (see `package`)."""
    program = (
        "import os, socket, sys\n"
        "def refuse(*a, **k): raise AssertionError('a connection')\n"
        "socket.socket.connect = socket.create_connection = refuse\n"
        "import replica_audit.quality.checkpoint\n"
        "assert os.environ['GX_ANALYTICS_ENABLED'] == 'false'\n"
        "assert not [name for name in sys.modules if name.startswith('pyspark.sql.connect.dataframe')]\n"
        "print('whole')\n"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert (ran.returncode, ran.stdout) == (0, "whole\n"), ran.stderr
