"""The DAG file without Airflow: it runs against stand-ins, asks for what it should, and judges a verdict rightly."""

from __future__ import annotations

import ast
import json
import shlex
import sys
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import unquote

import pytest
from jinja2 import Environment, StrictUndefined
from tests.airflow.stand_in import AirflowFailException, AirflowSkipException, SparkSubmitOperator, load_dag
from tests.support.some import some

from replica_audit.cli.parser import given_flags, parse_arguments
from replica_audit.config import FAIL_LEVELS, resolve_settings
from replica_audit.install.setup import submit_settings
from replica_audit.literals import PROTOCOLS, SEVERITIES
from replica_audit.report.verdict_object import build_failure
from replica_audit.schema import REPORT_TABLES

ROOT = Path(__file__).parents[2]
FILE = ROOT / "jobs" / "airflow" / "scheduled_audit.py"


@pytest.fixture(scope="module")
def module():
    return load_dag(FILE)


@pytest.fixture(scope="module")
def audit(module):
    return module["audit"].kwargs


def rendered(template, variables=None, **params):
    """A template as Airflow fills it in, for a run after 3:04:05 of 31 January."""
    environment = Environment(undefined=StrictUndefined)
    environment.filters.update(ds=lambda _: "2025-01-31", ts_nodash=lambda _: "20250131T030405")

    class Variables:
        @staticmethod
        def get(name, default):
            return (variables or {}).get(name, default)

    context = {"var": {"value": Variables}, "params": {"snapshot": None, "fail_on": "high", **params}}
    return environment.from_string(template).render(dag_run={"run_after": object()}, **context)


