"""The page of 10,000 partitions weighs less than 5 MB, also where every one of them is bad."""

from __future__ import annotations

import pytest
from tests.support.large_audit import BAD, CALM, audit_models, large_results

from replica_audit.report.facts.verdict import build_verdict
from replica_audit.report.page.document import render_page


@pytest.mark.slow
def test_where_every_partition_is_bad_the_page_still_opens_at_once() -> None:
    results = large_results(10_000, audit_models(BAD), audit_models(CALM), 1.0)
    assert {row.verdict for row in results.partitions}.isdisjoint({"CONSISTENT"})
    page = render_page(results, build_verdict(results, "high"))
    assert len(page.encode()) < 5_000_000
    assert "of 10000 partitions" in page
