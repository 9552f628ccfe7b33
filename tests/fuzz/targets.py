"""Fuzz targets: a function of bytes for each parser, and the errors with which it rejects its input.

Any other exception is a crash, and so is an answer that no table can hold or an error that no terminal can show.
"""

from __future__ import annotations

import io
import os
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, NamedTuple

from tests.fuzz.evidence import read_frames, read_lists
from tests.fuzz.memory import MemorySnapshot, with_right_checksums
from tests.fuzz.stood_in import show_collected_again, show_observed
from tests.fuzz.whole import show_changed_snapshot
from tests.support import metadata_log
from tests.support import report_rows as rows
from tests.support.audit_json_text import audit_json_text
from tests.support.encoder import CODECS, compress, encode_legacy

from replica_audit.auditing.known_findings import read_baseline
from replica_audit.client_properties import read_client_properties
from replica_audit.config import Settings, resolve_settings
from replica_audit.errors import FormatError, UsageError
from replica_audit.model import TopicPartition
from replica_audit.quality.suites import load_plan
from replica_audit.report.facts.verdict import build_verdict
from replica_audit.segments.compression import CODEC_NAMES, CodecError, decompress
from replica_audit.segments.record_batch import MAGIC_AT, PREFIX_BYTES
from replica_audit.segments.records import RecordError, RecordHasher, decode_payloads, decode_records
from replica_audit.segments.scan import scan_segment
from replica_audit.segments.summary import Summariser, summary_from_json, summary_to_json
from replica_audit.snapshot.broker_logs import read_broker_log
from replica_audit.snapshot.checkpoints import (
    parse_epoch_checkpoint,
    parse_meta_properties,
    parse_offset_checkpoint,
    parse_partition_metadata,
)
from replica_audit.snapshot.chunked_segments import DecompressedChunks
from replica_audit.snapshot.chunked_segments import parse_manifest as parse_chunks
from replica_audit.snapshot.consumer_offsets import GROUP_OFFSETS
from replica_audit.snapshot.discovery import discover
from replica_audit.snapshot.dump.dump_text import find_sections, shows_files
from replica_audit.snapshot.dump.dumped_segment import assemble_dumped_log, parse_listing
from replica_audit.snapshot.file_tree import TreeEntry
from replica_audit.snapshot.internal_topics import InternalTopic, TopicCopy, newest
from replica_audit.snapshot.inventory import MetadataLog
from replica_audit.snapshot.leadership_rows import leadership_of_rows, state_rows
from replica_audit.snapshot.leadership_sources import parse_leadership
from replica_audit.snapshot.log_dir_names import parse_directory_name, parse_file_name, parse_snapshot_name
from replica_audit.snapshot.manifest import parse_manifest
from replica_audit.snapshot.message_fields import MessageError
from replica_audit.snapshot.metadata.kraft_records import (
    KRAFT_VOTERS,
    LEADER_CHANGE,
    parse_any,
    parse_snapshot_time,
    parse_voters,
)
from replica_audit.snapshot.metadata.metadata_log import read_metadata
from replica_audit.snapshot.remote_log_metadata import REMOTE_SEGMENTS
from replica_audit.snapshot.remote_store import read_listings
from replica_audit.snapshot.replica_progress import plan_progress, read_progress
from replica_audit.snapshot.segment_sources import summarise_source
from replica_audit.snapshot.share_state import SHARE_OFFSETS
from replica_audit.snapshot.stand_ins import UnownedError, read_dumped_path
from replica_audit.snapshot.topics_describe import parse_topics_describe
from replica_audit.snapshot.transaction_log import read_transaction_states
from replica_audit.snapshot.zookeeper import parse_zookeeper

LOG = "00000000000000000000.log"
#: Enough for any record of the seeds; the library's own bound would have most executions clear memory.
_EXPANDED = 1 << 20
_HASHER = RecordHasher()


class Target(NamedTuple):
    """Function that reads the bytes, its permitted errors, the maximum number of bytes, and its share of the time.

    `runs` are the executions of one process: atheris never frees the arrays that comparisons make.
    """

    read: Callable[[bytes], Any]
    errors: tuple[type[Exception], ...] = ()
    greatest: int = 2048
    share: float = 1
    runs: int = -1


def execute(name: str, data: bytes) -> None:
    """One execution; raises what is a crash."""
    target = TARGETS[name]
    try:
        found = target.read(data)
    except target.errors as error:
        text = str(error)
        text.encode("utf-8")
        assert 0 < len(text) < 1500, f"an error of {len(text)} characters"
    else:
        check_values(found)


