"""The queries of docs/queries.md run as they are on a warehouse, each where its engine is installed."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest
from tests.support.in_process import run_stages
from tests.support.samples import SAMPLES

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "queries.md").read_text(encoding="utf-8")
QUERIES = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)

pytestmark = pytest.mark.usefixtures("engines")


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory) -> Path:
    """A directory as the reader's, with the audits of a snapshot with a loss and of a healthy one."""
    directory = tmp_path_factory.mktemp("queries")
    (directory / "data").symlink_to(ROOT / "data")
    for name in ("last-replica-standing", "last-replica-standing"):
        run_stages(SAMPLES / name, directory / "replica-audit-warehouse")
    return directory


def run(query: str, directory: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    """The names that a query leaves; skipped without its engine."""
    for engine in re.findall(r"^(?:import|from) (\w+)", query, re.MULTILINE):
        if importlib.util.find_spec(engine) is None:
            pytest.skip(f"no {engine} here: make engines")
    if "to_pandas" in query and importlib.util.find_spec("pandas") is None:
        pytest.skip("no pandas here")
    monkeypatch.chdir(directory)
    names: dict[str, object] = {}
    exec(compile(query, "docs/queries.md", "exec"), names)
    return names


def test_the_page_has_a_query_for_each_engine():
    assert [query.split()[1] for query in QUERIES] == ["duckdb", "duckdb", "polars", "deltalake", "replica_audit"]
    assert "](queries.md)" in (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")


def test_duckdb_has_the_latest_verdict_of_each_partition(warehouse, monkeypatch):
    found = run(QUERIES[0], warehouse, monkeypatch)["latest"].fetchall()
    assert found == [("orders", 0, "COMMITTED_LOSS", 7, 7)]


def test_duckdb_has_the_batches_that_hold_what_was_lost(warehouse, monkeypatch):
    found = run(QUERIES[1], warehouse, monkeypatch)["held"].fetchall()
    assert {row[:3] for row in found} == {("orders", 0, 2)}
    covered = {offset for row in found for offset in range(row[3], row[4] + 1)}
    assert covered >= set(range(93, 100))


def test_polars_counts_the_findings_of_one_audit(warehouse, monkeypatch):
    found = run(QUERIES[2], warehouse, monkeypatch)["by_code"]
    assert dict(zip(found["code"], found["findings"], strict=True)) == {
        "DIV-EPOCH": 1, "HWM-LOSS": 1, "REP-UNDER-REPLICATED": 1, "TRN-BELOW-HW": 1,
    }  # fmt: skip


def test_pandas_follows_the_verdicts_over_time(warehouse, monkeypatch):
    found = run(QUERIES[3], warehouse, monkeypatch)["moves"]
    assert found["COMMITTED_LOSS"].tolist() == [1, 1]


def test_answers_are_tables_without_a_warehouse(warehouse, monkeypatch, capsys):
    run(QUERIES[4], warehouse, monkeypatch)
    assert capsys.readouterr().out == "['HWM-LOSS', 'TRN-BELOW-HW'] 2\n"


@pytest.mark.parametrize("engine", ["polars", "pandas"])
def test_tables_of_answers_become_frames(engine):
    pytest.importorskip(engine)
    import replica_audit

    table = replica_audit.show(str(SAMPLES / "last-replica-standing"))["replicas"]
    frame = getattr(table, f"to_{engine}")()
    assert list(frame["broker_id"]) == [1, 2] and len(frame.columns) == len(table.columns)
