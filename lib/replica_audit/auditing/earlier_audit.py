"""An audit of before, as far as a report compares with it: its verdicts, and which findings it had."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from replica_audit.literals import VERDICTS
from replica_audit.model import Place
from replica_audit.parsing import parse_json


@dataclass(frozen=True, slots=True)
class Earlier:
    """The audit that this one is compared with: `finished` as ISO 8601, finding_ids of what was there by partition."""

    audit_id: str | None
    finished: str | None
    verdicts: Mapping[Place, str]
    finding_ids: Mapping[Place, frozenset[str]] = field(default_factory=dict)


def parse_earlier(text: str) -> Earlier:
    """The earlier audit in the text of its audit.json; rows without a name or a known verdict count as not audited.

    Raises ValueError when the text is not a JSON object. What only a comparison needs may be missing.
    """
    content = parse_json(text, "audit.json", "give the audit.json of an earlier run")
    if not isinstance(content, dict):
        raise ValueError("no JSON object")
    return build_earlier(content)


def build_earlier(content: Mapping) -> Earlier:
    """The earlier audit from what audit.json has: `audit`, and rows under `partitions` and `findings`."""
    audit = content.get("audit")
    audit = audit if isinstance(audit, dict) else {}
    verdicts = {
        place: row["verdict"] for place, row in _placed(content, "partitions") if row.get("verdict") in VERDICTS
    }
    found: dict[Place, set[str]] = defaultdict(set)
    for place, row in _placed(content, "findings"):
        if row.get("status") != "resolved" and isinstance(row.get("finding_id"), str):
            found[place].add(row["finding_id"])
    ids = {place: frozenset(of_place) for place, of_place in found.items()}
    audit_id, finished = (one if isinstance(one := audit.get(name), str) else None for name in ("audit_id", "finished"))
    return Earlier(audit_id, finished, verdicts, ids)


def _placed(content: Mapping, table: str) -> list[tuple[Place, Mapping]]:
    rows = content.get(table)
    return [
        ((row["topic"], row["partition"]), row)
        for row in (rows if isinstance(rows, list) else ())
        if isinstance(row, dict) and isinstance(row.get("topic"), str) and isinstance(row.get("partition"), int)
    ]
