"""The catalogue of finding codes (F.2 to F.7), and the order of severities and verdicts (F.8)."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from functools import cache

from replica_audit.auditing.finding import TRAITS, Code
from replica_audit.auditing.findings import MODULES
from replica_audit.literals import SEVERITIES, VERDICTS, Verdict
from replica_audit.schema import FindingRow

__all__ = [
    "CATALOGUE",
    "FAMILIES",
    "SEVERITIES",
    "VERDICTS",
    "VERDICT_MEANINGS",
    "Code",
    "at_or_above",
    "audit_verdict",
    "codes_beginning",
    "codes_of_verdict",
    "codes_with",
    "nearest_codes",
    "worst_severity",
    "worst_verdict",
]

#: Every code that a finding can have, by its name.
CATALOGUE: dict[str, Code] = {code.code: code for module in MODULES for code in module.CODES}

#: Prefixes of codes; what each family is about is in its file (`code_texts`).
FAMILIES = tuple(dict.fromkeys(code.family for code in CATALOGUE.values()))

#: Meaning of each verdict on a partition.
VERDICT_MEANINGS = {
    "COMMITTED_LOSS": "Records that were committed are gone from the leader's log.",
    "COMMITTED_DIVERGENCE": "Replicas differ, and no protocol will repair it.",
    "LATENT_CORRUPTION": "A replica's own files are damaged or contradict each other.",
    "WILL_LOSE_ON_TRUNCATION": "The next truncation or election may lose committed or acknowledged records.",
    "INCONCLUSIVE": "Something that had to be read could not be, what was read has two explanations, or a replica that the "
    "answer depends on was not captured.",
    "UNCOMMITTED_DIVERGENCE": "Replicas differ in records that were not proven committed; the next truncation settles it.",
    "LAGGING": "Replicas are equal as far as they go, but some are shorter or not in sync.",
    "CONSISTENT": "The captured replicas agree; how many were compared is said where not all were.",
}


def worst_verdict(verdicts: Iterable[str]) -> Verdict:
    """The worst of `verdicts` in the order of `VERDICTS`; CONSISTENT when there is none.

    Raises ValueError for an unknown name.
    """
    return VERDICTS[min((VERDICTS.index(verdict) for verdict in verdicts), default=len(VERDICTS) - 1)]


def unplaced_codes(findings: Iterable[FindingRow]) -> set[str]:
    """Codes of present findings that belong to no partition."""
    return {row.code for row in findings if row.topic is None and row.status != "resolved"}


def audit_verdict(partition_verdicts: Iterable[str], unplaced: Iterable[str]) -> Verdict:
    """The verdict of a whole audit: the worst of its partitions', and of what the `unplaced_codes` ask for.

    An audit of no partition is INCONCLUSIVE.
    """
    verdicts = list(partition_verdicts)
    if not verdicts:
        return "INCONCLUSIVE"
    # A warehouse may have codes of another version.
    asked = (CATALOGUE[code].verdicts[:1] for code in unplaced if code in CATALOGUE)
    return worst_verdict([*verdicts, *(verdict for of_code in asked for verdict in of_code)])


def worst_severity(severities: Iterable[str]) -> str | None:
    """The worst of `severities` in the order of `SEVERITIES`; None when there is none."""
    positions = [SEVERITIES.index(severity) for severity in severities]
    return SEVERITIES[min(positions)] if positions else None


def at_or_above(severity: str, level: str) -> bool:
    """True if `severity` is as bad as `level` or worse; nothing is at or above the level `never`."""
    return level != "never" and SEVERITIES.index(severity) <= SEVERITIES.index(level)


def codes_beginning(prefix: str) -> list[Code]:
    """The codes of a family, or of part of one: those that are `prefix` or go on with a dash after it."""
    return [code for name, code in CATALOGUE.items() if f"{name}-".startswith(f"{prefix.rstrip('-')}-")]


def codes_of_verdict(verdict: str) -> list[Code]:
    """The codes that can bring `verdict` on their partition."""
    return [code for code in CATALOGUE.values() if verdict in code.verdicts]


@cache
def codes_with(trait: str) -> frozenset[str]:
    """Names of the codes that have a trait of `TRAITS`; KeyError for another word."""
    TRAITS[trait]
    return frozenset(name for name, code in CATALOGUE.items() if trait in code.traits)


def nearest_codes(name: str, count: int = 3) -> list[str]:
    """Known codes that `name` may have been meant for, nearest first."""
    wanted = name.strip().upper().replace("_", "-")
    near = difflib.get_close_matches(wanted, CATALOGUE, n=count, cutoff=0.5)
    containing = [code for code in CATALOGUE if wanted and wanted in code and code not in near]
    return (near + containing)[:count]
