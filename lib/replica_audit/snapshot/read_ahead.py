"""Objects of a store as seekable files: read in large pieces, with the next ones requested while one is used.

A request to a store takes tens of milliseconds whatever its size, and single requests get only a fraction of the bandwidth.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from itertools import islice
from typing import TypeVar

from replica_audit.segments.streams import PositionedReads

Item = TypeVar("Item")
Made = TypeVar("Made")

#: Size of a piece in sequential reading, and the number requested beyond the one in use.
PIECE_BYTES = 4 << 20
_AHEAD = 4

#: Maximum number of simultaneous requests of a process.
_CONNECTIONS = 32


class ReadAhead(PositionedReads):
    """A binary stream over `read_at(count, position)` of an object of `size_bytes`, which must be thread-safe.

    Sequential reads are prefetched in pieces; any other read requests only its own bytes, since headers are read in
    scattered places of large files. Errors of `read_at` are raised by the read that needs the bytes.
    """

    def __init__(
        self,
        read_at: Callable[[int, int], bytes],
        size_bytes: int,
        let_go: Callable[[], None] = lambda: None,
        etag: str | None = None,
    ) -> None:
        super().__init__(size_bytes)
        self.etag = etag
        self._read_at = read_at
        self._let_go = let_go
        self._end_of_last = -1
        self._origin = 0
        self._pieces: dict[int, Future[bytes]] = {}

    def close(self) -> None:
        """Release the object; does not wait for pieces under way."""
        if not self.closed:
            self._forget()
            self._let_go()
        super().close()

    def read(self, count: int | None = -1) -> bytes:
        """Up to `count` bytes, fewer only at the end."""
        start, end = self._position, self._end_of(count)
        if start >= end:
            return b""
        goes_on = start == self._end_of_last or end - start >= PIECE_BYTES
        data = self._from_pieces(start, end) if goes_on or self._has(start, end) else self._read_at(end - start, start)
        if len(data) != end - start:
            raise OSError(
                f"expected {end - start} bytes at {start}, found {len(data)}: the object changed while it was read"
            )
        self._position = self._end_of_last = end
        return data

    def expect(self, position: int) -> None:
        """Prefetch the first piece from `position` on, where reading will start."""
        self._forget(position)
        self._end_of_last = position
        if position < self.size_bytes:
            self._ask(0)

    def _forget(self, origin: int = 0) -> None:
        for piece in self._pieces.values():
            piece.cancel()
        self._origin, self._pieces = origin, {}

    def _number(self, position: int) -> int:
        return (position - self._origin) // PIECE_BYTES

    def _has(self, start: int, end: int) -> bool:
        return all(number in self._pieces for number in range(self._number(start), self._number(end - 1) + 1))

    def _from_pieces(self, start: int, end: int) -> bytes:
        if self._number(start) not in self._pieces:
            self._forget(start)
        first, last = self._number(start), self._number(end - 1)
        for number in range(first, min(last + _AHEAD, self._number(self.size_bytes - 1)) + 1):
            self._ask(number)
        parts = []
        for number in range(first, last + 1):
            base = self._origin + number * PIECE_BYTES
            parts.append(self._pieces[number].result()[max(0, start - base) : end - base])
        for number in [number for number in self._pieces if number < last]:
            del self._pieces[number]
        return b"".join(parts) if len(parts) > 1 else parts[0]

    def _ask(self, number: int) -> None:
        if number not in self._pieces:
            start = self._origin + number * PIECE_BYTES
            self._pieces[number] = _pool().submit(self._read_at, min(PIECE_BYTES, self.size_bytes - start), start)


def run_ahead(work: Callable[[Item], Made], items: Iterable[Item], count: int) -> Iterator[tuple[Item, Future[Made]]]:
    """Each item with the future of its result, in order, while `work` runs for the `count` items after it.

    The caller must take each future's result or error. With a count of 0 nothing runs ahead.
    """
    remaining = iter(items)
    waiting: list[tuple[Item, Future[Made]]] = []
    while True:
        for item in islice(remaining, count + 1 - len(waiting)):
            waiting.append((item, _submit(work, item, count)))
        if not waiting:
            return
        yield waiting.pop(0)


def read_many(read: Callable[[Item], Made], items: Iterable[Item]) -> Iterator[tuple[Item, Made | BaseException]]:
    """Result of `read` for each item, or its error, in order; many run at once."""
    for item, future in run_ahead(read, items, 2 * _CONNECTIONS):
        error = future.exception()
        if error is None:
            yield item, future.result()
        else:
            yield item, error


def _submit(work: Callable[[Item], Made], item: Item, count: int) -> Future[Made]:
    if count:
        # Not the pool of pieces: work that waits for pieces must not block them.
        return _openers().submit(work, item)
    future: Future[Made] = Future()
    try:
        future.set_result(work(item))
    except BaseException as error:
        future.set_exception(error)
    return future


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_CONNECTIONS, thread_name_prefix="read-ahead")


@cache
def _openers() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_CONNECTIONS, thread_name_prefix="open-ahead")
