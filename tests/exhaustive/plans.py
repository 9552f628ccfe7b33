"""Plans for clusters of the model, carried out to the letter: nothing is lost but what they name, and nothing without a copy."""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.exhaustive.asking import IN_MEMORY
from tests.exhaustive.carrying_out import Cluster, names, ways
from tests.exhaustive.events import cut_ends
from tests.exhaustive.partition import BROKERS, State
from tests.exhaustive.replica import RECORDS
from tests.exhaustive.snapshots import TOPIC, write_snapshot
from tests.exhaustive.states import walks
from tests.exhaustive.truth import choose

from replica_audit.config import Settings
from replica_audit.deciding.election_plan import plan_elections
from replica_audit.deciding.plan_parts import Plan
from replica_audit.local.audit import audit_all
from replica_audit.results import Results

#: Actions that move leaders, or may.
MOVING = ("forbid_unclean", "stop", "start", "elect", "reorder")


class Told(NamedTuple):
    """What a snapshot tells, and what its topics allow."""

    liveness: bool = True
    """Who is up, by manifest and fencing."""
    unclean: bool = False
    """Unclean elections are allowed, and the metadata log says so."""
    missing: int | None = None
    """The broker that was not captured."""


class Trial(NamedTuple):
    """A cluster, its plan, and what went wrong as it was carried out."""

    parts: Mapping[str, State]
    told: Told
    plan: Plan
    wrong: tuple[str, ...]


#: Kinds of clusters: how many partitions, whether the site lost its power, and what the snapshot tells.
KINDS: dict[str, tuple[tuple[int, ...], bool, Told]] = {
    "one partition": ((1,), False, Told()),
    "one partition after a loss of power": ((1,), True, Told()),
    "one partition, nobody says who is up": ((1,), False, Told(liveness=False)),
    "one partition, unclean elections allowed": ((1,), False, Told(unclean=True)),
    "one partition, a broker not captured": ((1,), False, Told(missing=0)),
    "several partitions": ((2, 3), False, Told()),
    "several partitions after a loss of power": ((2, 3), True, Told()),
    "several partitions, nobody says who is up": ((2, 3), False, Told(liveness=False)),
    "several partitions, unclean elections allowed": ((2, 3), False, Told(unclean=True)),
}


def clusters(kind: str, seed: int, count: int) -> Iterator[tuple[Mapping[str, State], Told]]:
    """`count` clusters of a kind; a pure function of the seed. Partitions of one have the same brokers up, and ELR on or off."""
    sizes, is_dark, told = KINDS[kind]
    chance = random.Random(f"{kind} {seed}")
    alike: dict[tuple, list[State]] = defaultdict(list)
    for events in (4, 5, 6):
        for state in walks(seed, events, max(count, 400)):
            if told.unclean and state.leader is None and state.up:
                continue  # Somebody would have been elected at once.
            after = without_power(state, chance) if is_dark else state
            alike[tuple(replica.status for replica in after.replicas), after.elr_on].append(after)
    every = [states for _, states in sorted(alike.items(), key=lambda item: item[0])]
    for _ in range(count):
        states = chance.choice(every)
        parts = {topic: chance.choice(states) for topic in "abc"[: chance.choice(sizes)]}
        yield parts, told if told.missing is None else told._replace(missing=chance.choice(BROKERS))


def without_power(state: State, chance: random.Random) -> State:
    """The state after all brokers that were up lost power at once, before the controller noticed."""
    for broker in state.up:
        replica = state.replicas[broker]
        state = state.with_replica(broker, replica.killed(chance.choice(cut_ends(replica))))
    return state._replace(story=(*state.story, "all brokers lose power"))


def try_plans(given: Iterable[tuple[Mapping[str, State], Told]], seed: int) -> list[Trial]:
    """The plan of each cluster, carried out in every way that its snapshot leaves open."""
    chance = random.Random(seed)
    known: dict[tuple[State, Told], Results] = {}
    trials = []
    with tempfile.TemporaryDirectory(dir=IN_MEMORY if IN_MEMORY.is_dir() else None) as root:
        for parts, told in given:
            for state in parts.values():
                if (state, told) not in known:
                    known[state, told] = _audited(state, told, Path(root) / "snapshot")
            results = _together({topic: known[state, told] for topic, state in parts.items()}, told)
            plan = plan_elections(results)
            wrong = dict.fromkeys((*_contradictions(parts, told, plan), *_carried_out(parts, told, plan, chance)))
            trials.append(Trial(parts, told, plan, tuple(wrong)))
    return trials


def _audited(state: State, told: Told, path: Path) -> Results:
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir()
    write_snapshot(state, path, quiesced=None, unclean=told.unclean)
    if told.missing is not None:
        shutil.rmtree(path / f"broker-{told.missing}")
        manifest = json.loads((path / "manifest.json").read_text())
        manifest["brokers"] = [one for one in manifest["brokers"] if one["broker_id"] != told.missing]
        (path / "manifest.json").write_text(json.dumps(manifest))
    return audit_all(str(path), Settings())


def _together(found: Mapping[str, Results], told: Told) -> Results:
    """Partitions that were audited by themselves, as topics of one cluster."""
    tables: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for topic, results in found.items():
        for table, rows in results.tables.items():
            tables[table] += [{**row, "topic": topic} if row.get("topic") == TOPIC else dict(row) for row in rows]
    audit = dict(next(iter(found.values())).audit)
    if not told.liveness:
        audit["inputs"] = {**audit["inputs"], "brokers": []}
        for row in tables["partition_states"]:
            row["fenced"] = None
    return Results(audit, dict(tables))


