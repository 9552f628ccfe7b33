"""Bronze: the tables of what a snapshot holds, as an ingest writes them, and the rows of records that the data source makes."""

from __future__ import annotations

from replica_audit.batch_header import BATCH_FIELDS
from replica_audit.schema import PARTITION_STATES, Column, columns

#: Columns that name a segment file in front of each of its batches.
SEGMENT_COLUMNS = columns("""
broker_id int
log_dir string
topic string
partition int
segment_base_offset bigint
""")

#: As ingested, without `INGEST_COLUMNS`.
BRONZE_TABLES: dict[str, tuple[Column, ...]] = {
    "snapshots": columns("""
uri string
location string
last_changes string
manifest string
log_dir_count int
brokers array<int>
replica_count int
segment_count int
size_bytes bigint
inventory map<string,bigint>
voters array<struct<node_id:int,log_dir:string,state:string,missing:array<string>>>
"""),
    "replica_dirs": columns("""
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
    "segments": columns("""
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
    "leader_epochs": columns("""
broker_id int
log_dir string
topic string
partition int
entry int
leader_epoch int
start_offset bigint
"""),
    "offset_checkpoints": columns("""
broker_id int
log_dir string
file string
topic string
partition int
value bigint
"""),
    "partition_states": PARTITION_STATES,
    "replica_progress": columns("""
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
    "broker_log_events": columns("""
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
    "quarantine": columns("""
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
RECORD_COLUMNS = columns("""
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
PAYLOAD_COLUMNS = columns("""
key binary
value binary
headers array<struct<name:string,value:binary>>
""")
