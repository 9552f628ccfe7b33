"""What a comparison of two snapshots says, and the exit status that it comes to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Verification:
    """Rows of the tables in `tables.VERIFICATION_TABLES`."""

    inputs: Row
    """Names of the two snapshots, cluster_id, protocol, and how many partitions both have."""
    verifications: Sequence[Row]
    gone_records: Sequence[Row]
    not_verified: Sequence[Row] = ()

    @property
    def failed(self) -> Sequence[Row]:
        """Replicas that did not keep exactly what they should have, or that it cost committed records."""
        return [row for row in self.verifications if row["verdict"] != "correct"]

    @property
    def lost(self) -> Sequence[Row]:
        """Ranges that no replica holds any more and that were, or may have been, committed."""
        return [row for row in self.gone_records if row["committed"] != "no"]

    @property
    def open(self) -> Sequence[Row]:
        """Partitions that could not be judged, though both snapshots should have them."""
        return [row for row in self.not_verified if not row["expected"]]

    @property
    def exit_status(self) -> int:
        """0 when every replica kept exactly what it should; 1 when one did not; 3 when something could not be judged."""
        return 1 if self.failed or self.lost else 3 if self.open else 0

    @property
    def status(self) -> str:
        """The word of the status line."""
        return {0: "OK", 1: "CRITICAL", 3: "UNKNOWN"}[self.exit_status]
