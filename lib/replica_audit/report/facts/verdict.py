"""Content of verdict.json and answer of `quality`: status, exit status and counts, for a scheduler."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from replica_audit.auditing.catalogue import at_or_above, audit_verdict, codes_with, unplaced_codes, worst_verdict
from replica_audit.literals import SEVERITIES, VERDICTS
from replica_audit.quality.quality_facts import FINDINGS_SUITE
from replica_audit.report.facts.conditions import whole_audit
from replica_audit.report.verdict_object import SCHEMA_VERSION, QualityAnswer, QualityObject, RunStatus, VerdictObject
from replica_audit.results import Results, place_of, present
from replica_audit.schema import QualityRow
from replica_audit.text import count


def build_verdict(results: Results, fail_on: str) -> VerdictObject:
    """Build the content of verdict.json for `results`."""
    findings = results.findings
    counts = Counter(row.severity for row in findings if row.status == "new")
    partitions = Counter(row.verdict for row in results.partitions)
    untrusted = _untrusted(results)
    quality = count_quality(results)
    failed = [severity for severity, number in quality["failed"].items() if number] if quality else []
    exit_status, status = judge_run((*counts, *failed), fail_on, is_untrusted=bool(untrusted))
    return {
        "schema_version": SCHEMA_VERSION,
        "audit_id": results.audit["audit_id"],
        # Results restricted to some partitions keep the audit's verdict.
        "verdict": worst_verdict([audit_verdict(partitions, unplaced_codes(findings)), results.audit["verdict"]]),
        "status": status,
        "exit_status": exit_status,
        "fail_on": fail_on,
        "findings": {severity: counts[severity] for severity in SEVERITIES},
        "partitions": {verdict: partitions[verdict] for verdict in VERDICTS},
        "known_findings": sum(row.status == "known" for row in findings),
        "resolved_findings": sum(row.status == "resolved" for row in findings),
        "quality": quality,
        "unchecked_batches": sum(one.batches for one in whole_audit(results).conditions.unchecked),
        "untrusted": untrusted,
        "table_versions": results.audit.get("table_versions"),
    }


def is_undecided(verdict: str) -> bool:
    """True for the verdict of a partition that could not be judged."""
    return verdict == "INCONCLUSIVE"


def _untrusted(results: Results) -> str | None:
    partitions = results.partitions
    if not partitions:
        return "no log directory or partition found"
    undecided = {place_of(row) for row in partitions if is_undecided(row.verdict)}
    needed = {place_of(row) for row in results.captures if row.needed is not None}
    unreadable = sum(row.code in codes_with("unreadable") for row in present(results.findings))
    # A directory without a partition has no finding, only its row in `quarantine`.
    unreadable = unreadable or sum(row.code in codes_with("unreadable") for row in results.quarantine)
    reasons = []
    if undecided:
        reasons.append(f"{count(len(undecided), 'partition')} inconclusive")
    if lacking := len(needed - undecided):
        reasons.append(f"{count(lacking, 'more partition')} without a replica that is needed")
    if unreadable:
        reasons.append(f"{count(unreadable, 'input')} unreadable")
    if quality := sum(row.error is not None for row in results.quality):
        reasons.append(f"{count(quality, 'quality expectation')} not looked at")
    return ", ".join(reasons) or None


def count_quality(results: Results) -> QualityObject | None:
    """Build the member `quality` of verdict.json; None if quality was not checked. A failure that a baseline knows counts as
    known only."""
    rows = results.quality
    if not rows:
        return None
    failed = Counter(row.severity for row in rows if _failed(row))
    return {
        "expectations": len(rows),
        "failed": {severity: failed[severity] for severity in SEVERITIES},
        "beside_findings": sum(_failed(row) and row.suite != FINDINGS_SUITE for row in rows),
        "known": sum(row.status == "known" for row in rows),
        "errors": sum(row.error is not None for row in rows),
    }


def build_quality(results: Results, fail_on: str) -> QualityAnswer:
    """Build the answer of `replica-audit quality`. Raises ValueError if quality was not checked."""
    counts = count_quality(results)
    if counts is None:
        raise ValueError("results without rows of quality")
    severities = [severity for severity, count in counts["failed"].items() if count]
    exit_status, status = judge_run(severities, fail_on, is_untrusted=bool(counts["errors"]))
    return {
        "schema_version": 1,
        "audit_id": results.audit["audit_id"],
        "status": status,
        "exit_status": exit_status,
        "fail_on": fail_on,
        **counts,
    }


def judge_run(severities: Collection[str], fail_on: str, *, is_untrusted: bool) -> tuple[int, RunStatus]:
    """Determine exit status and status word; `severities` are those of the new findings and failures."""
    if any(at_or_above(severity, fail_on) for severity in severities):
        return 1, "CRITICAL"
    if is_untrusted:
        return 3, "UNKNOWN"
    return 0, "WARNING" if any(at_or_above(severity, "medium") for severity in severities) else "OK"


def _failed(row: QualityRow) -> bool:
    return row.status == "new"
