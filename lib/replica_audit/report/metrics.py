"""metrics.prom: gauges of the last run, valid both as OpenMetrics and for node_exporter's textfile collector.

Label values come from closed sets (verdicts, severities, codes), never from topics, partitions or offsets.
conf/prometheus-rules.yaml and conf/grafana-dashboard.json use them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import get_args

from replica_audit.auditing.catalogue import CATALOGUE
from replica_audit.literals import SEVERITIES, VERDICTS, Status
from replica_audit.report.layout import clean
from replica_audit.report.run_metrics import Family, render_families, run_families
from replica_audit.report.verdict_object import QualityObject, VerdictObject
from replica_audit.results import Results, present
from replica_audit.schema import FindingRow, PartitionRow
from replica_audit.text import parse_moment

_STATUSES = get_args(Status)


def render_metrics(results: Results, verdict: VerdictObject, report_url: str) -> str:
    """Render the metrics of `results`, ending with `# EOF`; `verdict` is the content of verdict.json, `report_url` the address
    of the page.

    Only gauges, and units only in names that end with them, so that both formats accept the file.
    """
    return render_families(_families(results, verdict, report_url))


def _families(results: Results, verdict: VerdictObject, report_url: str) -> Iterable[Family]:
    audit = results.audit
    partitions = results.partitions
    inputs = results.inputs
    info = {"version": clean(audit["tool_version"]), "cluster_id": clean(audit["cluster_id"] or "")}
    yield "run_info", "The version that ran and the cluster that was audited.", [(info, 1)]
    finished = parse_moment(audit["finished"]).timestamp()
    yield from run_families(verdict, finished, finished - parse_moment(audit["started"]).timestamp(), report_url)
    counts = Counter(row.verdict for row in partitions)
    yield "partitions", "Partitions by verdict.", [({"verdict": name}, counts[name]) for name in VERDICTS]
    yield from _finding_families(results.findings)
    yield from _partition_families(partitions)
    yield "quarantined_inputs", "Pieces of input that could not be used.", [({}, len(results.quarantine))]
    if quality := verdict["quality"]:
        yield from _quality_families(quality)
    size_bytes = inputs.get("size_bytes")
    if size_bytes is not None:
        yield "input_bytes", "Bytes of segments that the audit covers.", [({}, size_bytes)]
    if inputs.get("quarantined_bytes") is not None:
        yield (
            "input_bytes_outside_batches",
            "Bytes of segments that are in no batch, by what they are.",
            [({"kind": "quarantined"}, inputs["quarantined_bytes"]), ({"kind": "padding"}, inputs["padding_bytes"])],
        )


def _finding_families(findings: Sequence[FindingRow]) -> Iterable[Family]:
    by_severity = Counter((row.severity, row.status) for row in findings)
    yield (
        "findings",
        "Findings by severity, and by status against the baseline.",
        [
            ({"severity": severity, "status": status}, by_severity[severity, status])
            for severity in SEVERITIES
            for status in _STATUSES
        ],
    )
    by_code = Counter((row.code, row.severity) for row in present(findings))
    known = [(code, severity) for code in CATALOGUE for severity in SEVERITIES if by_code[code, severity]]
    yield (
        "findings_by_code",
        "Findings that are there, by code and severity.",
        [({"code": code, "severity": severity}, by_code[code, severity]) for code, severity in known],
    )


def _partition_families(partitions: Sequence[PartitionRow]) -> Iterable[Family]:
    under = sum(bool(row.under_replicated) for row in partitions)
    yield "under_replicated_partitions", "Partitions with fewer replicas in sync than assigned.", [({}, under)]
    leaderless = sum(row.leader_id is None for row in partitions)
    yield "leaderless_partitions", "Partitions without a leader.", [({}, leaderless)]
    yield (
        "lost_records",
        "Records that the leaders do not have and other replicas do, each counted once.",
        [({}, sum(row.lost_records or 0 for row in partitions))],
    )
    yield (
        "lost_committed_records",
        "Those of them that were committed, as findings prove or call likely.",
        [({}, sum(row.lost_committed or 0 for row in partitions))],
    )
    unknown = sum(row.lost_records is None for row in partitions)
    yield "loss_unknown_partitions", "Partitions of which it is not known what is lost.", [({}, unknown)]
    yield (
        "dropped_records",
        "What followers will drop when they follow, added up over followers, control records included.",
        [({}, sum(row.dropped_records for row in partitions))],
    )
    lag = max((row.max_lag_records for row in partitions if row.max_lag_records is not None), default=0)
    yield "max_lag_records", "The most records that a replica is behind its leader.", [({}, lag)]


def _quality_families(quality: QualityObject) -> Iterable[Family]:
    yield "quality_expectations", "Expectations of the quality checks.", [({}, quality["expectations"])]
    yield (
        "quality_failed_expectations",
        "Expectations that are not met and not known, by severity.",
        [({"severity": severity}, quality["failed"][severity]) for severity in SEVERITIES],
    )
    yield "quality_errors", "Expectations that could not be looked at.", [({}, quality["errors"])]
