"""Id of a snapshot: a hash of everything that distinguishes it, as plain values.

The id is the first 32 hex digits of the SHA-256 of lines, sorted, each a JSON array without spaces, its object keys sorted
and everything beyond ASCII escaped, and each ended by a newline:

- ``["cluster", cluster_id]``, ``["manifest", {…}]`` where there is one, and ``["topics", [pattern…]]`` where there are observations:
  of other topics none are kept;
- ``["groups", [{…}…]]``: offsets of consumer groups that brokers answered `observe`;
- ``["blank", {log_dir: broker_id…}]`` where log dirs have nothing;
- ``["voters", [row…]]`` where a voter's copy of the metadata log is missing;
- ``[table, row]`` for each row of the bronze tables `replica_dirs`, `leader_epochs`, `offset_checkpoints`, `partition_states`
  and `quarantine` that is known before the scan: what checkpoints, metadata and listings say; without `reason`, and without
  columns that are null or empty there, so that a version that adds a column leaves other snapshots their ids;
- ``["segment", broker_id, path, size_bytes, digest]`` for each segment, `digest` being that of its summary: the SHA-256 of the
  fields of `batches` of every batch, and of the place of all damage; null where it could not be read;
- ``["text", path, size_bytes, digest]`` for each file of observations, listing of a remote store and broker's log:
  SHA-256 of the SHA-256s of its pieces.

Paths are relative to the snapshot, so a copy has the id of the original. Copies that differ in anything that bronze tables keep
have different ids, so the findings of one never meet the rows of another.
"""

from __future__ import annotations

import hashlib
import heapq
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import NamedTuple

from replica_audit.auditing.bronze_rows import bronze_rows
from replica_audit.row_classes import Row, render_column
from replica_audit.snapshot.inventory import Inventory, Manifest
from replica_audit.snapshot.storage import Snapshot

#: Number of bytes of a text file hashed at a time, on one executor.
PIECE_BYTES = 64 << 20
_STEP = 4 << 20

_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"))


class SegmentDigest(NamedTuple):
    """Digest of a scanned segment; None if it could not be read."""

    broker_id: int
    path: str
    size_bytes: int
    digest: str | None


class TextDigest(NamedTuple):
    """Digest of a file of observations or a broker log; None if it could not be read."""

    path: str
    size_bytes: int
    digest: str | None


class ByteRange(NamedTuple):
    """Bytes [start, end) of a file."""

    path: str
    start: int
    end: int


def inventory_lines(
    inventory: Inventory, topics: Iterable[str] = (), rows: Mapping[str, Iterable[Row]] | None = None
) -> list[str]:
    """Lines known before the scan; `rows` are those of `bronze_rows`, if the caller has them."""
    lines = [_line("cluster", inventory.cluster_id)]
    if inventory.manifest is not None:
        lines.append(_line("manifest", _of_manifest(inventory.manifest)))
    if inventory.blank:
        lines.append(_line("blank", inventory.blank))
    if any(one.state != "whole" for one in inventory.voters):
        lines.append(_line("voters", [one._asdict() for one in inventory.voters]))
    if inventory.observation is not None and inventory.observation.groups:
        groups = sorted(inventory.observation.committed_offsets())
        lines.append(_line("groups", [one._asdict() for one in groups]))
    if inventory.progress_files:
        lines.append(_line("topics", sorted(topics)))
    lines += row_lines(bronze_rows(inventory) if rows is None else rows)
    return sorted(lines)


def _of_manifest(manifest: Manifest) -> dict[str, object]:
    """The manifest without fields that later versions added to a log dir, unless it was collected in part; segments show how it
    was collected."""
    dirs = [
        {
            name: value
            for name, value in one._asdict().items()
            if name not in ("is_evidence", "ahead_ms") and value != () and value is not False
        }
        for one in manifest.brokers
    ]
    return {**manifest._asdict(), "brokers": dirs}


def row_lines(rows: Mapping[str, Iterable[Row]]) -> Iterator[str]:
    """Lines for rows by table, in the form of `bronze_rows`."""
    for table, of_table in rows.items():
        known = list(of_table)
        named = dict(zip(known[0]._fields, zip(*known, strict=True), strict=True)) if known else {}
        named.pop("reason", None)
        columns = (render_column(named[name], partial(_render_member, name)) for name in sorted(named))
        head = json.dumps(table)
        yield from (f"[{head},{{{','.join(filter(None, members))}}}]" for members in zip(*columns, strict=True))


