"""Input of quality suites: facts and answers, and bronze tables where a suite names one; and their rows in the warehouse."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING

import pyarrow as pa

from replica_audit.arrow_rows import arrow_schema, rows_to_arrow, values_to_arrow
from replica_audit.bronze_tables import BRONZE_TABLES, SnapshotRow
from replica_audit.quality.quality_facts import CountsByReplica, find_facts, name_place, segment_counts
from replica_audit.quality.suites import Suite
from replica_audit.results import Results
from replica_audit.row_classes import Column, Row
from replica_audit.schema import FACT_TABLES, REPORT_TABLES, QualityRow
from replica_audit.spark.table_frames import ingested_frame
from replica_audit.text import now
from replica_audit.warehouse.answer_tables import capture_times
from replica_audit.warehouse.attempts import Attempt, check_committed, ids_of, latest_attempt, own_rows, record_attempt
from replica_audit.warehouse.delta_tables import Warehouse
from replica_audit.warehouse.ingested_rows import placed_segments, read_summary, segment_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def count_segments(warehouse: Warehouse, snapshot_id: str) -> CountsByReplica:
    """Counts over a snapshot's segments."""
    attempt = latest_attempt(warehouse, "ingest", snapshot_id=snapshot_id)
    segments = placed_segments(segment_files(warehouse, **own_rows(attempt)))
    check_committed(warehouse, attempt, {"segments": len(segments)})
    directory = warehouse.directory("segments")
    (snapshot,) = warehouse.read("snapshots", SnapshotRow, **own_rows(attempt))
    times = capture_times(snapshot)
    return segment_counts(segments, lambda one: read_summary(directory, one.summary_file, one.summary_row), times)


def quality_frames(
    spark: SparkSession | None,
    warehouse: Warehouse,
    results: Results,
    counts: CountsByReplica,
    suites: Iterable[Suite],
) -> dict[str, pa.Table | DataFrame]:
    """Input of each of `suites`, by name, with the column `place` first: an Arrow table for a built-in suite, a DataFrame for a
    user's own; `spark` may be None without such suites.

    Facts and answers are in memory, as columns, and are constants of the query plan: using them reads nothing. Bronze tables
    are read from the warehouse.
    """
    frames: dict[str, pa.Table | DataFrame] = {}
    suites = list(suites)
    tables = local_tables(results, counts, {suite.table for suite in suites})
    for suite in suites:
        table = suite.table
        local = tables.get(table)
        if local is not None and not suite.own:
            frames[suite.name] = local
        elif spark is None:
            raise ValueError(f"the suite {suite.name} needs a Spark session")
        elif local is not None:
            frames[suite.name] = spark.createDataFrame(local)
        else:
            frames[suite.name] = _bronze_frame(spark, warehouse, table, str(results.audit["snapshot_id"]))
    return frames


def local_tables(results: Results, counts: CountsByReplica, wanted: Collection[str]) -> dict[str, pa.Table]:
    """The tables of `wanted` that are facts or answers, with the rows of some partitions held at a time."""
    found: dict[str, list[pa.Table]] = defaultdict(list)
    needed = {*_OF_FACTS, *(table for table in wanted if table in REPORT_TABLES)}
    for part in results.parts(needed):
        facts = find_facts(part, counts)
        for table in wanted:
            if table in FACT_TABLES:
                found[table].append(_placed(FACT_TABLES[table], getattr(facts, table)))
            elif table in REPORT_TABLES:
                columns = (Column("place", "string"), *REPORT_TABLES[table])
                found[table].append(_placed(columns, part.table(table)))
    # Rows without a partition come last.
    return {table: pa.concat_tables([*tables[1:], tables[0]]) for table, tables in found.items()}


#: Tables that facts are derived from.
_OF_FACTS = ("partitions", "replicas", "captures", "high_watermarks", "findings")

#: Columns that name a row's place.
_PLACE = ("topic", "partition", "broker_id", "path")


def _placed(columns: tuple[Column, ...], rows: Sequence[Row]) -> pa.Table:
    found = rows_to_arrow(rows, arrow_schema(columns))
    # Data Docs show `place` without escaping it, and a directory's name is not markup.
    places = (getattr(row, "place", None) or name_place(*(getattr(row, name, None) for name in _PLACE)) for row in rows)
    at = found.schema.get_field_index("place")
    return found.set_column(at, found.schema.field(at), values_to_arrow(list(map(escape, places)), pa.string()))


def _bronze_frame(spark: SparkSession, warehouse: Warehouse, table: str, snapshot_id: str) -> DataFrame:
    from pyspark.sql import functions as F

    names = [column.name for column in BRONZE_TABLES[table]]
    parts = []
    if {"topic", "partition"} <= set(names):
        parts.append(F.concat_ws("-", F.col("topic"), F.col("partition").cast("string")))
    if "broker_id" in names:
        parts.append(F.concat(F.lit("broker "), F.col("broker_id").cast("string")))
    if "path" in names:
        parts.append(F.col("path"))
    place = F.concat_ws(" ", *parts) if parts else F.lit(table)
    for character, text in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;")):
        place = F.replace(place, F.lit(character), F.lit(text))
    return ingested_frame(spark, warehouse, table, snapshot_id=snapshot_id).select(place.alias("place"), *names)


def keep_quality(warehouse: Warehouse, results: Results, rows: Sequence[QualityRow], *, again: bool) -> None:
    """Write an audit's rows of `quality` and record their number; `again`: in place of its present ones."""
    audit = results.audit
    attempt = Attempt(
        started=now(),
        cluster_id=audit["cluster_id"],
        snapshot_id=audit["snapshot_id"],
        audit_id=audit["audit_id"],
        ingest_id=None,
        options=None,
    )
    ids = ids_of(attempt)
    if again:
        # Until these are all there, the right number of rows is unknown.
        record_attempt(warehouse, "quality", "running", **attempt)
    warehouse.describe_commits(stage="quality", snapshot_id=ids["snapshot_id"], audit_id=ids["audit_id"])
    warehouse.put("quality", rows, ids, again=again)
    counts = {"quality": len(rows)}
    record_attempt(warehouse, "quality", "finished", tables=("quality",), row_counts=counts, **attempt)
