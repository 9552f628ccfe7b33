"""Findings of whole log dirs, and of input that belongs to no partition."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from replica_audit.auditing.finding import finding_row
from replica_audit.auditing.findings import cap, chk, meta_copies, meta_identity
from replica_audit.schema import to_dict
from replica_audit.snapshot.log_dir_names import OFFSET_CHECKPOINTS


class LogDirTally:
    """State of the log dirs, gathered partition by partition."""

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

    def merge(self, other: LogDirTally) -> None:
        """Take what other partitions told."""
        self._filled |= other._filled
        self._without.update(other._without)

    def findings(self, unplaced: Iterable[Mapping], cluster_id: str | None) -> list[dict]:
        """Rows of `findings` without topic and partition: of log dirs without a replication-offset-checkpoint though a
        log in them has batches, and of `unplaced`, quarantine rows without a partition.
        """
        found = [
            (row["log_dir"], chk.missing_in_log_dir(row))
            for key, row in sorted(self._without.items())
            if key[:2] in self._filled
        ]
        for row in unplaced:
            found_by = (family.of_input(row) for family in (cap, meta_identity, meta_copies))
            item = next((one for one in found_by if one is not None), None)
            if item is not None and not _is_told_by_partitions(row):
                found.append((row["path"], item))
        return [to_dict(finding_row(item, None, name, cluster_id)) for name, item in found]


def _is_told_by_partitions(row: Mapping) -> bool:
    """An offset checkpoint of a log dir: each partition in it says that nothing is known of its own entry."""
    return row["broker_id"] is not None and row["path"].rpartition("/")[2] in OFFSET_CHECKPOINTS
