"""Reading of the records of chosen batches from a snapshot's segment files."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from replica_audit.cached_property import cached_property
from replica_audit.segments.frames import NotCapturedError
from replica_audit.segments.record_batch import HEADER_BYTES, LEAST_ENTRY_BYTES, MAGIC_AT, PREFIX_BYTES
from replica_audit.segments.records import RECORD_DTYPE, RecordError, RecordHasher, UnexpandedError, decode_records
from replica_audit.snapshot.storage import OpensFiles, Snapshot

_OFFSET = struct.Struct(">q")
_CRC = struct.Struct(">I")
_NEW_CRC_AT = 17

#: Maximum bytes in one read of neighbouring batches, and the greatest gap between them.
_TOGETHER_BYTES = 8 << 20
_GAP_BYTES = 64 << 10


@dataclass(frozen=True, slots=True, order=True)
class RecordRequest:
    """One batch whose records are wanted, as the scan saw it.

    `offset` is the entry's first field: the base offset in magic 2, the last offset in magic 0 and 1.
    """

    path: str
    """The segment file, relative to the snapshot."""
    position: int
    size: int
    offset: int
    crc: int
    others: tuple[str, ...] = field(default=(), compare=False)
    """Other files to try if this one has another batch at that position."""


def request_of(path: str, batch: np.void) -> RecordRequest:
    """The request for the records of a batch (`BATCH_DTYPE`) in the file `path`."""
    offset = batch["base_offset"] if batch["magic"] >= 2 else batch["last_offset"]
    return RecordRequest(path, int(batch["position"]), int(batch["size"]), int(offset), int(batch["crc"]))


class RecordRows(NamedTuple):
    """Records of some requests, as `RECORD_DTYPE` rows by offset, and the requests that could not be answered."""

    rows: NDArray[np.void]
    unread: tuple[tuple[RecordRequest, str], ...] = ()
    """Unreadable requests, with the reason: a file that is missing, unreadable, or not the scanned one; a batch too large to expand."""
    not_captured: tuple[tuple[RecordRequest, str], ...] = ()
    """Requests for bytes that the evidence lacks, with the reason."""
    undecodable: tuple[tuple[RecordRequest, str], ...] = ()
    """Requests for batches that were read but whose records Kafka could not decode, with the reason."""


class NotCaptured(str):
    """Reason in `RecordReader.entries` for bytes that are not part of the evidence."""

    path: str
    """The file with those bytes."""

    def __new__(cls, reason: object, path: str) -> NotCaptured:
        made = super().__new__(cls, reason)
        made.path = path
        return made


_CHANGED = "the file has changed since it was scanned: run ingest again"


class RecordReader:
    """Reads records from one snapshot. Rows can be compared only with those of the same reader."""

    def __init__(self, snapshot: OpensFiles | str) -> None:
        """`snapshot` may be its location, which is opened when the first record is read."""
        self._snapshot = snapshot
        self.not_captured: set[RecordRequest] = set()
        """Requests that are not part of the evidence."""

    @cached_property
    def hasher(self) -> RecordHasher:
        """Hasher of all records read; created on demand, since few readers read any."""
        return RecordHasher()

    def __call__(self, requests: Iterable[RecordRequest], keys: NDArray[np.uint64] | None = None) -> RecordRows:
        """Records of `requests`; with `keys` (sorted hashes) only those with one of these keys, and control records.

        What cannot be read or decoded is reported in the result, not raised. Memory: 8 MiB of file and one expanded batch, besides the rows.
        """
        parts: list[NDArray[np.void]] = []
        unread: list[tuple[RecordRequest, str]] = []
        not_captured: list[tuple[RecordRequest, str]] = []
        undecodable: list[tuple[RecordRequest, str]] = []
        for request, entry in self.entries(requests):
            if isinstance(entry, str):
                missing = not_captured if isinstance(entry, NotCaptured) else unread
                missing.append((request, entry))
                continue
            try:
                rows = decode_records(entry, self.hasher)
            except UnexpandedError as error:
                unread.append((request, f"the batch {error}, and is left as it is"))
                continue
            except RecordError as error:
                undecodable.append((request, str(error)))
                continue
            parts.append(rows if keys is None else rows[_among(rows["key"], keys) | rows["control"]])
        # As bytes, since numpy compares all fields of arrays that it joins.
        joined = b"".join(part.tobytes() for part in parts)
        rows = np.frombuffer(joined, RECORD_DTYPE) if joined else np.empty(0, RECORD_DTYPE)
        ordered = rows[np.argsort(rows["offset"], kind="stable")]
        return RecordRows(ordered, tuple(unread), tuple(not_captured), tuple(undecodable))

    def entries(self, requests: Iterable[RecordRequest]) -> Iterator[tuple[RecordRequest, bytes | str]]:
        """Each of `requests` once, by path and position, with the bytes of its batch or the reason why they are missing."""
        for request, entry in self._entries(requests):
            for path in request.others:
                if isinstance(entry, bytes | NotCaptured):
                    break
                ((_, entry),) = self._entries([replace(request, path=path, others=())])
            if isinstance(entry, NotCaptured):
                self.not_captured.add(replace(request, path=entry.path))
            yield request, entry

    def _entries(self, requests: Iterable[RecordRequest]) -> Iterator[tuple[RecordRequest, bytes | str]]:
        """`entries` from the first file only."""
        groups = list(_neighbours(sorted(set(requests))))[::-1]
        while groups:
            group = groups.pop()
            try:
                data = self._read(group)
            except NotCapturedError as error:
                if len(group) > 1:  # only bytes between the batches may be missing
                    groups += [[request] for request in reversed(group)]
                else:
                    is_it = not group[0].others or self._begins_there(group[0])
                    yield group[0], NotCaptured(error, group[0].path) if is_it else _CHANGED
                continue
            except (OSError, ValueError) as error:
                # Another file may have the batch that is missing here.
                if len(group) > 1 and any(request.others for request in group):
                    groups += [[request] for request in reversed(group)]
                    continue
                for request in group:
                    yield request, f"the file could not be read: {_reason(error)}"
                continue
            start = group[0].position
            for request in group:
                at = request.position - start
                entry = data[at : at + request.size]
                yield request, entry if len(entry) == request.size and _is_scanned(request, entry) else _CHANGED

    def _begins_there(self, request: RecordRequest) -> bool:
        """True unless the file has another batch's header at that position."""
        try:
            return _is_scanned(request, self._read([replace(request, size=HEADER_BYTES)]))
        except (OSError, ValueError):
            return True

    def _read(self, group: list[RecordRequest]) -> bytes:
        if isinstance(self._snapshot, str):
            try:
                self._snapshot = Snapshot.open(self._snapshot)
            except (FileNotFoundError, NotADirectoryError) as error:
                # The original text names an absolute path.
                raise OSError("the snapshot is no longer where it was ingested from") from error
        start, end = group[0].position, max(request.position + request.size for request in group)
        with self._snapshot.open_file(group[0].path) as stream:
            stream.seek(start)
            return stream.read(end - start)


