"""The functions of `replica_audit`: arguments are those of the command line, checked alike; the environment is not read."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from replica_audit.api.answers import Answers, show_snapshot
from replica_audit.api.audits import Audit, audit_snapshot
from replica_audit.api.known_findings import read_baseline
from replica_audit.api.quality_stage import quality_stage
from replica_audit.config import Settings, resolve_settings
from replica_audit.errors import UsageError
from replica_audit.model import TopicPartition
from replica_audit.places import check_files, check_outputs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def audit(
    spark: SparkSession,
    path: str,
    *,
    warehouse: str | None = None,
    catalog: str | None = None,
    topics: Sequence[str] = (),
    leadership: str | None = None,
    protocol: str | None = None,
    kafka_version: str | None = None,
    fail_on: str = "high",
    baseline: str | None = None,
    report: str | None = None,
    quality: bool = False,
    suites: Sequence[str] = (),
    config: str | None = None,
    progress: Any = None,
) -> Audit:
    """Audit the snapshot at `path` as `replica-audit run` does, in a session of the caller's, which is never stopped.

    The tables go into `warehouse` (default: replica-audit-warehouse) or `catalog`; on Spark Connect into a place that the
    server's executors and this process both reach. With `report`, a directory, the report is written too; `quality`
    checks the answers with Great Expectations and needs `report`, where Data Docs go. `config` is a configuration file.
    `progress` has the methods of `local.audit.Progress`.

    Raises UsageError, InputError and EngineError of `replica_audit.errors`.
    """
    given = {
        "warehouse": warehouse,
        "catalog": catalog,
        "topics": tuple(topics),
        "leadership": leadership,
        "protocol": protocol,
        "kafka_version": kafka_version,
        "fail_on": fail_on,
        "baseline": baseline,
        "report": report,
        "quality": quality,
        "suites": tuple(suites),
    }
    if quality and report is None:
        raise UsageError("quality needs report: the Data Docs of its checks are written there")
    settings = _settings(given, config)
    check_outputs(path, settings, report=report is not None)
    check_files(settings)
    known = read_baseline(settings)
    from replica_audit.local.audit import Unseen

    with quality_stage(settings, lambda sentence: warnings.warn(sentence, stacklevel=4)) as stage:
        audited = audit_snapshot(spark, path, settings, progress or Unseen(), known, stage)
    if report is not None:
        audited.report(report)
    return audited


def show(
    path: str,
    partition: str | None = None,
    *,
    topics: Sequence[str] = (),
    leadership: str | None = None,
    protocol: str | None = None,
    kafka_version: str | None = None,
    fail_on: str = "high",
    baseline: str | None = None,
    config: str | None = None,
) -> Answers:
    """Audit the snapshot at `path` in this process, without Spark, or only `partition` ("orders-0"); nothing is written.

    Raises UsageError and InputError of `replica_audit.errors`.
    """
    given = {
        "topics": tuple(topics),
        "leadership": leadership,
        "protocol": protocol,
        "kafka_version": kafka_version,
        "fail_on": fail_on,
        "baseline": baseline,
    }
    settings = _settings(given, config)
    check_files(settings)
    return show_snapshot(path, parse_partition(partition), settings, None, read_baseline(settings))


def parse_partition(text: str | None) -> TopicPartition | None:
    """The partition of a text such as orders-0; None for None. Raises UsageError."""
    if text is None:
        return None
    try:
        return TopicPartition.parse(text)
    except ValueError as error:
        raise UsageError(f"{error}: give a partition such as orders-0") from error


def _settings(given: Mapping[str, Any], config: str | None) -> Settings:
    """Settings of the arguments that differ from their defaults, then of the file."""
    defaults = {item.name: getattr(Settings(), item.name) for item in fields(Settings)}
    chosen = {name: value for name, value in given.items() if value is not None and value != defaults[name]}
    if "quality" in given:
        chosen["quality"] = given["quality"]
    return resolve_settings(chosen, {}, config, source="argument").settings
