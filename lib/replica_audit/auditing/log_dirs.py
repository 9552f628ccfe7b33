"""Findings of whole log dirs, and of input that belongs to no partition."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from replica_audit.auditing.findings import Evidence, Finding, finding, finding_row
from replica_audit.formats.names import OFFSET_CHECKPOINTS

#: Quarantine codes that are findings too when no partition can carry them.
UNPLACED_CODES = ("CAP-UNREADABLE", "META-FOREIGN-DIR", "META-FORK")


def log_dir_findings(log_dirs: Iterable[Mapping], unplaced: Iterable[Mapping], cluster_id: str | None) -> list[dict]:
    """Rows of `findings` without topic and partition.

    `log_dirs`: broker_id, log_dir, and state and path of a replication-offset-checkpoint that is missing or empty though
    a log of the log dir has batches. `unplaced`: quarantine rows without a partition.
    """
    found = [_missing_checkpoint(row) for row in log_dirs]
    found += [_unusable(row) for row in unplaced if row["code"] in UNPLACED_CODES and not _is_told_by_partitions(row)]
    return [{**finding_row(item, None, name, cluster_id)} for name, item in found]


def _is_told_by_partitions(row: Mapping) -> bool:
    """An offset checkpoint of a log dir: each partition in it says that nothing is known of its own entry."""
    return row["broker_id"] is not None and row["path"].rpartition("/")[2] in OFFSET_CHECKPOINTS


def _missing_checkpoint(row: Mapping) -> tuple[str, Finding]:
    message = (
        f"broker {row['broker_id']}: {row['path']} is {row['state']} though logs of this log dir have records; after a start "
        "every high watermark in it begins at its log start"
    )
    place = Evidence("checkpoint", row["state"], row["broker_id"], row["path"])
    return row["log_dir"], finding(
        "CHK-MISSING", message, severity="medium", broker_id=row["broker_id"], evidence=[place]
    )


def _unusable(row: Mapping) -> tuple[str, Finding]:
    place = Evidence("file", row["reason"], row["broker_id"], row["path"], row["position"])
    message = f"{row['path']}: {row['reason']}"
    return row["path"], finding(row["code"], message, broker_id=row["broker_id"], evidence=[place])
