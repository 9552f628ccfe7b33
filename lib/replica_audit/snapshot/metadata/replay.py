"""The records of a quorum's newest copy applied in order, from its beginning or a snapshot, to every partition's states."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from replica_audit.errors import FormatError
from replica_audit.snapshot.metadata.entries import MetadataEntry, read_snapshot
from replica_audit.snapshot.metadata.image import MetadataImage
from replica_audit.snapshot.metadata.log_copies import MetadataCopy
from replica_audit.snapshot.metadata.quorum import Quorum
from replica_audit.snapshot.storage import Snapshot


def replay(snapshot: Snapshot, copies: Sequence[MetadataCopy], quorum: Quorum) -> MetadataImage:
    """The state after the newest copy's records, with what an older copy has before it begins.

    Records from `committed_end` on are tentative. Raises FormatError, MessageError and OSError.
    """
    newest = quorum.newest
    older = _older_copy(copies, quorum)
    start = newest.start_offset if older is None else older.start_offset
    end = newest.end_offset
    image, begin = _first_image(snapshot, quorum, start, end)
    image.apply_log(_entries(snapshot, newest, older, begin), quorum.committed_end)
    return image


def _entries(
    snapshot: Snapshot, newest: MetadataCopy, older: MetadataCopy | None, begin: int
) -> Iterator[MetadataEntry]:
    if older is not None:
        yield from older.entries(snapshot, begin, newest.start_offset)
    yield from newest.entries(snapshot, max(begin, newest.start_offset))


def _older_copy(copies: Sequence[MetadataCopy], quorum: Quorum) -> MetadataCopy | None:
    """The copy of the same log that reaches back furthest and up to where the newest one begins."""
    newest = quorum.newest
    fitting = [
        copy
        for copy in copies
        if copy.start_offset < newest.start_offset <= quorum.agreed[copy.log.path] and copy.pieces and not copy.problems
    ]
    return min(fitting, key=lambda copy: (copy.start_offset, copy.log.path), default=None)


def _first_image(snapshot: Snapshot, quorum: Quorum, start: int, end: int) -> tuple[MetadataImage, int]:
    """The state that the log's records are applied to, and the offset from which they are."""
    if start == 0:
        return MetadataImage(), 0
    for one in quorum.snapshots:
        if start <= one.end_offset <= end:
            image = MetadataImage()
            if image.apply_snapshot(read_snapshot(snapshot, one.path), one.end_offset):
                return image, one.end_offset
    raise FormatError(
        quorum.newest.log.path,
        None,
        f"a complete .checkpoint file that ends between offset {start}, where the log begins, and {end}",
        "none",
        "copy the .checkpoint files of __cluster_metadata-0 as well",
    )
