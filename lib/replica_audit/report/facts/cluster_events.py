"""Events of a cluster by time: changes of leader and ISR, records that leaders lack, and copies."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Literal, NamedTuple, get_args

from replica_audit.model import PartitionState
from replica_audit.protocol.election import elections
from replica_audit.report.facts.by_partition import rows_by_partition
from replica_audit.results import PartitionRows, Results
from replica_audit.schema import PartitionRow, PartitionStateRow
from replica_audit.snapshot.leadership_rows import leadership_of_rows

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


#: A leader that `became_uncleanly` was neither in sync nor eligible; `isr_changed` is a change of the ISR under one leader.
ChangeKind = Literal["nobody_led", "became_leader", "became_uncleanly", "isr_changed"]


class LeadershipChange(NamedTuple):
    """One change of leader or ISR."""

    kind: ChangeKind
    earlier: PartitionState
    later: PartitionState

    @property
    def entitled(self) -> tuple[int, ...]:
        """Brokers that could have been elected cleanly."""
        return tuple(sorted({*self.earlier.isr, *self.earlier.elr}))

    @property
    def left(self) -> tuple[int, ...]:
        """Brokers that left the ISR."""
        return tuple(sorted({*self.earlier.isr} - {*self.later.isr}))

    @property
    def joined(self) -> tuple[int, ...]:
        """Brokers that joined the ISR."""
        return tuple(sorted({*self.later.isr} - {*self.earlier.isr}))


def find_changes(rows: Iterable[PartitionStateRow]) -> list[LeadershipChange]:
    """Find changes in rows of partition_states, oldest first; rows without a time (from a listing) and uncommitted ones are left out."""
    leadership = leadership_of_rows(row for row in rows if row.source == "metadata_log" and not row.uncommitted)
    if leadership is None:
        return []
    unclean = {one.leader_epoch for one in elections(leadership.history) if not one.clean}
    found = []
    for earlier, later in pairwise(leadership.committed):
        if later.leader_id != earlier.leader_id:
            became: ChangeKind = "became_uncleanly" if later.leader_epoch in unclean else "became_leader"
            found.append(LeadershipChange("nobody_led" if later.leader_id is None else became, earlier, later))
        elif set(later.isr) != set(earlier.isr):
            found.append(LeadershipChange("isr_changed", earlier, later))
    return found


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
