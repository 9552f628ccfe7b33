"""How often Python looks for cycles of objects that nothing else refers to."""

from __future__ import annotations

import gc

#: Rows are many and long-lived: a look after every 700 new objects takes a fifth of the driver's time, and a third of that of tasks
#: that read rows.
_NEW_OBJECTS = 50_000


def collect_rarely() -> None:
    """Look for cycles after every 50,000 new objects, in this process and those that are forked from it."""
    gc.set_threshold(_NEW_OBJECTS)
