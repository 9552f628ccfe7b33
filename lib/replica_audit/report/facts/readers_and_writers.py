"""Whom a divergence reaches outside the log: consumer groups that it hits, and producers of the lost records.

Names of groups and ids of producers are metadata; nothing here comes out of a record.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from replica_audit.report.facts.by_partition import Row
from replica_audit.results import Results

#: Place of a partition, and by candidate the groups that its election hits.
Hits = Mapping[tuple[str, int], Mapping[int, Collection[str]]]

#: Effects that are shown, worst first.
_EFFECTS = ("past_end", "epoch_differs", "read_lost")


def find_hits(results: Results) -> Hits:
    """The groups that each choice of leader hits, as the plan counts them; empty where no offsets are known."""
    if not results.rows("group_offsets") or not results.rows("elections"):
        return {}
    # Imported here, so that what plans nothing loads nothing for it.
    from replica_audit.elect.affected_groups import hit_groups

    return hit_groups(results)


def hit_rows(rows: Sequence[Row], hits: Mapping[int, Collection[str]]) -> list[dict[str, Any]]:
    """Of one partition's rows of `group_offsets` those of groups that are hit now or by a choice of leader, worst first.

    `hit_by` has the candidates whose election hits the group.
    """
    told = [{**row, "hit_by": sorted(one for one, groups in hits.items() if row["group"] in groups)} for row in rows]
    affected = [row for row in told if row["effect"] in _EFFECTS or row["hit_by"]]
    rank = {effect: number for number, effect in enumerate(_EFFECTS)}
    return sorted(affected, key=lambda row: (rank.get(row["effect"], len(rank)), row["group"]))


def writer_rows(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """One partition's rows of `lost_producers`, most records first; brokers that hold the same of a producer are one row."""
    same: dict[tuple, list[Row]] = defaultdict(list)
    for row in rows:
        same[tuple((name, value) for name, value in row.items() if name != "broker_id")].append(row)
    merged = [{**dict(key), "brokers": sorted(row["broker_id"] for row in some)} for key, some in same.items()]
    return sorted(merged, key=lambda row: (-row["record_count"], row["start_offset"], row["brokers"]))
