"""An audit from Python: in the caller's session, its tables as DataFrames, its answers those of the command."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

import pytest
from tests.support.in_process import run_in_process
from tests.support.samples import SAMPLES

import replica_audit
from replica_audit.errors import UsageError

ROOT = Path(__file__).parents[2]
SAMPLE = str(SAMPLES / "last-replica-standing")


def test_quality_needs_a_place_for_its_pages_and_a_warehouse_lies_outside_the_snapshot(tmp_path):
    with pytest.raises(UsageError, match="quality needs report"):
        replica_audit.audit(None, SAMPLE, quality=True)
    with pytest.raises(UsageError, match="lies inside the snapshot"):
        replica_audit.audit(None, SAMPLE, warehouse=f"{SAMPLE}/warehouse")


def test_an_audit_gives_dataframes_of_its_own_rows_and_leaves_the_session_alone(spark, tmp_path):
    place = {"warehouse": str(tmp_path / "a [{wh*se}]?")}
    first = replica_audit.audit(spark, SAMPLE, **place)
    second = replica_audit.audit(spark, SAMPLE, report=str(tmp_path / "report"), fail_on="never", **place)
    assert first.audit_id != second.audit_id and first.verdict == second.verdict
    told = json.loads((tmp_path / "report" / "audit.json").read_text())
    for table in ("partitions", "findings", "replicas", "divergences", "truncations", "high_watermarks", "quarantine"):
        frame = getattr(second, table)
        names = [name for name in told[table][0]] if told[table] else []
        found = [row.asDict(True) for row in frame.select(*names).collect()] if names else []
        assert frame.count() == len(told[table]), table
        if names and "finding_id" in names:
            assert {row["finding_id"] for row in found} == {row["finding_id"] for row in told[table]}
        if table != "quarantine":
            assert {row["audit_id"] for row in frame.select("audit_id").collect()} <= {second.audit_id}
    segments = second.table("segments").agg({"batch_count": "sum"}).first()[0]
    assert second.batches.count() == segments > 0
    assert second.exit_status == 0 and first.exit_status == 1
    assert spark.range(3).count() == 3
    with pytest.raises(KeyError):
        second.table("no_such_table")


def test_audits_are_kept_and_their_report_is_published_as_arguments_and_the_file_say(tmp_path, monkeypatch):
    run_in_process(monkeypatch)
    monkeypatch.setattr("replica_audit.spark.callers_session.use_own_python", lambda _: None)
    place = {"warehouse": str(tmp_path / "warehouse"), "config": str(tmp_path / "audit.yaml")}
    (tmp_path / "audit.yaml").write_text("keep_audits: 2\nreport_url: https://reports.example/\n")
    for kept in ({}, {}, {}, {"keep_days": 1}):
        last = replica_audit.audit(None, SAMPLE, report=str(tmp_path / "report"), **place, **kept)
    found = [row.audit_id for row in replica_audit.history(place["warehouse"]).past.audits]
    assert len(found) == 2 and last.audit_id in found
    assert "https://reports.example/" in (tmp_path / "report" / "metrics.prom").read_text()


def test_the_examples_of_the_reference_run_as_they_are(spark, tmp_path, monkeypatch, capsys):
    (tmp_path / "data").symlink_to(ROOT / "data")
    monkeypatch.chdir(tmp_path)
    examples = re.findall(
        r"^```python\n(.*?)^```$", (ROOT / "docs" / "reference.md").read_text(), re.MULTILINE | re.DOTALL
    )
    assert len(examples) == 3
    names = {"spark": spark}
    for example in examples:
        exec(example, names)
    printed = capsys.readouterr().out
    lost = names["audit"].rows("divergences")
    assert "HWM-LOSS  Committed records" in printed and "2 ['copy', " in printed
    assert "|broker_id|base_offset|" in printed and f"{lost[0]['start_offset']}" in printed
    assert (tmp_path / "report" / "index.html").is_file()


def test_the_notebook_runs_from_top_to_bottom(spark, tmp_path, monkeypatch, capsys):
    """Its cells one after the other, the value of a last expression shown as a notebook shows it."""
    (tmp_path / "data").symlink_to(ROOT / "data")
    monkeypatch.chdir(tmp_path)
    cells = json.loads((ROOT / "docs" / "notebook.ipynb").read_text())["cells"]
    assert not any(cell.get("outputs") for cell in cells), "stored outputs would go stale"
    names: dict[str, object] = {}
    shown = []
    for cell in cells:
        if cell["cell_type"] != "code":
            continue
        tree = ast.parse("".join(cell["source"]))
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, "notebook", "exec"), names)
        if last is not None:
            shown.append(eval(compile(ast.Expression(last.value), "notebook", "eval"), names))
    audit = names["audit"]
    assert audit.verdict == "COMMITTED_LOSS" and shown[0] is audit and "Do first" in audit._repr_html_()
    printed = capsys.readouterr().out
    assert "HWM-LOSS  Committed records" in printed and "Elect broker 2. Broker 2 loses nothing" in printed
    assert {row.candidate_id for row in names["plan"]["elections"]} == {1, 2}
    found = names["found"].collect()
    (lost,) = (row for row in audit.rows("divergences") if row["lost_records"])
    covered = {offset for row in found for offset in range(row.base_offset, row.last_offset + 1)}
    assert covered >= set(range(lost["start_offset"], lost["end_offset"])) and "written" in printed
    assert (tmp_path / "replica-audit-report" / "index.html").is_file()
