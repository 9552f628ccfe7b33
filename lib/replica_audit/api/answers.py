"""Audits and raw reads from Python. Arguments are those of the command line and are checked alike; environment variables are not read."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from types import MappingProxyType
from typing import TYPE_CHECKING

from replica_audit.api.argument_settings import of_snapshot, resolved
from replica_audit.api.typed_table import Tables
from replica_audit.auditing.known_findings import Baseline, Earlier, read_baseline
from replica_audit.config import Settings
from replica_audit.errors import UsageError
from replica_audit.model import TopicPartition
from replica_audit.parsing import parse_partition
from replica_audit.paths import check_files, check_outputs
from replica_audit.progress import Progress
from replica_audit.redaction import redact
from replica_audit.report.answer_html import render_answer_html
from replica_audit.report.facts.by_partition import told_rows
from replica_audit.report.facts.verdict import build_verdict
from replica_audit.report.report_files import warn, write_report
from replica_audit.report.show_text import render_partition, render_summary
from replica_audit.report.verdict_object import VerdictObject
from replica_audit.report.wanted_ranges import check_wanted, write_wanted
from replica_audit.results import Results
from replica_audit.row_classes import Row, to_dict
from replica_audit.schema import REPORT_ROWS, REPORT_TABLES
from replica_audit.spark.quality_stage import QualityStage, QualityUnavailable, discard_data_docs, quality_stage
from replica_audit.table_names import check_table
from replica_audit.text import count

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


class Answers(Tables):
    """The answers of one audit. Tables have the names and columns of `audit.json`; `answers["findings"]` has all rows, typed."""

    def __init__(
        self, results: Results, fail_on: str, earlier: Earlier | None = None, partition: TopicPartition | None = None
    ) -> None:
        """`earlier` is the audit that a report compares with; `partition` the only one that was asked for, if any."""
        super().__init__(REPORT_ROWS, self._all_rows)
        self.results = results
        self.fail_on = fail_on
        self._earlier = earlier
        self._partition = partition

    @property
    def audit_id(self) -> str | None:
        """Id of the audit in the warehouse; None if nothing was written."""
        return self.results.audit["audit_id"]

    @property
    def verdict(self) -> str:
        """The worst verdict of all partitions, e.g. COMMITTED_LOSS (`docs/semantics.md`)."""
        return self.results.audit["verdict"]

    @property
    def verdict_json(self) -> VerdictObject:
        """The content of `verdict.json`: verdict, status, exit_status and counts."""
        return build_verdict(self.results, self.fail_on)

    @property
    def exit_status(self) -> int:
        """Exit status of the command line: 0, 1 (findings at or above `fail_on`) or 3 (the snapshot cannot be judged completely)."""
        return self.verdict_json["exit_status"]

    def rows(self, table: str) -> Sequence[Mapping[str, object]]:
        """Rows of a table as in audit.json; with more than 10,000 partitions, rows of the worst. Raises KeyError for an unknown table."""
        return list(map(to_dict, self._told(table)))

    def arrow(self, table: str) -> pa.Table:
        """Rows of a table as an Arrow table. Raises KeyError for an unknown table."""
        from replica_audit.arrow_rows import arrow_schema, rows_to_arrow

        return rows_to_arrow(self._told(table), arrow_schema(REPORT_TABLES[table]))

    def _told(self, table: str) -> Sequence[Row]:
        rows = self.results.table(check_table(table, REPORT_ROWS))
        return rows if self.results.stored is None else told_rows(self.results)(table)

    def _all_rows(self, table: str) -> Iterator[Row]:
        return chain.from_iterable(part.table(table) for part in self.results.parts((table,)))

    def report(self, directory: str, url: str | None = None, tell: Callable[[str], None] = warn) -> str:
        """Write the report into `directory`, which is created, and return its path; it will be published at `url`. Raises OSError.

        `tell` is called with a sentence for each problem that did not stop the report.
        """
        return write_report(self.results, directory, self.fail_on, self._earlier, url, tell)

    def __str__(self) -> str:
        """The text that `show` prints: everything about the one partition, or the summary of all."""
        return render_summary(self.results) if self._partition is None else render_partition(self.results)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.verdict}, {count(len(self.results.partitions), 'partition')}>"

    def _repr_html_(self) -> str:
        return render_answer_html(self.results, self.verdict_json)


class Audit(Answers):
    """The answers of an audit in the warehouse, with tables as DataFrames of the session that it ran in.

    The DataFrames have the columns of the Delta tables, ids first, and all rows. They are lazy: after the session has
    ended they cannot be read.
    """

    def __init__(
        self, spark: SparkSession, results: Results, settings: Settings, earlier: Earlier | None = None
    ) -> None:
        super().__init__(results, settings.fail_on, earlier)
        self._spark = spark
        self._settings = settings

    def table(self, name: str) -> DataFrame:
        """A table of the warehouse, report or bronze: the rows of this audit, or of its snapshot. Raises KeyError."""
        from replica_audit.spark.catalogs import open_warehouse
        from replica_audit.spark.table_frames import audit_frame

        return audit_frame(self._spark, open_warehouse(self._spark, self._settings), name, self.results.audit)

    @property
    def partitions(self) -> DataFrame:
        """A row for each partition: verdict, leader, high watermark, losses."""
        return self.table("partitions")

    @property
    def replicas(self) -> DataFrame:
        """A row for each copy of a partition."""
        return self.table("replicas")

    @property
    def high_watermarks(self) -> DataFrame:
        """The bounds of each partition's high watermark, with their evidence."""
        return self.table("high_watermarks")

    @property
    def high_watermark_timeline(self) -> DataFrame:
        """The high watermark recomputed from observations of a running cluster."""
        return self.table("high_watermark_timeline")

    @property
    def divergences(self) -> DataFrame:
        """Offset ranges in which a replica differs from the reference."""
        return self.table("divergences")

    @property
    def truncations(self) -> DataFrame:
        """Truncation of each replica's log, by protocol."""
        return self.table("truncations")

    @property
    def findings(self) -> DataFrame:
        """Findings, with severity and evidence."""
        return self.table("findings")

    @property
    def quarantine(self) -> DataFrame:
        """Input that could not be used."""
        return self.table("quarantine")

    @property
    def batches(self) -> DataFrame:
        """The header of every batch of the snapshot."""
        return self.table("batches")


