"""The process that forks a local session's Python workers: pyspark's daemon, in the version that pip installed.

Spark puts its `pyspark.zip` before everything that is installed, and the zip has no bytecode: compiling it takes most
of a second of every run. In a local session the zip and the installed package are of the same release.
"""

from __future__ import annotations

import sys

if __name__ == "__main__":
    # `python -m` puts the current directory first, where a file numbers.py would be taken for Python's own module.
    del sys.path[0]

import re
import runpy
from collections.abc import Iterable

from replica_audit.process_tuning import collect_rarely, keep_freed_memory

_ZIP_OF_SPARK = re.compile(r"[/\\]python[/\\]lib[/\\](pyspark|py4j-[^/\\]*-src)\.zip")


def without_zips_of_spark(places: Iterable[str]) -> list[str]:
    """A module search path without the zips that hold Spark's own Python; other zips stay."""
    return [place for place in places if not _ZIP_OF_SPARK.search(place)]


if __name__ == "__main__":
    sys.path[:] = without_zips_of_spark(sys.path)
    keep_freed_memory()
    collect_rarely()
    runpy.run_module("pyspark.daemon", run_name="__main__", alter_sys=True)
