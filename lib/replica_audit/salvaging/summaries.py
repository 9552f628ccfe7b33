"""Rows of the manifest: what a partition came to, and each record without what it says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from replica_audit.batch_header import or_none
from replica_audit.model import TopicPartition
from replica_audit.salvaging.copies_of_topic import Copy, Unread
from replica_audit.salvaging.lacking import REASONS, UnexpandedBatch
from replica_audit.salvaging.partition_salvage import Finds, PartitionSalvage
from replica_audit.salvaging.selection import Selection
from replica_audit.salvaging.transaction_outcomes import OUTCOMES

#: Producers that a partition's row names; the others are counted.
_PRODUCERS = 1000


def record_row(place: TopicPartition, finds: Finds, index: int, digest: str | None) -> dict[str, Any]:
    """The record `index` of a selection: where it lies, in which batch, and, where payloads were asked for, its digest."""
    selection = finds.selection
    row = selection.rows[index]
    record, batch = row["record"], selection.batches[row["batch"]]
    values = {
        "topic": place.topic,
        "partition": place.partition,
        "offset": int(record["offset"]),
        "leader_epoch": or_none(record["leader_epoch"]),
        "timestamp_ms": or_none(record["timestamp"]),
        "copy": int(row["copy"]),
        "also_in": list(selection.also_in[index]),
        "file": batch.request.path,
        "position": batch.request.position,
        "batch_crc": batch.request.crc,
        "reason": REASONS[row["reason"]],
        "producer_id": or_none(record["producer_id"]),
        "producer_epoch": or_none(record["producer_epoch"]),
        "sequence": or_none(record["sequence"]),
        "transaction": OUTCOMES[row["outcome"]],
        "committed": True if finds.proven[index] else None,
        "later_value": None if finds.later_value is None else bool(finds.later_value[index]),
    }
    return values if digest is None else {**values, "sha256": digest}


def partition_row(found: PartitionSalvage, expected: int, written: int | None) -> dict[str, Any]:
    """What there is of one partition. `written` is None where no payloads were asked for."""
    place, case, planned = found.audit.evidence.topic_partition, found.audit.case, found.planned
    row: dict[str, Any] = {"topic": place.topic, "partition": place.partition, "verdict": found.audit.verdict}
    row["compacted"] = None
    if planned is not None:
        row |= {"candidate_id": planned.candidate_id, "planned_loss": planned.lost_records}
    if case is not None and found.reference is not None:
        facts = found.reference.facts
        row |= {
            "topic_id": facts.directory.topic_id,
            "leader_id": case.reference.leader_id,
            "reference_id": facts.broker_id,
            "leader_epoch": case.reference.leader_epoch,
            "log_start_offset": facts.log_start_offset,
            "log_end_offset": facts.log_end_offset,
            "compacted": facts.compacted,
        }
    row |= {"records": expected, "written": written, "problem": found.problem}
    finds = found.finds
    if finds is None:
        return row
    selection, rows = finds.selection, finds.selection.rows
    record = rows["record"]
    timestamps = record["timestamp"][record["timestamp"] >= 0]
    return row | {
        "committed": int(finds.proven.sum()),
        "later_value": None if finds.later_value is None else int(finds.later_value.sum()),
        "first_timestamp_ms": int(timestamps.min()) if len(timestamps) else None,
        "last_timestamp_ms": int(timestamps.max()) if len(timestamps) else None,
        "epochs": _epochs(selection, found.copies),
        "reasons": _counted(REASONS[number] for number in rows["reason"].tolist()),
        "transactions": _transactions(rows),
        "producers": _producers(rows)[:_PRODUCERS],
        "producer_count": len(_producers(rows)),
        "left_out": dict(sorted(selection.left_out.items())),
        "copies": _copies(selection, found.copies),
        "other_topics": [
            {"broker_id": one.broker_id, "path": one.path, "topic_id": one.topic_id} for one in found.other_topics
        ],
    }


def unread_row(one: Unread, place: TopicPartition | None = None) -> dict[str, Any]:
    """Something that may hold records and could not be read."""
    return {
        "topic": None if place is None else place.topic,
        "partition": None if place is None else place.partition,
        "broker_id": one.broker_id,
        "path": one.path,
        "position": one.position,
        "start_offset": one.start_offset,
        "end_offset": one.end_offset,
        "records": one.record_count,
        "reason": one.reason,
    }


def unexpanded_row(place: TopicPartition, one: UnexpandedBatch, copied_to: str | None) -> dict[str, Any]:
    """A batch that is lacking and not expanded; `copied_to` is its file in the result, None where it was not copied."""
    return {
        "topic": place.topic,
        "partition": place.partition,
        "broker_id": one.broker_id,
        "file": one.request.path,
        "position": one.request.position,
        "batch_crc": one.request.crc,
        "leader_epoch": or_none(one.leader_epoch),
        "start_offset": one.base_offset,
        "end_offset": one.last_offset + 1,
        "records": one.record_count,
        "reason": one.reason,
        "copied_to": copied_to,
    }


def total_row(
    partitions: Sequence[Mapping[str, Any]],
    unread: Sequence[Mapping[str, Any]],
    unexpanded: Sequence[Mapping[str, Any]],
    payloads: bool,
) -> dict[str, Any]:
    """The sums. `expected` are the records that are known to be there, those of unread batches and of batches that are not
    expanded among them.
    """
    whole = sum(row["records"] or 0 for row in unexpanded)
    known = [row["records"] for row in unread if row["records"] is not None]
    spans = [row for row in partitions if row.get("first_timestamp_ms") is not None]
    return {
        "partitions": sum(row["records"] > 0 for row in partitions),
        "expected": sum(row["records"] for row in partitions) + sum(known) + whole,
        "records": sum(row["records"] for row in partitions),
        "written": sum(row["written"] or 0 for row in partitions) if payloads else None,
        "unread_records": sum(known),
        "unexpanded_records": whole,
        "first_timestamp_ms": min((row["first_timestamp_ms"] for row in spans), default=None),
        "last_timestamp_ms": max((row["last_timestamp_ms"] for row in spans), default=None),
    }


def _epochs(selection: Selection, copies: Sequence[Copy]) -> list[dict[str, Any]]:
    rows = selection.rows
    record, also_in = rows["record"], selection.also_in
    result = []
    for epoch in np.unique(record["leader_epoch"]).tolist():
        chosen = np.flatnonzero(record["leader_epoch"] == epoch).tolist()
        offsets = record["offset"][chosen]
        holders = {int(rows["copy"][index]) for index in chosen} | {
            other for index in chosen for other in also_in[index]
        }
        result.append(
            {
                "leader_epoch": or_none(epoch),
                "start_offset": int(offsets.min()),
                "end_offset": int(offsets.max()) + 1,
                "records": len(offsets),
                "brokers": sorted({copies[number].broker_id for number in holders}),
            }
        )
    return result


def _producers(rows: np.ndarray) -> list[dict[str, Any]]:
    """By producer id and epoch; those without an id together."""
    record = rows["record"]
    found = []
    for key in np.unique(record[["producer_id", "producer_epoch"]]).tolist():
        own = rows[(record["producer_id"] == key[0]) & (record["producer_epoch"] == key[1])]
        timestamps = own["record"]["timestamp"]
        found.append(
            {
                "producer_id": or_none(key[0]),
                "producer_epoch": or_none(key[1]),
                "records": len(own),
                "transactional": int(own["record"]["transactional"].sum()),
                "first_timestamp_ms": or_none(timestamps.min()),
                "last_timestamp_ms": or_none(timestamps.max()),
            }
        )
    return found


def _transactions(rows: np.ndarray) -> dict[str, int]:
    """Transactions with records among these, by outcome: each of a producer and the marker that ended it."""
    columns = (rows["outcome"], rows["record"]["producer_id"], rows["marker"])
    found = set(zip(*(column.tolist() for column in columns), strict=True))
    return _counted(OUTCOMES[outcome] for outcome, _, _ in found if outcome)


def _copies(selection: Selection, copies: Sequence[Copy]) -> list[dict[str, Any]]:
    source: Counter[int] = Counter(selection.rows["copy"].tolist())
    held = source + Counter(number for others in selection.also_in for number in others)
    return [
        {
            "copy": number,
            "kind": copy.kind,
            "broker_id": copy.broker_id,
            "path": copy.path,
            "records": source[number],
            "holds": held[number],
        }
        for number, copy in enumerate(copies)
    ]


def _counted(words: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(words).items()))
