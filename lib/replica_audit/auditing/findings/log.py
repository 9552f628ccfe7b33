"""Damage in a replica's own log: bytes outside batches, impossible batches, offsets without any (F.2)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from replica_audit.auditing.finding import (
    Code,
    Finding,
    considered,
    copy_again,
    corrupt_batch,
    finding,
    in_epoch_file,
    likely,
    undecided,
    unless_unwritten,
    unread_records,
)
from replica_audit.auditing.replicas.offset_ranges import damaged_stretches, traces_of_segment
from replica_audit.literals import Severity
from replica_audit.model import GROUP_OFFSETS_TOPIC
from replica_audit.protocol.versions import keeps_committed
from replica_audit.schema import Evidence
from replica_audit.text import count, name_brokers, name_offsets

if TYPE_CHECKING:
    from replica_audit.auditing.case import Case
    from replica_audit.auditing.replicas.log_contents import CorruptEpoch
    from replica_audit.auditing.replicas.replica_facts import ReplicaFacts
    from replica_audit.model import Damage, Irregularity, OffsetRange, SegmentSummary

LOG_CORRUPT_MID = Code(
    "LOG-CORRUPT-MID",
    ("high", "medium"),
    ("LATENT_CORRUPTION", "INCONCLUSIVE"),
    traits=("doubt", "damage", "moved_away"),
)
LOG_TAIL_PARTIAL = Code("LOG-TAIL-PARTIAL", ("medium", "low"), traits=("doubt", "damage", "moved_away"))
LOG_TAIL_ZERO = Code("LOG-TAIL-ZERO", ("medium", "info"), traits=("doubt", "damage", "padding", "moved_away"))
LOG_TAIL_GARBAGE = Code(
    "LOG-TAIL-GARBAGE", ("medium",), ("LATENT_CORRUPTION", "INCONCLUSIVE"), traits=("doubt", "damage", "moved_away")
)
LOG_OFFSET_REGRESSION = Code(
    "LOG-OFFSET-REGRESSION",
    ("high", "medium"),
    ("LATENT_CORRUPTION", "INCONCLUSIVE"),
    traits=("doubt", "damage", "moved_away"),
)
LOG_OFFSET_DUPLICATE = Code(
    "LOG-OFFSET-DUPLICATE", ("high",), ("LATENT_CORRUPTION",), traits=("doubt", "damage", "moved_away")
)
LOG_EPOCH_REGRESSION = Code(
    "LOG-EPOCH-REGRESSION", ("high",), ("LATENT_CORRUPTION",), traits=("doubt", "damage", "moved_away")
)
LOG_GAP = Code("LOG-GAP", ("medium", "low", "info"), traits=("doubt", "damage", "moved_away"))
LOG_SEGMENT_NAME = Code("LOG-SEGMENT-NAME", ("medium",), traits=("doubt", "damage", "moved_away"))
LOG_FIELD = Code("LOG-FIELD", ("medium",), traits=("doubt", "damage", "moved_away"))
LOG_CRC_BLIND = Code("LOG-CRC-BLIND", ("high",), ("LATENT_CORRUPTION",), traits=("doubt", "damage", "moved_away"))
LOG_PRODUCER_DUPLICATE = Code("LOG-PRODUCER-DUPLICATE", ("medium",), traits=("doubt", "damage"))


#: Code of damage without a following batch, by its kind.
TAILS = {"partial": LOG_TAIL_PARTIAL, "zero_filled": LOG_TAIL_ZERO, "garbage": LOG_TAIL_GARBAGE}


_CODES = {
    "regression": LOG_OFFSET_REGRESSION,
    "duplicate": LOG_OFFSET_DUPLICATE,
    "epoch_regression": LOG_EPOCH_REGRESSION,
    "segment_name": LOG_SEGMENT_NAME,
    "field": LOG_FIELD,
    "producer_duplicate": LOG_PRODUCER_DUPLICATE,
}


def judge(case: Case) -> Iterator[Finding]:
    """LOG-* of every replica that was compared or set aside, including findings of the comparison."""
    yield from _unreadable(case)
    yield from _wrong(case)


def code_of_damage(damage: Damage) -> str:
    """Code of a segment's damage in `quarantine`."""
    return TAILS.get(damage.kind, LOG_CORRUPT_MID).code