def _contradictions(parts: Mapping[str, State], told: Told, plan: Plan) -> Iterator[str]:
    """What a plan may not say, whatever comes of it."""
    captured = {
        topic: {name for broker in BROKERS if broker != told.missing for name in names(state.replicas[broker])}
        for topic, state in parts.items()
    }
    unplanned = {one.topic for one in plan.conflicts}
    moved = {
        topic for step in plan.steps if step.action in ("elect", "reorder", "check") for topic, _ in step.partitions
    }
    for topic in sorted(unplanned & moved):
        yield f"{topic} has no plan, and is elected"
    if unplanned == parts.keys() and any(step.action in MOVING for step in plan.steps):
        yield "nothing has a plan, and brokers are moved"
    if plan.is_at_rest:
        for topic, state in parts.items():
            if state.leader is None or state.leader not in state.up:
                yield f"nothing needs to be done, and nobody leads {topic}"
            elif lost := choose(state, state.leader).wanted & captured[topic]:
                yield f"nothing needs to be done, and {len(lost)} committed batches of {topic} are lost"


def _carried_out(parts: Mapping[str, State], told: Told, plan: Plan, chance: random.Random) -> Iterator[str]:
    for way in ways(parts.values()):
        cluster = Cluster(parts, way, parts if told.unclean else ())
        is_done = cluster.carry_out(plan.steps)
        if is_done and not plan.conflicts:
            for broker in chance.sample(BROKERS, len(BROKERS)):
                cluster.start(broker)
        for topic in parts:
            for text in _losses(topic, parts[topic], cluster, plan, told, is_done):
                yield f"{topic}: {text}{f' (fenced in the order {way})' if way else ''}"


def _losses(topic: str, state: State, cluster: Cluster, plan: Plan, told: Told, is_done: bool) -> Iterator[str]:
    """What is lost in the end: to everybody, or to consumers though no decision named it."""
    after = cluster.parts[topic]
    captured = [state.replicas[broker] for broker in BROKERS if broker != told.missing]
    held = {name for replica in captured for name in names(replica) if name[0] >= state.deleted_to}
    left = {name for replica in after.replicas for name in names(replica)}
    if gone := held - left - cluster.copies[topic] - _named(topic, state, plan):
        yield f"batches {sorted(gone)} are in no log and in no copy"
    if not is_done or any(one.topic == topic for one in plan.conflicts):
        return
    if after.leader is None or after.leader not in after.up:
        yield "nobody leads in the end"
        return
    decision = next((one for one in plan.decisions if one.topic == topic), None)
    loss = 0 if decision is None else decision.chosen.loss[0]
    log = after.replicas[after.leader]
    lost = {name for name in held & state.committed if name not in names(log) and name[0] >= log.log_start}
    if RECORDS * len(lost) > loss:
        yield f"{RECORDS * len(lost)} committed records are lost, and {loss} were named"
    if decision is None or decision.procedure in ("none", "confirm"):
        return
    losses = {one.candidate_id: one.loss[0] for one in decision.candidates}
    # A live follower may have caught up since it was copied.
    if losses.get(after.leader, loss) > loss and state.leader is None:
        yield f"broker {after.leader} leads, and not broker {decision.candidate_id}"


def _named(topic: str, state: State, plan: Plan) -> set[tuple[int, int]]:
    """Batches of which the decision says where they are, if anybody wants them."""
    return {
        batch.name
        for one in plan.decisions
        if one.topic == topic
        for source in one.salvage
        for batch in state.replicas[source.broker_id].batches
        if source.start_offset <= batch.base < source.end_offset
    }


def narrate(trial: Trial) -> str:
    """A plan that went wrong, for people."""
    lines = [*trial.wrong[:4], f"  {trial.told}"]
    for topic, state in trial.parts.items():
        lines += [f"  {topic}: min.insync.replicas {state.min_isr}, ELR {'on' if state.elr_on else 'off'}"]
        lines += [f"    - {event}" for event in state.story]
    lines += [f"  {one.topic}: broker {one.candidate_id} ({one.procedure})" for one in trial.plan.decisions]
    lines += [f"  {one.topic}: {one.reason}" for one in trial.plan.conflicts]
    lines += [f"  {step.number}. {step.text}" for step in trial.plan.steps]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """0 when every plan kept what it said it would, else 1."""
    parser = argparse.ArgumentParser(prog="python -m tests.exhaustive.plans", description=__doc__)
    parser.add_argument("--clusters", type=int, default=1000, help="of each kind")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args(arguments)
    print(f"{options.clusters} clusters of each kind, seed {options.seed}", flush=True)
    failed = 0
    for kind in KINDS:
        trials = try_plans(clusters(kind, options.seed, options.clusters), options.seed)
        wrong = [trial for trial in trials if trial.wrong]
        failed += len(wrong)
        actions = Counter(step.action for trial in trials for step in trial.plan.steps)
        moving = ", ".join(f"{actions[action]} {action}" for action in MOVING if actions[action])
        print(f"{len(wrong):6} of {len(trials)} wrong: {kind} ({moving or 'no steps that move leaders'})", flush=True)
        if wrong:
            print(narrate(min(wrong, key=lambda trial: sum(len(one.story) for one in trial.parts.values()))))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
