"""What all tests share: one Spark session for the whole run, started by the first test that asks for it."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="session")
def spark():
    """The local session of this test run; a JVM is started only when a test needs it."""
    from replica_audit.spark.session import build_session

    # A local session stays with quick compilation, since it lives for seconds; this one lives for minutes.
    flags = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=4"}
    session = build_session("replica-audit tests", flags, local=True)
    yield session
    session.stop()


def pytest_collection_modifyitems(items):
    """Whatever asks for the session is marked `session` and `spark`, so that `-m 'not spark'` needs no Java."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.session)
            item.add_marker(pytest.mark.spark)
