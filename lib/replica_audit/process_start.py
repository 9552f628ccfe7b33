"""The start of a process of ours: settings that save CPU time and that its forks inherit, made before anything else is imported."""

from __future__ import annotations

import gc
import os
import re
import sys
from collections.abc import Sequence
from importlib.machinery import PathFinder

#: Rows are many and long-lived: a search after every 700 new objects takes a fifth of the driver's time, and a third of that of
#: tasks that read rows.
_NEW_OBJECTS = 100_000
#: Parameter numbers of mallopt(3).
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_FREED_BYTES = 64 << 20

_ZIP_OF_SPARK = re.compile(r"[/\\]python[/\\]lib[/\\](pyspark|py4j-[^/\\]*-src)\.zip")


def start_no_blas_threads() -> None:
    """Make numpy start no threads for linear algebra, which nothing here uses; before numpy is imported.

    Otherwise OpenBLAS starts one for each core, which waits for work actively: 50 ms of CPU for each. What the user has set stays.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def use_systems_memory() -> None:
    """Make Arrow take its memory from the C library; before pyarrow is imported.

    Arrow's own pool keeps what is freed apart, where nothing else can use it: 45 MB of a driver that reads 100,000 partitions, and a
    seventh of the peak of a scan task. What the user has set stays.
    """
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")


def collect_rarely() -> None:
    """Search for unreachable cycles of objects only after every 100,000 new ones."""
    gc.set_threshold(_NEW_OBJECTS)


def leave_to_system() -> None:
    """Leave all objects to the operating system, which takes them back at the end of the process anyway: without this, Python
    searches all of them for cycles as it exits."""
    gc.freeze()


def keep_freed_memory() -> None:
    """Make glibc keep up to 64 MiB of freed memory, since a scan needs the same amount for every window.

    Otherwise each window of a segment is returned to the system and its pages are made anew, which takes a fifth of a scan
    (benchmarks/scan.py). Other C libraries have no such setting and are left as they are.
    """
    import ctypes  # 2 ms, which every command would pay at its start

    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        for parameter in (_MMAP_THRESHOLD, _TRIM_THRESHOLD):
            mallopt(parameter, _FREED_BYTES)


def prefer_compiled_pyspark() -> None:
    """Take Spark's zips off this process's module search path, if `without_zips_of_spark` allows it; before pyspark is imported.

    Spark puts its own `pyspark.zip` before everything that is installed, and the zip has no bytecode: compiling it takes half a
    second of every process that imports it. The installed one of the same release has bytecode.
    """
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