def test_it_imports_airflow_and_the_standard_library_only():
    imported = set()
    for node in ast.walk(ast.parse(FILE.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            imported |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            imported.add(node.module.split(".")[0])
    assert imported - set(sys.stdlib_module_names) == {"airflow"}


def test_one_run_at_a_time_with_limits_of_time_and_no_catching_up(module, audit):
    dag = module["dag"].kwargs
    assert (dag["max_active_runs"], dag["catchup"]) == (1, False)
    (gate,) = module["gate"].calls
    limits = [audit["execution_timeout"], gate.options["execution_timeout"], dag["dagrun_timeout"]]
    assert all(limit > timedelta() for limit in limits)
    retries, delay = dag["default_args"]["retries"], dag["default_args"]["retry_delay"]
    assert retries > 0
    collecting, bringing = (
        module[name].options["execution_timeout"] * (1 + module[name].options["retries"]) + delay
        for name in ("collect", "bring")
    )
    auditing = (1 + retries) * audit["execution_timeout"] + retries * delay
    assert collecting + auditing + bringing + auditing < dag["dagrun_timeout"] < timedelta(days=1)


def test_the_gate_comes_last_and_the_assets_are_tables_that_exist_and_a_report_with_a_place(module):
    (gate,), (publish,) = module["gate"].calls, module["publish"].calls
    assert (gate.before, publish.before) == ([publish], [module["audit"], module["again"]])
    assert gate.options["trigger_rule"] == publish.options["trigger_rule"] == "none_failed"
    assets = publish.options["outlets"]
    assert [asset.args[0] for asset in assets] == [f"replica_audit.{name}" for name in (*module["TABLES"], "report")]
    assert assets[-1].kwargs == {"uri": "file:///srv/replica-audit/reports"}
    assert set(module["TABLES"]) < set(REPORT_TABLES)


def test_every_event_says_what_came_of_the_audit(module, tmp_path):
    written = {**verdict(high=2), "audit_id": "a1", "table_versions": {"findings": 3}}
    (tmp_path / "verdict.json").write_text(json.dumps(written))
    events = {asset: SimpleNamespace(extra=None) for asset in module["ASSETS"]}
    module["publish"].function(str(tmp_path), ["1=/a"], None, outlet_events=events)
    (call,) = module["publish"].calls
    assert (call.kwargs["not_collected"], call.kwargs["not_brought"]) == (module["uncollected"], module["unbrought"])
    for event in some(events.values()):
        assert event.extra["report"] == str(tmp_path)
        assert (event.extra["not_collected"], event.extra["not_brought"]) == (["1=/a"], [])
        assert {name: event.extra[name] for name in ("audit_id", "verdict", "findings", "partitions", "table_versions")} == {
            "audit_id": "a1", "verdict": "COMMITTED_LOSS", "findings": written["findings"],
            "partitions": written["partitions"], "table_versions": {"findings": 3},
        }  # fmt: skip


def test_a_scheduled_run_is_of_the_snapshots_day(module):
    schedule = module["dag"].kwargs["schedule"]
    assert schedule.args == ("0 4 * * *",)
    assert schedule.kwargs == {"timezone": "UTC", "key_format": "%Y-%m-%d"}, "as the directories of snapshots are named"


def test_cluster_mode_is_one_variable_away(monkeypatch):
    monkeypatch.setenv("AIRFLOW_VAR_REPLICA_AUDIT_DEPLOY_MODE", "cluster")
    monkeypatch.setenv("AIRFLOW_VAR_REPLICA_AUDIT_REPORTS", "/mnt/shared reports")
    module = load_dag(FILE)
    assert module["audit"].kwargs["deploy_mode"] == "cluster"
    assert module["ASSETS"][-1].kwargs["uri"] == "file:///mnt/shared%20reports"


def test_parameters_offer_what_the_command_takes(module):
    params = module["dag"].kwargs["params"]
    assert params["protocol"].kwargs["enum"] == [None, *PROTOCOLS], "none: that of the Kafka version"
    assert params["fail_on"].kwargs["enum"] == list(FAIL_LEVELS)
    assert module["SEVERITIES"] == tuple(SEVERITIES)
    default = resolve_settings({}, {}).settings
    assert {name: params[name].args[0] for name in ("protocol", "fail_on", "baseline", "quality")} == {
        "protocol": default.protocol, "fail_on": default.fail_on, "baseline": default.baseline, "quality": True,
    }  # fmt: skip


def test_paths_are_those_of_the_clone_and_of_the_day(module, audit):
    (call,) = module["arguments"].calls
    assert audit["application_args"] is call
    variables = {"replica_audit_home": "/clone", "replica_audit_snapshots": "s3://backup/kafka"}
    assert rendered(call.kwargs["snapshot"], variables) == "s3://backup/kafka/2025-01-31"
    assert rendered(call.kwargs["snapshot"], variables, snapshot="/one") == "/one"
    assert rendered(call.kwargs["report"]) == "/srv/replica-audit/reports/20250131T030405"
    assert rendered(call.kwargs["warehouse"]) == "/srv/replica-audit/warehouse"
    assert rendered(audit["properties_file"], {"replica_audit_properties": "/etc/spark.conf"}) == "/etc/spark.conf"
    assert (ROOT / Path(rendered(audit["application"], variables)).relative_to("/clone")).is_file()
    # Of a clone: .venv/share is where `setup` puts what a clone's environment needs.
    _, cluster = submit_settings()
    assert rendered(audit["properties_file"], variables) == f"/clone/.venv/{cluster.relative_to(sys.prefix)}"
    assert rendered(audit["py_files"], variables) == "/clone/build/replica_audit.zip"
    assert rendered(audit["env_vars"]["PYSPARK_PYTHON"], variables) == "/clone/.venv/bin/python"
    assert audit["env_vars"]["PYSPARK_PYTHON"] == audit["conf"]["spark.pyspark.driver.python"]
    templates = {name for name, value in audit.items() if "{{" in str(value)}
    assert templates <= SparkSubmitOperator.templated
    (gate,) = module["gate"].calls
    assert gate.kwargs["report"] == call.kwargs["report"]
    assert rendered(gate.kwargs["fail_on"], fail_on="low") == "low"


def test_evidence_is_collected_before_the_audit_unless_a_run_has_a_snapshot(module):
    variables = {"replica_audit_brokers": "1=/data 2@b='/a b'", "replica_audit_evidence": "/shared/evidence"}
    (given,) = module["arguments"].calls
    (asked,) = module["brokers"].calls
    assert given.before == [asked, module["uncollected"]]
    assert rendered(given.kwargs["snapshot"], variables) == "/shared/evidence"
    assert rendered(given.kwargs["snapshot"], variables, snapshot="/one") == "/one"
    assert module["brokers"].function(rendered(asked.args[0], variables)) == ["1=/data", "2@b=/a b"]
    for none in (rendered(asked.args[0]), rendered(asked.args[0], variables, snapshot="/one")):
        assert module["brokers"].function(none) == []


def test_a_broker_is_collected_and_asked_as_by_hand(module):
    (collected,), (brought,) = module["collect"].calls, module["bring"].calls
    assert (collected.kwargs["broker"], brought.kwargs["broker"]) == (module["asked"], module["wanting"])
    variables = {"replica_audit_home": "/clone", "replica_audit_evidence": "/shared evidence"}
    options = "--sudo kafka --collect-options '--topic a*'"
    for call, how, known in (
        (collected, {"goes_on": True, "wanted": None}, variables),
        (brought, {"goes_on": False, "wanted": "/srv/replica-audit/reports/20250131T030405/wanted.json"}, variables),
        (collected, {"sudo": "kafka", "collect_options": "--topic a*"}, {**variables, "replica_audit_capture_options": options}),
    ):  # fmt: skip
        given = {name: rendered(value, known) for name, value in call.kwargs.items() if name != "broker"}
        command = shlex.split(_filled_in_again(call, broker="1@b=/a b", **given))
        end = command.index(">collect.sh")
        assert command[:2] == ["/clone/.venv/bin/replica-audit", "capture-plan"]
        assert command[end:] == [">collect.sh", "&&", "bash", "collect.sh", "&&", "echo", "1@b=/a b"]
        parsed = vars(parse_arguments(command[1:end]))
        assert (parsed["to"], parsed["brokers"]) == ("/shared evidence", ["1@b=/a b"])
        assert {name: parsed[name] for name in how} == how
    assert parsed["collect_options"] != "--again-days 30"
    assert "--again-days 30" in unquote(rendered(collected.kwargs["options"]))


@pytest.mark.parametrize("braces", ["{{.State.Pid}}", "{{ 1+1 }}", "{% endraw %}", "{# é𝄞 \\n #}", "100%41"])
def test_options_with_braces_reach_the_collector_as_they_are(module, braces):
    (call,) = module["collect"].calls
    watch = f"docker inspect -f '{braces}' kafka"
    variables = {"replica_audit_capture_options": shlex.join(["--collect-options", shlex.join(["--watch", watch])])}
    given = {name: rendered(value, variables) for name, value in call.kwargs.items() if name != "broker"}
    command = shlex.split(_filled_in_again(call, broker="1=/a", **given))
    parsed = parse_arguments(command[1 : command.index(">collect.sh")])
    assert shlex.split(parsed.collect_options) == ["--watch", watch]


def _filled_in_again(call, *args, **kwargs):
    """Render arguments and command again, as `execute()` of @task.bash does after the arguments were rendered before."""
    args = [rendered(value) if isinstance(value, str) else value for value in args]
    return rendered(call.function(*args, **{name: rendered(value) for name, value in kwargs.items()}))


def test_only_those_are_asked_of_which_bytes_are_wanted(module, tmp_path):
    wanted = module["wanted"].function
    asked = ["1=/data", "12@b=/data", "2@c=/data"]
    assert wanted(str(tmp_path), asked) == []
    content = {"wanted": [{"broker_id": 12}, {"broker_id": 2}, {"broker_id": 7}]}
    (tmp_path / "wanted.json").write_text(json.dumps(content))
    assert wanted(str(tmp_path), asked) == ["12@b=/data", "2@c=/data"]


def test_brokers_of_which_a_task_failed_are_told_and_stop_nothing_but_the_gate(module, tmp_path):
    uncollected, unbrought = module["not_collected"], module["not_brought"]
    assert uncollected.options["trigger_rule"] == unbrought.options["trigger_rule"] == "all_done"
    assert uncollected.function(["1=/a", "2=/b"], ["2=/b"]) == ["1=/a"]
    assert uncollected.function(["1=/a"], ["1=/a"]) == uncollected.function(None, None) == []
    assert unbrought.function(["1=/a", "2=/b"], None) == ["1=/a", "2=/b"]
    for nothing in ([], None):
        with pytest.raises(AirflowSkipException):
            unbrought.function(nothing, None)
    gate = module["gate"].function
    (tmp_path / "verdict.json").write_text(json.dumps(verdict()))
    assert gate(str(tmp_path), "high", [], None)["verdict"] == "COMMITTED_LOSS"
    with pytest.raises(AirflowFailException, match="COMMITTED_LOSS; 1=/a, 2=/b could not be collected; report: "):
        gate(str(tmp_path), "never", ["1=/a", "2=/b"], None)
    with pytest.raises(AirflowFailException, match="COMMITTED_LOSS; 1=/a could not bring what was wanted; report: "):
        gate(str(tmp_path), "never", [], ["1=/a"])


def test_evidence_is_kept_unless_days_are_given(module):
    (call,) = module["prune"].calls
    tool, evidence, days, asked = call.args
    assert asked is module["asked"] and rendered(days) == ""
    prune = module["prune"].function
    for nothing in (("", ["1=/a"]), ("7", [])):
        with pytest.raises(AirflowSkipException):
            prune("tool", "/evidence", *nothing)
    assert call.before == [module["judged"]], "what a red night was audited on stays"
    parsed = parse_arguments(shlex.split(_filled_in_again(call, rendered(tool), rendered(evidence), "7", ["1=/a"]))[1:])
    assert (parsed.command, parsed.directory, parsed.prune) == ("evidence", "/srv/replica-audit/evidence", 7)


def test_the_driver_stays_where_its_report_and_exit_status_are_seen(audit):
    assert audit["deploy_mode"] == "client"


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({}, {"quality": None, "topics": None, "baseline": None, "protocol": None}),
        (
            {"topics": ["a*", "--b"], "baseline": "/old/audit.json", "quality": False, "protocol": "kip-101"},
            {"quality": False, "topics": ["a*", "--b"], "baseline": "/old/audit.json", "protocol": "kip-101"},
        ),
    ],
)
def test_arguments_are_those_of_the_command(module, params, expected):
    defaults = {name: param.args[0] for name, param in module["dag"].kwargs["params"].items()}
    given = module["arguments"].function("/the snapshot", "/wh", "/report", params={**defaults, **params})
    parsed = parse_arguments(["run", *given])
    assert parsed.snapshot == "/the snapshot"
    flags = given_flags(parsed)
    assert {"warehouse": "/wh", "report": "/report", "fail_on": "never"}.items() <= flags.items()
    assert {name: flags.get(name) for name in expected} == expected


