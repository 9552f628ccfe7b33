"""Rows are read by attributes: whoever subscripts by a column's name handles JSON, Arrow or numpy, and is listed."""

from __future__ import annotations

import ast
from pathlib import Path

from tests.support.source_trees import nodes_of

import replica_audit
from replica_audit.batch_header import BATCH_FIELDS
from replica_audit.bronze_tables import BRONZE_TABLES
from replica_audit.schema import FACT_TABLES, REPORT_TABLES

LIBRARY = Path(replica_audit.__file__).parent

#: Fields of numpy's arrays of records and of compressed frames.
ARRAYS = {"offset", "transactional", "sequence", "length"}
#: Columns of rows that are objects; fields of batches are read out of numpy's arrays by name everywhere.
COLUMNS = {
    column.name
    for tables in (BRONZE_TABLES, REPORT_TABLES, FACT_TABLES)
    for table in tables.values()
    for column in table
} - {*BATCH_FIELDS, *ARRAYS}

#: Modules that read such names out of JSON, Arrow tables, arrays or settings; no module is added.
CODECS = {
    "api/answers.py",
    "api/explained.py",
    "auditing/accepted_findings.py",
    "auditing/audit_results.py",
    "auditing/known_findings.py",
    "auditing/opened_snapshot.py",
    "collect/collect.py",
    "elect/cluster_state.py",
    "quality/checkpoint.py",
    "report/answer.py",
    "report/captures.py",
    "report/facts/verdict.py",
    "report/page/content.py",
    "report/page/document.py",
    "report/quality_text.py",
    "report/run_metrics.py",
    "report/verdict_object.py",
    "report/verify_text.py",
    "restore/salvaged_records.py",
    "runner/observation_files.py",
    "salvage/partition_salvage.py",
    "salvage/snapshot_salvage.py",
    "salvage/written_salvage.py",
    "snapshot/batch_tables.py",
    "snapshot/broker_logs.py",
    "snapshot/evidence_lists.py",
    "snapshot/leadership_sources.py",
    "snapshot/manifest.py",
    "snapshot/replica_progress.py",
    "snapshot/zookeeper.py",
    "spark/kafka_log.py",
    "warehouse/answer_tables.py",
    "warehouse/ingested_rows.py",
    "warehouse/table_reads.py",
    "warehouse/told_rows.py",
}


def subscripted(path: Path) -> set[str]:
    """Names of columns that a module subscripts by."""
    nodes = nodes_of(path)
    keys = (node.slice for node in nodes if isinstance(node, ast.Subscript))
    return {key.value for key in keys if isinstance(key, ast.Constant) and key.value in COLUMNS}


def test_no_other_module_reads_a_row_by_the_name_of_a_column() -> None:
    found = {str(path.relative_to(LIBRARY)) for path in LIBRARY.rglob("*.py") if subscripted(path)}
    assert found == CODECS
