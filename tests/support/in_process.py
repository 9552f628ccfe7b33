"""Commands and stages that need no JVM: everything of a run in this process."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.support.audit_json_text import audit_json_text

from replica_audit.config import Settings
from replica_audit.progress import Progress
from replica_audit.results import Results
from replica_audit.runner.executor import InProcess
from replica_audit.runner.ingest import ingest
from replica_audit.runner.ingested_source import audit
from replica_audit.warehouse.delta_tables import Warehouse


def run_in_process(patch: pytest.MonkeyPatch) -> None:
    """Let no command start a session, and every stage run its tasks here."""
    session = SimpleNamespace(stop=lambda: None)
    patch.setattr("replica_audit.spark.session.start_session", lambda *_, **__: session)
    patch.setattr("replica_audit.spark.pipeline.SparkExecutor", lambda _: InProcess())


@dataclass(frozen=True)
class Ran:
    """Snapshot and answers after `run`."""

    warehouse: Warehouse
    snapshot_id: str
    results: Results


def run_stages(snapshot: Path, place: Path, warehouse: Warehouse | None = None, **settings: Any) -> Ran:
    """Ingest and audit a snapshot into the warehouse at `place`, which may be open from an earlier run."""
    chosen = Settings(warehouse=str(place), quiet=True, **settings)
    if warehouse is None:
        warehouse = Warehouse(chosen.warehouse, time_travel_days=chosen.time_travel_days)
    snapshot_id = ingest(InProcess(), warehouse, str(snapshot), chosen, Progress())
    return Ran(warehouse, snapshot_id, audit(InProcess(), warehouse, snapshot_id, chosen, Progress()))


def without_run(results):
    """audit.json without what belongs to the run: its id and its times."""
    content = json.loads(audit_json_text(results))
    for name in ("audit_id", "started", "finished"):
        assert content["audit"].pop(name)
    return content
