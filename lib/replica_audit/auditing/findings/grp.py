"""Consumer groups and share groups whose position does not match the log they read (GRP-*), by the effects from `auditing.consumer_groups`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, get_args

from replica_audit.auditing.finding import Code, Finding, considered, finding
from replica_audit.literals import GroupKind
from replica_audit.schema import Evidence
from replica_audit.text import count, verb

if TYPE_CHECKING:
    from replica_audit.auditing.case import Case
    from replica_audit.auditing.consumer_groups import Position

#: Maximum number of groups named in a sentence; `group_offsets` has all.
_NAMED = 5

GRP_PAST_END = Code("GRP-PAST-END", ("medium",))
GRP_PAST_DIVERGENCE = Code("GRP-PAST-DIVERGENCE", ("medium",))
GRP_READ_LOST = Code("GRP-READ-LOST", ("info",))


def judge(case: Case) -> Iterator[Finding]:
    """GRP-* for committed group offsets past the point where the replicas diverge."""
    found = [one for one in case.groups if one.parted_at is not None]
    past_end = [one for one in found if one.effect == "past_end"]
    parted = [one for one in found if one.effect == "epoch_differs"]
    facts = case.reference.facts
    if past_end:
        yield _finding(
            GRP_PAST_END, past_end, f"past the end of the log of broker {facts.broker_id}, {facts.log_end_offset}"
        )
    if parted:
        yield _finding(
            GRP_PAST_DIVERGENCE,
            parted,
            f"inside the log of broker {facts.broker_id}, past the point where it parts from what they read",
        )
    readers = [one for one in found if case.lost_from is not None and one.offset.committed_offset > case.lost_from]
    if readers:
        yield _finding(GRP_READ_LOST, readers, f"past lost records, which begin at offset {case.lost_from}")


def _finding(code: Code, found: Sequence[Position], where: str) -> Finding:
    groups = Counter(kind for kind, _ in {(one.offset.kind, one.offset.group) for one in found})
    who = " and ".join(count(groups[kind], f"{kind} group") for kind in get_args(GroupKind) if groups[kind])
    stands = verb(groups.total(), "is", "are")
    said = ", ".join(f"{one.offset.group} at {one.offset.committed_offset}" for one in found[:_NAMED])
    more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
    parted = min(one.parted_at for one in found if one.parted_at is not None)
    return finding(
        code,
        f"{who} {stands} {where}: {said}{more}; the two versions part at offset {parted}",
        confidence="proven" if all(one.proven for one in found) else "likely",
        evidence=[
            *(_evidence(one) for one in found[:_NAMED]),
            considered("an offset of an earlier topic of this name: no, it was committed to this one"),
        ],
    )


def _evidence(one: Position) -> Evidence:
    at = one.offset
    came, read = ("reached", "records of a leader of") if at.kind == "share" else ("committed", "a record of leader")
    epoch = "without a leader epoch" if at.leader_epoch is None else f"after {read} epoch {at.leader_epoch}"
    text = f"group {at.group} {came} {at.committed_offset} at {at.committed_ms} ms, {epoch}"
    return Evidence("group", text=text, value=str(at.committed_offset))
