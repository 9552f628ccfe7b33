"""The copies of the metadata log on the page: lanes with epochs and where they part, and the same as a table."""

from __future__ import annotations

from pathlib import Path

from tests.support.controllers import APPLIED, BEGIN, LATE, VOTERS, elected, moved
from tests.support.metadata_log import TIME_MS, MetadataLog
from tests.support.samples import SAMPLES
from tests.support.snapshots import write_snapshot

from replica_audit.config import Settings
from replica_audit.report.facts.verdict import build_verdict
from replica_audit.report.page.document import render_page
from replica_audit.report.page.metadata_lanes import metadata_lanes
from replica_audit.results import Results
from replica_audit.runner.in_process import audit_all


def page_of(results: Results) -> str:
    return render_page(results, build_verdict(results, "high"))


def test_a_fork_shows_where_it_parts_and_why_it_is_refused(tmp_path: Path) -> None:
    seeded = BEGIN + moved(3) + elected(4, 102, 2, TIME_MS + 86_400_000)
    logs = {100: BEGIN + LATE, 101: seeded, 102: seeded, 1: BEGIN + LATE}
    metadata = {node: MetadataLog({0: one}, voters=VOTERS, leader_epoch=1) for node, one in logs.items()}
    results = audit_all(str(write_snapshot(tmp_path, {1: APPLIED}, metadata=metadata, clean=(1,))), Settings())
    found = metadata_lanes(results)
    assert found is not None and [lane.name for lane in found.lanes] == [
        "voter 100",
        "voter 101",
        "voter 102",
        "★ node 1",
    ]
    assert [lane.parts_at for lane in found.lanes] == [None, 3, 3, None]
    assert [[one.number for one in lane.stretches] for lane in found.lanes[:2]] == [[1], [1, 2]]
    assert found.rows[1] == ("voter 101", "[0, 5)", "cannot be the right one", "1", "3", "-", "1", "-")
    assert "voter 101: it does not know topic late" in found.reasons[0]
    page = page_of(results)
    assert page.count('<text class="name"') == 4 and "parts at offset 3" in page and "★ node 1" in page


def test_a_sound_cluster_has_no_such_section() -> None:
    results = audit_all(str(SAMPLES / "unclean-election"), Settings())
    assert metadata_lanes(results) is None and "metadata-logs" not in page_of(results)
