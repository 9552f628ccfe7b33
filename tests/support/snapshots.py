"""The one writer of snapshots: broker log directories as Kafka lays them out, metadata logs, describe listing, manifest.

Everything written is a pure function of the arguments: no clock, no random ids.
"""

from __future__ import annotations

import base64
import hashlib
import json
import struct
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

from tests.support.metadata_log import MetadataLog, write_metadata_log

DESCRIBE = "kafka-topics-describe.txt"
#: `index.interval.bytes`: an index entry is written with the batch that follows this many bytes.
INDEX_INTERVAL_BYTES = 4096


def make_uuid(name: str) -> str:
    """A Kafka `Uuid` (22 characters of base64url) that depends on `name` only and begins with no dash."""
    digest = bytearray(hashlib.sha256(name.encode()).digest()[:16])
    digest[0] &= 0x7F
    return base64.urlsafe_b64encode(bytes(digest)).decode().rstrip("=")


TOPIC = "orders"
TOPIC_ID = make_uuid("orders topic")
#: What a replica has unless a test says otherwise: checkpoints at its log end, and an epoch file that says what its batches do.
LOG_END, OF_BATCHES = -1, "batches"


@dataclass(frozen=True, slots=True)
class Replica:
    """One replica: its log, its checkpoints, and what became of its files. Offsets are exclusive ends; None leaves an
    entry or a file out."""

    batches: Sequence[bytes] = ()
    """Encoded batches or legacy entries in file order."""
    epochs: Sequence[tuple[int, int]] | str | None = OF_BATCHES
    """Lines (leader epoch, start offset) of `leader-epoch-checkpoint`; none of them writes Kafka's empty file."""
    high_watermark: int | None = LOG_END
    recovery_point: int | None = LOG_END
    log_start: int | None = None
    cleaned_to: int | None = None
    topic_id: str | None = TOPIC_ID
    topic: str = TOPIC
    partition: int = 0
    per_segment: int | None = None
    """Batches of a segment; all in one unless given."""
    first_base_offset: int | None = None
    """Name of the first segment; by default the first batch's offset, 0 for an empty log."""
    clean_shutdown: bool = False
    """The log dir has the flag of a clean stop."""
    suffix: str = ""
    """Suffix of the directory's name after Kafka put the replica aside: checkpoints have no entry of it then."""
    tail: bytes = b""
    """Bytes after the last batch."""
    remove: Sequence[str] = ()
    """Files of the partition that are taken away."""
    replace: Mapping[str, bytes] = field(default_factory=dict)
    """Files of the log dir, by their path in it, with what is written there instead."""

    @property
    def name(self) -> str:
        """Name of the directory."""
        return f"{self.topic}-{self.partition}{self.suffix}"

    @property
    def log_end(self) -> int:
        return log_end(self.batches) if self.batches else self.first_base_offset or 0

    def checkpoint(self, name: str) -> int | None:
        """The value of a checkpoint, by its field."""
        value = getattr(self, name)
        return self.log_end if value == LOG_END else value

    @property
    def epoch_lines(self) -> Sequence[tuple[int, int]] | None:
        return epochs_of(self.batches) if self.epochs == OF_BATCHES else self.epochs


def log_end(batches: Sequence[bytes]) -> int:
    """Offset after the last batch, by its header."""
    return _last_offset_and_timestamp(batches[-1])[0] + 1


def epochs_of(batches: Iterable[bytes]) -> list[tuple[int, int]]:
    """(leader epoch, base offset of its first batch), by the headers of batches of magic 2."""
    entries: list[tuple[int, int]] = []
    for batch in batches:
        base, epoch, magic = struct.unpack_from(">q4xib", batch)
        if magic == 2 and epoch >= 0 and (not entries or epoch > entries[-1][0]):
            entries.append((epoch, base))
    return entries


