"""Text as a terminal that shows colours has it."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import copy_context
from typing import Any

from replica_audit.report.layout import set_colour


def in_colour(render: Callable[..., str], *arguments: Any) -> str:
    """Return value of `render` with colours on."""
    context = copy_context()
    context.run(set_colour, True)
    return context.run(render, *arguments)
