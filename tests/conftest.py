"""What all tests share: one Spark session for the whole run, started by the first test that asks for it."""

from __future__ import annotations

import os

import pytest


@pytest.fixture(scope="session")
def spark():
    """The local session of this test run; a JVM is started only when a test needs it."""
    from replica_audit.spark.session import build_session

    session = build_session("replica-audit tests", local=True)
    yield session
    session.stop()


# First: pytest-xdist reads the groups in the same hook.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Whatever asks for the session is marked `spark`, so that `-m 'not spark'` needs no Java.

    With several processes one of them has the session and all tests that want it; the other files go to any, whole.
    """
    for item in items:
        shared = "spark" in getattr(item, "fixturenames", ())
        if shared:
            item.add_marker(pytest.mark.spark)
        item.add_marker(pytest.mark.xdist_group("session" if shared else item.nodeid.split("::")[0]))
    if config.getoption("numprocesses", None) or "PYTEST_XDIST_WORKER" in os.environ:
        # The longest first: the session's, then those that start engines of their own.
        items.sort(key=lambda item: (item.get_closest_marker("spark") is None, "spark" not in item.fixturenames))
