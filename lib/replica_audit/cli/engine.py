"""The Spark session that a command runs in."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from replica_audit.cli.interruption import INTERRUPTION
from replica_audit.config import Settings


@contextmanager
def spark_session(app_name: str, settings: Settings) -> Iterator[Any]:
    """A session with `settings.spark`, stopped at the end; EngineError says which package executors lack."""
    from replica_audit.spark.environment import lacking_package
    from replica_audit.spark.session import build_session

    INTERRUPTION.use_scratch()
    spark = build_session(app_name, settings.spark)
    INTERRUPTION.guard()
    try:
        yield spark
    except Exception as error:
        lacking = lacking_package(error)
        if lacking is None:
            raise
        raise lacking from error
    finally:
        spark.stop()
