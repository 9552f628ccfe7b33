"""Families of findings: modules with the codes and their rules, and their prose in Markdown (docs/semantics.md F.2 to F.7)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from replica_audit.auditing.finding import finding_row
from replica_audit.auditing.findings import (
    cap,
    cap_partial,
    cap_skew,
    chk,
    div,
    epo,
    grp,
    hwm,
    hwm_gone,
    hwm_marks,
    hwm_timeline,
    log,
    meta,
    rep,
    tier,
    tier_store,
    trn,
    txn,
)
from replica_audit.schema import FindingRow, QuarantineRow
from replica_audit.snapshot.log_dir_names import OFFSET_CHECKPOINTS

if TYPE_CHECKING:
    from replica_audit.auditing.case import Case
    from replica_audit.auditing.finding import Finding
    from replica_audit.model import ReplicaDir, SegmentSummary

#: In the order of the catalogue; the name of a module begins with the prefix of its codes.
MODULES = (
    log,
    epo,
    div,
    hwm,
    hwm_gone,
    hwm_marks,
    hwm_timeline,
    rep,
    txn,
    tier,
    tier_store,
    chk,
    trn,
    grp,
    meta,
    cap,
    cap_skew,
    cap_partial,
)


def judge(case: Case) -> Iterator[Finding]:
    """Yield all findings of one partition, family by family."""
    for module in MODULES:
        yield from module.judge(case)


class LogDirTally:
    """Collector of the log dirs' state, partition by partition."""

    def __init__(self) -> None:
        self._filled: set[tuple[int, str]] = set()
        self._without: set[chk.UnusedCheckpoint] = set()

    def add(self, copies: Iterable[tuple[ReplicaDir, Sequence[SegmentSummary]]]) -> None:
        """Add the directories of one partition, each with its segments."""
        for directory, segments in copies:
            if any(one.batch_count for one in segments):
                self._filled.add((directory.broker_id, directory.log_dir))
            file = directory.high_watermark_file
            if file.state in ("missing", "empty"):
                self._without.add(chk.UnusedCheckpoint(directory.broker_id, directory.log_dir, file.path, file.state))

    def merge(self, other: LogDirTally) -> None:
        """Add the state collected from other partitions."""
        self._filled |= other._filled
        self._without |= other._without

    def findings(self, unplaced: Iterable[QuarantineRow], cluster_id: str | None) -> Iterator[FindingRow]:
        """Rows of `findings` without topic and partition: for log dirs without a replication-offset-checkpoint although a log
        in them has batches, and for `unplaced`, quarantine rows without a partition."""
        found = [
            (one.log_dir, chk.missing_in_log_dir(one))
            for one in sorted(self._without)
            if (one.broker_id, one.log_dir) in self._filled
        ]
        for row in unplaced:
            item = cap.of_input(row) or cap_skew.of_input(row) or meta.of_input(row)
            if item is not None and not _is_told_by_partitions(row):
                found.append((row.path, item))
        return (finding_row(item, None, name, cluster_id) for name, item in found)


def _is_told_by_partitions(row: QuarantineRow) -> bool:
    """True for an offset checkpoint of a log dir: each partition in it reports its own missing entry."""
    return row.broker_id is not None and row.path.rpartition("/")[2] in OFFSET_CHECKPOINTS
