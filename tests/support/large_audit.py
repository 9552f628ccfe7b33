"""An audit of thousands of partitions: the rows of real audits of small snapshots, again and again under other names.

Offsets are moved by a random distance and counts differ, so that nothing is the same twice and what is measured on it
(the page's weight) is not flattered.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from typing import Any

from tests.support.fixtures import FIXTURES
from tests.support.report_rows import answers_of, tables_of
from tests.support.samples import SAMPLES

from replica_audit.auditing.catalogue import worst_verdict
from replica_audit.config import Settings
from replica_audit.literals import SEVERITIES
from replica_audit.model import TopicPartition
from replica_audit.results import Results
from replica_audit.runner.in_process import audit_one
from replica_audit.schema import REPORT_TABLES

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

Model = Mapping[str, list[dict[str, Any]]]


def audit_models(partitions: Iterable[tuple[str, str]]) -> list[Model]:
    """The report tables of each (snapshot directory, partition), to be copied by `large_results`."""
    return [tables_of(audit_one(path, TopicPartition.parse(name), Settings())) for path, name in partitions]


def large_results(count: int, bad: list[Model], calm: list[Model], share: float, seed: int = 7) -> Results:
    """`count` partitions, a `share` of them copies of the `bad` models and the others of the `calm` ones."""
    generator = random.Random(seed)
    tables: dict[str, list[dict[str, Any]]] = {table: [] for table in REPORT_TABLES}
    topics = [
        f"{generator.choice(_WORDS)}.{generator.choice(_WORDS)}-{number}" for number in range(max(1, count // 25))
    ]
    for number in range(count):
        model = generator.choice(bad if generator.random() < share else calm)
        place = {"topic": topics[number % len(topics)], "partition": number // len(topics)}
        distance = generator.randrange(10**9)
        late = generator.randrange(10**9)
        for table, rows in model.items():
            if table == "quarantine":
                continue
            for row in rows:
                if row.get("topic") is None:
                    continue
                copy = _moved(row, distance, late)
                copy.update(place)
                if "finding_id" in copy:
                    copy["finding_id"] = f"{generator.getrandbits(64):016x}"
                if "record_count" in copy and copy["record_count"]:
                    copy["record_count"] += generator.randrange(1000) if table == "replicas" else 0
                tables[table].append(copy)
    audit = {
        "audit_id": "a" * 32,
        "snapshot_id": "b" * 32,
        "cluster_id": "MkU3OEVBNTcwNTJENDM2Qk",
        "tool_version": "0.1.0",
        "started": "2026-01-02T03:04:05.000Z",
        "finished": "2026-01-02T03:14:06.000Z",
        "verdict": worst_verdict(row["verdict"] for row in tables["partitions"]),
        "inputs": {
            "snapshot": "large",
            "segments": count * 3,
            "size_bytes": count * 3 * 2**20,
            "files": {"log": count * 3},
        },
    }
    assert all(set(row["findings"]) == set(SEVERITIES) for row in tables["partitions"])
    found = answers_of(audit, tables)
    return Results.of(found.audit, found.in_order())


def _moved(value: Any, distance: int, late: int, name: str = "") -> Any:
    if isinstance(value, dict):
        return {key: _moved(part, distance, late, key) for key, part in value.items()}
    if isinstance(value, list):
        if name in _EPOCHS:
            return [[epoch, start + distance] for epoch, start in value]
        return [_moved(part, distance, late, name) for part in value]
    if isinstance(value, int) and not isinstance(value, bool):
        return value + distance if name in _OFFSETS else value + late if name in _TIMES else value
    return value
