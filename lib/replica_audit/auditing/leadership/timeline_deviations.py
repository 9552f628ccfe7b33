"""Timeline of one partition's observations, and the stretches that break the rule (F.5, HWM-*)."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

from replica_audit.model import ReplicaDir
from replica_audit.protocol.high_watermark_rule import Observation, ReplicaProgress, Rule
from replica_audit.protocol.timeline import DeviationRun, DeviationRuns, TimelineRow, recompute_timeline
from replica_audit.schema import HighWatermarkTimelineRow, PartitionStateRow
from replica_audit.typed_json import from_object, to_object

#: Maximum number of stretches that become findings, per partition: the first ones.
GREATEST_RUNS = 100


class ProgressRow(NamedTuple):
    """A row of `replica_progress`, in the order of its columns."""

    topic: str
    partition: int
    time_ms: int
    sequence: int | None
    leader_id: int | None
    leader_epoch: int | None
    isr: list[int] | None
    pending_isr: list[int] | None
    min_insync_replicas: int | None
    lag_time_ms: int | None
    broker_id: int
    known_log_end_offset: int | None
    log_end_offset: int | None
    last_caught_up_ms: int | None
    high_watermark: int | None
    eligible: bool | None

    @property
    def moment(self) -> tuple[int, int]:
        """Key of the observation that the row belongs to."""
        return self.time_ms, self.sequence or 0

    @property
    def of_leader(self) -> tuple:
        """Leader-side values; the rows of one observation should agree on them."""
        return self[4:10]

    @property
    def of_replica(self) -> tuple:
        """Values of the row's own replica."""
        return self[11:]


@dataclass(frozen=True, slots=True)
class TimelineSummary:
    """Summary of a partition's timeline: its extent and its first `GREATEST_RUNS` deviating stretches."""

    observations: int
    first_ms: int
    run_count: int
    """Number of all stretches, short ones included."""
    runs: tuple[DeviationRun, ...] = ()


def observations_of(rows: Iterable[ProgressRow]) -> Iterator[Observation]:
    """Observations from the rows of one partition, in any order."""
    moment = attrgetter("moment")
    for _, of_one in groupby(sorted(rows, key=moment), key=moment):
        yield observation_of(list(of_one))


def observation_of(rows: Sequence[ProgressRow]) -> Observation:
    """Observation from its rows; where they disagree, the greatest values count."""
    leader, *others = rows
    if any(row.of_leader != leader.of_leader for row in others):
        leader = max(rows, key=lambda row: [_order(value) for value in (row.leader_epoch, *row.of_leader)])
    replicas: dict[int, ProgressRow] = {}
    for row in rows:
        known = replicas.get(row.broker_id)
        greatest = (
            row if known is None else max(known, row, key=lambda one: [_order(value) for value in one.of_replica])
        )
        replicas[row.broker_id] = greatest
    return Observation(
        leader.time_ms,
        leader.leader_id,
        leader.leader_epoch,
        None if leader.isr is None else tuple(leader.isr),
        tuple(ReplicaProgress(broker_id, *replicas[broker_id].of_replica) for broker_id in sorted(replicas)),
        tuple(leader.pending_isr or ()),
        leader.min_insync_replicas,
        leader.lag_time_ms,
        leader.sequence or 0,
    )


def _order(value: object) -> tuple:
    return () if value is None else (value,)


def assigned_replicas(states: Iterable[PartitionStateRow], directories: Iterable[ReplicaDir]) -> frozenset[int]:
    """Replicas that a partition has or had, by its states and directories."""
    of_states = (broker_id for row in states for broker_id in row.replicas or ())
    return frozenset(of_states) | {directory.broker_id for directory in directories}


def timeline_of(
    topic: str, partition: int, rows: Iterable[ProgressRow], rule: Rule, assigned: Collection[int] = ()
) -> tuple[list[HighWatermarkTimelineRow], TimelineSummary | None]:
    """Rows of `high_watermark_timeline` of one partition by time, and their summary; None without rows."""
    tally = TimelineTally()
    timeline = []
    for row in recompute_timeline(observations_of(rows), rule, assigned):
        tally.add(row)
        timeline.append(timeline_row(topic, partition, row))
    return timeline, tally.finish()


class TimelineTally:
    """Builds a `TimelineSummary` from the rows of one timeline, fed in order of time."""

    def __init__(self) -> None:
        self._deviations = DeviationRuns(GREATEST_RUNS)
        self._count = 0
        self._first_ms: int | None = None

    def add(self, row: TimelineRow) -> None:
        if self._first_ms is None:
            self._first_ms = row.time_ms
        self._count += 1
        self._deviations.add(row)

    def finish(self) -> TimelineSummary | None:
        """The summary; None without rows."""
        runs = tuple(self._deviations.finish())
        if self._first_ms is None:
            return None
        return TimelineSummary(self._count, self._first_ms, self._deviations.count, runs)


def timeline_row(topic: str, partition: int, row: TimelineRow) -> HighWatermarkTimelineRow:
    """The row of `high_watermark_timeline`."""
    return HighWatermarkTimelineRow(
        topic, partition, *(getattr(row, name) for name in HighWatermarkTimelineRow._fields[2:])
    )


def summary_to_text(summary: TimelineSummary) -> str:
    """JSON; `summary_from_text` is the inverse."""
    return json.dumps(to_object(summary))


def summary_from_text(text: str) -> TimelineSummary:
    """Inverse of `summary_to_text`."""
    return from_object(TimelineSummary, json.loads(text))
