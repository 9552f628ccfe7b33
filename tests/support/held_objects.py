"""Objects that a piece of code creates and holds, independent of those of the test run."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def only_new_objects() -> Iterator[None]:
    """Within it `count_held` looks at what was made since it was entered only: what was held or garbage before is left as it is."""
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def count_held(*kinds: type) -> int:
    """Objects of these classes that something still holds."""
    gc.collect()
    return sum(isinstance(one, kinds) for one in gc.get_objects())
