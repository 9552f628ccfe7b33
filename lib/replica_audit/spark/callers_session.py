"""Sessions that the caller started: the Python of their workers, where nobody chose one."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def use_own_python(spark: SparkSession) -> None:
    """Have the workers of a local session be of this process's interpreter, with nothing imported from the current directory.

    Without this they are the `python3` of the path, which has none of the packages where a script is run by its environment's
    Python without activation; and a file `numbers.py` where the script runs would be taken for Python's own (3.11 and later look
    at PYTHONSAFEPATH). A Python that PYSPARK_PYTHON or spark.pyspark.python names, clusters and Spark Connect are left alone.
    """
    context = None if type(spark).__module__.startswith("pyspark.sql.connect") else spark.sparkContext
    if context is None or not (context.master or "").startswith("local"):
        return
    if "PYSPARK_PYTHON" not in os.environ and context.getConf().get("spark.pyspark.python") is None:
        context.pythonExec = sys.executable
    context.environment.setdefault("PYTHONSAFEPATH", "1")
