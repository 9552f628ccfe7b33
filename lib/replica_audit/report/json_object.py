"""One JSON object as text."""

from __future__ import annotations

import json
from collections.abc import Mapping

#: File of a report that has the rows of all partitions where audit.json would be too long.
LINES = "audit.jsonl.gz"


def render_object(content: Mapping[str, object]) -> str:
    """`content`, indented, with a line end. Raises ValueError for numbers that JSON does not have."""
    return json.dumps(content, indent=2, allow_nan=False) + "\n"
