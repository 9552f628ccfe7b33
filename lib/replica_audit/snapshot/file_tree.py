"""Listing of a snapshot: files, directories, and paths that could not be read."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import accumulate
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
    """True if its content is read at another path, so that nothing is omitted."""


class PackedNames:
    """Names in order, as bytes side by side: a folder may have a million directories."""

    def __init__(self, names: Iterable[str]) -> None:
        encoded = [name.encode() for name in sorted(names)]
        self._bytes = b"".join(encoded)
        self._ends = array("Q", accumulate(map(len, encoded), initial=0))

    def __len__(self) -> int:
        return len(self._ends) - 1

    def __getitem__(self, index: int) -> str:
        return self._bytes[self._ends[index] : self._ends[index + 1]].decode()

    def __iter__(self) -> Iterator[str]:
        return map(self.__getitem__, range(len(self)))

    def __contains__(self, name: str) -> bool:
        index = bisect_left(self, name)
        return index < len(self) and self[index] == name


@dataclass(frozen=True, slots=True)
class Tree:
    """Everything below the root, sorted by path, and what could not be examined."""

    entries: tuple[TreeEntry, ...]
    problems: tuple[Problem, ...]
    unlisted: Mapping[str, PackedNames] = field(default_factory=dict)
    """Names of directories that are left out with everything below, by the path of their parent."""
