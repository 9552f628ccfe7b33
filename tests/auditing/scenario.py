"""Snapshots of one partition made to order, and the audit's answers on them in a form that reads well in a test."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.encoder import encode_batch, encode_legacy
from tests.support.logdirs import (
    PartitionFiles,
    PartitionListing,
    TopicListing,
    describe_text,
    make_uuid,
    manifest_text,
    write_log_dir,
)

from replica_audit.config import Settings
from replica_audit.model import TopicPartition
from replica_audit.runner.in_process import audit_one

TOPIC = "orders"
TOPIC_ID = make_uuid("orders topic")


def written(start: int, end: int, epoch: int, mark: str = "", step: int = 5) -> list[bytes]:
    """Batches of at most `step` records over offsets [start, end): equal arguments and offsets, equal bytes."""
    return [encode_batch(base, min(step, end - base), epoch, mark=f"{mark}{base} ") for base in range(start, end, step)]


def written_legacy(start: int, end: int, mark: str = "", magic: int = 1) -> list[bytes]:
    """One message of magic 0 or 1 an offset."""
    return [encode_legacy(offset, f"{mark}{offset}".encode(), magic=magic) for offset in range(start, end)]


def ends(batches: Sequence[bytes]) -> int:
    """Offset after the last batch, by its header."""
    last = batches[-1]
    delta = int.from_bytes(last[23:27], "big") if last[16] == 2 else 0
    return int.from_bytes(last[:8], "big") + delta + 1


@dataclass(frozen=True)
class Broker:
    """One replica. Checkpoints left out are the log end; epochs left out are those of the batches."""

    batches: Sequence[bytes]
    high_watermark: int | None = -1
    recovery_point: int | None = -1
    epochs: Sequence[tuple[int, int]] | None | str = "batches"
    log_start: int | None = None
    cleaned_to: int | None = None
    per_segment: int | None = None
    first_base_offset: int | None = None
    topic_id: str | None = TOPIC_ID
    clean_shutdown: bool = False
    tail: bytes = b""
    """Bytes after the last batch."""
    remove: Sequence[str] = ()
    """Files of the partition that are taken away."""
    replace: Mapping[str, bytes] = field(default_factory=dict)
    """Files of the log dir, by their path in it, with what is written there instead."""


@dataclass(frozen=True)
class Answer:
    """The report rows of one audited partition."""

    tables: Mapping[str, list[dict]]

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
    brokers: Mapping[int, Broker],
    *,
    leader: int | None = 1,
    isr: Iterable[int] | None = None,
    replicas: Iterable[int] | None = None,
    elr: Iterable[int] = (),
    source: str = "topics_describe",
    leader_epoch: int | None = None,
    configs: Mapping[str, str] | None = None,
    quiesced: bool | None = None,
    kafka_version: str | None = None,
    protocol: str = "fetch",
    topic: str = TOPIC,
    listed_topic_id: str = TOPIC_ID,
    before_audit: Callable[[], object] | None = None,
) -> Answer:
    """Write the snapshot below `path` and audit it. ISR and assignment left out are all brokers given.

    `source`: topics_describe, user (with `leader_epoch`), or inferred (nobody says anything). `before_audit` may still change
    the files.
    """
    for broker_id, broker in brokers.items():
        _write(path / f"broker-{broker_id}", broker_id, broker, topic)
    isr = tuple(sorted(brokers if isr is None else isr))
    if source == "topics_describe":
        assigned = tuple(sorted(brokers if replicas is None else replicas))
        listing = PartitionListing(0, leader, assigned, isr, tuple(elr))
        text = describe_text([TopicListing(topic, listed_topic_id, (listing,), dict(configs or {}))])
        (path / "kafka-topics-describe.txt").write_text(text)
    elif source == "user":
        entry = {"topic": topic, "partition": 0, "leader": leader, "isr": list(isr)}
        if leader_epoch is not None:
            entry["leader_epoch"] = leader_epoch
        (path / "leadership.json").write_text(json.dumps([entry]))
    if quiesced is not None or kafka_version is not None:
        places = {broker_id: f"broker-{broker_id}" for broker_id in brokers}
        (path / "manifest.json").write_text(manifest_text(places, quiesced=quiesced, kafka_version=kafka_version))
    if before_audit is not None:
        before_audit()
    answer = Answer(audit_one(str(path), TopicPartition(topic, 0), Settings(protocol=protocol)).tables)
    ids = [row["finding_id"] for row in answer.tables["findings"]]
    assert len(ids) == len(set(ids)), f"two findings with one id\n{answer}"
    return answer


def _write(path: Path, broker_id: int, broker: Broker, topic: str) -> None:
    batches = list(broker.batches)
    end = ends(batches) if batches else broker.first_base_offset or 0
    epochs = _epochs(batches) if broker.epochs == "batches" else broker.epochs
    files = PartitionFiles(
        topic,
        0,
        tuple(batches),
        None if epochs is None else tuple(epochs),
        end if broker.high_watermark == -1 else broker.high_watermark,
        end if broker.recovery_point == -1 else broker.recovery_point,
        log_start=broker.log_start,
        cleaned_to=broker.cleaned_to,
        topic_id=broker.topic_id,
        batches_per_segment=broker.per_segment,
        first_base_offset=broker.first_base_offset,
    )
    write_log_dir(path, broker_id, (files,), clean_shutdown=broker.clean_shutdown)
    partition = path / files.name
    if broker.tail:
        with max(partition.glob("*.log")).open("ab") as file:
            file.write(broker.tail)
    for name in broker.remove:
        (partition / name).unlink()
    for name, content in broker.replace.items():
        (path / name).write_bytes(content)


def _epochs(batches: Sequence[bytes]) -> list[tuple[int, int]]:
    entries: list[tuple[int, int]] = []
    for batch in batches:
        epoch = int.from_bytes(batch[12:16], "big", signed=True) if batch[16] == 2 else -1
        if epoch >= 0 and (not entries or epoch > entries[-1][0]):
            entries.append((epoch, int.from_bytes(batch[:8], "big")))
    return entries
