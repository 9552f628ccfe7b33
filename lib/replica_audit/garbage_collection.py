"""Frequency of Python's search for unreachable cycles of objects."""

from __future__ import annotations

import gc

#: Rows are many and long-lived: a search after every 700 new objects takes a fifth of the driver's time, and a third of that of
#: tasks that read rows.
_NEW_OBJECTS = 50_000


def collect_rarely() -> None:
    """Search for cycles only after every 50,000 new objects, in this process and its forks."""
    gc.set_threshold(_NEW_OBJECTS)
