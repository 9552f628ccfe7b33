"""Consumer groups that stand where the log is not what they read (GRP-*)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from replica_audit.auditing.compare.group_positions import EPOCH_DIFFERS, PAST_END, Position
from replica_audit.auditing.finding import Code, Finding, considered, finding
from replica_audit.schema import Evidence
from replica_audit.text import count

if TYPE_CHECKING:
    from replica_audit.auditing.case import Case

#: Groups that a sentence names; `group_offsets` has all.
_NAMED = 5

GRP_PAST_END = Code(
    "GRP-PAST-END",
    severities=("medium",),
    verdicts=(),
    traits=("retold",),
    summary="Consumer groups stand past the end of the log",
    meaning="The offset that the group committed last lies above the leader's log end: what it read last is gone. A Java "
    "client that knows the epoch of its last record goes back to where the logs part, with auto.offset.reset=none it stops "
    "with LogTruncationException; librdkafka and aiokafka read everything again (earliest) or skip to the end (latest), and "
    "none raises an error. Records written from now on below that offset are read by nobody of the group once the log has "
    "grown past it.",
    proof="The committed offset from __consumer_offsets, the leader's log end, and the leader epoch of the last record that the "
    "group read, which ends lower on this log; or a loss, or copies of one moment.",
    remedy="Before the group is started again, set its offsets: kafka-consumer-groups --reset-offsets --to-offset with the "
    "offset that the finding names, and let it read from there; its own side effects of the lost records have to be looked at.",
    traps="Copies of different moments: a group that went on while the log was copied. That is not a finding unless epochs or a "
    "loss tell.",
)
GRP_PAST_DIVERGENCE = Code(
    "GRP-PAST-DIVERGENCE",
    severities=("medium",),
    verdicts=(),
    traits=("retold",),
    summary="Consumer groups stand past the point where the log they read and the leader's part",
    meaning="The group has read records that the leader does not have, and its offset lies inside the leader's log, which has "
    "other records below it. A Java client that knows the epoch of its last record goes back by itself; librdkafka and "
    "aiokafka go on in silence, and the leader's records between the two offsets are read by nobody of the group.",
    proof="The leader epoch of the last record that the group read ends on this log below the committed offset; without an epoch, "
    "the group committed before the leader wrote there (then likely, not proven).",
    remedy="Set the group's offsets back to where the logs part (kafka-consumer-groups --reset-offsets --to-offset) before it "
    "goes on, and look at what it did with the lost records.",
    traps="A group whose client gave no epoch and that committed after the leader's records were written may have read those.",
)
GRP_READ_LOST = Code(
    "GRP-READ-LOST",
    severities=("info",),
    verdicts=(),
    traits=("retold",),
    summary="Consumer groups have gone past records that are lost",
    meaning="Other systems may have acted on records that the leader no longer has: these groups committed offsets above them.",
    proof="The committed offsets, and the first lost record below them.",
    remedy="Ask the owners of these groups what was done with the records; if the records are produced again they are read again.",
    traps="A group that came there after the loss has read the records that stand there now.",
)
CODES = (GRP_PAST_END, GRP_PAST_DIVERGENCE, GRP_READ_LOST)


def judge(case: Case) -> Iterator[Finding]:
    """Committed group offsets past the place where the replicas part."""
    found = [one for one in case.groups if one.parted_at is not None]
    past_end = [one for one in found if one.effect == PAST_END]
    parted = [one for one in found if one.effect == EPOCH_DIFFERS]
    facts = case.reference.facts
    if past_end:
        yield _finding(
            GRP_PAST_END, past_end, f"past the end of the log of broker {facts.broker_id}, {facts.log_end_offset}"
        )
    if parted:
        yield _finding(
            GRP_PAST_DIVERGENCE,
            parted,
            f"inside the log of broker {facts.broker_id}, past where it parts from what they read",
        )
    readers = [one for one in found if case.lost_from is not None and one.offset.committed_offset > case.lost_from]
    if readers:
        yield _finding(GRP_READ_LOST, readers, f"past lost records, which begin at offset {case.lost_from}")


def _finding(code: Code, found: Sequence[Position], where: str) -> Finding:
    groups = sorted({one.offset.group for one in found})
    stands = "stands" if len(groups) == 1 else "stand"
    said = ", ".join(f"{one.offset.group} at {one.offset.committed_offset}" for one in found[:_NAMED])
    more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
    parted = min(one.parted_at for one in found if one.parted_at is not None)
    return finding(
        code,
        f"{count(len(groups), 'consumer group')} {stands} {where}: {said}{more}; the two versions part at offset {parted}",
        confidence="proven" if all(one.proven for one in found) else "likely",
        evidence=[
            *(_evidence(one) for one in found[:_NAMED]),
            considered("an offset of an earlier topic of this name: no, it was committed to this one"),
        ],
    )


def _evidence(one: Position) -> Evidence:
    epoch = (
        "without a leader epoch"
        if one.offset.leader_epoch is None
        else f"after a record of leader epoch {one.offset.leader_epoch}"
    )
    text = f"group {one.offset.group} committed {one.offset.committed_offset} at {one.offset.committed_ms} ms, {epoch}"
    return Evidence("group", text=text, value=str(one.offset.committed_offset))
