"""Bytes of a replica's own log that are not a batch, and batches whose checksum fails (F.2)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from replica_audit.auditing.finding import Code, Finding, considered, finding, offsets
from replica_audit.schema import Evidence
from replica_audit.text import brokers, count

if TYPE_CHECKING:
    from replica_audit.auditing.case import Case
    from replica_audit.auditing.replicas.replica_facts import ReplicaFacts
    from replica_audit.model import Damage, Irregularity, SegmentSummary

LOG_CORRUPT_MID = Code(
    "LOG-CORRUPT-MID",
    severities=("high",),
    verdicts=("LATENT_CORRUPTION",),
    traits=("doubt", "damage"),
    summary="Damaged bytes with sound records after them",
    meaning="A batch fails its checksum or its structure makes no sense, and sound batches follow in the same file "
    "or in later segments. A broker that recovers this log cuts it at the damage and deletes everything after it. "
    "After a clean stop, or below the recovery point, Kafka checks nothing, so the damage waits until a fetch "
    "hits it.",
    proof="The byte position, the length, what was expected there and what was found; the number of sound records "
    "after it that a recovery would destroy; whether the next start would notice.",
    remedy="Do not restart this broker before another in-sync replica is known to hold the range. Then stop it, move the "
    "partition directory away, keep it, and let the broker fetch the partition again. Check the disk.",
    traps="A tail that is cut short, and zeros at the end of the last segment, have codes of their own.",
)
LOG_TAIL_PARTIAL = Code(
    "LOG-TAIL-PARTIAL",
    severities=("medium", "low"),
    verdicts=(),
    traits=("doubt", "damage"),
    summary="The last batch of the log is incomplete",
    meaning="The file ends inside a batch: it was copied, or the broker died, while the batch was written. "
    "Recovery cuts the fragment off. With the clean-shutdown flag it should not be there, and Kafka will not look "
    "for it.",
    proof="The position where the last sound batch ends and the number of bytes after it.",
    remedy="None after a crash or on a live copy. With the clean-shutdown flag, find out what wrote to the file after the "
    "stop, keep a copy of the replica, and let this broker fetch the partition again from one that reaches at least as far. "
    "Do not remove .kafka_cleanshutdown to have the fragment cut off: the broker then recovers every log of that disk, and "
    "with eligible leader replicas loses its place in ISR and ELR.",
    traps="A live copy cuts files anywhere, often at a multiple of 4096 bytes.",
)
LOG_TAIL_ZERO = Code(
    "LOG-TAIL-ZERO",
    severities=("medium", "info"),
    verdicts=(),
    traits=("doubt", "damage", "padding"),
    summary="The log ends in zero bytes",
    meaning="The bytes after the last sound batch are all zero: a file that was allocated in advance "
    "(log.preallocate), or a file system that lost unwritten pages at a power loss.",
    proof="The position of the first zero byte and the number of bytes up to the end of the file.",
    remedy="None with log.preallocate or after a crash: recovery cuts the zeros. With the clean-shutdown flag Kafka does not "
    "look for them: keep a copy of the replica, and let this broker fetch the partition again from one that reaches at least "
    "as far. Do not remove .kafka_cleanshutdown to have them cut off: the broker then recovers every log of that disk, and "
    "with eligible leader replicas loses its place in ISR and ELR.",
    traps="Preallocation trims the file at a clean stop only.",
)
LOG_TAIL_GARBAGE = Code(
    "LOG-TAIL-GARBAGE",
    severities=("medium",),
    verdicts=("LATENT_CORRUPTION",),
    traits=("doubt", "damage"),
    summary="Bytes at the end of the log that are not a batch",
    meaning="After the last sound batch there are bytes that are neither the beginning of a batch nor zeros. "
    "Records may have been there.",
    proof="The position, the length, and what a batch header would have had there.",
    remedy="Keep a copy of the file before the broker starts, since recovery cuts the bytes off. If other replicas reach "
    "beyond the end of this replica, let this broker fetch the partition again.",
    traps="",
)
CODES = (
    LOG_CORRUPT_MID,
    LOG_TAIL_PARTIAL,
    LOG_TAIL_ZERO,
    LOG_TAIL_GARBAGE,
)


#: By the kind of damage: the code of what no batch follows.
TAILS = {"partial": LOG_TAIL_PARTIAL, "zero_filled": LOG_TAIL_ZERO, "garbage": LOG_TAIL_GARBAGE}


def code_of_damage(damage: Damage) -> str:
    """The code that the damage of a segment goes by in `quarantine`."""
    return TAILS.get(damage.kind, LOG_CORRUPT_MID).code


def judge(case: Case) -> Iterator[Finding]:
    """Damage of every replica that was compared or set aside."""
    for facts in (*case.replicas, *case.set_aside):
        for segment in facts.segments:
            for damage in segment.damage:
                yield _damage(case, facts, segment, damage)
        for segment, item in facts.irregularities:
            if item.kind == "crc":
                yield _checksum(case, facts, segment, item)


def _damage(case: Case, facts: ReplicaFacts, segment: SegmentSummary, damage: Damage) -> Finding:
    start = segment.base_offset if damage.expected_offset is None else damage.expected_offset
    place = Evidence(
        "file",
        text=damage.reason,
        broker_id=facts.broker_id,
        path=segment.path,
        position=damage.position,
        value=count(damage.length, "byte"),
    )
    where = f"broker {facts.broker_id}, {segment.path} from byte {damage.position}"
    if damage.next_offset is None and segment is facts.segments[-1]:
        return _tail(facts, damage, start, place, where)
    end = facts.log_end_offset if damage.next_offset is None else damage.next_offset
    return _corrupt_middle(
        case, facts, start, max(end, start), place, f"{where}: {count(damage.length, 'unreadable byte')}"
    )


def _tail(facts: ReplicaFacts, damage: Damage, start: int, place: Evidence, where: str) -> Finding:
    clean = facts.directory.clean_shutdown
    shared: dict[str, Any] = {"broker_id": facts.broker_id, "start_offset": start}
    stopped = (
        "the clean-shutdown flag is set, so a crash does not explain it"
        if clean
        else "the broker was not stopped cleanly"
    )
    if clean is None:
        stopped = "how the broker was stopped is not known"
    if not damage.length:
        return _stopped_listing(damage, place, where, shared)
    if damage.kind == "partial":
        incomplete = f"the last batch is incomplete ({count(damage.length, 'byte')})"
        is_told = "tail" in facts.unproven
        return finding(
            LOG_TAIL_PARTIAL,
            f"{where}: {damage.reason if is_told else incomplete}; {stopped}",
            severity="medium" if clean else "low",
            evidence=[place, considered("live copy: a file read while it is written ends inside a batch")],
            **shared,
        )
    if damage.kind == "zero_filled":
        return finding(
            LOG_TAIL_ZERO,
            f"{where}: {count(damage.length, 'zero byte')} up to the end of the file; {stopped}",
            severity="medium" if clean else "info",
            evidence=[place, considered("preallocation: an active segment may be zero-filled past its data")],
            **shared,
        )
    return finding(
        LOG_TAIL_GARBAGE,
        f"{where}: {count(damage.length, 'byte')} after the last sound batch: neither a batch nor zeros",
        evidence=[place],
        **shared,
    )


def _stopped_listing(damage: Damage, place: Evidence, where: str, shared: dict) -> Finding:
    """The place where the dump tool died. On zeros that is how it ends the listing of a preallocated segment."""
    is_zero = damage.kind == "zero_filled"
    return finding(
        LOG_TAIL_ZERO if is_zero else LOG_TAIL_GARBAGE,
        f"{where}: {damage.reason}",
        severity="info" if is_zero else None,
        evidence=[place, considered("preallocation: an active segment may be zero-filled past its data")]
        if is_zero
        else [place],
        **shared,
    )


def _checksum(case: Case, facts: ReplicaFacts, segment: SegmentSummary, item: Irregularity) -> Finding:
    place = Evidence("batch", text=item.detail, broker_id=facts.broker_id, path=segment.path, position=item.position)
    what = f"broker {facts.broker_id}, {segment.path} at byte {item.position}: checksum of {offsets(item.base_offset, item.last_offset + 1)} fails"
    if item.base_offset >= facts.log_end_offset and segment is facts.segments[-1]:
        return finding(
            LOG_TAIL_GARBAGE,
            f"{what}, and no sound batch follows",
            broker_id=facts.broker_id,
            start_offset=item.base_offset,
            end_offset=item.last_offset + 1,
            evidence=[place],
        )
    return _corrupt_middle(case, facts, item.base_offset, item.last_offset + 1, place, what)


def _corrupt_middle(case: Case, facts: ReplicaFacts, start: int, end: int, place: Evidence, what: str) -> Finding:
    lost = count(max(0, facts.log_end_offset - max(end, start)), "offset") + " of sound records"
    holders = [
        other.broker_id
        for other in case.replicas
        if other is not facts
        and other.local_start_offset <= start
        and other.log_end_offset >= end
        and not other.cannot_read(start, max(end, start + 1))
    ]
    if facts.directory.clean_shutdown is None:
        notice = f"a full recovery would cut the log there and destroy {lost} after it"
    elif facts.loaded.cut_position is not None:
        notice = f"the next start cuts the log there and destroys {lost} after it"
    else:
        notice = (
            "the next start does not look there (clean stop, or below the recovery point); it shows when it is fetched, "
            f"and a full recovery would destroy {lost} after it"
        )
    repair = f"readable on {brokers(holders)}" if holders else "no other replica here has this range readable"
    return finding(
        LOG_CORRUPT_MID,
        f"{what}; {notice}; {repair}",
        broker_id=facts.broker_id,
        start_offset=start,
        end_offset=end,
        evidence=[place],
    )
