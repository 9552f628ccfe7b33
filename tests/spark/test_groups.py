"""Consumer groups in the main job: `run` tells what `show` tells."""

from __future__ import annotations

import json

from tests.auditing.test_group_positions import with_groups

from replica_audit.local.audit import audit_all


def test_run_tells_of_groups_what_show_tells(run_stages, tmp_path):
    later = 3_600_000_000_000
    groups = [
        ("audit", "ledger", 0, 70, 0, later),
        ("billing", "ledger", 0, 45, 0, later),
        ("sound", "ledger", 1, 5, 0, later),
    ]
    snapshot = with_groups("diverged-unclean", tmp_path / "s", *groups)
    audited = run_stages(snapshot)
    shown = audit_all(str(snapshot), audited.settings)
    for table in ("group_offsets", "lost_producers", "findings"):
        assert json.loads(json.dumps(audited.results.rows(table))) == json.loads(json.dumps(shown.tables[table])), table
    assert audited.results.rows("lost_producers")
    assert [row["effect"] for row in audited.results.rows("group_offsets")] == [
        "past_end",
        "epoch_differs",
        "unaffected",
    ]
