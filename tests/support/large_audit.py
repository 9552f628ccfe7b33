"""An audit of thousands of partitions: the rows of real audits of small snapshots, again and again under other names.

Offsets are moved by a random distance and counts differ, so that nothing is the same twice and what is measured on it
(the page's weight) is not flattered.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

from tests.support.fixtures import FIXTURES
from tests.support.samples import SAMPLES

from replica_audit.auditing.catalogue import worst_verdict
from replica_audit.config import Settings
from replica_audit.model import TopicPartition
from replica_audit.results import Results
from replica_audit.runner.in_process import audit_one
from replica_audit.schema import REPORT_TABLES, ReportRows

#: Columns that are moved by the partition's distance.
_OFFSETS = {
    "log_start_offset",
    "log_end_offset",
    "loaded_log_end_offset",
    "recovered_log_end_offset",
    "high_watermark_checkpoint",
    "recovery_point_checkpoint",
    "common_prefix_end",
    "hw_lower",
    "hw_upper",
    "leader_log_end_offset",
    "start_offset",
    "end_offset",
    "truncate_to",
    "leader_end_offset",
    "replica_end_offset",
}
_EPOCHS = {"epochs", "checkpoint_epochs"}
_TIMES = {"first_timestamp_ms", "last_timestamp_ms"}

_WORDS = (
    "orders",
    "payments",
    "ledger",
    "clicks",
    "users",
    "stock",
    "audit",
    "mail",
    "sessions",
    "prices",
    "returns",
    "basket",
)

#: Partitions of small snapshots, each with its path: six kinds of trouble, and three without.
BAD = [
    (str(SAMPLES / snapshot), name)
    for snapshot, name in (
        ("diverged-unclean", "ledger-0"),
        ("diverged-unclean", "ledger-1"),
        ("kip279-1-before", "kip279-0"),
        ("zombie", "orders-0"),
        ("isr-minimum", "orders-0"),
        ("fast-failover", "orders-0"),
    )
]
CALM = [
    (str(FIXTURES / "healthy"), "codecs-0"),
    (str(FIXTURES / "healthy"), "payments-txn-0"),
    (str(SAMPLES / "hw-truncation-before"), "orders-0"),
]

Model = Mapping[str, list[Any]]


def audit_models(partitions: Iterable[tuple[str, str]]) -> list[Model]:
    """The rows by table of each (snapshot directory, partition), to be copied by `large_results`."""
    found = [audit_one(path, TopicPartition.parse(name), Settings()) for path, name in partitions]
    return [{table: one.table(table) for table in REPORT_TABLES} for one in found]


def large_results(count: int, bad: list[Model], calm: list[Model], share: float, seed: int = 7) -> Results:
    """`count` partitions, a `share` of them copies of the `bad` models and the others of the `calm` ones."""
    generator = random.Random(seed)
    movers = {id(model): _movers(model) for model in (*bad, *calm)}
    tables: dict[str, list[Any]] = {table: [] for table in REPORT_TABLES}
    topics = [
        f"{generator.choice(_WORDS)}.{generator.choice(_WORDS)}-{number}" for number in range(max(1, count // 25))
    ]
    for number in range(count):
        model = generator.choice(bad if generator.random() < share else calm)
        place = {"topic": topics[number % len(topics)], "partition": number // len(topics)}
        distance = generator.randrange(10**9)
        late = generator.randrange(10**9)
        for table, row, mover in movers[id(model)]:
            changed = {**place, **mover(distance, late)}
            if table == "findings":
                changed["finding_id"] = f"{generator.getrandbits(64):016x}"
            if table == "replicas" and row.record_count:
                changed["record_count"] = row.record_count + generator.randrange(1000)
            tables[table].append(row._replace(**changed))
    audit = {
        "audit_id": "a" * 32,
        "snapshot_id": "b" * 32,
        "cluster_id": "MkU3OEVBNTcwNTJENDM2Qk",
        "tool_version": "0.1.0",
        "started": "2026-01-02T03:04:05.000Z",
        "finished": "2026-01-02T03:14:06.000Z",
        "verdict": worst_verdict(row.verdict for row in tables["partitions"]),
        "inputs": {
            "snapshot": "large",
            "segments": count * 3,
            "size_bytes": count * 3 * 2**20,
            "files": {"log": count * 3},
        },
    }
    return Results.of(audit, ReportRows(**tables).in_order())


#: Makes a value anew, its offsets moved by the first number and its times by the second.
Mover = Callable[[int, int], Any]


def _movers(model: Model) -> list[tuple[str, Any, Mover]]:
    """Table and row of each row about the partition, with the mover of the columns that have offsets or times."""
    rows = [(table, row) for table, of_table in model.items() if table != "quarantine" for row in of_table]
    return [(table, row, _of_parts(row._asdict()) or _unmoved) for table, row in rows if getattr(row, "topic", None)]


def _unmoved(distance: int, late: int) -> dict[str, Any]:
    return {}


def _of_parts(parts: Mapping[Any, Any]) -> Mover | None:
    """Makes those of some parts anew that have offsets or times; None where none has."""
    movers = [(key, mover) for key, part in parts.items() if (mover := _mover(part, key)) is not None]
    return (lambda distance, late: {key: mover(distance, late) for key, mover in movers}) if movers else None


def _mover(value: Any, name: str = "") -> Mover | None:
    """Makes `value` anew, `name` being its column; None where nothing in it moves."""
    if isinstance(value, int) and name in _OFFSETS:
        return lambda distance, late: value + distance
    if isinstance(value, int) and name in _TIMES:
        return lambda distance, late: value + late
    if name in _EPOCHS and value is not None:
        return lambda distance, late: [[epoch, start + distance] for epoch, start in value]
    if hasattr(value, "_fields"):
        mover = _of_parts(value._asdict())
        return mover and (lambda distance, late: value._replace(**mover(distance, late)))
    if is_dataclass(value):
        mover = _of_parts({one.name: getattr(value, one.name) for one in fields(value)})
        return mover and (lambda distance, late: replace(value, **mover(distance, late)))
    if isinstance(value, Mapping):
        mover = _of_parts(value)
        return mover and (lambda distance, late: {**value, **mover(distance, late)})
    if isinstance(value, (list, tuple)):
        movers = [_mover(part, name) for part in value]
        if any(movers):
            return lambda distance, late: [
                part if mover is None else mover(distance, late) for part, mover in zip(value, movers)
            ]
    return None