def audit_snapshot(
    spark: SparkSession,
    path: str,
    settings: Settings,
    progress: Progress,
    known: Baseline,
    stage: QualityStage | None,
) -> Audit:
    """Ingest and audit the snapshot at `path` and, with a `stage`, check the quality of the answers.

    `known` is the audit that findings are compared with. Without Great Expectations its checks are left out, which
    `stage` reports. Raises UsageError, InputError and EngineError.
    """
    from replica_audit.spark.catalogs import open_warehouse
    from replica_audit.spark.pipeline import run_audit, run_ingest
    from replica_audit.warehouse.attempts import latest_attempt
    from replica_audit.warehouse.past_audits import load_earlier

    if settings.since:
        # The ingest may take hours.
        latest_attempt(open_warehouse(spark, settings), "audit", audit_id=settings.since)
    if stage is not None:
        stage.load()
    snapshot_id = run_ingest(spark, path, settings, progress)
    if stage is not None:
        stage.prepare(spark, snapshot_id)
    audited = run_audit(spark, snapshot_id, settings, progress, path)
    results = known.compare(replace(audited, location=redact(path)))
    checked = False
    if stage is not None:
        try:
            results = known.compare(stage.check(spark, results))
            checked = True
        except QualityUnavailable as error:
            stage.tell(str(error))
    if not checked:
        discard_data_docs(settings)
    earlier = known.earlier or load_earlier(open_warehouse(spark, settings), results.audit)
    return Audit(spark, results, settings, earlier)


def audit(
    spark: SparkSession,
    path: str,
    *,
    warehouse: str | None = None,
    catalog: str | None = None,
    topics: Sequence[str] = (),
    leadership: str | None = None,
    leadership_source: str | None = None,
    remote: str | None = None,
    verify_remote: bool = False,
    full: bool = False,
    protocol: str | None = None,
    kafka_version: str | None = None,
    since: str | None = None,
    fail_on: str = "high",
    baseline: str | None = None,
    accept: str | None = None,
    report: str | None = None,
    report_url: str | None = None,
    keep_days: int | None = None,
    keep_audits: int | None = None,
    time_travel_days: int = 365,
    quality: bool = False,
    suites: Sequence[str] = (),
    config: str | None = None,
    progress: Progress | None = None,
) -> Audit:
    """Audit the snapshot at `path` as `replica-audit run` does, in a session of the caller's, which is never stopped.

    The tables go into `warehouse` (default: replica-audit-warehouse) or `catalog`; on Spark Connect into a place that the
    server's executors and this process both reach. With `report`, a directory, the report is written too; `quality`
    checks the answers with Great Expectations and needs `report`, where Data Docs go. `config` is a configuration file.
    `progress` is a `replica_audit.progress.Progress`.

    Raises UsageError, InputError and EngineError of `replica_audit.errors`.
    """
    given = {
        "warehouse": warehouse,
        "catalog": catalog,
        **of_snapshot(topics, leadership, leadership_source, protocol, kafka_version, remote),
        "verify_remote": verify_remote,
        "full": full,
        "since": since,
        "fail_on": fail_on,
        "baseline": baseline,
        "accept": accept,
        "report": report,
        "report_url": report_url,
        "keep_days": keep_days,
        "keep_audits": keep_audits,
        "time_travel_days": time_travel_days,
        "quality": quality,
        "suites": tuple(suites),
    }
    if quality and report is None:
        raise UsageError("quality needs report: the Data Docs of its checks are written there")
    settings = resolved(given, config)
    check_outputs(path, settings, report=report is not None)
    check_files(settings)
    known = read_baseline(settings)
    from replica_audit.spark.callers_session import use_own_python

    use_own_python(spark)

    with quality_stage(settings, lambda sentence: warnings.warn(sentence, stacklevel=4)) as stage:
        audited = audit_snapshot(spark, path, settings, progress or Progress(), known, stage)
        if settings.has_retention:
            from replica_audit.spark.catalogs import open_warehouse
            from replica_audit.warehouse.retention import apply_retention

            apply_retention(open_warehouse(spark, settings), settings.keep_days, settings.keep_audits)
    if report is not None:
        audited.report(report, settings.report_url)
    return audited


