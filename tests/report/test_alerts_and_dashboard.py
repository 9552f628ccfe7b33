"""conf/prometheus-rules.yaml and conf/grafana-dashboard.json name what metrics.prom has, and alert where they should."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families
from tests.support.report_rows import finding, partition, results, row
from tests.support.some import some

from replica_audit.auditing.catalogue import CATALOGUE
from replica_audit.literals import SEVERITIES
from replica_audit.report.facts.verdict import build_verdict
from replica_audit.report.metrics import render_metrics
from replica_audit.report.run_metrics import render_families, run_families
from replica_audit.report.verdict_object import build_failure

CONF = Path(__file__).parents[2] / "conf"
RULES = yaml.safe_load((CONF / "prometheus-rules.yaml").read_text(encoding="utf-8"))
ALERTS: dict[str, dict[str, Any]] = {rule["alert"]: rule for group in RULES["groups"] for rule in group["rules"]}
DASHBOARD = json.loads((CONF / "grafana-dashboard.json").read_text(encoding="utf-8"))
URL = "https://ci.example/audit/index.html"
#: Labels that a scrape adds.
SCRAPE = {"job": "node", "instance": "audit:9100"}
SELECTOR = re.compile(r"(replica_audit_\w+)(?:\{([^}]*)\})?")
MATCHER = re.compile(r'(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"')

CALM = results([partition(lost_records=0)])
EVERYTHING = results(
    [
        partition("a", 0, "COMMITTED_LOSS", lost_records=9, lost_committed=7, under_replicated=True, max_lag_records=4),
        partition("a", 1, lost_records=0, leader_id=None),
        partition("a", 2, "INCONCLUSIVE", lost_records=None),
    ],
    [finding(code, severity) for code in list(CATALOGUE)[:1] for severity in SEVERITIES],
    quarantine=[row("quarantine", path="x", code="CAP-UNREADABLE")],
    quality=[
        row("quality", suite="s", name=severity, severity=severity, success=False, status="new", expectation="e")
        for severity in SEVERITIES
    ],
)
EVERYTHING = replace(
    EVERYTHING, audit={**EVERYTHING.audit, "inputs": {"size_bytes": 9, "quarantined_bytes": 1, "padding_bytes": 2}}
)


def metrics(found: Any) -> str:
    return render_metrics(found, build_verdict(found, "high"), URL)


def known_labels() -> dict[str, dict[str, set[str]]]:
    """Values of each label of each metric."""
    known: dict[str, dict[str, set[str]]] = {}
    for family in text_string_to_metric_families(metrics(EVERYTHING)):
        for sample in family.samples:
            labels = known.setdefault(sample.name, {name: {value} for name, value in SCRAPE.items()})
            for name, value in sample.labels.items():
                labels.setdefault(name, set()).add(value)
    return known


def panels() -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    for panel in DASHBOARD["panels"]:
        yield from ((panel, target) for target in panel["targets"])


def check_names(expression: str) -> set[str]:
    """The labels of the metrics of `expression`, all of which are written, as are the values that it asks for."""
    known = known_labels()
    labels: set[str] = set()
    selectors = SELECTOR.findall(expression)
    assert selectors, expression
    for name, matchers in selectors:
        assert name in known, f"{name} is not in metrics.prom"
        for label, operator, value in MATCHER.findall(matchers):
            assert label in known[name], f"{name} has no label {label}"
            asked = set(value.split("|")) if operator in ("=~", "!~") else {value}
            assert value.startswith(("$", "%")) or asked <= known[name][label], f"{name}: {label} is never {value}"
        labels.update(known[name])
    for listed in re.findall(r"\b(?:by|without|on|ignoring)\s*\(([^)]*)\)", expression):
        assert {part.strip() for part in listed.split(",")} <= labels, expression
    return labels


def test_alerts_and_panels_name_metrics_labels_and_values_that_are_written() -> None:
    for alert in ALERTS.values():
        check_names(alert["expr"])
        check_names(alert["annotations"]["report"].replace("%q", '"%q"'))
    for panel, target in some(panels()):
        shown = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
        assert shown <= check_names(target["expr"]), panel["title"]
    for variable in DASHBOARD["templating"]["list"][1:]:
        check_names(variable["definition"])


def test_every_metric_that_says_how_a_cluster_is_is_on_the_dashboard() -> None:
    shown = {name for _, target in panels() for name, _ in SELECTOR.findall(target["expr"])}
    about_runs = {"run_info", "last_run_success", "input_bytes", "quality_expectations"}
    assert set(known_labels()) - shown == {f"replica_audit_{name}" for name in about_runs}


def test_panels_have_places_and_ids_of_their_own() -> None:
    cells: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        own = {(at["x"] + right, at["y"] + down) for right in range(at["w"]) for down in range(at["h"])}
        assert not own & cells and at["x"] + at["w"] <= 24, panel["title"]
        cells |= own
        assert [target["refId"] for target in panel["targets"]] == [*"ABC"][: len(panel["targets"])]
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
    overrides = [
        one["matcher"]["options"] for panel in DASHBOARD["panels"] for one in panel["fieldConfig"]["overrides"]
    ]
    words = {word for text in overrides for word in re.findall(r"[A-Za-z_]+", text)}
    assert words <= known_labels()["replica_audit_verdict"]["verdict"] | set(SEVERITIES)


def test_grafanas_own_types_know_every_setting_of_the_dashboard(monkeypatch: pytest.MonkeyPatch) -> None:
    """What they do not know is not there after reading and writing."""
    monkeypatch.syspath_prepend(str(CONF.parent / "build" / "engines"))
    plugins = pytest.importorskip(
        "grafana_foundation_sdk.cog.plugins", reason="no Grafana Foundation SDK: make engines"
    )
    from grafana_foundation_sdk.cog.encoder import JSONEncoder
    from grafana_foundation_sdk.models.dashboard import Dashboard

    plugins.register_default_plugins()
    written = json.loads(JSONEncoder().encode(Dashboard.from_json(DASHBOARD)))
    # Grafana's editor writes the query of a variable twice.
    assert {path.rpartition("/")[2] for path in _lost(DASHBOARD, written)} == {"definition"}
    misspelt = json.loads(json.dumps(DASHBOARD).replace('"legendFormat"', '"legendformat"'))
    assert len(list(_lost(misspelt, json.loads(JSONEncoder().encode(Dashboard.from_json(misspelt)))))) > 2


def _lost(before: object, after: object, path: str = "") -> Iterator[str]:
    """Places where `before` has something that `after` lacks or has otherwise."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key, value in before.items():
            yield from _lost(value, after[key], f"{path}/{key}") if key in after else [f"{path}/{key}"]
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for one, other in zip(before, after):
            yield from _lost(one, other, path)
    elif before != after:
        yield path


