"""Freed memory kept by the process: what a scan needs for one window it needs for the next."""

from __future__ import annotations

import ctypes

#: As mallopt(3) numbers them.
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_BYTES = 64 << 20


def keep_freed_memory() -> None:
    """Have glibc keep up to 64 MiB of what is freed, for this process and those that are forked from it.

    Else each window of a segment is given back to the system and its pages are made anew, which takes a fifth of a scan
    (benchmarks/scan.py). Other C libraries have no such setting and are left as they are.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        for parameter in (_MMAP_THRESHOLD, _TRIM_THRESHOLD):
            mallopt(parameter, _BYTES)
