"""What the driver hands to tasks and gets from them: as much as there are segments, however many chunks these have. No JVM."""

from __future__ import annotations

import json
import struct
from dataclasses import replace

import google_crc32c
import pytest
from pyspark import cloudpickle
from tests.spark.planted import moved
from tests.support.encoder import encode_batch
from tests.support.fixtures import FIXTURES
from tests.support.in_process import InProcessSession
from tests.support.logdirs import PartitionFiles, write_log_dir

from replica_audit.cli.progress_lines import ProgressLine
from replica_audit.config import Settings
from replica_audit.model import CHUNK_OFFSETS
from replica_audit.runner.in_process import audit_all
from replica_audit.spark.audit_job import audit
from replica_audit.spark.ingest import ingest
from replica_audit.warehouse.delta_tables import Warehouse

SILENT, BATCHES = ProgressLine(quiet=True), 300


class _Counting:
    """A context that counts what goes to tasks and comes back, as Spark would send it."""

    defaultParallelism = 2

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def parallelize(self, items, count):
        parts = InProcessSession.sparkContext.parallelize(self._counted(items), count)
        run = parts.mapPartitions
        parts.mapPartitions = lambda function: self._watched(run(self._counted(function)))
        return parts

    def accumulator(self, value, param):
        return InProcessSession.sparkContext.accumulator(value, param)

    def _watched(self, parts):
        collect = parts.collect
        parts.collect = lambda: self._counted(collect())
        return parts

    def _counted(self, content):
        self.sizes.append(len(cloudpickle.dumps(content)))
        return content


def counting_session():
    session = InProcessSession()
    session.sparkContext = _Counting()
    return session


def write(path, step):
    """Two equal brokers with two segments of 150 batches of `step` offsets."""
    batch = bytearray(encode_batch(0, 1, 0, mark="m"))
    # Headers are all that is read: of a batch that says it has so many records.
    struct.pack_into(">i", batch, 23, step - 1)
    struct.pack_into(">i", batch, 57, step)
    struct.pack_into(">I", batch, 17, google_crc32c.value(bytes(batch[21:])))
    batch = bytes(batch)
    batches = tuple(moved(batch, number * step) for number in range(BATCHES))
    for broker in (1, 2):
        files = [PartitionFiles("t", 0, batches, ((0, 0),), 1, 1, batches_per_segment=BATCHES // 2)]
        write_log_dir(path / f"broker-{broker}", broker, files, cluster_id="c")
    return path


def tables(results):
    return {table: json.loads(json.dumps(rows)) for table, rows in results.tables.items()}


def days(path, step):
    """What the driver sent and got, byte by byte: a first ingest, one that knows all of it, audits whole and above the first."""
    session, warehouse = counting_session(), Warehouse(str(path / "warehouse"))
    settings = Settings()
    first = ingest(session, warehouse, str(write(path / "1", step)), settings, SILENT)
    before = audit(session, warehouse, first, settings, SILENT)
    grown = write(path / "2", step)
    log = sorted(grown.glob("broker-2/t-0/*.log"))[-1]
    log.write_bytes(log.read_bytes() + moved(encode_batch(0, 1, 0, mark="n"), BATCHES * step))
    second = ingest(session, warehouse, str(grown), settings, SILENT)
    since = audit(session, warehouse, second, replace(settings, since=before.audit["audit_id"]), SILENT)
    assert tables(before) == tables(audit_all(str(path / "1"), settings))
    assert sorted(row["log_end_offset"] - BATCHES * step for row in since.rows("replicas")) == [0, 1]
    lengths = [len(row["summary"]) for row in warehouse.read("segments", ("summary",))]
    return session.sparkContext.sizes, sum(lengths)


def test_a_log_of_many_chunks_costs_the_driver_what_one_of_few_does(tmp_path):
    (few, short), (many, long) = (days(tmp_path / str(step), step) for step in (1, CHUNK_OFFSETS))
    assert long > short + 6 * BATCHES * 50, "of the longer log each batch is a chunk"
    assert len(many) == len(few) == 12
    for one, other in zip(few, many, strict=True):
        assert other < one + 500


@pytest.mark.parametrize("capture", ["corrupted-middle-zeros", "compacted-skewed-1", "txn-failover-1-unclean"])
def test_tables_written_by_tasks_have_the_answers_of_show(tmp_path, capture):
    path, settings = str(FIXTURES / capture), Settings()
    warehouse, session = Warehouse(str(tmp_path / "warehouse")), InProcessSession()
    results = audit(session, warehouse, ingest(session, warehouse, path, settings, SILENT), settings, SILENT)
    assert tables(results) == tables(audit_all(path, settings))
