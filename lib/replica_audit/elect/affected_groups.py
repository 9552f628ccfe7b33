"""Consumer groups that a choice of leader affects: they have read records that its log does not have (KIP-320)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from replica_audit.elect.cluster_state import present_state
from replica_audit.elect.cost_matrix import Matrix
from replica_audit.model import Place
from replica_audit.protocol.lineage import Lineage
from replica_audit.protocol.versions import parse_kafka_version
from replica_audit.results import Results, by_place


class CommittedOffset(NamedTuple):
    """An offset that a group committed: the next one it will read, and the leader epoch of the last record it read."""

    group: str
    topic: str
    partition: int
    committed_offset: int
    leader_epoch: int | None


def committed_offsets(results: Results) -> list[CommittedOffset] | None:
    """Offsets that groups have committed, by the audit; None if it knows none. Those of an earlier topic do not count."""
    names = CommittedOffset._fields
    return [
        CommittedOffset(*(getattr(row, name) for name in names))
        for row in results.group_offsets
        if row.effect is not None
    ] or (None if not results.group_offsets else [])


def hit_groups(results: Results) -> dict[Place, dict[int, frozenset[str]]]:
    """The groups that each candidate affects, of each partition with rows of `elections` and `group_offsets`."""
    matrix = Matrix(results)
    of_place = by_place(committed_offsets(results) or ())
    state = present_state(results, parse_kafka_version((results.audit.get("options") or {}).get("kafka_version")))
    found: dict[Place, dict[int, frozenset[str]]] = defaultdict(dict)
    for place in of_place.keys() & matrix.rows.keys():
        registration = state.partitions.get(place)
        leader = None if registration is None else registration.leader_id
        for candidate in sorted(matrix.rows[place]):
            if candidate in matrix.rows[place][candidate]:
                hit = groups_hit(matrix, place, candidate, leader, of_place[place])
                if hit is not None:
                    found[place][candidate] = hit
    return found


def groups_hit(
    matrix: Matrix, place: Place, candidate_id: int, leader: int | None, groups: Iterable[CommittedOffset]
) -> frozenset[str] | None:
    """The groups of a partition that a candidate affects, given that they read from `leader` so far; None without its log."""
    row = matrix.rows[place][candidate_id][candidate_id]
    replica = matrix.replicas[place].get(candidate_id)
    if replica is None:
        return None
    read = matrix.kept_to(place, candidate_id, candidate_id if leader is None else leader)
    lineage = Lineage(tuple((epoch, start) for epoch, start in replica.epochs))
    return find_hit(groups, lineage, row.kept_to, row.kept_to if read is None else read)


def find_hit(offsets: Iterable[CommittedOffset], lineage: Lineage, end_offset: int, shared_end: int) -> frozenset[str]:
    """Groups of one partition that have read past what a log has of what they read.

    `lineage` and `end_offset` are the candidate's; `shared_end` is where it diverges from the log that was read. The latter
    limits offsets without an epoch, or of an epoch that the candidate's log does not have. For an unknown epoch the end of
    the epoch before is a limit too, since the records may have been read from a third log.
    """
    hit = set()
    for one in offsets:
        known = one.leader_epoch is not None and one.leader_epoch >= 0 and lineage
        answer = lineage.end_offset_for(one.leader_epoch, end_offset) if known else None
        of_log = answer is not None and answer[0] == one.leader_epoch
        ends = [end_offset] if of_log else [end_offset, shared_end]
        end = min(ends if answer is None else [*ends, answer[1]])
        if one.committed_offset > end:
            hit.add(one.group)
    return frozenset(hit)
