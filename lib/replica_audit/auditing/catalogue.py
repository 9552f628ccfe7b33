"""The catalogue of finding codes, and the order of severities and verdicts."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from replica_audit.auditing.codes import (
    SEVERITIES,
    VERDICTS,
    Code,
    capture,
    divergence,
    integrity,
    lineage,
    truncation,
    watermark,
)

__all__ = [
    "CATALOGUE",
    "SEVERITIES",
    "VERDICTS",
    "Code",
    "at_or_above",
    "nearest_codes",
    "worst_severity",
    "worst_verdict",
]

_FAMILIES = (integrity, lineage, divergence, watermark, truncation, capture)

#: Every code that a finding can have, by its name.
CATALOGUE: dict[str, Code] = {code.code: code for family in _FAMILIES for code in family.CODES}


def worst_verdict(verdicts: Iterable[str]) -> str:
    """The worst of `verdicts` in the order of `VERDICTS`; CONSISTENT when there is none.

    Raises ValueError for a name that is no verdict.
    """
    return VERDICTS[min((VERDICTS.index(verdict) for verdict in verdicts), default=len(VERDICTS) - 1)]


def worst_severity(severities: Iterable[str]) -> str | None:
    """The worst of `severities` in the order of `SEVERITIES`; None when there is none."""
    positions = [SEVERITIES.index(severity) for severity in severities]
    return SEVERITIES[min(positions)] if positions else None


def at_or_above(severity: str, level: str) -> bool:
    """Whether `severity` is as bad as `level` or worse; nothing is at or above the level `never`."""
    return level != "never" and SEVERITIES.index(severity) <= SEVERITIES.index(level)


def nearest_codes(name: str, count: int = 3) -> list[str]:
    """Known codes that `name` may have been meant for, nearest first."""
    wanted = name.strip().upper().replace("_", "-")
    near = difflib.get_close_matches(wanted, CATALOGUE, n=count, cutoff=0.5)
    containing = [code for code in CATALOGUE if wanted and wanted in code and code not in near]
    return (near + containing)[:count]
