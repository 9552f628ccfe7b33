"""Writer of KRaft metadata logs: messages, batches of them, and the files of `__cluster_metadata-0`."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.encoder import Record, encode_batch

TIME_MS = 1_700_000_000_000
#: Types of control records.
LEADER_CHANGE, SNAPSHOT_HEADER, SNAPSHOT_FOOTER, KRAFT_VERSION, KRAFT_VOTERS = 2, 3, 4, 5, 6


def uvarint(number: int) -> bytes:
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*encoded, number))


def uuid(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "==")


def string(text: str | None) -> bytes:
    return b"\x00" if text is None else uvarint(len(text.encode()) + 1) + text.encode()


def ids(brokers: Iterable[int]) -> bytes:
    brokers = list(brokers)
    return uvarint(len(brokers) + 1) + b"".join(struct.pack(">i", broker) for broker in brokers)


def uuids(texts: Iterable[str]) -> bytes:
    texts = list(texts)
    return uvarint(len(texts) + 1) + b"".join(uuid(text) for text in texts)


def tags(fields: Mapping[int, bytes] | None = None) -> bytes:
    fields = dict(sorted((fields or {}).items()))
    return uvarint(len(fields)) + b"".join(uvarint(tag) + uvarint(len(data)) + data for tag, data in fields.items())


def message(key: int, version: int, body: bytes, frame: int = 1) -> bytes:
    return uvarint(frame) + uvarint(key) + uvarint(version) + body


def topic(name: str, topic_id: str) -> bytes:
    return message(2, 0, string(name) + uuid(topic_id) + tags())


def remove_topic(topic_id: str) -> bytes:
    return message(9, 0, uuid(topic_id) + tags())


def partition(
    topic_id: str,
    replicas: Sequence[int],
    leader: int,
    *,
    number: int = 0,
    isr: Sequence[int] | None = None,
    leader_epoch: int = 0,
    partition_epoch: int = 0,
    directories: Sequence[str] = (),
    elr: Sequence[int] | None = None,
    last_known_elr: Sequence[int] | None = None,
    recovering: bool = False,
) -> bytes:
    body = (
        struct.pack(">i", number)
        + uuid(topic_id)
        + ids(replicas)
        + ids(replicas if isr is None else isr)
        + ids(())
        + ids(())
    )
    body += struct.pack(">iii", leader, leader_epoch, partition_epoch) + uuids(directories)
    fields = {} if not recovering else {0: b"\x01"}
    fields |= {} if elr is None else {1: ids(elr)}
    fields |= {} if last_known_elr is None else {2: ids(last_known_elr)}
    return message(3, 2, body + tags(fields))


def new_topic(name: str, topic_id: str, replicas: Sequence[int], leader: int, **more: Any) -> list[bytes]:
    """A topic of one partition; `more` are arguments of `partition`."""
    return [topic(name, topic_id), partition(topic_id, replicas, leader, **more)]


def change(
    topic_id: str,
    *,
    number: int = 0,
    isr: Sequence[int] | None = None,
    leader: int | None = None,
    replicas: Sequence[int] | None = None,
    recovering: bool | None = None,
    elr: Sequence[int] | None = None,
    last_known_elr: Sequence[int] | None = None,
    adding: Sequence[int] | None = None,
    removing: Sequence[int] | None = None,
    directories: Sequence[str] | None = None,
) -> bytes:
    fields: dict[int, bytes] = {} if directories is None else {8: uuids(directories)}
    for tag, value in ((0, isr), (2, replicas), (3, removing), (4, adding), (6, elr), (7, last_known_elr)):
        if value is not None:
            fields[tag] = ids(value)
    if leader is not None:
        fields[1] = struct.pack(">i", leader)
    if recovering is not None:
        fields[5] = bytes([recovering])
    return message(5, 2, struct.pack(">i", number) + uuid(topic_id) + tags(fields))


def config(resource_type: int, resource: str, name: str, value: str | None) -> bytes:
    return message(4, 0, struct.pack(">b", resource_type) + string(resource) + string(name) + string(value) + tags())


def register_broker(broker: int, *, fenced: bool = False, log_dirs: Sequence[str] = ()) -> bytes:
    body = struct.pack(">i", broker) + b"\x00" + bytes(16) + struct.pack(">q", 1)
    body += uvarint(2) + string("PLAINTEXT") + string("host") + struct.pack(">Hh", 9092, 0) + tags()
    body += uvarint(2) + string("metadata.version") + struct.pack(">hh", 1, 25) + tags()
    return message(
        0, 3, body + string(None) + bytes([fenced]) + b"\x00" + tags({0: uuids(log_dirs)} if log_dirs else {})
    )


def unregister_broker(broker: int) -> bytes:
    return message(1, 0, struct.pack(">iq", broker, 1) + tags())


def registration_change(
    broker: int, fenced: int | None = None, *, stopping: int | None = None, log_dirs: Sequence[str] = ()
) -> bytes:
    fields = {tag: struct.pack(">b", value) for tag, value in ((0, fenced), (1, stopping)) if value is not None}
    fields |= {2: uuids(log_dirs)} if log_dirs else {}
    return message(17, 2, struct.pack(">iq", broker, 1) + tags(fields))


def feature(name: str, level: int) -> bytes:
    return message(12, 0, string(name) + struct.pack(">h", level) + tags())


def producer_ids(first_free: int) -> bytes:
    """A broker was given the block of producer ids below `first_free`."""
    return message(15, 0, struct.pack(">iqq", 0, 0, first_free) + tags())


def zk_migration(state: int) -> bytes:
    """1 while controllers write to ZooKeeper too (MIGRATION, since 3.5), 2 before, 3 after."""
    return message(21, 0, struct.pack(">b", state) + tags())


def no_op() -> bytes:
    """The record that the controller writes every 500 ms (KIP-835)."""
    return message(20, 0, tags())


def clear_elr(name: str) -> bytes:
    return message(28, 0, string(name) + tags())


def begin() -> bytes:
    return message(23, 0, tags({0: string("a name")}))


def end() -> bytes:
    return message(24, 0, tags())


def abort() -> bytes:
    return message(25, 0, tags({0: string("a reason")}))


def batch(
    offset: int, messages: Sequence[bytes], *, epoch: int = 1, time_ms: int = TIME_MS, codec: str = "none"
) -> bytes:
    """One batch of metadata records."""
    return encode_batch(offset, [Record(None, value) for value in messages], epoch, timestamp_ms=time_ms, codec=codec)


def control(offset: int, kind: int, value: bytes, *, epoch: int = 1, time_ms: int = TIME_MS) -> bytes:
    record = Record(struct.pack(">hh", 0, kind), value)
    return encode_batch(offset, [record], epoch, timestamp_ms=time_ms, control=True)


def leader_change(offset: int, leader: int, voters: Sequence[int], *, epoch: int = 1, time_ms: int = TIME_MS) -> bytes:
    listed = uvarint(len(voters) + 1) + b"".join(struct.pack(">i", voter) + tags() for voter in voters)
    return control(
        offset, LEADER_CHANGE, struct.pack(">hi", 0, leader) + listed + listed + tags(), epoch=epoch, time_ms=time_ms
    )


def voters_record(offset: int, directories: Mapping[int, str], *, epoch: int = 1) -> bytes:
    """A VotersRecord (KIP-853): the voters, the directory that each votes from, and its address."""
    listed = uvarint(len(directories) + 1) + b"".join(
        struct.pack(">i", voter)
        + uuid(directory)
        + uvarint(2)
        + (string("CONTROLLER") + string(f"voter-{voter}") + struct.pack(">H", 9093) + tags())
        + (struct.pack(">hh", 0, 1) + tags() + tags())
        for voter, directory in directories.items()
    )
    return control(offset, KRAFT_VOTERS, struct.pack(">h", 0) + listed + tags(), epoch=epoch)


def snapshot(messages: Sequence[bytes], *, epoch: int = 1, time_ms: int = TIME_MS, footer: bool = True) -> bytes:
    """The content of a `.checkpoint` file."""
    header = control(0, SNAPSHOT_HEADER, struct.pack(">hq", 0, time_ms) + tags(), epoch=epoch)
    body = batch(1, messages, epoch=epoch) if messages else b""
    last = control(1 + len(messages), SNAPSHOT_FOOTER, struct.pack(">h", 0) + tags(), epoch=epoch)
    return header + body + (last if footer else b"")


def history(
    begin: Sequence[bytes], *later: bytes | Sequence[bytes], apart_ms: int = 1000, voters: Sequence[int] = (100,)
) -> bytes:
    """A log of which the first of `voters` is elected, writes `begin`, and then each of `later` in a batch, `apart_ms` apart."""
    log = leader_change(0, voters[0], voters) + batch(1, begin)
    offset = 1 + len(begin)
    for number, one in enumerate(later, 1):
        messages = [one] if isinstance(one, bytes) else one
        log += batch(offset, messages, time_ms=TIME_MS + apart_ms * number)
        offset += len(messages)
    return log


@dataclass(frozen=True, slots=True)
class MetadataLog:
    """A node's copy of the metadata log."""

    segments: Mapping[int, bytes]
    """By base offset."""
    snapshots: Mapping[tuple[int, int], bytes] = field(default_factory=dict)
    """By end offset and epoch."""
    voters: Sequence[int] = ()
    """In quorum-state, as `leader_epoch` is."""
    leader_epoch: int | None = None
    cluster_id: str | None = None
    directory_id: str | None = None
    log_dir: str | None = None
    """Directory of the log; by default controller-<id> from node 100 on, and broker-<id> below."""


