"""Snapshots without a disk, and checksums put right, so that a change of some bytes reaches what reads them."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Mapping
from typing import BinaryIO

import google_crc32c

from replica_audit.segments.record_batch import CRC_FROM, HEADER_BYTES, LEAST_ENTRY_BYTES, MAGIC_AT, PREFIX_BYTES
from replica_audit.snapshot.file_tree import Tree, TreeEntry
from replica_audit.snapshot.storage import Snapshot

_CRC_AT, _LEGACY_CRC_AT = 17, 12


class MemorySnapshot(Snapshot):
    """A snapshot whose files are in memory, by path."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        super().__init__("memory", "/memory")
        self._files = files

    def list_tree(self) -> Tree:
        entries = {TreeEntry(path, len(data), False) for path, data in self._files.items()}
        for path in self._files:
            while path := path.rpartition("/")[0]:
                entries.add(TreeEntry(path, 0, True))
        return Tree(tuple(sorted(entries)), ())

    def list_directory(self, path: str, prefix: str = "") -> tuple[TreeEntry, ...]:
        found = (one for one in self.list_tree().entries if one.path.rpartition("/")[0] == path)
        return tuple(one for one in found if one.path.rpartition("/")[2].startswith(prefix))

    def open_file(self, path: str) -> BinaryIO:
        if path not in self._files:
            raise FileNotFoundError(f"{path}: no such file")
        return io.BytesIO(self._files[path])


def with_right_checksums(data: bytes) -> bytes:
    """The segment with a right checksum in every entry that its lengths lead to."""
    fixed, position = bytearray(data), 0
    while position + LEAST_ENTRY_BYTES <= len(fixed):
        size = int.from_bytes(fixed[position + 8 : position + 12], "big", signed=True) + PREFIX_BYTES
        end = position + size
        magic = fixed[position + MAGIC_AT]
        if end > len(fixed) or size < (LEAST_ENTRY_BYTES if magic < 2 else HEADER_BYTES):
            break
        if magic < 2:
            at, crc = _LEGACY_CRC_AT, zlib.crc32(fixed[position + MAGIC_AT : end])
        else:
            at, crc = _CRC_AT, google_crc32c.value(bytes(fixed[position + CRC_FROM : end]))
        struct.pack_into(">I", fixed, position + at, crc)
        position = end
    return bytes(fixed)


def entries_of(data: bytes) -> list[bytes]:
    """The entries that the lengths of a segment lead to."""
    found, position = [], 0
    while position + LEAST_ENTRY_BYTES <= len(data):
        size = int.from_bytes(data[position + 8 : position + 12], "big", signed=True) + PREFIX_BYTES
        if not LEAST_ENTRY_BYTES <= size <= len(data) - position:
            break
        found.append(data[position : position + size])
        position += size
    return found
