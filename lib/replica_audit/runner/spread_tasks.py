"""Discovery of many replicas on an executor (`snapshot.spread_discovery`)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from functools import partial

from replica_audit.runner.executor import Executor
from replica_audit.snapshot.spread_discovery import DirReader, DirStretch, PackedDirs


class SpreadTasks:
    """Runs the tasks of discovery (`spread_discovery.Spreading`)."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self.changes: list[int | None] = []
        """Each task's contribution to `hash_changes`; None if the storage does not tell when files were changed."""

    def read(self, reader: DirReader, stretches: Sequence[DirStretch]) -> list[PackedDirs]:
        found = self._executor.map(stretches, partial(_read, reader))
        self.changes += (change for _, change in found)
        return [packed for packed, _ in found]


def _read(reader: DirReader, stretch: DirStretch) -> list[tuple[PackedDirs, int | None]]:
    from replica_audit.auditing.bronze_rows import copy_rows
    from replica_audit.auditing.snapshot_id import pack_lines, row_lines, sum_lines
    from replica_audit.snapshot.packed_replicas import pack_replicas

    found = reader.read(stretch)
    files = [(file.path, file.size_bytes) for one in found.held for file in one.segments]
    changes = reader.snapshot.last_changes([path for path, _ in files])
    lines = list(row_lines(copy_rows(one.replica for one in found.held)))
    total = None if None in changes else sum_lines([*lines, *file_lines(files, changes)])
    return [(PackedDirs(found._replace(held=()), *pack_replicas(found.held), pack_lines(lines)), total)]


def file_lines(files: Iterable[tuple[str, int]], changes: Iterable[str | None]) -> Iterable[str]:
    """A line for each file (path, size) with its last change, for `hash_changes`."""
    return (json.dumps([path, size, change]) for (path, size), change in zip(files, changes, strict=True))
