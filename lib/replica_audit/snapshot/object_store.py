"""Directories and files of `s3://` (also as `s3a://`), `hdfs://` and other stores that pyarrow supports."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow
from pyarrow import fs

from replica_audit.redaction import redact
from replica_audit.snapshot.file_tree import TreeEntry


class ObjectStore:
    """A file system of pyarrow; paths are its own. Every method raises OSError if the store cannot be reached."""

    def __init__(self, filesystem: fs.FileSystem) -> None:
        self._filesystem = filesystem

    def is_directory(self, path: str) -> bool | None:
        """True if `path` is a directory, None if it does not exist."""
        info = self._filesystem.get_file_info(path)
        return None if info.type == fs.FileType.NotFound else info.type == fs.FileType.Directory

    def list_below(self, root: str, folder: str = "", recursive: bool = False) -> list[tuple[TreeEntry, int | None]]:
        """Entries of `folder` below `root`, with the time of their last change (ns); empty if there is no such folder.

        Paths of the entries are relative to `root`.
        """
        top = f"{root.rstrip('/')}/{folder}" if folder else root
        start = len(root.rstrip("/")) + 1
        found = []
        for info in self._filesystem.get_file_info(
            fs.FileSelector(top, recursive=recursive, allow_not_found=bool(folder))
        ):
            is_dir = info.type == fs.FileType.Directory
            entry = TreeEntry(info.path[start:].rstrip("/"), 0 if is_dir else info.size or 0, is_dir)
            found.append((entry, info.mtime_ns))
        return found

    def times_ns(self, paths: Sequence[str]) -> list[int | None]:
        """Time of each file's last change in ns; None if the store does not give it."""
        return [info.mtime_ns for info in self._filesystem.get_file_info(list(paths))]

    def open(self, path: str) -> pyarrow.NativeFile:
        return self._filesystem.open_input_file(path)


def open_store(uri: str) -> tuple[ObjectStore | None, str]:
    """The store that `uri` names, None for local files, and the path in it. Raises ValueError for an unknown scheme."""
    target = "s3://" + uri[len("s3a://") :] if uri.startswith("s3a://") else uri
    try:
        filesystem, path = fs.FileSystem.from_uri(target)
    except (pyarrow.ArrowInvalid, pyarrow.ArrowNotImplementedError) as error:
        raise ValueError(redact(f"{uri}: expected a path, file://, s3://, s3a:// or hdfs://, found {error}")) from None
    except OSError as error:
        # For Hadoop's libraries, pyarrow lists every place where it has looked, one per line.
        reason, *places = str(error).splitlines()
        advice = (
            "; hdfs:// needs Java and Hadoop's native libraries: set JAVA_HOME, HADOOP_HOME and CLASSPATH"
            if places
            else ""
        )
        raise OSError(redact(f"{uri}: {reason}{advice}")) from None
    return None if isinstance(filesystem, fs.LocalFileSystem) else ObjectStore(filesystem), path
