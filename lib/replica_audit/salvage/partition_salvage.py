"""Salvage of one partition: each record that a copy holds and the reference's lineage lacks, once, with the outcome of its
transaction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from numpy.typing import NDArray

from replica_audit.auditing.case import Case
from replica_audit.auditing.compare.replays import answering_lineage
from replica_audit.auditing.conclude import PartitionAudit
from replica_audit.auditing.replicas.reference import Reference
from replica_audit.auditing.replicas.replica_facts import CopyKey, ReplicaFacts
from replica_audit.auditing.replicas.transaction_ends import Decisions
from replica_audit.elect.costs import committed_ranges
from replica_audit.elect.plan_model import Decision
from replica_audit.model import ReplicaDir, SegmentFile
from replica_audit.salvage.compared_logs import (
    REMOTE_KIND,
    Copy,
    ReferenceLog,
    Unread,
    copies_of,
    planned_log,
    present_log,
)
from replica_audit.salvage.missing_records import (
    CONTROL_RECORD,
    MissingRecords,
    SourceBatch,
    UnexpandedBatch,
    find_lacking,
)
from replica_audit.salvage.remote_copies import remote_copies
from replica_audit.segments.records import ABORT, COMMIT, RECORD_DTYPE
from replica_audit.snapshot.provenance import NOT_CAPTURED
from replica_audit.snapshot.record_reader import RecordReader
from replica_audit.snapshot.storage import Snapshot

#: Names in the order of the numbers below.
OUTCOMES = ("none", "committed", "aborted", "open")
NONE, COMMITTED, ABORTED, OPEN = range(len(OUTCOMES))


@dataclass(frozen=True, slots=True)
class Outcomes:
    """Outcomes of transactions, in arrays parallel to the given rows."""

    outcome: NDArray[np.int8]
    """Index into `OUTCOMES`; `none`: the record is in no transaction."""
    marker: NDArray[np.int64]
    """Offset of the deciding marker, -1 without one."""
    by_reference: NDArray[np.bool_]
    """True if the marker is in the reference, not in the copy that holds the record."""


def decide(rows: NDArray[np.void], own: NDArray[np.void], theirs: NDArray[np.void]) -> Outcomes:
    """Outcomes of the transactions of `rows` (`RECORD_DTYPE`).

    The first marker of the producer after the record decides, in the log that holds the record (`own`: control records of that
    copy). Failing that, the first of `theirs` does: those of the reference between the fork and the producer's next data, since
    the coordinator writes its decision to whoever leads by then. A marker has the epoch of the data, or a later one where the
    coordinator fenced the producer or bumps the epoch with every transaction (KIP-890).
    """
    count = len(rows)
    outcome = np.full(count, NONE, np.int8)
    marker = np.full(count, -1, np.int64)
    by_reference = np.zeros(count, bool)
    outcome[rows["transactional"]] = OPEN
    writers = rows[["producer_id", "producer_epoch"]]
    for writer in np.unique(writers[rows["transactional"]]):
        chosen = np.flatnonzero(rows["transactional"] & (writers == writer))
        for markers, is_reference in ((_of(own, *writer), False), (_of(theirs, *writer), True)):
            left = chosen[outcome[chosen] == OPEN]
            if not len(markers) or not len(left):
                continue
            # After the fork offsets of the reference are unrelated to the copy's: its first marker counts.
            at = np.zeros(len(left), int) if is_reference else np.searchsorted(markers["offset"], rows["offset"][left])
            # A marker has the epoch of the data, or the next one if the coordinator raised it; others end another transaction.
            ends = markers[np.minimum(at, len(markers) - 1)]
            later = ends["producer_epoch"].astype(int) - rows["producer_epoch"][left]
            known = (at < len(markers)) & (later >= 0) & (later <= 1)
            ends = ends[known]
            outcome[left[known]] = np.where(ends["marker"] == COMMIT, COMMITTED, ABORTED)
            marker[left[known]] = ends["offset"]
            by_reference[left[known]] = is_reference
    return Outcomes(outcome, marker, by_reference)


def undecided_producers(rows: NDArray[np.void], own: NDArray[np.void]) -> Sequence[int]:
    """Producers of transactions in `rows` that no marker of the copy itself ends."""
    found = decide(rows, own, own[:0])
    return np.unique(rows["producer_id"][found.outcome == OPEN]).tolist()


def _of(markers: NDArray[np.void], producer: int, epoch: int) -> NDArray[np.void]:
    mine = (markers["producer_id"] == producer) & (markers["producer_epoch"] >= epoch)
    chosen = markers[mine & np.isin(markers["marker"], (ABORT, COMMIT))]
    return chosen[np.argsort(chosen["offset"], kind="stable")]


#: Reasons for leaving records out, by the outcome of their transactions.
LEFT_OPEN = "open_transaction"
LEFT_ABORTED = "aborted_transaction"
REPEATED = "repeated"

_ROW = np.dtype(
    [
        ("record", RECORD_DTYPE),
        ("copy", "i4"),
        ("batch", "i8"),
        ("reason", "i1"),
        ("outcome", "i1"),
        ("marker", "i8"),
        ("by_reference", "?"),
        ("variant", "i4"),
    ]
)


@dataclass(frozen=True, slots=True)
class SelectedRecords:
    """Records to salvage from one partition, in order of leader epoch and offset, in which they were written.

    `variant` numbers different records of one epoch and offset, which a sound cluster does not have; variants follow each other
    as if each were an epoch of its own.
    """

    rows: NDArray[np.void]
    """`record` (`RECORD_DTYPE`), `copy` and `batch` (indexes), `reason`, `outcome`, `marker`, `by_reference`, `variant`."""
    also_in: tuple[tuple[int, ...], ...]
    """For each record, the other copies that hold it."""
    batches: tuple[SourceBatch, ...]
    unexpanded: tuple[UnexpandedBatch, ...] = ()
    """Missing batches that are not expanded, each once, in the same order."""
    left_out: Counter[str] = field(default_factory=Counter)
    """Records left out, by reason, counted once for every copy."""


def select(lacking: Sequence[MissingRecords], outcomes: Sequence[Outcomes], include_aborted: bool) -> SelectedRecords:
    """The records of all copies, in order of preference, that their `outcomes` allow."""
    parts = [np.empty(0, _ROW)]
    batches: list[SourceBatch] = []
    left_out: Counter[str] = Counter()
    for number, (found, ends) in enumerate(zip(lacking, outcomes, strict=True)):
        left_out += found.left_out
        part = np.zeros(len(found.rows), _ROW)
        part["record"] = found.rows
        part["copy"] = number
        part["batch"] = found.batch + len(batches)
        part["reason"] = found.reason
        part["outcome"] = ends.outcome
        part["marker"] = ends.marker
        part["by_reference"] = ends.by_reference
        batches += found.batches
        control = part["record"]["control"]
        left_out[CONTROL_RECORD] += int(control.sum())
        part = part[~control]
        if not include_aborted:
            for outcome, word in ((ABORTED, LEFT_ABORTED), (OPEN, LEFT_OPEN)):
                left_out[word] += int((part["outcome"] == outcome).sum())
            part = part[~np.isin(part["outcome"], (ABORTED, OPEN))]
        parts.append(part)
    rows, also_in, repeated = _each_once(np.concatenate(parts))
    left_out[REPEATED] += repeated
    return SelectedRecords(rows, also_in, tuple(batches), _unexpanded_once(lacking), +left_out)


def _unexpanded_once(lacking: Sequence[MissingRecords]) -> tuple[UnexpandedBatch, ...]:
    """The first occurrence of each batch."""
    seen: dict[tuple[int, int, int], UnexpandedBatch] = {}
    for found in lacking:
        for one in found.unexpanded:
            seen.setdefault((one.leader_epoch, one.base_offset, one.request.crc), one)
    return tuple(seen[key] for key in sorted(seen))


def _each_once(rows: NDArray[np.void]) -> tuple[NDArray[np.void], tuple[tuple[int, ...], ...], int]:
    """Drop repeated records: (the first row of each record, sorted; the other copies that hold it; the number of repetitions within one copy)."""
    seen: dict[tuple, int] = {}
    chosen: list[int] = []
    others: list[list[int]] = []
    repeated = 0
    record = rows["record"]
    names = ("offset", "leader_epoch", "timestamp", "key", "content", "headers", "producer_id", "sequence")
    identities = zip(*(record[name].tolist() for name in names), strict=True)
    for index, (identity, copy) in enumerate(zip(identities, rows["copy"].tolist(), strict=True)):
        known = seen.setdefault(identity, len(chosen))
        if known == len(chosen):
            chosen.append(index)
            others.append([])
        elif copy == rows["copy"][chosen[known]] or copy in others[known]:
            repeated += 1
        else:
            others[known].append(copy)
    kept = rows[np.array(chosen, np.int64)]
    kept["variant"] = _variants(kept)
    order = np.lexsort((kept["record"]["offset"], kept["variant"], kept["record"]["leader_epoch"]))
    return kept[order], tuple(tuple(others[index]) for index in order.tolist()), repeated


def _variants(rows: NDArray[np.void]) -> list[int]:
    """For each row, the number of earlier rows of the same epoch and offset."""
    counted: Counter[tuple[int, int]] = Counter()
    found = []
    for place in zip(rows["record"]["leader_epoch"].tolist(), rows["record"]["offset"].tolist(), strict=True):
        found.append(counted[place])
        counted[place] += 1
    return found


@dataclass(frozen=True, slots=True)
class Choices:
    """Options of `salvage` that select records."""

    payloads: bool = False
    include_aborted: bool = False
    """Include records of aborted and open transactions."""
    include_ahead: bool = False
    """Include records past the reference's end, where the copies may only be of another moment."""


