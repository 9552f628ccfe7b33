"""What a plan says of clusters of the model, and what comes of it when it is carried out: nothing else may be lost."""

from __future__ import annotations

import random
import shutil
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tests.exhaustive.carrying_out import Cluster, names, ways
from tests.exhaustive.events import _ends
from tests.exhaustive.partition import BROKERS, State
from tests.exhaustive.replica import RECORDS
from tests.exhaustive.snapshots import TOPIC, write_snapshot
from tests.exhaustive.truth import choose

from replica_audit.config import Settings
from replica_audit.deciding.election_plan import plan_elections
from replica_audit.deciding.plan_parts import Plan
from replica_audit.local.audit import audit_all
from replica_audit.results import Results

#: Actions that move leaders, or may.
MOVING = ("forbid_unclean", "stop", "start", "elect", "reorder")


class Known(NamedTuple):
    """What a snapshot tells of the brokers, and what the topic allows."""

    liveness: bool = True
    """Who is up, by manifest and fencing."""
    unclean: bool = False
    """Unclean elections are allowed, and the metadata log says so."""


class Trial(NamedTuple):
    """A cluster, its plan, and all that went wrong as it was carried out."""

    parts: Mapping[str, State]
    known: Known
    plan: Plan
    wrong: tuple[str, ...]


def audited(state: State, path: Path, unclean: bool) -> Results:
    """The results for a state, whose snapshot is at `path` in place of any other there."""
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir()
    write_snapshot(state, path, quiesced=None, unclean=unclean)
    return audit_all(str(path), Settings())


def together(found: Mapping[str, Results], known: Known) -> Results:
    """Partitions that were audited by themselves as topics of one cluster, with what is known of it."""
    tables: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for topic, results in found.items():
        for table, rows in results.tables.items():
            tables[table] += [{**row, "topic": topic} if row.get("topic") == TOPIC else dict(row) for row in rows]
    for row in tables["partition_states"]:
        if not known.liveness:
            row["fenced"] = None
    audit = dict(next(iter(found.values())).audit)
    if not known.liveness:
        audit["inputs"] = {**audit["inputs"], "brokers": []}
    return Results(audit, dict(tables))


def without_power(state: State, chance: random.Random) -> State:
    """The state after all brokers that were up lost power at once, before the controller noticed."""
    for broker in state.up:
        replica = state.replicas[broker]
        state = state.with_replica(broker, replica.killed(chance.choice(_ends(replica))))
    return state._replace(story=(*state.story, "all brokers lose power"))


def carried_out(parts: Mapping[str, State], results: Results, known: Known, chance: random.Random) -> Trial:
    """The plan for a cluster, carried out in every way that the snapshot leaves open."""
    plan = plan_elections(results)
    wrong: dict[str, None] = {}
    if len(parts) == 1 and plan.conflicts and any(step.action in MOVING for step in plan.steps):
        wrong["no plan, and yet steps that move leaders"] = None
    for way in ways(parts.values()):
        unclean = set(parts) if known.unclean else ()
        cluster = Cluster(dict(parts), way, unclean)
        try:
            is_done = cluster.carry_out(plan.steps)
            if is_done and not plan.conflicts:
                for broker in chance.sample(BROKERS, len(BROKERS)):
                    cluster.start(broker)
        except AssertionError as error:
            wrong[str(error)] = None
            continue
        for topic, state in parts.items():
            for text in _judge(topic, state, cluster, plan, is_done):
                wrong[f"{text} (fenced {way.fenced})" if way.fenced else text] = None
    return Trial(parts, known, plan, tuple(wrong))


def _judge(topic: str, state: State, cluster: Cluster, plan: Plan, is_done: bool) -> Iterator[str]:
    after = cluster.parts[topic]
    decision = next((one for one in plan.decisions if one.topic == topic), None)
    is_unplanned = any(one.topic == topic for one in plan.conflicts)
    held = {name for replica in state.replicas for name in names(replica) if name[0] >= state.deleted_to}
    left = {name for replica in after.replicas for name in names(replica)}
    gone = held - left - cluster.copies[topic]
    if gone:
        yield f"{topic}: {len(gone)} batches are in no log and no copy: {sorted(gone)}"
    if is_unplanned or not is_done:
        return
    if after.leader is None or after.leader not in after.up:
        yield f"{topic}: nobody leads"
        return
    log = after.replicas[after.leader]
    lost = {name for name in held & state.committed if name not in names(log) and name[0] >= log.log_start}
    if decision is None:
        if lost:
            yield f"{topic}: nothing was decided, and {len(lost)} committed batches are lost"
        return
    leading = next(one for one in decision.candidates if one.candidate_id == after.leader)
    if leading.loss[0] > decision.chosen.loss[0]:
        yield f"{topic}: broker {after.leader} leads, not {decision.candidate_id}"
    told = decision.chosen.lost_committed + decision.chosen.lost_possible
    if RECORDS * len(lost) > told:
        yield f"{topic}: {RECORDS * len(lost)} committed records are lost, {told} were named"


def at_rest(parts: Mapping[str, State], plan: Plan) -> Iterator[str]:
    """Nothing needs to be done only where somebody leads, and loses no committed record that another log has."""
    if not plan.is_at_rest:
        return
    for topic, state in parts.items():
        if state.leader is None or state.leader not in state.up:
            if any(one.topic == topic for one in plan.decisions):
                yield f"{topic}: nothing needs to be done, and nobody leads"
        elif lost := choose(state, state.leader).wanted:
            yield f"{topic}: nothing needs to be done, and {len(lost)} committed batches are lost"


def try_all(
    clusters: Iterable[tuple[Mapping[str, State], Known]], root: Path, seed: int
) -> tuple[int, Counter[str], dict[str, Trial]]:
    chance = random.Random(seed)
    count, kinds, nearest = 0, Counter[str](), {}
    remembered: dict[tuple[State, bool], Results] = {}
    for parts, known in clusters:
        found = {}
        for topic, state in parts.items():
            if (state, known.unclean) not in remembered:
                remembered[state, known.unclean] = audited(state, root / "snapshot", known.unclean)
            found[topic] = remembered[state, known.unclean]
        results = together(found, known)
        trial = carried_out(parts, results, known, chance)
        wrong = (*trial.wrong, *at_rest(parts, trial.plan))
        count += 1
        for text in wrong:
            kind = _kind(text)
            kinds[kind] += 1
            if kind not in nearest or len(str(parts)) < len(str(nearest[kind].parts)):
                nearest[kind] = trial._replace(wrong=wrong)
    return count, kinds, nearest


def _kind(text: str) -> str:
    return "".join("#" if c.isdigit() else c for c in text.split("(fenced")[0].split(": [")[0])
