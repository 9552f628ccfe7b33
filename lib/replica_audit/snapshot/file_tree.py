"""Listing of a snapshot: files, directories, and paths that could not be read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple


class TreeEntry(NamedTuple):
    """A file or directory below the snapshot's root."""

    path: str
    """Relative to the root, with `/`."""
    size: int
    """Size in bytes; 0 for directories."""
    is_dir: bool

    @property
    def name(self) -> str:
        """The last part of its path."""
        return self.path.rpartition("/")[2]


class Problem(NamedTuple):
    """A path that could not be listed or is not an ordinary file, with the reason."""

    path: str
    reason: str
    is_told_elsewhere: bool = False
    """True if its content is read at another path, so that nothing is left out."""


@dataclass(frozen=True, slots=True)
class Tree:
    """Everything below the root, sorted by path, and what could not be examined."""

    entries: tuple[TreeEntry, ...]
    problems: tuple[Problem, ...]
    unlisted: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Names of directories left out with everything below them, by the path of their parent."""
