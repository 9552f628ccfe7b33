"""What makes two records the same wherever they lie: SHA-256 of timestamp, key, value and headers."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable

_TIMESTAMP = struct.Struct(">q")
_LENGTH = struct.Struct(">i")


def record_digest(
    timestamp: int, key: bytes | None, value: bytes | None, headers: Iterable[tuple[str, bytes | None]]
) -> str:
    """Hex digits of the SHA-256 of: the timestamp (8 bytes, big-endian, -1 for none); key and value, each as its length
    (4 bytes, -1 for null) and its bytes; the number of headers (4 bytes); and of each its name and its value alike.
    """
    headers = list(headers)
    digest = hashlib.sha256(_TIMESTAMP.pack(timestamp))
    for part in (key, value):
        _add(digest, part)
    digest.update(_LENGTH.pack(len(headers)))
    for name, content in headers:
        _add(digest, name.encode())
        _add(digest, content)
    return digest.hexdigest()


def _add(digest: hashlib._Hash, part: bytes | None) -> None:
    digest.update(_LENGTH.pack(-1) if part is None else _LENGTH.pack(len(part)) + part)
