"""Rows of the bronze tables from an inventory, as ingest writes them and `show` audits them; and the reverse for directories."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from replica_audit.auditing.findings.log import code_of_damage
from replica_audit.bronze_tables import LeaderEpochRow, OffsetCheckpointRow, ReplicaDirRow, SegmentRow
from replica_audit.model import ReplicaDir, SegmentFile, SegmentSummary
from replica_audit.row_classes import Row
from replica_audit.schema import PartitionStateRow, QuarantineRow
from replica_audit.segments.summary import summary_to_json
from replica_audit.snapshot.inventory import Inventory
from replica_audit.snapshot.leadership_rows import state_rows
from replica_audit.snapshot.log_dir_names import CLEANER_OFFSETS, HIGH_WATERMARKS, LOG_STARTS, RECOVERY_POINTS

#: Field of `ReplicaDir` with the value of each `file` of `offset_checkpoints`.
_CHECKPOINTS = {
    HIGH_WATERMARKS: "high_watermark_checkpoint",
    RECOVERY_POINTS: "recovery_point_checkpoint",
    LOG_STARTS: "log_start_checkpoint",
    CLEANER_OFFSETS: "cleaner_checkpoint",
}

#: Tables with rows of copies and checkpoint lines only.
COPY_TABLES = ("replica_dirs", "leader_epochs", "offset_checkpoints")


def bronze_rows(inventory: Inventory) -> dict[str, list[Row]]:
    """Rows of replica_dirs, leader_epochs, offset_checkpoints, quarantine and partition_states without audit ids, for the
    copies read by this process."""
    return {**directory_rows(inventory), "partition_states": list(leadership_rows(inventory))}


def directory_rows(inventory: Inventory) -> dict[str, list[Row]]:
    """`bronze_rows` without partition_states."""
    rows = copy_rows(inventory.copies)
    rows["offset_checkpoints"] += inventory.orphan_checkpoints
    rows["quarantine"] = list(inventory.quarantine)
    return rows


def copy_rows(copies: Iterable[ReplicaDir]) -> dict[str, list[Row]]:
    """Rows of replica_dirs, leader_epochs and offset_checkpoints for `copies`."""
    rows: dict[str, list[Row]] = {table: [] for table in COPY_TABLES}
    for replica in copies:
        rows["replica_dirs"].append(ReplicaDirRow(*(getattr(replica, name) for name in ReplicaDirRow._fields)))
        rows["leader_epochs"] += _epoch_rows(replica)
        rows["offset_checkpoints"] += _checkpoint_rows(replica)
    return rows


def leadership_rows(inventory: Inventory) -> Iterator[PartitionStateRow]:
    """Rows of partition_states, sorted by partition."""
    return (row for leadership in inventory.leaderships for row in state_rows(leadership))


def segment_row(file: SegmentFile, summary: SegmentSummary) -> SegmentRow:
    """Row of `segments` for one scanned segment, without the location of its batches."""
    return SegmentRow(
        broker_id=file.broker_id,
        log_dir=file.log_dir,
        topic=file.topic,
        partition=file.partition,
        path=summary.path,
        base_offset=summary.base_offset,
        size_bytes=summary.size_bytes,
        batch_count=summary.batch_count,
        record_count=summary.record_count,
        last_offset=summary.last_offset,
        tail_kind=summary.tail_kind,
        tail_length=summary.tail_length,
        summary=summary_to_json(summary),
    )


def damage_rows(file: SegmentFile, summary: SegmentSummary) -> Iterator[QuarantineRow]:
    """Quarantine rows for the bytes of a segment outside batches: damage, and tails other than clean.

    Zeros after the data and a batch cut off at the end are normal for a running broker; they too are listed under the code of
    the finding that judges them.
    """
    for damage in summary.damage:
        yield QuarantineRow(
            file.broker_id,
            file.topic,
            file.partition,
            summary.path,
            damage.position,
            damage.length,
            code_of_damage(damage),
            damage.reason,
        )


def unreadable_row(file: SegmentFile, error: Exception) -> QuarantineRow:
    """Quarantine row of an unreadable segment; the other segments are still audited."""
    position = getattr(error, "position", None)
    reason = f"the segment could not be read: {error}"
    return QuarantineRow(
        file.broker_id, file.topic, file.partition, file.path, position, file.size_bytes, "CAP-UNREADABLE", reason
    )


def directories_of_rows(
    replica_dirs: Iterable[ReplicaDirRow],
    leader_epochs: Iterable[LeaderEpochRow],
    offset_checkpoints: Iterable[OffsetCheckpointRow],
) -> tuple[list[ReplicaDir], dict[tuple[int, str, str], int]]:
    """Rebuild the directories of one partition from its rows in the form of `bronze_rows`.

    Also returns values of offset checkpoints by (broker id, log dir, file) for log dirs without a directory of the partition.
    """
    epochs: dict[tuple[int, str], list[LeaderEpochRow]] = defaultdict(list)
    for line in leader_epochs:
        epochs[line.broker_id, line.log_dir].append(line)
    values: dict[tuple[int, str], dict[str, int]] = defaultdict(dict)
    for checkpoint in offset_checkpoints:
        values[checkpoint.broker_id, checkpoint.log_dir][checkpoint.file] = checkpoint.value
    found = []
    for row in replica_dirs:
        key = (row.broker_id, row.log_dir)
        found.append(_directory_of_row(row, epochs[key], values.pop(key, {})))
    return found, {(*key, file): value for key, files in values.items() for file, value in files.items()}


def _directory_of_row(row: ReplicaDirRow, epochs: Iterable[LeaderEpochRow], values: Mapping[str, int]) -> ReplicaDir:
    lines = sorted((one.entry, one.leader_epoch, one.start_offset) for one in epochs)
    is_usable = row.epoch_file.state in ("present", "empty")
    fields = row._asdict()
    fields.update(
        {field: values.get(file) for file, field in _CHECKPOINTS.items()},
        checkpoint_epochs=tuple((epoch, start) for _, epoch, start in lines) if is_usable else None,
        segment_bases=tuple(row.segment_bases or ()),
        index_bases=tuple(row.index_bases or ()),
    )
    if row.observed is not None:
        fields.update(high_watermark_checkpoint=row.observed.high_watermark)
    return ReplicaDir(**fields)


def _epoch_rows(replica: ReplicaDir) -> Iterator[LeaderEpochRow]:
    for entry, (leader_epoch, start_offset) in enumerate(replica.checkpoint_epochs or ()):
        place = replica.broker_id, replica.log_dir, replica.topic, replica.partition
        yield LeaderEpochRow(*place, entry, leader_epoch, start_offset)


def _checkpoint_rows(replica: ReplicaDir) -> Iterator[OffsetCheckpointRow]:
    for file, field in _CHECKPOINTS.items():
        value = getattr(replica, field)
        # A high watermark reported by a broker is in no file.
        is_said = replica.observed is not None and field == "high_watermark_checkpoint"
        if value is not None and not is_said:
            yield OffsetCheckpointRow(replica.broker_id, replica.log_dir, file, replica.topic, replica.partition, value)
