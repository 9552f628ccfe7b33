"""A snapshot opened for an audit, and one partition of it audited in this process, without Spark."""

from __future__ import annotations

from dataclasses import asdict, replace

import numpy as np
import pyarrow.compute as pc

from replica_audit import __version__
from replica_audit.auditing.capture_times import CaptureTimes
from replica_audit.auditing.catalogue import worst_verdict
from replica_audit.auditing.evidence import (
    EVIDENCE_TABLES,
    LOG_EVENTS,
    TIMELINE,
    AuditOptions,
    options_row,
    partition_evidence,
    resolve_options,
)
from replica_audit.auditing.log_dirs import log_dir_findings
from replica_audit.auditing.partition import CopyKey, audit_partition, needed_batches, open_producers
from replica_audit.auditing.tables import report_rows
from replica_audit.auditing.timeline import summary_row, timeline_of
from replica_audit.config import Settings
from replica_audit.errors import InputError, UsageError
from replica_audit.formats.broker_logs import read_broker_log
from replica_audit.formats.bronze import bronze_rows, damage_rows, quarantine_row, segment_row
from replica_audit.formats.discovery import discover
from replica_audit.formats.errors import FormatError
from replica_audit.formats.inventory import Inventory, SegmentFile
from replica_audit.formats.leadership import parse_leadership
from replica_audit.formats.manifest import Manifest
from replica_audit.formats.progress import plan_progress, read_progress
from replica_audit.formats.record_reader import RecordReader
from replica_audit.formats.sources import open_source, summarise_source
from replica_audit.formats.storage import Snapshot
from replica_audit.formats.transaction_log import find_transaction_logs, latest_states, read_transaction_states
from replica_audit.model import CHUNK_OFFSETS, Damage, QuarantineRow, TopicPartition, TransactionState
from replica_audit.moments import now
from replica_audit.protocol.timeline import rule_of
from replica_audit.results import Results
from replica_audit.tables import REPORT_TABLES, sort_rows


def open_snapshot(uri: str, topics: tuple[str, ...], leadership: str | None) -> tuple[Snapshot, Inventory]:
    """A snapshot and what it holds, with the leadership of the file `leadership` in place of its own `user` entries.

    Raises UsageError when there is no such snapshot, `topics` match nothing, or the leadership file is wrong;
    InputError when no log dir or partition is found.
    """
    try:
        snapshot = Snapshot.open(uri)
    except (OSError, ValueError) as error:
        raise UsageError(str(error)) from error
    inventory = discover(snapshot, topics)
    named = inventory.replicas or inventory.leaderships or inventory.progress_files
    if topics and inventory.topics and not named:
        known = ", ".join(inventory.topics[:10]) or "none"
        raise UsageError(f"{' '.join(topics)} matches no topic of {uri}; topics there: {known}")
    if not named:
        raise InputError(
            f"{uri}: no partition found in {len(inventory.log_dirs)} log dirs; expected directories such as broker-1/orders-0 "
            "below it, with meta.properties beside them"
        )
    if leadership is None:
        return snapshot, inventory
    try:
        with open(leadership, "rb") as file:
            given = parse_leadership(file.read(), leadership)
    except (OSError, FormatError) as error:
        raise UsageError(f"--leadership {leadership}: {error}") from error
    kept = tuple(one for one in inventory.leaderships if one.source != "user")
    names = {(one.topic, one.partition) for one in inventory.replicas}
    return snapshot, replace(
        inventory, leaderships=(*kept, *(one for one in given if (one.topic, one.partition) in names))
    )


def audit_options(inventory: Inventory, settings: Settings) -> AuditOptions:
    """What the settings choose and the manifest says; raises UsageError for a version that is not one."""
    manifest = inventory.manifest or Manifest(None, None, ())
    times = CaptureTimes(manifest.brokers)
    return resolve_options(settings, manifest.kafka_version, manifest.quiesced, inventory.cluster_id, times)


