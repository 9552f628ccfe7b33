"""Parts of a file that tasks leave beside the files of a table, for the driver to join: no commit names them. The run that they
belong to deletes them when it ends, and a sweep deletes those of a killed run."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime

from pyarrow import fs

from replica_audit.warehouse.table_layout import open_directory

#: Bytes read at a time.
_PIECE = 1 << 20
_SUFFIX = ".part"


def _new_id() -> str:
    return uuid.uuid4().hex


@dataclass(frozen=True, slots=True)
class LeftParts:
    """The parts of one run, whose names begin with its id."""

    directory: str
    run: str = field(default_factory=_new_id)

    def leave(self, content: Iterable[bytes]) -> str:
        """Write a part under a name unique to each attempt of a task; returns the name. Raises OSError."""
        name = f"{self.run}-{_new_id()}{_SUFFIX}"
        filesystem, root = open_directory(self.directory)
        with filesystem.open_output_stream(f"{root}/{name}") as stream:
            for piece in content:
                stream.write(piece)
        return name

    def read(self, name: str) -> Iterator[bytes]:
        """The part's content in pieces."""
        filesystem, root = open_directory(self.directory)
        with filesystem.open_input_file(f"{root}/{name}") as stream:
            while piece := stream.read(_PIECE):
                yield piece

    def discard(self) -> OSError | None:
        """Delete all parts, including those of failed attempts; returns the error for those that could not be deleted, if any."""
        try:
            return _delete(self.directory, lambda one: one.base_name.startswith(f"{self.run}-"))
        except OSError as error:
            return error


def sweep_parts(directory: str, before: datetime) -> None:
    """Delete the parts of all runs that were written before `before`. Raises OSError."""
    if refused := _delete(directory, lambda one: one.mtime is not None and one.mtime < before):
        raise refused


def _delete(directory: str, is_wanted: Callable[[fs.FileInfo], bool]) -> OSError | None:
    """Delete as many as possible; returns the first error."""
    filesystem, root = open_directory(directory)
    refused = None
    for one in filesystem.get_file_info(fs.FileSelector(root)):
        if one.is_file and one.base_name.endswith(_SUFFIX) and is_wanted(one):
            try:
                with suppress(FileNotFoundError):
                    filesystem.delete_file(one.path)
            except OSError as error:
                refused = refused or error
    return refused
