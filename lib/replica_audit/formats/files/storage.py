"""A snapshot as a read-only tree of files: local, `s3://` (`s3a://` is taken as the same) or `hdfs://`.

Nothing here locks, creates or writes. Names that tools like to pass over (dotfiles, `_…`) are listed as all others.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import BinaryIO

import pyarrow
from pyarrow import fs

from replica_audit.formats.files import local_files
from replica_audit.formats.files.trees import Entry, Tree
from replica_audit.formats.format_error import FormatError
from replica_audit.redaction import redact

#: Small files are read in one piece; no checkpoint is larger than this.
GREATEST_SMALL_FILE = 64 << 20

_ARCHIVES = (".tar", ".tgz", ".tar.gz", ".tar.bz2", ".tar.xz", ".tar.zst", ".tar.lz4", ".zip", ".7z", ".gz", ".zst")


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
                raise ValueError(
                    redact(f"{uri}: expected a path, file://, s3://, s3a:// or hdfs://, found {error}")
                ) from None
        info = filesystem.get_file_info(root.rstrip("/") or "/")
        shown = redact(uri)
        if info.type == fs.FileType.NotFound:
            raise FileNotFoundError(f"{shown}: no such directory")
        if info.type != fs.FileType.Directory:
            if root.lower().endswith(_ARCHIVES):
                raise NotADirectoryError(
                    f"{shown} is an archive: unpack it, and give the directory that comes out of it"
                )
            raise NotADirectoryError(f"{shown} is a file: give the directory above the log directories of all brokers")
        return cls(uri, filesystem, root)

    def __reduce__(self) -> tuple:
        return Snapshot.open, (self.location,)

    @property
    def location(self) -> str:
        """What opens this snapshot again from any directory and process: an absolute path, or the URI, credentials included."""
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
            return local_files.list_tree(self._root)
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
            return local_files.list_directory(self._root, path)
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
            return [local_files.last_change(self.absolute(path)) for path in paths]
        found = self._filesystem.get_file_info([self.absolute(path) for path in paths])
        return [None if info.mtime_ns is None else str(info.mtime_ns) for info in found]

    def last_change(self, path: str, stream: BinaryIO) -> str | None:
        """The same of a file that is open, in words that `is_unchanged` compares: of an object its ETag, where it has one."""
        if self._is_local:
            return local_files.describe_change(os.fstat(stream.fileno()))
        tag = (stream.metadata() or {}).get(b"ETag")
        return f"etag {tag.decode()}" if tag else self.last_changes([path])[0]

    def open_file(self, path: str) -> BinaryIO:
        """The file at `path`, seekable, to be closed by the caller.

        Raises OSError, in words that name no place outside the snapshot, also for anything but an ordinary file:
        nothing is waited for, and no link is followed out of the snapshot.
        """
        if self._is_local:
            return local_files.open_file(self._root, path)
        try:
            return self._filesystem.open_input_file(self.absolute(path))
        except OSError as error:
            reason = str(error).replace(self.absolute(path), path).replace(self._root, self.name)
            raise OSError(redact(f"{path}: could not be opened: {reason}")) from None

    def read_bytes(self, path: str, limit: int = GREATEST_SMALL_FILE) -> bytes:
        """All of a small file; raises OSError, and FormatError where it is larger than `limit` bytes."""
        with self.open_file(path) as file:
            data = file.read(limit + 1)
        if len(data) > limit:
            raise FormatError(path, limit, f"at most {limit} bytes", "more", "Kafka does not write such a file")
        return data