def audit_one(uri: str, topic_partition: TopicPartition, settings: Settings) -> Results:
    """Audit one partition of the snapshot at `uri`. Raises UsageError when the snapshot does not have it."""
    started = now()
    # Square brackets and stars in a topic's name would be a pattern; Kafka's legal names have neither.
    snapshot, inventory = open_snapshot(uri, (topic_partition.topic,), settings.leadership)
    place = {"topic": topic_partition.topic, "partition": topic_partition.partition}
    rows = {
        table: [
            row
            for row in of_table
            if (row["topic"], row["partition"]) == (topic_partition.topic, topic_partition.partition)
        ]
        for table, of_table in bronze_rows(inventory).items()
    }
    options = audit_options(inventory, settings)
    observed = _read_observations(snapshot, inventory, topic_partition, rows["quarantine"])
    timeline, course = timeline_of(*place.values(), observed, rule_of(options.kafka_version))
    if not rows["replica_dirs"] and not rows["partition_states"] and course is None:
        known = sorted({str(one.topic_partition) for one in inventory.replicas})
        raise UsageError(f"{topic_partition} is not in {uri}; of that topic there are {', '.join(known[:10])}")
    files = [file for file in inventory.segments if file.partition == topic_partition.partition]
    rows["segments"] = []
    for file in files:
        names = {**place, "broker_id": file.broker_id, "log_dir": file.log_dir}
        try:
            summary = summarise_source(snapshot, file)
        except (OSError, FormatError) as error:
            rows["quarantine"].append(unreadable_row(names, file, error))
            continue
        rows["segments"].append(segment_row(names, summary))
        rows["quarantine"].extend(damage_rows(names, summary))
    facts = {table: rows[table] for table in EVIDENCE_TABLES}
    facts[LOG_EVENTS] = _read_broker_logs(snapshot, inventory, topic_partition, rows["quarantine"])
    facts[TIMELINE] = [summary_row(course)] if course is not None else []
    evidence = partition_evidence(topic_partition, facts, options)
    batches = _read_batches(snapshot, files, needed_batches(evidence))
    transactions, unread = _read_transactions(snapshot, inventory, open_producers(evidence))
    rows["quarantine"].extend({**place, **row} for row in unread)
    outcome = audit_partition(evidence, batches, RecordReader(snapshot), transactions)
    tables = report_rows(outcome)
    tables["quarantine"] = [
        {column.name: row[column.name] for column in REPORT_TABLES["quarantine"]} for row in rows["quarantine"]
    ]
    tables["partition_states"] = rows["partition_states"]
    tables["high_watermark_timeline"] = timeline
    tables["findings"] += log_dir_findings(
        _log_dirs_without_checkpoint(rows), _of_metadata(inventory), inventory.cluster_id
    )
    audit = {
        "audit_id": None,
        "snapshot_id": None,
        "cluster_id": inventory.cluster_id,
        "tool_version": __version__,
        "started": started,
        "finished": now(),
        "verdict": worst_verdict([outcome.verdict]),
        "inputs": {
            "snapshot": snapshot.name,
            "segments": len(files),
            "size_bytes": sum(file.size_bytes for file in files),
            "brokers": options.times.kinds(),
        },
        "options": options_row(options, settings),
    }
    return Results(audit, {table: sort_rows(of_table) for table, of_table in tables.items()}, uri)


def _read_broker_logs(
    snapshot: Snapshot, inventory: Inventory, topic_partition: TopicPartition, quarantine: list[dict]
) -> list[dict]:
    """What brokers' own logs say of one partition; a log that cannot be read is added to `quarantine`."""
    rows: list[dict] = []
    for file in inventory.broker_logs:
        for item in read_broker_log(snapshot, file.path, file.broker_id):
            if isinstance(item, QuarantineRow):
                quarantine.append(quarantine_row(item))
            elif (item.topic, item.partition) == (topic_partition.topic, topic_partition.partition):
                rows.append(asdict(item))
    return rows