def check_values(value: Any) -> None:
    """Numbers within 64 bits, text in whole characters, in whatever a parser returned."""
    if isinstance(value, str):
        value.encode("utf-8")
    elif isinstance(value, int):
        assert -(2**63) <= value < 2**64, f"a number of {value.bit_length()} bits"
    elif isinstance(value, Mapping):
        check_values([*value, *value.values()])
    elif isinstance(value, (list, tuple, set, frozenset)):
        for one in value:
            check_values(one)
    elif is_dataclass(value):
        check_values([getattr(value, one.name) for one in fields(value)])


def _segment(data: bytes) -> None:
    summariser = Summariser(LOG, 0, len(data))
    for item in scan_segment(io.BytesIO(data), len(data), 0):
        summariser.add(item)
    summary = summariser.finish()
    if len(data) % 16 == 0:  # takes longer than the scan
        text = summary_to_json(summary)
        assert summary_to_json(summary_from_json(text)) == text
    check_values((summary.last_offset, summary.record_count, summary.damage, summary.tail_kind))


def _records(data: bytes) -> Any:
    hashed = decode_records(data, _HASHER, _EXPANDED)
    try:
        payloads = list(decode_payloads(data, _EXPANDED))
    except RecordError as error:
        # Names of headers are compared as bytes and shown as text.
        assert "UTF-8" in str(error), error
        return None
    assert [one.offset for one in payloads] == hashed["offset"].tolist()
    return None


def _compressed(data: bytes) -> Any:
    """Records (magic 2) or messages (0, 1) that are compressed here: a codec would hide most changes of them."""
    codec, content = list(CODECS)[1:][data[:1][0] % 4] if data else "gzip", data[1:]
    magic = content[MAGIC_AT] if len(content) > MAGIC_AT else 1
    if magic < 2:
        # The first message's own fields stand for those of the wrapper.
        offset = int.from_bytes(content[:8], "big", signed=True)
        packed = compress(codec, content, magic)
        return _records_or_scan(encode_legacy(offset, packed, magic=magic, attributes=CODECS[codec]))
    header, records = bytearray(content[:61]), content[61:]
    header[22:23] = bytes([header[22] & 0xF8 | CODECS[codec]]) if len(header) == 61 else b""
    return _records_or_scan(bytes(header) + compress(codec, records))


def _records_or_scan(entry: bytes) -> None:
    if len(entry) >= PREFIX_BYTES:
        entry = entry[:8] + (len(entry) - PREFIX_BYTES).to_bytes(4, "big") + entry[PREFIX_BYTES:]
    for _ in scan_segment(io.BytesIO(sound := with_right_checksums(entry)), len(sound), 0):
        pass
    _records(entry)


def _codec(codec: int) -> Callable[[bytes], Any]:
    def read(data: bytes) -> None:
        assert len(decompress(codec, data, _EXPANDED)) <= _EXPANDED

    return read


def _message(data: bytes) -> Any:
    return parse_any(data)


def _control(data: bytes) -> Any:
    kind, value = data[:1], data[1:]
    return (
        parse_snapshot_time(value)
        if kind > b"\x40"
        else parse_voters((LEADER_CHANGE, KRAFT_VOTERS)[len(value) & 1], value)
    )


def _metadata(name: str) -> Callable[[bytes], Any]:
    """One file of a metadata log, with right checksums."""
    return lambda data: _read_metadata({f"c/{name}": with_right_checksums(data)})


def _metadata_records(data: bytes) -> Any:
    """Records of a metadata log, each with its length before it; 255 begins a batch, which an odd first byte keeps from a copy."""
    batches: list[list[bytes]] = [[]]
    first, data = data[:1], data[1:]
    while data:
        size = data[0]
        if size == 255:
            batches.append([])
            data = data[1:]
        else:
            batches[-1].append(data[1 : 1 + size])
            data = data[1 + size :]
    written, offset = [], 0
    for records in filter(None, batches):
        written.append(metadata_log.batch(offset, records))
        offset += len(records)
    files = {f"c/{LOG}": b"".join(written)}
    if first and first[0] & 1:
        files[f"d/{LOG}"] = b"".join(written[:-1])
    return _read_metadata(files)


def _read_metadata(files: Mapping[str, bytes]) -> Any:
    logs = []
    for node, path in enumerate(files, 1):
        segments, checkpoints = ((path,), ()) if path.endswith(".log") else ((), (path,))
        logs.append(MetadataLog(node, path[0], path[0], segments, checkpoints))
    reading = read_metadata(MemorySnapshot(files), logs)
    for one in reading.leaderships:
        leadership_of_rows(state_rows(one))
    return reading


