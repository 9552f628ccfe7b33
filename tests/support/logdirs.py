"""Writer of broker log directories as Kafka lays them out: segments, checkpoint files, identity, describe listing.

Everything written is a pure function of the arguments: no clock, no random ids.
"""

from __future__ import annotations

import base64
import hashlib
import json
import struct
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

DESCRIBE = "kafka-topics-describe.txt"
#: `index.interval.bytes`: an index entry is written with the batch that follows this many bytes.
INDEX_INTERVAL_BYTES = 4096


def make_uuid(name: str) -> str:
    """A Kafka `Uuid` (22 characters of base64url) that depends on `name` only and begins with no dash."""
    digest = bytearray(hashlib.sha256(name.encode()).digest()[:16])
    digest[0] &= 0x7F
    return base64.urlsafe_b64encode(bytes(digest)).decode().rstrip("=")


@dataclass(frozen=True, slots=True)
class PartitionFiles:
    """What one log dir holds of one partition. Offsets are exclusive ends; None leaves an entry or a file out."""

    topic: str
    partition: int
    batches: tuple[bytes, ...]
    """Encoded batches or legacy entries in file order."""
    epochs: tuple[tuple[int, int], ...] | None
    """Lines (leader epoch, start offset) of `leader-epoch-checkpoint`; an empty tuple writes Kafka's empty file."""
    high_watermark: int | None
    recovery_point: int | None
    log_start: int | None = None
    cleaned_to: int | None = None
    topic_id: str | None = None
    batches_per_segment: int | None = None
    first_base_offset: int | None = None
    """Name of the first segment; by default the first batch's offset, 0 for an empty log."""

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True)
class PartitionListing:
    """One line of `kafka-topics --describe`. A leader of None is printed as `none`."""

    partition: int
    leader: int | None
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class TopicListing:
    """One topic of `kafka-topics --describe`."""

    topic: str
    topic_id: str
    partitions: tuple[PartitionListing, ...]
    configs: Mapping[str, str] = field(default_factory=dict)


def checkpoint_text(entries: Sequence[str]) -> str:
    """A checkpoint file: version 0, the number of entries, the entries (`CheckpointFile`)."""
    return "".join(f"{line}\n" for line in ("0", str(len(entries)), *entries))


def write_log_dir(
    path: Path,
    broker_id: int,
    partitions: Sequence[PartitionFiles],
    *,
    cluster_id: str | None = None,
    directory_id: str | None = None,
    node_id: bool = True,
    clean_shutdown: bool = False,
) -> None:
    """One log dir of one broker at `path`, which may exist but must not hold any of the files yet.

    `node_id=False` writes the older meta.properties (version 0, `broker.id`).
    """
    path.mkdir(parents=True, exist_ok=True)
    identity = [f"node.id={broker_id}", "version=1"] if node_id else [f"broker.id={broker_id}", "version=0"]
    identity += [f"directory.id={directory_id}"] if directory_id else []
    identity += [f"cluster.id={cluster_id}"] if cluster_id else []
    _create(path / "meta.properties", "".join(f"{line}\n" for line in ("#", *sorted(identity))))
    for file, attribute in (
        ("replication-offset-checkpoint", "high_watermark"),
        ("recovery-point-offset-checkpoint", "recovery_point"),
        ("log-start-offset-checkpoint", "log_start"),
        ("cleaner-offset-checkpoint", "cleaned_to"),
    ):
        values = [(files.topic, files.partition, getattr(files, attribute)) for files in partitions]
        entries = [f"{topic} {partition} {value}" for topic, partition, value in values if value is not None]
        # The cleaner's file stays empty until a log has been cleaned.
        _create(path / file, "" if attribute == "cleaned_to" and not entries else checkpoint_text(entries))
    if clean_shutdown:
        _create(path / ".kafka_cleanshutdown", '{"version":0,"brokerEpoch":1}')
    for files in partitions:
        write_partition(path / files.name, files)


def write_brokers(
    path: Path,
    logs: Mapping[int, Sequence[PartitionFiles]],
    topics: Sequence[TopicListing] = (),
    *,
    manifest: Mapping[str, Any] | None = None,
    cluster_id: str | None = None,
    disks: str | None = None,
    clean: Collection[int] = (),
) -> Path:
    """A snapshot at `path`, which is returned: log dirs broker-1, broker-2, ... by broker id, with a describe listing where there
    are `topics`, and a manifest.json where `manifest` has the options of `manifest_text`.

    `disks` is what the names of the directory ids begin with; the brokers `clean` were stopped cleanly.
    """
    for broker_id, files in logs.items():
        write_log_dir(
            path / f"broker-{broker_id}",
            broker_id,
            files,
            cluster_id=cluster_id,
            directory_id=None if disks is None else make_uuid(f"{disks} {broker_id}"),
            clean_shutdown=broker_id in clean,
        )
    if topics:
        (path / DESCRIBE).write_text(describe_text(topics))
    if manifest is not None:
        (path / "manifest.json").write_text(manifest_text({one: f"broker-{one}" for one in logs}, **manifest))
    return path


