"""The Spark session that a command runs in."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from replica_audit.cli.interruption import INTERRUPTION
from replica_audit.cli.output import print_error
from replica_audit.config import Settings


@contextmanager
def spark_session(app_name: str, settings: Settings) -> Iterator[Any]:
    """A session with `settings.spark`, stopped at the end; EngineError says which package executors lack."""
    from replica_audit.install.environment import lacking_package
    from replica_audit.spark.jvm_stderr import logged_errors
    from replica_audit.spark.session import start_session

    INTERRUPTION.use_scratch()
    spark = start_session(app_name, settings.spark)
    INTERRUPTION.guard()
    try:
        yield spark
    except Exception as error:
        # A JVM that is gone cannot be stopped; what matters is what happened before.
        with suppress(Exception):
            spark.stop()
        lacking = lacking_package(error)
        if lacking is None:
            raise
        raise lacking from error
    except BaseException:
        spark.stop()
        raise
    spark.stop()
    if logged := logged_errors():
        first = logged.splitlines()[0]
        print_error(f"Java logged errors that stopped nothing, the first: {first}")


@contextmanager
def catalog_session(app_name: str, settings: Settings) -> Iterator[Any]:
    """What reading rows of the warehouse needs: a session where the tables are in a catalog, else None and no Java."""
    if settings.catalog is None:
        yield None
        return
    with spark_session(app_name, settings) as spark:
        yield spark
