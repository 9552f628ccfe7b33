"""What replicas recorded of the high watermark, as far as it holds of the reference's log: lower bounds (C.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from replica_audit.auditing.leadership.log_ends import is_led
from replica_audit.auditing.replicas.shared_range import shared_start
from replica_audit.protocol.election import CleanElections

if TYPE_CHECKING:
    from replica_audit.auditing.comparing.comparison import Comparison
    from replica_audit.auditing.replicas.facts import ReplicaFacts
    from replica_audit.auditing.replicas.reference import Reference
    from replica_audit.model import Leadership


@dataclass(frozen=True, slots=True)
class Proof:
    """What a replica recorded of the high watermark: everything below `offset` of the reference's log was committed."""

    offset: int
    reached: int
    """The high watermark itself; past `offset` where the reference does not have what was committed in its own epoch."""
    text: str


def recorded_marks(
    reference: Reference, comparisons: Sequence[Comparison], leadership: Leadership | None, cleaner_bound: bool
) -> list[Proof]:
    """What each replica recorded of the high watermark, as far as that is of the reference's lineage; never empty.

    A value within both logs proves all below it where the two agree there. One past an end, left by a lost tail or by a
    copy of another moment, proves what lies below that end, but nothing from the first epoch on that began below it and
    whose election may have been unclean: the replica may have been cut there since.
    """
    leader, led = reference.facts, is_led(reference, leadership)
    clean = CleanElections.of(() if leadership is None else leadership.history)
    last_epoch = None if leadership is None else leadership.leader_epoch
    latest = reference.complete(reference.facts.lineage).latest_epoch
    start = leader.log_start_offset
    found = [Proof(start, start, f"log start {start} of broker {leader.broker_id}")]
    if not led and _may_have_been_cut(leader, last_epoch, clean):
        found = [Proof(0, 0, "nothing: the leader may have been elected without what the others have")]
    for facts, stretches, agreed_above in (
        (leader, (), -1),
        *((item.follower, item.stretches, unseen_below(reference, item)) for item in comparisons),
    ):
        if not led and _may_have_been_cut(facts, last_epoch, clean):
            continue
        for value, name in _values(facts, cleaner_bound):
            offset = min(value, leader.log_end_offset)
            if offset > facts.log_end_offset and not _wrote_up_to(leader, facts, offset):
                offset = facts.log_end_offset
            if value > min(facts.log_end_offset, leader.log_end_offset):
                offset = min(offset, _first_doubtful_start(leader, value, clean))
            held = min(offset, facts.log_end_offset)
            # An empty leader has nothing to agree on: the other had records from there on.
            from_empty = leader.empty and held == leader.log_end_offset >= agreed_above
            if (held > agreed_above or from_empty) and not any(
                part.start_offset < held <= part.end_offset for part in stretches
            ):
                text = f"{name} {value} of broker {facts.broker_id}"
                text += "" if offset == value else f", which proves everything below {offset}"
                conflicting = any(part.start_offset < value <= part.end_offset for part in stretches)
                # Of the reference's leadership or a later one; what was recorded before it, it may rightly lack, unless every
                # election since was clean.
                known = _latest_known_epoch(facts)
                current = latest is None or known >= latest or clean.between(known, latest)
                passes = offset == leader.log_end_offset and not conflicting and current
                found.append(Proof(offset, value if passes else offset, text))
    return found


def _values(facts: ReplicaFacts, cleaner_bound: bool) -> list[tuple[int, str]]:
    directory = facts.directory
    found = [
        (directory.high_watermark_checkpoint, "checkpointed high watermark"),
        (facts.log_start_offset, "log start"),
        (directory.cleaner_checkpoint if cleaner_bound else None, "cleaner checkpoint"),
    ]
    return [(value, name) for value, name in found if value is not None]


def unseen_below(reference: Reference, item: Comparison) -> int:
    """Where the two logs begin, when nothing there shows that they agree: what lies below may be of another lineage; else -1."""
    floor = shared_start(reference.facts, item.follower)
    agree = item.common_prefix_end is not None and item.common_prefix_end > floor
    return -1 if agree else floor


def _wrote_up_to(leader: ReplicaFacts, facts: ReplicaFacts, offset: int) -> bool:
    """Whether a log that ends below `offset` had the leader's records up to there: those of one epoch are of one leader.

    Its epoch file, which is written before the records, tells its last epoch, and that must be the leader's there.
    """
    entries = facts.directory.checkpoint_epochs or ()
    if not entries or not facts.file_increases:
        return False
    epoch, start = entries[-1]
    known = start < facts.log_end_offset or leader.lineage.start_of(epoch) == start
    return known and leader.lineage.epoch_for_offset(offset - 1) == epoch


def _latest_known_epoch(facts: ReplicaFacts) -> int:
    entries = (*facts.lineage, *(facts.directory.checkpoint_epochs or ()))
    return max((epoch for epoch, _ in entries), default=-1)


def _may_have_been_cut(facts: ReplicaFacts, last_epoch: int | None, clean: CleanElections) -> bool:
    """Whether a leader whose log is not here may have been elected, uncleanly, without what a replica recorded before."""
    known = _latest_known_epoch(facts)
    return last_epoch is not None and last_epoch > known and not clean.between(known, last_epoch)


def _first_doubtful_start(leader: ReplicaFacts, value: int, clean: CleanElections) -> int:
    """Where the leader's first epoch begins, below `value`, that an unclean election may have preceded; else `value`.

    The first epoch of a log counts as clean.
    """
    starts: dict[int, int] = {}
    for epoch, start in (*leader.lineage, *(leader.file_lineage or ())):
        starts[epoch] = min(start, starts.get(epoch, start))
    entries = sorted(starts.items())
    for (before, _), (epoch, start) in zip(entries, entries[1:]):
        if start < value and not clean.between(before, epoch):
            return start
    return value