def _quorum_state(data: bytes) -> Any:
    files = {f"c/{LOG}": QUORUM_LOG, "c/quorum-state": data}
    return read_metadata(MemorySnapshot(files), [MetadataLog(1, "c", "c", (f"c/{LOG}",), (), True)])


def _dump_text(data: bytes) -> Any:
    stream = io.BytesIO(data)
    shows_files(stream)
    for section in find_sections(stream):
        with suppress(UnownedError):
            read_dumped_path(section.dumped_path, "dump/broker-1.batches.txt", ())
        log = assemble_dumped_log([parse_listing(stream, section)], section.base_offset or 0)
        summariser = Summariser(LOG, 0, log.size_bytes)
        for item in [*([log.batches] if len(log.batches) else []), *log.damage]:
            summariser.add(item)
        summariser.finish()


def _stand_in(path: str) -> Callable[[bytes], Any]:
    """A text or table in place of segments, from discovery to the summary of each log that it shows."""

    def read(data: bytes) -> Any:
        snapshot = MemorySnapshot({path: data})
        inventory = discover(snapshot)
        for file in inventory.segments:
            try:
                check_values(summarise_source(snapshot, file))
            except FormatError as error:
                check_values(str(error))
        return inventory

    return read


def _progress(path: str) -> Callable[[bytes], Any]:
    def read(data: bytes) -> Any:
        snapshot = MemorySnapshot({path: data})
        for part in plan_progress(snapshot, [(path, len(data))]):
            for item in read_progress(snapshot, part) if hasattr(part, "form") else [part]:
                check_values(item.to_pylist() if hasattr(item, "to_pylist") else item)

    return read


def _broker_log(data: bytes) -> Any:
    return list(read_broker_log(MemorySnapshot({"server.log": data}), "server.log", 1))


def _internal(topic: InternalTopic) -> Callable[[bytes], Any]:
    def read(data: bytes) -> Any:
        data = with_right_checksums(data)
        copy = TopicCopy(0, "o", (TreeEntry(f"o/{LOG}", len(data), False),))
        found, rows = topic.try_read(MemorySnapshot({f"o/{LOG}": data}), copy)
        return [said for one in newest([found] if found else []) for said in one.said], rows

    return read


def _remote_listing(data: bytes) -> Any:
    found, rows = read_listings(MemorySnapshot({"remote_objects.jsonl": data}))
    if found is not None:
        check_values([found.of(topic, number, ()) for topic, number in found.of_names])
    return found, rows


