"""What was found of a snapshot, written to a directory: records where they were asked for, and the manifest always."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from replica_audit import __version__
from replica_audit.batch_header import or_none
from replica_audit.model import TopicPartition
from replica_audit.salvage.missing_records import REASONS, UnexpandedBatch
from replica_audit.salvage.partition_logs import Copy, Unread
from replica_audit.salvage.partition_salvage import Choices, Finds, PartitionSalvage
from replica_audit.salvage.private_files import hash_file, new_directory, new_file
from replica_audit.salvage.record_digest import record_digest
from replica_audit.salvage.record_files import FORMS, Writer, copy_unexpanded, json_line, open_writers
from replica_audit.salvage.salvage_manifest import NAME, SCHEMA_VERSION, write_manifest
from replica_audit.salvage.selection import SelectedRecords
from replica_audit.salvage.snapshot_salvage import SnapshotSalvage
from replica_audit.salvage.transaction_outcomes import OUTCOMES
from replica_audit.segments.records import Payload, RecordError, decode_payloads
from replica_audit.snapshot.record_reader import RecordReader

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
        row |= {"candidate_id": planned.candidate_id, "planned_loss": planned.chosen.lost_records}
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


def _epochs(selection: SelectedRecords, copies: Sequence[Copy]) -> list[dict[str, Any]]:
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


def _copies(selection: SelectedRecords, copies: Sequence[Copy]) -> list[dict[str, Any]]:
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


_ROWS = "rows.partial"
#: The one form that takes a batch which is not expanded.
_UNEXPANDED_FORM = "segments"
#: Batches that are read together; they are neighbours as a rule.
_TOGETHER = 256


@dataclass(frozen=True, slots=True)
class Forms:
    """How records are written."""

    forms: tuple[str, ...] = FORMS
    encoding: str = "base64"


def write_salvage(
    found: SnapshotSalvage, reader: RecordReader, choices: Choices, forms: Forms, target: Path
) -> dict[str, Any]:
    """Write `target`, a new directory, and return the manifest's head.

    Raises UsageError where it is there already or cannot be written. Memory: a batch, and a few numbers for each record.
    """
    with new_directory(target) as directory:
        partitions, unread, unexpanded = [], [unread_row(one) for one in found.unread], []
        with new_file(directory / _ROWS) as rows:
            for partition in found.partitions:
                copied = _copy_unexpanded(partition, reader, choices, forms, directory)
                row, lost = _write_partition(partition, reader, choices, forms, directory, rows, copied)
                partitions.append(row)
                unread += lost
                unexpanded += copied
        files = [
            {
                "path": path.relative_to(directory).as_posix(),
                "size_bytes": path.stat().st_size,
                "sha256": hash_file(path),
            }
            for path in sorted(directory.rglob("*"))
            if path.is_file() and path.name != _ROWS
        ]
        head = {
            "schema_version": SCHEMA_VERSION,
            "tool_version": __version__,
            "snapshot": {"snapshot_id": found.snapshot_id, "cluster_id": found.cluster_id},
            # An audit's id is new with every run; with these the same answers come out again.
            "audit": {name: found.options[name] for name in ("protocol", "kafka_version", "topics", "quiesced")},
            "plan": None if found.plan_sha256 is None else {"sha256": found.plan_sha256},
            "payloads": choices.payloads,
            "include_aborted": choices.include_aborted,
            "include_ahead": choices.include_ahead,
            "encoding": forms.encoding if choices.payloads and "jsonl" in forms.forms else None,
            "totals": total_row(partitions, unread, unexpanded, choices.payloads),
            "partitions": partitions,
            "internal_partitions": [str(partition) for partition in found.internal],
            "partitions_without_steps": [str(partition) for partition in found.without_steps],
            "unread": unread,
            "unexpanded": unexpanded,
            "files": files,
        }
        with (directory / _ROWS).open("rb") as lines:
            write_manifest(directory / NAME, head, lines)
        (directory / _ROWS).unlink()
    return head


def _write_partition(
    found: PartitionSalvage,
    reader: RecordReader,
    choices: Choices,
    forms: Forms,
    directory: Path,
    rows: Any,
    unexpanded: Sequence[dict[str, Any]],
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    place = found.audit.evidence.topic_partition
    unread = [unread_row(one, place) for one in found.unread]
    if found.problem is not None:
        unread.append(unread_row(Unread(str(place), found.problem), place))
    finds = found.finds
    expected = 0 if finds is None else len(finds.selection.rows)
    written = dict.fromkeys(forms.forms, 0)
    if finds is not None and expected and choices.payloads:
        writers = open_writers(directory / str(place), place, forms.forms, forms.encoding)
        for index, digest in _copy_records(place, finds.selection, reader, writers, unread):
            rows.write(json_line(record_row(place, finds, index, digest)))
        written = {form: writer.close() for form, writer in zip(forms.forms, writers, strict=True)}
    elif finds is not None:
        for index in range(expected):
            rows.write(json_line(record_row(place, finds, index, None)))
    if _UNEXPANDED_FORM in written:
        written[_UNEXPANDED_FORM] += sum(row["records"] or 0 for row in unexpanded if row["copied_to"] is not None)
    # The least of what the files hold: a record is written where every one of them has it.
    return partition_row(found, expected, min(written.values()) if choices.payloads else None), unread


def _copy_unexpanded(
    found: PartitionSalvage, reader: RecordReader, choices: Choices, forms: Forms, directory: Path
) -> list[dict[str, Any]]:
    """The rows of the batches that are not expanded, which are copied as they are where segments are asked for."""
    batches = () if found.finds is None else found.finds.selection.unexpanded
    place = found.audit.evidence.topic_partition
    rows = []
    entries = dict(reader.entries(batch.request for batch in batches)) if choices.payloads else {}
    for batch in batches:
        entry, path = entries.get(batch.request), None
        if isinstance(entry, bytes) and _UNEXPANDED_FORM in forms.forms:
            path = copy_unexpanded(directory / str(place), batch.leader_epoch, batch.base_offset, entry)
        rows.append(unexpanded_row(place, batch, None if path is None else path.relative_to(directory).as_posix()))
    return rows


def _copy_records(
    place: TopicPartition,
    selection: SelectedRecords,
    reader: RecordReader,
    writers: Sequence[Writer],
    unread: list[dict[str, Any]],
) -> Iterator[tuple[int, str]]:
    """Write the records of a selection in its order; yields each one's index and digest."""
    for batch, indexes, entry in _entries(selection, reader):
        try:
            if isinstance(entry, str):
                raise RecordError(entry)
            wanted = {int(selection.rows["record"]["offset"][index]): index for index in indexes}
            records = [record for record in decode_payloads(entry) if record.offset in wanted]
            if len(records) != len(indexes):
                raise RecordError(f"{len(indexes)} records were found here before, and {len(records)} now")
        except RecordError as error:
            source = selection.batches[batch]
            request = source.request
            bounds = source.base_offset, source.last_offset + 1
            # Its records are among those of the partition; they are not written, which tells.
            unread.append(unread_row(Unread(request.path, str(error), None, request.position, *bounds), place))
            continue
        variant = int(selection.rows["variant"][indexes[0]])
        whole = len(records) == selection.batches[batch].record_count
        for writer in writers:
            writer.add(records, entry if whole else None, variant)
        for record in records:
            yield wanted[record.offset], _digest(record)


def _entries(selection: SelectedRecords, reader: RecordReader) -> Iterator[tuple[int, list[int], bytes | str]]:
    """Each stretch of records of one batch: the batch, the records' indexes, and the batch's bytes or why there are none."""
    stretches = [
        (batch, [index for index, _ in group])
        for batch, group in groupby(enumerate(selection.rows["batch"].tolist()), key=lambda pair: pair[1])
    ]
    for start in range(0, len(stretches), _TOGETHER):
        part = stretches[start : start + _TOGETHER]
        requests = [selection.batches[batch].request for batch, _ in part]
        entries = dict(reader.entries(requests))
        for (batch, indexes), request in zip(part, requests, strict=True):
            yield batch, indexes, entries[request]


def _digest(record: Payload) -> str:
    return record_digest(record.timestamp, record.key, record.value, record.headers)
