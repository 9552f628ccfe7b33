"""Runs and answers of captures, each made once for all who read it. Nobody may change their warehouses."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from tests.support.fixtures import FIXTURES
from tests.support.in_process import Ran, run_stages

from replica_audit.config import Settings
from replica_audit.results import Results
from replica_audit.runner.in_process import audit_all


@pytest.fixture(scope="session")
def written_by_tasks(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """An audit of many partitions, whose tables tasks have written."""
    return run_stages(FIXTURES / "diverged-multi", tmp_path_factory.mktemp("written") / "warehouse", driver_rows=1)


@pytest.fixture(scope="session")
def run_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], Ran]:
    """The run of a snapshot, which nobody may change either."""

    @cache
    def ran(snapshot: Path) -> Ran:
        return run_stages(snapshot, tmp_path_factory.mktemp("ran") / "warehouse")

    return ran


@pytest.fixture(scope="session")
def unclean() -> Results:
    """The answers on the topic that lost committed records."""
    return audit_all(str(FIXTURES / "diverged-unclean"), Settings(topics=("ledger",)))