def _reason(error: OSError | ValueError) -> str:
    # The error's own text may contain the absolute path, which differs from run to run.
    number = getattr(error, "errno", None)
    return os.strerror(number) if number else str(error)


def _among(hashes: NDArray[np.uint64], known: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Mask of `hashes` that are in `known`, which is sorted and may be far longer."""
    if not len(known):
        return np.zeros(len(hashes), bool)
    return known[np.minimum(np.searchsorted(known, hashes), len(known) - 1)] == hashes


def _neighbours(requests: list[RecordRequest]) -> Iterator[list[RecordRequest]]:
    """Sorted requests in groups of neighbours in one file."""
    group: list[RecordRequest] = []
    for request in requests:
        if group:
            end = group[-1].position + group[-1].size
            near = request.path == group[0].path and request.position <= end + _GAP_BYTES
            if not near or request.position + request.size - group[0].position > _TOGETHER_BYTES:
                yield group
                group = []
        group.append(request)
    if group:
        yield group


def _is_scanned(request: RecordRequest, entry: bytes) -> bool:
    """True if the bytes begin with the entry that was scanned."""
    if len(entry) < LEAST_ENTRY_BYTES:
        return False
    (crc,) = _CRC.unpack_from(entry, _NEW_CRC_AT if entry[MAGIC_AT] >= 2 else PREFIX_BYTES)
    return (_OFFSET.unpack_from(entry)[0], crc) == (request.offset, request.crc)
