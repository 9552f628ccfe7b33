"""Retention of freed memory by the process: a scan needs the same amount for every window."""

from __future__ import annotations

import ctypes

#: Parameter numbers of mallopt(3).
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_BYTES = 64 << 20


def keep_freed_memory() -> None:
    """Make glibc keep up to 64 MiB of freed memory, for this process and its forks.

    Otherwise each window of a segment is returned to the system and its pages are made anew, which takes a fifth of a scan
    (benchmarks/scan.py). Other C libraries have no such setting and are left as they are.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        for parameter in (_MMAP_THRESHOLD, _TRIM_THRESHOLD):
            mallopt(parameter, _BYTES)
