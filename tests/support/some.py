"""Loops of assertions that cannot pass over nothing (tests/support/test_loops.py)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

Thing = TypeVar("Thing")


def some(things: Iterable[Thing]) -> Iterator[Thing]:
    """The things one by one; fails at the end where there were none."""
    found = False
    for thing in things:
        found = True
        yield thing
    assert found, "nothing to look at: the assertions of this loop would hold of anything"
