"""Commands and stages that need no JVM: everything of a run in this process."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from replica_audit.runner.executor import InProcess


def run_in_process(patch: pytest.MonkeyPatch) -> None:
    """Let no command start a session, and every stage run its tasks here."""
    session = SimpleNamespace(stop=lambda: None)
    patch.setattr("replica_audit.spark.session.start_session", lambda *_, **__: session)
    patch.setattr("replica_audit.spark.pipeline.SparkExecutor", lambda _: InProcess())
