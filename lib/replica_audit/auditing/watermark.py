"""The high watermark as an interval: what the files prove at least, and what the in-sync replicas allow at most (C.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from replica_audit.auditing.comparison import Comparison
from replica_audit.auditing.facts import ReplicaFacts
from replica_audit.auditing.log_ends import LogEnd, bounding_ends
from replica_audit.auditing.reference import Reference
from replica_audit.model import Leadership
from replica_audit.protocol.election import elections


@dataclass(frozen=True, slots=True)
class HighWatermark:
    """[hw_lower, hw_upper] holds the true high watermark, but for method capture_skew (then it moved through it)."""

    hw_lower: int
    hw_upper: int | None
    """None: no log end bounds it."""
    proven_lower: int
    """Everything below it was committed, also where copies of different moments put the interval lower."""
    method: str
    proof: str
    """What `proven_lower` stands on, in words."""
    lower_evidence: str
    upper_evidence: str
    limiting_broker_id: int | None
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
            method=method,
            proof=evidence,
            lower_evidence=evidence,
            upper_evidence=evidence,
        )


@dataclass(frozen=True, slots=True)
class _Proof:
    """What a replica recorded of the high watermark: everything below `offset` of the reference's log was committed."""

    offset: int
    reached: int
    """The high watermark itself; past `offset` where the reference does not have what was committed in its own epoch."""
    text: str


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
    start = reference.facts.log_start_offset
    nothing = _Proof(start, start, f"log start {start} of broker {reference.facts.broker_id}")
    proofs = [nothing, *_proofs(reference, comparisons, leadership, cleaner_bound)]
    proof = max(proofs, key=lambda one: one.offset)
    lower = proof.offset
    ends, reasons = bounding_ends(reference, comparisons, leadership)
    # What was committed past the reference's end, a log end short of that cannot bound.
    passed = max(one.reached for one in proofs if one.offset == lower)
    for end in [end for end in ends if lower <= end.offset < passed or (shorter and end.of_reference)]:
        ends.remove(end)
        reasons.append(f"broker {end.broker_id} ends at {end.offset}, and another replica shows that there was more")
    suffix = _lowest_suffix(reference, comparisons, lower)
    short = [end for end in ends if end.offset < lower]
    if short and suffix is None and not one_moment:
        least = min(short, key=lambda end: end.offset)
        return HighWatermark(least.offset, lower, lower, "capture_skew", proof.text, least.text, proof.text, _limiting(least))
    ends = [end for end in ends if end not in short and (suffix is None or end.of_reference)]
    reasons += [f"broker {end.broker_id} ends at {end.offset}, below what is proven" for end in short]
    if reference.isr is None:
        reasons.append("the in-sync replicas are not known")
    if not ends:
        text = "; ".join(["no log end bounds it", *reasons])
        return HighWatermark(lower, None, lower, "interval", proof.text, proof.text, text, None, suffix)
    least = min(ends, key=lambda end: end.offset)
    method = "bounds_meet" if lower == least.offset else "interval"
    text = "; ".join([least.text, *reasons])
    return HighWatermark(lower, least.offset, lower, method, proof.text, proof.text, text, _limiting(least), suffix)


def _limiting(end: LogEnd) -> int | None:
    return None if end.of_reference else end.broker_id


def _proofs(
    reference: Reference, comparisons: Sequence[Comparison], leadership: Leadership | None, cleaner_bound: bool
) -> list[_Proof]:
    """What each replica recorded of the high watermark, as far as that is of the reference's lineage.

    A value within both logs proves all below it where the two agree there. One past an end, left by a lost tail or by a
    copy of another moment, proves what lies below that end, but nothing from the first epoch on that began below it and
    whose election may have been unclean: the replica may have been cut there since.
    """
    leader = reference.facts
    found = []
    for facts, stretches, agreed_above in (
        (leader, (), -1),
        *((item.follower, item.stretches, _unseen_below(reference, item)) for item in comparisons),
    ):
        for value, name in _values(facts, cleaner_bound):
            offset = min(value, leader.log_end_offset)
            if offset > facts.log_end_offset and not _wrote_up_to(leader, facts, offset):
                offset = facts.log_end_offset
            if value > min(facts.log_end_offset, leader.log_end_offset):
                offset = min(offset, _first_doubtful_start(leader, leadership, value))
            held = min(offset, facts.log_end_offset)
            if held > agreed_above and not any(part.start_offset < held <= part.end_offset for part in stretches):
                text = f"{name} {value} of broker {facts.broker_id}"
                text += "" if offset == value else f", which proves what both have below {offset}"
                conflicting = any(part.start_offset < value <= part.end_offset for part in stretches)
                passes = offset == leader.log_end_offset and not conflicting and _knows_leader(reference, facts)
                found.append(_Proof(offset, value if passes else offset, text))
    return found


def _values(facts: ReplicaFacts, cleaner_bound: bool) -> list[tuple[int, str]]:
    directory = facts.directory
    found = [
        (directory.high_watermark_checkpoint, "checkpointed high watermark"),
        (facts.log_start_offset, "log start"),
        (directory.cleaner_checkpoint if cleaner_bound else None, "cleaner checkpoint"),
    ]
    return [(value, name) for value, name in found if value is not None]


def _unseen_below(reference: Reference, item: Comparison) -> int:
    """Where the two logs begin, when nothing there shows that they agree: what lies below may be of another lineage."""
    floor = max(reference.facts.local_start_offset, item.follower.local_start_offset)
    agree = item.common_prefix_end is not None and item.common_prefix_end > floor
    return -1 if agree else floor


def _wrote_up_to(leader: ReplicaFacts, facts: ReplicaFacts, offset: int) -> bool:
    """Whether a log that ends below `offset` had the leader's records up to there: those of one epoch are of one leader.

    Its epoch file, which is written before the records, tells its last epoch, and that must be the leader's there.
    """
    entries = facts.directory.checkpoint_epochs or ()
    if not entries or not all(one[0] < two[0] and one[1] < two[1] for one, two in zip(entries, entries[1:])):
        return False
    epoch, start = entries[-1]
    known = start < facts.log_end_offset or leader.lineage.start_of(epoch) == start
    return known and leader.lineage.epoch_for_offset(offset - 1) == epoch


def _knows_leader(reference: Reference, facts: ReplicaFacts) -> bool:
    """Whether a replica has the latest epoch of the reference, so that what it recorded is of that leadership or later."""
    entries = (*facts.lineage, *(facts.directory.checkpoint_epochs or ()))
    latest = reference.augmented_lineage.latest_epoch
    return latest is None or max((epoch for epoch, _ in entries), default=-1) >= latest


def _first_doubtful_start(leader: ReplicaFacts, leadership: Leadership | None, value: int) -> int:
    """Where the leader's first epoch begins, below `value`, whose election is not known to be clean; else `value`.

    The first epoch of a log counts as clean.
    """
    clean = {one.leader_epoch for one in elections(leadership.history) if one.clean} if leadership else set()
    starts: dict[int, int] = {}
    for epoch, start in (*leader.lineage, *(leader.file_lineage or ())):
        starts[epoch] = min(start, starts.get(epoch, start))
    later = sorted(starts.items())[1:]
    return min((start for epoch, start in later if start < value and epoch not in clean), default=value)


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
