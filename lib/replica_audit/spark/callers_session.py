"""Sessions that the caller started: the Python of their workers, unless somebody chose one."""

from __future__ import annotations

import os
import shlex
import sys
from typing import TYPE_CHECKING

from replica_audit.scratch import scratch_directory
from replica_audit.spark.tasks import is_remote

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def use_own_python(spark: SparkSession) -> None:
    """Make the workers of a local session use this process's interpreter, and import nothing from the current directory.

    Otherwise they are the `python3` of the path, which lacks the packages if a script is run by its environment's Python
    without activation; and a file `numbers.py` where the script runs would be taken for Python's own. 3.11 and later respect
    PYTHONSAFEPATH; 3.10 is started by a script. A Python named by PYSPARK_PYTHON or spark.pyspark.python, clusters and Spark
    Connect are left alone.
    """
    context = None if is_remote(spark) else spark.sparkContext
    if context is None or not (context.master or "").startswith("local"):
        return
    if "PYSPARK_PYTHON" not in os.environ and context.getConf().get("spark.pyspark.python") is None:
        context.pythonExec = sys.executable
    if hasattr(sys.flags, "safe_path"):
        context.environment.setdefault("PYTHONSAFEPATH", "1")
    elif context.pythonExec == sys.executable:
        context.pythonExec = _python_without_current_directory()


def _python_without_current_directory() -> str:
    """An executable that does what this Python does with `-m MODULE ARGUMENT...`, without looking for modules in the current
    directory."""
    place = scratch_directory()
    (place / "worker.py").write_text(_RUN_MODULE, encoding="utf-8")
    command = place / "worker"
    command.write_text(
        f'#!/bin/sh\nexec {shlex.join([sys.executable, str(place / "worker.py")])} "$@"\n', encoding="utf-8"
    )
    command.chmod(0o700)
    return str(command)


#: sys.path[0] is the directory of the script that runs this.
_RUN_MODULE = """import sys
del sys.path[0]
import runpy
sys.argv = sys.argv[1:]
runpy.run_module(sys.argv.pop(1), run_name="__main__", alter_sys=True)
"""
