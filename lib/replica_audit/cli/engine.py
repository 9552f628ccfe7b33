"""The Spark session that a command runs in."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from replica_audit.config import Settings


@contextmanager
def spark_session(app_name: str, settings: Settings) -> Iterator[Any]:
    """A session with the settings of `settings.spark`, stopped at the end."""
    from replica_audit.spark.session import build_session

    spark = build_session(app_name, settings.spark)
    try:
        yield spark
    finally:
        spark.stop()