def write_partition(path: Path, files: PartitionFiles) -> None:
    """One partition directory: segments with their indexes, `leader-epoch-checkpoint`, `partition.metadata`."""
    path.mkdir(parents=True)
    step = files.batches_per_segment or max(1, len(files.batches))
    for first in range(0, max(1, len(files.batches)), step):
        batches = files.batches[first : first + step]
        base_offset = struct.unpack(">q", batches[0][:8])[0] if batches else 0
        if first == 0 and files.first_base_offset is not None:
            base_offset = files.first_base_offset
        _write_segment(path, base_offset, batches)
    if files.epochs is not None:
        entries = [f"{leader_epoch} {start_offset}" for leader_epoch, start_offset in files.epochs]
        _create(path / "leader-epoch-checkpoint", checkpoint_text(entries) if entries else "")
    if files.topic_id is not None:
        _create(path / "partition.metadata", f"version: 0\ntopic_id: {files.topic_id}")


def _write_segment(path: Path, base_offset: int, batches: Sequence[bytes]) -> None:
    index, time_index = bytearray(), bytearray()
    position = since_last_entry = 0
    for batch in batches:
        last_offset, timestamp = _last_offset_and_timestamp(batch)
        if since_last_entry > INDEX_INTERVAL_BYTES:
            index += struct.pack(">ii", last_offset - base_offset, position)
            time_index += struct.pack(">qi", timestamp, last_offset - base_offset)
            since_last_entry = 0
        position += len(batch)
        since_last_entry += len(batch)
    stem = f"{base_offset:020d}"
    for suffix, content in ((".log", b"".join(batches)), (".index", bytes(index)), (".timeindex", bytes(time_index))):
        with open(path / (stem + suffix), "xb") as file:
            file.write(content)


def _last_offset_and_timestamp(batch: bytes) -> tuple[int, int]:
    offset, magic = struct.unpack(">q", batch[:8])[0], batch[16]
    if magic < 2:
        return offset, struct.unpack(">q", batch[18:26])[0] if magic == 1 else -1
    last_offset_delta, _, max_timestamp = struct.unpack(">iqq", batch[23:43])
    return offset + last_offset_delta, max_timestamp


def describe_text(topics: Sequence[TopicListing]) -> str:
    """The listing of `kafka-topics --describe` as 4.x prints it."""
    lines = []
    for topic in topics:
        configs = ",".join(f"{name}={value}" for name, value in topic.configs.items())
        replication = len(topic.partitions[0].replicas) if topic.partitions else 0
        lines.append(
            f"Topic: {topic.topic}\tTopicId: {topic.topic_id}\tPartitionCount: {len(topic.partitions)}"
            f"\tReplicationFactor: {replication}\tConfigs: {configs}"
        )
        for listing in topic.partitions:
            leader = "none" if listing.leader is None else str(listing.leader)
            lines.append(
                f"\tTopic: {topic.topic}\tPartition: {listing.partition}\tLeader: {leader}"
                f"\tReplicas: {_ids(listing.replicas)}\tIsr: {_ids(listing.isr)}"
                f"\tElr: {_ids(listing.elr)}\tLastKnownElr: {_ids(listing.last_known_elr)}"
            )
    return "".join(f"{line}\n" for line in lines)


def manifest_text(
    brokers: Mapping[int, str], *, quiesced: bool | None = None, kind: str = "stopped", kafka_version: str | None = None
) -> str:
    """A `manifest.json` for log dirs (broker id → path) that were all copied within the same second."""
    started, finished = "2023-11-14T22:30:00Z", "2023-11-14T22:30:01Z"
    manifest = {"schema_version": 1, "quiesced": quiesced}
    if kafka_version is not None:
        manifest["kafka_version"] = kafka_version
    manifest["brokers"] = [
        {"broker_id": broker_id, "log_dir": log_dir, "started": started, "finished": finished, "kind": kind}
        for broker_id, log_dir in sorted(brokers.items())
    ]
    return json.dumps(manifest, indent=2) + "\n"


def _ids(broker_ids: Sequence[int]) -> str:
    return ",".join(map(str, broker_ids))


def _create(path: Path, text: str) -> None:
    with open(path, "x", encoding="ascii", newline="\n") as file:
        file.write(text)
