"""Listing of a snapshot: files, directories, and paths that could not be read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, order=True)
class TreeEntry:
    """A file or directory below the snapshot's root."""

    path: str
    """Relative to the root, with `/`."""
    size: int
    """Bytes; 0 for directories."""
    is_dir: bool


@dataclass(frozen=True, slots=True)
class Problem:
    """A path that could not be listed or is not an ordinary file, and why."""

    path: str
    reason: str
    is_told_elsewhere: bool = False
    """Nothing is left out: what is there is read at another path."""


@dataclass(frozen=True, slots=True)
class Tree:
    """Everything below the root, sorted by path, and what could not be looked at."""

    entries: tuple[TreeEntry, ...]
    problems: tuple[Problem, ...]
    unlisted: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Names of directories, by the path of the one above, that were left out with all that is below them."""
