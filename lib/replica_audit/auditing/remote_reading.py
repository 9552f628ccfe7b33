"""Segments read in a remote store for `--verify-remote`, by the scanner of local segments; nothing is stored."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from replica_audit.auditing.compare.remote_contents import StoredContent
from replica_audit.auditing.compare.remote_objects import stored_whole
from replica_audit.auditing.replicas.replica_facts import CopyKey
from replica_audit.errors import FormatError
from replica_audit.model import Damage, RemoteListing, RemoteSegment, SegmentSummary
from replica_audit.segments.record_batch import BATCH_DTYPE
from replica_audit.segments.scan import scan_segment
from replica_audit.segments.summary import Summariser
from replica_audit.snapshot.remote_store import StoredSegments
from replica_audit.snapshot.storage import Snapshot


@lru_cache(maxsize=4)
def open_store(location: str) -> Snapshot:
    """Open the store, once in each process. Raises OSError."""
    return Snapshot.open(location)


def read_contents(
    location: str,
    listing: RemoteListing | None,
    segments: Iterable[RemoteSegment],
    summaries: Mapping[CopyKey, Sequence[SegmentSummary]],
) -> tuple[StoredContent, ...]:
    """Read the copied segments in the store at `location`; `summaries` are those of all local segments.

    Batches are kept for offsets that a local log has too, unless a local segment has the same content.
    """
    if listing is None:
        return ()
    local = [one for of_copy in summaries.values() for one in of_copy]
    digests = {one.digest for one in local if one.digest is not None}
    local_start = min((one.base_offset for one in local), default=None)
    found = []
    for segment, stored in stored_whole(sorted(segments), listing):
        if stored.unread is not None:
            found.append(StoredContent(segment, stored, unread=f"not captured: {stored.unread}"))
            continue
        try:
            summary, batches = _scan(location, stored.log_path or "", stored.segment_bytes or 0, segment, local_start)
        except (OSError, FormatError) as error:
            if _is_there(location, stored.log_path or ""):
                found.append(StoredContent(segment, stored, unread=str(error)))
            continue
        kept = batches[:0] if summary.digest in digests else batches
        found.append(StoredContent(segment, stored, summary, batches=kept))
    return tuple(found)


def _is_there(location: str, path: str) -> bool:
    """False for an object that was deleted since the listing, e.g. by retention."""
    folder, _, name = path.rpartition("/")
    return any(one.path == path for one in open_store(location).list_directory(folder, name))


def _scan(
    location: str, path: str, size_bytes: int, segment: RemoteSegment, local_start: int | None
) -> tuple[SegmentSummary, NDArray[np.void]]:
    """Summary of a segment, and its batches from `local_start` on."""
    summariser = Summariser(path, segment.start_offset, size_bytes)
    kept = [np.empty(0, BATCH_DTYPE)]
    with StoredSegments(open_store(location)).open_file(path) as stream:
        for item in scan_segment(stream, size_bytes, segment.start_offset):
            summariser.add(item)
            if not isinstance(item, Damage) and local_start is not None:
                kept.append(item[item["last_offset"] >= local_start])
    return summariser.finish(), np.concatenate(kept)
