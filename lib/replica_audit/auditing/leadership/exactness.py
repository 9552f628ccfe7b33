"""Where the history of leadership tells the high watermark exactly, not two bounds only (C.2, X1 and X2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from replica_audit.auditing.leadership.election_causes import MIN_ISR
from replica_audit.protocol.election import last_led
from replica_audit.protocol.versions import stands_still_below_min_isr

if TYPE_CHECKING:
    from replica_audit.auditing.comparing.comparison import Comparison
    from replica_audit.auditing.leadership.bounds import HighWatermark
    from replica_audit.auditing.replicas.facts import ReplicaFacts
    from replica_audit.auditing.replicas.reference import Reference
    from replica_audit.model import Leadership


def narrow_high_watermark(
    mark: HighWatermark,
    reference: Reference,
    comparisons: Sequence[Comparison],
    leadership: Leadership | None,
    kafka_version: tuple[int, ...] | None,
) -> HighWatermark:
    """The exact high watermark where one is known and lies within the bounds, else `mark` as it is."""
    if leadership is None or leadership.source != "metadata_log" or reference.outdated or reference.predates:
        return mark
    if mark.method == "capture_skew" or mark.lowest_suffix is not None or not mark.leader_end_bounds:
        return mark
    replicas = {facts.broker_id: facts for facts in (reference.facts, *(item.follower for item in comparisons))}
    found = _clean_shutdown(reference, replicas, leadership) or _sole_isr(reference, leadership, kafka_version)
    return mark.settled(*found) if found is not None and mark.admits(found[0]) else mark


def _clean_shutdown(
    reference: Reference, replicas: dict[int, ReplicaFacts], leadership: Leadership
) -> tuple[int, str, str] | None:
    """X1: the last leader, and all in sync with it, stopped cleanly; it wrote its high watermark as it did."""
    facts, last = reference.facts, last_led(leadership.history)
    checkpoint = facts.directory.high_watermark_checkpoint
    if leadership.leader_id is not None or last is None or last.leader_id != facts.broker_id or checkpoint is None:
        return None
    if not all(one in replicas and replicas[one].directory.clean_shutdown for one in {*last.isr, facts.broker_id}):
        return None
    text = (
        f"high watermark {checkpoint} that broker {facts.broker_id} wrote as it stopped: it led last, and was stopped "
        "cleanly, as were all in sync with it"
    )
    return facts.high_watermark, "clean_shutdown", text


def _sole_isr(
    reference: Reference, leadership: Leadership, kafka_version: tuple[int, ...] | None
) -> tuple[int, str, str] | None:
    """X2: the leader alone is in sync and nobody else can hold it back, so whatever it wrote is committed."""
    facts = reference.facts
    if reference.leader_id != facts.broker_id or leadership.isr != (facts.broker_id,) or leadership.fenced is None:
        return None
    others = {*(leadership.replicas or ())} - {facts.broker_id}
    minimum = leadership.configs.get(MIN_ISR, "")
    gated = stands_still_below_min_isr(kafka_version) is not False
    enough = not gated or (minimum.isdigit() and min(int(minimum), len(others) + 1) <= 1)
    if not enough or not others <= set(leadership.fenced):
        return None
    text = f"log end {facts.log_end_offset} of broker {facts.broker_id}, which alone is in sync; all others are fenced"
    return facts.log_end_offset, "sole_isr", text
