"""Lines of a snapshot's id where they are many: sorted and packed in runs, and merged while they are hashed."""

from __future__ import annotations

import heapq
import zlib
from collections.abc import Iterable, Iterator

#: Text that is unpacked of a run at a time: a merge has some of every run in memory.
_STEP = 1 << 14


def pack_lines(lines: Iterable[str]) -> bytes:
    """A run: the lines (ASCII, without newlines in them), sorted and packed."""
    return zlib.compress("".join(f"{line}\n" for line in sorted(lines)).encode("ascii"))


def merge_lines(lines: Iterable[str], runs: Iterable[bytes]) -> Iterator[str]:
    """All of `lines` and those of `runs`, sorted."""
    return heapq.merge(sorted(lines), *map(_unpack, runs))


def _unpack(run: bytes) -> Iterator[str]:
    unpacking, waiting, rest = zlib.decompressobj(), run, b""
    while not unpacking.eof:
        *lines, rest = (rest + unpacking.decompress(waiting, _STEP)).split(b"\n")
        waiting = unpacking.unconsumed_tail
        yield from (line.decode("ascii") for line in lines)
