"""A snapshot as a read-only tree of files: local, `s3://` (`s3a://` is taken as the same) or `hdfs://`.

Nothing here locks, creates or writes. Names that tools like to pass over (dotfiles, `_…`) are listed as all others.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from typing import BinaryIO

import pyarrow
from pyarrow import fs

from replica_audit.formats.errors import FormatError

#: Small files are read whole; a checkpoint larger than this is none.
GREATEST_SMALL_FILE = 64 << 20


@dataclass(frozen=True, slots=True, order=True)
class Entry:
    """A file or directory below the snapshot's root."""

    path: str
    """Relative to the root, with `/`."""
    size: int
    """Bytes; 0 for directories."""
    is_dir: bool


@dataclass(frozen=True, slots=True)
class Problem:
    """A path that could not be listed or is no ordinary file, and why."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class Tree:
    """Everything below the root, sorted by path, and what could not be looked at."""

    entries: tuple[Entry, ...]
    problems: tuple[Problem, ...]


class Snapshot:
    """A directory of copied log dirs, opened for reading. Pickles: an executor opens it again from its URI."""

    def __init__(self, uri: str, filesystem: fs.FileSystem, root: str) -> None:
        self.uri = uri
        self._filesystem = filesystem
        self._root = root.rstrip("/") or "/"
        self._is_local = isinstance(filesystem, fs.LocalFileSystem)

    @classmethod
    def open(cls, uri: str | os.PathLike[str]) -> Snapshot:
        """The snapshot at a local path or a URI.

        Raises FileNotFoundError or NotADirectoryError where there is no such directory, ValueError for a scheme that
        is not known, OSError where the storage cannot be reached.
        """
        uri = os.fspath(uri)
        if "://" not in uri and not uri.startswith("file:"):
            filesystem, root = fs.LocalFileSystem(), os.path.abspath(uri)
        else:
            target = "s3://" + uri[len("s3a://") :] if uri.startswith("s3a://") else uri
            try:
                filesystem, root = fs.FileSystem.from_uri(target)
            except (pyarrow.ArrowInvalid, pyarrow.ArrowNotImplementedError) as error:
                raise ValueError(f"{uri}: expected a path, file://, s3://, s3a:// or hdfs://, found {error}") from error
        info = filesystem.get_file_info(root.rstrip("/") or "/")
        if info.type == fs.FileType.NotFound:
            raise FileNotFoundError(f"{uri}: there is no such directory")
        if info.type != fs.FileType.Directory:
            raise NotADirectoryError(f"{uri}: expected a directory with log dirs below it, found a file")
        return cls(uri, filesystem, root)

    def __reduce__(self) -> tuple:
        return Snapshot.open, (self.location,)

    @property
    def location(self) -> str:
        """What opens this snapshot again from any directory and process: an absolute path, or the URI."""
        return self._root if self._is_local else self.uri

    @property
    def name(self) -> str:
        """The last part of the root's path."""
        return self._root.rsplit("/", 1)[-1]

    def absolute(self, path: str) -> str:
        """The path that the storage knows `path`, relative to the root, by."""
        return f"{self._root.rstrip('/')}/{path}" if path else self._root

    def list_tree(self) -> Tree:
        """Everything below the root. A directory that cannot be read is a problem, not an error."""
        if self._is_local:
            return _list_local(self._root)
        selector = fs.FileSelector(self._root, recursive=True)
        start = len(self._root.rstrip("/")) + 1
        entries = []
        for info in self._filesystem.get_file_info(selector):
            is_dir = info.type == fs.FileType.Directory
            entries.append(Entry(info.path[start:].rstrip("/"), 0 if is_dir else info.size or 0, is_dir))
        return Tree(tuple(sorted(entries)), ())

    def list_directory(self, path: str) -> tuple[Entry, ...]:
        """What is directly below a directory, sorted by path; nothing where there is no such directory. Raises OSError."""
        selector = fs.FileSelector(self.absolute(path), recursive=False, allow_not_found=True)
        start = len(self._root.rstrip("/")) + 1
        entries = []
        for info in self._filesystem.get_file_info(selector):
            is_dir = info.type == fs.FileType.Directory
            entries.append(Entry(info.path[start:].rstrip("/"), 0 if is_dir else info.size or 0, is_dir))
        return tuple(sorted(entries))

    def last_changes(self, paths: Sequence[str]) -> list[str | None]:
        """When each file was last changed, in words of the storage's own; None where it does not say.

        Locally that is also the change of the inode, which no copying tool can set back.
        """
        if self._is_local:
            return [_last_change(self.absolute(path)) for path in paths]
        found = self._filesystem.get_file_info([self.absolute(path) for path in paths])
        return [None if info.mtime_ns is None else str(info.mtime_ns) for info in found]

    def open_file(self, path: str) -> BinaryIO:
        """The file at `path`, seekable, to be closed by the caller; raises OSError."""
        return self._filesystem.open_input_file(self.absolute(path))

    def read_bytes(self, path: str, limit: int = GREATEST_SMALL_FILE) -> bytes:
        """All of a small file; raises OSError, and FormatError where it is larger than `limit` bytes."""
        with self.open_file(path) as file:
            data = file.read(limit + 1)
        if len(data) > limit:
            raise FormatError(path, limit, f"at most {limit} bytes", "more", "this is no file that Kafka wrote")
        return data


def _last_change(path: str) -> str | None:
    try:
        state = os.stat(path)
    except OSError:
        return None
    return f"{state.st_ino} {state.st_mtime_ns} {state.st_ctime_ns}"


def _list_local(root: str) -> Tree:
    entries: list[Entry] = []
    problems: list[Problem] = []
    # A directory that a link leads to is looked into, unless it is one of those that lead to it.
    pending = [("", (os.path.realpath(root),))]
    while pending:
        folder, above = pending.pop()
        try:
            with os.scandir(os.path.join(root, folder)) as found:
                children = list(found)
        except OSError as error:
            problems.append(Problem(_shown(folder), f"the directory could not be listed: {error.strerror}"))
            continue
        for child in children:
            path = f"{folder}/{child.name}" if folder else child.name
            if _shown(path) != path:
                problems.append(Problem(_shown(path), "the name is not UTF-8"))
                continue
            try:
                state = child.stat()
            except OSError as error:
                problems.append(Problem(path, f"could not be looked at: {error.strerror}"))
                continue
            if stat.S_ISDIR(state.st_mode):
                real = os.path.realpath(child.path) if child.is_symlink() else os.path.join(above[-1], child.name)
                if real in above:
                    problems.append(Problem(path, "a link that leads back to a directory above it"))
                    continue
                entries.append(Entry(path, 0, True))
                pending.append((path, (*above, real)))
            elif stat.S_ISREG(state.st_mode):
                entries.append(Entry(path, state.st_size, False))
            else:
                problems.append(Problem(path, "neither a file nor a directory"))
    return Tree(tuple(sorted(entries)), tuple(sorted(problems, key=lambda problem: problem.path)))


def _shown(path: str) -> str:
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
