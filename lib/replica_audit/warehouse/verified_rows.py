"""What an earlier audit verified, out of the warehouse (`auditing.comparing.verified_prefix`)."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from replica_audit.errors import UsageError
from replica_audit.warehouse.attempts import latest_attempt, own_rows
from replica_audit.warehouse.committed_rows import check_committed
from replica_audit.warehouse.delta_tables import Warehouse
from replica_audit.warehouse.segment_places import placed_segments

#: With any other verdict something is left to look at again.
_WELL = ("CONSISTENT", "LAGGING")


def verified_rows(
    warehouse: Warehouse, audit_id: str, cluster_id: str | None
) -> dict[tuple[str, int], list[dict[str, Any]]]:
    """Rows for `verified_copies`, by (topic, partition), of partitions that the audit found well, with the places of their
    summaries (`read_summaries`).

    Raises UsageError when there is no such finished audit, or it is of another cluster.
    """
    audit = latest_attempt(warehouse, "audit", audit_id=audit_id)
    if audit["cluster_id"] != cluster_id:
        raise UsageError(
            f"--since {audit_id}: that audit is of cluster {audit['cluster_id'] or 'without a name'}, "
            f"the snapshot of {cluster_id or 'one without a name'}"
        )
    names = ("topic", "partition", "verdict")
    judged = warehouse.read("partitions", names, audit_id=audit_id)
    well = {(row["topic"], row["partition"]) for row in judged if row["verdict"] in _WELL}
    columns = ("topic", "partition", "broker_id", "log_dir")
    summary = ("summary_file", "summary_row")
    replicas = warehouse.read("replicas", (*columns, "common_prefix_end"), audit_id=audit_id)
    check_committed(warehouse, audit, {"partitions": len(judged), "replicas": len(replicas)})
    ends = {
        tuple(row[name] for name in columns): row["common_prefix_end"]
        for row in replicas
        if (row["topic"], row["partition"]) in well and row["common_prefix_end"] is not None
    }
    found: dict[tuple[str, int], list[dict[str, Any]]] = defaultdict(list)
    for row in placed_segments(warehouse, **own_rows(audit)):
        end = ends.get(tuple(row[name] for name in columns))
        if end is not None:
            kept = {name: row[name] for name in (*columns, *summary)}
            found[row["topic"], row["partition"]].append({**kept, "common_prefix_end": end})
    return dict(found)
