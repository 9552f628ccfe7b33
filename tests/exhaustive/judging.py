"""Outcomes that a plan must not have when it is carried out on the model, completely or only as far as Do first prints it."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from tests.exhaustive.model_replica import RECORDS, Batch, Replica
from tests.exhaustive.partition import BROKERS, State
from tests.exhaustive.plans_carried_out import Cluster, Name, names, readable, ways
from tests.exhaustive.transactions import committed_in, hangs
from tests.exhaustive.truth import choose, never_had
from tests.exhaustive.written_snapshots import TOPIC, directory_of, write_snapshot

from replica_audit.config import Settings
from replica_audit.elect.plan_model import Plan, SalvageSource, Step
from replica_audit.report.what_to_do import first_steps
from replica_audit.salvage.partition_salvage import Choices
from replica_audit.salvage.snapshot_salvage import PlannedLeaders, SalvageSearch

#: Actions that move leaders, or may.
MOVING = ("forbid_unclean", "stop", "start", "elect", "reorder")


class Told(NamedTuple):
    """Facts in a snapshot, and properties of its topics."""

    liveness: bool = True
    """Who is up, by manifest and fencing."""
    unclean: bool = False
    """Unclean elections are allowed, and the metadata log says so."""
    missing: int | None = None
    """The broker that was not captured."""


def write(state: State, told: Told, path: Path) -> None:
    """The snapshot of a state at `path`, in place of any other there."""
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir()
    # Of a cluster of which no broker is up, every other copy says that it was at rest.
    write_snapshot(state, path, quiesced=True if not state.up and state.clock % 2 else None, unclean=told.unclean)
    if told.missing is not None:
        shutil.rmtree(path / f"broker-{told.missing}")
        manifest = json.loads((path / "manifest.json").read_text())
        manifest["brokers"] = [one for one in manifest["brokers"] if one["broker_id"] != told.missing]
        (path / "manifest.json").write_text(json.dumps(manifest))


class Judge:
    """One plan for the cluster of `parts`, and what is true of these."""

    def __init__(self, parts: Mapping[str, State], told: Told, plan: Plan, path: Path) -> None:
        """Where the plan salvages, that is done now, with snapshots of the partitions at `path`."""
        self._parts, self._told, self._plan = parts, told, plan
        self._decisions = {one.topic: one for one in plan.decisions}
        self._given_up = {one.topic for one in plan.conflicts}
        self._logs = {topic: captured_logs(state, told) for topic, state in parts.items()}
        self._batches: dict[str, dict[Name, Batch]] = {
            topic: {batch.name: batch for log in logs for batch in readable(log)} for topic, logs in self._logs.items()
        }
        self._held = {topic: self._held_of(topic) for topic in parts}
        salvaged = {topic for step in plan.steps if step.action == "salvage" for topic, _ in step.partitions}
        self._salvaged = {topic: self._salvage(topic, path) for topic in sorted(salvaged)}

    def _held_of(self, topic: str) -> set[Name]:
        """Batches of captured copies. What was never committed and no replica has is not lost after a clean election (F.0)."""
        state, decision = self._parts[topic], self._decisions.get(topic)
        in_replicas = {name for log in state.replicas for name in names(log)}
        return {
            name
            for log in self._logs[topic]
            for name in names(log)
            if name[0] >= state.deleted_to and (name in in_replicas | state.committed or decision is not None)
        }

    def contradictions(self) -> Iterator[str]:
        """Statements that the plan must not make, whatever its outcome."""
        plan, captured = self._plan, self._held
        moved = {
            topic for step in plan.steps if step.action in ("elect", "reorder", "check") for topic, _ in step.partitions
        }
        for topic in sorted(self._given_up & moved):
            yield f"{topic} has no plan, and is elected"
        if self._given_up == self._parts.keys() and any(step.action in MOVING for step in plan.steps):
            yield "nothing has a plan, and brokers are moved"
        if plan.is_at_rest:
            for topic, state in self._parts.items():
                if state.leader is None or state.leader not in state.up:
                    yield f"nothing needs to be done, and nobody leads {topic}"
                elif lost := (choose(state, state.leader).wanted & captured[topic]):
                    yield f"nothing needs to be done, and {len(lost)} committed batches of {topic} are lost"

    def carried_out(self, chance: random.Random) -> Iterator[str]:
        """Outcomes of the plan in every way that its snapshot leaves open: at once, and after Do first, if that is complete."""
        urgent = first_steps(self._plan)
        rest = [step for step in self._plan.steps if step not in urgent]
        for way in ways(self._parts.values()):
            how = f" (fenced in the order {way})" if way else ""
            cluster = self._cluster(way)
            for text in self._come_of(cluster, self._plan.steps, chance):
                yield f"{text}{how}"
            cluster = self._cluster(way)
            cluster.carry_out(urgent)
            cluster.settle()
            for topic in self._parts:
                for text in self._gone(topic, cluster):
                    yield f"{topic}: after Do first {text}{how}"
            for text in self._come_of(cluster, rest, chance):
                yield f"after Do first, {text}{how}"

    def _cluster(self, way: Sequence[int]) -> Cluster:
        return Cluster(self._parts, way, self._parts if self._told.unclean else ())

    def _come_of(self, cluster: Cluster, steps: Sequence[Step], chance: random.Random) -> Iterator[str]:
        is_done = cluster.carry_out(steps)
        if is_done and not self._given_up:
            for broker in chance.sample(BROKERS, len(BROKERS)):
                cluster.start(broker)
        for topic in self._parts:
            for text in (*self._gone(topic, cluster), *self._aborted(topic, cluster)):
                yield f"{topic}: {text}"
            if is_done and topic not in self._given_up:
                for text in self._losses(topic, cluster):
                    yield f"{topic}: {text}"

    def _gone(self, topic: str, cluster: Cluster) -> Iterator[str]:
        """Records in no log and no copy any more.

        For uncommitted ones, and those that Kafka deleted before they could be copied (the snapshot has these), it is enough
        that the decision names their place.
        """
        state, after = self._parts[topic], cluster.parts[topic]
        left = {name for log in (*after.replicas, *(one.log for one in after.aside)) for name in names(log)}
        saved = cluster.copies[topic]
        deleted = {name for one in state.aside if one.kind == "delete" for name in names(one.log)}
        if (
            gone := self._held[topic]
            - left
            - saved
            - (self._named(topic) & (deleted | (self._held[topic] - state.committed)))
        ):
            yield f"batches {sorted(gone)} are in no log and in no copy"

    def _aborted(self, topic: str, cluster: Cluster) -> Iterator[str]:
        """No transaction is aborted whose marker any copy has."""
        for _, start in filter(lambda one: one[0] == topic, cluster.aborted):
            known = self._batches[topic].values()
            first = next((one for one in known if one.base <= start < one.base + RECORDS and one.part), None)
            if first is not None and first.part is not None and hangs([first], known):
                yield f"the transaction from {start} on is aborted, and a copy has its marker"

    def _losses(self, topic: str, cluster: Cluster) -> Iterator[str]:
        """Records lost to consumers in the end that no decision named, or that the plan reported as saved."""
        state, after, decision = self._parts[topic], cluster.parts[topic], self._decisions.get(topic)
        if after.leader is None or after.leader not in after.up:
            yield "nobody leads in the end"
            return
        log = after.replicas[after.leader]
        gone = {name for name in self._held[topic] if name not in names(log)}
        lost = {name for name in gone if name[0] >= log.log_start} | gone & never_had(
            log, state.replicas, log.log_start
        )
        named = 0 if decision is None else decision.chosen.loss[0]
        records = sum(self._batches[topic][name].records for name in lost & state.committed)
        if records > named:
            yield f"{records} committed records are lost, and {named} were named"
        hanging = hangs(readable(log), self._batches[topic].values())
        if hanging and not (decision is not None and decision.chosen.cut_transactions):
            yield f"a transaction hangs on broker {after.leader} whose marker a copy had, and none was named"
        if decision is None:
            return
        if after.leader == decision.candidate_id and (unnamed := lost & state.committed - self._named(topic)):
            yield f"batches {sorted(unnamed)} are lost, and the decision does not say where they are"
        if after.leader == decision.candidate_id and topic in self._salvaged:
            due = committed_in(self._logs[topic])
            if missing := {name for name in lost if name in due} - self._salvaged[topic]:
                yield f"batches {sorted(missing)} are lost, and were not salvaged"
        if decision.procedure in ("none", "confirm"):
            return
        losses = {one.candidate_id: one.loss[0] for one in decision.candidates}
        # A live follower may have caught up since it was copied.
        if losses.get(after.leader, named) > named and state.leader is None:
            yield f"broker {after.leader} leads, and not broker {decision.candidate_id}"

    def _named(self, topic: str) -> set[Name]:
        """Batches of which the decision says where they are, if anybody wants them."""
        decision = self._decisions.get(topic)
        sources = () if decision is None else decision.salvage
        return {
            batch.name
            for source in sources
            for batch in self._log_of(topic, source).batches
            if source.start_offset <= batch.base < source.end_offset
        }

    def _log_of(self, topic: str, source: SalvageSource) -> Replica:
        state = self._parts[topic]
        if source.directory is None:
            return state.replicas[source.broker_id]
        return next(
            one.log
            for one in state.aside
            if one.broker == source.broker_id and source.directory.endswith(directory_of(one, topic))
        )

    def _salvage(self, topic: str, path: Path) -> set[Name]:
        """The batches of which `salvage --plan` takes records out of the snapshot."""
        write(self._parts[topic], self._told, path)
        plan = replace(
            self._plan,
            decisions=tuple(replace(one, topic=TOPIC) for one in self._plan.decisions if one.topic == topic),
            rests_on=tuple(replace(one, topic=TOPIC) for one in self._plan.rests_on if one.topic == topic),
        )
        found = SalvageSearch(str(path), Settings(), Choices(), PlannedLeaders(plan, "")).find()
        return {
            (int(record["offset"]) // RECORDS * RECORDS, int(record["leader_epoch"]))
            for one in found.partitions
            if one.finds is not None
            for record in one.finds.selection.rows["record"]
        }


def captured_logs(state: State, told: Told) -> list[Replica]:
    """Every copy in the snapshot, of replicas and beside them."""
    logs = [*enumerate(state.replicas), *((one.broker, one.log) for one in state.aside)]
    return [log for broker, log in logs if broker != told.missing]
