"""Rows of `replica_progress` made to order, and random ones that leave nothing out and respect nothing."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from replica_audit.protocol.high_watermark_rule import Observation, ReplicaProgress
from replica_audit.protocol.timeline import DeviationRun, DeviationRuns, TimelineRow

#: When made-up observations begin: 2023-11-14T22:13:20Z.
TIME_MS = 1_700_000_000_000


def at(
    time_ms: int,
    ends: Mapping[int, int | None],
    isr: Sequence[int] | None,
    *,
    known: Mapping[int, int | None] | None = None,
    observed: int | None = None,
    caught_up: Mapping[int, int] | None = None,
    leader: int = 0,
    epoch: int | None = 0,
    **more: Any,
) -> Observation:
    """One observation: `ends` by broker, the leader's view of the others equal to them unless `known` says so."""
    known, caught_up = known or {}, caught_up or {}
    eligible = {**dict.fromkeys(more.pop("eligible", ()), True), **dict.fromkeys(more.pop("ineligible", ()), False)}
    replicas = tuple(
        ReplicaProgress(
            broker,
            None if broker == leader else known.get(broker, end),
            end,
            caught_up.get(broker),
            observed if broker == leader else None,
            eligible.get(broker),
        )
        for broker, end in ends.items()
    )
    return Observation(time_ms, leader, epoch, None if isr is None else tuple(isr), replicas, **more)


def observed(
    time_ms: int,
    ends: Mapping[int, int],
    isr: Sequence[int] | None,
    high_watermark: int | None,
    *,
    leader: int = 0,
    leader_epoch: int | None = 3,
    known: Mapping[int, int] | None = None,
    caught_up: Mapping[int, int] | None = None,
    topic: str = "orders",
    partition: int = 0,
    **more: Any,
) -> list[dict[str, Any]]:
    """The rows of one observation `time_ms` after `TIME_MS`: log ends by broker, which the leader knows, or `known`."""
    known, caught_up = known or {}, caught_up or {}
    return [
        {
            "topic": topic,
            "partition": partition,
            "time_ms": TIME_MS + time_ms,
            "leader_id": leader,
            "leader_epoch": leader_epoch,
            "isr": isr,
            "broker_id": broker,
            "known_log_end_offset": None if broker == leader else known.get(broker, end),
            "log_end_offset": end,
            "last_caught_up_ms": TIME_MS + caught_up[broker] if broker in caught_up else None,
            "high_watermark": high_watermark if broker == leader else None,
            **more,
        }
        for broker, end in ends.items()
    ]


def write_observations(snapshot: Path, rows: Iterable[Mapping[str, Any]]) -> Path:
    """`replica_progress.jsonl` in a snapshot."""
    path = snapshot / "replica_progress.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def random_observations(partition: int, seed: int, count: int = 60) -> list[dict[str, Any]]:
    """Rows of one partition with everything in them that can be: gaps, contradictions, duplicates, nonsense."""
    chance = random.Random(seed)
    rows: list[dict[str, Any]] = []
    time, leader, epoch, isr, end, mark = 0, 0, 0, [0, 1, 2], 10, 8
    for sequence in range(count):
        time += chance.choice([0, 1, 1000, 20000, 60000])
        if chance.random() < 0.1:
            leader, epoch = chance.choice([0, 1, 2, None]), epoch + 1
        if chance.random() < 0.2:
            isr = chance.choice([[0, 1, 2], [0, 1], [1, 0], [0], None, [2], []])
        end += chance.choice([0, 0, 1, 5])
        mark = max(0, min(end, mark + chance.choice([-1, 0, 0, 1, 3])))
        for broker in chance.sample([0, 1, 2, 3], chance.choice([3, 4, 4, 4])):
            for _ in range(chance.choice([1] * 9 + [2])):
                rows.append(
                    {
                        "topic": "random",
                        "partition": partition,
                        "time_ms": time,
                        "sequence": sequence,
                        "leader_id": leader,
                        "leader_epoch": chance.choice([epoch] * 9 + [None]),
                        "isr": isr,
                        "pending_isr": chance.choice([None, None, [3], []]),
                        "min_insync_replicas": chance.choice([None, 2, 1]),
                        "lag_time_ms": chance.choice([None, None, 5000]),
                        "broker_id": broker,
                        "known_log_end_offset": chance.choice([None, -1] + [max(0, end - chance.randint(0, 6))] * 8),
                        "log_end_offset": chance.choice(
                            [None] + [max(0, end if broker == leader else end - chance.randint(0, 3))] * 8
                        ),
                        "last_caught_up_ms": chance.choice([None, time - 1000, time - 20000, time - 50000]),
                        "high_watermark": chance.choice([None] + [mark] * 7),
                        "eligible": chance.choice([None, True, False]),
                    }
                )
    return rows


def find_deviations(rows: Iterable[TimelineRow]) -> list[DeviationRun]:
    """The deviating stretches of rows that are in order of time."""
    found = DeviationRuns()
    for row in rows:
        found.add(row)
    return found.finish()
