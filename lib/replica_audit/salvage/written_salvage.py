"""Writing of a salvage to a new directory: the manifest always, the records with payloads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from replica_audit import __version__
from replica_audit.batch_header import or_none
from replica_audit.literals import RECORD_FORMS
from replica_audit.model import TopicPartition
from replica_audit.salvage.compared_logs import Copy, Unread
from replica_audit.salvage.missing_records import REASONS, UnexpandedBatch
from replica_audit.salvage.partition_salvage import OUTCOMES, Choices, Finds, PartitionSalvage, SelectedRecords
from replica_audit.salvage.record_files import Writer, copy_unexpanded, json_line, open_writers
from replica_audit.salvage.salvage_manifest import (
    NAME,
    ManifestCopy,
    ManifestEpoch,
    ManifestFile,
    ManifestFinds,
    ManifestHead,
    ManifestPartition,
    ManifestPlan,
    ManifestProducer,
    ManifestRecord,
    ManifestReference,
    ManifestSnapshot,
    ManifestTotals,
    ManifestUnexpanded,
    ManifestUnread,
    OtherTopic,
    PlannedLoss,
    record_digest,
    write_manifest,
)
from replica_audit.salvage.snapshot_salvage import SnapshotSalvage
from replica_audit.scratch import hash_file, new_directory, new_file
from replica_audit.segments.records import RecordError, decode_payloads
from replica_audit.snapshot.record_reader import RecordReader
from replica_audit.typed_json import to_object

#: Producers listed in a partition's entry; the others are only counted.
_PRODUCERS = 1000


def record_entry(place: TopicPartition, finds: Finds, index: int, digest: str | None) -> ManifestRecord:
    """Manifest entry of the record at `index` of a selection; `digest` is None without payloads."""
    selection = finds.selection
    row = selection.rows[index]
    record = row["record"]
    batch = selection.batches[row["batch"]]
    return ManifestRecord(
        topic=place.topic,
        partition=place.partition,
        offset=int(record["offset"]),
        leader_epoch=or_none(record["leader_epoch"]),
        timestamp_ms=or_none(record["timestamp"]),
        copy=int(row["copy"]),
        also_in=selection.also_in[index],
        file=batch.request.path,
        position=batch.request.position,
        batch_crc=batch.request.crc,
        reason=REASONS[row["reason"]],
        producer_id=or_none(record["producer_id"]),
        producer_epoch=or_none(record["producer_epoch"]),
        sequence=or_none(record["sequence"]),
        transaction=OUTCOMES[row["outcome"]],
        committed=True if finds.proven[index] else None,
        later_value=None if finds.later_value is None else bool(finds.later_value[index]),
        sha256=digest,
    )


def partition_entry(found: PartitionSalvage, expected: int, written: int | None) -> ManifestPartition:
    """Manifest entry of one partition; `written` is None without payloads."""
    place = found.audit.evidence.topic_partition
    case = found.audit.case
    planned = found.planned
    log = None
    if case is not None and found.reference is not None:
        facts = found.reference.facts
        log = ManifestReference(
            topic_id=facts.directory.topic_id,
            leader_id=case.reference.leader_id,
            reference_id=facts.broker_id,
            leader_epoch=case.reference.leader_epoch,
            log_start_offset=facts.log_start_offset,
            log_end_offset=facts.log_end_offset,
            unchecked_batches=facts.unchecked_batches,
        )
    return ManifestPartition(
        topic=place.topic,
        partition=place.partition,
        verdict=found.audit.verdict,
        compacted=None if log is None or found.reference is None else found.reference.facts.compacted,
        plan=None if planned is None else PlannedLoss(planned.candidate_id, planned.chosen.lost_records),
        log=log,
        records=expected,
        written=written,
        problem=found.problem,
        finds=None if found.finds is None else _finds_entry(found, found.finds),
    )


def _finds_entry(found: PartitionSalvage, finds: Finds) -> ManifestFinds:
    selection = finds.selection
    rows = finds.selection.rows
    timestamps = rows["record"]["timestamp"]
    known = timestamps[timestamps >= 0]
    producers = _producers(rows)
    return ManifestFinds(
        committed=int(finds.proven.sum()),
        later_value=None if finds.later_value is None else int(finds.later_value.sum()),
        first_timestamp_ms=int(known.min()) if len(known) else None,
        last_timestamp_ms=int(known.max()) if len(known) else None,
        epochs=tuple(_epochs(selection, found.copies)),
        reasons=_counted(REASONS[number] for number in rows["reason"].tolist()),
        transactions=_transactions(rows),
        producers=tuple(producers[:_PRODUCERS]),
        producer_count=len(producers),
        left_out=dict(sorted(selection.left_out.items())),
        copies=tuple(_copies(selection, found.copies)),
        other_topics=tuple(OtherTopic(one.broker_id, one.path, one.topic_id) for one in found.other_topics),
    )


def unread_entry(one: Unread, place: TopicPartition | None = None) -> ManifestUnread:
    """Manifest entry of input that may hold records and could not be read."""
    return ManifestUnread(
        topic=None if place is None else place.topic,
        partition=None if place is None else place.partition,
        broker_id=one.broker_id,
        path=one.path,
        position=one.position,
        start_offset=one.start_offset,
        end_offset=one.end_offset,
        records=one.record_count,
        reason=one.reason,
    )


def unexpanded_entry(place: TopicPartition, one: UnexpandedBatch, copied_to: str | None) -> ManifestUnexpanded:
    """Manifest entry of a missing batch that is not expanded; `copied_to` is None if it was not copied."""
    return ManifestUnexpanded(
        topic=place.topic,
        partition=place.partition,
        broker_id=one.broker_id,
        file=one.request.path,
        position=one.request.position,
        batch_crc=one.request.crc,
        leader_epoch=or_none(one.leader_epoch),
        start_offset=one.base_offset,
        end_offset=one.last_offset + 1,
        records=one.record_count,
        reason=one.reason,
        copied_to=copied_to,
    )


def totals_of(
    partitions: Sequence[ManifestPartition],
    unread: Sequence[ManifestUnread],
    unexpanded: Sequence[ManifestUnexpanded],
    payloads: bool,
) -> ManifestTotals:
    """Sums over partitions, unread input and unexpanded batches."""
    whole = sum(one.records or 0 for one in unexpanded)
    known = [one.records for one in unread if one.records is not None]
    finds = [one.finds for one in partitions if one.finds is not None]
    return ManifestTotals(
        partitions=sum(one.records > 0 for one in partitions),
        expected=sum(one.records for one in partitions) + sum(known) + whole,
        records=sum(one.records for one in partitions),
        written=sum(one.written or 0 for one in partitions) if payloads else None,
        unread_records=sum(known),
        unexpanded_records=whole,
        first_timestamp_ms=min((at for one in finds if (at := one.first_timestamp_ms) is not None), default=None),
        last_timestamp_ms=max((at for one in finds if (at := one.last_timestamp_ms) is not None), default=None),
    )


def _epochs(selection: SelectedRecords, copies: Sequence[Copy]) -> Iterator[ManifestEpoch]:
    rows = selection.rows
    record = rows["record"]
    also_in = selection.also_in
    for epoch in np.unique(record["leader_epoch"]).tolist():
        chosen = np.flatnonzero(record["leader_epoch"] == epoch).tolist()
        offsets = record["offset"][chosen]
        holders = {int(rows["copy"][index]) for index in chosen} | {
            other for index in chosen for other in also_in[index]
        }
        ids = {copies[number].broker_id for number in holders}
        brokers = tuple(sorted(one for one in ids if one is not None))
        span = int(offsets.min()), int(offsets.max()) + 1
        yield ManifestEpoch(or_none(epoch), *span, len(offsets), brokers, None in ids)


def _producers(rows: NDArray[np.void]) -> list[ManifestProducer]:
    """Entries by producer id and epoch; records without a producer id are one entry."""
    record = rows["record"]
    found = []
    for key in np.unique(record[["producer_id", "producer_epoch"]]).tolist():
        own = rows[(record["producer_id"] == key[0]) & (record["producer_epoch"] == key[1])]
        timestamps = own["record"]["timestamp"]
        found.append(
            ManifestProducer(
                producer_id=or_none(key[0]),
                producer_epoch=or_none(key[1]),
                records=len(own),
                transactional=int(own["record"]["transactional"].sum()),
                first_timestamp_ms=or_none(timestamps.min()),
                last_timestamp_ms=or_none(timestamps.max()),
            )
        )
    return found


def _transactions(rows: NDArray[np.void]) -> dict[str, int]:
    """Number of transactions with records among `rows`, by outcome; a transaction is a producer and the marker that ended it."""
    columns = (rows["outcome"], rows["record"]["producer_id"], rows["marker"])
    found = set(zip(*(column.tolist() for column in columns), strict=True))
    return _counted(OUTCOMES[outcome] for outcome, _, _ in found if outcome)


def _copies(selection: SelectedRecords, copies: Sequence[Copy]) -> Iterator[ManifestCopy]:
    source: Counter[int] = Counter(selection.rows["copy"].tolist())
    held = source + Counter(number for others in selection.also_in for number in others)
    for number, copy in enumerate(copies):
        yield ManifestCopy(number, copy.kind, copy.broker_id, copy.path, source[number], held[number])


def _counted(words: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(words).items()))


_ROWS = "rows.partial"
#: The only format that can hold a batch which is not expanded.
_UNEXPANDED_FORM = "segments"
#: Batches requested together; they are usually neighbours.
_TOGETHER = 256


@dataclass(frozen=True, slots=True)
class Forms:
    """Formats and encoding of the records."""

    forms: tuple[str, ...] = RECORD_FORMS
    encoding: str = "base64"


def write_salvage(
    found: SnapshotSalvage, reader: RecordReader, choices: Choices, forms: Forms, target: Path
) -> ManifestHead:
    """Write the new directory `target` and return the manifest's head.

    Raises UsageError if it exists or cannot be written. Memory: one batch, and a few numbers for each record.
    """
    with new_directory(target) as directory:
        output = _Output(reader, choices, forms, directory, list(map(unread_entry, found.unread)))
        with new_file(directory / _ROWS) as rows:
            for partition in found.partitions:
                output.write(partition, rows)
        files = [
            ManifestFile(
                path=path.relative_to(directory).as_posix(), size_bytes=path.stat().st_size, sha256=hash_file(path)
            )
            for path in sorted(directory.rglob("*"))
            if path.is_file() and path.name != _ROWS
        ]
        head = ManifestHead(
            tool_version=__version__,
            snapshot=ManifestSnapshot(snapshot_id=found.snapshot_id, cluster_id=found.cluster_id),
            audit=found.options,
            plan=None if found.plan_sha256 is None else ManifestPlan(found.plan_sha256),
            payloads=choices.payloads,
            include_aborted=choices.include_aborted,
            include_ahead=choices.include_ahead,
            encoding=forms.encoding if choices.payloads and "jsonl" in forms.forms else None,
            totals=totals_of(output.partitions, output.unread, output.unexpanded, choices.payloads),
            partitions=tuple(output.partitions),
            internal_partitions=tuple(map(str, found.internal)),
            partitions_without_steps=tuple(map(str, found.without_steps)),
            unread=tuple(output.unread),
            unexpanded=tuple(output.unexpanded),
            files=tuple(files),
        )
        with (directory / _ROWS).open("rb") as lines:
            write_manifest(directory / NAME, head, lines)
        (directory / _ROWS).unlink()
    return head


@dataclass(frozen=True, slots=True)
class _Output:
    """Files written below a directory, and the manifest's entries for them."""

    reader: RecordReader
    choices: Choices
    forms: Forms
    directory: Path
    unread: list[ManifestUnread]
    partitions: list[ManifestPartition] = field(default_factory=list)
    unexpanded: list[ManifestUnexpanded] = field(default_factory=list)

    def write(self, found: PartitionSalvage, rows: BinaryIO) -> None:
        """Write the records of a partition, and a manifest line for each to `rows`."""
        place = found.audit.evidence.topic_partition
        finds = found.finds
        unexpanded = [] if finds is None else self._copy_unexpanded(place, finds.selection.unexpanded)
        self.unexpanded.extend(unexpanded)
        self.unread.extend(unread_entry(one, place) for one in found.unread)
        if found.problem is not None:
            self.unread.append(unread_entry(Unread(str(place), found.problem), place))
        expected = 0 if finds is None else len(finds.selection.rows)
        written = dict.fromkeys(self.forms.forms, 0)
        if finds is not None and expected:
            digests: Iterable[tuple[int, str | None]] = ((index, None) for index in range(expected))
            writers: list[Writer] = []
            if self.choices.payloads:
                writers = open_writers(self.directory / str(place), place, self.forms.forms, self.forms.encoding)
                digests = self._copy_records(place, finds.selection, writers)
            for index, digest in digests:
                rows.write(json_line(to_object(record_entry(place, finds, index, digest))))
            written |= {form: writer.close() for form, writer in zip(self.forms.forms, writers)}
        if _UNEXPANDED_FORM in written:
            written[_UNEXPANDED_FORM] += sum(one.records or 0 for one in unexpanded if one.copied_to is not None)
        # A record counts as written if every file has it.
        counted = min(written.values()) if self.choices.payloads else None
        self.partitions.append(partition_entry(found, expected, counted))

    def _copy_unexpanded(self, place: TopicPartition, batches: Sequence[UnexpandedBatch]) -> list[ManifestUnexpanded]:
        """Entries of unexpanded batches; the batches are copied if segments are written."""
        entries = dict(self.reader.entries(batch.request for batch in batches)) if self.choices.payloads else {}
        rows = []
        for batch in batches:
            entry = entries.get(batch.request)
            copied_to = None
            if isinstance(entry, bytes) and _UNEXPANDED_FORM in self.forms.forms:
                path = copy_unexpanded(self.directory / str(place), batch.leader_epoch, batch.base_offset, entry)
                copied_to = path.relative_to(self.directory).as_posix()
            rows.append(unexpanded_entry(place, batch, copied_to))
        return rows

    def _copy_records(
        self, place: TopicPartition, selection: SelectedRecords, writers: Sequence[Writer]
    ) -> Iterator[tuple[int, str]]:
        """Write the records of a selection in order; yields the index and digest of each."""
        for batch, indexes, entry in _entries(selection, self.reader):
            source = selection.batches[batch]
            try:
                if isinstance(entry, str):
                    raise RecordError(entry)
                wanted = {int(selection.rows["record"]["offset"][index]): index for index in indexes}
                records = [record for record in decode_payloads(entry) if record.offset in wanted]
                if len(records) != len(indexes):
                    raise RecordError(f"{len(indexes)} records were found here before, and {len(records)} now")
            except RecordError as error:
                request = source.request
                bounds = (source.base_offset, source.last_offset + 1)
                # Its records count as the partition's and are not written.
                unread = Unread(request.path, str(error), None, request.position, *bounds)
                self.unread.append(unread_entry(unread, place))
                continue
            variant = int(selection.rows["variant"][indexes[0]])
            whole = entry if len(records) == source.record_count else None
            for writer in writers:
                writer.add(records, whole, variant)
            for record in records:
                digest = record_digest(record.timestamp, record.key, record.value, record.headers)
                yield wanted[record.offset], digest


def _entries(selection: SelectedRecords, reader: RecordReader) -> Iterator[tuple[int, list[int], bytes | str]]:
    """Runs of consecutive records of one batch: the batch's index, the records' indexes, and its bytes or the reason for having none."""
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
