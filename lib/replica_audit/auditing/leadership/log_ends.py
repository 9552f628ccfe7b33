"""Log ends that bound the high watermark from above (C.2), and reasons why others do not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from replica_audit.protocol.election import last_led

if TYPE_CHECKING:
    from replica_audit.auditing.compare.comparison import Comparison
    from replica_audit.auditing.replicas.reference import Reference
    from replica_audit.auditing.replicas.replica_facts import ReplicaFacts
    from replica_audit.model import Leadership

#: `log.segment.bytes` when nobody sets it.
_DEFAULT_SEGMENT_BYTES = 1 << 30
#: Preallocated files have a configured length, which is a multiple of this.
_ROUND_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class LogEnd:
    """The high watermark was never above `offset`: as far as one replica agrees with the leader."""

    broker_id: int
    offset: int
    text: str
    of_reference: bool = False


def bounding_ends(
    reference: Reference, comparisons: Sequence[Comparison], leadership: Leadership | None
) -> tuple[list[LogEnd], list[str]]:
    """The ends that bound, that of the reference first; and in words why those of other candidates do not.

    Candidates are the leader, the last one where nobody leads, a reference that was inferred, and every member of the ISR
    and the eligible leader replicas.
    """
    leader = reference.facts
    replicas = (leader, *(item.follower for item in comparisons))
    members = {*(reference.isr or ()), *reference.elr}
    found: list[LogEnd] = []
    open_ends: list[str] = []
    if leader.broker_id in members or is_led(reference, leadership):
        reason = why_open(leader, replicas, leadership) or why_down(leader, leadership)
        if reason is None and (unseen := _may_lead_unseen(reference, replicas)):
            reason = f"the leadership given is older than the logs, and broker {unseen[0]}, of which no log is here, may lead"
        if reference.predates:
            reason = f"the files of broker {leader.broker_id} were copied before it began to lead in epoch {reference.leader_epoch}"
        if reason is None:
            end = leader.log_end_offset
            found.append(
                LogEnd(leader.broker_id, end, f"log end {end} of broker {leader.broker_id}, the reference", True)
            )
        else:
            open_ends.append(reason)
    for item in comparisons:
        facts = item.follower
        if facts.broker_id not in members:
            continue
        reason = why_open(facts, replicas, leadership) or why_down(facts, leadership)
        if reason is not None:
            open_ends.append(reason)
            continue
        suffix = item.diverging_suffix(leader.log_end_offset)
        what = "log end" if suffix is None else "start of the diverging tail"
        offset = facts.log_end_offset if suffix is None else suffix.start_offset
        text = f"{what} {offset} of broker {facts.broker_id}, which is in sync or eligible to lead"
        found.append(LogEnd(facts.broker_id, offset, text))
    here = {facts.broker_id for facts in replicas}
    absent = {*members, *(() if reference.leader_id is None else (reference.leader_id,))} - here
    open_ends += [f"no usable log of broker {broker_id} is here" for broker_id in sorted(absent)]
    return found, open_ends


def _may_lead_unseen(reference: Reference, replicas: Sequence[ReplicaFacts]) -> list[int]:
    """Assigned brokers without a log here, any of which may lead in an epoch that no other one knows, where nothing newer
    than the logs says who leads."""
    assigned = () if reference.outdated is None else reference.outdated.replicas or ()
    return sorted({*assigned} - {facts.broker_id for facts in replicas})


def is_led(reference: Reference, leadership: Leadership | None) -> bool:
    """True if the reference leads, led last while nobody does, or stands in for an unknown leader."""
    if reference.leader_id == reference.facts.broker_id:
        return True
    last = None if reference.leader_id is not None or leadership is None else last_led(leadership.history)
    return last is not None and last.leader_id == reference.facts.broker_id


def why_open(facts: ReplicaFacts, replicas: Sequence[ReplicaFacts], leadership: Leadership | None) -> str | None:
    """Clause saying why a replica may have had more than its files show; None if its log end is what it reported."""
    name = f"broker {facts.broker_id}"
    end = facts.log_end_offset
    checkpoint = facts.directory.high_watermark_checkpoint
    recovery_point = facts.directory.recovery_point_checkpoint
    if facts.end_is_open:
        return f"the log of {name} may go on past {end}, as far as it is shown"
    if checkpoint is not None and checkpoint > end:
        return f"{name} ends at {end}, below its own checkpointed high watermark {checkpoint}"
    if recovery_point is not None and recovery_point > end:
        return f"{name} ends at {end}, below its own recovery point {recovery_point}"
    if facts.tail_kind == "zero_filled" and not is_preallocated(facts, replicas, leadership):
        return f"{name} has zeros after its last batch at {end}, where records may have been"
    if facts.tail_kind in ("partial", "garbage"):
        return f"{name} has unreadable bytes after its last sound batch, which ends at {end}"
    return None


def why_down(facts: ReplicaFacts, leadership: Leadership | None) -> str | None:
    """Clause saying why a replica may have lost its end to a kill or a power loss; None if it runs or was stopped cleanly.

    A broker that runs never has the clean flag; the metadata log says of it that it is not fenced. An eligible leader
    replica has left the ISR because it went down or lagged: if nothing says which, it may have been killed.
    """
    broker_id = facts.broker_id
    name = f"broker {facts.broker_id}"
    if facts.directory.clean_shutdown:
        return None
    if facts.killed:
        return f"{name} was killed, and may have had more than it has on disk"
    if leadership is None:
        return None
    if leadership.fenced is None:
        unsure = broker_id in leadership.elr and broker_id != leadership.leader_id
        return f"{name} is eligible to lead, and may have been killed" if unsure else None
    if broker_id in leadership.fenced:
        return f"{name} was killed or lost power, and may have had more than it has on disk"
    return None


def is_preallocated(facts: ReplicaFacts, replicas: Sequence[ReplicaFacts], leadership: Leadership | None) -> bool:
    """True if zeros after the last batch are preallocated space (`log.preallocate`), not records that a power loss took.

    A clean stop cuts that space off. Otherwise the file's length tells: that of `segment.bytes`, or the same on all replicas.
    """
    if facts.directory.clean_shutdown or not facts.segments:
        return False
    length = facts.segments[-1].size_bytes
    configured = "" if leadership is None else leadership.configs.get("segment.bytes", "")
    if length == (int(configured) if configured.isdigit() else _DEFAULT_SEGMENT_BYTES) or length % _ROUND_BYTES == 0:
        return True
    lengths = {one.segments[-1].size_bytes if one.tail_kind == "zero_filled" else None for one in replicas}
    return len(replicas) > 1 and lengths == {length}
