"""The console script: Ctrl-C while the program is loaded ends it, with no traceback of whatever was being imported."""

from __future__ import annotations

import signal
from importlib import import_module


def entry_point() -> None:
    """Load the program and run it; never returns."""
    # What starts a process in the background may have it ignore Ctrl-C.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    import_module("replica_audit.cli.main").entry_point()
