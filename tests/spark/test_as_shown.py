"""Snapshots that lack something, or have more than replicas: every table of `run` has the rows of `show`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.fixtures import FIXTURES
from tests.support.less import without

from replica_audit.runner.in_process import audit_all
from replica_audit.schema import REPORT_TABLES


def _capture(name: str) -> Callable[[Path], Path]:
    return lambda path: FIXTURES / name


#: By what is in them besides replicas that were captured whole.
SNAPSHOTS: dict[str, Callable[[Path], Path]] = {
    "copies put aside": _capture("corrupted-odd-dirs"),
    "a copy on its way to another disk": _capture("jbod-moving"),
    "files that are about to be deleted": _capture("kafka-3.9-diverged-healed"),
    "remote storage": _capture("tiered-2-follower"),
    "an uncommitted end of the metadata log": _capture("quorum3-3-uncommitted"),
    "a broker that is not captured": lambda path: without(FIXTURES / "diverged-unclean", path / "part", brokers=[0]),
}


def in_order(rows: list[dict]) -> list[str]:
    return sorted(json.dumps(row, sort_keys=True) for row in rows)


@pytest.mark.parametrize("what", SNAPSHOTS)
def test_run_says_what_show_says(run_stages, tmp_path: Path, what: str) -> None:
    snapshot = SNAPSHOTS[what](tmp_path)
    audited = run_stages(snapshot, warehouse=str(tmp_path / "warehouse"))
    shown = audit_all(str(snapshot), audited.settings)
    assert shown.rows("captures")
    for table in REPORT_TABLES:
        # The suites' checks run over the tables, and show has none.
        if table not in ("quality", "audits"):
            assert in_order(audited.results.rows(table)) == in_order(shown.rows(table)), table