def _read_observations(
    snapshot: Snapshot, inventory: Inventory, topic_partition: TopicPartition, quarantine: list[dict]
) -> list[dict]:
    """The rows of `replica_progress` of one partition; what could not be used is added to `quarantine`."""
    rows: list[dict] = []
    for part in plan_progress(snapshot, inventory.progress_files):
        found = [part] if isinstance(part, QuarantineRow) else read_progress(snapshot, part, (topic_partition.topic,))
        for item in found:
            if isinstance(item, QuarantineRow):
                quarantine.append(quarantine_row(item))
            else:
                rows += item.filter(pc.equal(item["partition"], topic_partition.partition)).to_pylist()
    return rows


def unreadable_row(names: dict, file: SegmentFile, error: Exception) -> dict:
    """The quarantine row of a segment that could not be read; the audit of the others goes on."""
    return {
        "broker_id": names["broker_id"],
        "topic": names["topic"],
        "partition": names["partition"],
        "path": file.path,
        "position": getattr(error, "position", None),
        "length": file.size_bytes,
        "code": "CAP-UNREADABLE",
        "reason": f"the segment could not be read: {error}",
    }


def _read_batches(
    snapshot: Snapshot, files: list[SegmentFile], wanted: dict[CopyKey, set[int]]
) -> dict[CopyKey, np.ndarray]:
    """Batches of the wanted chunks, by scanning the files of those copies once more."""
    found: dict[CopyKey, list[np.ndarray]] = {}
    for file in files:
        chunks = wanted.get((file.broker_id, file.log_dir))
        if not chunks:
            continue
        numbers = np.array(sorted(chunks))
        with open_source(snapshot, file) as source:
            for item in source.items:
                if not isinstance(item, Damage) and len(item):
                    rows = item[np.isin(item["base_offset"] // CHUNK_OFFSETS, numbers)]
                    found.setdefault((file.broker_id, file.log_dir), []).append(rows)
    return {key: np.concatenate(parts) for key, parts in found.items()}


def _of_metadata(inventory: Inventory) -> list[dict]:
    """What of the metadata log, texts and tables could not be used: no partition's, and yet it may bear on every one."""
    folders = tuple(
        f"{path}/"
        for path in (*(log.path for log in inventory.metadata_logs), *inventory.dump_paths, *inventory.table_paths)
    )
    return [quarantine_row(row) for row in inventory.quarantine if f"{row.path}/".startswith(folders)]


def _read_transactions(
    snapshot: Snapshot, inventory: Inventory, producers: set[int]
) -> tuple[dict[int, TransactionState], list[dict]]:
    """The coordinator's latest states of `producers`, and what of its log could not be read; nothing is read for none."""
    states, unread = [], []
    log_dirs = [log_dir.path for log_dir in inventory.log_dirs if log_dir.kind == "broker"] if producers else ()
    for segment in find_transaction_logs(snapshot, log_dirs):
        try:
            states += read_transaction_states(snapshot, segment, producers)
        except OSError as error:
            reason = f"could not be read, and may say which transactions are in progress: {error.strerror or type(error).__name__}"
            place = {"broker_id": None, "path": segment.path, "position": None, "length": segment.size}
            unread.append({**place, "code": "INPUT-IGNORED", "reason": reason})
    return latest_states(states), unread


def _log_dirs_without_checkpoint(rows: dict[str, list[dict]]) -> list[dict]:
    filled = {(row["broker_id"], row["log_dir"]) for row in rows["segments"] if row["batch_count"]}
    return [
        {"broker_id": row["broker_id"], "log_dir": row["log_dir"], **row["high_watermark_file"]}
        for row in rows["replica_dirs"]
        if row["high_watermark_file"]["state"] in ("missing", "empty") and (row["broker_id"], row["log_dir"]) in filled
    ]
