"""Ingest and audit in a process of its own, which dies where a test wants it to."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from typing import Any

import deltalake

from replica_audit.auditing.opening import Unseen
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


def die_at_commit(snapshot: str, place: str, number: int, after: bool) -> None:
    """The same; the process is killed before or after its commit of that number. It ends well when there are fewer."""
    commits = 0

    def wrapped(commit: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            nonlocal commits
            commits += 1
            if commits == number and not after:
                os.kill(os.getpid(), signal.SIGKILL)
            result = commit(*arguments, **named)
            if commits == number:
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        return call

    for owner, name in _COMMITS:
        setattr(owner, name, wrapped(getattr(owner, name)))
    run_stages(snapshot, place)


def die_in_time(snapshot: str, place: str, seconds: float) -> None:
    """The same; the process is killed after so many seconds, wherever it is."""
    threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGKILL)).start()
    run_stages(snapshot, place)
