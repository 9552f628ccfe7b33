"""Everything here starts real brokers: it runs only when asked for, after make test-brokers has brought what it needs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.brokers.captured_cluster import CapturedCluster
from tests.support.fixtures import FIXTURES


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is in this directory."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.brokers)


@pytest.fixture(scope="module")
def diverged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[CapturedCluster, str]]:
    """The cluster of diverged-unclean with the brokers that were up, and where it listens; broker 0 holds what is lost."""
    with CapturedCluster(FIXTURES / "diverged-unclean", tmp_path_factory.mktemp("kafka") / "run") as cluster:
        yield cluster, cluster.start(1, 2)
