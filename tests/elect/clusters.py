"""Small clusters as the rows that a plan is made of."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from tests.support.report_rows import answers_of, row

from replica_audit.elect.election_plan import plan_elections
from replica_audit.elect.plan_model import Plan
from replica_audit.results import Results
from replica_audit.schema import CaptureRow

#: Those of `scattered` partitions.
BROKERS = range(12)


@dataclass(frozen=True, slots=True)
class Part:
    """A partition 0 whose choice loses one committed record as leader, as its equals do, and every other replica two."""

    topic: str
    replicas: tuple[int, ...]
    leader: int | None
    isr: tuple[int, ...] | None
    choice: int
    unclean: str | None = "false"
    calm: bool = False
    """Without a cost matrix."""
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    equals: tuple[int, ...] = ()
    offline: tuple[int, ...] = ()
    fenced: tuple[int, ...] | None = None
    elr: tuple[int, ...] = ()
    short: tuple[int, ...] = ()
    """Whose logs end one record earlier."""
    inherits_unclean: bool | None = None


def scattered(count: int, seed: int) -> list[Part]:
    """Partitions, each on three of `BROKERS`; every third is to be led by a replica that is not in sync."""
    found = []
    chance = random.Random(seed)
    for number in range(count):
        leader, follower, other = chance.sample(BROKERS, 3)
        is_lost = number % 3 == 0
        choice, equals = (other, (follower,) if chance.random() < 0.5 else ()) if is_lost else (leader, (follower,))
        found.append(Part(f"t{number}", (leader, follower, other), leader, (leader, follower), choice, equals=equals))
    return found


def _row(table: str, **values: object) -> dict:
    return row(table, partition=0, **values)


def captured(topic: str, broker: int, **said: object) -> CaptureRow:
    """A row of `captures`."""
    return CaptureRow(**_row("captures", topic=topic, broker_id=broker, **said))


def results_of(parts: Sequence[Part], version: str | None, source: str) -> Results:
    tables: dict[str, list[dict]] = {name: [] for name in ("partitions", "replicas", "elections", "partition_states")}
    for part in parts:
        brokers = sorted({*part.replicas, part.choice})
        shared = {"topic": part.topic, "leader_id": part.leader, "leader_epoch": 5, "isr": part.isr}
        tables["partitions"].append(_row("partitions", **shared))
        configs = {} if part.unclean is None else {"unclean.leader.election.enable": part.unclean}
        state = {
            "replicas": part.replicas,
            "adding": part.adding,
            "removing": part.removing,
            "offline": part.offline,
            "fenced": part.fenced,
            "inherits_unclean": part.inherits_unclean,
            "configs": configs,
            "source": source,
            "elr": part.elr,
            "last_known_elr": (),
        }
        tables["partition_states"].append(_row("partition_states", **shared, **state))
        for broker in brokers:
            end = {"log_start_offset": 0, "log_end_offset": 11 - (broker in part.short), "epochs": [[0, 0]]}
            names = {"topic": part.topic, "broker_id": broker, "role": "compared", "log_dir": f"broker-{broker}"}
            tables["replicas"].append(_row("replicas", **names, **end))
        for candidate in () if part.calm else brokers:
            for broker in brokers:
                other = broker != candidate
                numbers = {"dropped_records": int(other), "lost_held": int(other), "kept_to": 10 if other else 11}
                lost = 1 if candidate in (part.choice, *part.equals) else 2
                loss = {"lost_records": lost, "lost_committed": lost, "lost_possible": 0}
                loss |= {"is_only_likely": False, "lost_at_most": False}
                said = {
                    "standing": "isr" if candidate in (part.isr or ()) else "out_of_sync",
                    "clean": candidate in (part.isr or ()),
                    "choice": "best" if candidate == part.choice else None,
                    "reason": "it was asked for" if candidate == part.choice else None,
                    "cut_transactions": 0,
                    "only_here": 1,
                    "hidden_records": 0,
                    "remote_records": 0,
                    "remote_unread": 0,
                    "remote_encrypted": 0,
                    "remote_deleted": 0,
                    "remote_basis": [],
                    "damage": [],
                }
                names = {"topic": part.topic, "candidate_id": candidate, "broker_id": broker}
                tables["elections"].append(_row("elections", **names, **numbers, **loss, **said))
    return answers_of({"options": {"protocol": "fetch", "kafka_version": version}}, tables)


def plan_of(*parts: Part, up: Sequence[int], version: str | None = None, source: str = "metadata_log") -> Plan:
    """The plan for all of `parts`, with every broker that is not `up` stopped cleanly."""
    down = {broker for part in parts for broker in part.replicas} - set(up)
    return plan_elections(results_of(parts, version, source), up=up, stopped_cleanly=down)


def outline(plan: Plan) -> list[tuple[str, tuple[int, ...]]]:
    """(action, brokers) of each step."""
    return [(step.action, step.brokers) for step in plan.steps]
