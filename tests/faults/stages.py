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

from replica_audit.auditing.opened_snapshot import Unseen
from replica_audit.config import Settings
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
    snapshot_id = ingest(executor, warehouse, snapshot, settings, Unseen())
    audit(executor, warehouse, snapshot_id, settings, Unseen())


def run_and_copy(snapshot: str, place: str, copies: Path) -> None:
    """The same; before and after every commit what is on the disk, which is what a kill would leave, goes to `copies`/0, /1, ..."""
    taken = itertools.count()

    def wrapped(commit: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            shutil.copytree(place, copies / str(next(taken)))
            result = commit(*arguments, **named)
            shutil.copytree(place, copies / str(next(taken)))
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
