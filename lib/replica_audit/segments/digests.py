"""Digests of offset-aligned chunks of batches: equal chunks need no comparison batch by batch."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from replica_audit.batch_header import DELETE_HORIZON
from replica_audit.model import CHUNK_OFFSETS, ChunkDigest, Damage
from replica_audit.segments.record_batch import BATCH_DTYPE

_GREATEST = np.iinfo(np.int64).max
_MASK = (1 << 64) - 1
_VALID_AT, _UNCHECKED_AT = (BATCH_DTYPE.fields[name][1] for name in ("crc_valid", "crc_unchecked"))  # type: ignore[index]

#: Constants of splitmix64.
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_SHIFTS = np.uint64(30), np.uint64(27), np.uint64(31)
_FACTORS = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


class ContentDigest:
    """SHA-256 over a segment's batch headers and the places of damage, in order."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()

    def add(self, item: NDArray[np.void] | Damage) -> None:
        """Add the next array of `BATCH_DTYPE`, or the next damage; how batches are split into arrays does not matter."""
        if isinstance(item, Damage):
            self._hash.update(f"{item.position} {item.length} {item.kind}\n".encode("ascii"))
        else:
            self.add_kept(kept_bytes(item))

    def add_kept(self, rows: NDArray[np.uint8]) -> None:
        """Take `kept_bytes` of the next batches."""
        self._hash.update(rows.data)

    def hex_digits(self) -> str:
        """The digest of everything so far."""
        return self._hash.hexdigest()


def kept_bytes(batches: NDArray[np.void]) -> NDArray[np.uint8]:
    """A row of bytes for each of `batches`: every field except the last, which is encoded as a third value of `crc_valid`."""
    whole = np.ascontiguousarray(batches).view(np.uint8).reshape(len(batches), BATCH_DTYPE.itemsize)
    rows = whole[:, :_UNCHECKED_AT].copy()
    rows[batches["crc_unchecked"], _VALID_AT] = 2
    return rows


def hash_batches(batches: NDArray[np.void]) -> NDArray[np.uint64]:
    """64 bits for each batch from (base, last, epoch, crc, crc_valid, size), as uint64.

    Not a cryptographic hash. The same on every machine and in every version: digests are stored and compared later.
    """
    mixed = np.full(len(batches), _GOLDEN, np.uint64)
    flagged_crc = batches["crc"] | (batches["crc_valid"].astype(np.int64) << 32)
    fields = (batches["base_offset"], batches["last_offset"], batches["leader_epoch"], flagged_crc, batches["size"])
    for field in fields:
        mixed = _mix(mixed ^ field.astype(np.int64).view(np.uint64))
    return mixed


def _mix(value: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finaliser of splitmix64, so that reordered or shifted fields give another hash."""
    value = value + _GOLDEN
    value = (value ^ (value >> _SHIFTS[0])) * _FACTORS[0]
    value = (value ^ (value >> _SHIFTS[1])) * _FACTORS[1]
    return value ^ (value >> _SHIFTS[2])


def least_timestamps(batches: NDArray[np.void]) -> NDArray[np.int64]:
    """Earliest time in each batch's header, in ms; the greatest int64 without one. A base timestamp does not count if it is
    negative or a delete horizon (KIP-534)."""
    horizon = (batches["magic"] >= 2) & (batches["attributes"] & DELETE_HORIZON != 0)
    base = np.where((batches["base_timestamp"] < 0) | horizon, _GREATEST, batches["base_timestamp"])
    return np.minimum(base, np.where(batches["max_timestamp"] < 0, _GREATEST, batches["max_timestamp"]))


def count_records(batches: NDArray[np.void]) -> NDArray[np.int64]:
    """Record counts as int64: 0 if unknown, and limited to the batch's span unless the CRC was found right."""
    count = np.maximum(batches["record_count"], 0).astype(np.int64)
    span = batches["last_offset"] - batches["base_offset"] + 1
    return np.where(batches["crc_valid"] & ~batches["crc_unchecked"], count, np.minimum(count, span))


def digest_chunks(batches: NDArray[np.void], starts: Sequence[int]) -> list[list[ChunkDigest]]:
    """Digests of the chunks that an array of `BATCH_DTYPE` touches, in ascending order of chunk, for each group of batches:
    groups begin at `starts` and are not empty."""
    chunk = batches["base_offset"] // CHUNK_OFFSETS
    group = np.repeat(np.arange(len(starts)), np.diff([*starts, len(batches)]))
    turns = (chunk[1:] < chunk[:-1]) & (group[1:] == group[:-1])
    if turns.any():
        order = np.lexsort((chunk, group))
        batches, chunk = batches[order], chunk[order]
    begins = (chunk[1:] != chunk[:-1]) | (group[1:] != group[:-1])
    firsts = np.concatenate(([0], begins.nonzero()[0] + 1))
    columns = (
        chunk[firsts],
        np.concatenate((firsts[1:], [len(batches)])) - firsts,
        np.add.reduceat(count_records(batches), firsts),
        np.add.reduceat(batches["size"], firsts),
        np.minimum.reduceat(batches["base_offset"], firsts),
        np.maximum.reduceat(batches["last_offset"], firsts),
        np.add.reduceat(hash_batches(batches), firsts),
        np.minimum.reduceat(least_timestamps(batches), firsts),
        np.maximum.reduceat(batches["max_timestamp"], firsts),
    )
    found: list[list[ChunkDigest]] = [[] for _ in starts]
    for number, *row in zip(group[firsts].tolist(), *(column.tolist() for column in columns), strict=True):
        found[number].append(_digest(*row))
    return found


def _digest(
    chunk: int, count: int, records: int, size: int, base: int, last: int, digest: int, first: int, end: int
) -> ChunkDigest:
    times = (first if first != _GREATEST else None, end if end >= 0 else None)
    return ChunkDigest(chunk, count, records, size, base, last, digest, *times)


def rows_of_chunks(batches: NDArray[np.void], chunks: Collection[int]) -> NDArray[np.void]:
    """Rows of `batches`, an array with base offsets, that belong to `chunks`, in their order."""
    if not len(batches):
        return batches
    numbers = batches["base_offset"] // CHUNK_OFFSETS
    first = int(numbers[0])
    # A small log has one chunk, and a search in a list would take longer than everything else.
    chosen = numbers == first if first in chunks and len(chunks) == 1 else np.isin(numbers, list(chunks))
    return batches if chosen.all() else batches[chosen]


def merge_chunks(parts: Iterable[Iterable[ChunkDigest]]) -> dict[int, ChunkDigest]:
    """Digests of several segments, or of several arrays of one, added chunk by chunk, in ascending order."""
    merged: dict[int, ChunkDigest] = {}
    for part in parts:
        for digest in part:
            known = merged.get(digest.chunk)
            merged[digest.chunk] = digest if known is None else _add(known, digest)
    return dict(sorted(merged.items()))


def _add(left: ChunkDigest, right: ChunkDigest) -> ChunkDigest:
    first = [time for time in (left.first_timestamp_ms, right.first_timestamp_ms) if time is not None]
    last = [time for time in (left.last_timestamp_ms, right.last_timestamp_ms) if time is not None]
    return ChunkDigest(
        left.chunk,
        left.batch_count + right.batch_count,
        left.record_count + right.record_count,
        left.size_bytes + right.size_bytes,
        min(left.base_offset, right.base_offset),
        max(left.last_offset, right.last_offset),
        (left.digest + right.digest) & _MASK,
        min(first, default=None),
        max(last, default=None),
    )
