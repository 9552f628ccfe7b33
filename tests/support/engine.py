"""The engine of commands replaced: what was asked of it, and answers that a test chose."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from tests.support.report_rows import results

from replica_audit.results import Results


class Engine:
    """Stands for session, pipeline and single-partition audit; remembers what it was asked for."""

    def __init__(self) -> None:
        self.results: Results = results()
        self.error: BaseException | None = None
        self.calls: list[tuple[Any, ...]] = []
        self.stopped = 0
        self.logged = ""

    def start_session(self, app_name: str, settings: Any, meanwhile: Any, delta: bool) -> Any:
        self.calls.append(("session with Delta" if delta else "session", dict(settings)))
        return SimpleNamespace(stop=self.stop)

    def logged_errors(self) -> str:
        return self.logged

    def stop(self) -> None:
        self.stopped += 1

    def run_ingest(self, spark: Any, snapshot: str, settings: Any, progress: Any) -> str:
        self.calls.append(("ingest", snapshot))
        if self.error is not None:
            raise self.error
        return "s1"

    def run_audit(
        self, spark: Any, snapshot_id: str | None, settings: Any, progress: Any, snapshot_uri: str | None = None
    ) -> Results:
        self.calls.append(("audit", snapshot_id))
        return self.results

    def unfinished_audits(self, warehouse: Any) -> list[str]:
        return []

    def load_results(self, warehouse: Any, audit_id: str | None, fail_on: str) -> Results:
        self.calls.append(("load", audit_id))
        return self.results

    def load_earlier(self, warehouse: Any, audit: Any) -> None:
        return None

    def audit_all(self, snapshot: str, settings: Any, progress: Any) -> Results:
        self.calls.append(("show", "all"))
        return self.results

    def audit_one(self, snapshot: str, topic_partition: Any, settings: Any) -> Results:
        self.calls.append(("show", str(topic_partition)))
        if self.error is not None:
            raise self.error
        return self.results


def replace_engine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Engine:
    """Let commands have this engine, in a directory with an empty snapshot."""
    made = Engine()
    for name, functions in (
        ("replica_audit.spark.session", ("start_session",)),
        ("replica_audit.spark.jvm_stderr", ("logged_errors",)),
        ("replica_audit.spark.pipeline", ("run_ingest", "run_audit")),
    ):
        module = ModuleType(name)
        for function in functions:
            setattr(module, function, getattr(made, function))
        monkeypatch.setitem(sys.modules, name, module)
    for place in (
        "warehouse.answer_tables.load_results",
        "warehouse.past_audits.load_earlier",
        "warehouse.retention.unfinished_audits",
        "cli.show_command.audit_one",
        "cli.show_command.audit_all",
    ):
        monkeypatch.setattr(f"replica_audit.{place}", getattr(made, place.rpartition(".")[2]))
    for name in [name for name in os.environ if name.startswith("REPLICA_AUDIT_")]:
        monkeypatch.delenv(name)
    # The quality checks have tests of their own, with the engine.
    monkeypatch.setenv("REPLICA_AUDIT_QUALITY", "false")
    (tmp_path / "snapshot").mkdir()
    monkeypatch.chdir(tmp_path)
    return made
