"""Limits for every answer, however hostile its input: types that tables can hold, valid text, bounded time."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from replica_audit.schema import REPORT_TABLES

_GREATEST = {"int": 2**31, "bigint": 2**63}


def check_rows(tables: Mapping[str, list[dict]], *forbidden: str) -> None:
    """Every value fits its column, all text is whole characters, and none of it has `forbidden`."""
    for table, rows in tables.items():
        types = {column.name: column.type for column in REPORT_TABLES.get(table, ())}
        for row in rows:
            for name, value in row.items():
                limit = _GREATEST.get(types.get(name, ""))
                if limit is not None and value is not None:
                    assert -limit <= value < limit, (table, name, value)
                for text in _texts(value):
                    text.encode("utf-8")
                    assert not any(word in text for word in forbidden), (table, name, text)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for one in value.items():
            yield from _texts(list(one))
    elif isinstance(value, (list, tuple)):
        for one in value:
            yield from _texts(one)


@contextmanager
def cpu_seconds(greatest: float) -> Iterator[None]:
    """The block takes at most so much processor time."""
    start = time.process_time()
    yield
    taken = time.process_time() - start
    assert taken <= greatest, f"{taken:.1f} s of CPU"
