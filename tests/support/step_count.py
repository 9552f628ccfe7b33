"""Counts what Python does, line by line, for each function of the package: the same every time, whatever the machine does."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import replica_audit

_PACKAGE = str(Path(replica_audit.__file__).parent)
#: Also what a dataclass does to be compared and hashed: a search through a list shows there.
_COUNTED = (_PACKAGE, "<string>")

Steps = Counter[str]


def _counter() -> tuple[Callable, Callable[[], int]]:
    """Function that Python calls for each line and return of a function, and its number of calls."""
    steps = 0

    def step(frame: FrameType, event: str, _: Any) -> Callable:
        nonlocal steps
        steps += 1
        return step

    return step, lambda: steps


def count_steps(run: Callable[[], Any]) -> Steps:
    """Lines that were run, by function; a comprehension or a generator expression is a function of its own."""
    # By identity, since a code object is hashed with all that is in it; those that are kept here cannot be mistaken for others.
    found: dict[int, tuple[CodeType, Callable | None, Callable[[], int]]] = {}

    def enter(frame: FrameType, event: str, _: Any) -> Callable | None:
        code = frame.f_code
        if (known := found.get(id(code))) is None:
            step, count = _counter()
            is_counted = code.co_filename.startswith(_COUNTED)
            known = found[id(code)] = (code, step if is_counted else None, count)
        return known[1]

    before = sys.gettrace()
    sys.settrace(enter)
    try:
        run()
    finally:
        sys.settrace(before)
    steps: Steps = Counter()
    for code, step, count in found.values():
        if step is not None:
            place = code.co_filename.removeprefix(_PACKAGE)
            steps[f"{place}:{code.co_firstlineno} {code.co_name}"] += count()
    return steps
