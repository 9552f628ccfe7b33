"""What a snapshot has as DataFrames, without an audit and without a warehouse: the data source `kafka_log`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


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

    `topics` are shell patterns on whole names; nothing is left out where nothing is given. Reading fails with InputError
    for a file that cannot be read, UsageError where there is no snapshot.
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
