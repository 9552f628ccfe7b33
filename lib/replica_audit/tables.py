"""The tables of the warehouse and of audit.json: names, columns, types. Nothing else spells a column's type.

A column is (name, type); types are Spark DDL, since that is what the warehouse is made of. Offsets are `bigint`.
Rows travel as plain dicts with exactly these keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from replica_audit.batch_header import BATCH_FIELDS


class Column(NamedTuple):
    """A column's name and its type in Spark DDL."""

    name: str
    type: str


def _columns(text: str) -> tuple[Column, ...]:
    return tuple(Column(*line.split(None, 1)) for line in text.strip().splitlines())


_EPOCHS = "array<array<bigint>>"
_STEPS = (
    "array<struct<request_epoch:int,leader_epoch:int,leader_end_offset:bigint,"
    "replica_epoch:int,replica_end_offset:bigint,truncate_to:bigint>>"
)
_EVIDENCE = "array<struct<kind:string,broker_id:int,path:string,position:bigint,value:string,text:string>>"
_SEVERITIES = "struct<critical:int,high:int,medium:int,low:int,info:int>"

#: One row per change of a partition's state; a listing or a user gives one without time. `fenced` is in the last row only.
_PARTITION_STATES = _columns("""
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
configs map<string,string>
sole_isr struct<min_isr:int,others_fenced:string,applied:string>
""")

#: Columns that begin every table.
SNAPSHOT_COLUMNS = _columns("""
cluster_id string
snapshot_id string
""")

#: Columns that begin every bronze table: the attempt that wrote a row too.
INGEST_COLUMNS = (*SNAPSHOT_COLUMNS, Column("ingest_id", "string"))

#: Columns that begin every report table.
AUDIT_COLUMNS = (*SNAPSHOT_COLUMNS, Column("audit_id", "string"))

#: Columns that name a segment file in front of each of its batches.
SEGMENT_COLUMNS = _columns("""
broker_id int
log_dir string
topic string
partition int
segment_base_offset bigint
""")

#: As ingested, without `INGEST_COLUMNS`.
BRONZE_TABLES: dict[str, tuple[Column, ...]] = {
    "snapshots": _columns("""
uri string
location string
last_changes string
manifest string
log_dir_count int
replica_count int
segment_count int
size_bytes bigint
inventory map<string,bigint>
"""),
    "replica_dirs": _columns("""
broker_id int
log_dir string
topic string
partition int
path string
topic_id string
clean_shutdown boolean
directory_id string
epoch_file struct<state:string,path:string,problem:string>
high_watermark_file struct<state:string,path:string,problem:string>
recovery_point_file struct<state:string,path:string,problem:string>
log_start_file struct<state:string,path:string,problem:string>
cleaner_file struct<state:string,path:string,problem:string>
problem string
segment_bases array<bigint>
index_bases array<bigint>
"""),
    "segments": _columns("""
broker_id int
log_dir string
topic string
partition int
path string
base_offset bigint
size_bytes bigint
batch_count bigint
record_count bigint
last_offset bigint
tail_kind string
tail_length bigint
summary string
batch_file string
batch_row bigint
last_change string
last_position bigint
headers string
"""),
    "batches": (*SEGMENT_COLUMNS, *(Column(name, stored.ddl) for name, stored in BATCH_FIELDS.items())),
    "leader_epochs": _columns("""
broker_id int
log_dir string
topic string
partition int
entry int
leader_epoch int
start_offset bigint
"""),
    "offset_checkpoints": _columns("""
broker_id int
log_dir string
file string
topic string
partition int
value bigint
"""),
    "partition_states": _PARTITION_STATES,
    "replica_progress": _columns("""
topic string
partition int
time_ms bigint
sequence bigint
leader_id int
leader_epoch int
isr array<int>
pending_isr array<int>
min_insync_replicas int
lag_time_ms bigint
broker_id int
known_log_end_offset bigint
log_end_offset bigint
last_caught_up_ms bigint
high_watermark bigint
eligible boolean
problem string
"""),
    "broker_log_events": _columns("""
topic string
partition int
broker_id int
path string
line int
kind string
clock_ms bigint
time string
leader_epoch int
partition_epoch int
offset bigint
high_watermark bigint
leader_id int
isr array<int>
leads boolean
topic_id string
final boolean
problem string
"""),
    "quarantine": _columns("""
broker_id int
topic string
partition int
path string
position bigint
length bigint
code string
reason string
"""),
}

#: Rows of records, which are in no table: the data source makes them. A row with a `problem` has no record.
RECORD_COLUMNS = _columns("""
broker_id int
log_dir string
topic string
partition int
segment_base_offset bigint
batch_base_offset bigint
offset bigint
leader_epoch int
magic tinyint
timestamp_ms bigint
log_append_time boolean
producer_id bigint
producer_epoch smallint
sequence int
transactional boolean
control boolean
key_size int
value_size int
header_count int
problem string
""")

#: The same with what the record holds, only where the user asks for payloads.
PAYLOAD_COLUMNS = _columns("""
key binary
value binary
headers array<struct<name:string,value:binary>>
""")

#: Answers, without `AUDIT_COLUMNS`; in this order in audit.json. Rows are sorted by `SORT_KEYS`.
REPORT_TABLES: dict[str, tuple[Column, ...]] = {
    "partitions": _columns(f"""
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
findings {_SEVERITIES}
"""),
    "replicas": _columns(f"""
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
    "high_watermarks": _columns("""
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
    "partition_states": _PARTITION_STATES,
    "high_watermark_timeline": _columns("""
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
    "divergences": _columns("""
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
    "truncations": _columns(f"""
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
    "verifications": _columns("""
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
    "elections": _columns("""
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
standing string
clean boolean
choice string
reason string
"""),
    "group_offsets": _columns("""
group string
topic string
partition int
committed_offset bigint
leader_epoch int
committed_ms bigint
effect string
parted_at bigint
"""),
    "lost_producers": _columns("""
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
    "findings": _columns(f"""
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
    "quarantine": _columns("""
broker_id int
path string
position bigint
length bigint
code string
reason string
"""),
    "quality": _columns("""
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
    "gone_records": _columns("""
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
    "surprises": _columns("""
topic string
partition int
broker_id int
what string
predicted string
found string
"""),
    "not_verified": _columns("""
topic string
partition int
reason string
expected boolean
"""),
}

#: What the quality suites look at beside the tables themselves: one row for each replica and for each partition, every
#: number 0 in a sound log, null where the question does not arise. `place` names the row in words.
FACT_TABLES: dict[str, tuple[Column, ...]] = {
    "replica_facts": _columns("""
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
    "partition_facts": _columns("""
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

AUDITS = _columns("""
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
options string
""")


#: Raised when rows get a meaning that an earlier version would misread. A new column is not such a change: older readers ignore it.
SCHEMA_VERSION = 1


def ddl(columns: Iterable[Column]) -> str:
    """Spark DDL of `columns`, e.g. for `StructType.fromDDL`."""
    return ", ".join(f"`{column.name}` {column.type}" for column in columns)


def sort_key(row: Mapping[str, Any]) -> list:
    """What `sort_rows` orders by: a row without a key's value comes before those with one."""
    values = (row.get(name) for name in SORT_KEYS)
    return [(value is not None, value if value is not None else 0) for value in values]


def sort_rows(rows: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Rows in the order of `SORT_KEYS`."""
    return sorted(rows, key=sort_key)