@pytest.mark.parametrize(
    ("said", "decision"),
    [
        ("Cannot execute: spark-submit. Error code is: 2.", "fail"),
        ("Cannot execute: spark-submit. Error code is: 3. Last spark-submit output: …", "fail"),
        ("Cannot execute: spark-submit. Error code is: 4.", "default"),
        ("Cannot execute: spark-submit. Error code is: 23.", "default"),
        ("Task timed out", "default"),
    ],
)
def test_only_what_may_pass_is_tried_again(module, audit, said, decision):
    decided = audit["retry_policy"].evaluate(RuntimeError(said), 1, 3)
    assert decided.args[0] == decision
    assert decision == "default" or len(decided.args[1]) > 20


@pytest.mark.parametrize(
    ("before", "written", "is_done"),
    [
        ({}, {"exit_status": 3, "audit_id": "a2", "untrusted": "bytes are wanted"}, True),
        ({}, {"exit_status": 3, "audit_id": None, "untrusted": "nothing was audited"}, False),
        ({}, {"exit_status": 4, "audit_id": None, "untrusted": "internal error"}, False),
        ({"exit_status": 3, "audit_id": "a1", "untrusted": "bytes are wanted"}, None, False),
        ({}, None, False),
    ],
)
def test_an_audit_that_cannot_be_trusted_whole_is_left_to_the_gate(module, tmp_path, before, written, is_done):
    place = tmp_path / "verdict.json"
    if before:
        place.write_text(json.dumps(before))

    def ends_with_a_status():
        if written is not None:
            place.write_text(json.dumps(written))
        raise RuntimeError("Cannot execute: spark-submit. Error code is: 3.")

    audit = module["Audit"](task_id="audit", report=str(tmp_path))
    assert "report" in audit.template_fields
    if is_done:
        audit.execute(ends_with_a_status)
        with pytest.raises(AirflowFailException, match="INCONCLUSIVE; status 3: bytes are wanted; 1=/a could not"):
            place.write_text(json.dumps({**build_failure(3, "never", "bytes are wanted"), "audit_id": "a2"}))
            module["gate"].function(str(tmp_path), "high", ["1=/a"])
    else:
        with pytest.raises(RuntimeError, match="Error code is: 3"):
            audit.execute(ends_with_a_status)


