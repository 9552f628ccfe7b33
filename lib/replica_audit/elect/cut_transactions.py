"""Transactions that an election leaves without their end: open on the candidate, or aborted there, and decided in records that are cut.

A marker ends the transaction of its producer in one partition (`TransactionStateManager`, KIP-98); headers do not tell COMMIT
from ABORT, so the two markers of a transaction that ends on both sides of a fork are read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from replica_audit.auditing.case import Case
from replica_audit.auditing.compare.ended_apart import ended_in_both, open_below
from replica_audit.auditing.compare.record_comparison import RecordSource, record_requests
from replica_audit.auditing.findings.txn import is_ended, is_unfinished, is_written_again
from replica_audit.auditing.replicas.replica_facts import CopyKey, ReplicaFacts
from replica_audit.batch_header import Batch
from replica_audit.elect.held_records import ReplicaRecords, TransactionPart
from replica_audit.model import OpenTransaction
from replica_audit.segments.open_transactions import open_at_end
from replica_audit.segments.records import ABORT, COMMIT


class MarkerReader:
    """Outcomes in markers, each read once. A log known from text or a table has no readable ones."""

    def __init__(self, read: RecordSource | None) -> None:
        self._read = read
        self._known: dict[tuple[CopyKey, Batch], int | None] = {}

    def outcome(self, facts: ReplicaFacts, marker: Batch) -> int | None:
        """`COMMIT` or `ABORT`; None if it cannot be read."""
        key = facts.key, marker
        if key not in self._known:
            assert self._read is not None
            rows = self._read(record_requests(facts, (marker,))).rows
            self._known[key] = int(rows["marker"][0]) if len(rows) else None
        return self._known[key]

    def can_read(self, *logs: ReplicaFacts) -> bool:
        return self._read is not None and not any(facts.second_hand for facts in logs)


@dataclass(frozen=True, slots=True)
class CandidateTransactions:
    """The transactions of a candidate, whose log ends at `end` once its own start has cut it."""

    case: Case
    candidate: ReplicaFacts
    own: ReplicaRecords
    end: int
    left_open: Mapping[int, OpenTransaction]
    markers: MarkerReader

    @classmethod
    def of(
        cls, case: Case, candidate: ReplicaFacts, own: ReplicaRecords, end: int, markers: MarkerReader
    ) -> CandidateTransactions:
        is_whole = end >= candidate.log_end_offset
        left_open = open_at_end(candidate.segments) if is_whole else open_below(candidate, own.batches, end)
        return cls(case, candidate, own, end, left_open, markers)

    def cut_in(self, holding: ReplicaRecords, cut: int, may_be_newer: bool) -> Iterator[int]:
        """Producers whose transaction continues or ends in what `holding` loses, cut at `cut`.

        `may_be_newer`: the candidate leads and was copied earlier, so it may have the records past its end.
        """
        for transaction in self.left_open.values():
            part = holding.cut_part(transaction, cut)
            # A marker alone may belong to another transaction: the coordinator knows.
            if part is None or not (part.was_open or is_ended(self.case, transaction)):
                continue
            if _may_be_lost(part, may_be_newer) and not self._is_due(transaction, part.marker):
                yield transaction.producer_id
        for transaction in self._aborted(holding, cut):
            part = holding.cut_part(transaction, cut)
            if part is not None and _may_be_lost(part, may_be_newer):
                yield transaction.producer_id

    def _is_due(self, transaction: OpenTransaction, marker: Batch | None) -> bool:
        """True if the coordinator has yet to write the end of a transaction, of which the other log loses `marker` or data alone."""
        return is_unfinished(self.case, transaction) if marker is None else is_written_again(self.case, marker)

    def _aborted(self, holding: ReplicaRecords, cut: int) -> Iterator[OpenTransaction]:
        """Transactions open at `cut`, where both logs are alike, that the candidate's log aborts and `holding` commits.

        A marker that cannot be read may differ.
        """
        ours = self.own.batches
        theirs = holding.batches
        has_markers = ours.has_markers and theirs.has_markers
        if not (has_markers and self.markers.can_read(self.candidate, holding.facts)):
            return
        ours, theirs = ours.where((ours.starts >= cut) & (ours.ends <= self.end)), theirs.where(theirs.ends > cut)
        for transaction, mine, other in ended_in_both(self.candidate, self.own.batches, cut, ours, theirs):
            is_kept = self.markers.outcome(self.candidate, mine) == COMMIT
            if not (is_kept or self.markers.outcome(holding.facts, other) == ABORT):
                yield transaction


def _may_be_lost(part: TransactionPart, may_be_newer: bool) -> bool:
    return part.is_possible and not (part.is_ahead and may_be_newer)
