"""The audit stage: bronze rows to answers, one call of the pure functions per partition, wherever Spark runs it.

Two rounds. The first sees of every partition its summaries and checkpoints only, which decides most of them; what it
cannot decide it asks batches for, and what the coordinator says of transactions without an end. The second sees those
partitions with the batches of just these chunks, and reads from the segments the records of the few among them that
differ though their offsets agree, or that belong to compacted replicas.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any

from replica_audit.auditing.capture_times import times_of_manifest
from replica_audit.auditing.evidence import EVIDENCE_TABLES, AuditOptions, options_row, resolve_options
from replica_audit.config import Settings
from replica_audit.formats.storage import Snapshot
from replica_audit.model import CHUNK_OFFSETS, TransactionState
from replica_audit.moments import now
from replica_audit.protocol.high_watermark import rule_of
from replica_audit.results import Results
from replica_audit.spark.answers import assemble_results, snapshot_answers
from replica_audit.spark.observations import (
    log_evidence,
    observation_count,
    timeline_answers,
    write_timeline,
)
from replica_audit.spark.scanning import BATCH_COLUMNS
from replica_audit.spark.session import compile_queries
from replica_audit.spark.transactions import read_transactions
from replica_audit.spark.warehouse import Warehouse
from replica_audit.tables import BRONZE_TABLES, REPORT_TABLES, ddl

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

_NEED = "need"
_OPEN = "open"
_BATCH = "batch"
#: What a row of observations weighs when it is decided whether compiling queries pays.
_ROW_BYTES = 100
_OUT_DDL = "topic string, partition int, kind string, payload string"

#: Tables that this stage computes; `quarantine` is the snapshot's, the others belong to other commands.
AUDITED_TABLES = ("partitions", "replicas", "high_watermarks", "divergences", "truncations", "findings")


def audit(
    spark: SparkSession, snapshot_id: str | None, settings: Settings, progress, snapshot_uri: str | None = None
) -> Results:
    """Audit an ingested snapshot (the latest when `snapshot_id` is None), write its tables and return its results.

    The records of batches that differ are read from the snapshot at `snapshot_uri`, else from where it was ingested.
    """
    started = now()
    warehouse = Warehouse(spark, settings.warehouse, settings.catalog, settings.time_travel_days)
    ingested = warehouse.latest("ingest", **({"snapshot_id": snapshot_id} if snapshot_id else {}))
    snapshot_id, cluster_id = ingested["snapshot_id"], ingested["cluster_id"]
    snapshot = warehouse.read("snapshots", snapshot_id=snapshot_id).select("manifest", "size_bytes", "location").first()
    options = _options(snapshot, cluster_id, settings)
    location = snapshot["location"] if snapshot_uri is None else Snapshot.open(snapshot_uri).location
    ids = {"cluster_id": cluster_id, "snapshot_id": snapshot_id, "audit_id": uuid.uuid4().hex}
    stage = {"started": started, "options": json.dumps(options_row(options, settings)), **ids}
    observed = observation_count(warehouse, snapshot_id)
    compile_queries(spark, snapshot["size_bytes"] + _ROW_BYTES * observed)
    warehouse.describe_commits(stage="audit", snapshot_id=snapshot_id, audit_id=ids["audit_id"])
    progress.begin("auditing")
    try:
        with ExitStack() as kept:
            timeline = None
            if observed:
                timeline = write_timeline(warehouse, ids, rule_of(options.kafka_version), partial(_keep, kept))
            results = _keep(kept, _audit_partitions(warehouse, snapshot_id, options, location, timeline, kept))
            unplaced = list(_log_dir_findings(warehouse, ids))
            warehouse.append_all(_frames(warehouse, results, unplaced, ids), "audit_id")
            answers = [(row["kind"], json.loads(row["payload"])) for row in results.select("kind", "payload").collect()]
    except BaseException:
        warehouse.record("audit", "failed", **stage)
        raise
    finally:
        progress.end()
    finished = warehouse.record("audit", "finished", tables=AUDITED_TABLES, **stage)
    answers += [("findings", row) for row in unplaced]
    rows, observations = timeline_answers(warehouse, ids["audit_id"]) if observed else ([], 0)
    return assemble_results(finished, [*answers, *rows, *snapshot_answers(warehouse, snapshot_id)], observations)


def _options(snapshot: Mapping, cluster_id: str | None, settings: Settings) -> AuditOptions:
    manifest = json.loads(snapshot["manifest"]) if snapshot["manifest"] else {}
    times = times_of_manifest(manifest.get("brokers") or ())
    return resolve_options(settings, manifest.get("kafka_version"), manifest.get("quiesced"), cluster_id, times)


def _keep(kept: ExitStack, frame: DataFrame) -> DataFrame:
    """`frame`, computed once while `kept` is open. Whatever stayed would be planned anew at every commit to its tables."""
    frame = frame.persist()
    kept.callback(frame.unpersist)
    return frame


def _audit_partitions(
    warehouse: Warehouse,
    snapshot_id: str,
    options: AuditOptions,
    location: str,
    timeline: DataFrame | None,
    kept: ExitStack,
) -> DataFrame:
    """Rows of `_OUT_DDL` for every report table, and those of the log dirs as a whole."""
    from pyspark.sql import functions as F

    evidence = _evidence(warehouse, snapshot_id)
    evidence = evidence if timeline is None else evidence.unionByName(timeline)
    logged = log_evidence(warehouse, snapshot_id, evidence)
    evidence = evidence if logged is None else evidence.unionByName(logged)
    evidence = _keep(kept, evidence)
    first = _keep(kept, evidence.groupBy("topic", "partition").applyInArrow(_first_round(options), _OUT_DDL))
    needs = first.where(F.col("kind").isin(_NEED, _OPEN))
    answers = first.where(~F.col("kind").isin(_NEED, _OPEN))
    if needs.isEmpty():
        return answers
    producers = {
        json.loads(row["payload"]) for row in needs.where(F.col("kind") == _OPEN).select("payload").distinct().collect()
    }
    transactions = read_transactions(evidence.sparkSession, warehouse, snapshot_id, location, producers)
    questions, needs = needs.select("topic", "partition").distinct(), needs.where(F.col("kind") == _NEED)
    wanted = needs.select(
        "topic", "partition", F.from_json("payload", "broker_id int, log_dir string, chunk bigint").alias("need")
    )
    wanted = wanted.select("topic", "partition", "need.*")
    batches = (
        warehouse.read("batches", snapshot_id=snapshot_id)
        .withColumn("chunk", F.shiftright("base_offset", CHUNK_OFFSETS.bit_length() - 1))
        .join(F.broadcast(wanted), ["topic", "partition", "broker_id", "log_dir", "chunk"])
    )
    asked = evidence.join(F.broadcast(questions), ["topic", "partition"])
    second = (
        asked.select(
            "topic",
            "partition",
            "kind",
            "payload",
            "broker_id",
            "log_dir",
            F.lit(None).cast(_batch_type()).alias(_BATCH),
        )
        .unionByName(
            batches.select(
                "topic",
                "partition",
                F.lit(_BATCH).alias("kind"),
                F.lit(None).cast("string").alias("payload"),
                "broker_id",
                "log_dir",
                F.struct(*[column.name for column in BATCH_COLUMNS]).alias(_BATCH),
            )
        )
        .groupBy("topic", "partition")
        .applyInArrow(_second_round(options, location, transactions), _OUT_DDL)
    )
    return answers.unionByName(second)


def _evidence(warehouse: Warehouse, snapshot_id: str) -> DataFrame:
    """The bronze rows of every partition as JSON, one table after another."""
    from functools import reduce

    from pyspark.sql import functions as F

    parts = []
    for table in EVIDENCE_TABLES:
        frame = warehouse.read(table, snapshot_id=snapshot_id)
        names = [column.name for column in BRONZE_TABLES[table]]
        if table == "segments":
            names = ["broker_id", "log_dir", "summary"]
        place = [
            F.col(name) if name in frame.columns else F.lit(None).cast(kind).alias(name)
            for name, kind in (("broker_id", "int"), ("log_dir", "string"))
        ]
        row = F.to_json(F.struct(*names), {"ignoreNullFields": "false"})
        parts.append(frame.select("topic", "partition", F.lit(table).alias("kind"), row.alias("payload"), *place))
    return reduce(lambda one, other: one.unionByName(other), parts)


def _batch_type() -> str:
    return "struct<" + ",".join(f"{column.name}:{column.type}" for column in BATCH_COLUMNS) + ">"


def _first_round(options: AuditOptions):
    def audit_group(table: pa.Table) -> pa.Table:
        from replica_audit.auditing.partition import audit_partition, needed_batches, open_producers
        from replica_audit.auditing.tables import report_rows

        def answer() -> list[tuple[str, Any]]:
            evidence = _group_evidence(table, options)
            needed, producers = needed_batches(evidence), open_producers(evidence)
            if not needed and not producers:
                return _table_rows(report_rows(audit_partition(evidence)))
            rows: list[tuple[str, Any]] = [(_OPEN, producer) for producer in sorted(producers)]
            return rows + [
                (_NEED, {"broker_id": broker_id, "log_dir": log_dir, "chunk": chunk})
                for (broker_id, log_dir), chunks in sorted(needed.items())
                for chunk in sorted(chunks)
            ]

        return _answer_group(table, options, answer)

    return audit_group


def _second_round(options: AuditOptions, location: str, transactions: Mapping[int, TransactionState]):
    """Records are read right here, on the executor: they are shuffled nowhere, and neither they nor their hashes outlive the call."""

    def audit_group(table: pa.Table) -> pa.Table:
        import pyarrow.compute as pc

        from replica_audit.auditing.partition import audit_partition
        from replica_audit.auditing.tables import report_rows
        from replica_audit.formats.record_reader import RecordReader

        def answer() -> list[tuple[str, Any]]:
            is_batch = pc.equal(table["kind"], _BATCH)
            evidence = _group_evidence(table.filter(pc.invert(is_batch)), options)
            batches = _group_batches(table.filter(is_batch))
            return _table_rows(report_rows(audit_partition(evidence, batches, RecordReader(location), transactions)))

        return _answer_group(table, options, answer)

    return audit_group


def _answer_group(table: pa.Table, options: AuditOptions, answer: Callable[[], list[tuple[str, Any]]]) -> pa.Table:
    """The rows of one partition; one that raises is told as such, and all others are answered."""
    from replica_audit.auditing.failures import failure_rows
    from replica_audit.model import TopicPartition

    partition = TopicPartition(table["topic"][0].as_py(), table["partition"][0].as_py())
    try:
        rows = answer()
    except Exception as error:
        rows = _table_rows(failure_rows(partition, error, options.cluster_id))
    return _answer(partition, rows)


def _group_evidence(table: pa.Table, options: AuditOptions):
    from replica_audit.auditing.evidence import partition_evidence
    from replica_audit.model import TopicPartition

    rows: dict[str, list[dict]] = {}
    for kind, payload in zip(table["kind"].to_pylist(), table["payload"].to_pylist()):
        rows.setdefault(kind, []).append(json.loads(payload))
    topic_partition = TopicPartition(table["topic"][0].as_py(), table["partition"][0].as_py())
    return partition_evidence(topic_partition, rows, options)


def _group_batches(table: pa.Table) -> dict[tuple[int, str], np.ndarray]:
    """`BATCH_DTYPE` arrays by copy, nulls back to -1."""
    import numpy as np
    import pyarrow.compute as pc

    from replica_audit.formats.batches import BATCH_DTYPE

    flat = table.select(["broker_id", "log_dir", _BATCH]).flatten()
    everything = np.zeros(table.num_rows, BATCH_DTYPE)
    for name in BATCH_DTYPE.names:
        column = flat[f"{_BATCH}.{name}"]
        everything[name] = (column if name == "crc_valid" else pc.fill_null(column, -1)).to_numpy()
    keys = list(zip(flat["broker_id"].to_pylist(), flat["log_dir"].to_pylist()))
    groups: dict[tuple[int, str], list[int]] = {}
    for index, key in enumerate(keys):
        groups.setdefault(key, []).append(index)
    return {key: everything[indexes] for key, indexes in groups.items()}


def _table_rows(rows: Mapping[str, list[dict]]) -> list[tuple[str, dict]]:
    return [(name, row) for name, of_table in rows.items() for row in of_table]


def _answer(topic_partition, rows: list[tuple[str, dict | int]]) -> pa.Table:
    import pyarrow as pa

    count = len(rows)
    return pa.table(
        {
            "topic": pa.array([topic_partition.topic] * count, pa.string()),
            "partition": pa.array([topic_partition.partition] * count, pa.int32()),
            "kind": pa.array([kind for kind, _ in rows], pa.string()),
            "payload": pa.array([json.dumps(row) for _, row in rows], pa.string()),
        }
    )


def _frames(
    warehouse: Warehouse, results: DataFrame, unplaced: list[dict], ids: Mapping[str, str | None]
) -> dict[str, DataFrame]:
    from pyspark.sql import functions as F

    literals = [F.lit(value).cast("string").alias(name) for name, value in ids.items()]
    frames = {}
    for table in AUDITED_TABLES:
        parsed = results.where(F.col("kind") == table).select(
            F.from_json("payload", ddl(REPORT_TABLES[table])).alias("row")
        )
        frames[table] = parsed.select(*literals, "row.*")
    if unplaced:
        frames["findings"] = frames["findings"].unionByName(warehouse.frame("findings", unplaced, ids))
    return frames


def _log_dir_findings(warehouse: Warehouse, ids: Mapping[str, str | None]) -> Iterator[dict]:
    """Findings of whole log dirs and of input that belongs to no partition; a handful of rows, made on the driver."""
    from pyspark.sql import functions as F

    from replica_audit.auditing.log_dirs import UNPLACED_CODES, log_dir_findings

    snapshot_id = ids["snapshot_id"]
    suspicious = (
        warehouse.read("replica_dirs", snapshot_id=snapshot_id)
        .where(F.col("high_watermark_file.state").isin("missing", "empty"))
        .select(
            "broker_id",
            "log_dir",
            F.col("high_watermark_file.state").alias("state"),
            F.col("high_watermark_file.path").alias("path"),
        )
        .distinct()
    )
    filled = (
        warehouse.read("segments", snapshot_id=snapshot_id)
        .where("batch_count > 0")
        .select("broker_id", "log_dir")
        .distinct()
    )
    log_dirs = [row.asDict() for row in suspicious.join(filled, ["broker_id", "log_dir"], "left_semi").collect()]
    unplaced = warehouse.read("quarantine", snapshot_id=snapshot_id).where(
        F.col("topic").isNull() & F.col("code").isin(*UNPLACED_CODES)
    )
    return log_dir_findings(log_dirs, [row.asDict() for row in unplaced.collect()], ids["cluster_id"])
