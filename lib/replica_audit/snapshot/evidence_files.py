"""Evidence of brokers in a snapshot: files that represent those of log dirs, listed and opened as if they were there.

`snapshot.evidence_lists` finds it.
"""

from __future__ import annotations

import hashlib
import io
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import BinaryIO, NamedTuple

from replica_audit.segments.frames import FrameFile, FrameStream, NotCapturedError
from replica_audit.snapshot.file_tree import Problem, Tree, TreeEntry
from replica_audit.snapshot.inventory import CopiedLogDir
from replica_audit.snapshot.log_dir_names import LOG_DIR_FILES, METADATA_PARTITION, parse_directory_name

#: Prefix of evidence files at the root.
PREFIX = "evidence"
FORMAT = 1
#: Remedy for evidence that cannot be used.
HINT = "collect this broker again"
_FRAMES = ".frames"

#: Opens a file of the snapshot by its path. Raises OSError.
Open = Callable[[str], BinaryIO]


class Member(NamedTuple):
    """Location of a part's bytes."""

    file: str
    offset: int
    size: int
    modified: int = 0
    """Modification time of a tar's member, in seconds since the epoch."""


class EvidencePart(NamedTuple):
    """A part named in a list."""

    member: Member
    sha256: str


class ListedFile(NamedTuple):
    """A file of a log dir, named in a list."""

    kind: str
    """whole, frames or stub."""
    size: int
    parts: tuple[EvidencePart, ...]
    change: str
    """Inode and time of the last change of its content, as in `Snapshot.last_change`, but with a digest in place of the inode's time."""
    source: str
    """The file that contains the list."""
    brought: tuple[tuple[EvidencePart, ...], ...] = ()
    """Ranges that were collected later."""
    brought_changed: tuple[tuple[EvidencePart, ...], ...] = ()
    """Ranges that were collected after the file had changed."""


