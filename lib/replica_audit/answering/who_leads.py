"""Who leads a partition, or why nobody does, and with which replica the others are compared."""

from __future__ import annotations

from dataclasses import dataclass

from replica_audit.answering.by_partition import Row, Rows, served_rows
from replica_audit.deciding.present_state import states_of_source


@dataclass(frozen=True, slots=True)
class Leading:
    """Who leads.

    `kind`: `leads`, `taken` (for the leader: nothing says who leads), `nobody`, `deleted` (nobody leads, since the
    topic was deleted), `all_stopped` (nobody leads, since all brokers were stopped cleanly) or `nothing_compared` (no replica could be read).
    """

    kind: str
    source: str | None = None
    """What says so: `leadership_source`."""
    eligible: tuple[int, ...] = ()
    """Who may lead without being in sync (KIP-966), where nobody leads."""
    instead: str | None = None
    """Why the reference is not the leader: it has records of a `later_epoch`, the leader's files are missing
    (`no_files`), or, where nobody leads, it `led_last` or has the `newest` log; None where it leads or is alone."""


def find_leading(partition: Row, rows: Rows) -> Leading:
    """Who leads the partition of a row of `partitions`."""
    leader, reference = partition["leader_id"], partition["reference_id"]
    source = next((row["leadership_source"] for row in rows["high_watermarks"]), None)
    if reference is None:
        return Leading("nothing_compared")
    if leader is None:
        states = states_of_source(rows.get("partition_states", ()))
        if states and states[-1]["occasion"] == "deleted":
            return Leading("deleted", source)
        stopped = any(row["code"] == "META-NO-LEADER" and row["severity"] == "info" for row in rows["findings"])
        led = [row["leader_id"] for row in states if row["leader_id"] is not None]
        other = "led_last" if led and led[-1] == reference else "newest"
        eligible = tuple(states[-1]["elr"] or ()) if states else ()
        alone = len(served_rows(rows["replicas"])) < 2
        return Leading("all_stopped" if stopped else "nobody", source, eligible, None if alone else other)
    if source == "inferred":
        return Leading("taken", source)
    has_files = any(row["broker_id"] == leader for row in served_rows(rows["replicas"]))
    instead = None if reference == leader else "later_epoch" if has_files else "no_files"
    return Leading("leads", source, instead=instead)
