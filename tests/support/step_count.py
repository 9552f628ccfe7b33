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


def count_steps(run: Callable[[], Any]) -> Steps:
    """Lines that were run, by function; a comprehension or a generator expression is a function of its own."""
    found: Counter[CodeType] = Counter()

    def inside(frame: FrameType, event: str, _: Any) -> Callable:
        found[frame.f_code] += 1
        return inside

    def enter(frame: FrameType, event: str, _: Any) -> Callable | None:
        return inside if frame.f_code.co_filename.startswith(_COUNTED) else None

    before = sys.gettrace()
    sys.settrace(enter)
    try:
        run()
    finally:
        sys.settrace(before)
    steps: Steps = Counter()
    for code, count in found.items():
        place = code.co_filename.removeprefix(_PACKAGE)
        steps[f"{place}:{code.co_firstlineno} {code.co_name}"] += count
    return steps
