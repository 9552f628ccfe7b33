"""Progress on stderr: files and bytes done of total, for people only."""

from __future__ import annotations

import sys
import time
from typing import TextIO

from replica_audit.reporting.layout import render_size


class Progress:
    """A line on stderr that is overwritten; silent when `stream` is no terminal or `quiet` is set.

    A stage is `begin(name, files, bytes)`, any number of `update(files_done, bytes_done)` (absolute) or
    `advance(files, bytes)` (relative), then `end()`. Totals of 0 are unknown and are not shown.
    """

    def __init__(self, quiet: bool = False, stream: TextIO | None = None) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._shown = not quiet and self._stream.isatty()
        self._stage = ""
        self._files = self._bytes = self._files_total = self._bytes_total = 0
        self._drawn_at = 0.0
        self._width = 0

    def begin(self, stage: str, files: int = 0, size_bytes: int = 0) -> None:
        """Start the stage `stage` with the totals that are known."""
        self._stage, self._files_total, self._bytes_total = stage, files, size_bytes
        self._files = self._bytes = 0
        self._draw(force=True)

    def advance(self, files: int = 0, size_bytes: int = 0) -> None:
        """Count `files` and `size_bytes` more as done."""
        self.update(self._files + files, self._bytes + size_bytes)

    def update(self, files_done: int, bytes_done: int) -> None:
        """Set what is done so far."""
        self._files, self._bytes = files_done, bytes_done
        self._draw(force=False)

    def end(self) -> None:
        """Finish the stage and leave its line."""
        self._draw(force=True)
        if self._shown and self._width:
            self._stream.write("\n")
            self._stream.flush()
        self._width = 0

    def _draw(self, force: bool) -> None:
        now = time.monotonic()
        # Ten lines a second are plenty, and cost nothing beside a scan.
        if not self._shown or (not force and now - self._drawn_at < 0.1):
            return
        self._drawn_at = now
        text = render_progress(self._stage, self._files, self._files_total, self._bytes, self._bytes_total)
        self._stream.write("\r" + text.ljust(self._width))
        self._stream.flush()
        self._width = len(text)


def render_progress(stage: str, files: int, files_total: int, size_bytes: int, bytes_total: int) -> str:
    """One line: the stage, files done of total, bytes done of total and percent where the totals are known."""
    parts = [stage]
    if files_total:
        parts.append(f"{files} of {files_total} files")
    elif files:
        parts.append(f"{files} files")
    if bytes_total:
        percent = min(100, 100 * size_bytes // bytes_total)
        parts.append(f"{render_size(size_bytes)} of {render_size(bytes_total)} ({percent} %)")
    elif size_bytes:
        parts.append(render_size(size_bytes))
    return "  ".join(parts)
