"""Overview of a cluster: the state of each partition's replica on each broker, and a timeline of events over all partitions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, NamedTuple, get_args

from replica_audit.auditing.catalogue import at_or_above, codes_with
from replica_audit.report.facts.by_partition import rows_by_partition, served_rows
from replica_audit.report.facts.leadership_changes import find_changes
from replica_audit.results import PartitionRows, Results, present
from replica_audit.schema import CaptureRow, PartitionRow

#: State of a replica, worst first: not captured though the answer depends on it; holds records that the leader lacks; differs
#: from the leader; has damaged files; not captured; partly captured; out of sync; none of these.
ReplicaState = Literal["needed", "holds", "differs", "damaged", "missing", "partial", "out", "sound"]
REPLICA_STATES: tuple[ReplicaState, ...] = get_args(ReplicaState)

#: Event of a broker's replica: elected uncleanly, elected, left the ISR, joined it, wrote a record that the leader now lacks
#: and the replica still holds, log dir copied.
EventKind = Literal["unclean", "elected", "left", "joined", "lost", "captured"]
EVENT_KINDS: tuple[EventKind, ...] = get_args(EventKind)

#: Steps of time (ms) to which events are rounded down if each cannot have a line.
_STEPS = (1, 10, 100, 1_000, 10_000, 60_000, 600_000, 3_600_000, 86_400_000)
#: Maximum number of lines of events.
MOST_EVENTS = 2_000
#: Maximum number of partitions named in a line of events.
NAMED = 5
#: Latest time that a browser can show (ms).
_LATEST = 8_640_000_000_000_000


def replica_states(
    partition: PartitionRow, rows: PartitionRows, captures: Iterable[CaptureRow]
) -> dict[int, ReplicaState]:
    """Worst state of each replica of a partition, by ascending broker id; `captures` are the partition's."""
    served = served_rows(rows.replicas)
    found: dict[int, set[ReplicaState]] = defaultdict(set)
    for row in served:
        found[row.broker_id].add("out" if row.in_isr is False else "sound")
        if row.lost_held:
            found[row.broker_id].add("holds")
    for broker_id in {*(partition.isr or ()), *partition.unread_replicas} - found.keys():
        found[broker_id].add("missing")
    for run in rows.divergences:
        found[run.broker_id].add("differs")
    for item in present(rows.findings):
        if item.broker_id in found and item.code in codes_with("damage") and at_or_above(item.severity, "medium"):
            found[item.broker_id].add("damaged")
    for copy in captures:
        if copy.needed:
            found[copy.broker_id].add("needed")
        elif copy.state != "whole":
            found[copy.broker_id].add("partial" if copy.state in ("partial", "awaited") else "missing")
    return {broker_id: min(found[broker_id], key=REPLICA_STATES.index) for broker_id in sorted(found)}


class Events(NamedTuple):
    """Events of one kind on one broker at one time."""

    time_ms: int
    broker_id: int
    kind: EventKind
    partition_count: int
    """0 for captures, which concern log dirs."""
    partitions: tuple[int, ...]
    """The first `NAMED` partitions, by index into the list passed to `find_timeline`."""


class Timeline(NamedTuple):
    """Events of a cluster's replicas by time and broker."""

    events: tuple[Events, ...]
    step_ms: int
    """Step to which times are rounded down."""


def find_timeline(
    results: Results, partitions: Sequence[PartitionRow], copied: Iterable[tuple[int, int, int]]
) -> Timeline:
    """Collect elections and ISR changes of `partitions` from the metadata log, times of records that leaders lack, and copies,
    in at most `MOST_EVENTS` lines; `copied` has broker, start and end (ms) for each log dir."""
    single = [
        (time_ms, broker_id, kind, number)
        for number, (_, rows) in enumerate(rows_by_partition(results, partitions))
        for time_ms, broker_id, kind in _events(rows)
    ]
    captured = [
        Events(time_ms, broker_id, "captured", 0, ())
        for broker_id, started_ms, finished_ms in copied
        for time_ms in sorted({started_ms, finished_ms})
    ]
    for step in _STEPS:
        grouped: dict[tuple[int, int, EventKind], list[int]] = defaultdict(list)
        for time_ms, broker_id, kind, number in single:
            grouped[time_ms - time_ms % step, broker_id, kind].append(number)
        if len(grouped) <= MOST_EVENTS:
            break
    told = [_joined(key, numbers) for key, numbers in grouped.items()]
    # More lines than that even by day mean many brokers: keep those with the most partitions.
    kept = sorted(told, key=lambda one: -one.partition_count)[:MOST_EVENTS]
    return Timeline(tuple(sorted((*kept, *captured))), step)


def _joined(key: tuple[int, int, EventKind], numbers: Sequence[int]) -> Events:
    distinct = dict.fromkeys(numbers)
    return Events(*key, len(distinct), tuple(distinct)[:NAMED])


def _events(rows: PartitionRows) -> Iterator[tuple[int, int, EventKind]]:
    """(time, broker, kind) of each event of one partition."""
    for change in find_changes(rows.partition_states):
        at = change.later.time_ms
        leader = change.later.leader_id
        if leader is not None and change.kind != "isr_changed":
            yield at, leader, "unclean" if change.kind == "became_uncleanly" else "elected"
        for broker_id in change.left:
            yield at, broker_id, "left"
        for broker_id in change.joined:
            yield at, broker_id, "joined"
    for run in rows.divergences:
        if run.lost_records and run.last_timestamp_ms is not None and abs(run.last_timestamp_ms) < _LATEST:
            yield run.last_timestamp_ms, run.broker_id, "lost"
