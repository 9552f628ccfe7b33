"""Findings of whole log dirs, and of input that belongs to no partition."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from replica_audit.auditing.findings.finding import Evidence, Finding, finding, finding_row
from replica_audit.formats.log_dirs.names import OFFSET_CHECKPOINTS

#: Quarantine codes that are findings too when no partition can carry them.
UNPLACED_CODES = ("CAP-UNREADABLE", "META-FOREIGN-DIR", "META-FORK")


class LogDirTally:
    """What partitions, one after the other, tell of the log dirs that they lie in."""

    def __init__(self) -> None:
        self._filled: set[tuple[int, str]] = set()
        self._without: dict[tuple[int, str, str], dict] = {}

    def add(self, replica_dirs: Iterable[Mapping], segments: Iterable[Mapping]) -> None:
        """Take the rows of one partition."""
        self._filled |= {(row["broker_id"], row["log_dir"]) for row in segments if row["batch_count"]}
        for row in replica_dirs:
            file = row["high_watermark_file"]
            if file["state"] in ("missing", "empty"):
                place = {"broker_id": row["broker_id"], "log_dir": row["log_dir"]}
                self._without[(*place.values(), file["path"])] = {**place, **file}

    def findings(self, unplaced: Iterable[Mapping], cluster_id: str | None) -> list[dict]:
        """Rows of `findings` without topic and partition: of log dirs without a replication-offset-checkpoint though a
        log in them has batches, and of `unplaced`, quarantine rows without a partition.
        """
        found = [_missing_checkpoint(row) for key, row in sorted(self._without.items()) if key[:2] in self._filled]
        found += [
            _unusable(row) for row in unplaced if row["code"] in UNPLACED_CODES and not _is_told_by_partitions(row)
        ]
        return [finding_row(item, None, name, cluster_id) for name, item in found]


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
