"""The audit that a run is compared with, where `--baseline` names one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from replica_audit.auditing.audits.baseline import (
    compare_findings,
    compare_quality,
    parse_baseline,
    parse_quality_baseline,
)
from replica_audit.auditing.audits.earlier_audit import Earlier, parse_earlier
from replica_audit.config import Settings
from replica_audit.errors import UsageError
from replica_audit.places import local_path
from replica_audit.results import Results


@dataclass(frozen=True, slots=True)
class Baseline:
    """What is known of an earlier audit; `findings` None: there is none to compare with."""

    findings: list[dict[str, Any]] | None = None
    quality: tuple[Mapping[str, Any], ...] = ()
    earlier: Earlier | None = None

    def compare(self, results: Results) -> Results:
        """`results` with the status of findings and of failed expectations: new, known or resolved."""
        if self.findings is None:
            return results
        audited = {(row["topic"], row["partition"]) for row in results.rows("partitions")}
        findings = compare_findings(results.rows("findings"), self.findings, audited)
        quality = compare_quality(results.rows("quality"), self.quality)
        return replace(results, tables={**results.tables, "findings": findings, "quality": quality})


def read_baseline(settings: Settings) -> Baseline:
    """The baseline of `settings`; read before anything else is started, as it may be no audit.json."""
    if settings.baseline is None:
        return Baseline()
    path = local_path(settings.baseline) or settings.baseline
    try:
        with open(path, encoding="utf-8") as stream:
            text = stream.read()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"baseline {settings.baseline}: {error}") from error
    findings = parse_baseline(text, settings.baseline)
    return Baseline(findings, tuple(parse_quality_baseline(text)), parse_earlier(text))
