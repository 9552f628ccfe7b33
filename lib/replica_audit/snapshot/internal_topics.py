"""Copies of partitions of Kafka's internal topics, each read completely; of each partition the copy that reaches furthest counts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Generic, NamedTuple, Protocol, TypeVar

import numpy as np

from replica_audit.batch_header import CODEC_MASK
from replica_audit.errors import FormatError
from replica_audit.model import Damage
from replica_audit.schema import QuarantineRow
from replica_audit.segments.compression import CodecError, decompress
from replica_audit.segments.record_batch import HEADER_BYTES
from replica_audit.segments.records import RecordError, RecordFields, read_records
from replica_audit.segments.scan import scan_segment
from replica_audit.snapshot.file_tree import TreeEntry
from replica_audit.snapshot.log_dir_names import parse_directory_name, parse_file_name
from replica_audit.snapshot.message_fields import MessageError
from replica_audit.snapshot.storage import Snapshot

_GREATEST_BATCH = 64 << 20

_Said = TypeVar("_Said")

_Item = TypeVar("_Item")
_Made = TypeVar("_Made")


class Each(Protocol):
    """Applies a function to every item, like the built-in `map`, in tasks or in this process."""

    def __call__(self, work: Callable[[_Item], _Made], items: Sequence[_Item], /) -> Iterable[_Made]: ...


class TopicCopy(NamedTuple):
    """One broker's copy of one partition of an internal topic: its segments, in order."""

    partition: int
    path: str
    segments: tuple[TreeEntry, ...]

    @property
    def log_dir(self) -> str:
        return self.path.rpartition("/")[0]

    @property
    def size(self) -> int:
        """Bytes of its segments."""
        return sum(segment.size for segment in self.segments)

    @property
    def first_offset(self) -> int | None:
        """Base offset of its first segment; None without segments."""
        return _base_offset(self.segments[0]) if self.segments else None


class Extent(NamedTuple):
    """End of a copy's content, and the parts of it that could not be decoded."""

    leader_epoch: int
    """Leader epoch of the last batch; -1 without batches."""
    end_offset: int
    unread: tuple[tuple[str, int | None, str], ...]
    """(path, position, reason)."""


@dataclass(frozen=True, slots=True)
class ReadCopy(Generic[_Said]):
    """Entries of one copy of a partition."""

    copy: TopicCopy
    extent: Extent
    said: tuple[_Said, ...]


@dataclass(frozen=True, slots=True)
class InternalTopic(Generic[_Said]):
    """An internal topic of Kafka, and the reader of a copy of one of its partitions. The reader raises OSError and FormatError."""

    name: str
    may_say: str
    """Clause on what is lost with an unreadable copy."""
    read: Callable[[Snapshot, TopicCopy], ReadCopy[_Said]]

    def try_read(self, snapshot: Snapshot, copy: TopicCopy) -> tuple[ReadCopy[_Said] | None, list[QuarantineRow]]:
        """Entries of one copy (None if unreadable), and quarantine rows for everything unread."""
        found: ReadCopy[_Said] | None = None
        unread: tuple[tuple[str, int | None, str], ...]
        try:
            found = self.read(snapshot, copy)
            unread = found.extent.unread
        except (OSError, FormatError) as error:
            unread = ((copy.path, None, str(error)),)
        text = f"could not be read, and may say {self.may_say}"
        rows = [
            QuarantineRow.of("INPUT-IGNORED", where, f"{text}: {reason}", position=position)
            for where, position, reason in unread
        ]
        return found, rows

    def read_all(
        self, snapshot: Snapshot, log_dirs: Iterable[str], each: Each = map
    ) -> tuple[list[_Said], list[QuarantineRow]]:
        """Entries of the copy that reaches furthest of each partition in `log_dirs`, with quarantine rows as from `try_read`."""
        copies, rows = self.read_copies(snapshot, find_copies(snapshot, log_dirs, self.name), each)
        return sorted(said for one in copies for said in one.said), rows  # type: ignore[type-var]

    def read_copies(
        self, snapshot: Snapshot, copies: Sequence[TopicCopy], each: Each
    ) -> tuple[list[ReadCopy[_Said]], list[QuarantineRow]]:
        """The `newest` of `copies` of each partition, with quarantine rows as from `try_read`; empty copies are not read."""
        found = list(each(partial(self.try_read, snapshot), [one for one in copies if one.size]))
        return newest(one for one, _ in found if one is not None), [row for _, rows in found for row in rows]

    def check_all(self, snapshot: Snapshot, log_dirs: Iterable[str], each: Each) -> list[QuarantineRow]:
        """Only the quarantine rows of `read_all`."""
        filled = [copy for copy in find_copies(snapshot, log_dirs, self.name) if copy.size]
        return [row for rows in each(partial(self._unread, snapshot), filled) for row in rows]

    def _unread(self, snapshot: Snapshot, copy: TopicCopy) -> list[QuarantineRow]:
        return self.try_read(snapshot, copy)[1]