@dataclass(frozen=True, slots=True)
class Listed:
    """One partition in `kafka-topics --describe`. A leader of None is printed as `none`."""

    leader: int | None
    replicas: Collection[int]
    isr: Collection[int]
    elr: Collection[int] = ()
    last_known_elr: Collection[int] = ()
    configs: Mapping[str, str] = field(default_factory=dict)
    topic: str = TOPIC
    topic_id: str = TOPIC_ID
    partition: int = 0


def write_snapshot(
    path: Path,
    replicas: Mapping[int, Replica | Iterable[Replica]],
    listed: Sequence[Listed] = (),
    *,
    leadership: Sequence[Mapping[str, Any]] = (),
    metadata: Mapping[int, MetadataLog | bytes] | None = None,
    manifest: Mapping[str, Any] | None = None,
    cluster_id: str | None = None,
    disks: str | None = None,
    clean: Collection[int] = (),
) -> Path:
    """A snapshot at `path`, which is returned: log dirs broker-1, broker-2, ... by broker id, and of the sources of leadership
    those that are given: a describe listing, entries of leadership.json, copies of the metadata log by node.

    A manifest.json is written where `manifest` has the options of `manifest_text`. `disks` is what the names of the directory
    ids begin with; the brokers `clean` were stopped cleanly.
    """
    for broker_id, own in replicas.items():
        write_log_dir(
            path / f"broker-{broker_id}",
            broker_id,
            [own] if isinstance(own, Replica) else own,
            cluster_id=cluster_id,
            directory_id=None if disks is None else make_uuid(f"{disks} {broker_id}"),
            clean_shutdown=broker_id in clean,
        )
    for node, copy in (metadata or {}).items():
        write_metadata_log(path, node, copy)
    if listed:
        (path / DESCRIBE).write_text(describe_text(listed))
    if leadership:
        (path / "leadership.json").write_text(json.dumps(list(leadership)))
    if manifest is not None:
        (path / "manifest.json").write_text(manifest_text({one: f"broker-{one}" for one in replicas}, **manifest))
    return path


def write_pair(path: Path, leader: Replica, follower: Replica, **more: Any) -> Path:
    """Write a snapshot of brokers 1, which leads, and 2, both in sync by a describe listing; `more` are arguments of `write_snapshot`."""
    return write_snapshot(path, {1: leader, 2: follower}, [Listed(1, (1, 2), (1, 2))], **more)


def write_log_dir(
    path: Path,
    broker_id: int,
    replicas: Iterable[Replica] = (),
    *,
    cluster_id: str | None = None,
    directory_id: str | None = None,
    clean_shutdown: bool = False,
) -> Path:
    """One log dir of one broker at `path`, which is returned; it may exist but must not hold any of the files yet."""
    replicas = list(replicas)
    path.mkdir(parents=True, exist_ok=True)
    identity = [f"node.id={broker_id}", "version=1"]
    identity += [f"directory.id={directory_id}"] if directory_id else []
    identity += [f"cluster.id={cluster_id}"] if cluster_id else []
    _create(path / "meta.properties", "".join(f"{line}\n" for line in ("#", *sorted(identity))))
    for file, attribute in (
        ("replication-offset-checkpoint", "high_watermark"),
        ("recovery-point-offset-checkpoint", "recovery_point"),
        ("log-start-offset-checkpoint", "log_start"),
        ("cleaner-offset-checkpoint", "cleaned_to"),
    ):
        values = [(one, one.checkpoint(attribute)) for one in replicas if not one.suffix]
        entries = [f"{one.topic} {one.partition} {value}" for one, value in values if value is not None]
        # The cleaner's file stays empty until a log has been cleaned.
        _create(path / file, "" if attribute == "cleaned_to" and not entries else checkpoint_text(entries))
    if clean_shutdown or any(one.clean_shutdown for one in replicas):
        _create(path / ".kafka_cleanshutdown", '{"version":0,"brokerEpoch":1}')
    for one in replicas:
        write_partition(path / one.name, one)
        for name, content in one.replace.items():
            (path / name).write_bytes(content)
    return path