def show(
    path: str,
    partition: str | None = None,
    *,
    topics: Sequence[str] = (),
    leadership: str | None = None,
    leadership_source: str | None = None,
    remote: str | None = None,
    verify_remote: bool = False,
    protocol: str | None = None,
    kafka_version: str | None = None,
    fail_on: str = "high",
    baseline: str | None = None,
    accept: str | None = None,
    wanted: str | None = None,
    config: str | None = None,
    progress: Progress | None = None,
) -> Answers:
    """Audit the snapshot at `path` in this process, without Spark, or only `partition` ("orders-0").

    Writes nothing except `wanted`, a file that lists the bytes which an audit of evidence still needs.

    Raises UsageError and InputError of `replica_audit.errors`.
    """
    given = {
        **of_snapshot(topics, leadership, leadership_source, protocol, kafka_version, remote),
        "verify_remote": verify_remote,
        "fail_on": fail_on,
        "baseline": baseline,
        "accept": accept,
    }
    settings = resolved(given, config)
    check_files(settings)
    from replica_audit.runner.in_process import audit_all, audit_one

    asked = None if partition is None else parse_partition(partition)
    known = read_baseline(settings)
    if wanted is not None:
        check_wanted(wanted, path)
    results = audit_all(path, settings, progress) if asked is None else audit_one(path, asked, settings)
    if wanted is not None:
        write_wanted(wanted, results, path)
    return Answers(known.compare(results), settings.fail_on, None, asked)


def read_batches(
    spark: SparkSession,
    path: str,
    *,
    topics: Sequence[str] = (),
    partitions: Sequence[int] = (),
    brokers: Sequence[int] = (),
    columns: Sequence[str] = (),
) -> DataFrame:
    """A row for each batch header in the snapshot at `path`: the columns of the table `batches`, or `columns` of them.

    `topics` are shell patterns on whole names; an empty argument selects everything. Reading fails with InputError for
    a file that cannot be read, UsageError where there is no snapshot.
    """
    return _read(spark, path, "batches", topics, partitions, brokers, columns)


def read_records(
    spark: SparkSession,
    path: str,
    *,
    topics: Sequence[str] = (),
    partitions: Sequence[int] = (),
    brokers: Sequence[int] = (),
    payloads: bool = False,
    columns: Sequence[str] = (),
) -> DataFrame:
    """A row for each record in the snapshot at `path`: offset, times, producer, sizes; with `payloads` key, value and headers.

    A batch whose records cannot be read or decoded is a row with a `problem` and no offset. Columns are in
    docs/reference.md; arguments are those of `read_batches`.
    """
    more = {"payloads": "true"} if payloads else {}
    return _read(spark, path, "records", topics, partitions, brokers, columns, more)


def read_metadata_log(spark: SparkSession, path: str, *, topics: Sequence[str] = ()) -> DataFrame:
    """A row for each state of a partition that the snapshot's metadata log knows: the columns of `partition_states`."""
    return _read(spark, path, "leadership", topics).where("source = 'metadata_log'")


def register(spark: SparkSession) -> None:
    """Register the format `kafka_log` with a session that does not find it, as in a script run outside the package's environment.

    The functions of this module do so themselves.
    """
    from replica_audit.spark.kafka_log import register as register_source

    register_source(spark)


def _read(
    spark: SparkSession,
    path: str,
    rows: str,
    topics: Sequence[str] = (),
    partitions: Sequence[int] = (),
    brokers: Sequence[int] = (),
    columns: Sequence[str] = (),
    more: Mapping[str, str] = MappingProxyType({}),
) -> DataFrame:
    from replica_audit.spark.kafka_log import open_rows

    chosen = {"topic": topics, "partition": partitions, "broker": brokers}
    options = {name: ",".join(map(str, values)) for name, values in chosen.items() if values}
    return open_rows(spark, path, rows, {**options, **more}, columns)
