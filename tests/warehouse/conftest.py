"""An audit of many partitions whose tables tasks have written, made once for all who read it."""

from __future__ import annotations

import pytest
from tests.support.fixtures import FIXTURES
from tests.support.in_process import Ran, run_stages


@pytest.fixture(scope="session")
def written_by_tasks(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """Nobody may change its warehouse."""
    return run_stages(FIXTURES / "diverged-multi", tmp_path_factory.mktemp("written") / "warehouse", driver_rows=1)
