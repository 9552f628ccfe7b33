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
    from pyspark.sql import DataFrame

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
    return _compare_with_rule(_see_as_rule(_follow_leaderships(_gather_observations(progress, rule)), rule))


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


def _gather_observations(progress: DataFrame, rule: Rule) -> DataFrame:
    """One row per observation: what its rows say of the leader, and what its replicas come to under the rule.

    Everything about a single replica is decided in its own row, so that observations are plain aggregates of numbers.
    """
    from pyspark.sql import functions as F
    from pyspark.sql.window import Window

    known, own = F.col("known_log_end_offset"), F.col("log_end_offset")
    none = F.array().cast("array<int>")
    pending = F.coalesce("pending_isr", none) if rule.pending_isr else none
    rows = _see_leaders(progress).withColumn(
        "members", F.array_except(F.array_union(F.coalesce("isr", none), pending), F.array("leader_id"))
    )
    leads = F.coalesce(F.col("broker_id") == F.col("leader_id"), F.lit(False))
    lag_time = F.coalesce("lag_time_ms", F.lit(rule.lag_time_ms))
    caught_up = F.coalesce(F.col("time_ms") - F.col("last_caught_up_ms") <= lag_time, F.lit(False))
    holds = F.lit(True)
    if rule.eligibility is not False:
        holds = F.col("eligible") if rule.eligibility else F.when(F.col("eligible"), True)
    outside = ~F.col("leads") & ~F.col("member")
    sure = F.col("member") | (F.col("caught_up") & outside & F.coalesce(holds, F.lit(False)) & known.isNotNull())
    inside = F.coalesce(F.array_contains("members", F.col("broker_id")), F.lit(False))
    rows = (
        rows.withColumn("leads", leads)
        .withColumn("member", ~F.col("leads") & inside)
        .withColumn("caught_up", caught_up)
        .withColumn("sure", sure)
        .withColumn("perhaps", F.col("caught_up") & outside & ~F.col("sure") & F.coalesce(holds, F.lit(True)))
    )
    end = F.coalesce(known, own)
    unknown = F.lit(-(2**63))
    fetch = F.xxhash64("broker_id", F.coalesce(known, unknown), F.coalesce("last_caught_up_ms", unknown))
    limit = F.struct(end.alias("end"), F.col("broker_id").alias("id"))
    reached = F.greatest(F.when(known >= 0, known), own)
    aggregates = [
        *(F.first(name).alias(name) for name in (*_OF_LEADER, "members")),
        F.max(F.when(F.col("leads"), F.coalesce(own, known))).alias("leader_end"),
        F.max(F.when(F.col("leads"), F.col("high_watermark"))).alias("observed"),
        F.count(F.lit(1)).alias("replicas"),
        F.bit_xor(F.when(~F.col("leads"), fetch)).alias("fetched"),
        F.count(F.when(F.col("member") & known.isNotNull(), 1)).alias("seen"),
        F.min(F.when(F.col("sure") & end.isNotNull(), limit)).alias("least"),
        F.min(F.when(F.col("sure") & (known >= 0), known)).alias("fetched_from"),
        F.min(F.when(F.col("perhaps"), known)).alias("perhaps_known"),
        F.max(F.col("perhaps") & known.isNull()).alias("perhaps_unknown"),
        F.min(F.when(F.col("member"), reached)).alias("shared"),
    ]
    if rule.min_isr_gate:
        # Collected in a window: a collecting aggregate would sort all rows once more.
        ends = F.collect_list(F.when(~F.col("leads"), F.coalesce(known, F.lit(2**63 - 1))))
        rows = rows.withColumn("known_ends", ends.over(Window.partitionBy(*_PLACE, *_MOMENT)))
        aggregates.append(F.sort_array(F.first("known_ends"), asc=False).alias("known_ends"))
    return rows.groupBy(*_PLACE, *_MOMENT).agg(*aggregates)


def _see_leaders(progress: DataFrame) -> DataFrame:
    """Rows with what their observation says of the leader, one for each replica.

    Where rows of one observation disagree, and of two rows of one replica, the greater counts.
    """
    from pyspark.sql import functions as F
    from pyspark.sql.window import Window

    moment = Window.partitionBy(*_PLACE, *_MOMENT)
    following = F.lead("broker_id").over(moment.orderBy(*_OF_REPLICA))
    return (
        progress.repartition(*_PLACE)
        .withColumn("following", following)
        .withColumn("leader", F.max(F.struct(*_OF_LEADER)).over(moment))
        .where(F.col("following").isNull() | (F.col("following") != F.col("broker_id")))
        .select(*_PLACE, *_MOMENT, *_OF_REPLICA, "leader.*")
    )


def _follow_leaderships(observations: DataFrame) -> DataFrame:
    """With `occasion`, whether it is the `first` of its leadership, and the number of that."""
    from pyspark.sql import functions as F
    from pyspark.sql.window import Window

    order = Window.partitionBy(*_PLACE).orderBy(*_MOMENT)
    state = F.struct("leader_id", "leader_epoch", "isr", "fetched", "leader_end")
    before = F.col("before")
    same_leader = before["leader_id"].eqNullSafe(F.col("leader_id"))
    same_leader = same_leader & before["leader_epoch"].eqNullSafe(F.col("leader_epoch"))
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
        observations.withColumn("before", F.lag(state).over(order))
        .withColumn("first", before.isNull() | ~same_leader)
        .withColumn("occasion", occasion)
        .withColumn("leadership", F.sum(F.col("first").cast("bigint")).over(order))
        .drop("before", "fetched")
    )


def _see_as_rule(observations: DataFrame, rule: Rule) -> DataFrame:
    """With what each observation allows: `protocol.timeline._View`, in columns."""
    from pyspark.sql import functions as F

    end, limit = F.col("leader_end"), F.col("limit")
    isr_known, size = F.col("isr").isNotNull(), F.size("isr")
    complete = end.isNotNull() & isr_known & (F.col("seen") == F.size("members"))
    below = F.coalesce(F.col("least")["end"] < end, F.lit(False))
    replicas = F.greatest(F.col("replicas"), F.when(isr_known, size.cast("bigint")))
    needed = F.least(F.coalesce("min_insync_replicas", F.lit(0)).cast("bigint"), replicas)
    gated = F.lit(False) if rule.min_isr_gate is False else isr_known & (size < F.col("needed"))
    high = F.when(F.col("first"), F.least("leader_end", "fetched_from")).when(F.col("complete"), limit).otherwise(end)
    if rule.min_isr_gate:
        ceiling = F.least("leader_end", F.get("known_ends", F.col("needed").cast("int") - 2))
        high = F.when(F.col("gated") & ~F.col("first"), ceiling).otherwise(high)
    due = F.when(~F.col("perhaps_unknown") & (F.col("occasion") != "none"), F.least("limit", "perhaps_known"))
    low = F.when(F.col("complete") & ~F.col("gated"), due)
    inside = F.greatest(F.when(F.col("observed").isNotNull(), F.least(F.col("observed"), high)), low)
    return (
        observations.withColumn("complete", complete)
        .withColumn("limit", F.when(below, F.col("least")["end"]).otherwise(end))
        .withColumn("limiting_broker_id", F.when(below, F.col("least")["id"]))
        .withColumn("needed", needed)
        .withColumn("gated", gated)
        .withColumn("allowed", F.when(end.isNull(), F.col("observed")).otherwise(inside))
        .withColumn("hold_ms", F.coalesce("lag_time_ms", F.lit(rule.lag_time_ms)) * F.lit(HOLD_FACTOR))
    )


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
