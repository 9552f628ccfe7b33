"""Segments in remote storage from rows of evidence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from replica_audit.model import RemoteSegment


def segments_of_rows(rows: Iterable[Mapping[str, Any]]) -> tuple[RemoteSegment, ...]:
    """The segments of rows with their fields."""
    return tuple(
        RemoteSegment(**{**row, "epochs": tuple((epoch, start) for epoch, start in row["epochs"])}) for row in rows
    )