def write_partition(path: Path, replica: Replica) -> None:
    """One partition directory: segments with their indexes, `leader-epoch-checkpoint`, `partition.metadata`."""
    path.mkdir(parents=True)
    batches = replica.batches
    step = replica.per_segment or max(1, len(batches))
    for first in range(0, max(1, len(batches)), step):
        part = batches[first : first + step]
        base_offset = struct.unpack(">q", part[0][:8])[0] if part else 0
        if first == 0 and replica.first_base_offset is not None:
            base_offset = replica.first_base_offset
        _write_segment(path, base_offset, part)
    lines = replica.epoch_lines
    if lines is not None:
        entries = [f"{leader_epoch} {start_offset}" for leader_epoch, start_offset in lines]
        _create(path / "leader-epoch-checkpoint", checkpoint_text(entries) if entries else "")
    if replica.topic_id is not None:
        _create(path / "partition.metadata", f"version: 0\ntopic_id: {replica.topic_id}")
    if replica.tail:
        with max(path.glob("*.log")).open("ab") as file:
            file.write(replica.tail)
    for name in replica.remove:
        (path / name).unlink()


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


def checkpoint_text(entries: Sequence[str]) -> str:
    """A checkpoint file: version 0, the number of entries, the entries (`CheckpointFile`)."""
    return "".join(f"{line}\n" for line in ("0", str(len(entries)), *entries))


def describe_text(listed: Sequence[Listed]) -> str:
    """The listing of `kafka-topics --describe` as 4.x prints it; partitions of a topic follow each other."""
    lines = []
    for _, of_topic in groupby(listed, lambda one: one.topic):
        partitions = list(of_topic)
        first = partitions[0]
        configs = ",".join(f"{name}={value}" for name, value in first.configs.items())
        lines.append(
            f"Topic: {first.topic}\tTopicId: {first.topic_id}\tPartitionCount: {len(partitions)}"
            f"\tReplicationFactor: {len(first.replicas)}\tConfigs: {configs}"
        )
        for one in partitions:
            leader = "none" if one.leader is None else str(one.leader)
            lines.append(
                f"\tTopic: {one.topic}\tPartition: {one.partition}\tLeader: {leader}"
                f"\tReplicas: {_ids(one.replicas)}\tIsr: {_ids(one.isr)}"
                f"\tElr: {_ids(one.elr)}\tLastKnownElr: {_ids(one.last_known_elr)}"
            )
    return "".join(f"{line}\n" for line in lines)


def manifest_text(
    brokers: Mapping[int, str],
    *,
    quiesced: bool | None = None,
    kind: str | None = "stopped",
    kafka_version: str | None = None,
) -> str:
    """A `manifest.json` for log dirs (broker id → path) that were all copied within the same second."""
    started, finished = "2023-11-14T22:30:00Z", "2023-11-14T22:30:01Z"
    manifest = {"schema_version": 1, "quiesced": quiesced}
    if kafka_version is not None:
        manifest["kafka_version"] = kafka_version
    manifest["brokers"] = [
        {"broker_id": broker_id, "log_dir": log_dir, "started": started, "finished": finished}
        | ({} if kind is None else {"kind": kind})
        for broker_id, log_dir in sorted(brokers.items())
    ]
    return json.dumps(manifest, indent=2) + "\n"


def write_manifest(path: Path, kinds: Mapping[int, str] | None = None, **content: Any) -> None:
    """The manifest.json of a snapshot with these fields, or with one log dir of each broker and the kind of its copy."""
    if kinds is not None:
        content["brokers"] = [
            {"broker_id": one, "log_dir": f"broker-{one}", "kind": kind} for one, kind in kinds.items()
        ]
    path.mkdir(parents=True, exist_ok=True)
    (path / "manifest.json").write_text(json.dumps({"schema_version": 1, **content}))


def _ids(broker_ids: Collection[int]) -> str:
    return ",".join(map(str, broker_ids))


def _create(path: Path, text: str) -> None:
    with open(path, "xb") as file:
        file.write(text.encode("ascii"))