@dataclass(frozen=True, slots=True)
class Finds:
    """The records to salvage, with what is known of each."""

    selection: SelectedRecords
    proven: NDArray[np.bool_]
    """Parallel to the selection: True if proven committed."""
    later_value: NDArray[np.bool_] | None
    """Parallel to the selection: True if the reference has a later record of the key; None where its log is not compacted."""


@dataclass(frozen=True, slots=True)
class PartitionSalvage:
    """The result for one partition."""

    audit: PartitionAudit
    reference: Reference | None = None
    """The log that its copies were compared with, as it leads; None if there is none."""
    planned: Decision | None = None
    """The plan's decision; None without a plan."""
    copies: tuple[Copy, ...] = ()
    """Copies in order of preference."""
    finds: Finds | None = None
    """None if there is no log to compare with."""
    other_topics: tuple[ReplicaDir, ...] = ()
    """Directories of the same name that are, or may be, of another topic."""
    unread: tuple[Unread, ...] = ()
    problem: str | None = None
    """Reason why nothing is known of the whole partition; None otherwise."""


def salvage_partition(
    snapshot: Snapshot,
    reader: RecordReader,
    audit: PartitionAudit,
    batches: Mapping[CopyKey, NDArray[np.void]],
    files: Iterable[SegmentFile],
    unplaced: Iterable[ReplicaDir],
    choices: Choices,
    planned: Decision | None = None,
) -> PartitionSalvage:
    """Compare every copy with the log of the `planned` leader or, without one, of the present leader.

    `batches` (`BATCH_DTYPE`) are those that the audit's plan asked for, `files` the segments of all replicas and of what is put aside.
    """
    case = audit.case
    files = tuple(files)
    unknown = partial(PartitionSalvage, audit, planned=planned)
    if case is None:
        return unknown(problem="no replica of it can be read")
    compared = present_log(audit) if planned is None else planned_log(audit, planned.candidate_id)
    if compared is None:
        return unknown(problem="the leader that the plan chose has no log of it here")
    facts = compared.reference.facts
    if facts.second_hand:
        is_leaders = planned is not None or case.reference.leader_id == facts.broker_id
        whose = "its leader's log" if is_leaders else "the log that it is compared with"
        return unknown(problem=f"{whose} is {_known_from(facts)}")
    own = [file for file in files if (file.broker_id, file.log_dir) == facts.key]
    lineage = answering_lineage(facts, case.is_tiered)
    holes = case.remote.holes_below(facts)
    reference = ReferenceLog(snapshot, reader, facts, own, lineage, compared.reference.past_end, holes)
    copies, others, unread = copies_of(unplaced, audit, case, facts, files)
    stored, not_stored = remote_copies(snapshot, audit.evidence, case, facts, stays=compared.stays)
    copies += stored
    unread += not_stored
    unread += [
        Unread(item.follower.directory.path, f"it may be of another topic: {reason}", item.follower.broker_id)
        for item, reason in case.strangers
    ]
    # All at once, since each further load reads the reference's files again.
    reference.load(set().union(*(reference.differing_chunks(copy) for copy in copies)))
    found = []
    outcomes = []
    for copy in copies:
        if copy.facts.second_hand:
            reason = f"it is {_known_from(copy.facts)}"
            unread.append(Unread(copy.path, reason, copy.broker_id))
        ahead_too = choices.include_ahead or copy.kind == REMOTE_KIND or compared.lacks_tail(copy.facts.key)
        lacking = find_lacking(snapshot, reader, reference, copy, ahead_too)
        unread += lacking.unread
        theirs = lacking.markers[:0]
        if producers := undecided_producers(lacking.rows, lacking.markers):
            theirs = reference.markers(int(lacking.rows["offset"].min()), producers)
        found.append(lacking)
        outcomes.append(decide(lacking.rows, lacking.markers, theirs))
    selection = select(found, outcomes, choices.include_aborted)
    later = _later_values(reference, selection) if facts.compacted and len(selection.rows) else None
    if later is not None and reference.not_captured:
        problem = "records of its leader's log that may be later values of the same keys are not part of the evidence"
        return unknown(problem=f"{problem}: bring what --wanted names, or copy that log")
    return PartitionSalvage(
        audit=audit,
        reference=compared.reference,
        planned=planned,
        copies=tuple(copies),
        finds=Finds(selection, _proven(case, batches, copies, selection), later),
        other_topics=tuple(others),
        unread=(*_not_elsewhere(unread, selection), *reference.unread, *reference.not_captured.values()),
    )


