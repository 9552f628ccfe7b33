"""Threads of numpy's linear algebra, which nothing here uses."""

from __future__ import annotations

import os


def start_no_blas_threads() -> None:
    """Make numpy start no threads for linear algebra, in this process and its children; before numpy is imported.

    Otherwise OpenBLAS starts one for each core, which waits for work actively: 50 ms of CPU for each. What the user has set stays.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
