"""The receiver of a command's progress."""

from __future__ import annotations

import warnings

from replica_audit.redaction import redact


class Progress:
    """Receives progress, and discards it; a warning becomes one of Python. A subclass shows it.

    A stage is `begin(name, files, bytes)`, any number of `advance(files, bytes)`, then `end()`. Unknown totals are 0.
    """

    def begin(self, stage: str, files: int = 0, size_bytes: int = 0) -> None:
        """Start `stage` with its known totals."""

    def advance(self, files: int = 0, size_bytes: int = 0) -> None:
        """Add to the work done."""

    def end(self) -> None:
        """Finish the stage."""

    def tell_reading(self, reading: object) -> None:
        """Report the bytes that an ingest read, and those known from earlier ones (`runner.scanning.ReadBytes`)."""

    def warn(self, text: str) -> None:
        warnings.warn(redact(text), stacklevel=2)
