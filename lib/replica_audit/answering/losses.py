"""What is lost and who still has it, summed over partitions, by the numbers of the tables (docs/semantics.md F.0)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from replica_audit.answering.by_partition import Row
from replica_audit.answering.ranges import join_ranges
from replica_audit.model import Place
from replica_audit.results import Results


@dataclass(frozen=True, slots=True)
class Total:
    """Lost records of several partitions, each counted once."""

    records: int
    committed: int
    at_most: bool
    """Upper bounds: of some input only offsets tell how many records there are."""
    at_least: bool
    """Lower bounds: a replica that may hold more was not captured."""
    places: tuple[Place, ...]
    """Partitions that lost records."""
    committed_places: tuple[Place, ...]
    """Those of them that lost committed ones."""
    unknown: int
    """Partitions of which it is not known whether they lost any."""


@dataclass(frozen=True, slots=True)
class Held:
    """Lost records of one partition that one broker holds."""

    place: Place
    log_dir: str | None
    """Of its files in the snapshot; None where only a text or table tells of them."""
    records: int
    committed: int
    is_all: bool
    """No other broker holds any that this one does not."""
    is_cut: bool
    """The protocol of the audit removes some of them when the broker follows; what it keeps is never repaired."""


def total_loss(partitions: Sequence[Row]) -> Total:
    """The sums over rows of `partitions`."""
    lost = [row for row in partitions if row["lost_records"]]
    committed = [row for row in lost if row["lost_committed"]]
    return Total(
        records=sum(row["lost_records"] for row in lost),
        committed=sum(row["lost_committed"] for row in committed),
        at_most=any(row["lost_at_most"] for row in lost),
        at_least=any(row["lost_at_least"] for row in lost),
        places=tuple((row["topic"], row["partition"]) for row in lost),
        committed_places=tuple((row["topic"], row["partition"]) for row in committed),
        unknown=sum(row["lost_records"] is None for row in partitions),
    )


def find_holders(results: Results, protocol: str) -> Mapping[int, tuple[Held, ...]]:
    """By broker id, most committed records first, the lost records that it holds."""
    partitions = {(row["topic"], row["partition"]): row for row in results.rows("partitions")}
    cut = {
        (row["topic"], row["partition"], row["broker_id"]): row["truncate_to"]
        for row in results.rows("truncations")
        if row["protocol"] == protocol
    }
    removed = {
        (row["topic"], row["partition"], row["broker_id"])
        for row in results.rows("divergences")
        if row["lost_records"]
        and (end := cut.get((row["topic"], row["partition"], row["broker_id"]))) is not None
        and row["end_offset"] > end
    }
    ahead = {
        (row["topic"], row["partition"], row["broker_id"])
        for row in results.rows("findings")
        if row["code"] == "REP-LEADER-SHORTER"
    }
    holders: dict[int, list[Held]] = defaultdict(list)
    for row in results.rows("replicas"):
        place = (row["topic"], row["partition"])
        key = (*place, row["broker_id"])
        if not row["lost_held"] or place not in partitions:
            continue
        holders[row["broker_id"]].append(
            Held(
                place=place,
                log_dir=None if row["clean_shutdown"] is None else row["log_dir"],
                records=row["lost_held"],
                committed=row["lost_committed_held"] or 0,
                is_all=row["lost_held"] == partitions[place]["lost_records"],
                is_cut=key in removed or key in ahead,
            )
        )

    def most(item: tuple[int, list[Held]]) -> tuple[int, int, int]:
        broker_id, held = item
        return -sum(one.committed for one in held), -sum(one.records for one in held), broker_id

    return {broker_id: tuple(held) for broker_id, held in sorted(holders.items(), key=most)}


def count_held(results: Results) -> list[list[int]]:
    """Of each broker that holds lost records [its id, partitions, records, committed ones, those that no other broker
    holds, committed ones of these]; several brokers may hold the same, so that these are never added up.
    """
    counts: dict[int, list[int]] = {}
    names = ("lost_held", "lost_committed_held", "lost_only_here", "lost_committed_only_here")
    for row in results.rows("replicas"):
        if row["lost_held"]:
            held = counts.setdefault(row["broker_id"], [0] * (1 + len(names)))
            held[0] += 1
            for place, name in enumerate(names, 1):
                held[place] += row[name] or 0
    return [[broker_id, *counts[broker_id]] for broker_id in sorted(counts)]


@dataclass(frozen=True, slots=True)
class PlaceLoss:
    """What one partition's reference does not have, in the words of its runs."""

    records: int
    committed: bool
    """The records are those proven committed; else nothing proves it of any."""
    ranges: tuple[tuple[int, int], ...]
    """Where they are: [start, end)…, joined where they touch."""
    brokers: tuple[int, ...]
    """Who holds them: every one whole, or, `in_parts`, each a part."""
    in_parts: bool
    promised: int | None
    """So many at most acks=all promised to producers; None where nobody knows."""


def loss_at(row: Row, runs: Sequence[Row], replicas: Sequence[Row]) -> PlaceLoss | None:
    """The loss of a row of `partitions`, with its rows of divergences and replicas that count as lost.

    None where only a tail past the leader's end tells of it.
    """
    committed = bool(row["lost_committed"])
    column, held_column = ("lost_committed", "lost_committed_held") if committed else ("lost_records", "lost_held")
    runs = [run for run in runs if run[column]]
    if not runs:
        return None
    count = row[column]
    held = {replica["broker_id"]: replica[held_column] for replica in replicas}
    whole = sorted(broker for broker, number in held.items() if number == count)
    promised = [run["promised_records"] for run in runs]
    return PlaceLoss(
        records=count,
        committed=committed,
        ranges=tuple(join_ranges(runs)),
        brokers=tuple(whole or sorted(broker for broker, number in held.items() if number)),
        in_parts=not whole,
        promised=None if None in promised else min(count, sum(promised)),
    )
