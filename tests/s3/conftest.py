"""A local S3 server for each kind of store."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.support.s3_stores import Store, start


@pytest.fixture(scope="session")
def usual() -> Iterator[Store]:
    """A store with conditional puts."""
    yield from start("usual")


@pytest.fixture(scope="session")
def ignoring() -> Iterator[Store]:
    """A store that takes two conditional puts of one name."""
    yield from start("ignores")


@pytest.fixture(scope="session")
def refusing() -> Iterator[Store]:
    """A store that rejects conditional puts."""
    yield from start("refuses")


@pytest.fixture
def connect(monkeypatch):
    """Lets this process, and those that it starts, use a store."""

    def use(store: Store) -> Store:
        for name, value in store.environment.items():
            monkeypatch.setenv(name, value)
        return store

    return use
