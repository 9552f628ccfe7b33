"""The plan for a whole cluster out of the answers of an audit."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence

from replica_audit import __version__
from replica_audit.auditing.rows.evidence import parse_kafka_version
from replica_audit.deciding.decisions import Matrix, decide, groups_hit, rests_on
from replica_audit.deciding.groups import GroupOffset, by_partition
from replica_audit.deciding.kafka_commands import BOOTSTRAP, Tools
from replica_audit.deciding.plan_parts import Plan
from replica_audit.deciding.planning import make_steps
from replica_audit.deciding.present_state import present_state
from replica_audit.model import Place
from replica_audit.results import Results


def plan_elections(
    results: Results,
    *,
    asked: Collection[Place] = (),
    candidate_id: int | None = None,
    up: Iterable[int] | None = None,
    stopped_cleanly: Iterable[int] | None = None,
    bootstrap: str = BOOTSTRAP,
    client_config: str | None = None,
    groups: Sequence[GroupOffset] | None = None,
) -> Plan:
    """The plan for the partitions `asked` for, all that have something to decide where none is.

    `results` have rows of `elections` for these. `candidate_id` is taken in place of the best; `up` and `stopped_cleanly`
    go before what fencing and flags show; `groups` before the rows of `group_offsets`. Raises UsageError for a candidate
    that a partition does not have.
    """
    options = results.audit.get("options") or {}
    version = parse_kafka_version(options.get("kafka_version"))
    matrix = Matrix(results)
    state = present_state(results, version, up, stopped_cleanly)
    decisions, conflicts = decide(matrix, state, asked, candidate_id, _groups(results) if groups is None else groups)
    tools = Tools(version, bootstrap, client_config)
    outcome = make_steps(state, matrix, decisions, tools)
    return Plan(
        cluster_id=results.audit.get("cluster_id"),
        tool_version=__version__,
        kafka_version=options.get("kafka_version"),
        mode=state.mode,
        protocol=options.get("protocol") or "fetch",
        up=tuple(sorted(state.up)),
        down=tuple(sorted(state.brokers - state.up)),
        stopped_cleanly=tuple(sorted(state.clean)),
        unknown=tuple(sorted(state.unknown)),
        decisions=outcome.decisions,
        steps=outcome.steps,
        keep_down=outcome.keep_down,
        conflicts=(*conflicts, *outcome.conflicts),
        alternatives=outcome.alternatives,
        rests_on=tuple(rests_on(results, matrix, {(one.topic, one.partition) for one in decisions})),
    )


def hit_groups(results: Results) -> dict[Place, dict[int, frozenset[str]]]:
    """Of each partition with rows of `elections` and `group_offsets`: the groups that each candidate hits."""
    matrix, of_place = Matrix(results), by_partition(_groups(results) or ())
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


def _groups(results: Results) -> list[GroupOffset] | None:
    """What consumer groups committed, by the audit; None where it knows of none. Those of an earlier topic do not count."""
    rows = results.rows("group_offsets")
    names = GroupOffset._fields
    return [GroupOffset(*(row[name] for name in names)) for row in rows if row["effect"] is not None] if rows else None
