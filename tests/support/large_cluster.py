"""An audit of a cluster of twelve brokers: partitions of `large_results` on three of them each, two outages, a broker that was not
captured, and an audit before it."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import fields, is_dataclass, replace
from functools import cache, partial
from typing import Any

from tests.support.large_audit import Model, audit_models, large_results
from tests.support.report_rows import objects, row
from tests.support.samples import SAMPLES

from replica_audit.auditing.known_findings import Earlier
from replica_audit.config import Settings
from replica_audit.elect.election_plan import advise
from replica_audit.model import TopicPartition
from replica_audit.results import Results
from replica_audit.runner.in_process import audit_one
from replica_audit.schema import REPORT_ROWS, ReportRows

BROKERS = 12
#: Not captured.
AWAY = 11
BEGAN = 1_767_225_600_000
#: Minutes after `BEGAN` of an outage, its broker, and whether what it led was elected without care.
OUTAGES = ((14_400, 5, False), (14_440, 2, False), (14_441, 8, True))
_IDS = {"broker_id", "leader_id", "reference_id", "candidate_id", "limiting_broker_id"}
_LISTS = {"isr", "replicas", "unread_replicas", "elr", "last_known_elr"}
_NAMED = re.compile(r"\b([Bb]rokers?) ([0-4])\b")


@cache
def models() -> tuple[list[Model], list[Model]]:
    """Audits of bad and of calm partitions."""
    bad = [("diverged-unclean", "ledger-0"), ("kip279-1-before", "kip279-0"), ("zombie", "orders-0")]
    bad += [("isr-minimum", "orders-0"), ("last-replica-standing", "orders-0")]
    calm = [("hw-truncation-before", "orders-0")]
    bad_models, calm_models = (audit_models((str(SAMPLES / name), one) for name, one in some) for some in (bad, calm))
    return bad_models, calm_models


def large_cluster(count: int, share: float = 0.05) -> tuple[Results, Earlier]:
    """`count` partitions, a `share` of them bad, and an audit that knew nearly all of their findings."""
    bad, calm = models()
    found = large_results(count, bad, calm, share)
    generator = random.Random(25)
    tables: dict[str, list[Any]] = {table: [] for table in REPORT_ROWS}
    hosts = {}
    for one in found.partitions:
        # Costs of choices are known of captured replicas only.
        whole = one.verdict != "CONSISTENT"
        hosts[one.topic, one.partition] = generator.sample(range(AWAY if whole else BROKERS), 5)
        tables["partition_states"] += _history((one.topic, one.partition), hosts[one.topic, one.partition], generator)
    for table in REPORT_ROWS:
        if table not in ("partition_states", "captures"):
            for item in found.table(table):
                own = hosts[item.topic, item.partition]
                if table != "replicas" or own[item.broker_id] != AWAY:
                    tables[table].append(_on(own, item))
    for (topic, number), own in hosts.items():
        for broker in own[:3]:
            partial_copy = generator.random() < 0.01
            state = "named" if broker == AWAY else "partial" if partial_copy else "whole"
            needed = "isr" if broker == AWAY and generator.random() < 0.1 else None
            tables["captures"].append(
                row("captures", topic=topic, partition=number, broker_id=broker, state=state, needed=needed,
                    named_by=["isr"], missing={"named": ["directory"], "partial": ["leader-epoch-checkpoint"]}.get(state, []))
            )  # fmt: skip
    rows = ReportRows(**{table: objects(table, of_table) for table, of_table in tables.items()})
    known = [((one.topic, one.partition), one.finding_id) for one in rows.findings if generator.random() < 0.98]
    verdicts = {(one.topic, one.partition): one.verdict for one in rows.partitions}
    for place in generator.sample(sorted(verdicts), max(1, count // 200)):
        verdicts[place] = "CONSISTENT"
    copied = [
        {"broker_id": one, "started_ms": BEGAN + 14_460 * 60_000 + one * 4000, "finished_ms": BEGAN + 14_464 * 60_000}
        for one in range(AWAY)
    ]
    results = Results.of({**found.audit, "inputs": {**found.audit["inputs"], "copied": copied}}, rows.in_order())
    # Models put together at random are no cluster that could be planned for: the plan is of one of them.
    results.remembered["plan"] = advise(
        audit_one(str(SAMPLES / "last-replica-standing"), TopicPartition("orders", 0), Settings())
    )
    return results, Earlier.of("c" * 16, "2026-01-01T03:04:05.000Z", verdicts, known)


def _on(hosts: Sequence[int], value: Any, name: str = "") -> Any:
    """A value with the brokers 0 to 4 of its model put on `hosts`, `name` being its column."""
    if isinstance(value, int):
        return hosts[value] if name in _IDS and 0 <= value < len(hosts) else value
    if isinstance(value, str):
        return _NAMED.sub(lambda match: f"{match[1]} {hosts[int(match[2])]}", value) if "roker" in value else value
    if hasattr(value, "_fields"):
        return value._make([_on(hosts, part, key) for key, part in zip(value._fields, value)])
    if is_dataclass(value):
        return replace(value, **{one.name: _on(hosts, getattr(value, one.name), one.name) for one in fields(value)})
    if isinstance(value, dict):
        return {key: _on(hosts, part, key) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_on(hosts, part, "broker_id" if name in _LISTS else name) for part in value]
    return value


def _history(place: tuple[str, int], hosts: Sequence[int], generator: random.Random) -> list[dict[str, Any]]:
    """States of a partition on the first three of `hosts` through the outages."""
    replicas = list(hosts[:3])
    state = partial(
        row, "partition_states", topic=place[0], partition=place[1], source="metadata_log", replicas=replicas
    )
    isr, leader, epoch = list(replicas), replicas[0], 0
    told = [(BEGAN + generator.randrange(4000), "created", list(isr), leader, epoch)]
    for minutes, broker, careless in OUTAGES:
        if broker not in isr:
            continue
        down = BEGAN + minutes * 60_000 + generator.randrange(900)
        if careless and leader == broker and len(isr) > 1:
            leader, epoch = next(one for one in isr if one != broker), epoch + 1
            told.append((down - 1, "changed", [broker], broker, epoch))
            isr = [leader]
        else:
            isr = [one for one in isr if one != broker]
            leader = leader if leader != broker else isr[0]
        epoch += 1
        told.append((down, "changed", list(isr), leader, epoch))
        isr = sorted({*isr, broker})
        told.append((down + 95_000 + generator.randrange(30_000), "changed", list(isr), leader, epoch))
    return [
        state(entry=entry, time_ms=time_ms, occasion=occasion, isr=of_state, leader_id=led, leader_epoch=term,
              partition_epoch=entry, metadata_offset=entry, elr=[], last_known_elr=[], configs={})
        for entry, (time_ms, occasion, of_state, led, term) in enumerate(told)
    ]  # fmt: skip
