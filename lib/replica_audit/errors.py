"""Errors that the user can act on; each class carries the exit status of the program.

Any other exception is a fault of the program, shown with its traceback, and ends with status 4 too.
"""

from __future__ import annotations


class ReplicaAuditError(Exception):
    """An error whose text is enough for the user; `exit_status` is returned by the command."""

    exit_status = 4


class UsageError(ReplicaAuditError):
    """A wrong argument, setting or path; nothing was done."""

    exit_status = 2


class InputError(ReplicaAuditError):
    """A snapshot that cannot be audited completely: without log directory or partition, or unreadable."""

    exit_status = 3


class EngineError(ReplicaAuditError):
    """The engine (Java, Spark, Delta, the warehouse) could not do its part."""

    exit_status = 4


class FormatError(ValueError):
    """A file that breaks its format, with everything needed to find the place.

    `position` is a byte position, or None for the whole file; text formats put the line number into `expected`. Can be pickled,
    to return from an executor.
    """

    def __init__(self, path: str, position: int | None, expected: str, found: str, hint: str) -> None:
        super().__init__(path, position, expected, found, hint)
        self.path = path
        self.position = position
        self.expected = expected
        self.found = found
        self.hint = hint

    def __str__(self) -> str:
        place = self.path if self.position is None else f"{self.path} at byte {self.position}"
        return f"{place}: expected {self.expected}, found {self.found}; {self.hint}"
