"""Findings of whole log dirs, and of input that belongs to no partition."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from replica_audit.auditing.finding import finding_row
from replica_audit.auditing.findings import cap, chk, meta_copies, meta_identity
from replica_audit.model import ReplicaDir, SegmentSummary
from replica_audit.schema import FindingRow, QuarantineRow
from replica_audit.snapshot.log_dir_names import OFFSET_CHECKPOINTS


class LogDirTally:
    """State of the log dirs, gathered partition by partition."""

    def __init__(self) -> None:
        self._filled: set[tuple[int, str]] = set()
        self._without: set[chk.UnusedCheckpoint] = set()

    def add(self, copies: Iterable[tuple[ReplicaDir, Sequence[SegmentSummary]]]) -> None:
        """Take the directories of one partition, each with its segments."""
        for directory, segments in copies:
            if any(one.batch_count for one in segments):
                self._filled.add((directory.broker_id, directory.log_dir))
            file = directory.high_watermark_file
            if file.state in ("missing", "empty"):
                self._without.add(chk.UnusedCheckpoint(directory.broker_id, directory.log_dir, file.path, file.state))

    def merge(self, other: LogDirTally) -> None:
        """Add the state that other partitions showed."""
        self._filled |= other._filled
        self._without |= other._without

    def findings(self, unplaced: Iterable[QuarantineRow], cluster_id: str | None) -> Iterator[FindingRow]:
        """Rows of `findings` without topic and partition: of log dirs without a replication-offset-checkpoint though a
        log in them has batches, and of `unplaced`, quarantine rows without a partition.
        """
        found = [
            (one.log_dir, chk.missing_in_log_dir(one))
            for one in sorted(self._without)
            if (one.broker_id, one.log_dir) in self._filled
        ]
        for row in unplaced:
            found_by = (family.of_input(row) for family in (cap, meta_identity, meta_copies))
            item = next((one for one in found_by if one is not None), None)
            if item is not None and not _is_told_by_partitions(row):
                found.append((row.path, item))
        return (finding_row(item, None, name, cluster_id) for name, item in found)


def _is_told_by_partitions(row: QuarantineRow) -> bool:
    """An offset checkpoint of a log dir: each partition in it says that nothing is known of its own entry."""
    return row.broker_id is not None and row.path.rpartition("/")[2] in OFFSET_CHECKPOINTS
