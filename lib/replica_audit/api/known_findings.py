"""The audit that a run is compared with, where `--baseline` names one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from replica_audit.auditing.audits.acceptance import Acceptance, parse_acceptances, unmatched, with_acceptances
from replica_audit.auditing.audits.baseline import (
    compare_findings,
    compare_quality,
    parse_baseline,
    parse_quality_baseline,
)
from replica_audit.auditing.audits.earlier_audit import Earlier, parse_earlier
from replica_audit.auditing.findings.finding_rows import ReportedFinding
from replica_audit.config import Settings
from replica_audit.errors import UsageError
from replica_audit.places import local_path
from replica_audit.results import Results


@dataclass(frozen=True, slots=True)
class Baseline:
    """What is known of an earlier audit; `findings` None: there is none to compare with."""

    findings: list[ReportedFinding] | None = None
    quality: tuple[Mapping[str, Any], ...] = ()
    earlier: Earlier | None = None
    accepted: tuple[Acceptance, ...] = ()

    def compare(self, results: Results) -> Results:
        """`results` with the status of findings and of failed expectations: new, known or resolved."""
        compared = self._compare(results)
        if not self.accepted:
            return compared
        findings = with_acceptances(compared.rows("findings"), self.accepted)
        return replace(compared, tables={**compared.tables, "findings": findings})

    def unused(self, results: Results) -> list[str]:
        """Ids of accepted findings that are not there: they are gone, and their entries can be."""
        return [one.finding_id for one in unmatched(results.rows("findings"), self.accepted)]

    def _compare(self, results: Results) -> Results:
        if self.findings is None:
            return results
        audited = {(row["topic"], row["partition"]) for row in results.rows("partitions")}
        findings = compare_findings(results.rows("findings"), self.findings, audited)
        quality = compare_quality(results.rows("quality"), self.quality)
        return replace(results, tables={**results.tables, "findings": findings, "quality": quality})


def read_baseline(settings: Settings) -> Baseline:
    """The baseline of `settings`; read before anything else is started, as it may not be an audit.json."""
    accepted = _read_accepted(settings)
    if settings.baseline is None:
        return Baseline(accepted=accepted)
    path = local_path(settings.baseline) or settings.baseline
    try:
        with open(path, encoding="utf-8") as stream:
            text = stream.read()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"baseline {settings.baseline}: {error}") from error
    findings = parse_baseline(text, settings.baseline)
    return Baseline(findings, tuple(parse_quality_baseline(text)), parse_earlier(text), accepted)


def _read_accepted(settings: Settings) -> tuple[Acceptance, ...]:
    """The entries of `settings.accept`; none without it."""
    if settings.accept is None:
        return ()
    from replica_audit.yaml_file import parse_yaml_mapping  # PyYAML only where a file is given

    path = local_path(settings.accept) or settings.accept
    return parse_acceptances(parse_yaml_mapping(path, "--accept"), settings.accept)
