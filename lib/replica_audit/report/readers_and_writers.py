"""Clients affected by a divergence: consumer groups, and producers of the lost records.

Group names and producer ids are metadata; no content of a record is shown.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from replica_audit.model import TopicPartition
from replica_audit.report.facts.lost_writers import LostWriter
from replica_audit.report.layout import render_range
from replica_audit.results import Results
from replica_audit.schema import GroupOffsetRow
from replica_audit.text import count, name_brokers, render_time

#: Groups, (name, kind), affected by the election of each candidate, by partition.
Hits = Mapping[TopicPartition, Mapping[int, Collection[tuple[str, str]]]]

#: Effects shown, worst first.
_EFFECTS = ("past_end", "epoch_differs", "read_lost")


def find_hits(results: Results) -> Hits:
    """Groups that each choice of leader affects, as counted by the plan; computed once, empty if no offsets are known."""
    if not results.group_offsets:
        return {}
    # Imported here, so that callers without a plan do not load the planner.
    from replica_audit.elect.hit_groups import hit_groups

    return results.once("hits", dict, lambda: hit_groups(results))


class HitGroup(NamedTuple):
    """A group that is affected now or would be by a choice of leader."""

    offset: GroupOffsetRow
    hit_by: Sequence[int]
    """Candidates whose election affects it."""


def hit_groups_of(rows: Sequence[GroupOffsetRow], hits: Mapping[int, Collection[tuple[str, str]]]) -> list[HitGroup]:
    """Groups of one partition that are affected now or by a choice of leader, worst first."""
    told = [
        HitGroup(row, sorted(one for one, groups in hits.items() if (row.group, row.kind) in groups)) for row in rows
    ]
    affected = [one for one in told if one.offset.effect in _EFFECTS or one.hit_by]
    rank = {effect: number for number, effect in enumerate(_EFFECTS)}
    return sorted(affected, key=lambda one: (rank.get(one.offset.effect or "", len(rank)), one.offset.group))


def tell_group(group: HitGroup, reference_id: int | None) -> str:
    """Clauses on a group's position in the reference's log, and the candidates whose election affects it."""
    row = group.offset
    log = f"the log of broker {reference_id}"
    where = {
        "past_end": f"past the end of {log}",
        "epoch_differs": f"past the divergence, inside {log}",
        "read_lost": f"valid on {log}, above lost records",
        "unaffected": f"unaffected on {log}",
    }
    came = "reached" if row.kind == "share" else "committed"
    clauses = [f"{came} {row.committed_offset}", where.get(row.effect or "", "of an earlier topic of this name")]
    if row.parted_at is not None:
        clauses.append(f"parted at {row.parted_at}")
    if group.hit_by:
        clauses.append(f"hit if {name_brokers(group.hit_by, 'or')} leads")
    return ", ".join(clauses)


def tell_writer(writer: LostWriter) -> str:
    """Clauses on a producer of lost records, without its transactional id."""
    row = writer.records
    clauses = ["no producer id" if row.producer_id is None else f"producer {row.producer_id}"]
    if row.transaction_state is not None:
        clauses.append(f"transaction {row.transaction_state}")
    clauses.append(f"{count(row.record_count, 'record')} in {render_range(row.start_offset, row.end_offset)}")
    if row.first_timestamp_ms is not None:
        first = render_time(row.first_timestamp_ms)
        last = render_time(row.last_timestamp_ms)
        clauses.append(f"timestamp {first}" if first == last else f"timestamps {first} to {last}")
    clauses.append(f"held by {name_brokers(writer.brokers)}")
    return ", ".join(clauses)
