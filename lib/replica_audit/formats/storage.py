"""A snapshot as a read-only tree of files: local, `s3://` (`s3a://` is taken as the same) or `hdfs://`.

Nothing here locks, creates or writes. Names that tools like to pass over (dotfiles, `_…`) are listed as all others.
"""

from __future__ import annotations

import errno
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

_ARCHIVES = (".tar", ".tgz", ".tar.gz", ".tar.bz2", ".tar.xz", ".tar.zst", ".tar.lz4", ".zip", ".7z", ".gz", ".zst")
_LEADS_OUT = "a link that leads out of the snapshot, which is not followed: copy what it leads to"


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
    is_told_elsewhere: bool = False
    """Nothing is left out: what is there is read at another path."""


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
            raise FileNotFoundError(f"{uri}: no such directory")
        if info.type != fs.FileType.Directory:
            if root.lower().endswith(_ARCHIVES):
                raise NotADirectoryError(f"{uri} is an archive: unpack it, and give the directory that comes out of it")
            raise NotADirectoryError(f"{uri} is a file: give the directory above the log directories of all brokers")
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
        if self._is_local:
            return _list_folder(self._root, path)
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
        """The file at `path`, seekable, to be closed by the caller.

        Raises OSError, in words that name no place outside the snapshot, for what is no ordinary file too: it is never
        waited for, and no link is followed out of the snapshot.
        """
        if self._is_local:
            return _open_local(self._root, path)
        try:
            return self._filesystem.open_input_file(self.absolute(path))
        except OSError as error:
            reason = str(error).replace(self.absolute(path), path).replace(self._root, self.name)
            raise OSError(f"{path}: could not be opened: {reason}") from None

    def read_bytes(self, path: str, limit: int = GREATEST_SMALL_FILE) -> bytes:
        """All of a small file; raises OSError, and FormatError where it is larger than `limit` bytes."""
        with self.open_file(path) as file:
            data = file.read(limit + 1)
        if len(data) > limit:
            raise FormatError(path, limit, f"at most {limit} bytes", "more", "Kafka does not write such a file")
        return data


def _last_change(path: str) -> str | None:
    try:
        state = os.stat(path)
    except OSError:
        return None
    return f"{state.st_ino} {state.st_mtime_ns} {state.st_ctime_ns}"


def _list_local(root: str) -> Tree:
    """Every directory once, at its own place: of a link to another directory it is only told where that is read."""
    entries: list[Entry] = []
    problems: list[Problem] = []
    top = os.path.realpath(root)
    pending = [""]
    while pending:
        folder = pending.pop()
        try:
            with os.scandir(os.path.join(root, folder)) as found:
                children = list(found)
        except OSError as error:
            problems.append(Problem(_shown(folder), f"the directory could not be listed: {error.strerror}"))
            continue
        for child in children:
            path = f"{folder}/{child.name}" if folder else child.name
            entry, problem = _look_at(child, path, top)
            if problem is not None:
                problems.append(problem)
            if entry is not None:
                entries.append(entry)
                if entry.is_dir:
                    pending.append(path)
    return Tree(tuple(sorted(entries)), tuple(sorted(problems, key=lambda problem: problem.path)))


def _list_folder(root: str, folder: str) -> tuple[Entry, ...]:
    try:
        with os.scandir(os.path.join(root, folder)) as found:
            children = list(found)
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise OSError(f"{folder}: the directory could not be listed: {error.strerror}") from None
    top = os.path.realpath(root)
    looked_at = (_look_at(child, f"{folder}/{child.name}" if folder else child.name, top) for child in children)
    return tuple(sorted(entry for entry, _ in looked_at if entry is not None))


def _look_at(child: os.DirEntry, path: str, top: str) -> tuple[Entry | None, Problem | None]:
    """One name of a directory: what it is, and what is wrong with it.

    What is there and cannot be read is an entry all the same: whoever needs it learns why from opening it.
    """
    if _shown(path) != path:
        return None, Problem(_shown(path), "the name is not UTF-8")
    try:
        if child.is_symlink():
            target = os.path.realpath(child.path)
            if not _is_below(target, top):
                return Entry(path, 0, False), Problem(path, _LEADS_OUT)
            if os.path.isdir(target):
                if _is_below(os.path.realpath(os.path.dirname(child.path)), target):
                    return None, Problem(path, "a link that leads back to a directory above it")
                there = os.path.relpath(target, top).replace(os.sep, "/")
                return None, Problem(path, f"a link to {_shown(there)}, which is read there", is_told_elsewhere=True)
        state = child.stat()
    except OSError as error:
        return Entry(path, 0, False), Problem(path, f"could not be looked at: {error.strerror}")
    if stat.S_ISDIR(state.st_mode):
        return Entry(path, 0, True), None
    if stat.S_ISREG(state.st_mode):
        return Entry(path, state.st_size, False), None
    return Entry(path, 0, False), Problem(path, _describe_special(state.st_mode))


def _open_local(root: str, path: str) -> BinaryIO:
    place = os.path.join(root, path)
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        try:
            number = os.open(place, flags | os.O_NOFOLLOW)
        except OSError as error:
            if error.errno != errno.ELOOP:
                raise
            target = os.path.realpath(place)
            if not _is_below(target, os.path.realpath(root)):
                raise OSError(f"{path}: {_LEADS_OUT}") from None
            number = os.open(target, flags | os.O_NOFOLLOW)
    except OSError as error:
        if error.errno is None:
            raise
        if error.errno == errno.ENXIO:  # a socket, or a device without a driver
            raise OSError(f"{path}: neither a file nor a directory") from None
        raise OSError(f"{path}: could not be opened: {error.strerror}") from None
    try:
        mode = os.fstat(number).st_mode
        if not stat.S_ISREG(mode):
            raise OSError(f"{path}: {_describe_special(mode)}")
        return open(number, "rb")
    except BaseException:
        os.close(number)
        raise


def _describe_special(mode: int) -> str:
    kinds = {
        stat.S_IFDIR: "a directory where a file is expected",
        stat.S_IFIFO: "a named pipe, not a file",
        stat.S_IFSOCK: "a socket, not a file",
        stat.S_IFCHR: "a device, not a file",
        stat.S_IFBLK: "a device, not a file",
    }
    return kinds.get(stat.S_IFMT(mode), "neither a file nor a directory")


def _is_below(path: str, top: str) -> bool:
    return path == top or path.startswith(top.rstrip("/") + "/")


def _shown(path: str) -> str:
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
