"""Consumer groups that a choice of leader affects: they have read records that it lacks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from replica_audit.elect.cluster_state import present_state
from replica_audit.elect.cost_matrix import Matrix
from replica_audit.literals import GroupKind
from replica_audit.model import RESTORE_GROUP, TopicPartition
from replica_audit.protocol.lineage import Lineage
from replica_audit.results import Results, by_place
from replica_audit.schema import GroupOffsetRow


def committed_offsets(results: Results) -> list[GroupOffsetRow] | None:
    """Offsets committed by groups, except to an earlier topic of the same name and by `restore`, whose offsets count records; None
    without any group's offsets."""
    if not results.group_offsets:
        return None
    return [row for row in results.group_offsets if row.effect is not None and not row.group.startswith(RESTORE_GROUP)]


def hit_groups(results: Results) -> dict[TopicPartition, dict[int, dict[tuple[str, GroupKind], int]]]:
    """`groups_hit` by partition and candidate, for partitions with rows of `elections` and `group_offsets`."""
    matrix = Matrix(results)
    of_place = by_place(committed_offsets(results) or ())
    state = present_state(results)
    found: dict[TopicPartition, dict[int, dict[tuple[str, GroupKind], int]]] = defaultdict(dict)
    # Sorted like the packed parts, so that each is unpacked once.
    for place in sorted(of_place.keys() & matrix.rows.keys()):
        for candidate in sorted(matrix.rows[place]):
            hit = groups_hit(matrix, place, candidate, state.registered_leader(place), of_place[place])
            if hit is not None:
                found[place][candidate] = hit
    return found


def groups_hit(
    matrix: Matrix, place: TopicPartition, candidate_id: int, leader: int | None, groups: Iterable[GroupOffsetRow]
) -> dict[tuple[str, GroupKind], int] | None:
    """Groups (name, kind) of a partition that have read records which a candidate lacks, if they read from `leader` so
    far, each with the offset at which the candidate's log parts from what it read; None without the candidate's log. A consumer
    group and a share group may have the same name.

    The offset at which it parts from the leader's log limits offsets without an epoch, or of an epoch that the candidate's log
    does not have. For an unknown epoch the end of the epoch before is a limit too, since the records may have been read from a
    third log.
    """
    replica = matrix.replicas[place].get(candidate_id)
    if replica is None:
        return None
    end_offset = matrix.rows[place][candidate_id].kept_to
    read = None if leader is None else matrix.cut(place, candidate_id, leader)
    shared_end = end_offset if read is None else read.kept_to
    lineage = Lineage(tuple((epoch, start) for epoch, start in replica.epochs))
    hit = {}
    for one in groups:
        known = one.leader_epoch is not None and one.leader_epoch >= 0 and lineage
        answer = lineage.end_offset_for(one.leader_epoch, end_offset) if known else None
        of_log = answer is not None and answer[0] == one.leader_epoch
        ends = [end_offset] if of_log else [end_offset, shared_end]
        end = min(ends if answer is None else [*ends, answer[1]])
        if one.committed_offset > end:
            hit[one.group, one.kind] = end
    return hit
