"""Frequency of Python's search for unreachable cycles of objects."""

from __future__ import annotations

import gc

#: Rows are many and long-lived: a search after every 700 new objects takes a fifth of the driver's time, and a third of that of
#: tasks that read rows.
_NEW_OBJECTS = 100_000


def collect_rarely() -> None:
    """Search for cycles only after every 100,000 new objects, in this process and its forks."""
    gc.set_threshold(_NEW_OBJECTS)


def leave_to_system() -> None:
    """Leave all objects to the operating system, which takes them back at the end of the process anyway: without this, Python
    searches all of them for cycles as it exits."""
    gc.freeze()
