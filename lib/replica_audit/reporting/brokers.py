"""What is known of the brokers themselves: which were up when they were copied, and what stopping one would cost."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from replica_audit.reporting.similar_findings import Row, newest_states
from replica_audit.results import Results

#: Sources of leadership that say who is up now: a listing comes from a controller, `user` and `inferred` from nowhere.
_LISTINGS = ("topics_describe", "zookeeper")


def find_up(results: Results) -> Mapping[int, bool]:
    """Whether each broker was up when it was copied; a broker of which nothing tells is left out.

    In order of trust: what the manifest says of its copy; the clean-shutdown flag, which a broker deletes as it starts;
    the newest metadata log, which knows who is fenced; a listing, where who leads or is in sync is up.
    """
    up: dict[int, bool] = {}
    for row in results.rows("high_watermarks"):
        if row["leadership_source"] in _LISTINGS and row["leader_id"] is not None:
            up.update(dict.fromkeys((row["leader_id"], *(row["isr"] or ())), True))
    for row in results.rows("partition_states"):
        if row["fenced"] is not None:
            up.update({broker_id: broker_id not in row["fenced"] for broker_id in row["replicas"] or ()})
    for row in results.rows("replicas"):
        if row["clean_shutdown"]:
            up[row["broker_id"]] = False
    kinds: dict[int, set[str]] = defaultdict(set)
    for item in (results.audit.get("inputs") or {}).get("brokers") or ():
        kinds[item["broker_id"]].add(item["kind"])
    for broker_id, said in kinds.items():
        # A broker that was copied both before and after it stopped is told by what is in the copies.
        if len({kind == "live" for kind in said}) == 1:
            up[broker_id] = said == {"live"}
    return up


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
