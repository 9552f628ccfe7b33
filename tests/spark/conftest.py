"""Results that several tests look at, computed once per run in the one session."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from tests.support.planted import write_planted

from replica_audit.config import Settings
from replica_audit.progress import Progress
from replica_audit.results import Results


@dataclass(frozen=True)
class Audited:
    """A snapshot after ingest and audit."""

    path: Path
    settings: Settings
    snapshot_id: str
    results: Results


@pytest.fixture(scope="session")
def settings(tmp_path_factory) -> Settings:
    """Settings with a warehouse that the whole test run shares."""
    return Settings(warehouse=str(tmp_path_factory.mktemp("shared") / "warehouse"), quiet=True)


@pytest.fixture(scope="session")
def run_stages(spark, settings) -> Callable[..., Audited]:
    """Ingest and audit a snapshot; changes to the shared settings are keyword arguments."""

    def run(path: Path, **changes: object) -> Audited:
        from replica_audit.spark.pipeline import run_audit, run_ingest

        own = replace(settings, **changes)
        snapshot_id = run_ingest(spark, str(path), own, Progress())
        return Audited(path, own, snapshot_id, run_audit(spark, snapshot_id, own, Progress()))

    return run


@pytest.fixture(scope="session")
def planted(run_stages, tmp_path_factory) -> Audited:
    """The planted snapshot, audited."""
    return run_stages(write_planted(tmp_path_factory.mktemp("planted") / "snapshot"))


@pytest.fixture(scope="session")
def sample(run_stages) -> Audited:
    """A small sample with findings, audited."""
    return run_stages(Path(__file__).parents[2] / "data" / "samples" / "last-replica-standing")