def newest(copies: Iterable[ReadCopy[_Said]]) -> list[ReadCopy[_Said]]:
    """The copy of each partition that reaches furthest, by leader epoch, then log end offset; on a tie the last."""
    ordered = sorted(copies, key=lambda one: (one.extent.leader_epoch, one.extent.end_offset))
    return list({one.copy.partition: one for one in ordered}.values())


def find_copies(snapshot: Snapshot, log_dirs: Iterable[str], topic: str) -> list[TopicCopy]:
    """All current copies of the partitions of `topic` in `log_dirs`; a missing log dir has none."""
    found: list[TopicCopy] = []
    for log_dir in sorted(set(log_dirs)):
        for folder in snapshot.list_directory(log_dir, topic):
            name = parse_directory_name(folder.name) if folder.is_dir else None
            at = name.topic_partition if name is not None and name.kind == "current" else None
            if at is not None and at.topic == topic:
                files = [one for one in snapshot.list_directory(folder.path) if not one.is_dir]
                logs = sorted((one for one in files if one.path.endswith(".log")), key=lambda one: one.path)
                found.append(TopicCopy(at.partition, folder.path, tuple(logs)))
    return found


def read_batches(
    snapshot: Snapshot, copy: TopicCopy, take: Callable[[np.void, Iterator[RecordFields]], None]
) -> Extent:
    """Call `take` with every batch of a copy in order: its header, and its records, decoded lazily.

    Batches that cannot be decoded, or for which `take` raises MessageError, are skipped and noted. Raises OSError and FormatError.
    """
    unread: list[tuple[str, int | None, str]] = []
    last_epoch, end = -1, 0
    for segment in copy.segments:
        with snapshot.open_file(segment.path) as stream:
            for item in scan_segment(stream, segment.size, _base_offset(segment)):
                if isinstance(item, Damage):
                    unread.append((segment.path, item.position, item.reason))
                    continue
                for header in item:
                    last_epoch, end = max(last_epoch, int(header["leader_epoch"])), int(header["last_offset"]) + 1
                    stream.seek(int(header["position"]))
                    try:
                        take(header, records_of(header, stream.read(int(header["size"]))))
                    except (CodecError, MessageError, RecordError) as error:
                        unread.append((segment.path, int(header["position"]), str(error)))
    return Extent(last_epoch, end, tuple(unread))


def _base_offset(segment: TreeEntry) -> int:
    return parse_file_name(segment.name).base_offset or 0


def records_of(header: np.void, data: bytes) -> Iterator[RecordFields]:
    """The records of a batch, given its header and bytes. Raises CodecError, MessageError and RecordError."""
    if not header["crc_valid"]:
        raise MessageError("the batch's checksum is wrong")
    if header["magic"] != 2:
        raise MessageError(f"expected a batch of magic 2, found {header['magic']}")
    inside = decompress(int(header["attributes"]) & CODEC_MASK, data[HEADER_BYTES:], _GREATEST_BATCH)
    yield from read_records(inside, int(header["record_count"]))
