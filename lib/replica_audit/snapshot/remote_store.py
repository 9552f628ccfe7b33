"""Contents of a remote store for tiered topics (KIP-405): objects by segment id, from the store or from a listing of it.

Layouts: `<topic>-<partition>-<topic id>/<offset>-<segment id>.log` of Kafka's LocalTieredStorage
(`RemoteTopicPartitionDirectory`, `RemoteLogSegmentFileset`), and `<topic>-<topic id>/<partition>/<offset>-<segment id>.log`
with a `.rsm-manifest` of Aiven's plugin (`ObjectKeyFactory`), each below any prefix. Ids are in Kafka's base 64.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import BinaryIO, NamedTuple

from replica_audit.errors import FormatError, UsageError
from replica_audit.model import RemoteListing, RemoteObject, RemoteSegment
from replica_audit.parsing import INT32, INT64, is_whole, parse_json, show_value
from replica_audit.redaction import redact
from replica_audit.schema import QuarantineRow
from replica_audit.snapshot.chunked_segments import DecompressedChunks, parse_manifest
from replica_audit.snapshot.remote_log_metadata import COPY_FINISHED
from replica_audit.snapshot.storage import Snapshot
from replica_audit.text import now_ms

#: Listings at a snapshot's root.
_LISTING = re.compile(r"remote[_-]objects.*\.jsonl")
_TOPIC, _ID = r"(?P<topic>[a-zA-Z0-9._-]+)", "[a-zA-Z0-9_-]{22}"
_NAME = rf"(?P<offset>\d{{1,20}})-(?P<segment>{_ID})\.(?P<kind>[a-z_-]+)"
_PLAIN = re.compile(rf"(?:.*/)?{_TOPIC}-(?P<partition>\d{{1,10}})-(?P<id>{_ID})/{_NAME}")
_CHUNKED = re.compile(rf"(?:.*/)?{_TOPIC}-(?P<id>{_ID})/(?P<partition>\d{{1,10}})/{_NAME}")
_LOG, _MANIFEST = "log", "rsm-manifest"
_MOMENT = re.compile(r"(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d)(?:\.(\d+))?(?:Z|\+00:00)")
_HINT = 'write {"path": "orders-0-<topic id>/<offset>-<segment id>.log", "size_bytes": 1024} on each line'
_EXPECTED = (
    "expected <topic>-<partition>-<topic id>/<offset>-<segment id>.log, or <topic>-<topic id>/<partition>/<offset>-<segment id>.log "
    "with .rsm-manifest, below it"
)
#: Topic id, or name, and partition.
_Place = tuple[str, int]


class StoredFile(NamedTuple):
    """An object of any kind."""

    path: str
    size_bytes: int
    modified_ms: int | None
    placed_ms: int | None = None


@dataclass(frozen=True, slots=True)
class RemoteStore:
    """All segments in a remote store."""

    objects: Mapping[_Place, tuple[RemoteObject, ...]] = field(default_factory=dict)
    """By topic id."""
    of_names: Mapping[_Place, tuple[RemoteObject, ...]] = field(default_factory=dict)
    """All objects, by their apparent topic name and partition."""
    listed_ms: int | None = None
    latest_ms: int | None = None
    """`latest_ms` of the `RemoteListing`."""
    location: str | None = None
    """Location from which `Snapshot.open` opens the store; None for a listing."""

    def of(self, topic: str, partition: int, segments: Iterable[RemoteSegment]) -> RemoteListing:
        """Objects of a partition, by the topic ids of its `segments`, and of any topic of that name.

        A prefix of the store may look like the beginning of a topic's name.
        """
        found = set(self.of_names.get((topic, partition), ()))
        for topic_id in {one.topic_id for one in segments}:
            found.update(self.objects.get((topic_id, partition), ()))
        return RemoteListing(tuple(sorted(found)), self.listed_ms, self.latest_ms)

    def read(
        self, topic: str, partition: int, segments: Iterable[RemoteSegment]
    ) -> tuple[RemoteListing, list[QuarantineRow]]:
        """`of` with the manifests of its segments, and a row for each manifest that could not be read.

        If a copied segment is missing, the partition is listed again: segments that still exist were not deleted before it.
        """
        segments = tuple(segments)
        listing = self.of(topic, partition, segments)
        there = listing.of(segments)
        is_lacking = any(one.state == COPY_FINISHED and one.segment_id not in there for one in segments)
        if self.location is None or not (is_lacking or any(one.is_chunked for one in listing.objects)):
            return listing, []
        place = Snapshot.open(self.location)
        if is_lacking:
            listing = listing._replace(objects=tuple(_look_again(place, listing.objects)))
        place.read_ahead(one.manifest_path for one in listing.objects if one.manifest_path is not None)
        found = [_read_manifest(place, one) for one in listing.objects]
        objects = tuple(one for one, _ in found)
        return listing._replace(objects=objects), [row for _, row in found if row is not None]


def open_remote_store(uri: str) -> RemoteStore:
    """The store at a directory or URI, without objects that brokers delete during the listing.

    Raises UsageError if there is no such place, it cannot be listed, or it has no segment.
    """
    try:
        place = Snapshot.open(uri)
        # A local directory is a copy from an earlier moment; a remote address is the store itself.
        listed_ms = now_ms() if place.is_remote else None
        tree = place.list_below("")
        latest_ms = now_ms() if place.is_remote else None
    except (OSError, ValueError) as error:
        raise UsageError(f"--remote: {error}") from error
    problems = {one.path: one for one in tree.problems}
    there = [one for one in tree.problems if os.path.lexists(place.absolute(one.path))]
    if there:
        raise UsageError(f"--remote {redact(uri)}: {there[0].path}: {there[0].reason}: it has to be listed as a whole")
    files_there = (entry for entry in tree.entries if not entry.is_dir and entry.path not in problems)
    sizes = {entry.path: entry.size for entry in files_there if _match(entry.path)}
    if not sizes:
        raise UsageError(f"--remote {redact(uri)}: no segment of a remote store is there; {_EXPECTED}")
    times = place.modified_ms([*sizes])
    files = [
        StoredFile(path, size, time, None if place.is_remote else _placed_ms(place.absolute(path)))
        for (path, size), time in zip(sizes.items(), times, strict=True)
    ]
    return _store_of(_segments_of(files), listed_ms, latest_ms, place.location)


def _look_again(store: Snapshot, objects: Sequence[RemoteObject]) -> Iterator[RemoteObject]:
    """The objects, each marked if it still exists."""
    folders = {one.log_path.rpartition("/")[0] for one in objects if one.log_path is not None}
    try:
        there = {entry.path for folder in folders for entry in store.list_directory(folder)}
    except OSError:
        there = set()  # if it cannot be listed again, nothing is known to still exist
    yield from (one._replace(was_seen_again=one.log_path in there) for one in objects)


def _placed_ms(path: str) -> int | None:
    """Time at which a file was created or copied here: every copy or move changes its inode. None for a missing file."""
    try:
        return os.lstat(path).st_ctime_ns // 1_000_000
    except OSError:
        return None


def is_listing(path: str) -> bool:
    """True if a path, relative to a snapshot, is that of a listing of a remote store, at the root."""
    return _LISTING.fullmatch(path) is not None


def read_listings(snapshot: Snapshot) -> tuple[RemoteStore | None, list[QuarantineRow]]:
    """The store from all listings together; None without any, or if one cannot be used, with a row for the reason."""
    at_root = snapshot.list_directory("", "remote")
    paths = [one.path for one in at_root if not one.is_dir and is_listing(one.path)]
    files: list[StoredFile] = []
    moments: list[int | None] = []
    for path in paths:
        try:
            listed_ms, found = _parse_listing(snapshot.read_bytes(path), path)
        except (OSError, FormatError) as error:
            reason = f"nothing is concluded from the listing of the remote store, which could not be read: {error}"
            return None, [QuarantineRow.of("INPUT-IGNORED", path, reason)]
        files += found
        moments.append(listed_ms)
    if not paths:
        return None, []
    known = [one for one in moments if one is not None]
    # Each lists a part of the store: the whole was as listed only at a moment that they share.
    listed_ms = known[0] if len(set(moments)) == 1 and known else None
    objects = [
        one._replace(segment_bytes=None, unread=one.unread or "a listing has no manifest") if one.is_chunked else one
        for one in _segments_of(files)
    ]
    return _store_of(objects, listed_ms, max(known, default=None)), []


def _parse_listing(data: bytes, path: str) -> tuple[int | None, list[StoredFile]]:
    """(time of the listing, objects of segments) in a listing: one object per line; one line may have `listed` instead."""
    listed_ms: int | None = None
    files = []
    for number, line in enumerate(data.splitlines(), 1):
        if not line.strip():
            continue
        one = parse_json(line, path, _HINT)
        if not isinstance(one, dict):
            raise FormatError(path, None, f"an object in line {number}", show_value(one), _HINT)
        if "listed" in one and "path" not in one:
            listed_ms = _parse_moment(one["listed"], path, number)
            continue
        place, size = one.get("path"), one.get("size_bytes")
        if not isinstance(place, str) or not is_whole(size, 0, INT64):
            raise FormatError(path, None, f"path and size_bytes in line {number}", show_value(one), _HINT)
        modified = one.get("modified")
        modified_ms = None if modified is None else _parse_moment(modified, path, number)
        if _match(place):
            files.append(StoredFile(place, size, modified_ms))
    return listed_ms, files


def _parse_moment(value: object, path: str, number: int) -> int:
    """A UTC time as ms since 1970; its fraction may have any number of digits."""
    found = _MOMENT.fullmatch(value) if isinstance(value, str) else None
    try:
        if found is not None:
            moment = datetime.fromisoformat(found[1]).replace(tzinfo=timezone.utc)
            return int(moment.timestamp()) * 1000 + int(f"{found[2] or ''}000"[:3])
    except ValueError:
        pass
    raise FormatError(path, None, f"a time such as 2026-01-31T12:00:00Z in line {number}", show_value(value), _HINT)


def _match(path: str) -> re.Match[str] | None:
    """The parts of a segment object's name; None for another object, and for numbers beyond Kafka's."""
    found = _PLAIN.fullmatch(path) or _CHUNKED.fullmatch(path)
    if found is None or int(found.group("offset")) > INT64 or int(found.group("partition")) > INT32:
        return None
    return found


def _segments_of(files: Iterable[StoredFile]) -> Iterator[RemoteObject]:
    found: dict[tuple[str, int, str], RemoteObject] = {}
    for file in sorted(files):
        name = _match(file.path)
        assert name is not None, "only names that match are taken"
        topic, topic_id, number, offset, segment_id, kind = name.group(
            "topic", "id", "partition", "offset", "segment", "kind"
        )
        key = (topic_id, int(number), segment_id)
        known = found.get(key) or RemoteObject(
            topic, key[1], topic_id, int(offset), segment_id, is_chunked=name.re is _CHUNKED
        )
        if kind == _LOG:
            known = known._replace(
                log_path=file.path,
                log_bytes=file.size_bytes,
                modified_ms=file.modified_ms,
                placed_ms=file.placed_ms,
            )
            known = known if known.is_chunked else known._replace(segment_bytes=file.size_bytes)
        elif kind == _MANIFEST:
            known = known._replace(manifest_path=file.path)
        found[key] = known
    yield from found.values()


def _store_of(
    objects: Iterable[RemoteObject], listed_ms: int | None, latest_ms: int | None, location: str | None = None
) -> RemoteStore:
    by_id: dict[_Place, list[RemoteObject]] = defaultdict(list)
    by_name: dict[_Place, list[RemoteObject]] = defaultdict(list)
    for one in sorted(objects):
        by_id[one.topic_id, one.partition].append(one)
        by_name[one.topic, one.partition].append(one)
    of_ids, of_names = ({place: tuple(found) for place, found in one.items()} for one in (by_id, by_name))
    return RemoteStore(of_ids, of_names, listed_ms, latest_ms, location)


def _read_manifest(store: Snapshot, one: RemoteObject) -> tuple[RemoteObject, QuarantineRow | None]:
    """A segment with its manifest's content, and a row if that could not be read."""
    if one.manifest_path is None:
        return (one._replace(unread="it has no manifest") if one.is_chunked else one), None
    try:
        found = parse_manifest(store.read_bytes(one.manifest_path), one.manifest_path)
    except (OSError, FormatError) as error:
        reason = "its manifest could not be read"
        row = QuarantineRow.of("INPUT-IGNORED", one.manifest_path, f"of a segment in the remote store: {error}")
        return one._replace(unread=reason), row
    is_plain = not (found.is_compressed or found.is_encrypted)
    return one._replace(
        segment_bytes=one.log_bytes if is_plain else found.bytes_in(one.log_bytes),
        unread="its chunks are encrypted" if found.is_encrypted else None,
        is_encrypted=found.is_encrypted,
    ), None


class StoredSegments:
    """The segments in a store by the paths of their `.log` objects, as their brokers copied them."""

    def __init__(self, store: Snapshot) -> None:
        self._store = store

    def open_file(self, path: str) -> BinaryIO:
        """The segment at `path`, seekable, to be closed by the caller. Raises OSError and FormatError."""
        if _CHUNKED.fullmatch(path) is None:
            return self._store.open_file(path)
        manifest = f"{path.removesuffix(_LOG)}{_MANIFEST}"
        segment = parse_manifest(self._store.read_bytes(manifest), manifest)
        stream = self._store.open_file(path)
        return DecompressedChunks(stream, segment, path) if segment.is_compressed else stream
