"""Plans for clusters of the model, carried out to the letter: nothing is lost but what they name, and nothing without a copy."""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from tests.exhaustive.beside import KINDS as ASIDE
from tests.exhaustive.beside import with_copy
from tests.exhaustive.events import cut_ends
from tests.exhaustive.judging import MOVING, Judge, Told, write
from tests.exhaustive.partition import BROKERS, State
from tests.exhaustive.plans_carried_out import readable
from tests.exhaustive.states import histories
from tests.exhaustive.transactions import hangs, left_open, with_transactions
from tests.exhaustive.written_snapshots import TOPIC
from tests.support.in_memory import in_memory
from tests.support.report_rows import answers_of, tables_of

from replica_audit.config import Settings
from replica_audit.elect.election_plan import plan_elections
from replica_audit.elect.plan_model import Plan
from replica_audit.results import Results
from replica_audit.runner.in_process import audit_all


class Trial(NamedTuple):
    """A cluster, its plan, and what went wrong as it was carried out."""

    parts: Mapping[str, State]
    told: Told
    plan: Plan
    wrong: tuple[str, ...]


class Kind(NamedTuple):
    """Clusters of one kind."""

    partitions: tuple[int, ...] = (1,)
    """How many they may have."""
    is_dark: bool = False
    """The site lost its power at last."""
    told: Told = Told()
    has_copies: bool = False
    """Kafka put copies aside, or another disk has one."""
    has_transactions: bool = False


#: Histories of one length that are kept for all kinds.
KEPT = 400
_SEVERAL = (2, 3)
KINDS: dict[str, Kind] = {
    "one partition": Kind(),
    "one partition after a loss of power": Kind(is_dark=True),
    "one partition, nobody says who is up": Kind(told=Told(liveness=False)),
    "one partition, unclean elections allowed": Kind(told=Told(unclean=True)),
    "one partition, a broker not captured": Kind(told=Told(missing=0)),
    "one partition with a copy put aside": Kind(has_copies=True),
    "one partition with a copy put aside after a loss of power": Kind(is_dark=True, has_copies=True),
    "one partition with transactions": Kind(has_transactions=True),
    "one partition with transactions and a copy put aside": Kind(has_copies=True, has_transactions=True),
    "several partitions": Kind(_SEVERAL),
    "several partitions after a loss of power": Kind(_SEVERAL, is_dark=True),
    "several partitions, nobody says who is up": Kind(_SEVERAL, told=Told(liveness=False)),
    "several partitions, unclean elections allowed": Kind(_SEVERAL, told=Told(unclean=True)),
    "several partitions with copies put aside": Kind(_SEVERAL, has_copies=True),
    "several partitions with transactions after a loss of power": Kind(_SEVERAL, is_dark=True, has_transactions=True),
}


def clusters(name: str, seed: int, count: int) -> Iterator[tuple[Mapping[str, State], Told]]:
    """`count` clusters of a kind; a pure function of the seed. Partitions of one have the same brokers up, and ELR on or off."""
    kind = KINDS[name]
    is_special = kind.has_copies or kind.has_transactions
    chance = random.Random(f"{name} {seed}")
    alike: dict[tuple, list[State]] = defaultdict(list)
    for events in (4, 5, 6) if not kind.has_transactions else (5, 7, 9):
        for way in _ways(seed, events, count * 10 if is_special else max(count, 400)):
            state = _of_kind(way, kind, chance)
            if state is None or (kind.told.unclean and state.leader is None and state.up):
                continue  # Where unclean elections are allowed, somebody would have been elected at once.
            if is_special and chance.random() > worth(state):
                continue
            alike[tuple(replica.status for replica in state.replicas), state.elr_on].append(state)
    every = [states for _, states in sorted(alike.items(), key=lambda item: item[0])]
    for _ in range(count):
        states = chance.choice(every)
        parts = {topic: chance.choice(states) for topic in "abc"[: chance.choice(kind.partitions)]}
        told = kind.told
        yield parts, told if told.missing is None else told._replace(missing=chance.choice(BROKERS))


def _ways(seed: int, events: int, count: int) -> Iterable[list[State]]:
    """`histories`; what one kind draws, another has drawn before it, if they are not too many to keep."""
    return _kept_ways(seed, events)[:count] if count <= KEPT else histories(seed, events, count)


@cache
def _kept_ways(seed: int, events: int) -> list[list[State]]:
    return list(histories(seed, events, KEPT))


def _of_kind(way: Sequence[State], kind: Kind, chance: random.Random) -> State | None:
    """The last state of a history, with what clusters of the kind have besides; None where nobody can have a copy."""
    state: State | None = way[-1]
    copy = chance.choice(ASIDE) if kind.has_copies else None
    if copy is not None and copy != "future":
        state = with_copy(way, copy, chance, 3)
    if state is not None and kind.is_dark:
        state = without_power(state, chance)
    if state is not None and copy == "future":
        # What was on its way to another disk when the power went.
        state = with_copy([*way, state], copy, chance, 0)
    return with_transactions(state, chance) if state is not None and kind.has_transactions else state


def worth(state: State) -> float:
    """The share of states like this that are tried: all where a copy has what no replica has, or the leader's log leaves a
    transaction open that is over.
    """
    copies = [readable(log) for log in (*state.replicas, *(one.log for one in state.aside))]
    known = [batch for batches in copies for batch in batches]
    in_replicas = {batch.name for batches in copies[: len(BROKERS)] for batch in batches}
    hanging = [hangs(batches, known) for batches in copies[: len(BROKERS)]]
    left = None if state.leader is None else left_open(copies[state.leader])
    is_over = left is not None and state.coordinator is not None and state.coordinator.producer_epoch > left
    if is_over or not {batch.name for batch in known} <= in_replicas:
        return 1
    return 0.2 if any(hanging) else 0.05


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
    with tempfile.TemporaryDirectory(dir=in_memory()) as root:
        path = Path(root) / "snapshot"
        for parts, told in given:
            for state in parts.values():
                if (state, told) not in known:
                    known[state, told] = _audited(state, told, path)
            results = _together({topic: known[state, told] for topic, state in parts.items()}, told)
            plan = plan_elections(results)
            judge = Judge(parts, told, plan, path)
            wrong = dict.fromkeys((*judge.contradictions(), *judge.carried_out(chance)))
            trials.append(Trial(parts, told, plan, tuple(wrong)))
    return trials


def _audited(state: State, told: Told, path: Path) -> Results:
    write(state, told, path)
    return audit_all(str(path), Settings())


def _together(found: Mapping[str, Results], told: Told) -> Results:
    """Partitions that were audited by themselves, as topics of one cluster."""
    tables: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for topic, results in found.items():
        for table, rows in tables_of(results).items():
            # The coordinator's log is in the same snapshot.
            tables[table] += [_renamed(row, topic) for row in rows if row.get("topic") in (TOPIC, None)]
    audit = dict(next(iter(found.values())).audit)
    if not told.liveness:
        audit["inputs"] = {**audit["inputs"], "brokers": []}
        for row in tables["partition_states"]:
            row["fenced"] = None
    return answers_of(audit, dict(tables))


def _renamed(row: Mapping[str, Any], topic: str) -> dict[str, Any]:
    """A row of the model's topic as one of `topic`, whose copies have directories of their own."""
    if row.get("topic") != TOPIC:
        return dict(row)
    beside = [
        {**one, "log_dir": one["log_dir"].replace(f"/{TOPIC}-0", f"/{topic}-0")} for one in row.get("beside") or ()
    ]
    return {**row, "topic": topic, **({"beside": beside} if "beside" in row else {})}


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
