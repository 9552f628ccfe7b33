"""Stretches in which an observed high watermark deviates from the rule (F.5)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from replica_audit.auditing.finding import Code, Finding, considered, finding
from replica_audit.protocol.timeline import AHEAD, REGRESSED
from replica_audit.schema import Evidence
from replica_audit.text import count, name_offsets, render_time

if TYPE_CHECKING:
    from replica_audit.auditing.case import Case
    from replica_audit.auditing.leadership.timeline_deviations import TimelineSummary
    from replica_audit.protocol.timeline import DeviationRun

HWM_STUCK = Code("HWM-STUCK", ("medium",))
HWM_AHEAD = Code("HWM-AHEAD", ("critical",), ("INCONCLUSIVE",))
HWM_REGRESSED = Code("HWM-REGRESSED", ("medium",))
CODES = (HWM_STUCK, HWM_AHEAD, HWM_REGRESSED)


def judge(case: Case) -> Iterator[Finding]:
    """Observations of the partition, where there are any."""
    yield from judge_timeline(case.timeline)


def judge_timeline(summary: TimelineSummary | None) -> Iterator[Finding]:
    """A finding for each stretch that lasted."""
    if summary is None:
        return
    told = [run for run in summary.runs if run.lasting]
    more = summary.run_count - len(summary.runs)
    for run in told:
        left_out = (
            [
                considered(
                    f"{count(more, 'more stretch', 'more stretches')} of this partition: in high_watermark_timeline only"
                )
            ]
            if more
            else []
        )
        tell = {AHEAD: _ahead, REGRESSED: _regressed}.get(run.deviation, _stuck)
        yield tell(run, left_out)


def _ahead(run: DeviationRun, left_out: list[Evidence]) -> Finding:
    return finding(
        HWM_AHEAD,
        f"{_when(run)} the high watermark of {_leader(run)} was up to {run.greatest_observed}, where the rule allows "
        f"{run.greatest_recomputed}: {name_offsets(run.least_recomputed, run.greatest_observed)} could be read before "
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
    log_end = run.leader_log_end_offset
    due = run.greatest_recomputed
    # A leader's log end that was not observed is at least the high watermark that is due.
    waiting = (due if log_end is None else log_end) - run.greatest_observed
    least = "at least " if log_end is None else ""
    what = (
        f"since {render_time(run.start_ms)} and up to {render_time(run.end_ms)} the high watermark of {_leader(run)} stood "
        f"still at "
        f"{run.greatest_observed}"
        if run.held
        else f"{_when(run)} the high watermark of {_leader(run)} was {run.least_observed}, though the rule allows {due}"
    )
    why = f"{_by(run)}, for longer than a replica may without leaving the ISR" if run.held else "; nothing held it"
    return finding(
        HWM_STUCK,
        f"{what}{why}; {least}{count(waiting, 'offset')} {'waits' if waiting == 1 else 'wait'} above it",
        confidence="likely",
        broker_id=run.limiting_broker_id if run.held else run.leader_id,
        start_offset=run.least_observed,
        end_offset=log_end if run.held else due,
        replica_epoch=run.leader_epoch,
        evidence=[
            *_evidence(run),
            considered("the high watermark moves one fetch after the log end: it had more than that time"),
            considered("a controller that could not be reached: then the leader cannot remove a replica from its ISR")
            if run.held
            else considered("min.insync.replicas: no, as many replicas were in sync, or the version has no such gate"),
            *left_out,
        ],
    )


def _regressed(run: DeviationRun, left_out: list[Evidence]) -> Finding:
    return finding(
        HWM_REGRESSED,
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
    text = f"{count(run.observations, 'observation')} from {render_time(run.start_ms)} to {render_time(run.end_ms)}: {values}"
    return [Evidence("timeline", text=text, broker_id=run.leader_id, value=f"{run.start_ms} {run.end_ms}")]


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
