"""Ctrl-C, SIGTERM and SIGHUP: the program ends within seconds, at any point, says so, and leaves no files behind.

Unwinding would have to pass through calls into the JVM, which block, and whose other threads print tracebacks when it
ends. So nothing is unwound: a thread of its own receives the signal, the main thread is parked, and the process exits
from there. That is as safe as a kill: files of the report are renamed into place, and a stage counts once its last row is written.
"""

from __future__ import annotations

import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import NoReturn

from replica_audit.scratch import (
    finish_result,
    remove_scratch,
    remove_unfinished,
    say_left,
    scratch_directory,
    unfinished_results,
)

#: Exit status and reason for each signal.
SIGNALS = {
    signal.SIGHUP: (129, "hung up"),
    signal.SIGINT: (130, "interrupted"),
    signal.SIGTERM: (143, "terminated"),
}

#: Time that the JVM has to end by itself, and remove its files, before it is killed.
_GRACE_SECONDS = 2.5
_PARKING_SECONDS = 0.5
_LAST_SECONDS = 4.5


_Handler = Callable[[int, FrameType | None], object] | signal.Handlers


class Interruption:
    """Ends the process on a signal, after calling `tell` with exit status and reason."""

    def __init__(self) -> None:
        self.tell: Callable[[int, str], object] | None = None
        self._handlers: dict[signal.Signals, _Handler] = {}
        self._parked = threading.Event()

    def install(self) -> None:
        """Handle signals from now on. For the main thread only, in a process that this program owns."""
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        # The C handler writes to it whatever the main thread does, and even if the Python handler was replaced.
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        threading.Thread(target=self._listen, args=(reader,), name="signals", daemon=True).start()
        # Background processes may be started with Ctrl-C ignored, and nohup ignores SIGHUP.
        ignored = [number for number in SIGNALS if signal.getsignal(number) == signal.SIG_IGN]
        self._handlers = {number: signal.SIG_IGN if number in ignored else self._park for number in SIGNALS}
        self.guard()

    def guard(self) -> None:
        """Take the signals back from pyspark, whose session handles Ctrl-C itself."""
        for number, handler in self._handlers.items():
            signal.signal(number, handler)

    def use_scratch(self) -> None:
        """Put all temporary files of this process into one directory, which is removed at its end."""
        if self._handlers:
            tempfile.tempdir = str(scratch_directory())

    def wait_for_end(self) -> None:
        """Wait for the signal thread to end the process, on KeyboardInterrupt; returns only if signals are not handled here."""
        if self._handlers:
            self._park()

    def _park(self, *_: object) -> NoReturn:
        self._parked.set()
        while True:
            time.sleep(60)

    def _listen(self, reader: int) -> None:
        while True:
            for number in os.read(reader, 64):
                if number in SIGNALS:
                    self._end(*SIGNALS[signal.Signals(number)])

    def _end(self, status: int, reason: str) -> NoReturn:
        # The steps below may hang: on a disk that is gone, or a lock that the parked thread holds.
        threading.Timer(_LAST_SECONDS, self._give_up, [status]).start()
        try:
            # Not through sys.stderr, whose lock the main thread may hold.
            os.write(2, f"{chr(10) if os.isatty(2) else ''}replica-audit: {reason}\n".encode())
            # The main thread may be in an uninterruptible call; afterwards it finds no files to write to.
            self._parked.wait(_PARKING_SECONDS)
            remove_unfinished()
            self._tell_left()
            if self.tell is not None:
                self.tell(status, reason)
        except Exception as error:
            os.write(2, f"replica-audit: verdict.json could not be written: {error}\n".encode())
        try:
            # From here on other threads report broken connections, which nobody can act on.
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, 2)
            os.dup2(nowhere, 1)
            end_children()
            remove_scratch()
        finally:
            os._exit(status)

    def _give_up(self, status: int) -> NoReturn:
        """Exit at once, since ending took too long."""
        self._tell_left()
        os._exit(status)

    def _tell_left(self) -> None:
        """Name each directory that could not be removed, once."""
        for path in unfinished_results():
            finish_result(path)
            os.write(2, f"{say_left(path)}\n".encode())


def end_children() -> None:
    """End the child processes: SIGTERM first, SIGKILL after `_GRACE_SECONDS`."""
    children = _children()
    for number in (signal.SIGTERM, signal.SIGKILL):
        for child in children:
            try:
                os.kill(child, number)
            except ProcessLookupError:
                continue
        until = time.monotonic() + (_GRACE_SECONDS if number == signal.SIGTERM else 0.5)
        while children and time.monotonic() < until:
            children = [child for child in children if _is_running(child)]
            time.sleep(0.02)


def _children() -> list[int]:
    found: list[int] = []
    for task in Path("/proc/self/task").glob("*/children"):
        try:
            found += map(int, task.read_text().split())
        except OSError:
            continue  # a thread that ended meanwhile
    return found


def _is_running(child: int) -> bool:
    try:
        return os.waitpid(child, os.WNOHANG)[0] == 0
    except ChildProcessError:
        return False  # another thread waited for it


#: Signal handling of this process.
INTERRUPTION = Interruption()
