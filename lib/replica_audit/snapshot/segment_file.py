"""A segment of a replica, and where what is read of it lies."""

from __future__ import annotations

from dataclasses import dataclass

from replica_audit.literals import SegmentSource


@dataclass(frozen=True, slots=True)
class Part:
    """Where a part of a segment's text or table is: bytes [start, end) of a text, or some rows of a table in them."""

    path: str
    start: int = 0
    end: int = 0
    dumped_path: str = ""
    """As the text says."""
    columns: tuple[str, ...] = ()
    """Those that a table has values in."""
    log_dir: str = ""
    """As the table says."""
    segment_base_offset: int | None = None


@dataclass(frozen=True, slots=True)
class SegmentFile:
    """A segment of a replica, as Kafka would load it: a `.swap` that wins is one, what it replaces is not.

    Where `source` is not segment, `path` is a name for the reader and what is there is read from `parts`.
    """

    broker_id: int
    log_dir: str
    topic: str
    partition: int
    path: str
    base_offset: int
    size_bytes: int
    """Bytes to read."""
    source: SegmentSource = "segment"
    """segment, dump_text, batch_table or record_table."""
    parts: tuple[Part, ...] = ()