def _unreadable(case: Case) -> Iterator[Finding]:
    """Findings on unreadable parts of every replica that was compared or set aside."""
    for facts in (*case.replicas, *case.set_aside):
        for segment, damage, stretch in damaged_stretches(facts.segments, facts.log_end_offset):
            yield _damage(case, facts, segment, damage, stretch)
        for segment, item in facts.irregularities:
            if item.kind == "crc":
                yield _checksum(case, facts, segment, item)


def _damage(case: Case, facts: ReplicaFacts, segment: SegmentSummary, damage: Damage, stretch: OffsetRange) -> Finding:
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
        return unless_unwritten(case, facts, _tail(facts, damage, stretch.start_offset, place, where))
    return _corrupt_middle(case, facts, *stretch, place, f"{where}: {count(damage.length, 'unreadable byte')}")


def _tail(facts: ReplicaFacts, damage: Damage, start: int, place: Evidence, where: str) -> Finding:
    """Finding on damage without a following batch: LOG-TAIL-PARTIAL, LOG-TAIL-ZERO or LOG-TAIL-GARBAGE."""
    clean = facts.directory.clean_shutdown
    code, severity, explanation = _kind_of_tail(damage, clean)
    if not damage.length:
        # The dump tool died there. On zeros that is how it ends the listing of a preallocated segment.
        what = damage.reason
    elif code is LOG_TAIL_GARBAGE:
        what = f"{count(damage.length, 'byte')} after the last sound batch: neither a batch nor zeros"
    elif code is LOG_TAIL_ZERO:
        what = f"{count(damage.length, 'zero byte')} up to the end of the file; {_how_stopped(clean)}"
    else:
        incomplete = f"the last batch is incomplete ({count(damage.length, 'byte')})"
        what = f"{damage.reason if 'tail' in facts.unproven else incomplete}; {_how_stopped(clean)}"
    return finding(
        code,
        f"{where}: {what}",
        severity=severity,
        broker_id=facts.broker_id,
        offsets=(start, None),
        evidence=[place, *explanation],
    )


def _kind_of_tail(damage: Damage, clean: bool | None) -> tuple[Code, Severity, list[Evidence]]:
    """Code and severity of a tail, and its harmless explanation.

    | damage | bytes shown | stop | code | severity |
    |---|---|---|---|---|
    | partial | yes | clean | LOG-TAIL-PARTIAL | medium |
    | partial | yes | not clean, or unknown | LOG-TAIL-PARTIAL | low |
    | zero_filled | yes | clean | LOG-TAIL-ZERO | medium |
    | zero_filled | yes | not clean, or unknown | LOG-TAIL-ZERO | info |
    | zero_filled | no | | LOG-TAIL-ZERO | info |
    | any other, and partial without bytes | | | LOG-TAIL-GARBAGE | medium |
    """
    if damage.kind == "partial" and damage.length:
        live = considered("live copy: a file read while it is written ends inside a batch")
        return LOG_TAIL_PARTIAL, "medium" if clean else "low", [live]
    if damage.kind == "zero_filled":
        preallocated = considered("preallocation: an active segment may be zero-filled past its data")
        return LOG_TAIL_ZERO, "medium" if clean and damage.length else "info", [preallocated]
    return LOG_TAIL_GARBAGE, "medium", []


def _how_stopped(clean: bool | None) -> str:
    if clean is None:
        return "it is not known how the broker was stopped"
    if clean:
        return "the clean-shutdown flag is set, so a crash does not explain it"
    return "the broker was not stopped cleanly"


def _checksum(case: Case, facts: ReplicaFacts, segment: SegmentSummary, item: Irregularity) -> Finding:
    place = Evidence("batch", text=item.detail, broker_id=facts.broker_id, path=segment.path, position=item.position)
    where = name_offsets(item.base_offset, item.last_offset + 1)
    what = f"broker {facts.broker_id}, {segment.path} at byte {item.position}: checksum of {where} fails"
    if item.base_offset >= facts.log_end_offset and segment is facts.segments[-1]:
        found = finding(
            LOG_TAIL_GARBAGE,
            f"{what}, and no sound batch follows",
            broker_id=facts.broker_id,
            offsets=(item.base_offset, item.last_offset + 1),
            evidence=[place],
        )
        return unless_unwritten(case, facts, found)
    return _corrupt_middle(case, facts, item.base_offset, item.last_offset + 1, place, what)


