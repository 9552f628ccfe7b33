"""Rows as lines of JSON: ASCII, without spaces, the same bytes for the same row."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

_encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False, check_circular=False).encode


def json_line(row: Mapping[str, Any]) -> bytes:
    """The line of `row`, its end included."""
    return _encode(row).encode("ascii") + b"\n"
