"""The id of a snapshot, worked out in this process."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from replica_audit.auditing.snapshot_id import (
    SegmentDigest,
    digest_texts,
    hash_piece,
    identify_snapshot,
    inventory_lines,
    pieces_of,
    text_files,
)
from replica_audit.errors import FormatError
from replica_audit.snapshot.opening import open_snapshot
from replica_audit.snapshot.segment_sources import summarise_source


def identify(path: Path, topics: Sequence[str] = ()) -> str:
    """The id that `ingest` gives the snapshot at `path`."""
    snapshot, inventory = open_snapshot(str(path), tuple(topics), None)
    segments = []
    for file in inventory.segments:
        try:
            digest = summarise_source(snapshot, file).digest
        except (OSError, FormatError):
            digest = None
        segments.append(SegmentDigest(file.broker_id, file.path, file.size_bytes, digest))
    files = text_files(inventory)
    texts = digest_texts(files, [(piece, hash_piece(snapshot, piece)) for piece in pieces_of(files)])
    return identify_snapshot(inventory_lines(inventory, topics), segments, texts)
