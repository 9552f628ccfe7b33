"""The console script. Ctrl-C while the program loads ends it without a traceback."""

from __future__ import annotations

import signal
from importlib import import_module


def entry_point() -> None:
    """Load the program and run it; never returns."""
    # Background processes may be started with Ctrl-C ignored.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    import_module("replica_audit.cli.main").entry_point()
