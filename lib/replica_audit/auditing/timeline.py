"""Observations of one partition as its timeline, and what the stretches of deviating ones mean (F.5, HWM-*)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from replica_audit.auditing.findings import Evidence, Finding, considered, finding, offsets
from replica_audit.moments import render_time
from replica_audit.protocol.observations import (
    AHEAD,
    REGRESSED,
    DeviationRun,
    Observation,
    ReplicaProgress,
    TimelineRow,
)
from replica_audit.protocol.timeline import Rule, find_deviations, recompute_timeline

#: Stretches of one partition that become findings; of more the first are told, and how many there are.
GREATEST_RUNS = 100

_OF_LEADER = ("leader_epoch", "leader_id", "isr", "pending_isr", "min_insync_replicas", "lag_time_ms")
_OF_REPLICA = ("known_log_end_offset", "log_end_offset", "last_caught_up_ms", "high_watermark", "eligible")


@dataclass(frozen=True, slots=True)
class TimelineSummary:
    """What a partition's timeline comes to: its extent and its first `GREATEST_RUNS` deviating stretches."""

    observations: int
    first_ms: int
    last_ms: int
    run_count: int
    """Of all stretches, those that did not last included."""
    runs: tuple[DeviationRun, ...] = ()


def observations_of(rows: Iterable[Mapping[str, Any]]) -> Iterator[Observation]:
    """Observations from rows of `replica_progress` of one partition, in any order.

    Where rows of one observation disagree, the greatest values count, as in `spark/timeline.py`.
    """
    groups: dict[tuple[int, int], list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row["time_ms"], row["sequence"] or 0), []).append(row)
    for (time_ms, sequence), of_one in sorted(groups.items()):
        leader = max(of_one, key=lambda row: [_order(row[name]) for name in _OF_LEADER])
        replicas: dict[int, tuple[list, ReplicaProgress]] = {}
        for row in of_one:
            values = [row[name] for name in _OF_REPLICA]
            entry = [_order(value) for value in values], ReplicaProgress(row["broker_id"], *values)
            replicas[row["broker_id"]] = max(replicas.get(row["broker_id"], entry), entry, key=lambda one: one[0])
        yield Observation(
            time_ms=time_ms,
            sequence=sequence,
            leader_id=leader["leader_id"],
            leader_epoch=leader["leader_epoch"],
            isr=None if leader["isr"] is None else tuple(leader["isr"]),
            pending_isr=tuple(leader["pending_isr"] or ()),
            min_insync_replicas=leader["min_insync_replicas"],
            lag_time_ms=leader["lag_time_ms"],
            replicas=tuple(replicas[broker_id][1] for broker_id in sorted(replicas)),
        )


def _order(value: Any) -> tuple:
    return () if value is None else (tuple(value),) if isinstance(value, list) else (value,)


def timeline_of(
    topic: str, partition: int, rows: Iterable[Mapping[str, Any]], rule: Rule
) -> tuple[list[dict[str, Any]], TimelineSummary | None]:
    """Rows of `high_watermark_timeline` of one partition in order of time, and what they come to; None without rows."""
    timeline = list(recompute_timeline(observations_of(rows), rule))
    if not timeline:
        return [], None
    runs = find_deviations(timeline)
    summary = TimelineSummary(
        len(timeline), timeline[0].time_ms, timeline[-1].time_ms, len(runs), tuple(runs[:GREATEST_RUNS])
    )
    return [{"topic": topic, "partition": partition, **timeline_row(row)} for row in timeline], summary


def timeline_row(row: TimelineRow) -> dict[str, Any]:
    """The row of `high_watermark_timeline` without the partition's name."""
    return {**asdict(row), "isr": None if row.isr is None else list(row.isr)}


def summary_row(summary: TimelineSummary) -> dict[str, Any]:
    """As JSON takes it; `summary_of_row` is the way back."""
    return asdict(summary)


def summary_of_row(row: Mapping[str, Any]) -> TimelineSummary:
    """From `summary_row`, or from the columns of the same names that Spark computed."""
    return TimelineSummary(**{**row, "runs": tuple(DeviationRun(**run) for run in row["runs"] or ())})


