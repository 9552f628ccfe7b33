"""Ranges of offsets, joined where they touch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


def join_ranges(rows: Iterable[Mapping[str, Any]]) -> list[tuple[int, int]]:
    """Ranges of divergence rows of one replica, those that touch joined."""
    joined: list[tuple[int, int]] = []
    for start, end in sorted((row["start_offset"], row["end_offset"]) for row in rows):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined
