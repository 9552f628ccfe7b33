"""metrics.prom is read by the parsers of both formats, and its labels stay bounded."""

from __future__ import annotations

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_prometheus
from tests.support.report_rows import AUDIT, answers_of, finding, partition, results, row

from replica_audit.auditing.catalogue import CATALOGUE
from replica_audit.literals import SEVERITIES, VERDICTS
from replica_audit.report.facts.verdict import build_verdict
from replica_audit.report.metrics import render_metrics
from replica_audit.report.run_metrics import render_families, run_families
from replica_audit.report.verdict_object import build_failure
from replica_audit.results import Results

URL = "https://ci.example/audit/index.html"


def samples(text: str) -> dict[tuple[str, frozenset], float]:
    """Values by name and labels, as both parsers agree that they are."""
    read = []
    for parse in (parse_openmetrics, parse_prometheus):
        families = list(parse(text))
        assert all(family.type == "gauge" and family.documentation for family in families)
        found = [
            (sample.name, frozenset(sample.labels.items()), sample.value)
            for family in families
            for sample in family.samples
        ]
        read.append({(name, labels): value for name, labels, value in found})
        assert len(read[-1]) == len(found), "a sample is there twice"
    assert read[0] == read[1]
    return read[0]


def values(found: Results, fail_on: str = "high") -> dict[tuple[str, frozenset], float]:
    return samples(render_metrics(found, build_verdict(found, fail_on), URL))


def test_both_parsers_read_the_same_and_the_counts_are_those_of_the_audit() -> None:
    found = values(
        results(
            [
                partition(
                    "a",
                    0,
                    "COMMITTED_LOSS",
                    dropped_records=18,
                    lost_records=9,
                    lost_committed=7,
                    under_replicated=True,
                    max_lag_records=4,
                ),
                partition("a", 1, leader_id=None),
            ],
            [
                finding("HWM-LOSS", "critical", "a", 0),
                finding("REP-LAG", "info", "a", 1, status="known"),
                finding("DIV-EPOCH", "medium", "a", 1, status="resolved"),
            ],
            quarantine=[row("quarantine", path="x", code="CAP-UNREADABLE")],
        )
    )

    def of(name: str, **labels: str) -> float:
        return found["replica_audit_" + name, frozenset(labels.items())]

    assert of("partitions", verdict="COMMITTED_LOSS") == of("partitions", verdict="CONSISTENT") == 1
    assert of("verdict", verdict="COMMITTED_LOSS") == 1 and of("verdict", verdict="CONSISTENT") == 0
    assert of("findings", severity="critical", status="new") == of("findings", severity="info", status="known") == 1
    assert (
        of("findings", severity="medium", status="resolved") == 1
        and of("findings", severity="medium", status="new") == 0
    )
    assert of("findings_by_code", code="HWM-LOSS", severity="critical") == 1
    assert ("replica_audit_findings_by_code", frozenset({("code", "DIV-EPOCH"), ("severity", "medium")})) not in found
    assert (of("lost_records"), of("lost_committed_records"), of("dropped_records")) == (9, 7, 18)
    assert (of("loss_unknown_partitions"), of("max_lag_records")) == (1, 4)
    assert (of("under_replicated_partitions"), of("leaderless_partitions"), of("quarantined_inputs")) == (1, 1, 1)
    assert (of("exit_status"), of("trusted"), of("last_run_success")) == (1, 0, 1)
    # 2026-01-02T03:04:06Z
    assert (of("last_run_timestamp_seconds"), of("last_run_duration_seconds")) == (1767323046, 1)


def test_labels_are_of_the_catalogue_and_never_of_the_snapshot() -> None:
    topics = [f"topic-{number}" for number in range(50)]
    found = values(
        results(
            [partition(topic) for topic in topics],
            [finding(code, severity, topic) for topic in topics for code in CATALOGUE for severity in SEVERITIES],
        )
    )
    allowed = {
        "verdict": set(VERDICTS),
        "severity": set(SEVERITIES),
        "code": set(CATALOGUE),
        "status": {"new", "known", "resolved"},
    }
    allowed |= {"version": {AUDIT["tool_version"]}, "cluster_id": {AUDIT["cluster_id"]}, "url": {URL}}
    assert all(value in allowed[name] for _, labels in found for name, value in labels)
    assert len(found) < 100 + len(CATALOGUE) * len(SEVERITIES)


def test_a_cluster_id_with_quotes_and_backslashes_is_one_value() -> None:
    found = answers_of({**AUDIT, "cluster_id": 'a"b\\c\nd'}, {"partitions": [partition()]})
    assert ("replica_audit_run_info", frozenset({("version", "0.1.0"), ("cluster_id", 'a"b\\c\\nd')})) in values(found)


def test_an_audit_without_partitions_is_still_valid() -> None:
    found = values(Results(AUDIT))
    assert found["replica_audit_exit_status", frozenset()] == 3


@pytest.mark.parametrize("status", [3, 4])
def test_a_run_that_failed_says_so_and_when(status: int) -> None:
    found = samples(render_families(run_families(build_failure(status, "high", "no Java"), 1767323046.5, None, URL)))
    assert found["replica_audit_exit_status", frozenset()] == status
    assert found["replica_audit_last_run_success", frozenset()] == found["replica_audit_trusted", frozenset()] == 0
    assert found["replica_audit_last_run_timestamp_seconds", frozenset()] == 1767323046.5
    assert found["replica_audit_report_info", frozenset({("url", URL)})] == 1


def test_quality_is_counted_where_it_was_checked() -> None:
    checks = [
        row("quality", suite="s", name="a", severity="high", success=False, status="new", expectation="e"),
        row("quality", suite="s", name="b", severity="low", success=True, expectation="e"),
    ]
    found = values(results(quality=checks))
    assert found["replica_audit_quality_expectations", frozenset()] == 2
    assert found["replica_audit_quality_failed_expectations", frozenset({("severity", "high")})] == 1
    assert not [name for name, _ in values(results()) if "quality" in name]
