"""Facts: the tables that the quality suites look at beside those of the warehouse."""

from __future__ import annotations

from replica_audit.tables import Column, columns

#: What the quality suites look at beside the tables themselves: one row for each replica and for each partition, every
#: number 0 in a sound log, null where the question does not arise. `place` names the row in words.
FACT_TABLES: dict[str, tuple[Column, ...]] = {
    "replica_facts": columns("""
place string
topic string
partition int
broker_id int
log_dir string
is_leader boolean
in_isr boolean
compacted boolean
tail_kind string
batch_count bigint
log_start_offset bigint
log_end_offset bigint
wrong_crcs bigint
offset_gaps bigint
offset_regressions bigint
epoch_regressions bigint
high_watermark_above_end bigint
recovery_point_above_end bigint
high_watermark_below_start bigint
lineage_conflicts bigint
isr_shortfall bigint
"""),
    "partition_facts": columns("""
place string
topic string
partition int
verdict string
hw_lower bigint
hw_upper bigint
hw_width bigint
critical_findings bigint
high_findings bigint
medium_findings bigint
low_findings bigint
info_findings bigint
"""),
}
