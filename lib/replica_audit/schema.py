"""Columns, and the tables of answers and facts: in the warehouse, in audit.json, and in what `verify` prints.

A column is (name, type); types are Spark DDL, since that is what the warehouse is made of. Offsets are `bigint`. Rows
travel as plain dicts with exactly these keys. Tables of what is read are in `bronze_tables`; nothing else spells a column's
type.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple


class Column(NamedTuple):
    """A column's name and its type in Spark DDL."""

    name: str
    type: str


def columns(text: str) -> tuple[Column, ...]:
    """Columns out of lines of a name and a type."""
    return tuple(Column(*line.split(None, 1)) for line in text.strip().splitlines())


_EPOCHS = "array<array<bigint>>"
_STEPS = (
    "array<struct<request_epoch:int,leader_epoch:int,leader_end_offset:bigint,"
    "replica_epoch:int,replica_end_offset:bigint,truncate_to:bigint>>"
)
_EVIDENCE = "array<struct<kind:string,broker_id:int,path:string,position:bigint,value:string,text:string>>"
_SEVERITIES = "struct<critical:int,high:int,medium:int,low:int,info:int>"
#: One row per change of a partition's state; a listing or a user gives one without time. `fenced` and `fenced_since` are in the last row only.
PARTITION_STATES = columns("""
topic string
partition int
source string
entry int
time_ms bigint
metadata_offset bigint
occasion string
uncommitted boolean
topic_id string
leader_id int
leader_epoch int
partition_epoch int
isr array<int>
elr array<int>
last_known_elr array<int>
recovering boolean
replicas array<int>
removing array<int>
adding array<int>
directories array<string>
fenced array<int>
fenced_since map<string,bigint>
configs map<string,string>
sole_isr struct<min_isr:int,others_fenced:string,applied:string>
lacked_by array<int>
overtaken boolean
leader_stopped boolean
crashed array<int>
""")
#: Columns that begin every table.
SNAPSHOT_COLUMNS = columns("""
cluster_id string
snapshot_id string
""")
#: Columns that begin every bronze table: the attempt that wrote a row too.
INGEST_COLUMNS = (*SNAPSHOT_COLUMNS, Column("ingest_id", "string"))
#: Columns that begin every report table.
AUDIT_COLUMNS = (*SNAPSHOT_COLUMNS, Column("audit_id", "string"))
#: Answers, without `AUDIT_COLUMNS`; in this order in audit.json. Rows are sorted by `SORT_KEYS`.
REPORT_TABLES: dict[str, tuple[Column, ...]] = {
    "partitions": columns(f"""
topic string
partition int
topic_id string
verdict string
leader_id int
reference_id int
leader_epoch int
isr array<int>
under_replicated boolean
unread_replicas array<int>
hw_lower bigint
hw_upper bigint
max_lag_records bigint
max_lag_bytes bigint
dropped_records bigint
committed_dropped bigint
promised_dropped bigint
lost_records bigint
lost_committed bigint
lost_at_most boolean
lost_at_least boolean
holders array<struct<broker_id:int,records:bigint,committed:bigint,only_here:bigint,committed_only_here:bigint>>
findings {_SEVERITIES}
"""),
    "replicas": columns(f"""
topic string
partition int
broker_id int
log_dir string
topic_id string
role string
is_leader boolean
in_isr boolean
log_start_offset bigint
log_end_offset bigint
loaded_log_end_offset bigint
recovered_log_end_offset bigint
high_watermark_checkpoint bigint
recovery_point_checkpoint bigint
epochs {_EPOCHS}
checkpoint_epochs {_EPOCHS}
batch_count bigint
record_count bigint
size_bytes bigint
tail_kind string
clean_shutdown boolean
compacted boolean
unexplained_gaps bigint
common_prefix_end bigint
lost_held bigint
lost_committed_held bigint
lost_only_here bigint
lost_committed_only_here bigint
"""),
    "captures": columns("""
topic string
partition int
broker_id int
log_dir string
state string
named_by array<string>
missing array<string>
needed string
"""),
    "high_watermarks": columns("""
topic string
partition int
leader_id int
reference_id int
leader_epoch int
isr array<int>
leadership_source string
hw_lower bigint
hw_upper bigint
proven_lower bigint
exact boolean
method string
lower_evidence string
upper_evidence string
limiting_broker_id int
leader_log_end_offset bigint
"""),
    "partition_states": PARTITION_STATES,
    "high_watermark_timeline": columns("""
topic string
partition int
time_ms bigint
sequence bigint
occasion string
leader_id int
leader_epoch int
isr array<int>
hw_recomputed bigint
hw_observed bigint
deviation string
limiting_broker_id int
leader_log_end_offset bigint
waiting_since_ms bigint
lasting boolean
"""),
    "divergences": columns("""
topic string
partition int
broker_id int
reference_id int
start_offset bigint
end_offset bigint
code string
leader_epoch int
replica_epoch int
record_count bigint
committed boolean
committed_records bigint
committed_evidence string
promised_records bigint
lost_records bigint
lost_committed bigint
first_timestamp_ms bigint
last_timestamp_ms bigint
"""),
    "truncations": columns(f"""
topic string
partition int
broker_id int
leader_id int
protocol string
truncate_to bigint
rounds int
reason string
steps {_STEPS}
dropped_records bigint
dropped_bytes bigint
common_prefix_end bigint
committed_dropped bigint
first_timestamp_ms bigint
last_timestamp_ms bigint
"""),
    "verifications": columns("""
topic string
partition int
broker_id int
leader_id int
end_before bigint
kept_to bigint
expected bigint
end_after bigint
lost_records bigint
lost_committed bigint
lost_possible bigint
verdict string
reason string
predicted bigint
"""),
    "elections": columns("""
topic string
partition int
candidate_id int
broker_id int
kept_to bigint
dropped_records bigint
dropped_bytes bigint
committed_dropped bigint
first_timestamp_ms bigint
last_timestamp_ms bigint
lost_held bigint
lost_records bigint
lost_committed bigint
lost_possible bigint
lost_at_most boolean
cut_transactions int
only_here bigint
hidden_records bigint
damage array<string>
beside array<struct<broker_id:int,log_dir:string,start_offset:bigint,end_offset:bigint,lost_held:bigint>>
standing string
clean boolean
choice string
reason string
"""),
    "group_offsets": columns("""
group string
topic string
partition int
committed_offset bigint
leader_epoch int
committed_ms bigint
effect string
parted_at bigint
"""),
    "lost_producers": columns("""
topic string
partition int
broker_id int
producer_id bigint
transactional boolean
transactional_id string
transaction_state string
start_offset bigint
end_offset bigint
record_count bigint
first_timestamp_ms bigint
last_timestamp_ms bigint
"""),
    "findings": columns(f"""
finding_id string
code string
severity string
confidence string
topic string
partition int
broker_id int
start_offset bigint
end_offset bigint
message string
evidence {_EVIDENCE}
status string
"""),
    "quarantine": columns("""
broker_id int
path string
position bigint
length bigint
code string
reason string
"""),
    "quality": columns("""
suite string
name string
table string
expectation string
column string
severity string
success boolean
element_count bigint
unexpected_count bigint
observed string
failing array<string>
description string
error string
status string
"""),
}
#: What `verify` prints as JSON: its tables are of two snapshots, and no audit has them.
VERIFICATION_TABLES: dict[str, tuple[Column, ...]] = {
    "verifications": REPORT_TABLES["verifications"],
    "gone_records": columns("""
topic string
partition int
start_offset bigint
end_offset bigint
leader_epoch int
record_count bigint
committed string
broker_ids array<int>
may_hold array<int>
first_timestamp_ms bigint
last_timestamp_ms bigint
"""),
    "surprises": columns("""
topic string
partition int
broker_id int
what string
predicted string
found string
"""),
    "not_verified": columns("""
topic string
partition int
reason string
expected boolean
"""),
}
#: Columns that rows are sorted by, where a table has them; null sorts first.
SORT_KEYS = (
    "topic",
    "partition",
    "broker_id",
    "protocol",
    "start_offset",
    "code",
    "candidate_id",
    "group",
    "source",
    "entry",
    "time_ms",
    "path",
    "position",
    "suite",
    "name",
)
AUDITS = columns("""
cluster_id string
snapshot_id string
audit_id string
ingest_id string
stage string
state string
started string
finished string
tool_version string
table_versions map<string,bigint>
row_counts map<string,bigint>
options string
""")
#: Raised when rows get a meaning that an earlier version would misread. A new column is not such a change: older readers ignore it.
SCHEMA_VERSION = 1


def ddl(columns: Iterable[Column]) -> str:
    """Spark DDL of `columns`, e.g. for `StructType.fromDDL`."""
    return ", ".join(f"`{column.name}` {column.type}" for column in columns)


_LACKING = (False, 0)


def row_order(rows: Iterable[Mapping[str, Any]]) -> Callable[[Mapping[str, Any]], list]:
    """The key that `rows` of one table are ordered by: a row without a key's value comes before those with one."""
    present: set[str] = set()
    for row in rows:
        present |= row.keys()
    names = [name for name in SORT_KEYS if name in present]
    return lambda row: [_LACKING if (value := row.get(name)) is None else (True, value) for name in names]


def sort_rows(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Rows of one table in the order of `SORT_KEYS`."""
    return sorted(rows, key=row_order(rows))


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