def _render_member(name: str, value: object) -> str:
    return "" if value is None or value in ([], {}) else f'"{name}":{_ENCODER.encode(value)}'


def segment_lines(segments: Iterable[SegmentDigest]) -> Iterator[str]:
    """Lines for segments."""
    return (_line("segment", *one) for one in segments)


def identify_snapshot(
    inventory_lines: Iterable[str],
    segments: Iterable[SegmentDigest],
    texts: Iterable[TextDigest] = (),
    runs: Iterable[bytes] = (),
) -> str:
    """Compute the snapshot's id from `inventory_lines` and the digests of segments and texts, in any order; `runs` has further
    lines (`pack_lines`)."""
    lines = [*inventory_lines, *segment_lines(segments), *(_line("text", *one) for one in texts)]
    digest = hashlib.sha256()
    for line in merge_lines(lines, runs):
        digest.update(line.encode("ascii") + b"\n")
    return digest.hexdigest()[:32]


def sum_lines(lines: Iterable[str]) -> int:
    """Sum of a hash of each line modulo 2^128, so that sums of parts add up to that of all lines in any order."""
    found = 0
    for line in lines:
        found += int.from_bytes(hashlib.sha256(line.encode("ascii")).digest()[:16], "big")
    return found % (1 << 128)


def text_files(inventory: Inventory) -> list[tuple[str, int]]:
    """Path and size of observation files, listings of a remote store, and broker logs."""
    return [
        *inventory.progress_files,
        *inventory.remote_listings,
        *((file.path, file.size_bytes) for file in inventory.broker_logs),
    ]


def pieces_of(files: Iterable[tuple[str, int]]) -> Iterator[ByteRange]:
    """Split files (path, size) into pieces, in order; an empty file has one piece."""
    for path, size in files:
        for start in range(0, max(size, 1), PIECE_BYTES):
            yield ByteRange(path, start, min(size, start + PIECE_BYTES))


def hash_piece(snapshot: Snapshot, piece: ByteRange) -> str | None:
    """SHA-256 of a piece as hex digits; None if it cannot be read, which ingest reports."""
    digest = hashlib.sha256()
    try:
        with snapshot.open_file(piece.path) as stream:
            stream.seek(piece.start)
            left = piece.end - piece.start
            while left > 0 and (chunk := stream.read(min(_STEP, left))):
                digest.update(chunk)
                left -= len(chunk)
    except OSError:
        return None
    return digest.hexdigest()


def digest_texts(files: Iterable[tuple[str, int]], pieces: Iterable[tuple[ByteRange, str | None]]) -> list[TextDigest]:
    """Digests of the files (path, size) from those of their `pieces`, given in order."""
    found: dict[str, list[str | None]] = {}
    for piece, digest in pieces:
        found.setdefault(piece.path, []).append(digest)
    return [TextDigest(path, size, _join(found[path])) for path, size in files]


def _join(digests: list[str | None]) -> str | None:
    known = [digest for digest in digests if digest is not None]
    return None if len(known) < len(digests) else hashlib.sha256("".join(known).encode("ascii")).hexdigest()


def _line(*values: object) -> str:
    return _ENCODER.encode(values)


#: Number of bytes of a run unpacked at a time: a merge holds some of every run in memory.
_UNPACKED_STEP = 1 << 14


def pack_lines(lines: Iterable[str]) -> bytes:
    """Make a run: the lines (ASCII, without newlines), sorted and compressed."""
    return zlib.compress("".join(f"{line}\n" for line in sorted(lines)).encode("ascii"))


def merge_lines(lines: Iterable[str], runs: Iterable[bytes]) -> Iterator[str]:
    """Merge `lines` and those of `runs`, sorted."""
    return heapq.merge(sorted(lines), *map(_unpack, runs))


def _unpack(run: bytes) -> Iterator[str]:
    unpacking = zlib.decompressobj()
    waiting = run
    rest = b""
    while not unpacking.eof:
        *lines, rest = (rest + unpacking.decompress(waiting, _UNPACKED_STEP)).split(b"\n")
        waiting = unpacking.unconsumed_tail
        yield from (line.decode("ascii") for line in lines)
