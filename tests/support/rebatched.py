"""Logs of the same records in batches of other sizes."""

from __future__ import annotations

from tests.support.encoder import Record, encode_batch

DELETE = {"cleanup.policy": "delete"}


def _records(start: int, end: int, odd: tuple[int, ...] = ()) -> list[Record]:
    return [
        Record(f"k{offset}".encode(), f"{'odd' if offset in odd else 'v'}{offset}".encode())
        for offset in range(start, end)
    ]


def rebatched(start: int, end: int, step: int, epoch: int = 0, odd: tuple[int, ...] = (), **options) -> list[bytes]:
    return [
        encode_batch(base, _records(base, min(base + step, end), odd), epoch, **options)
        for base in range(start, end, step)
    ]
