"""The high watermark as an interval: what the files prove at least, and what the in-sync replicas allow at most (C.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from replica_audit.auditing.leadership.log_ends import LogEnd, bounding_ends
from replica_audit.auditing.leadership.recorded_marks import recorded_marks

if TYPE_CHECKING:
    from replica_audit.auditing.comparing.comparison import Comparison
    from replica_audit.auditing.replicas.facts import ReplicaFacts
    from replica_audit.auditing.replicas.reference import Reference
    from replica_audit.model import Leadership


@dataclass(frozen=True, slots=True)
class HighWatermark:
    """[hw_lower, hw_upper] holds the true high watermark, except for method capture_skew (then it moved through it)."""

    hw_lower: int
    hw_upper: int | None
    """None: no log end bounds it."""
    proven_lower: int
    """Everything below it was committed, also where copies of different moments put the interval lower."""
    reached: int
    """How far a replica saw the high watermark: past `proven_lower` where the reference does not have what lies between."""
    method: str
    proof: str
    """What `proven_lower` stands on, in words."""
    lower_evidence: str
    upper_evidence: str
    limiting_broker_id: int | None
    leader_end_bounds: bool
    """Whether the reference's log end is the leader's as it was, so that nothing was committed past it."""
    lowest_suffix: tuple[int, int] | None = None
    """(broker id, offset) of the in-sync replica whose conflicting or unreadable suffix starts lowest below hw_lower."""

    @property
    def exact(self) -> bool:
        return self.hw_lower == self.hw_upper

    def admits(self, offset: int) -> bool:
        """Whether the interval holds `offset`."""
        return self.hw_lower <= offset and (self.hw_upper is None or offset <= self.hw_upper)

    def settled(self, value: int, method: str, evidence: str) -> HighWatermark:
        """The same, known to be exactly `value`."""
        return replace(
            self,
            hw_lower=value,
            hw_upper=value,
            proven_lower=value,
            reached=value,
            method=method,
            proof=evidence,
            lower_evidence=evidence,
            upper_evidence=evidence,
        )


def bound_high_watermark(
    reference: Reference,
    comparisons: Sequence[Comparison],
    *,
    leadership: Leadership | None = None,
    cleaner_bound: bool = False,
    one_moment: bool = False,
    shorter: bool = False,
) -> HighWatermark:
    """The interval for the reference's leadership, from all aligned replicas.

    `cleaner_bound`: a cleaner checkpoint counts as a lower bound (the cleaner stays below the high watermark since 3.1).
    `one_moment`: the copies are surely of one moment, so that no skew explains an in-sync replica that is too short.
    `shorter`: the reference lost its tail or is not the leader, as another replica's records past its end tell.
    """
    proofs = recorded_marks(reference, comparisons, leadership, cleaner_bound)
    proof = max(proofs, key=lambda one: (one.offset, one.reached))
    lower = proof.offset
    ends, reasons = bounding_ends(reference, comparisons, leadership)
    # What was committed past the reference's end, a log end short of that cannot bound.
    for end in [end for end in ends if lower <= end.offset < proof.reached or (shorter and end.of_reference)]:
        ends.remove(end)
        reasons.append(f"broker {end.broker_id} ends at {end.offset}, and another replica shows that there was more")
    suffix = _lowest_suffix(reference, comparisons, lower)
    short = [end for end in ends if end.offset < lower]
    open_above = HighWatermark(
        hw_lower=lower,
        hw_upper=None,
        proven_lower=lower,
        reached=proof.reached,
        method="interval",
        proof=proof.text,
        lower_evidence=proof.text,
        upper_evidence="",
        limiting_broker_id=None,
        leader_end_bounds=False,
        lowest_suffix=suffix,
    )
    if short and suffix is None and not one_moment:
        least = min(short, key=lambda end: end.offset)
        return replace(
            open_above,
            hw_lower=least.offset,
            hw_upper=lower,
            method="capture_skew",
            lower_evidence=least.text,
            upper_evidence=proof.text,
            limiting_broker_id=_limiting(least),
        )
    ends = [end for end in ends if end not in short and (suffix is None or end.of_reference)]
    reasons += [f"broker {end.broker_id} ends at {end.offset}, below what is proven" for end in short]
    if reference.isr is None:
        reasons.append("the in-sync replicas are not known")
    if not ends:
        return replace(open_above, upper_evidence="; ".join(["no log end bounds it", *reasons]))
    least = min(ends, key=lambda end: end.offset)
    return replace(
        open_above,
        hw_upper=least.offset,
        method="bounds_meet" if lower == least.offset else "interval",
        upper_evidence="; ".join([least.text, *reasons]),
        limiting_broker_id=_limiting(least),
        leader_end_bounds=any(end.of_reference for end in ends),
    )


def _limiting(end: LogEnd) -> int | None:
    return None if end.of_reference else end.broker_id


def _lowest_suffix(reference: Reference, comparisons: Sequence[Comparison], lower: int) -> tuple[int, int] | None:
    """The in-sync replica that provably cannot serve up to `lower`: it conflicts there, or its end is unreadable.

    None where the reference was copied before it led: who is in sync since may have been cut to it meanwhile.
    """
    if reference.predates:
        return None
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
    return facts.tail_kind == "garbage" or (facts.tail_kind == "zero_filled" and facts.directory.clean_shutdown is True)
