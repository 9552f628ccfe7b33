"""Findings that somebody accepted, with a reason and for a time (`--accept`): they do not count until that is over."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import Any

from replica_audit.auditing.findings.finding import Evidence
from replica_audit.auditing.findings.finding_rows import ReportedFinding
from replica_audit.errors import UsageError
from replica_audit.moments import now

#: Kind of the evidence that says who accepted a finding, and until when.
KIND = "accepted"

_KEYS = {"finding", "reason", "until"}
_ID = re.compile(r"[0-9a-f]{16}")


@dataclass(frozen=True, slots=True)
class Acceptance:
    """One entry of accept.yaml."""

    finding_id: str
    reason: str
    until: date
    """The last day on which the finding does not count."""


def parse_acceptances(content: Mapping[str, Any], path: str) -> tuple[Acceptance, ...]:
    """The entries of a file whose mapping is `accepted: [{finding, reason, until}, ...]`.

    Raises UsageError naming `path` and the entry: an unknown key, a malformed id or date, a missing reason, a finding
    that is there twice.
    """
    if set(content) - {"accepted"}:
        raise UsageError(f"{path}: expected accepted, found {', '.join(sorted(map(str, set(content) - {'accepted'})))}")
    entries = content.get("accepted") or []
    if not isinstance(entries, list):
        raise UsageError(f"{path}: accepted: expected a list of entries with finding, reason and until")
    found: dict[str, Acceptance] = {}
    for number, entry in enumerate(entries):
        where = f"{path}: accepted[{number}]"
        if not isinstance(entry, dict) or set(entry) != _KEYS:
            raise UsageError(f"{where}: expected finding, reason and until, found {_found(entry)}")
        finding_id, reason = str(entry["finding"]), entry["reason"]
        if not _ID.fullmatch(finding_id):
            raise UsageError(
                f"{where}: finding: expected an id of 16 hexadecimal digits in quotes, found {finding_id!r}"
            )
        if not isinstance(reason, str) or not reason.strip():
            raise UsageError(f"{where}: reason: expected a text, found {reason!r}")
        if finding_id in found:
            raise UsageError(f"{where}: finding {finding_id} is accepted twice")
        found[finding_id] = Acceptance(finding_id, " ".join(reason.split()), _date(entry["until"], where))
    return tuple(found.values())


def with_acceptances(
    findings: Sequence[Mapping[str, Any]], accepted: Sequence[Acceptance], today: date | None = None
) -> list[dict[str, Any]]:
    """`findings` with the status of those accepted: known as long as that lasts, new again afterwards, whatever a baseline says.

    Each has the reason among its evidence. Doing it again changes nothing.
    """
    today = today or date.fromisoformat(now()[:10])
    by_id = {one.finding_id: one for one in accepted}
    rows = []
    for row in findings:
        one = by_id.get(row["finding_id"])
        if one is None or row["status"] == "resolved":
            rows.append(dict(row))
            continue
        lasts = today <= one.until
        text = (
            f"accepted until {one.until}: {one.reason}"
            if lasts
            else f"was accepted until {one.until}, which is over: {one.reason}"
        )
        item = ReportedFinding.from_row(row)
        kept = [evidence for evidence in item.evidence if evidence.kind != KIND]
        evidence = (*kept, Evidence(KIND, text, value=str(one.until)))
        rows.append(replace(item, status="known" if lasts else "new", evidence=evidence).to_row())
    return rows


def unmatched(findings: Sequence[Mapping[str, Any]], accepted: Sequence[Acceptance]) -> list[Acceptance]:
    """Entries whose finding is not there: it may be gone, and the entry can be."""
    present = {row["finding_id"] for row in findings if row["status"] != "resolved"}
    return [one for one in accepted if one.finding_id not in present]


def _date(value: Any, where: str) -> date:
    if isinstance(value, datetime):
        value = value.date()
    if isinstance(value, date):
        return value
    try:
        return date.fromisoformat(str(value))
    except ValueError:
        raise UsageError(f"{where}: until: expected a date such as 2026-12-31, found {value!r}") from None


def _found(entry: Any) -> str:
    return ", ".join(sorted(map(str, entry))) if isinstance(entry, dict) else repr(entry)
