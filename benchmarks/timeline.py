"""Speed of the timeline on Spark, beside the least that any such job must do with the same rows.

Run: `.venv/bin/python benchmarks/timeline.py [--observations N] [--partitions N] [--conf KEY=VALUE]`. Observations of
three replicas each lie in Parquet. Measured side by side, the fastest of three runs: a plain window (rows sorted by partition and time, one
lag), and the timeline with its summary, written nowhere. Ends with status 1 when the timeline takes more than 12 times
as long.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable

TARGET = 12
ROUNDS = 3


def make_progress(spark, observations: int, partitions: int, path: str) -> None:
    """Rows of `replica_progress`: followers fetch in turn, the high watermark is right, now and then it is stuck."""
    from pyspark.sql import functions as F

    at = F.col("id") % F.lit(observations // partitions)
    end = at * 10
    frame = (
        spark.range(observations)
        .withColumn("partition", (F.col("id") / F.lit(observations // partitions)).cast("int"))
        .withColumn("at", at)
        .withColumn("end", end)
        .withColumn("broker_id", F.explode(F.array(F.lit(0), F.lit(1), F.lit(2))))
    )
    fetched = F.col("end") - F.when((F.col("at") + F.col("broker_id")) % 2 == 0, 10).otherwise(20)
    mark = F.greatest(F.lit(0), F.col("end") - 20) - F.when(F.col("at") % 1000 > 995, 5).otherwise(0)
    frame.select(
        F.lit("benchmark").alias("topic"),
        "partition",
        (F.col("at") * 1000 + 1_700_000_000_000).alias("time_ms"),
        F.lit(0).cast("bigint").alias("sequence"),
        F.lit(0).alias("leader_id"),
        (F.col("at") / 10_000).cast("int").alias("leader_epoch"),
        F.array(F.lit(0), F.lit(1), F.lit(2)).alias("isr"),
        F.lit(None).cast("array<int>").alias("pending_isr"),
        F.lit(2).alias("min_insync_replicas"),
        F.lit(None).cast("bigint").alias("lag_time_ms"),
        "broker_id",
        F.when(F.col("broker_id") != 0, F.greatest(F.lit(0), fetched)).alias("known_log_end_offset"),
        F.col("end").alias("log_end_offset"),
        F.lit(None).cast("bigint").alias("last_caught_up_ms"),
        F.when(F.col("broker_id") == 0, F.greatest(F.lit(0), mark)).alias("high_watermark"),
        F.lit(None).cast("boolean").alias("eligible"),
    ).write.parquet(path)


def least_time(work: Callable[[], None]) -> float:
    """Seconds of the fastest run."""
    times = []
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        work()
        times.append(time.perf_counter() - begin)
    return min(times)


def main() -> int:
    """Measure, print, and say by the exit status whether the target holds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--observations", type=int, default=1_000_000)
    parser.add_argument("--partitions", type=int, default=1_000)
    parser.add_argument("--conf", action="append", default=[], help="a setting of Spark, KEY=VALUE; repeatable")
    arguments = parser.parse_args()
    from pyspark.sql import functions as F
    from pyspark.sql.window import Window

    from replica_audit.protocol.high_watermark_rule import rule_of
    from replica_audit.spark.session import build_session
    from replica_audit.spark.timeline_job import recompute

    settings = dict(setting.split("=", 1) for setting in arguments.conf)
    spark = build_session("benchmark timeline", settings, local=True)
    with tempfile.TemporaryDirectory() as directory:
        path = f"{directory}/replica_progress"
        make_progress(spark, arguments.observations, arguments.partitions, path)
        progress = spark.read.parquet(path)
        order = Window.partitionBy("topic", "partition").orderBy("time_ms", "sequence")

        def plain() -> None:
            before = F.lag("high_watermark").over(order)
            progress.withColumn("before", before).write.format("noop").mode("overwrite").save()

        def timeline() -> None:
            recompute(progress, rule_of((4, 3))).write.format("noop").mode("overwrite").save()

        window, rows = least_time(plain), least_time(timeline)
    rate = arguments.observations / rows
    print(
        f"{arguments.observations} observations of {arguments.partitions} partitions, {3 * arguments.observations} rows"
    )
    print(f"  plain window {window:.1f} s, timeline with its summary {rows:.1f} s ({rate:,.0f} observations/s)")
    print(f"  the timeline takes {rows / window:.1f} times as long as the plain window (target: at most {TARGET})")
    spark.stop()
    return 0 if rows / window <= TARGET else 1


if __name__ == "__main__":
    sys.exit(main())