def _corrupt_middle(case: Case, facts: ReplicaFacts, start: int, end: int, place: Evidence, what: str) -> Finding:
    lost = count(max(0, facts.log_end_offset - max(end, start)), "offset") + " of sound records"
    holding = [
        other
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
            "the next start does not check it (clean stop, or below the recovery point); the damage shows when it is fetched, "
            f"and a full recovery would destroy {lost} after it"
        )
    holders = [other.broker_id for other in holding if case.is_checked(other, start, max(end, start + 1))]
    repair = f"readable on {name_brokers(holders)}" if holders else "readable on no other replica here"
    if holding and not holders:
        unsure = name_brokers([other.broker_id for other in holding])
        repair = f"perhaps readable on {unsure}, where its checksum was not computed"
    found = finding(
        LOG_CORRUPT_MID,
        f"{what}; {notice}; {repair}",
        broker_id=facts.broker_id,
        offsets=(start, end),
        evidence=[place],
    )
    return unless_unwritten(case, facts, found)


def _wrong(case: Case) -> Iterator[Finding]:
    """Findings on impossible batches of every replica that was compared or set aside, and from their comparison."""
    for facts in (*case.replicas, *case.set_aside):
        begins = case.begin_of(facts)
        for segment, found in facts.irregularities:
            if found.kind == "gap" and found.previous is not None:
                if found.base_offset > begins and not case.is_doubted(facts, found.previous + 1, found.base_offset):
                    yield _gap(facts, segment, found, found.previous + 1)
            elif found.kind != "crc" and not _begins_anew_soundly(case, found):
                yield _irregular(case, facts, segment, found)
        for one in facts.rot:
            yield _changed_epoch(facts, one)
        for stretch in case.missing_of(facts):
            yield from _border_gap(case, facts, stretch)
    for item in case.comparisons:
        for pair in item.alignment.corrupt:
            if pair.kind == "blind":
                yield corrupt_batch(LOG_CRC_BLIND, pair)
        for problems in item.problems_by_broker("undecodable"):
            yield unread_records(
                LOG_FIELD, problems, "cannot be decoded, not even by Kafka, though the checksum is right"
            )


def _gap(facts: ReplicaFacts, segment: SegmentSummary, item: Irregularity, start: int) -> Finding:
    end = item.base_offset
    return finding(
        LOG_GAP,
        f"broker {facts.broker_id} has nothing at {name_offsets(start, end)}",
        severity=_gap_severity(facts, start, end),
        broker_id=facts.broker_id,
        offsets=(start, end),
        evidence=[
            _place(facts, segment, item.position, f"batch at {end} follows offset {start - 1}"),
            considered(f"compaction: {_of_cleaners(facts, start, end)}"),
        ],
    )


_MAY_BE_CLEANED = "may explain it, a running cleaner goes on after its checkpoint was copied"


def _gap_severity(facts: ReplicaFacts, start: int, end: int) -> Severity:
    """Severity of a gap; what a compacted log may have lost in it is shown by comparing keys."""
    if facts.is_cleaned(start, end):
        return "low" if facts.compaction_is_assumed else "info"
    return "low" if facts.may_be_cleaned(start, end) else "medium"


def _of_cleaners(facts: ReplicaFacts, start: int, end: int) -> str:
    """Clause on whether cleaners explain a gap."""
    own, furthest = facts.cleaning.cleaned_to, facts.cleaning.furthest
    if facts.is_cleaned(start, end):
        if facts.compaction_is_assumed:
            return "may explain it, the topic's policy is not known (observe it with DescribeConfigs)"
        if end <= own:
            return "the log is or was compacted, and the gap lies in its cleaned part"
        return "fetched from a cleaned replica: another one has nothing there either, and a cleaner got past it"
    if not facts.compacted:
        return "does not explain it, nothing shows that this log is compacted"
    if facts.may_be_cleaned(start, end):
        return _MAY_BE_CLEANED
    others = "no other replica's got further" if furthest <= own else f"another replica's got to {furthest}"
    return f"does not explain it, the cleaner got only to {own}, and {others}"


