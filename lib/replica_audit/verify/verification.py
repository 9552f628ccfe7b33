"""The result of comparing two snapshots, and its exit status."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypedDict

from replica_audit.model import Place
from replica_audit.schema import GoneRecordsRow, NotVerifiedRow, SurpriseRow, VerificationRow


class VerifiedInputs(TypedDict):
    """The two snapshots that were compared, as the JSON answer has them."""

    before: str
    after: str
    cluster_id: str | None
    protocol: str
    partitions: int
    """In both."""


@dataclass(frozen=True, slots=True)
class Verification:
    """Rows of the tables of `verify`."""

    inputs: VerifiedInputs
    verifications: Sequence[VerificationRow]
    gone_records: Sequence[GoneRecordsRow]
    not_verified: Sequence[NotVerifiedRow] = ()
    leaders: Mapping[Place, tuple[int | None, int | None]] = field(default_factory=dict)
    """(leader id, leader epoch) of each partition, by the later snapshot."""
    surprises: Sequence[SurpriseRow] = ()
    """Differences from a plan's predictions."""
    planned: bool = False
    """A plan was given (`predictions.with_plan`)."""

    @property
    def failed(self) -> Sequence[VerificationRow]:
        """Replicas that did not keep exactly what they should have, or lost committed records that no plan predicted."""
        return [row for row in self.verifications if row.verdict != "correct" and not self._was_asked_for(row)]

    @property
    def lost(self) -> Sequence[GoneRecordsRow]:
        """Ranges that no replica holds any more and that were, or may have been, committed, except those that a plan
        predicted."""
        cut = {(row.topic, row.partition, row.broker_id) for row in self.verifications if self._was_asked_for(row)}
        return [
            row
            for row in self.gone_records
            if row.committed != "no" and not all((row.topic, row.partition, one) in cut for one in row.broker_ids)
        ]

    @property
    def lost_records(self) -> int:
        """Number of lost records."""
        return sum(row.record_count for row in self.lost)

    @property
    def lost_proven(self) -> int:
        """Lost records that were proven committed."""
        return sum(row.record_count for row in self.lost if row.committed == "proven")

    @property
    def open(self) -> Sequence[NotVerifiedRow]:
        """Partitions that could not be judged, though both snapshots should have them."""
        return [row for row in self.not_verified if not row.expected]

    @property
    def exit_status(self) -> int:
        """0 when every replica kept exactly what it should; 1 when one did not; 3 when something could not be judged."""
        if self.failed or self.lost or self.surprises:
            return 1
        return 3 if self.open else 0

    def _was_asked_for(self, row: VerificationRow) -> bool:
        """True if the plan predicted the cut by which a replica lost records."""
        predicted = row.predicted
        return row.verdict == "lost_committed" and predicted is not None and row.kept_to == predicted

    @property
    def status(self) -> str:
        """The word of the status line."""
        return {0: "OK", 1: "CRITICAL", 3: "UNKNOWN"}[self.exit_status]