def write_metadata_log(root: Path, node: int, copy: MetadataLog | bytes) -> Path:
    """The copy, or one segment from offset 0 on, as `__cluster_metadata-0` of a node below `root`; that directory."""
    copy = MetadataLog({0: copy}) if isinstance(copy, bytes) else copy
    log_dir = root / (copy.log_dir or f"{'controller' if node > 99 else 'broker'}-{node}")
    path = log_dir / "__cluster_metadata-0"
    path.mkdir(parents=True)
    if not (log_dir / "meta.properties").exists():
        lines = ["version=1", f"node.id={node}"] + ([f"cluster.id={copy.cluster_id}"] if copy.cluster_id else [])
        lines += [f"directory.id={copy.directory_id}"] if copy.directory_id else []
        (log_dir / "meta.properties").write_text("".join(f"{line}\n" for line in lines))
    for base, content in copy.segments.items():
        (path / f"{base:020d}.log").write_bytes(content)
    for (end_offset, epoch), content in copy.snapshots.items():
        (path / f"{end_offset:020d}-{epoch:010d}.checkpoint").write_bytes(content)
    state = {"data_version": 0, "currentVoters": [{"voterId": voter} for voter in copy.voters]}
    state |= {} if copy.leader_epoch is None else {"leaderEpoch": copy.leader_epoch}
    (path / "quorum-state").write_text(json.dumps(state))
    return path
