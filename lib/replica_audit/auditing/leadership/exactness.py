"""Where the history of leadership tells the high watermark exactly, not two bounds only (C.2, X1 and X2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from replica_audit.auditing.leadership.election_causes import MIN_ISR
from replica_audit.protocol.election import last_led
from replica_audit.protocol.versions import stands_still_below_min_isr

if TYPE_CHECKING:
    from replica_audit.auditing.comparing.comparison import Comparison
    from replica_audit.auditing.leadership.bounds import HighWatermark
    from replica_audit.auditing.replicas.facts import ReplicaFacts
    from replica_audit.auditing.replicas.reference import Reference
    from replica_audit.model import Leadership, PartitionState


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
    if (stop := _clean_shutdown(reference, replicas, leadership)) is not None:
        return _as_it_stopped(mark, stop, reference.facts.broker_id)
    found = _sole_isr(reference, leadership, kafka_version)
    return mark.settled(*found) if found is not None and mark.admits(found[0]) else mark


@dataclass(frozen=True, slots=True)
class _CleanStop:
    """What the last leader wrote as it stopped."""

    checkpoint: int
    high_watermark: int
    """The checkpoint, within the log."""
    epoch_start: int
    """Where the epoch began since which it had led."""


def _as_it_stopped(mark: HighWatermark, stop: _CleanStop, broker_id: int) -> HighWatermark:
    """X1. A leader that did not advance the high watermark in its epoch has it as it learnt it, which may be too late: of
    what lies below its epoch an earlier leader may have committed more. Of its own records it knows.
    """
    written = f"high watermark {stop.checkpoint} that broker {broker_id} wrote as it stopped"
    if stop.high_watermark >= stop.epoch_start:
        text = f"{written}: it led last, and was stopped cleanly, as were all in sync with it"
        value = stop.high_watermark
        return mark.settled(value, "clean_shutdown", text) if mark.admits(value) else mark
    if mark.hw_upper is None or not mark.hw_lower <= stop.epoch_start < mark.hw_upper:
        return mark
    return replace(
        mark,
        hw_upper=stop.epoch_start,
        method="bounds_meet" if mark.hw_lower == stop.epoch_start else "interval",
        upper_evidence=f"start {stop.epoch_start} of the epoch in which broker {broker_id} led last: it stopped cleanly, as "
        f"did all in sync with it, and the {written} lies below",
        limiting_broker_id=None,
    )


def _clean_shutdown(
    reference: Reference, replicas: dict[int, ReplicaFacts], leadership: Leadership
) -> _CleanStop | None:
    """The stop of the last leader, where it and all in sync with it stopped cleanly."""
    facts, last = reference.facts, last_led(leadership.history)
    checkpoint = facts.directory.high_watermark_checkpoint
    if leadership.leader_id is not None or last is None or last.leader_id != facts.broker_id or checkpoint is None:
        return None
    if not all(one in replicas and replicas[one].directory.clean_shutdown for one in {*last.isr, facts.broker_id}):
        return None
    first = _first_epoch(leadership.history, last)
    starts = (start for epoch, start in _entries(facts) if first <= epoch <= last.leader_epoch)
    return _CleanStop(checkpoint, facts.high_watermark, min(starts, default=facts.log_end_offset))


def _first_epoch(history: Sequence[PartitionState], last: PartitionState) -> int:
    """The epoch since which the leader of `last` has led without a break: a change of the ISR may begin one, too."""
    first = last.leader_epoch
    for state in reversed([one for one in history if not one.uncommitted and one.leader_epoch < last.leader_epoch]):
        if state.leader_id != last.leader_id:
            break
        first = state.leader_epoch
    return first


def _entries(facts: ReplicaFacts) -> tuple[tuple[int, int], ...]:
    """Epochs with their starts, by the batches and by the file as found."""
    return (*facts.lineage, *(facts.directory.checkpoint_epochs or ()))


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
