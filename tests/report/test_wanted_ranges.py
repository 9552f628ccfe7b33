"""Bytes that evidence lacks: the report says so and has the list."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.collected import bring_wanted, collect_snapshot
from tests.support.encoder import encode_batch
from tests.support.in_process import run_stages
from tests.support.snapshots import Replica, write_pair

from replica_audit import show
from replica_audit.cli.main import main
from replica_audit.report.report_files import write_report


def _torn(place: Path) -> Path:
    sound = Replica([encode_batch(0, 3, 0), encode_batch(3, 3, 0)])
    torn = Replica([encode_batch(0, 3, 0)], tail=b"\x07" * 50)
    return write_pair(place, sound, torn)


def test_the_report_of_a_run_has_the_list_until_it_was_brought(tmp_path: Path) -> None:
    snapshot, report = _torn(tmp_path / "snapshot"), tmp_path / "report"
    evidence = collect_snapshot(snapshot, tmp_path / "evidence")
    write_report(run_stages(evidence, tmp_path / "warehouse").results, str(report), "high")
    main(["show", str(evidence), "-q", "--wanted", str(tmp_path / "wanted.json")])
    assert (report / "wanted.json").read_text() == (tmp_path / "wanted.json").read_text()
    assert json.loads((report / "wanted.json").read_text())["bytes"] == 50
    said = "Bytes of broker 2 that were not collected are needed for "
    for name in ("summary.md", "index.html"):
        assert said in (report / name).read_text(encoding="utf-8"), name
    assert bring_wanted(snapshot, evidence, 1) == 50
    write_report(run_stages(evidence, tmp_path / "warehouse").results, str(report), "high")
    assert not (report / "wanted.json").exists() and "not collected" not in (report / "summary.md").read_text()


def test_a_report_of_a_snapshot_that_is_gone_has_no_list(tmp_path: Path) -> None:
    evidence = collect_snapshot(_torn(tmp_path / "snapshot"), tmp_path / "evidence")
    answers = show(str(evidence))
    evidence.rename(tmp_path / "elsewhere")
    answers.report(str(tmp_path / "report"))
    assert not (tmp_path / "report" / "wanted.json").exists()
    assert "that were not collected are needed" in (tmp_path / "report" / "summary.md").read_text()
