"""How many bytes may come before somebody is asked again; readers wait meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from threading import Condition
from typing import TypeVar

_Answer = TypeVar("_Answer")


class NotAgreedError(Exception):
    """As many bytes have come as somebody agreed to; what is left is not read."""


class AgreedBytes:
    """Bytes that came, of those that somebody agreed to. `ask` gets how many came, and is true if as many again may come."""

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
        """Count what came, in any thread."""
        with self._changed:
            self.came_bytes += size_bytes

    def wait(self) -> None:
        """Return, in any thread, when more may come. Raises NotAgreedError when nothing more may."""
        with self._changed:
            if self._is_spent:
                self._waiting += 1
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._is_over or not self._is_spent)
                self._waiting -= 1
            if self._is_spent:
                raise NotAgreedError(f"nobody agreed to read more than the {self.came_bytes:,} bytes that had come")

    def results(self, readers: Sequence[Future[_Answer]]) -> list[_Answer]:
        """The results of readers, which call `count` and `wait`; `ask` is called in this thread. Raises what any of them raises."""
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
        """Let nobody wait any longer."""
        with self._changed:
            self._is_over = True
            self._changed.notify_all()

    def _tell(self, reader: Future[_Answer]) -> None:
        with self._changed:
            self._changed.notify_all()
