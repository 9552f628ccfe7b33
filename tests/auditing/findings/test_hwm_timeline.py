"""Text of findings on a stretch of deviating observations: time, broker, number waiting, and the limiting replica."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.observations import TIME_MS

from replica_audit.auditing.finding import Finding
from replica_audit.auditing.findings.hwm_timeline import judge_timeline
from replica_audit.auditing.leadership.timeline_deviations import TimelineSummary, summary_from_text, summary_to_text
from replica_audit.protocol.timeline import DeviationRun

THEN, LATER = "2023-11-14T22:13:20.000Z", "2023-11-14T22:13:25.000Z"


def stretch(deviation: str, observed: tuple[int, int], recomputed: tuple[int, int], **named: Any) -> DeviationRun:
    """A stretch of one observation; broker 1 leads in epoch 3."""
    values = {
        "held": False,
        "leader_id": 1,
        "leader_epoch": 3,
        "start_ms": TIME_MS,
        "end_ms": TIME_MS,
        "observations": 1,
        "leader_log_end_offset": 30,
        "limiting_broker_id": None,
        "lasting": True,
        **named,
    }
    spans = zip(
        ("least_observed", "greatest_observed", "least_recomputed", "greatest_recomputed"), (*observed, *recomputed)
    )
    return DeviationRun(deviation, **dict(spans), **values)


def told(*runs: DeviationRun, stretches: int | None = None) -> list[Finding]:
    return list(judge_timeline(TimelineSummary(99, TIME_MS, stretches or len(runs), runs)))


def test_no_observations_tell_nothing() -> None:
    assert list(judge_timeline(None)) == []


def test_a_stored_summary_is_the_one_that_was_written() -> None:
    """An ingest writes it, and the audit reads it."""
    runs = (stretch("stuck", (20, 28), (21, 29), leader_epoch=None), stretch("ahead", (30, 30), (20, 20), held=True))
    for summary in (TimelineSummary(9, TIME_MS, 2, runs), TimelineSummary(1, TIME_MS, 0, ())):
        assert summary_from_text(summary_to_text(summary)) == summary


STUCK = {
    "one wait": (
        stretch("stuck", (20, 20), (21, 21), leader_log_end_offset=21),
        f"at {THEN} the high watermark of broker 1 in leader epoch 3 was 20, though the rule allows 21 and nothing held it back; "
        "1 offset waits above it",
        (1, 20, 21),
    ),
    "two wait, and the log ends above what is due": (
        stretch("stuck", (20, 28), (21, 29), end_ms=TIME_MS + 5000, leader_epoch=None, observations=4),
        f"from {THEN} to {LATER} the high watermark of broker 1 was 20, though the rule allows 29 and nothing held it back; "
        "2 offsets wait above it",
        (1, 20, 29),
    ),
    "not held by the replica that limits it": (
        stretch("stuck", (20, 20), (29, 29), limiting_broker_id=2),
        f"at {THEN} the high watermark of broker 1 in leader epoch 3 was 20, though the rule allows 29 and nothing held it back; "
        "10 offsets wait above it",
        (1, 20, 29),
    ),
    "the end of the leader's log was not observed": (
        stretch("stuck", (20, 20), (23, 23), leader_log_end_offset=None),
        f"at {THEN} the high watermark of broker 1 in leader epoch 3 was 20, though the rule allows 23 and nothing held it back; "
        "at least 3 offsets wait above it",
        (1, 20, 23),
    ),
    "held": (
        stretch("stuck", (20, 20), (20, 20), held=True, end_ms=TIME_MS + 5000, limiting_broker_id=2),
        f"since {THEN} and up to {LATER} the high watermark of broker 1 in leader epoch 3 stood still at 20; broker 2 limits "
        "it, for longer than a replica may lag without leaving the ISR; 10 offsets wait above it",
        (2, 20, 30),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", STUCK)
def test_a_mark_that_stands_still(name: str) -> None:
    run, message, place = STUCK[name]
    (found,) = told(run)
    assert found.message == message
    assert (found.broker_id, found.start_offset, found.end_offset) == place
    assert (found.code, found.severity, found.confidence) == ("HWM-STUCK", "medium", "likely")
    # Whether the ISR could have been changed matters where a replica held it, min.insync.replicas where none did.
    looked_at = found.evidence[-1].text.partition(":")[0]
    assert looked_at == ("an unreachable controller" if run.held else "min.insync.replicas")


@pytest.mark.parametrize(
    ("run", "message", "code", "place", "evidence"),
    [
        (
            stretch("ahead", (26, 28), (25, 25), limiting_broker_id=2),
            f"at {THEN} the high watermark of broker 1 in leader epoch 3 was up to 28, where the rule allows 25: offsets 25 "
            "to 27 could be read before every required replica was known to hold them; broker 2 limits it",
            "HWM-AHEAD",
            (1, 25, 28),
            f"1 observation from {THEN} to {THEN}: observed 26 to 28, recomputed 25",
        ),
        (
            stretch("ahead", (26, 26), (25, 25)),
            f"at {THEN} the high watermark of broker 1 in leader epoch 3 was up to 26, where the rule allows 25: offset 25 "
            "could be read before every required replica was known to hold them",
            "HWM-AHEAD",
            (1, 25, 26),
            f"1 observation from {THEN} to {THEN}: observed 26, recomputed 25",
        ),
        (
            stretch("regressed", (12, 15), (20, 22), observations=2, end_ms=TIME_MS + 5000),
            f"from {THEN} to {LATER} the high watermark of broker 1 in leader epoch 3 went back to 12, though 22 had been "
            "reached in the same leadership",
            "HWM-REGRESSED",
            (1, 12, 22),
            f"2 observations from {THEN} to {LATER}: observed 12 to 15, recomputed 20 to 22",
        ),
    ],
    ids=["above the rule", "above it by one, and nobody limits it", "went back"],
)
def test_a_mark_that_was_wrong_says_which_offsets_that_concerns(
    run: DeviationRun, message: str, code: str, place: tuple[int, int, int], evidence: str
) -> None:
    (found,) = told(run)
    assert found.message == message
    assert (found.code, found.broker_id, found.start_offset, found.end_offset) == (code, *place)
    assert found.evidence[0].text == evidence


def test_stretches_that_are_left_out_are_counted_and_those_of_one_moment_are_not_told() -> None:
    ahead = stretch("ahead", (28, 28), (25, 25))
    moment = stretch("stuck", (20, 20), (21, 21), lasting=False)
    assert [found.code for found in told(ahead, moment)] == ["HWM-AHEAD"]
    assert "stretch" not in told(ahead)[0].evidence[-1].text
    for more, words in ((1, "1 more stretch of"), (2, "2 more stretches of")):
        assert told(ahead, stretches=1 + more)[0].evidence[-1].text.startswith(words)
