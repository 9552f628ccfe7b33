"""Segments in remote storage as rows of evidence, and back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from replica_audit.model import RemoteSegment


def rows_of_segments(segments: Iterable[RemoteSegment]) -> list[dict[str, Any]]:
    """The segments as rows that can be taken to where a partition is audited."""
    return [asdict(one) for one in segments]


def segments_of_rows(rows: Iterable[Mapping[str, Any]]) -> tuple[RemoteSegment, ...]:
    """The segments that `rows_of_segments` made rows of."""
    return tuple(
        RemoteSegment(**{**row, "epochs": tuple((epoch, start) for epoch, start in row["epochs"])}) for row in rows
    )
