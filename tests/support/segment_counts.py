"""Counts over the segments of a snapshot, without a warehouse."""

from __future__ import annotations

from replica_audit.auditing.bronze_rows import segment_row
from replica_audit.auditing.opening import open_snapshot
from replica_audit.quality.quality_facts import CountsByReplica, in_order_of_replicas, segment_counts
from replica_audit.snapshot.segment_sources import summarise_source


def count_snapshot(uri: str) -> CountsByReplica:
    """Counts of every replica of a snapshot that has segments."""
    snapshot, inventory = open_snapshot(uri, (), None)
    rows = []
    for file in inventory.segments:
        names = {name: getattr(file, name) for name in ("broker_id", "log_dir", "topic", "partition")}
        rows.append(segment_row(names, summarise_source(snapshot, file)))
    return segment_counts(in_order_of_replicas(rows))
