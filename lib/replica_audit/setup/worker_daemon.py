"""The process that a local session's Python workers are forked from: pyspark's own daemon, as pip installed it.

Spark puts its `pyspark.zip` before everything that is installed, and the zip has no bytecode: compiling it anew takes most of a
second of every run. In a local session the zip and the installed package are of one release.
"""

from __future__ import annotations

import runpy
import sys

if __name__ == "__main__":
    sys.path[:] = [place for place in sys.path if not place.endswith(("pyspark.zip", "-src.zip"))]
    runpy.run_module("pyspark.daemon", run_name="__main__", alter_sys=True)
