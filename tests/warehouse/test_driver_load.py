"""Data between the driver and tasks: proportional to segments, however many chunks these have. No JVM."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from pyspark import cloudpickle
from tests.support.encoder import encode_batch
from tests.support.fixtures import FIXTURES
from tests.support.long_logs import BATCHES, write_long_logs
from tests.support.planted import moved
from tests.support.stored_rows import stored

from replica_audit.config import Settings
from replica_audit.model import CHUNK_OFFSETS
from replica_audit.progress import Progress
from replica_audit.runner.executor import InProcess
from replica_audit.runner.in_process import audit_all
from replica_audit.runner.ingest import ingest
from replica_audit.runner.ingested_source import audit
from replica_audit.schema import REPORT_TABLES
from replica_audit.warehouse.delta_tables import Warehouse


class _Counting(InProcess):
    """Counts what goes to tasks and comes back, as Spark would send it."""

    parallelism = 2

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def cut(self, items, cost, least):
        return [list(items)] if items else []

    def map(self, tasks, work, ended=None):
        found = super().map(tasks, work, ended)
        if tasks:
            self.sizes += [len(cloudpickle.dumps(content)) for content in (tasks, work, found)]
        return found


def tables(results):
    return {table: json.loads(json.dumps(results.rows(table))) for table in REPORT_TABLES}


def days(path, step):
    """Bytes that the driver sent and received: a first ingest, one that knows everything, complete audits and audits above the first."""
    executor, warehouse = _Counting(), Warehouse(str(path / "warehouse"))
    settings = Settings()
    first = ingest(executor, warehouse, str(write_long_logs(path / "1", step)), settings, Progress())
    before = audit(executor, warehouse, first, settings, Progress())
    grown = write_long_logs(path / "2", step)
    log = sorted(grown.glob("broker-2/orders-0/*.log"))[-1]
    log.write_bytes(log.read_bytes() + moved(encode_batch(0, 1, 0, mark="n"), BATCHES * step))
    second = ingest(executor, warehouse, str(grown), settings, Progress())
    since = audit(executor, warehouse, second, replace(settings, since=before.audit["audit_id"]), Progress())
    assert tables(before) == tables(audit_all(str(path / "1"), settings))
    assert sorted(row["log_end_offset"] - BATCHES * step for row in since.rows("replicas")) == [0, 1]
    lengths = [len(row["summary"]) for row in stored(warehouse, "segments", ("summary",))]
    return executor.sizes, sum(lengths)


def test_a_log_of_many_chunks_costs_the_driver_what_one_of_few_does(tmp_path):
    (few, short), (many, long) = (days(tmp_path / str(step), step) for step in (1, CHUNK_OFFSETS))
    assert long > short + 6 * BATCHES * 50, "of the longer log each batch is a chunk"
    assert len(many) == len(few) == 12
    for one, other in zip(few, many, strict=True):
        assert other < one + 500


@pytest.mark.parametrize("capture", ["corrupted-middle-zeros", "compacted-skewed-1", "txn-failover-1-unclean"])
def test_tables_written_by_tasks_have_the_answers_of_show(tmp_path, capture):
    path, settings = str(FIXTURES / capture), Settings()
    warehouse, executor = Warehouse(str(tmp_path / "warehouse")), InProcess()
    results = audit(executor, warehouse, ingest(executor, warehouse, path, settings, Progress()), settings, Progress())
    assert tables(results) == tables(audit_all(path, settings))


def test_of_many_answers_no_row_comes_to_the_driver(tmp_path):
    """A task of an audit gives back as much for twelve partitions as for two."""
    came = []
    for partitions in (2, 12):
        path, executor = tmp_path / str(partitions), _Counting()
        warehouse, settings = Warehouse(str(path / "warehouse")), replace(Settings(), driver_rows=1)
        snapshot_id = ingest(
            executor, warehouse, str(write_long_logs(path / "snapshot", 1, partitions)), settings, Progress()
        )
        executor.sizes.clear()
        results = audit(executor, warehouse, snapshot_id, settings, Progress())
        assert len(results.rows("partitions")) == partitions
        assert tables(results) == tables(audit_all(str(path / "snapshot"), settings))
        assert len(executor.sizes) == 3, "one round of tasks"
        came.append(executor.sizes[2])
    assert came[1] < came[0] + 100
