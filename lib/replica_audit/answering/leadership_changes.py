"""How leadership of a partition changed over time, by the history of its metadata log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from replica_audit.answering.by_partition import Row


@dataclass(frozen=True, slots=True)
class LeadershipChange:
    """One change of leader or of the replicas in sync.

    `kind`: `nobody_led`, `became_leader`, `became_uncleanly` (it was neither in sync nor eligible) or `isr_changed`.
    """

    kind: str
    earlier: Row
    later: Row
    """Rows of partition_states before and after it."""
    entitled: tuple[int, ...] = ()
    """Who could have led, where the leader was elected uncleanly."""
    left: tuple[int, ...] = ()
    joined: tuple[int, ...] = ()


def find_changes(states: Sequence[Row]) -> list[LeadershipChange]:
    """Changes oldest first, from rows of partition_states; those without a time (a listing's) are left out."""
    timed = [row for row in states if row.get("time_ms") is not None and row.get("source") == "metadata_log"]
    timed.sort(key=lambda row: (row.get("entry") or 0, row["time_ms"]))
    return [change for earlier, later in zip(timed, timed[1:], strict=False) if (change := _change(earlier, later))]


def _change(earlier: Row, later: Row) -> LeadershipChange | None:
    if later["leader_id"] != earlier["leader_id"]:
        if later["leader_id"] is None or later["leader_id"] < 0:
            return LeadershipChange("nobody_led", earlier, later)
        entitled = {*(earlier["isr"] or ()), *(earlier["elr"] or ())}
        if later["leader_id"] in entitled or earlier["isr"] is None:
            return LeadershipChange("became_leader", earlier, later)
        return LeadershipChange("became_uncleanly", earlier, later, entitled=tuple(sorted(entitled)))
    before, now = set(earlier["isr"] or ()), set(later["isr"] or ())
    if before == now:
        return None
    left, joined = tuple(sorted(before - now)), tuple(sorted(now - before))
    return LeadershipChange("isr_changed", earlier, later, left=left, joined=joined)
