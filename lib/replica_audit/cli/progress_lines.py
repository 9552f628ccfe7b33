"""Progress on stderr: files and bytes done of their totals, continuously on a terminal and every ten seconds elsewhere."""

from __future__ import annotations

import sys
import threading
import time
from typing import TYPE_CHECKING, TextIO

from replica_audit.progress import Progress
from replica_audit.redaction import redact
from replica_audit.report.layout import render_size
from replica_audit.text import count

if TYPE_CHECKING:
    from replica_audit.runner.scanning import ReadBytes

#: Seconds between lines where stderr is not a terminal.
LOG_SECONDS = 10.0


class ProgressLine(Progress):
    """Progress on one line, overwritten on a terminal and repeated every `LOG_SECONDS` in a log; silent if `quiet`.

    Unknown totals are not shown. A log has no line for a stage shorter than `LOG_SECONDS`.
    """

    def __init__(self, quiet: bool = False, stream: TextIO | None = None, every: float = LOG_SECONDS) -> None:
        self._stream = sys.stderr if stream is None else stream
        terminal = self._stream.isatty()
        self._quiet = quiet
        self._drawn = terminal and not quiet
        self._logged = not terminal and not quiet
        self._every = every
        self._stage = ""
        self._files = self._bytes = self._files_total = self._bytes_total = 0
        self._began_at = self._drawn_at = 0.0
        self._width = 0
        self._ended = threading.Event()
        self._logger: threading.Thread | None = None
        self.reading: ReadBytes | None = None

    def begin(self, stage: str, files: int = 0, size_bytes: int = 0) -> None:
        self._stop_logging()
        self._stage = stage
        self._files_total = files
        self._bytes_total = size_bytes
        self._files = self._bytes = 0
        self._began_at = time.monotonic()
        self._draw(force=True)
        if self._logged:
            self._ended.clear()
            self._logger = threading.Thread(target=self._log, name="progress", daemon=True)
            self._logger.start()

    def advance(self, files: int = 0, size_bytes: int = 0) -> None:
        self._files += files
        self._bytes += size_bytes
        self._draw(force=False)

    def end(self) -> None:
        """Finish the stage; on a terminal its line stays."""
        self._stop_logging()
        self._draw(force=True)
        self.leave_line()

    def leave_line(self) -> None:
        """End the current line on a terminal, so that other output starts below it."""
        if self._width:
            self._stream.write("\n")
            self._stream.flush()
        self._width = 0

    def tell_reading(self, reading: object) -> None:
        from replica_audit.runner.scanning import ReadBytes  # loaded already by the caller

        if isinstance(reading, ReadBytes):
            self.reading = reading
            if not self._quiet:
                self.warn(render_reading(*reading))

    def warn(self, text: str) -> None:
        """Print a warning, even if `quiet`."""
        self.leave_line()
        self._stream.write(f"replica-audit: {redact(text)}\n")
        self._stream.flush()

    def _text(self) -> str:
        told = render_progress(self._stage, self._files, self._files_total, self._bytes, self._bytes_total)
        seconds = time.monotonic() - self._began_at
        pace = render_pace(self._files, self._files_total, self._bytes, self._bytes_total, seconds)
        return f"{told}  {pace}" if pace else told

    def _draw(self, force: bool) -> None:
        now = time.monotonic()
        # Ten updates a second are enough, and cost nothing beside a scan.
        if not self._drawn or (not force and now - self._drawn_at < 0.1):
            return
        self._drawn_at = now
        text = self._text()
        self._stream.write("\r" + text.ljust(self._width))
        self._stream.flush()
        self._width = len(text)

    def _log(self) -> None:
        while not self._ended.wait(self._every):
            seconds = time.monotonic() - self._began_at
            self._stream.write(f"replica-audit: {self._text()}  {seconds:.0f} s\n")
            self._stream.flush()

    def _stop_logging(self) -> None:
        if self._logger is not None:
            self._ended.set()
            self._logger.join()
            self._logger = None


def render_reading(read_bytes: int, known_bytes: int, known_segments: int) -> str:
    """Sentence on the segments that were read and those already known."""
    read = f"read {render_size(read_bytes)} of segments"
    if not known_bytes:
        return read
    return f"{read}; {render_size(known_bytes)} were known ({count(known_segments, 'segment')} unchanged)"


def render_progress(stage: str, files: int, files_total: int, size_bytes: int, bytes_total: int) -> str:
    """Progress as one line: the stage, files and bytes done of their totals, and percent, as far as totals are known.
    Without bytes the stage's name says what is counted."""
    parts = [stage]
    if files_total and not bytes_total:
        parts.append(f"{files:,} of {files_total:,}")
    elif files_total:
        parts.append(f"{files} of {files_total} file{'' if files_total == 1 else 's'}")
    elif files:
        parts.append(f"{files} file{'' if files == 1 else 's'}")
    if bytes_total:
        percent = min(100, 100 * size_bytes // bytes_total)
        parts.append(f"{render_size(size_bytes)} of {render_size(bytes_total)} ({percent} %)")
    elif size_bytes:
        parts.append(render_size(size_bytes))
    return "  ".join(parts)


#: Seconds after which a stage's pace means something.
_SETTLED = 2.0


def render_pace(files: int, files_total: int, size_bytes: int, bytes_total: int, seconds: float) -> str:
    """Work per second and time left; "" if unknown or nothing is left."""
    done, total = (size_bytes, bytes_total) if bytes_total else (files, files_total)
    if seconds < _SETTLED or not 0 < done < total:
        return ""
    rate = done / seconds
    number = f"{rate:,.0f}" if rate >= 10 else f"{rate:.1f}"
    told = f"{render_size(int(rate)) if bytes_total else number}/s"
    return f"{told}, {_render_seconds((total - done) / rate)} left"


def _render_seconds(seconds: float) -> str:
    for size, unit in ((3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{max(1, round(seconds))} s"