@pytest.fixture(scope="module")
def promtool() -> str:
    found = shutil.which("promtool")
    if found is None:
        pytest.skip("no promtool on the path (Debian: apt-get install prometheus)")
    return found


def run(promtool: str, *words: object) -> None:
    ran = subprocess.run([promtool, *map(str, words)], capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_prometheus_reads_the_rules_and_the_queries_of_the_panels(promtool: str, tmp_path: Path) -> None:
    run(promtool, "check", "rules", CONF / "prometheus-rules.yaml")
    rules = [{"record": f"panel:{number}", "expr": target["expr"]} for number, (_, target) in enumerate(panels())]
    (tmp_path / "panels.yaml").write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    run(promtool, "check", "rules", tmp_path / "panels.yaml")
    ran = subprocess.run([promtool, "check", "metrics"], input=metrics(EVERYTHING), capture_output=True, text=True)
    assert "error" not in ran.stderr.lower() and ran.returncode in (0, 3), ran.stderr  # 3: hints on style


def test_alerts_fire_where_they_should_and_name_the_report(promtool: str, tmp_path: Path) -> None:
    failed = render_families(run_families(build_failure(4, "high", "no Java"), 0.0, None, URL))
    cases: dict[str, tuple[str, dict[str, object]]] = {
        "calm": (metrics(CALM), {}),
        "failed": (failed, {"ReplicaAuditRunFailed": 0}),
        "everything": (
            metrics(EVERYTHING),
            {
                "ReplicaAuditCommittedRecordsLost": 7,
                "ReplicaAuditLossUnknown": 1,
                "ReplicaAuditNewCriticalFindings": 1,
                "ReplicaAuditNewHighFindings": 1,
                "ReplicaAuditLeaderlessPartitions": 1,
                "ReplicaAuditQualityChecksFailed": 2,
                "ReplicaAuditNotTrusted": 0,
            },
        ),
        "old": (_aged(metrics(CALM), 40 * 3600), {"ReplicaAuditTooOld": "1d 16h 0m 0s"}),
    }
    tests = [_unit_test(_aged(text, 0) if name != "old" else text, fired) for name, (text, fired) in cases.items()]
    content = {"rule_files": [str(CONF / "prometheus-rules.yaml")], "tests": tests}
    (tmp_path / "tests.yaml").write_text(yaml.safe_dump(content, sort_keys=False))
    run(promtool, "test", "rules", tmp_path / "tests.yaml")
    assert set().union(*(fired for _, fired in cases.values())) == set(ALERTS), "an alert that no case fires"


def _aged(text: str, seconds: int) -> str:
    """`text` with its run that many seconds ago; a test of promtool begins in 1970."""
    return re.sub(r"^(replica_audit_last_run_timestamp_seconds) .*", rf"\1 {-seconds}", text, flags=re.MULTILINE)


def _unit_test(text: str, fired: dict[str, object]) -> dict[str, Any]:
    series = []
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = ",".join(f'{name}="{value}"' for name, value in {**sample.labels, **SCRAPE}.items())
            series.append({"series": f"{sample.name}{{{labels}}}", "values": f"{sample.value:.0f}"})
    expected = []
    for name, alert in ALERTS.items():
        told = []
        if name in fired:
            value = re.compile(r"\{\{ \$value(?: \| humanizeDuration)? \}\}")
            shown = {key: value.sub(str(fired[name]), text) for key, text in alert["annotations"].items()}
            matched = dict(MATCHER_LABELS.get(name, {}))
            told = [
                {"exp_labels": {**SCRAPE, **matched, **alert["labels"]}, "exp_annotations": {**shown, "report": URL}}
            ]
        expected.append({"eval_time": "0m", "alertname": name, "exp_alerts": told})
    return {"interval": "1m", "input_series": series, "alert_rule_test": expected}


#: Labels of a metric that its alert keeps.
MATCHER_LABELS = {
    name: {label: value for label, _, value in MATCHER.findall(alert["expr"]) if label == "status"}
    for name, alert in ALERTS.items()
}