def verdict(**findings):
    return {
        **build_failure(0, "never", ""), "verdict": "COMMITTED_LOSS", "untrusted": None,
        "findings": {**dict.fromkeys(SEVERITIES, 0), **findings},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("findings", "fail_on", "passes"),
    [
        ({}, "info", True),
        ({"medium": 3, "low": 1}, "high", True),
        ({"high": 1}, "high", False),
        ({"critical": 1}, "high", False),
        ({"high": 1}, "critical", True),
        ({"info": 1}, "info", False),
        ({"critical": 9}, "never", True),
    ],
)
def test_the_gate_stops_at_findings_and_nothing_else(module, tmp_path, findings, fail_on, passes):
    written = verdict(**findings)
    (tmp_path / "verdict.json").write_text(json.dumps(written))
    gate = module["gate"].function
    if passes:
        assert gate(str(tmp_path), fail_on) == written
    else:
        ((severity, count),) = findings.items()
        with pytest.raises(AirflowFailException, match=f"COMMITTED_LOSS; findings: {count} {severity}; report: "):
            gate(str(tmp_path), fail_on)


def test_the_gate_stops_at_quality_checks_that_failed(module, tmp_path):
    failed = {**dict.fromkeys(SEVERITIES, 0), "high": 2}
    (tmp_path / "verdict.json").write_text(json.dumps({**verdict(low=1), "quality": {"failed": failed}}))
    gate = module["gate"].function
    with pytest.raises(AirflowFailException, match="COMMITTED_LOSS; quality: 2 high; report: "):
        gate(str(tmp_path), "high")
    assert gate(str(tmp_path), "critical")["quality"]["failed"] == failed


def test_the_gate_lets_no_failure_pass(module, tmp_path):
    gate = module["gate"].function
    with pytest.raises(FileNotFoundError):
        gate(str(tmp_path), "never")
    (tmp_path / "verdict.json").write_text(json.dumps(build_failure(4, "never", "internal error")))
    with pytest.raises(AirflowFailException, match="status 4: internal error"):
        gate(str(tmp_path), "never")
