"""Integrity of one replica's own files (F.2)."""

from __future__ import annotations

from collections.abc import Iterator

from replica_audit.auditing.findings.finding import Case, Evidence, Finding, considered, finding, offsets
from replica_audit.auditing.findings.rules.missing_segments import indexes_without_log, missing_file
from replica_audit.auditing.replicas.facts import ReplicaFacts
from replica_audit.auditing.replicas.written_epochs import EpochRot
from replica_audit.model import Damage, Irregularity, SegmentSummary
from replica_audit.wording import brokers, count

_CODES = {
    "regression": "LOG-OFFSET-REGRESSION",
    "duplicate": "LOG-OFFSET-DUPLICATE",
    "epoch_regression": "LOG-EPOCH-REGRESSION",
    "segment_name": "LOG-SEGMENT-NAME",
    "field": "LOG-FIELD",
    "producer_duplicate": "LOG-PRODUCER-DUPLICATE",
}


def judge(case: Case) -> Iterator[Finding]:
    """LOG-* and CAP-MISSING-SEGMENT of every replica that was compared."""
    for facts in (*case.replicas, *case.set_aside):
        for segment in facts.segments:
            for damage in segment.damage:
                yield _damage(case, facts, segment, damage)
        for segment, item in facts.irregularities:
            if item.kind == "crc":
                yield _checksum(case, facts, segment, item)
            elif item.kind == "gap":
                yield _gap(facts, segment, item)
            elif not _was_told_to_begin_anew(case, item):
                yield _irregular(facts, segment, item)
        for one in facts.rot:
            yield _changed_epoch(facts, one)
        for stretch in facts.missing:
            yield missing_file(case, facts, stretch.start_offset, stretch.end_offset)
        yield from indexes_without_log(facts)


def _place(facts: ReplicaFacts, segment: SegmentSummary, position: int, text: str) -> Evidence:
    return Evidence("batch", text, facts.broker_id, segment.path, position)


def _damage(case: Case, facts: ReplicaFacts, segment: SegmentSummary, damage: Damage) -> Finding:
    start = segment.base_offset if damage.expected_offset is None else damage.expected_offset
    place = Evidence(
        "file", damage.reason, facts.broker_id, segment.path, damage.position, count(damage.length, "byte")
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
    shared = {"broker_id": facts.broker_id, "start_offset": start}
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
            "LOG-TAIL-PARTIAL",
            f"{where}: {damage.reason if is_told else incomplete}; {stopped}",
            severity="medium" if clean else "low",
            evidence=[place, considered("live copy: a file read while it is written ends inside a batch")],
            **shared,
        )
    if damage.kind == "zero_filled":
        return finding(
            "LOG-TAIL-ZERO",
            f"{where}: {count(damage.length, 'zero byte')} up to the end of the file; {stopped}",
            severity="medium" if clean else "info",
            evidence=[place, considered("preallocation: an active segment may be zero-filled past its data")],
            **shared,
        )
    return finding(
        "LOG-TAIL-GARBAGE",
        f"{where}: {count(damage.length, 'byte')} after the last sound batch: neither a batch nor zeros",
        evidence=[place],
        **shared,
    )


def _stopped_listing(damage: Damage, place: Evidence, where: str, shared: dict) -> Finding:
    """The place where the dump tool died. On zeros that is how it ends the listing of a preallocated segment."""
    is_zero = damage.kind == "zero_filled"
    return finding(
        "LOG-TAIL-ZERO" if is_zero else "LOG-TAIL-GARBAGE",
        f"{where}: {damage.reason}",
        severity="info" if is_zero else None,
        evidence=[place, considered("preallocation: an active segment may be zero-filled past its data")]
        if is_zero
        else [place],
        **shared,
    )


def _checksum(case: Case, facts: ReplicaFacts, segment: SegmentSummary, item: Irregularity) -> Finding:
    place = _place(facts, segment, item.position, item.detail)
    what = f"broker {facts.broker_id}, {segment.path} at byte {item.position}: checksum of {offsets(item.base_offset, item.last_offset + 1)} fails"
    if item.base_offset >= facts.log_end_offset and segment is facts.segments[-1]:
        return finding(
            "LOG-TAIL-GARBAGE",
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
        "LOG-CORRUPT-MID",
        f"{what}; {notice}; {repair}",
        broker_id=facts.broker_id,
        start_offset=start,
        end_offset=end,
        evidence=[place],
    )


