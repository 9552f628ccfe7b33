"""What stopping a broker would cost."""

from __future__ import annotations

from dataclasses import dataclass

from replica_audit.answering.by_partition import Row
from replica_audit.deciding.present_state import newest_states
from replica_audit.results import Results


@dataclass(frozen=True, slots=True)
class Cost:
    """Partitions, as (topic, partition), that suffer when a broker stops."""

    leaderless: tuple[tuple[str, int], ...]
    """It alone is in sync: nobody could lead."""
    refused: tuple[tuple[str, int], ...]
    """Fewer than min.insync.replicas would be left: acks=all is refused."""
    unknown: bool
    """Some of its partitions do not tell who is in sync."""


def stop_cost(results: Results, broker_id: int) -> Cost:
    """What becomes unavailable when the broker is stopped, by the newest state of every partition in `results`."""
    least = {place: _min_isr(row) for place, row in newest_states(results).items()}
    held = {(row["topic"], row["partition"]) for row in results.rows("replicas") if row["broker_id"] == broker_id}
    leaderless, refused, unknown = [], [], False
    for row in results.rows("partitions"):
        place = (row["topic"], row["partition"])
        if row["isr"] is None:
            unknown = unknown or place in held
        elif broker_id in row["isr"]:
            left = len(row["isr"]) - 1
            if not left:
                leaderless.append(place)
            elif left < least.get(place, 1):
                refused.append(place)
    return Cost(tuple(leaderless), tuple(refused), unknown)


def _min_isr(state: Row) -> int:
    """The partition's min.insync.replicas, 1 where its state does not show it."""
    value = (state["configs"] or {}).get("min.insync.replicas", "")
    return int(value) if value.isdigit() else 1