def _begins_anew_soundly(case: Case, item: Irregularity) -> bool:
    """True if a producer's sequence restarts because all that it had written was deleted on the leader (up to 2.4), or the batch is
    of offsets committed in a transaction: the group coordinator gives each sequence 0, and a broker does not check its appends.

    Replicas whose retention runs later still have the earlier batches.
    """
    if item.kind != "producer_duplicate" or item.previous is None:
        return False
    deleted = max(facts.start_by_epoch_file for facts in case.replicas)
    return item.previous < deleted or case.topic_partition.topic == GROUP_OFFSETS_TOPIC


def _irregular(case: Case, facts: ReplicaFacts, segment: SegmentSummary, item: Irregularity) -> Finding:
    epoch = f"leader epoch {item.leader_epoch}" if item.leader_epoch >= 0 else "without a leader epoch"
    found = finding(
        _CODES[item.kind],
        f"broker {facts.broker_id}, {segment.path} at byte {item.position}: {name_offsets(item.base_offset, item.last_offset + 1)}, "
        f"{epoch}: {item.detail}",
        broker_id=facts.broker_id,
        offsets=(item.base_offset, item.last_offset + 1),
        evidence=[_place(facts, segment, item.position, item.detail)],
    )
    if item.kind == "regression" and item.position == 0 and facts.cleaning.between_copies:
        why = "a cleaner may have merged it with the segment before, which was copied later"
        return undecided(found, f"{why}; {copy_again(facts)}", "medium")
    if item.kind not in ("regression", "epoch_regression"):
        return found
    of_copy = case.why_of_older_copy(facts, item.base_offset)
    if item.kind == "epoch_regression" and not keeps_committed(case.options.protocol):
        of_copy = (
            "likely, not proven: before KIP-279 (Kafka 2.0) a follower could keep records of an epoch that its leader never had, and "
            "continue from there with earlier epochs of the leader"
        )
    return likely(found, of_copy)


def _changed_epoch(facts: ReplicaFacts, one: CorruptEpoch) -> Finding:
    where = name_offsets(one.start_offset, one.end_offset)
    good = one.good_key[0]
    known = (
        "only its own epoch file has that epoch, as recovery writes it after an unclean stop"
        if one.in_file
        else "neither its own epoch file nor anything else has that epoch there"
    )
    return finding(
        LOG_CRC_BLIND,
        f"broker {facts.broker_id}: {where} with leader epoch {one.leader_epoch}, which no checksum covers; broker {good} has the "
        f"same bytes in epoch {one.true_epoch}, and {known}",
        confidence=one.confidence,
        broker_id=facts.broker_id,
        offsets=(one.start_offset, one.end_offset),
        replica_epoch=one.leader_epoch,
        evidence=[
            Evidence(
                "batch",
                text=f"leader epoch {one.leader_epoch} here, {one.true_epoch} on broker {good}",
                broker_id=facts.broker_id,
            ),
            in_epoch_file(facts, _entries(facts)),
            considered(
                "a producer's retry to a new leader: no election began that epoch there, by the epoch files and the metadata log"
                if one.confidence == "proven"
                else "a producer's retry to a new leader: an election that left a trace only on this replica would look the same"
            ),
        ],
    )


def _entries(facts: ReplicaFacts) -> str:
    return ", ".join(f"epoch {epoch} from {start} on" for epoch, start in facts.file_entries) or "no entries"


def _place(facts: ReplicaFacts, segment: SegmentSummary, position: int, text: str) -> Evidence:
    return Evidence("batch", text=text, broker_id=facts.broker_id, path=segment.path, position=position)


def _border_gap(case: Case, facts: ReplicaFacts, stretch: OffsetRange) -> Iterator[Finding]:
    """LOG-GAP for offsets between two segments, if nothing shows that there was a segment (else CAP-MISSING-SEGMENT)."""
    if not traces_of_segment(facts, case.replicas, stretch):
        severity = _gap_severity(facts, *stretch)
        by_cleaner = "the last batches of a cleaned range may vanish (KAFKA-17076)"
        why = {"info": by_cleaner, "low": _MAY_BE_CLEANED}.get(severity)
        yield finding(
            LOG_GAP,
            f"broker {facts.broker_id} has nothing at {name_offsets(*stretch)}, at the border of two segments",
            severity=severity,
            broker_id=facts.broker_id,
            offsets=stretch,
            evidence=[] if why is None else [considered(f"compaction: {why}")],
        )