def _gap(facts: ReplicaFacts, segment: SegmentSummary, item: Irregularity) -> Finding:
    start, end = item.previous + 1, item.base_offset
    by_cleaner = facts.is_cleaned(start, end)
    return finding(
        "LOG-GAP",
        f"broker {facts.broker_id} has nothing at {offsets(start, end)}",
        severity="info" if by_cleaner else "medium",
        broker_id=facts.broker_id,
        start_offset=start,
        end_offset=end,
        evidence=[
            _place(facts, segment, item.position, f"batch at {end} follows offset {start - 1}"),
            considered(_by_cleaners(facts, end) if by_cleaner else _not_by_cleaners(facts)),
        ],
    )


def _by_cleaners(facts: ReplicaFacts, end: int) -> str:
    if end <= facts.cleaning.cleaned_to:
        return "compaction: the log is compacted, or was once, and the gap lies in its cleaned part"
    return "compaction: fetched from a replica that was cleaned: another one has nothing there either, and a cleaner came past it"


def _not_by_cleaners(facts: ReplicaFacts) -> str:
    if not facts.compacted:
        return "compaction: does not explain it, nothing shows that this log is compacted"
    own, furthest = facts.cleaning.cleaned_to, facts.cleaning.furthest
    others = "no other replica's came further" if furthest <= own else f"another replica's came to {furthest}"
    return f"compaction: does not explain it, the cleaner came to {own} only, and {others}"


def _was_told_to_begin_anew(case: Case, item: Irregularity) -> bool:
    """Whether a producer's sequence begins again because all that it had written was deleted on the leader (up to 2.4).

    Replicas whose retention runs later still have the earlier batches.
    """
    deleted = max(facts.log_start_offset for facts in case.replicas)
    return item.kind == "producer_duplicate" and item.previous is not None and item.previous < deleted


def _irregular(facts: ReplicaFacts, segment: SegmentSummary, item: Irregularity) -> Finding:
    is_neighbours = item.previous is not None and item.kind != "producer_duplicate"
    value = f" after {item.previous}" if is_neighbours else ""
    return finding(
        _CODES[item.kind],
        f"broker {facts.broker_id}, {segment.path} at byte {item.position}: {offsets(item.base_offset, item.last_offset + 1)}, "
        f"leader epoch {item.leader_epoch}{value}: {item.detail}",
        broker_id=facts.broker_id,
        start_offset=item.base_offset,
        end_offset=item.last_offset + 1,
        evidence=[_place(facts, segment, item.position, item.detail)],
    )


def _changed_epoch(facts: ReplicaFacts, one: EpochRot) -> Finding:
    where, good = offsets(one.start_offset, one.end_offset), one.good_key[0]
    known = (
        "its own epoch file has that epoch, as recovery writes it after an unclean stop, and nothing else knows it"
        if one.in_file
        else "neither its own epoch file nor anything else knows that epoch there"
    )
    return finding(
        "LOG-CRC-BLIND",
        f"broker {facts.broker_id}: {where} read leader epoch {one.leader_epoch}, which no checksum covers; broker {good} has the "
        f"same bytes in epoch {one.true_epoch}, and {known}",
        confidence=one.confidence,
        broker_id=facts.broker_id,
        start_offset=one.start_offset,
        end_offset=one.end_offset,
        replica_epoch=one.leader_epoch,
        evidence=[
            Evidence(
                "batch", f"leader epoch {one.leader_epoch} here, {one.true_epoch} on broker {good}", facts.broker_id
            ),
            Evidence("lineage", _entries(facts), facts.broker_id, facts.directory.epoch_file.path),
            considered(
                "a producer's retry to a new leader: no election began that epoch there, by the epoch files and the metadata log"
                if one.confidence == "proven"
                else "a producer's retry to a new leader: an election whose only trace is this replica's would look the same"
            ),
        ],
    )


def _entries(facts: ReplicaFacts) -> str:
    entries = facts.directory.checkpoint_epochs
    return "no entries" if not entries else ", ".join(f"epoch {epoch} from {start} on" for epoch, start in entries)
