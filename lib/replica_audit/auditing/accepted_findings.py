"""Findings that a person accepted, each with a reason and until a date (`--accept`)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime
from typing import NamedTuple

from replica_audit.config import Settings
from replica_audit.errors import UsageError
from replica_audit.paths import local_path
from replica_audit.schema import Evidence, FindingRow
from replica_audit.text import now

#: Kind of evidence with the reason and end of an acceptance.
KIND = "accepted"
_KEYS = {"finding", "reason", "until"}
_ID = re.compile(r"[0-9a-f]{16}")


class Acceptance(NamedTuple):
    """An entry of accept.yaml."""

    finding_id: str
    reason: str
    until: date
    """Last day on which the finding does not count."""


def read_accepted(settings: Settings) -> tuple[Acceptance, ...]:
    """Read the entries of `settings.accept`; empty without it."""
    if settings.accept is None:
        return ()
    from replica_audit.yaml_file import parse_yaml_mapping  # PyYAML is loaded only if a file is given

    path = local_path(settings.accept) or settings.accept
    return parse_acceptances(parse_yaml_mapping(path, "--accept"), settings.accept)


def parse_acceptances(content: Mapping[str, object], path: str) -> tuple[Acceptance, ...]:
    """Parse entries of the form `accepted: [{finding, reason, until}, ...]`.

    Raises UsageError, which names `path` and the entry, for a missing or unknown key, a malformed id or date, a missing reason,
    or a duplicate finding.
    """
    if set(content) != {"accepted"}:
        others = ", ".join(sorted(map(str, set(content) - {"accepted"})))
        none = "" if content else "; to accept none, write accepted: []"
        raise UsageError(f"{path}: expected accepted, found {others or 'nothing'}{none}")
    entries = content.get("accepted") or []
    if not isinstance(entries, list):
        raise UsageError(f"{path}: accepted: expected a list of entries with finding, reason and until")
    found: dict[str, Acceptance] = {}
    for number, entry in enumerate(entries):
        where = f"{path}: accepted[{number}]"
        if not isinstance(entry, dict) or set(entry) != _KEYS:
            raise UsageError(f"{where}: expected finding, reason and until, found {_found(entry)}")
        finding_id = str(entry["finding"])
        reason = entry["reason"]
        if not _ID.fullmatch(finding_id):
            expected = "an id of 16 hexadecimal digits in quotes"
            raise UsageError(f"{where}: finding: expected {expected}, found {finding_id!r}")
        if not isinstance(reason, str) or not reason.strip():
            raise UsageError(f"{where}: reason: expected a text, found {reason!r}")
        if finding_id in found:
            raise UsageError(f"{where}: finding {finding_id} is accepted twice")
        found[finding_id] = Acceptance(finding_id, " ".join(reason.split()), _date(entry["until"], where))
    return tuple(found.values())


def _date(value: object, where: str) -> date:
    if isinstance(value, datetime):
        value = value.date()
    if isinstance(value, date):
        return value
    try:
        return date.fromisoformat(str(value))
    except ValueError:
        raise UsageError(f"{where}: until: expected a date such as 2026-12-31, found {value!r}") from None


def _found(entry: object) -> str:
    return ", ".join(sorted(map(str, entry))) if isinstance(entry, dict) else repr(entry)


def with_acceptances(
    findings: Iterable[FindingRow], accepted: Sequence[Acceptance], today: date | None = None
) -> list[FindingRow]:
    """Set the status of accepted findings: known until the acceptance ends, new afterwards, independent of a baseline.

    The reason is added to the evidence. Idempotent.
    """
    today = today or date.fromisoformat(now()[:10])
    by_id = {one.finding_id: one for one in accepted}
    rows = []
    for row in findings:
        one = by_id.get(row.finding_id)
        if one is None or row.status == "resolved":
            rows.append(row)
            continue
        lasts = today <= one.until
        said = f"accepted until {one.until}" if lasts else f"was accepted until {one.until}, which is over"
        text = f"{said}: {one.reason}"
        kept = [evidence for evidence in row.evidence or () if evidence.kind != KIND]
        evidence = (*kept, Evidence(KIND, text=text, value=str(one.until)))
        rows.append(row._replace(status="known" if lasts else "new", evidence=evidence))
    return rows
