"""What was found of a snapshot, written to a directory: records where they were asked for, and the manifest always."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from replica_audit import __version__
from replica_audit.formats.segments.payloads import Payload, decode_payloads
from replica_audit.formats.segments.record_fields import RecordError
from replica_audit.formats.segments.record_reader import RecordReader
from replica_audit.model import TopicPartition
from replica_audit.salvaging.copies_of_topic import Unread
from replica_audit.salvaging.json_lines import json_line
from replica_audit.salvaging.partition_salvage import Choices, PartitionSalvage
from replica_audit.salvaging.private_files import hash_file, new_directory, new_file
from replica_audit.salvaging.record_digest import record_digest
from replica_audit.salvaging.record_files import FORMS, Writer, copy_unexpanded, open_writers
from replica_audit.salvaging.salvage_manifest import NAME, SCHEMA_VERSION, write_manifest
from replica_audit.salvaging.selection import Selection
from replica_audit.salvaging.snapshot_salvage import SnapshotSalvage
from replica_audit.salvaging.summaries import partition_row, record_row, total_row, unexpanded_row, unread_row

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
    selection: Selection,
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


def _entries(selection: Selection, reader: RecordReader) -> Iterator[tuple[int, list[int], bytes | str]]:
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
