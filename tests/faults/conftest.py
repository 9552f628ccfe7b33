"""Processes that start at once: forked from one that has imported all that they need."""

from __future__ import annotations

import multiprocessing
from multiprocessing.context import BaseContext

import pytest

#: What runs, and what a run imports late: twice as long as the run itself, were it done in each process.
_IMPORTED = [
    "tests.faults.stages",
    "tests.faults.command",
    "pandas",
    "pyspark",
    "replica_audit.runner.segment_scan",
    "replica_audit.warehouse.table_files",
]


@pytest.fixture(scope="session")
def processes() -> BaseContext:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_IMPORTED)
    return context
