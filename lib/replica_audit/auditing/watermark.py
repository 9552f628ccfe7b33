"""The high watermark as an interval: what the files prove at least, and what the in-sync replicas allow at most (C.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from replica_audit.auditing.comparison import Comparison
from replica_audit.auditing.facts import ReplicaFacts
from replica_audit.auditing.reference import Reference


@dataclass(frozen=True, slots=True)
class HighWatermark:
    """[hw_lower, hw_upper] holds the true high watermark, but for method capture_skew (then it moved through it)."""

    hw_lower: int
    hw_upper: int
    method: str
    lower_evidence: str
    upper_evidence: str
    limiting_broker_id: int | None
    lowest_suffix: tuple[int, int] | None = None
    """(broker id, offset) of the in-sync replica whose conflicting or unreadable suffix starts lowest below hw_lower."""

    @property
    def exact(self) -> bool:
        return self.hw_lower == self.hw_upper


def bound_high_watermark(
    reference: Reference, comparisons: Sequence[Comparison], *, cleaner_bound: bool = False
) -> HighWatermark:
    """The interval for the reference's leadership, from all aligned replicas.

    `cleaner_bound`: a cleaner checkpoint counts as a lower bound (the cleaner stays below the high watermark since 3.1).
    """
    lower, lower_text = _lower_bound(reference, comparisons, cleaner_bound)
    upper, upper_text, limiting = _upper_bound(reference, comparisons)
    suffix = _lowest_suffix(reference, comparisons, lower)
    if lower <= upper:
        method = "bounds_meet" if lower == upper else "interval"
        return HighWatermark(lower, upper, method, lower_text, upper_text, limiting, suffix)
    if suffix is not None:
        end = reference.facts.log_end_offset
        return HighWatermark(
            lower,
            max(lower, end),
            "interval",
            lower_text,
            f"log end {end} of the reference; {upper_text}",
            None,
            suffix,
        )
    return HighWatermark(upper, lower, "capture_skew", upper_text, lower_text, limiting)


def _lower_bound(reference: Reference, comparisons: Sequence[Comparison], cleaner_bound: bool) -> tuple[int, str]:
    best = reference.facts.log_start_offset
    text = f"log start {best} of broker {reference.facts.broker_id}"
    for facts, stretches, agreed_above in (
        (reference.facts, (), -1),
        *((item.follower, item.stretches, _unseen_below(reference, item)) for item in comparisons),
    ):
        for value, name in _proofs(facts, cleaner_bound):
            on_lineage = value > agreed_above and not any(
                part.start_offset < value <= part.end_offset for part in stretches
            )
            if best < value <= min(facts.log_end_offset, reference.facts.log_end_offset) and on_lineage:
                best, text = value, f"{name} {value} of broker {facts.broker_id}"
    return best, text


def _unseen_below(reference: Reference, item: Comparison) -> int:
    """Where the two logs begin, when nothing there shows that they agree: what lies below may be of another lineage."""
    floor = max(reference.facts.local_start_offset, item.follower.local_start_offset)
    agree = item.common_prefix_end is not None and item.common_prefix_end > floor
    return -1 if agree else floor


def _proofs(facts: ReplicaFacts, cleaner_bound: bool) -> list[tuple[int, str]]:
    directory = facts.directory
    found = [
        (directory.high_watermark_checkpoint, "checkpointed high watermark"),
        (facts.log_start_offset, "log start"),
        (directory.cleaner_checkpoint if cleaner_bound else None, "cleaner checkpoint"),
    ]
    return [(value, name) for value, name in found if value is not None]


def _upper_bound(reference: Reference, comparisons: Sequence[Comparison]) -> tuple[int, str, int | None]:
    leader = reference.facts
    # An unreadable last batch was there: it counts as present (C.2).
    best, limiting = leader.found_end_offset, None
    text = f"log end {best} of broker {leader.broker_id}, the reference"
    if leader.end_is_open:
        text += ", as far as it is shown: the log may go on"
    members = {*(reference.isr or ()), *reference.elr}
    for item in comparisons:
        facts = item.follower
        # Bytes after the last readable batch may be records that this member had, torn or zeroed by a power loss: its end
        # is unknown, so no bound.
        if facts.broker_id not in members or facts.tail_kind != "clean":
            continue
        suffix = item.diverging_suffix(leader.log_end_offset)
        bound = facts.found_end_offset if suffix is None else suffix.start_offset
        if bound < best:
            best, limiting = bound, facts.broker_id
            what = "log end" if suffix is None else "start of the diverging tail"
            text = f"{what} {bound} of broker {facts.broker_id}, which is in sync or eligible to lead"
    if reference.isr is None:
        text += "; the in-sync replicas are not known"
    return best, text, limiting


def _lowest_suffix(reference: Reference, comparisons: Sequence[Comparison], lower: int) -> tuple[int, int] | None:
    """The in-sync replica that provably cannot serve up to `lower`: it conflicts there, or its end is unreadable."""
    found = []
    members = {*(reference.isr or ()), *reference.elr}
    for item in comparisons:
        if item.follower.broker_id not in members:
            continue
        suffix = item.diverging_suffix(reference.facts.log_end_offset)
        if suffix is not None and suffix.start_offset < lower:
            found.append((suffix.start_offset, item.follower.broker_id))
        elif _lost_its_tail(item.follower) and item.follower.log_end_offset < lower:
            found.append((item.follower.log_end_offset, item.follower.broker_id))
    return min(found)[::-1] if found else None


def _lost_its_tail(facts: ReplicaFacts) -> bool:
    """Whether the bytes after the last sound batch are damage. Zeros are preallocation, but a clean stop cuts that off."""
    return facts.tail_kind == "garbage" or (facts.tail_kind == "zero_filled" and facts.directory.clean_shutdown)
