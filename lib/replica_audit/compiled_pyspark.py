"""The pyspark that a driver or worker imports: the installed one, which has bytecode, before Spark's zip of the same release.

Spark puts its own `pyspark.zip` before everything that is installed, and the zip has no bytecode: compiling it takes half a
second of every process that imports it.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from importlib.machinery import PathFinder

_ZIP_OF_SPARK = re.compile(r"[/\\]python[/\\]lib[/\\](pyspark|py4j-[^/\\]*-src)\.zip")


def prefer_compiled_pyspark() -> None:
    """Take Spark's zips off this process's module search path, if `without_zips_of_spark` allows it; before pyspark is imported."""
    sys.path[:] = without_zips_of_spark(sys.path)


def without_zips_of_spark(places: Sequence[str]) -> list[str]:
    """A module search path without the zips that hold Spark's own Python, if the rest has the same release; other zips stay."""
    zips = [place for place in places if _ZIP_OF_SPARK.search(place)]
    rest = [place for place in places if place not in zips]
    return rest if zips and _release(rest) == _release(zips) else list(places)


def _release(places: Sequence[str]) -> bytes | None:
    """The module of pyspark that states its release; None unless `places` have both pyspark and py4j."""
    pyspark, py4j = (PathFinder.find_spec(name, places) for name in ("pyspark", "py4j"))
    if pyspark is None or py4j is None or pyspark.origin is None:
        return None
    return pyspark.loader.get_data(os.path.join(os.path.dirname(pyspark.origin), "version.py"))  # type: ignore[union-attr]
