"""Processes that start at once: forked from one that has imported all that they need."""

from __future__ import annotations

import multiprocessing
from multiprocessing.context import BaseContext

import pytest


@pytest.fixture(scope="session")
def processes() -> BaseContext:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.faults.stages", "tests.faults.command"])
    return context