def _chunks(data: bytes) -> Any:
    """A manifest in the first line, and the object that it is of."""
    head, _, stored = data.partition(b"\n")
    segment = parse_chunks(head, "manifest")
    assert 0 <= segment.bytes_in(len(stored)) <= segment.size_bytes
    if segment.is_compressed and segment.chunk_bytes <= _EXPANDED:
        stream = DecompressedChunks(io.BytesIO(stored), segment, "object")
        for at in (0, segment.size_bytes // 2, segment.size_bytes - 9):
            stream.seek(at)
            assert len(stream.read(99)) == min(99, segment.size_bytes - max(at, 0))
    return segment


def _transactions(data: bytes) -> Any:
    data = with_right_checksums(data)
    snapshot = MemorySnapshot({f"t/{LOG}": data})
    return list(read_transaction_states(snapshot, TreeEntry(f"t/{LOG}", len(data), False), range(-5, 5000)))


def _names(data: bytes) -> Any:
    text = data.decode("utf-8", "replace")
    with suppress(UnownedError):
        read_dumped_path(text, text, ())
    found = parse_directory_name(text), parse_file_name(text), parse_snapshot_name(text)
    return *found, TopicPartition.parse(text)


def _text(parse: Callable[[str], Any]) -> Callable[[bytes], Any]:
    return lambda data: parse(data.decode("utf-8", "replace"))


def _bytes(parse: Callable[[bytes, str], Any]) -> Callable[[bytes], Any]:
    return lambda data: parse(data, "file")


def _file(read: Callable[[str], Any]) -> Callable[[bytes], Any]:
    """For what is read from a path that the user gives."""

    def write_and_read(data: bytes) -> Any:
        path = os.path.join(_directory(), "file")
        with open(path, "wb") as stream:
            stream.write(data)
        return read(path)

    return write_and_read


@cache
def _directory() -> str:
    return tempfile.mkdtemp(prefix="replica-audit-fuzz-")


def _config(path: str) -> Any:
    return resolve_settings({}, {}, path)


def _baseline(path: str) -> Any:
    baseline = read_baseline(Settings(baseline=path))
    compared = baseline.compare(rows.results(findings=[rows.finding("LOG-GAP", "medium", finding_id="1")]))
    audit_json_text(compared)
    build_verdict(compared, "high")
    return baseline


def _accepted(path: str) -> Any:
    return read_baseline(Settings(accept=path))


def _suites(path: str) -> Any:
    return load_plan([path])


QUORUM_LOG = metadata_log.batch(0, metadata_log.new_topic("t", "A" * 21 + "B", [1, 2], 1))

TARGETS: dict[str, Target] = {
    "segment": Target(_segment, (), 768, 4, runs=30000),
    "segment_checksums_right": Target(lambda data: _segment(with_right_checksums(data)), (), 768, 4, runs=30000),
    "records": Target(_records, (RecordError,), 1024, 2),
    "records_compressed": Target(_compressed, (RecordError,), 1024, 2, runs=30000),
    **{name: Target(_codec(number), (CodecError,), 512, 0.5) for number, name in enumerate(CODEC_NAMES) if number},
    "metadata_message": Target(_message, (MessageError,), 256),
    "metadata_control": Target(_control, (MessageError,), 128, 0.5),
    "metadata_log": Target(_metadata(LOG), (), 1280, 3, runs=30000),
    "metadata_records": Target(_metadata_records, (), 1024, 4, runs=30000),
    "metadata_snapshot": Target(_metadata("00000000000000000042-0000000001.checkpoint"), (), 2560, 1, runs=30000),
    "quorum_state": Target(_quorum_state, (), 256, runs=30000),
    "consumer_offsets": Target(_internal(GROUP_OFFSETS), (), 1024, 2, runs=30000),
    "share_state": Target(_internal(SHARE_OFFSETS), (), 1024, 2, runs=30000),
    "remote_log": Target(_internal(REMOTE_SEGMENTS), (), 1024, 2, runs=30000),
    "remote_listing": Target(_remote_listing, (), 1024),
    "remote_chunks": Target(_chunks, (FormatError, OSError), 1536, 2, runs=30000),
    "transaction_state": Target(_transactions, (), 1024, 2, runs=30000),
    "dump_text": Target(_dump_text, (FormatError,), 1536, 4, runs=30000),
    "dump_stand_in": Target(_stand_in("dump/broker-1.orders-0.dump.txt"), (), 2048, runs=30000),
    "table_csv": Target(_stand_in("batches.csv"), (), 1024, runs=5000),
    "table_jsonl": Target(_stand_in("batches.jsonl"), (), 2048, runs=5000),
    "table_parquet": Target(_stand_in("batches.parquet"), (), 8192, runs=5000),
    "progress_csv": Target(_progress("replica_progress.csv"), (), 1024),
    "progress_jsonl": Target(_progress("replica_progress.jsonl"), (), 2048),
    "progress_parquet": Target(_progress("replica_progress.parquet"), (), 8192),
    "topics_describe": Target(_text(lambda text: parse_topics_describe(text, "listing")), (), 2048),
    "leadership_json": Target(_bytes(parse_leadership), (FormatError,), 512),
    "zookeeper_json": Target(_bytes(parse_zookeeper), (FormatError,), 1024),
    "manifest_json": Target(_bytes(parse_manifest), (FormatError,), 512),
    "evidence_frames": Target(read_frames, (FormatError,), 768, 2, runs=30000),
    "evidence_lists": Target(read_lists, (), 1536, 2, runs=30000),
    "broker_log": Target(_broker_log, (), 2048, 2),
    "epoch_checkpoint": Target(_bytes(parse_epoch_checkpoint), (FormatError,), 128),
    "offset_checkpoint": Target(_bytes(parse_offset_checkpoint), (FormatError,), 256),
    "partition_metadata": Target(_bytes(parse_partition_metadata), (FormatError,), 96),
    "meta_properties": Target(_bytes(parse_meta_properties), (FormatError,), 256),
    "names": Target(_names, (ValueError,), 96),
    "config_yaml": Target(_file(_config), (UsageError,), 512),
    "suites_yaml": Target(_file(_suites), (UsageError,), 1024),
    "accepted_yaml": Target(_file(_accepted), (UsageError,), 512),
    "baseline_json": Target(_file(_baseline), (UsageError,), 4096),
    "client_properties": Target(_file(read_client_properties), (UsageError,), 512, 0.5),
    "observed_json": Target(show_observed, (), 4096, 2, runs=5000),
    "evidence_again": Target(show_collected_again, (), 4096, 2, runs=5000),
    "snapshot": Target(show_changed_snapshot, (), 512, 4, runs=5000),
}
