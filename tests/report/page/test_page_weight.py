"""The page of 10,000 partitions weighs less than 5 MB, also where every one of them is bad."""

from __future__ import annotations

import pytest
from tests.support.large_audit import BAD, CALM, audit_models, large_results

from replica_audit.auditing import detailed_partitions
from replica_audit.report.facts.verdict import build_verdict
from replica_audit.report.page.document import PAGE_BYTES, render_page


@pytest.mark.slow
def test_where_every_partition_is_bad_little_remains_when_details_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """`render_page` leaves out details until the page weighs less than `PAGE_BYTES`: what it cannot leave out must."""
    monkeypatch.setattr(detailed_partitions, "WHOLE", 0)
    monkeypatch.setattr(detailed_partitions, "DETAILED", 0)
    results = large_results(10_000, audit_models(BAD), audit_models(CALM), 1.0)
    assert {row.verdict for row in results.partitions}.isdisjoint({"CONSISTENT"})
    page = render_page(results, build_verdict(results, "high"))
    assert len(page.encode()) < PAGE_BYTES // 10
    assert "of 10000 partitions" in page
