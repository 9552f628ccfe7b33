"""Great Expectations, imported once for this room, with analytics off and without Spark Connect unless it is used.

The package tries to import Spark Connect. Where grpc is missing, Spark then ends the process, with status 0, if the
main module is not a file (`python -c`): it takes that for a run of its doctests.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_CONNECT = ("pyspark.sql.connect.dataframe", "pyspark.sql.connect.session")


@contextmanager
def _without_connect() -> Iterator[None]:
    used = "SPARK_REMOTE" in os.environ and importlib.util.find_spec("grpc") is not None
    hidden = [] if used else [name for name in _CONNECT if name not in sys.modules]
    # None makes an import fail; the declared type of sys.modules does not allow it.
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type]
    try:
        yield
    finally:
        for name in hidden:
            sys.modules.pop(name, None)


# Must be set before the package is imported.
os.environ["GX_ANALYTICS_ENABLED"] = "false"
with _without_connect():
    import great_expectations as gx
    import great_expectations.checkpoint
    import great_expectations.execution_engine.sparkdf_execution_engine
    import great_expectations.expectations  # noqa: F401

__all__ = ["gx"]