def _known_from(facts: ReplicaFacts) -> str:
    """Clause on the source of a log whose records are not in the snapshot."""
    if NOT_CAPTURED in facts.unproven:
        return "known from evidence, which lacks bytes of it: show --wanted names them"
    return "known from a text or table, which has no records"


def _not_elsewhere(unread: Iterable[Unread], selection: SelectedRecords) -> list[Unread]:
    """Unread input, except where one other copy supplies all its records: an epoch and offset has one record."""
    record = selection.rows["record"]
    left = []
    for one in unread:
        if one.leader_epoch is not None and one.start_offset is not None and one.end_offset is not None:
            number = one.end_offset - one.start_offset if one.record_count is None else one.record_count
            inside = (record["offset"] >= one.start_offset) & (record["offset"] < one.end_offset)
            if (inside & (record["leader_epoch"] == one.leader_epoch)).sum() >= number:
                continue
        left.append(one)
    return left


def _later_values(reference: ReferenceLog, selection: SelectedRecords) -> NDArray[np.bool_]:
    """For each record, True if the reference has a later visible record of the same key, possibly a tombstone."""
    rows = selection.rows["record"]
    keys = np.unique(rows["key"][rows["has_key"]])
    theirs = reference.records_of_keys(keys)
    visible = theirs[Decisions.of([theirs]).visible(theirs) & theirs["has_key"] & ~theirs["control"]]
    newest: dict[int, tuple[int, int]] = {}
    for key, epoch, offset in zip(*(visible[name].tolist() for name in ("key", "leader_epoch", "offset")), strict=True):
        newest[key] = max(newest.get(key, (-2, -1)), (epoch, offset))
    columns = (rows[name].tolist() for name in ("has_key", "key", "leader_epoch", "offset"))
    return np.array(
        [has and newest.get(key, (-2, -1)) > (epoch, offset) for has, key, epoch, offset in zip(*columns, strict=True)],
        bool,
    )


def _proven(
    case: Case, batches: Mapping[CopyKey, NDArray[np.void]], copies: Iterable[Copy], selection: SelectedRecords
) -> NDArray[np.bool_]:
    """For each record, True if it is proven committed in a copy that holds it."""
    ranges = committed_ranges(case, batches) if len(selection.rows) else {}
    ends = {
        # Kafka copies to remote storage only what lies below the last stable offset.
        number: [(0, copy.facts.log_end_offset)] if copy.kind == REMOTE_KIND else ranges.get(copy.facts.key, [])
        for number, copy in enumerate(copies)
    }
    offsets = selection.rows["record"]["offset"].tolist()
    sources = selection.rows["copy"].tolist()
    return np.array(
        [
            any(start <= offset < end for holder in (source, *others) for start, end in ends[holder])
            for offset, source, others in zip(offsets, sources, selection.also_in, strict=True)
        ],
        bool,
    )
