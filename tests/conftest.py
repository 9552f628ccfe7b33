"""Fixtures of all tests: one Spark session for the whole run, started by the first test that needs it; a replaced engine."""

from __future__ import annotations

import gc
import os
import re
import sys
from pathlib import Path

import pytest
from tests.support.in_memory import in_memory
from tests.support.parameter_names import name_parameter

ROOT = Path(__file__).parents[1]
#: What has a target of its own in the Makefile.
OPT_IN = ("airflow", "s3", "brokers")

# pytest makes the directories of tests below it, on a disk where there is no room in memory.
if place := in_memory():
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(place))

# Answers of captures are kept for the whole run; to look through them for garbage often takes up to a tenth of it.
gc.set_threshold(100_000, 50, 100)


def pytest_sessionfinish(session):
    """What is kept then is not looked through once more, five times, as pytest ends; nor is hypothesis imported where no test did."""
    gc.freeze()
    plugins = session.config.pluginmanager
    if "hypothesis" not in sys.modules and plugins.has_plugin("hypothesispytest"):
        plugins.unregister(name="hypothesispytest")


def pytest_make_parametrize_id(val):
    return name_parameter(val)


@pytest.fixture(scope="session")
def spark():
    """The local session of this test run; a JVM is started only when a test needs it."""
    from replica_audit.spark.session import build_session

    session = build_session("replica-audit tests", local=True)
    yield session
    session.stop()


@pytest.fixture
def engines(monkeypatch):
    """The engines that no command needs, DuckDB and Polars, can be imported where `make engines` installed them."""
    monkeypatch.setattr(sys, "path", [*sys.path, str(ROOT / "build" / "engines")])


@pytest.fixture
def engine(monkeypatch, tmp_path):
    """The engine of commands replaced: only what is around it is tested."""
    from tests.support.engine import replace_engine

    return replace_engine(monkeypatch, tmp_path)


def pytest_collection_modifyitems(items):
    """Whatever asks for the session is marked `session` and `spark`, so that `-m 'not spark'` needs no Java.

    A test of Spark has to be where `make test` looks for it.
    """
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    places = tuple(re.search(r"^SPARK_TESTS := (.*)$", makefile, re.MULTILINE)[1].split())
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.session)
            item.add_marker(pytest.mark.spark)
        if item.nodeid.startswith(places) or not item.get_closest_marker("spark"):
            continue
        if not any(item.get_closest_marker(name) for name in OPT_IN):
            raise pytest.UsageError(f"{item.nodeid} needs Spark, but is not in SPARK_TESTS of the Makefile")
