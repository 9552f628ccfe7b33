"""Observed high watermarks that deviate from the rule (F.5, C.1)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from replica_audit.auditing.finding import (
    Code,
    Finding,
    considered,
    finding,
)
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


def judge(case: Case) -> Iterator[Finding]:
    """Yield a finding for each lasting stretch of the partition's observations."""
    return judge_timeline(case.evidence.side.timeline)


def judge_timeline(summary: TimelineSummary | None) -> Iterator[Finding]:
    """Yield a finding for each lasting stretch."""
    if summary is None:
        return
    left_out = []
    if more := summary.run_count - len(summary.runs):
        stretches = count(more, "more stretch", "more stretches")
        left_out.append(considered(f"{stretches} of this partition: in high_watermark_timeline only"))
    for run in summary.runs:
        if run.lasting:
            found = {AHEAD: _ahead, REGRESSED: _regressed}.get(run.deviation, _stuck)(run)
            evidence = (_observed(run), *found.evidence, *left_out)
            yield found._replace(replica_epoch=run.leader_epoch, evidence=evidence)


def _ahead(run: DeviationRun) -> Finding:
    moments = (
        "readings of different moments: the high watermark must be read before the log ends, else it may seem ahead"
    )
    return finding(
        HWM_AHEAD,
        f"{_when(run)} the high watermark of {_leader(run)} was up to {run.greatest_observed}, where the rule allows "
        f"{run.greatest_recomputed}: {name_offsets(run.least_recomputed, run.greatest_observed)} could be read before "
        f"every required replica was known to hold them{_by(run)}",
        confidence="suspect",
        broker_id=run.leader_id,
        offsets=(run.least_recomputed, run.greatest_observed),
        evidence=[considered(moments)],
    )


def _stuck(run: DeviationRun) -> Finding:
    log_end = run.leader_log_end_offset
    due = run.greatest_recomputed
    # An unobserved log end of the leader is at least the high watermark that is due.
    waiting = (due if log_end is None else log_end) - run.greatest_observed
    least = "at least " if log_end is None else ""
    mark = f"the high watermark of {_leader(run)}"
    what = f"{_when(run)} {mark} was {run.least_observed}, though the rule allows {due} and nothing held it back"
    otherwise = "min.insync.replicas: no, as many replicas were in sync, or the version has no such gate"
    if run.held:
        since = f"since {render_time(run.start_ms)} and up to {render_time(run.end_ms)}"
        what = f"{since} {mark} stood still at {run.greatest_observed}{_by(run)}, for longer than a replica may lag without leaving the ISR"
        otherwise = "an unreachable controller: the leader then cannot remove a replica from its ISR"
    return finding(
        HWM_STUCK,
        f"{what}; {least}{count(waiting, 'offset')} {'waits' if waiting == 1 else 'wait'} above it",
        confidence="likely",
        broker_id=run.limiting_broker_id if run.held else run.leader_id,
        offsets=(run.least_observed, log_end if run.held else due),
        evidence=[
            considered("the high watermark moves one fetch after the log end: it had more than that time"),
            considered(otherwise),
        ],
    )


def _regressed(run: DeviationRun) -> Finding:
    return finding(
        HWM_REGRESSED,
        f"{_when(run)} the high watermark of {_leader(run)} went back to {run.least_observed}, though "
        f"{run.greatest_recomputed} had been reached in the same leadership",
        confidence="likely",
        broker_id=run.leader_id,
        offsets=(run.least_observed, run.greatest_recomputed),
        evidence=[considered("a change of leader: no, broker and epoch are the same")],
    )


def _observed(run: DeviationRun) -> Evidence:
    values = (
        f"observed {_span(run.least_observed, run.greatest_observed)}, recomputed "
        f"{_span(run.least_recomputed, run.greatest_recomputed)}"
    )
    text = f"{count(run.observations, 'observation')} from {render_time(run.start_ms)} to {render_time(run.end_ms)}: {values}"
    return Evidence("timeline", text=text, broker_id=run.leader_id, value=f"{run.start_ms} {run.end_ms}")


def _span(least: int, greatest: int) -> str:
    return str(least) if least == greatest else f"{least} to {greatest}"


def _leader(run: DeviationRun) -> str:
    return f"broker {run.leader_id}" + ("" if run.leader_epoch is None else f" in leader epoch {run.leader_epoch}")


def _by(run: DeviationRun) -> str:
    return "" if run.limiting_broker_id is None else f"; broker {run.limiting_broker_id} limits it"


def _when(run: DeviationRun) -> str:
    if run.start_ms == run.end_ms:
        return f"at {render_time(run.start_ms)}"
    return f"from {render_time(run.start_ms)} to {render_time(run.end_ms)}"
