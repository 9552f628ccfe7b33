"""Snapshots of one partition made to order, and the audit's answers on them in a form that reads well in a test."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from tests.support.encoder import encode_batch, encode_legacy
from tests.support.metadata_log import MetadataLog
from tests.support.report_rows import tables_of
from tests.support.snapshots import TOPIC, TOPIC_ID, Listed, Replica, write_snapshot

from replica_audit.config import Settings
from replica_audit.model import TopicPartition
from replica_audit.runner.in_process import audit_all, audit_one


def written(start: int, end: int, epoch: int, mark: str = "", step: int = 5) -> list[bytes]:
    """Batches of at most `step` records over offsets [start, end): equal arguments and offsets, equal bytes."""
    return [encode_batch(base, min(step, end - base), epoch, mark=f"{mark}{base} ") for base in range(start, end, step)]


def written_legacy(start: int, end: int, mark: str = "", magic: int = 1) -> list[bytes]:
    """One message of magic 0 or 1 an offset."""
    return [encode_legacy(offset, f"{mark}{offset}".encode(), magic=magic) for offset in range(start, end)]


@dataclass(frozen=True)
class Answer:
    """The report rows of one audited partition."""

    tables: Mapping[str, list[dict]]

    def rows(self, table: str) -> list[dict]:
        return self.tables[table]

    @property
    def verdict(self) -> str:
        return self.tables["partitions"][0]["verdict"]

    @property
    def interval(self) -> tuple[int, int]:
        row = self.tables["high_watermarks"][0]
        return row["hw_lower"], row["hw_upper"]

    @property
    def mark(self) -> dict:
        return self.tables["high_watermarks"][0]

    def codes(self, least: str = "low") -> set[str]:
        """Codes of the findings of severity `least` or worse."""
        order = ("critical", "high", "medium", "low", "info")
        worse = order[: order.index(least) + 1]
        return {row["code"] for row in self.tables["findings"] if row["severity"] in worse}

    def found(self, code: str, broker: int | None = None) -> list[dict]:
        rows = [row for row in self.tables["findings"] if row["code"] == code]
        return [row for row in rows if broker is None or row["broker_id"] == broker]

    def messages(self, code: str) -> list[str]:
        """Sentences of the findings of that code."""
        return [row["message"] for row in self.found(code)]

    def one(self, code: str, broker: int | None = None) -> tuple[str, str, int | None, int | None]:
        """(severity, confidence, start, end) of the one finding of that code."""
        rows = self.found(code, broker)
        assert len(rows) == 1, f"{len(rows)} findings {code}\n{self}"
        return tuple(rows[0][name] for name in ("severity", "confidence", "start_offset", "end_offset"))

    def runs(self, broker: int) -> list[tuple]:
        """(code, start, end, leader epoch, replica epoch, committed) of the rows of `divergences`."""
        names = ("code", "start_offset", "end_offset", "leader_epoch", "replica_epoch", "committed")
        rows = [row for row in self.tables["divergences"] if row["broker_id"] == broker]
        return [tuple(row[name] for name in names) for row in rows]

    def cut(self, broker: int, protocol: str = "fetch") -> dict:
        """The row of `truncations`."""
        return next(
            row for row in self.tables["truncations"] if (row["broker_id"], row["protocol"]) == (broker, protocol)
        )

    def replica(self, broker: int) -> dict:
        return next(row for row in self.tables["replicas"] if row["broker_id"] == broker)

    def __str__(self) -> str:
        told = [
            f"{row['severity']} {row['code']} {row['broker_id']}: {row['message']}" for row in self.tables["findings"]
        ]
        return "\n".join([f"{self.verdict} {self.mark if self.tables['high_watermarks'] else ''}", *told])


def audit(
    path: Path,
    brokers: Mapping[int, Replica],
    *,
    leader: int | None = 1,
    isr: Iterable[int] | None = None,
    replicas: Iterable[int] | None = None,
    elr: Iterable[int] = (),
    source: str = "topics_describe",
    leader_epoch: int | None = None,
    metadata: Mapping[int, MetadataLog | bytes] | None = None,
    configs: Mapping[str, str] | None = None,
    quiesced: bool | None = None,
    kafka_version: str | None = None,
    protocol: str = "fetch",
    topic: str = TOPIC,
    listed_topic_id: str = TOPIC_ID,
    in_order: bool = False,
    before_audit: Callable[[], object] | None = None,
) -> Answer:
    """Write the snapshot of one partition below `path` and audit it. ISR and assignment left out are all brokers given.

    `source`: topics_describe, user (with `leader_epoch`), or inferred (nobody says anything); where `metadata` has copies of
    the metadata log by node, nothing else says who leads. `in_order`: a manifest has begin and end of each copy, which then is in
    the order of C.2; without a manifest the files may be of moments in any order. `before_audit` may still change the files.
    """
    brokers = {broker_id: replace(one, topic=topic) for broker_id, one in brokers.items()}
    isr = sorted(brokers if isr is None else isr)
    assigned = sorted(brokers if replicas is None else replicas)
    listed = Listed(leader, assigned, isr, tuple(elr), configs=configs or {}, topic=topic, topic_id=listed_topic_id)
    said = {"topic": topic, "partition": 0, "leader": leader, "isr": isr}
    said |= {} if leader_epoch is None else {"leader_epoch": leader_epoch}
    has_manifest = in_order or quiesced is not None or kafka_version is not None
    write_snapshot(
        path,
        brokers,
        [listed] if source == "topics_describe" and metadata is None else (),
        leadership=[said] if source == "user" else (),
        metadata=metadata,
        manifest={"quiesced": quiesced, "kafka_version": kafka_version, "kind": None if in_order else "stopped"}
        if has_manifest
        else None,
    )
    if before_audit is not None:
        before_audit()
    answer = Answer(tables_of(audit_one(str(path), TopicPartition(topic, 0), Settings(protocol=protocol))))
    ids = [row["finding_id"] for row in answer.tables["findings"]]
    assert len(ids) == len(set(ids)), f"two findings with one id\n{answer}"
    return answer


def loss_of(answer: Answer) -> tuple[str, int, int]:
    row = answer.tables["partitions"][0]
    return row["verdict"], row["lost_records"], row["lost_committed"]


def costs(answer: Answer, candidate: int) -> tuple[int, int, int]:
    (row,) = [row for row in answer.tables["elections"] if row["candidate_id"] == candidate == row["broker_id"]]
    return row["lost_records"], row["lost_committed"], row["lost_possible"]


def asked_costs(path: Path) -> dict[int, tuple[int, int, int]]:
    """Costs of each candidate if the snapshot's partition is asked for, whether or not there is anything to decide."""
    rows = audit_all(str(path), Settings(), asked=[TopicPartition("orders", 0)]).rows("elections")
    return {
        row["candidate_id"]: (row["lost_records"], row["lost_committed"], row["lost_possible"])
        for row in rows
        if row["candidate_id"] == row["broker_id"]
    }
