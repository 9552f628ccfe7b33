"""A limit on the bytes read, raised by consent; readers wait while it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from threading import Condition
from typing import TypeVar

_Answer = TypeVar("_Answer")


class NotAgreedError(Exception):
    """The agreed number of bytes has come; what remains is not read."""


class AgreedBytes:
    """Counter of bytes against an agreed number. `ask` is called with the bytes that came, and returns True to allow as many again."""

    def __init__(self, size_bytes: int, ask: Callable[[int], bool]) -> None:
        self._step = self._agreed_bytes = size_bytes
        self._ask = ask
        self._changed = Condition()
        self._is_over = False
        self._waiting = 0
        self.came_bytes = 0

    @property
    def _is_spent(self) -> bool:
        return self.came_bytes >= self._agreed_bytes

    def count(self, size_bytes: int) -> None:
        """Add received bytes; callable from any thread."""
        with self._changed:
            self.came_bytes += size_bytes

    def wait(self) -> None:
        """Wait, in any thread, until more bytes are allowed. Raises NotAgreedError if they are not."""
        with self._changed:
            if self._is_spent:
                self._waiting += 1
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._is_over or not self._is_spent)
                self._waiting -= 1
            if self._is_spent:
                raise NotAgreedError(f"nobody agreed to read more than the {self.came_bytes:,} bytes that had come")

    def results(self, readers: Sequence[Future[_Answer]]) -> list[_Answer]:
        """Results of `readers`, which call `count` and `wait`; `ask` is called in this thread. Raises what any of them raises."""
        for one in readers:
            one.add_done_callback(self._tell)
        with self._changed:
            while not all(one.done() for one in readers):
                for one in readers:
                    if one.done():
                        one.result()
                if self._waiting and self._is_spent and not self._is_over:
                    if self._ask(self.came_bytes):
                        self._agreed_bytes = self.came_bytes + self._step
                    else:
                        self._is_over = True
                    self._changed.notify_all()
                self._changed.wait()
        return [one.result() for one in readers]

    def end(self) -> None:
        """Release all waiting readers."""
        with self._changed:
            self._is_over = True
            self._changed.notify_all()

    def _tell(self, reader: Future[_Answer]) -> None:
        with self._changed:
            self._changed.notify_all()
