"""Ingest and audit, stopped where a test wants it: as copies of what is on the disk at every commit, or killed in time."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import deltalake
import pytest

from replica_audit.config import Settings
from replica_audit.progress import Progress
from replica_audit.runner.executor import InProcess
from replica_audit.runner.ingest import ingest
from replica_audit.runner.ingested_source import audit
from replica_audit.warehouse.delta_tables import Warehouse

#: Everything that commits to a table.
_COMMITS = (
    (deltalake, "write_deltalake"),
    (deltalake.DeltaTable, "create_write_transaction"),
    (deltalake.DeltaTable, "create"),
)

KILLED = -signal.SIGKILL


def run_stages(snapshot: str, place: str) -> None:
    """Ingest and audit a snapshot as `run` does."""
    executor, warehouse, settings = InProcess(), Warehouse(place), Settings(warehouse=place)
    snapshot_id = ingest(executor, warehouse, snapshot, settings, Progress())
    audit(executor, warehouse, snapshot_id, settings, Progress())


def run_and_copy(snapshot: str, place: str, copies: Path) -> None:
    """The same; before and after every commit what is on the disk, which is what a kill would leave, goes to a directory of `copies`
    that is named for the table and numbered: 0-batches, 1-batches, 2-segments, ...
    """
    taken = itertools.count()

    def wrapped(commit: Callable[..., Any]) -> Callable[..., Any]:
        def call(table: str | deltalake.DeltaTable, *arguments: Any, **named: Any) -> Any:
            uri = table if isinstance(table, str) else table.table_uri
            name = uri.rstrip("/").rpartition("/")[2]
            # Files of a table are written once, and then only deleted.
            shutil.copytree(place, copies / f"{next(taken)}-{name}", copy_function=os.link)
            result = commit(table, *arguments, **named)
            shutil.copytree(place, copies / f"{next(taken)}-{name}", copy_function=os.link)
            return result

        return call

    with pytest.MonkeyPatch.context() as patch:
        for owner, name in _COMMITS:
            patch.setattr(owner, name, wrapped(getattr(owner, name)))
        run_stages(snapshot, place)


def die_in_time(snapshot: str, place: str, seconds: float) -> None:
    """The same; the process is killed after so many seconds, wherever it is."""
    threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGKILL)).start()
    run_stages(snapshot, place)
