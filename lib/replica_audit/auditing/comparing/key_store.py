"""Records by the hash of their key: in memory as far as they fit, else in a temporary file, shelf by shelf.

A shelf has all records of some keys, so that keys are compared one shelf after another.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from typing import BinaryIO

import numpy as np

from replica_audit.auditing.comparing.key_state import KeyRows

#: The first bits of a hash say which shelf it belongs to; keys of shelves in their order are in order.
_SHELF_BITS = 6
SHELVES = 1 << _SHELF_BITS

#: Rows that a store holds before it writes them to its file.
HELD_BYTES = 16 << 20


class KeyStore:
    """The keyed records of one side, or of both, in any order."""

    def __init__(self) -> None:
        self._held: list[np.ndarray] = []
        self._held_bytes = 0
        self._file: BinaryIO | None = None
        self._places: list[list[tuple[int, int]]] = [[] for _ in range(SHELVES)]
        self.producers: set[int] = set()
        """Those whose transactions records are of."""

    @property
    def is_in_file(self) -> bool:
        """Whether there are more records than are held in memory."""
        return self._file is not None

    def add(self, rows: KeyRows) -> None:
        self.producers |= rows.producers()
        self._held.append(rows.rows)
        self._held_bytes += rows.rows.nbytes
        if self._held_bytes > HELD_BYTES:
            self._write()

    def shelf(self, number: int | None) -> KeyRows:
        """The records of one shelf; all for None, of a store that is in memory."""
        held = KeyRows.concatenate(map(KeyRows, self._held)).rows
        if number is None:
            return KeyRows(held)
        parts = [held[shelf_of(held["key"]) == number]]
        if self._file is not None:
            for place, size in self._places[number]:
                self._file.seek(place)
                parts.append(np.frombuffer(self._file.read(size), held.dtype))
        return KeyRows(np.concatenate(parts))

    def _write(self) -> None:
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="replica-audit-keys-")  # noqa: SIM115 - as long as the store
        rows = np.concatenate(self._held)
        shelves = shelf_of(rows["key"])
        rows = rows[np.argsort(shelves, kind="stable")]
        ends = np.cumsum(np.bincount(shelves, minlength=SHELVES)) * rows.itemsize
        start, begin = self._file.seek(0, 2), 0
        self._file.write(rows.tobytes())
        for number, end in enumerate(ends.tolist()):
            if end > begin:
                self._places[number].append((start + begin, end - begin))
            begin = end
        self._held, self._held_bytes = [], 0


def shelf_of(keys: np.ndarray) -> np.ndarray:
    """The number of each hash's shelf."""
    return (keys >> np.uint64(64 - _SHELF_BITS)).astype(np.int64)


def shelves_of(stores: Sequence[KeyStore]) -> Sequence[int | None]:
    """What `KeyStore.shelf` is asked for to see all records of `stores`: one key is on one shelf of all of them."""
    return range(SHELVES) if any(store.is_in_file for store in stores) else (None,)
