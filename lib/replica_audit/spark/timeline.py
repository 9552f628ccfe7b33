"""The timeline of the high watermark as a Spark job: `protocol/timeline.py` in window functions.

One shuffle by partition, then sorts within it: an observation is a group of rows, a leadership a run of observations,
and what the leader had reached is a running maximum. Nothing is collected, and no row passes through Python.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from replica_audit.auditing.timeline import GREATEST_RUNS
from replica_audit.protocol.observations import AHEAD, REGRESSED, STUCK
from replica_audit.protocol.timeline import HOLD_FACTOR, Rule

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_PLACE = ("topic", "partition")
_MOMENT = ("time_ms", "sequence")
_OF_LEADER = ("leader_epoch", "leader_id", "isr", "pending_isr", "min_insync_replicas", "lag_time_ms")
_OF_REPLICA = ("broker_id", "known_log_end_offset", "log_end_offset", "last_caught_up_ms", "high_watermark", "eligible")

#: Columns of a row, beyond those of `high_watermark_timeline`: whether a deviation lasted.
ROW_COLUMNS = (
    *_PLACE, *_MOMENT, "occasion", "leader_id", "leader_epoch", "isr", "hw_recomputed", "hw_observed", "deviation",
    "limiting_broker_id", "leader_log_end_offset", "waiting_since_ms", "lasting",
)  # fmt: skip


def recompute(progress: DataFrame, rule: Rule) -> DataFrame:
    """`ROW_COLUMNS` for every observation in `progress` (rows of the bronze table `replica_progress`)."""
    return _compare_with_rule(_see_as_rule(_follow_leaderships(_gather_observations(progress)), rule))


def summarise(timeline: DataFrame) -> DataFrame:
    """topic, partition and the columns of `auditing.timeline.TimelineSummary`, one row per partition."""
    from pyspark.sql import functions as F
    from pyspark.sql.window import Window

    order = Window.partitionBy(*_PLACE).orderBy(*_MOMENT)
    held = F.coalesce((F.col("deviation") == STUCK) & (F.col("hw_observed") == F.col("hw_recomputed")), F.lit(False))
    key = F.when(F.col("deviation").isNotNull(), F.struct("leader_id", "leader_epoch", "deviation", held.alias("held")))
    marked = timeline.withColumn("key", key).withColumn("starts", ~F.col("key").eqNullSafe(F.lag("key").over(order)))
    marked = marked.withColumn("run", F.sum(F.col("starts").cast("bigint")).over(order))
    extent = timeline.groupBy(*_PLACE).agg(
        F.count(F.lit(1)).alias("observations"), F.min("time_ms").alias("first_ms"), F.max("time_ms").alias("last_ms")
    )
    run = F.struct(
        "deviation", "held", "leader_id", "leader_epoch",
        F.when(F.col("held"), F.col("waiting_since_ms")).otherwise(F.col("start_ms")).alias("start_ms"),
        "end_ms", F.col("count").alias("observations"), "least_observed", "greatest_observed", "least_recomputed",
        "greatest_recomputed", "leader_log_end_offset", "limiting_broker_id", "lasting",
    )  # fmt: skip
    runs = (
        marked.where(F.col("key").isNotNull())
        .groupBy(*_PLACE, "run")
        .agg(
            F.first("key").alias("key"),
            F.min("waiting_since_ms").alias("waiting_since_ms"),
            F.min("time_ms").alias("start_ms"),
            F.max("time_ms").alias("end_ms"),
            F.count(F.lit(1)).alias("count"),
            F.min("hw_observed").alias("least_observed"),
            F.max("hw_observed").alias("greatest_observed"),
            F.min("hw_recomputed").alias("least_recomputed"),
            F.max("hw_recomputed").alias("greatest_recomputed"),
            F.max("leader_log_end_offset").alias("leader_log_end_offset"),
            F.max(F.struct(*_MOMENT, "limiting_broker_id")).getField("limiting_broker_id").alias("limiting_broker_id"),
            F.max("lasting").alias("lasting"),
        )
        .select(*_PLACE, "run", "key.*", "waiting_since_ms", *_RUN_VALUES)
        .withColumn("number", F.row_number().over(Window.partitionBy(*_PLACE).orderBy("run")))
        .groupBy(*_PLACE)
        .agg(
            F.count(F.lit(1)).cast("int").alias("run_count"),
            F.sort_array(
                F.collect_list(F.when(F.col("number") <= GREATEST_RUNS, F.struct("number", run.alias("run"))))
            ).alias("runs"),
        )
    )
    joined = extent.join(runs, [*_PLACE], "left")
    none = F.array().cast(runs.schema["runs"].dataType)
    return joined.select(
        *_PLACE, "observations", "first_ms", "last_ms", F.coalesce("run_count", F.lit(0)).alias("run_count"),
        F.coalesce("runs", none).getField("run").alias("runs"),
    )  # fmt: skip


_RUN_VALUES = (
    "start_ms", "end_ms", "count", "least_observed", "greatest_observed", "least_recomputed", "greatest_recomputed",
    "leader_log_end_offset", "limiting_broker_id", "lasting",
)  # fmt: skip


def _gather_observations(progress: DataFrame) -> DataFrame:
    """One row per observation: what its rows say of the leader, and `replicas`, an array by broker id."""
    from pyspark.sql import functions as F

    grouped = (
        progress.repartition(*_PLACE)
        .groupBy(*_PLACE, *_MOMENT)
        .agg(
            F.max(F.struct(*_OF_LEADER)).alias("leader"),
            F.sort_array(F.collect_list(F.struct(*_OF_REPLICA))).alias("replicas"),
        )
    )
    # Of two rows of one replica the greater counts: the last in this order.
    last = F.filter(
        "replicas",
        lambda one, at: (
            (at == F.size("replicas") - 1) | (F.get(F.col("replicas"), at + 1)["broker_id"] != one["broker_id"])
        ),
    )
    return grouped.select(*_PLACE, *_MOMENT, "leader.*", last.alias("replicas"))


def _follow_leaderships(observations: DataFrame) -> DataFrame:
    """With `occasion`, whether it is the `first` of its leadership, and the number of that."""
    from pyspark.sql import functions as F
    from pyspark.sql.window import Window

    order = Window.partitionBy(*_PLACE).orderBy(*_MOMENT)
    led = F.get(F.filter("replicas", lambda one: one["broker_id"] == F.col("leader_id")), F.lit(0))
    others = F.filter("replicas", lambda one: ~one["broker_id"].eqNullSafe(F.col("leader_id")))
    fetched = F.transform(
        "others", lambda one: F.struct(one["broker_id"], one["known_log_end_offset"], one["last_caught_up_ms"])
    )
    seen = (
        observations.withColumn("led", led)
        .withColumn("others", others)
        .withColumn("leader_end", F.coalesce(F.col("led")["log_end_offset"], F.col("led")["known_log_end_offset"]))
        .withColumn("observed", F.col("led")["high_watermark"])
        .withColumn("fetched", fetched)
        .withColumn("before", F.lag(F.struct("leader_id", "leader_epoch", "isr", "fetched", "leader_end")).over(order))
    )
    before = F.col("before")
    changed = ~(
        before["leader_id"].eqNullSafe(F.col("leader_id")) & before["leader_epoch"].eqNullSafe(F.col("leader_epoch"))
    )
    none = F.array().cast("array<int>")
    same_isr = F.sort_array(F.coalesce(before["isr"], none)) == F.sort_array(F.coalesce("isr", none))
    occasion = (
        F.when(before.isNull(), "start")
        .when(F.col("first"), "leader")
        .when(~same_isr, "isr")
        .when(~before["fetched"].eqNullSafe(F.col("fetched")), "fetch")
        .when(F.col("leader_end") > before["leader_end"], "append")
        .otherwise("none")
    )
    return (
        seen.withColumn("first", before.isNull() | changed)
        .withColumn("occasion", occasion)
        .withColumn("leadership", F.sum(F.col("first").cast("bigint")).over(order))
        .drop("before", "fetched", "led")
    )


def _see_as_rule(observations: DataFrame, rule: Rule) -> DataFrame:
    """With what each observation allows: `protocol.timeline._View`, in columns."""
    from pyspark.sql import functions as F

    none = F.array().cast("array<int>")
    pending = F.coalesce("pending_isr", none) if rule.pending_isr else none
    members = F.array_except(F.array_union(F.coalesce("isr", none), pending), F.array("leader_id"))
    known = "known_log_end_offset"

    def holds(one: Column) -> Column:
        if rule.eligibility is False:
            return F.lit(True)
        return one["eligible"] if rule.eligibility else F.when(one["eligible"], True)

    def surely(one: Column) -> Column:
        return F.coalesce(holds(one), F.lit(False)) & one[known].isNotNull()

    def least_of(array: str, value) -> Column:
        return F.array_min(F.transform(array, value))

    lag_time = F.coalesce("lag_time_ms", F.lit(rule.lag_time_ms))
    caught_up = F.filter(
        "others",
        lambda one: (
            ~F.array_contains("members", one["broker_id"])
            & F.coalesce(F.col("time_ms") - one["last_caught_up_ms"] <= F.col("lag_time"), F.lit(False))
            & F.coalesce(holds(one), F.lit(True))
        ),
    )
    ends = F.transform(
        "sure",
        lambda one: F.struct(F.coalesce(one[known], one["log_end_offset"]).alias("end"), one["broker_id"].alias("id")),
    )
    least = F.array_min(F.filter(ends, lambda one: one["end"].isNotNull()))
    seen = F.size(F.filter("in_sync", lambda one: one[known].isNotNull())) == F.size("members")
    reached = least_of("in_sync", lambda one: F.greatest(F.when(one[known] >= 0, one[known]), one["log_end_offset"]))
    size = F.size("isr")
    needed = F.least(
        F.coalesce("min_insync_replicas", F.lit(0)),
        F.greatest(F.size("replicas"), F.coalesce(F.when(F.col("isr").isNotNull(), size), F.lit(0))),
    )
    gated = F.col("isr").isNotNull() & (size < F.col("needed")) if rule.min_isr_gate is not False else F.lit(False)
    sure_gate = (F.col("gated") & ~F.col("first")) if rule.min_isr_gate else F.lit(False)
    fetched = F.transform("others", lambda one: F.coalesce(one[known], F.lit(2**63 - 1)))
    ceiling = F.least("leader_end", F.get(F.sort_array(fetched, asc=False), F.col("needed") - 2))
    high = (
        F.when(sure_gate, ceiling)
        .when(F.col("first"), F.least("leader_end", least_of("sure", lambda one: F.when(one[known] >= 0, one[known]))))
        .when(F.col("complete"), F.col("limit"))
        .otherwise(F.col("leader_end"))
    )
    low = F.when(F.col("complete") & ~F.col("gated"), F.col("due"))
    inside = F.greatest(F.when(F.col("observed").isNotNull(), F.least("observed", high)), low)
    frame = (
        observations.withColumn("members", members)
        .withColumn("lag_time", lag_time)
        .withColumn("in_sync", F.filter("others", lambda one: F.array_contains("members", one["broker_id"])))
        .withColumn("caught_up", caught_up)
        .withColumn("sure", F.concat("in_sync", F.filter("caught_up", surely)))
        .withColumn("perhaps", F.filter("caught_up", lambda one: ~surely(one)))
        .withColumn("complete", F.col("leader_end").isNotNull() & F.col("isr").isNotNull() & seen)
        .withColumn("least", least)
        .withColumn("below", F.coalesce(F.col("least")["end"] < F.col("leader_end"), F.lit(False)))
        .withColumn("limiting_broker_id", F.when(F.col("below"), F.col("least")["id"]))
        .withColumn("limit", F.when(F.col("below"), F.col("least")["end"]).otherwise(F.col("leader_end")))
        .withColumn("needed", needed)
        .withColumn("gated", gated)
    )
    unknown = F.exists("perhaps", lambda one: one[known].isNull())
    due = F.when(
        ~unknown & (F.col("occasion") != "none"), F.least("limit", least_of("perhaps", lambda one: one[known]))
    )
    frame = frame.withColumn("due", due).withColumn("shared", reached)
    allowed = F.when(F.col("leader_end").isNull(), F.col("observed")).otherwise(inside)
    return frame.withColumn("allowed", allowed).withColumn("hold_ms", F.col("lag_time") * F.lit(HOLD_FACTOR))


def _compare_with_rule(seen: DataFrame) -> DataFrame:
    """`ROW_COLUMNS`: what was reached, and where the observed value is off."""
    from pyspark.sql import functions as F
    from pyspark.sql.window import Window

    order = Window.partitionBy(*_PLACE, "leadership").orderBy(*_MOMENT)
    so_far, earlier = order.rowsBetween(Window.unboundedPreceding, 0), order.rowsBetween(Window.unboundedPreceding, -1)
    observed, end, due_before = F.col("observed"), F.col("leader_end"), F.col("due_before")
    frame = (
        seen.withColumn("reached", F.max("allowed").over(so_far))
        .withColumn("due_before", F.max("allowed").over(earlier))
        .withColumn("last_observed", F.last("observed", ignorenulls=True).over(earlier))
        .withColumn("waits", F.coalesce(end > observed, F.lit(False)))
        .withColumn("waited", F.coalesce(F.lag("waits").over(order), F.lit(False)))
        .withColumn("fresh", ~F.col("waited") | ~observed.eqNullSafe(F.col("last_observed")))
    )
    since = F.last(F.when(F.col("waits") & F.col("fresh"), F.col("time_ms")), ignorenulls=True).over(so_far)
    overtaken = F.coalesce(F.least("observed", "last_observed") > F.col("shared"), F.lit(False))
    overtaken = overtaken & observed.isNotNull() & F.col("last_observed").isNotNull()
    shown = F.when(F.col("complete") | observed.isNotNull() | F.col("isr").isNull(), F.col("reached"))
    shown = shown.otherwise(F.greatest("reached", "limit"))
    frame = (
        frame.withColumn("waiting_since_ms", F.when(F.col("waits"), since))
        .withColumn("hw_recomputed", F.when(overtaken, F.col("shared")).otherwise(shown))
        .withColumn(
            "held",
            F.coalesce(F.col("time_ms") - F.col("waiting_since_ms") > F.col("hold_ms"), F.lit(False)) & ~F.col("gated"),
        )
    )
    recomputed = F.col("hw_recomputed")
    deviation = F.when(observed.isNotNull() & recomputed.isNotNull(), F.when(observed > recomputed, AHEAD)
        .when(observed < F.col("last_observed"), REGRESSED)
        .when((observed < recomputed) | F.col("held"), STUCK))  # fmt: skip
    lasting = F.coalesce(
        F.col("deviation").isNotNull()
        & ((F.col("deviation") != STUCK) | (observed == recomputed) | F.coalesce(observed < due_before, F.lit(False))),
        F.lit(False),
    )
    return (
        frame.withColumn("deviation", deviation)
        .withColumn("lasting", lasting)
        .withColumn("isr", F.sort_array("isr"))
        .withColumnRenamed("observed", "hw_observed")
        .withColumnRenamed("leader_end", "leader_log_end_offset")
        .select(*ROW_COLUMNS)
    )
