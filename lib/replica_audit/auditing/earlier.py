"""An audit of before, as far as a report compares with it: its verdicts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from replica_audit.auditing.codes import VERDICTS


@dataclass(frozen=True, slots=True)
class Earlier:
    """The audit that this one is compared with: `verdicts` by (topic, partition), `finished` as ISO 8601."""

    audit_id: str | None
    finished: str | None
    verdicts: Mapping[tuple[str, int], str]


def parse_earlier(text: str) -> Earlier:
    """The earlier audit in the text of its audit.json; rows without a name or a known verdict count as not audited.

    The text has been accepted by `parse_baseline` before; what only a comparison of verdicts needs may be missing.
    """
    content = json.loads(text)
    audit = content.get("audit")
    audit = audit if isinstance(audit, dict) else {}
    rows = [row for row in content.get("partitions") or () if isinstance(row, dict)]
    verdicts = {
        (row["topic"], row["partition"]): row["verdict"]
        for row in rows
        if isinstance(row.get("topic"), str)
        and isinstance(row.get("partition"), int)
        and row.get("verdict") in VERDICTS
    }
    return Earlier(audit.get("audit_id"), audit.get("finished"), verdicts)
