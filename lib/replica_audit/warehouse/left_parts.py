"""Parts of a file that tasks leave beside the files of a table, for the driver to put together: no commit names them, and a vacuum
removes those of a run that was killed.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from replica_audit.warehouse.table_layout import open_directory

#: Bytes that are read at once.
_PIECE = 1 << 20


@dataclass(frozen=True, slots=True)
class LeftPart:
    """One of them."""

    directory: str
    name: str


def leave_part(directory: str, content: bytes) -> LeftPart:
    """Write a part, with a name of its own for each attempt of a task."""
    part = LeftPart(directory, f"{uuid.uuid4().hex}.part")
    filesystem, root = open_directory(directory)
    with filesystem.open_output_stream(f"{root}/{part.name}") as stream:
        stream.write(content)
    return part


def read_part(part: LeftPart) -> Iterator[bytes]:
    """Its content, some at a time."""
    filesystem, root = open_directory(part.directory)
    with filesystem.open_input_file(f"{root}/{part.name}") as stream:
        while piece := stream.read(_PIECE):
            yield piece


def discard_parts(parts: Iterable[LeftPart]) -> None:
    """Delete them."""
    for part in parts:
        filesystem, root = open_directory(part.directory)
        filesystem.delete_file(f"{root}/{part.name}")
