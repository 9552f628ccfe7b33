"""Rows of the bronze tables from an inventory, which ingest writes and `show` audits directly; and directories from rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from replica_audit.auditing.findings.log import code_of_damage
from replica_audit.model import CheckpointFile, ReplicaDir, SegmentSummary
from replica_audit.schema import to_dict
from replica_audit.segments.summary import summary_to_json
from replica_audit.snapshot.inventory import Inventory
from replica_audit.snapshot.leadership_rows import state_rows

#: `file` of `offset_checkpoints` → the fields of `ReplicaDir` that hold its value and its state.
_CHECKPOINTS = {
    "replication-offset-checkpoint": ("high_watermark_checkpoint", "high_watermark_file"),
    "recovery-point-offset-checkpoint": ("recovery_point_checkpoint", "recovery_point_file"),
    "log-start-offset-checkpoint": ("log_start_checkpoint", "log_start_file"),
    "cleaner-offset-checkpoint": ("cleaner_checkpoint", "cleaner_file"),
}

#: Tables that have rows of copies only, and of checkpoints' lines.
COPY_TABLES = ("replica_dirs", "leader_epochs", "offset_checkpoints")

#: Columns of `replica_dirs` that are fields of `ReplicaDir` with the state of a file.
_FILES = ("epoch_file", *(state for _, state in _CHECKPOINTS.values()))


def bronze_rows(inventory: Inventory) -> dict[str, list[dict]]:
    """Rows of replica_dirs, leader_epochs, offset_checkpoints, quarantine and partition_states, without their ids; of replicas those
    that were read here.
    """
    return {**directory_rows(inventory), "partition_states": list(leadership_rows(inventory))}


def directory_rows(inventory: Inventory) -> dict[str, list[dict]]:
    """`bronze_rows` without partition_states."""
    rows = copy_rows(inventory.copies)
    rows["offset_checkpoints"] += _orphan_rows(inventory)
    rows["quarantine"] = [row._asdict() for row in inventory.quarantine]
    return rows


def copy_rows(copies: Iterable[ReplicaDir]) -> dict[str, list[dict]]:
    """Rows of replica_dirs, leader_epochs and offset_checkpoints."""
    rows: dict[str, list[dict]] = {table: [] for table in COPY_TABLES}
    for replica in copies:
        rows["replica_dirs"].append(_directory_row(replica))
        rows["leader_epochs"] += _epoch_rows(replica)
        rows["offset_checkpoints"] += _checkpoint_rows(replica)
    return rows


def leadership_rows(inventory: Inventory) -> Iterator[dict]:
    """Rows of partition_states, in order of partition."""
    return (to_dict(row) for leadership in inventory.leaderships for row in state_rows(leadership))


def segment_row(replica: ReplicaDir | dict, summary: SegmentSummary) -> dict:
    """Row of `segments` for one scanned segment; `replica` gives broker_id, log_dir, topic and partition."""
    names = replica if isinstance(replica, dict) else _names(replica)
    return {
        **names,
        "path": summary.path,
        "base_offset": summary.base_offset,
        "size_bytes": summary.size_bytes,
        "batch_count": summary.batch_count,
        "record_count": summary.record_count,
        "last_offset": summary.last_offset,
        "tail_kind": summary.tail_kind,
        "tail_length": summary.tail_length,
        "summary": summary_to_json(summary),
    }


def damage_rows(names: dict, summary: SegmentSummary) -> Iterator[dict]:
    """Quarantine rows for the bytes of one segment that are not a batch: damage, and tails other than clean.

    Zeros after the data and a batch cut off at the end are what a running broker leaves; they are listed all the same,
    under the code of the finding that judges them.
    """
    for damage in summary.damage:
        yield {
            "broker_id": names["broker_id"],
            "topic": names["topic"],
            "partition": names["partition"],
            "path": summary.path,
            "position": damage.position,
            "length": damage.length,
            "code": code_of_damage(damage),
            "reason": damage.reason,
        }


def _names(replica: ReplicaDir) -> dict:
    return {
        "broker_id": replica.broker_id,
        "log_dir": replica.log_dir,
        "topic": replica.topic,
        "partition": replica.partition,
    }


def _directory_row(replica: ReplicaDir) -> dict:
    return {
        **_names(replica),
        "path": replica.path,
        "topic_id": replica.topic_id,
        "clean_shutdown": replica.clean_shutdown,
        "directory_id": replica.directory_id,
        **{name: _file_row(getattr(replica, name)) for name in _FILES},
        "problem": replica.problem,
        "segment_bases": list(replica.segment_bases),
        "index_bases": list(replica.index_bases),
    }


def directories_of_rows(
    rows: Mapping[str, Iterable[Mapping[str, Any]]],
) -> tuple[list[ReplicaDir], dict[tuple[int, str, str], int]]:
    """The directories of one partition from its rows by table, as `bronze_rows` gives them; and entries of offset
    checkpoints, by broker id, log dir and file, of log dirs that have no directory of the partition.
    """
    epochs: dict[tuple[int, str], list[tuple[int, int, int]]] = {}
    for row in rows.get("leader_epochs", ()):
        entry = (row["entry"], row["leader_epoch"], row["start_offset"])
        epochs.setdefault((row["broker_id"], row["log_dir"]), []).append(entry)
    values: dict[tuple[int, str], dict[str, int]] = {}
    for row in rows.get("offset_checkpoints", ()):
        values.setdefault((row["broker_id"], row["log_dir"]), {})[row["file"]] = row["value"]
    found = []
    for row in rows.get("replica_dirs", ()):
        key = (row["broker_id"], row["log_dir"])
        found.append(_directory_of_row(row, sorted(epochs.get(key, ())), values.pop(key, {})))
    return found, {(*key, file): value for key, files in values.items() for file, value in files.items()}


def _directory_of_row(
    row: Mapping[str, Any], epochs: Iterable[tuple[int, int, int]], values: Mapping[str, int]
) -> ReplicaDir:
    files = {name: CheckpointFile(**row[name]) for name in _FILES}
    usable = files["epoch_file"].state in ("present", "empty")
    named: dict[str, Any] = {**files, **{field: values.get(file) for file, (field, _) in _CHECKPOINTS.items()}}
    return ReplicaDir(
        broker_id=row["broker_id"],
        log_dir=row["log_dir"],
        topic=row["topic"],
        partition=row["partition"],
        path=row["path"],
        topic_id=row["topic_id"],
        clean_shutdown=row["clean_shutdown"],
        directory_id=row["directory_id"],
        checkpoint_epochs=tuple((epoch, start) for _, epoch, start in epochs) if usable else None,
        **named,
        problem=row["problem"],
        segment_bases=tuple(row["segment_bases"] or ()),
        index_bases=tuple(row["index_bases"] or ()),
    )


def _file_row(file: CheckpointFile) -> dict:
    return {"state": file.state, "path": file.path, "problem": file.problem}


def _epoch_rows(replica: ReplicaDir) -> Iterator[dict]:
    names = _names(replica)
    for entry, (leader_epoch, start_offset) in enumerate(replica.checkpoint_epochs or ()):
        yield {**names, "entry": entry, "leader_epoch": leader_epoch, "start_offset": start_offset}


def _checkpoint_rows(replica: ReplicaDir) -> Iterator[dict]:
    for file, (value_field, _) in _CHECKPOINTS.items():
        value = getattr(replica, value_field)
        if value is not None:
            yield _checkpoint_row(replica.broker_id, replica.log_dir, file, replica.topic, replica.partition, value)


def _orphan_rows(inventory: Inventory) -> Iterator[dict]:
    for orphan in inventory.orphan_checkpoints:
        yield _checkpoint_row(
            orphan.broker_id, orphan.log_dir, orphan.file, orphan.topic, orphan.partition, orphan.value
        )


def _checkpoint_row(broker_id: int, log_dir: str, file: str, topic: str, partition: int, value: int) -> dict:
    return {
        "broker_id": broker_id,
        "log_dir": log_dir,
        "file": file,
        "topic": topic,
        "partition": partition,
        "value": value,
    }
