"""audit.json in one text, for tests that look into it."""

from __future__ import annotations

from replica_audit.report.audit_json import render_audit_json
from replica_audit.results import Results


def audit_json_text(results: Results) -> str:
    return "".join(render_audit_json(results))
