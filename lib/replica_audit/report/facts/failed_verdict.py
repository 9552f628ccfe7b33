"""The object of verdict.json for a run that has no answers; what answers need is not imported for it."""

from __future__ import annotations

from typing import Any

from replica_audit.literals import SEVERITIES, VERDICTS

#: Of verdict.json, with answers or without.
SCHEMA_VERSION = 1


def build_failure(exit_status: int, fail_on: str, reason: str) -> dict[str, Any]:
    """The object of verdict.json for a run that ended in an error and has no answers."""
    return {
        "schema_version": SCHEMA_VERSION,
        "audit_id": None,
        "verdict": "INCONCLUSIVE",
        "status": "UNKNOWN",
        "exit_status": exit_status,
        "fail_on": fail_on,
        "findings": dict.fromkeys(SEVERITIES, 0),
        "partitions": dict.fromkeys(VERDICTS, 0),
        "known_findings": 0,
        "resolved_findings": 0,
        "quality": None,
        "untrusted": reason,
        "table_versions": None,
    }
