"""Batches of a replica's own log that can be read and yet cannot be right, and offsets without any (F.2)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from replica_audit.auditing.finding import Code, Finding, considered, finding, offsets
from replica_audit.auditing.finding_evidence import damaged_pair, unread_records
from replica_audit.auditing.replicas.segment_traces import traces_of_segment
from replica_audit.schema import Evidence

if TYPE_CHECKING:
    from replica_audit.auditing.case import Case
    from replica_audit.auditing.replicas.replica_facts import ReplicaFacts
    from replica_audit.auditing.replicas.written_epochs import CorruptEpoch
    from replica_audit.model import Irregularity, OffsetRange, SegmentSummary

LOG_OFFSET_REGRESSION = Code(
    "LOG-OFFSET-REGRESSION",
    severities=("high",),
    verdicts=("LATENT_CORRUPTION",),
    traits=("doubt", "damage"),
    summary="Offsets go back: a batch begins at or below the last offset of the one before",
    meaning="Two batches of one log claim some of the same offsets. Readers get records twice or in the wrong "
    "order, "
    "and recovery may empty the whole segment (the class of KAFKA-3919).",
    proof="Both batches with their positions and offset ranges.",
    remedy="Keep a copy of this replica, and rebuild it from one whose offsets are in order. If it leads, move leadership "
    "first.",
    traps="A compressed batch of format 0 or 1 carries its last offset; a .swap file beside the live segments.",
)
LOG_OFFSET_DUPLICATE = Code(
    "LOG-OFFSET-DUPLICATE",
    severities=("high",),
    verdicts=("LATENT_CORRUPTION",),
    traits=("doubt", "damage"),
    summary="A batch lies wholly within offsets that the log already has",
    meaning="The same offsets are there twice: a batch was written a second time, or a file was copied into the "
    "directory. Consumers read the range twice.",
    proof="The batch's position and range and the last offset before it.",
    remedy="Keep a copy of this replica, and rebuild it from one that has the range once. If it leads, move leadership "
    "first.",
    traps="A .swap file beside the segments that it replaces.",
)
LOG_EPOCH_REGRESSION = Code(
    "LOG-EPOCH-REGRESSION",
    severities=("high",),
    verdicts=("LATENT_CORRUPTION",),
    traits=("doubt", "damage"),
    summary="Leader epochs go back: a batch has a smaller epoch than the batch before it",
    meaning="Within a log leader epochs never decrease. The epoch field is outside the checksum, so a flipped bit "
    "there passes every check of Kafka and then misleads truncation.",
    proof="Both batches with position, offset and epoch; what the other replicas have at that offset.",
    remedy="Keep a copy of the replica whose epochs are out of order, and rebuild it before it can become leader.",
    traps="Batches without an epoch (-1), as a cleaner writes them when it converts old formats, are left out.",
)
LOG_GAP = Code(
    "LOG-GAP",
    severities=("medium", "info"),
    verdicts=(),
    traits=("doubt", "damage"),
    summary="Offsets are missing between two batches",
    meaning="The log goes on at a greater offset than the one that should follow. In a compacted log that is "
    "normal "
    "(info); elsewhere records were lost from this replica, for instance when an old follower cut inside a batch "
    "and fetched on from the middle of it.",
    proof="The last offset before and the first offset after the gap, and whether other replicas hold the range.",
    remedy="If an in-sync replica holds the range, let that one lead. Then keep a copy of this replica, and rebuild it. Do not "
    "let this replica become leader.",
    traps="Compaction, DeleteRecords, tiered storage. A topic that was compacted once keeps its gaps when its policy "
    "changes, and a follower that fetches from a cleaned leader gets that leader's gaps. A segment that the copy does "
    "not have is CAP-MISSING-SEGMENT.",
)
LOG_SEGMENT_NAME = Code(
    "LOG-SEGMENT-NAME",
    severities=("medium",),
    verdicts=(),
    traits=("doubt", "damage"),
    summary="A segment's name does not fit the offsets in it",
    meaning="The first batch lies below the offset that the file is named after, or the file spans more than "
    "2^31-1 offsets. Kafka finds records by these names and by 4-byte relative offsets in the index.",
    proof="The file's name and the offsets of its first and last batch.",
    remedy="Find out whether the file was renamed or copied by hand; if so, keep a copy of the replica and rebuild it.",
    traps="Segments written by very old brokers.",
)
LOG_FIELD = Code(
    "LOG-FIELD",
    severities=("medium",),
    verdicts=(),
    traits=("doubt", "damage"),
    summary="A header field has a value that cannot be",
    meaning="A batch can be framed, but a count, a delta, an attribute bit, the codec or the format version is "
    "outside what Kafka writes.",
    proof="The position, the field, its value and what would be right.",
    remedy="Compare with the other replicas. If only this one has it, keep a copy of it and rebuild it; if all have it, look at the "
    "producer or at a broker of a newer version.",
    traps="A newer Kafka may give a meaning to bits that are unused today.",
)
LOG_CRC_BLIND = Code(
    "LOG-CRC-BLIND",
    severities=("high",),
    verdicts=("LATENT_CORRUPTION",),
    traits=("doubt", "damage"),
    summary="A field that no checksum covers contradicts its neighbours or the other replicas",
    meaning="Base offset, length, leader epoch and format version lie outside a batch's checksum. One of them is "
    "wrong although the checksum is right, so neither the broker nor kafka-dump-log will ever complain.",
    proof="The field and its value here, the value that the batches around it or the other replicas ask for. For a "
    "leader epoch: the same bytes in another epoch on another replica, and who knows which of the two epochs.",
    remedy="Keep a copy of this replica, and rebuild it from one that agrees with its neighbours, before it can become leader.",
    traps="A producer's retry to a new leader leaves equal bytes in two epochs too; an election began the later one, so "
    "the epoch files or the metadata log know it. Recovery after an unclean stop writes a changed epoch into the "
    "replica's own file: without a metadata log that is a suspicion only.",
)
LOG_PRODUCER_DUPLICATE = Code(
    "LOG-PRODUCER-DUPLICATE",
    severities=("medium",),
    verdicts=(),
    traits=("doubt", "damage"),
    summary="One producer sequence at two offsets",
    meaning="The same producer id, producer epoch and sequence number were appended twice. An idempotent "
    "producer's "
    "broker should have refused the second one: it had lost its producer state, or the batch was copied.",
    proof="Both batches with offset, producer id, producer epoch and sequence.",
    remedy="Expect consumers to have read these records twice. Look for a loss of producer snapshots at that time.",
    traps="Sequences wrap at 2^31-1; unbroken sequences prove nothing in turn. Up to 2.4 a producer whose records had all "
    "been deleted began with sequence 0 again under the same id and epoch (UNKNOWN_PRODUCER_ID): that is harmless.",
)
CODES = (
    LOG_OFFSET_REGRESSION,
    LOG_OFFSET_DUPLICATE,
    LOG_EPOCH_REGRESSION,
    LOG_GAP,
    LOG_SEGMENT_NAME,
    LOG_FIELD,
    LOG_CRC_BLIND,
    LOG_PRODUCER_DUPLICATE,
)


_CODES = {
    "regression": LOG_OFFSET_REGRESSION,
    "duplicate": LOG_OFFSET_DUPLICATE,
    "epoch_regression": LOG_EPOCH_REGRESSION,
    "segment_name": LOG_SEGMENT_NAME,
    "field": LOG_FIELD,
    "producer_duplicate": LOG_PRODUCER_DUPLICATE,
}


def judge(case: Case) -> Iterator[Finding]:
    """Batches of every replica that was compared or set aside, and what comparing them showed."""
    for facts in (*case.replicas, *case.set_aside):
        for segment, found in facts.irregularities:
            if found.kind == "gap" and found.previous is not None:
                yield _gap(facts, segment, found, found.previous + 1)
            elif found.kind != "crc" and not _was_told_to_begin_anew(case, found):
                yield _irregular(facts, segment, found)
        for one in facts.rot:
            yield _changed_epoch(facts, one)
        for stretch in facts.missing:
            yield from _border_gap(case, facts, stretch)
    for item in case.comparisons:
        for pair in item.alignment.corrupt:
            if pair.kind == "blind":
                yield damaged_pair(LOG_CRC_BLIND, pair)
        for problems in item.problems_by_broker(lost=False):
            yield unread_records(
                LOG_FIELD, problems, "cannot be decoded, and not by Kafka either, though the checksum is right"
            )


def _gap(facts: ReplicaFacts, segment: SegmentSummary, item: Irregularity, start: int) -> Finding:
    end = item.base_offset
    by_cleaner = facts.is_cleaned(start, end)
    return finding(
        LOG_GAP,
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
    epoch = f"leader epoch {item.leader_epoch}" if item.leader_epoch >= 0 else "without a leader epoch"
    return finding(
        _CODES[item.kind],
        f"broker {facts.broker_id}, {segment.path} at byte {item.position}: {offsets(item.base_offset, item.last_offset + 1)}, "
        f"{epoch}: {item.detail}",
        broker_id=facts.broker_id,
        start_offset=item.base_offset,
        end_offset=item.last_offset + 1,
        evidence=[_place(facts, segment, item.position, item.detail)],
    )


def _changed_epoch(facts: ReplicaFacts, one: CorruptEpoch) -> Finding:
    where, good = offsets(one.start_offset, one.end_offset), one.good_key[0]
    known = (
        "its own epoch file has that epoch, as recovery writes it after an unclean stop, and nothing else knows it"
        if one.in_file
        else "neither its own epoch file nor anything else knows that epoch there"
    )
    return finding(
        LOG_CRC_BLIND,
        f"broker {facts.broker_id}: {where} read leader epoch {one.leader_epoch}, which no checksum covers; broker {good} has the "
        f"same bytes in epoch {one.true_epoch}, and {known}",
        confidence=one.confidence,
        broker_id=facts.broker_id,
        start_offset=one.start_offset,
        end_offset=one.end_offset,
        replica_epoch=one.leader_epoch,
        evidence=[
            Evidence(
                "batch",
                text=f"leader epoch {one.leader_epoch} here, {one.true_epoch} on broker {good}",
                broker_id=facts.broker_id,
            ),
            Evidence("lineage", text=_entries(facts), broker_id=facts.broker_id, path=facts.directory.epoch_file.path),
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


def _place(facts: ReplicaFacts, segment: SegmentSummary, position: int, text: str) -> Evidence:
    return Evidence("batch", text=text, broker_id=facts.broker_id, path=segment.path, position=position)


def _border_gap(case: Case, facts: ReplicaFacts, stretch: OffsetRange) -> Iterator[Finding]:
    """Offsets between two segments, where nothing shows that a segment was there (else CAP-MISSING-SEGMENT)."""
    start, end = stretch.start_offset, stretch.end_offset
    by_cleaner = facts.is_cleaned(start, end)
    if by_cleaner or not traces_of_segment(facts, case.replicas, stretch):
        why = considered("compaction: the last batches of a cleaned range may vanish (KAFKA-17076)")
        yield finding(
            LOG_GAP,
            f"broker {facts.broker_id} has nothing at {offsets(start, end)}, at the border of two segments",
            severity="info" if by_cleaner else "medium",
            broker_id=facts.broker_id,
            start_offset=start,
            end_offset=end,
            evidence=[why] if by_cleaner else [],
        )
