"""The plan for a whole cluster out of the answers of an audit."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from replica_audit import __version__
from replica_audit.elect.affected_groups import CommittedOffset, committed_offsets
from replica_audit.elect.cluster_state import present_state
from replica_audit.elect.cost_matrix import Matrix
from replica_audit.elect.decisions import decide
from replica_audit.elect.election_steps import make_steps
from replica_audit.elect.follow_up_steps import mending_steps
from replica_audit.elect.kafka_commands import BOOTSTRAP, Copies, Tools
from replica_audit.elect.plan_model import Plan
from replica_audit.elect.premises import rests_on
from replica_audit.elect.safeguards import copy_of_outrun, safeguard_steps
from replica_audit.elect.salvage_steps import restore_steps, salvage_steps
from replica_audit.model import Place
from replica_audit.protocol.versions import parse_kafka_version
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
    groups: Sequence[CommittedOffset] | None = None,
    made_with: Sequence[str] = (),
) -> Plan:
    """The plan for the partitions `asked` for, all that have something to decide where none is.

    `results` have rows of `elections` for these. `candidate_id` is taken in place of the best; `up` and `stopped_cleanly`
    go before what fencing and flags show; `groups` before the rows of `group_offsets`. Raises UsageError for a candidate
    that a partition does not have. `made_with` are the options that make this plan again.
    """
    options = results.audit.get("options") or {}
    version = parse_kafka_version(options.get("kafka_version"))
    matrix = Matrix(results)
    state = present_state(results, version, up, stopped_cleanly)
    decisions, conflicts = decide(
        matrix, state, asked, candidate_id, committed_offsets(results) if groups is None else groups
    )
    tools = Tools(version, bootstrap, client_config, state.mode)
    about = frozenset(asked) or _Everything()
    copies = Copies()
    outcome = make_steps(state, matrix, decisions, tools)
    first = [
        *(
            replace(step, files=copies.files_of(step.commands))
            for step in safeguard_steps(results, matrix, state, outcome.decisions, copies, about)
        ),
        *copy_of_outrun(outcome.outrun, copies),
        *salvage_steps(results, outcome.decisions, made_with, [f"{topic}-{number}" for topic, number in asked]),
    ]
    last = [
        *restore_steps(outcome.decisions, bootstrap, client_config),
        *mending_steps(results, matrix, outcome.decisions, tools, about, state.deleted),
    ]
    return Plan(
        cluster_id=results.audit.get("cluster_id"),
        tool_version=__version__,
        kafka_version=options.get("kafka_version"),
        mode=state.mode,
        protocol=options.get("protocol") or "fetch",
        up=tuple(sorted(state.up)),
        down=tuple(sorted(state.down)),
        stopped_cleanly=tuple(sorted(state.clean)),
        unknown=tuple(sorted(state.unknown | state.unheard)),
        decisions=outcome.decisions,
        steps=tuple(replace(step, number=number) for number, step in enumerate((*first, *outcome.steps, *last), 1)),
        keep_down=tuple(replace(one, until_step=one.until_step + len(first)) for one in outcome.keep_down),
        conflicts=(*conflicts, *outcome.conflicts),
        alternatives=outcome.alternatives,
        rests_on=tuple(rests_on(results, matrix, {(one.topic, one.partition) for one in decisions})),
        leaderless=tuple(one for one in state.leaderless() if one in about),
    )


class _Everything:
    """All partitions, and the snapshot itself."""

    def __contains__(self, place: object) -> bool:
        return True


def advise(results: Results) -> Plan:
    """The plan for everything in `results` that has something to decide or to do: what headline, Do first, What to do, page,
    summary and `elect` render. It is worked out once.
    """
    plan = results.remembered.get("plan")
    if not isinstance(plan, Plan):
        plan = results.remembered["plan"] = plan_elections(results)
    return plan
