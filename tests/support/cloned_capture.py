"""A capture of a real cluster with each of its topics many times: what grows with the number of partitions is seen on it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.support import metadata_log
from tests.support.encoder import Record, encode_batch
from tests.support.snapshots import make_uuid

from replica_audit.batch_header import CODEC_MASK, CONTROL
from replica_audit.segments.compression import decompress
from replica_audit.segments.record_batch import HEADER_BYTES
from replica_audit.segments.records import read_records
from replica_audit.snapshot.log_dir_names import parse_directory_name
from replica_audit.snapshot.metadata.log_copies import scan_headers

_KEPT = ("leader-epoch-checkpoint", "partition.metadata")
_LISTING = "kafka-topics-describe.txt"


def clone_capture(source: Path, target: Path, copies: int) -> None:
    """Write the capture at `source` to `target` with `copies` more of every topic but Kafka's own, as topics of other names
    and ids. What the metadata log says of a topic it says in the same batch of each of them.
    """
    topics = _topics(source)
    target.mkdir(parents=True)
    for path in sorted(source.rglob("*")):
        place = target / path.relative_to(source)
        if path.name == "dump" or "dump" in path.relative_to(source).parts[:-1]:
            continue
        if path.is_dir():
            _clone_directory(path, place, topics, copies)
        elif path.name.endswith("-offset-checkpoint"):
            place.write_text(_clone_checkpoint(path.read_text(), topics, copies))
        elif path.name == _LISTING:
            place.write_text(_clone_listing(path.read_text(), topics, copies))
        elif path.parent.name == "__cluster_metadata-0" and path.suffix in (".log", ".checkpoint"):
            assert path.suffix == ".log", f"offsets in the name of {path} would have to change"
            place.write_bytes(_clone_metadata(path, topics, copies))
        elif not place.exists():
            shutil.copyfile(path, place)


def clone_name(topic: str, number: int) -> str:
    """The name of one of the copies of a topic."""
    return f"{topic}.{number}"


def _clone_id(topic: str, number: int) -> str:
    return make_uuid(clone_name(topic, number))


def _topics(source: Path) -> dict[str, str]:
    """Ids of the topics that are cloned, by name."""
    found = {}
    for path in source.rglob("partition.metadata"):
        at = parse_directory_name(path.parent.name).topic_partition
        if at is not None and not at.topic.startswith("__"):
            found[at.topic] = path.read_text().split()[-1]
    return dict(sorted(found.items()))


def _clone_directory(path: Path, place: Path, topics: Mapping[str, str], copies: int) -> None:
    place.mkdir()
    at = parse_directory_name(path.name).topic_partition
    if at is None or at.topic not in topics:
        return
    files = {one.name: one.read_bytes() for one in path.iterdir() if one.suffix == ".log" or one.name in _KEPT}
    for number in range(copies):
        clone = place.with_name(clone_name(at.topic, number) + path.name.removeprefix(at.topic))
        clone.mkdir()
        for name, content in files.items():
            if name == "partition.metadata":
                content = content.replace(topics[at.topic].encode(), _clone_id(at.topic, number).encode())
            (clone / name).write_bytes(content)


def _clone_checkpoint(text: str, topics: Mapping[str, str], copies: int) -> str:
    if not text:
        return text
    version, _, *lines = text.splitlines()
    for line in list(lines):
        topic, rest = line.split(" ", 1)
        if topic in topics:
            lines += [f"{clone_name(topic, number)} {rest}" for number in range(copies)]
    return "".join(f"{line}\n" for line in (version, str(len(lines)), *lines))


def _clone_listing(text: str, topics: Mapping[str, str], copies: int) -> str:
    lines = text.splitlines(keepends=True)
    for topic, topic_id in topics.items():
        of_topic = [line for line in lines if line.split()[1] == topic]
        for number in range(copies):
            lines += [
                line.replace(f"Topic: {topic}\t", f"Topic: {clone_name(topic, number)}\t").replace(
                    topic_id, _clone_id(topic, number)
                )
                for line in of_topic
            ]
    return "".join(lines)


def _clone_metadata(path: Path, topics: Mapping[str, str], copies: int) -> bytes:
    """The log with records added, so that its offsets are others."""
    data = path.read_bytes()
    with path.open("rb") as stream:
        headers, damage, _ = scan_headers(stream, len(data), 0)
    assert not damage and int(headers["base_offset"][0]) == 0
    written, offset = [], 0
    for header in headers:
        position, attributes = int(header["position"]), int(header["attributes"])
        content = data[position + HEADER_BYTES : position + int(header["size"])]
        inside = decompress(attributes & CODEC_MASK, content, 1 << 30)
        records = [Record(one[2], one[3]) for one in read_records(inside, int(header["record_count"]))]
        if not attributes & CONTROL:
            records = [clone for one in records for clone in _clone_record(one, topics, copies)]
        written.append(
            encode_batch(
                offset,
                records,
                int(header["leader_epoch"]),
                timestamp_ms=int(header["base_timestamp"]),
                control=bool(attributes & CONTROL),
            )
        )
        offset += len(records)
    return b"".join(written)


def _clone_record(record: Record, topics: Mapping[str, str], copies: int) -> Iterator[Record]:
    """The record, and the same for every copy of the topic that it is about."""
    yield record
    value = record.value or b""
    for topic, topic_id in topics.items():
        name, raw = metadata_log.string(topic), metadata_log.uuid(topic_id)
        if name in value or raw in value:
            for number in range(copies):
                named = value.replace(name, metadata_log.string(clone_name(topic, number)))
                yield Record(record.key, named.replace(raw, metadata_log.uuid(_clone_id(topic, number))))
