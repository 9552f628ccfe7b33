"""Keyed hashes of records as the numbers that rows have, to be compared with."""

from __future__ import annotations

import sys

from replica_audit.segments.records import RecordHasher


class NumberedHasher(RecordHasher):
    """A hasher whose hashes a test can compute."""

    __slots__ = ()

    def hash(self, *parts: bytes | None) -> int:
        """The number that a row of RECORD_DTYPE has for `parts`."""
        return int.from_bytes(self.digest(*parts), sys.byteorder)
