"""The console script, and the mains for spark-submit. Ctrl-C while the program loads ends it without a traceback."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from importlib import import_module

from replica_audit.process_start import (
    collect_rarely,
    prefer_compiled_pyspark,
    start_no_blas_threads,
    use_systems_memory,
)


def entry_point(argv: Sequence[str] | None = None) -> None:
    """Load the program and run it, in a process of its own; never returns."""
    # Background processes may be started with Ctrl-C ignored.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    prefer_compiled_pyspark()
    collect_rarely()
    start_no_blas_threads()
    use_systems_memory()
    import_module("replica_audit.cli.main").entry_point(argv)