@dataclass(slots=True)
class EvidenceFiles:
    """The evidence of a snapshot; paths are relative to it."""

    files: dict[str, ListedFile] = field(default_factory=dict)
    directories: set[str] = field(default_factory=set)
    incomplete: dict[str, str] = field(default_factory=dict)
    """Paths that could not be read on the broker, with the reason."""
    log_dirs: dict[str, CopiedLogDir] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)
    """The broker's directory for each log dir."""
    topics: list[tuple[str, ...]] = field(default_factory=list)
    """Topic patterns of the collections that had any."""
    problems: list[Problem] = field(default_factory=list)
    brokers: dict[str, frozenset[int]] = field(default_factory=dict)
    """Brokers with lists in each archive at the root, as far as it could be read."""
    left: dict[str, frozenset[str]] = field(default_factory=dict)
    """By log dir, the partitions that were collected again since."""
    own: set[str] = field(default_factory=set)
    """The evidence's own files; listings show the files they represent instead."""
    _children: dict[str, dict[str, TreeEntry]] = field(default_factory=lambda: defaultdict(dict))

    def __bool__(self) -> bool:
        return bool(self.own)

    def overlay(self, tree: Tree) -> Tree:
        """The tree with the files that the evidence represents, in place of its own."""
        if not self.own and not any(entry.path.endswith(_FRAMES) for entry in tree.entries):
            return tree
        entries = {entry.path: entry for entry in tree.entries if entry.path not in self.own}
        problems = [*tree.problems, *self.problems]
        unlisted = {path.partition("/")[0] for path in entries if path.endswith(_FRAMES)}
        for top in sorted(unlisted):
            reason = f"evidence that no evidence-<broker>.json lists, so it may be incomplete: {HINT}"
            problems.append(Problem(top, reason))
        hidden = {path: log_dir for path in entries if (log_dir := self._hides(path)) is not None}
        for path in hidden:
            del entries[path]
        for top in sorted(set(hidden.values())):
            where = "copied as well; the evidence is used: put copies into a directory of their own"
            problems.append(Problem(top, where, is_told_elsewhere=True))
        if len(set(self.topics)) > 1:
            asked = "; ".join(sorted(", ".join(patterns) for patterns in set(self.topics)))
            reason = f"evidence was collected for different topics ({asked}): only those of all are looked at"
            problems.append(Problem(PREFIX, reason, is_told_elsewhere=True))
        entries.update((one.path, one) for of_folder in self._children.values() for one in of_folder.values())
        told = sorted(problems, key=lambda problem: problem.path)
        return Tree(tuple(sorted(entries.values())), tuple(told))

    def children(self, folder: str, found: Iterable[TreeEntry], prefix: str = "") -> tuple[TreeEntry, ...]:
        """Entries of a directory, given the entries that the storage has `found`."""
        entries = {one.path: one for one in found if one.path not in self.own and self._hides(one.path) is None}
        entries.update(self._children.get(folder, {}))
        return tuple(sorted(one for one in entries.values() if one.name.startswith(prefix)))

    def open(self, path: str, open_real: Open) -> BinaryIO:
        """Open a file that the evidence represents. Raises OSError, NotCapturedError and FormatError."""
        file = self.files[path]
        if file.kind == "stub":
            raise NotCapturedError(f"{path}: only its name is part of the evidence")
        if file.kind == "whole":
            return io.BytesIO(b"".join(read_part(open_real, file.source, path, part) for part in file.parts))

        def frames(parts: Iterable[EvidencePart]) -> FrameFile:
            return FrameFile(path, [partial(read_part, open_real, file.source, path, part) for part in parts])

        brought, changed = list(map(frames, file.brought)), list(map(frames, file.brought_changed))
        return FrameStream(frames(file.parts), file.size, brought, changed)

    def _hides(self, path: str) -> str | None:
        """Collected log dir that a file or directory copies from another moment; None for all others."""
        if path in self.directories:
            return None
        for top in self.log_dirs:
            if path.startswith(f"{top}/"):
                name = path[len(top) + 1 :].partition("/")[0]
                if name in LOG_DIR_FILES or parse_directory_name(name).kind != "other":
                    return top
        return None

    def copies_of(self, broker_id: int, source: str) -> list[str]:
        """Log dirs that represent a broker's directory `source`, including partitions collected again."""
        return [top for top, one in self.log_dirs.items() if one.broker_id == broker_id and self.sources[top] == source]

    def same_files(self, path: str) -> list[str]:
        """Everything collected of a file, at any time."""
        top = next((one for one in self.log_dirs if path.startswith(f"{one}/")), None)
        if top is None:
            return []
        copies = self.copies_of(self.log_dirs[top].broker_id, self.sources[top])
        return [one for copy in copies if (one := f"{copy}{path[len(top) :]}") in self.files]

    def leave(self, log_dirs: Iterable[str], partitions: Iterable[str]) -> None:
        """Note that partitions of log dirs were collected again, and drop their metadata log, which was collected again too.

        The partitions' own data stays: it may have records that the broker has lost since.
        """
        for top in log_dirs:
            self.left[top] = self.left.get(top, frozenset()) | frozenset(partitions)
            folder = f"{top}/{METADATA_PARTITION}"
            for path in self._children.pop(folder, {}):
                self.files.pop(path, None)
            for path in [one for one in self.incomplete if one.startswith(f"{folder}/")]:
                del self.incomplete[path]
            self.directories.discard(folder)
            self._children.get(top, {}).pop(folder, None)

    def has(self, log_dir: str, partition: str) -> bool:
        """True unless a later collection represents this partition of a log dir: checkpoints of the log dir then do not count for it."""
        only = self.log_dirs[log_dir].partitions if log_dir in self.log_dirs else ()
        return partition not in self.left.get(log_dir, ()) and (not only or partition in only)

    def add(self, path: str, file: ListedFile) -> None:
        self.files[path] = file
        folder = path.rpartition("/")[0]
        self.add_directory(folder)
        self._children[folder][path] = TreeEntry(path, file.size, False)

    def add_directory(self, path: str) -> None:
        """Put a directory at `path`, and those above it."""
        while path and path not in self.directories:
            self.directories.add(path)
            above = path.rpartition("/")[0]
            self._children[above][path] = TreeEntry(path, 0, True)
            path = above


def read_part(open_real: Open, source: str, path: str, part: EvidencePart) -> bytes:
    """Bytes of a part. Raises OSError, which names `source`, if they are not what was collected."""
    data = read_member(open_real, part.member)
    if len(data) != part.member.size or hashlib.sha256(data).hexdigest() != part.sha256:
        place = f"{path} at byte {part.member.offset}" + ("" if part.member.file == path else f" of {part.member.file}")
        raise OSError(f"{place}: not the evidence that was collected (SHA-256 in {source}): {HINT}")
    return data


def read_member(open_real: Open, member: Member) -> bytes:
    """All available bytes of a member. Raises OSError."""
    with open_real(member.file) as stream:
        stream.seek(member.offset)
        return stream.read(member.size)
