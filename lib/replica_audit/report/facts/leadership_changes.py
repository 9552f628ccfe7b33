"""Changes of a partition's leader and ISR, from the metadata log."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Literal, NamedTuple

from replica_audit.model import PartitionState
from replica_audit.protocol.election import elections
from replica_audit.schema import PartitionStateRow
from replica_audit.snapshot.leadership_rows import leadership_of_rows

#: A leader that `became_uncleanly` was neither in sync nor eligible; `isr_changed` is a change of the ISR under one leader.
ChangeKind = Literal["nobody_led", "became_leader", "became_uncleanly", "isr_changed"]


class LeadershipChange(NamedTuple):
    """One change of leader or ISR."""

    kind: ChangeKind
    earlier: PartitionState
    later: PartitionState

    @property
    def entitled(self) -> tuple[int, ...]:
        """Brokers that could have been elected cleanly."""
        return tuple(sorted({*self.earlier.isr, *self.earlier.elr}))

    @property
    def left(self) -> tuple[int, ...]:
        """Brokers that left the ISR."""
        return tuple(sorted({*self.earlier.isr} - {*self.later.isr}))

    @property
    def joined(self) -> tuple[int, ...]:
        """Brokers that joined the ISR."""
        return tuple(sorted({*self.later.isr} - {*self.earlier.isr}))


def find_changes(rows: Iterable[PartitionStateRow]) -> list[LeadershipChange]:
    """Find changes in rows of partition_states, oldest first; rows without a time (from a listing) and uncommitted ones are left out."""
    leadership = leadership_of_rows(row for row in rows if row.source == "metadata_log" and not row.uncommitted)
    if leadership is None:
        return []
    unclean = {one.leader_epoch for one in elections(leadership.history) if not one.clean}
    found = []
    for earlier, later in pairwise(leadership.committed):
        if later.leader_id != earlier.leader_id:
            became: ChangeKind = "became_uncleanly" if later.leader_epoch in unclean else "became_leader"
            found.append(LeadershipChange("nobody_led" if later.leader_id is None else became, earlier, later))
        elif set(later.isr) != set(earlier.isr):
            found.append(LeadershipChange("isr_changed", earlier, later))
    return found
