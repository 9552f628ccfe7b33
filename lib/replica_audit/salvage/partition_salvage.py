"""Salvages one partition: records that its copies hold and the reference's lineage lacks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from replica_audit.auditing.case import Case
from replica_audit.auditing.compare.replays import answering_lineage
from replica_audit.auditing.conclude import PartitionAudit
from replica_audit.auditing.replicas.reference import Reference
from replica_audit.auditing.replicas.replica_facts import CopyKey, ReplicaFacts
from replica_audit.auditing.replicas.transaction_ends import Decisions
from replica_audit.elect.costs import committed_ranges
from replica_audit.elect.plan_model import Decision
from replica_audit.model import ReplicaDir, SegmentFile
from replica_audit.salvage.compared_logs import Copy, ReferenceLog, Unread, copies_of, planned_log, present_log
from replica_audit.salvage.missing_records import find_lacking
from replica_audit.salvage.selection import SelectedRecords, decide, select, undecided_producers
from replica_audit.snapshot.provenance import NOT_CAPTURED
from replica_audit.snapshot.record_reader import RecordReader
from replica_audit.snapshot.storage import Snapshot


@dataclass(frozen=True, slots=True)
class Choices:
    """Options of `salvage` that choose records."""

    payloads: bool = False
    include_aborted: bool = False
    """Records of aborted and open transactions, too."""
    include_ahead: bool = False
    """Records past the reference's end, too, where the copies may just be of another moment."""


@dataclass(frozen=True, slots=True)
class Finds:
    """The records to salvage, with what is known of each."""

    selection: SelectedRecords
    proven: np.ndarray
    """Parallel to the selection: proven committed."""
    later_value: np.ndarray | None
    """Parallel to the selection: the reference has a later record of the key; None where its log is not compacted."""


@dataclass(frozen=True, slots=True)
class PartitionSalvage:
    """The result for one partition."""

    audit: PartitionAudit
    reference: Reference | None = None
    """The log that its copies were laid beside, as it leads; None where there is none."""
    planned: Decision | None = None
    """The decision of the plan; None without a plan."""
    copies: tuple[Copy, ...] = ()
    """In the order in which records are taken from them."""
    finds: Finds | None = None
    """None where there is nothing to lay the copies beside."""
    other_topics: tuple[ReplicaDir, ...] = ()
    """Directories of the same name that are of another topic, or may be."""
    unread: tuple[Unread, ...] = ()
    problem: str | None = None
    """Why nothing can be said of the whole partition; None where it can."""


def salvage_partition(
    snapshot: Snapshot,
    reader: RecordReader,
    audit: PartitionAudit,
    batches: Mapping[CopyKey, np.ndarray],
    files: Iterable[SegmentFile],
    unplaced: Iterable[ReplicaDir],
    choices: Choices,
    planned: Decision | None = None,
) -> PartitionSalvage:
    """Lay every copy beside the log of the leader that is `planned`, without one of the present leader.

    `batches` (`BATCH_DTYPE`) are those that the audit's plan asked for, `files` the segments of all replicas and of what is
    put aside.
    """
    case, files = audit.case, tuple(files)
    if case is None:
        return PartitionSalvage(audit, planned=planned, problem="no replica of it can be read")
    compared = present_log(audit) if planned is None else planned_log(audit, planned.candidate_id)
    if compared is None:
        return PartitionSalvage(audit, planned=planned, problem="the leader that the plan chose has no log of it here")
    facts = compared.reference.facts
    if facts.second_hand:
        problem = f"its leader's log is {_known_from(facts)}"
        return PartitionSalvage(audit, planned=planned, problem=problem)
    own = [file for file in files if (file.broker_id, file.log_dir) == facts.key]
    lineage = answering_lineage(facts, case.is_tiered)
    reference = ReferenceLog(snapshot, reader, facts, own, lineage, compared.reference.log_epoch)
    copies, others, unread = copies_of(unplaced, audit, case, facts, files)
    unread += [
        Unread(item.follower.directory.path, f"it may be of another topic: {reason}", item.follower.broker_id)
        for item, reason in case.strangers
    ]
    # All at once, since loading more reads the reference's files anew.
    reference.load(set().union(*(reference.differing_chunks(copy.facts) for copy in copies)))
    found = []
    outcomes = []
    for copy in copies:
        if copy.facts.second_hand:
            reason = f"it is {_known_from(copy.facts)}"
            unread.append(Unread(copy.path, reason, copy.broker_id))
        ahead_too = choices.include_ahead or compared.lacks_tail(copy.facts.key)
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
        return PartitionSalvage(
            audit, planned=planned, problem=f"{problem}: bring what --wanted names, or copy that log"
        )
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
    """Clause saying from what a log is known whose records are not here."""
    if NOT_CAPTURED in facts.unproven:
        return "known from evidence, which lacks bytes of it: show --wanted names them"
    return "known from a text or table, which has no records"


def _not_elsewhere(unread: Iterable[Unread], selection: SelectedRecords) -> list[Unread]:
    """Without the batches whose records are taken from another copy: one epoch and offset has one record."""
    record = selection.rows["record"]
    left = []
    for one in unread:
        if one.record_count is not None:
            inside = (record["offset"] >= one.start_offset) & (record["offset"] < one.end_offset)
            if (inside & (record["leader_epoch"] == one.leader_epoch)).sum() >= one.record_count:
                continue
        left.append(one)
    return left


def _later_values(reference: ReferenceLog, selection: SelectedRecords) -> np.ndarray:
    """For each record whether the reference has a visible one of the same key that was written later, a tombstone too."""
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
    case: Case, batches: Mapping[CopyKey, np.ndarray], copies: Iterable[Copy], selection: SelectedRecords
) -> np.ndarray:
    """For each record whether it is proven committed in a copy that holds it."""
    ranges = committed_ranges(case, batches) if len(selection.rows) else {}
    ends = {number: ranges.get(copy.facts.key, []) for number, copy in enumerate(copies)}
    offsets = selection.rows["record"]["offset"].tolist()
    sources = selection.rows["copy"].tolist()
    return np.array(
        [
            any(start <= offset < end for holder in (source, *others) for start, end in ends[holder])
            for offset, source, others in zip(offsets, sources, selection.also_in, strict=True)
        ],
        bool,
    )