def timeline_findings(summary: TimelineSummary | None) -> Iterator[Finding]:
    """HWM-AHEAD, HWM-STUCK and HWM-REGRESSED, one for each stretch that lasted."""
    if summary is None:
        return
    told = [run for run in summary.runs if run.lasting]
    more = summary.run_count - len(summary.runs)
    for run in told:
        left_out = (
            [considered(f"{more} more stretches of this partition are in high_watermark_timeline only")] if more else []
        )
        yield (_ahead if run.deviation == AHEAD else _regressed if run.deviation == REGRESSED else _stuck)(
            run, left_out
        )


def _ahead(run: DeviationRun, left_out: list[Evidence]) -> Finding:
    return finding(
        "HWM-AHEAD",
        f"{_when(run)} the high watermark of {_leader(run)} was up to {run.greatest_observed}, where the rule allows "
        f"{run.greatest_recomputed}: {offsets(run.least_recomputed, run.greatest_observed)} could be read before "
        f"every replica that "
        f"has to hold them was known to{_by(run)}",
        confidence="suspect",
        broker_id=run.leader_id,
        start_offset=run.least_recomputed,
        end_offset=run.greatest_observed,
        replica_epoch=run.leader_epoch,
        evidence=[
            *_evidence(run),
            considered(
                "readings of different moments: the high watermark has to be read before the log ends, else it "
                "may seem ahead"
            ),
            *left_out,
        ],
    )


def _stuck(run: DeviationRun, left_out: list[Evidence]) -> Finding:
    end = run.leader_log_end_offset if run.held or run.leader_log_end_offset is None else run.greatest_recomputed
    waiting = (run.leader_log_end_offset or 0) - run.greatest_observed
    what = (
        f"since {render_time(run.start_ms)} and up to {render_time(run.end_ms)} the high watermark of {_leader(run)} stood "
        f"still at "
        f"{run.greatest_observed}"
        if run.held
        else f"{_when(run)} the high watermark of {_leader(run)} was {run.least_observed}, though the rule allows "
        f"{run.greatest_recomputed}"
    )
    why = (
        f"{_by(run) or '; nothing that was observed held it'}, for longer than a replica may without leaving the ISR"
        if run.held
        else "; nothing held it"
    )
    return finding(
        "HWM-STUCK",
        f"{what}{why}; {waiting} offsets wait above it",
        confidence="likely",
        broker_id=run.limiting_broker_id if run.held and run.limiting_broker_id is not None else run.leader_id,
        start_offset=run.least_observed,
        end_offset=end,
        replica_epoch=run.leader_epoch,
        evidence=[
            *_evidence(run),
            considered("the high watermark moves one fetch after the log end: it had more than that time"),
            considered("min.insync.replicas: no, as many replicas were in sync, or the version has no such gate"),
            *left_out,
        ],
    )


def _regressed(run: DeviationRun, left_out: list[Evidence]) -> Finding:
    return finding(
        "HWM-REGRESSED",
        f"{_when(run)} the high watermark of {_leader(run)} went back to {run.least_observed}, though "
        f"{run.greatest_recomputed} had been "
        "reached in the same leadership",
        confidence="likely",
        broker_id=run.leader_id,
        start_offset=run.least_observed,
        end_offset=run.greatest_recomputed,
        replica_epoch=run.leader_epoch,
        evidence=[*_evidence(run), considered("a change of leader: no, broker and epoch are the same"), *left_out],
    )


def _evidence(run: DeviationRun) -> list[Evidence]:
    values = (
        f"observed {_span(run.least_observed, run.greatest_observed)}, recomputed "
        f"{_span(run.least_recomputed, run.greatest_recomputed)}"
    )
    text = f"{run.observations} observations from {render_time(run.start_ms)} to {render_time(run.end_ms)}: {values}"
    return [Evidence("timeline", text, run.leader_id, value=f"{run.start_ms} {run.end_ms}")]


def _span(least: int, greatest: int) -> str:
    return str(least) if least == greatest else f"{least} to {greatest}"


def _leader(run: DeviationRun) -> str:
    return (
        f"broker {run.leader_id} in leader epoch {run.leader_epoch}"
        if run.leader_epoch is not None
        else f"broker {run.leader_id}"
    )


def _by(run: DeviationRun) -> str:
    return f"; broker {run.limiting_broker_id} limits it" if run.limiting_broker_id is not None else ""


def _when(run: DeviationRun) -> str:
    return (
        f"at {render_time(run.start_ms)}"
        if run.start_ms == run.end_ms
        else f"from {render_time(run.start_ms)} to {render_time(run.end_ms)}"
    )
