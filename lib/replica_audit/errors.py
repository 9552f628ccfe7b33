"""Errors that the user can do something about; each class carries the exit status that it ends the program with.

Anything else that is raised is a fault of the program, is shown with its traceback, and ends with status 4 too.
"""

from __future__ import annotations


class ReplicaAuditError(Exception):
    """An error whose text is enough for the user; `exit_status` is what the command returns."""

    exit_status = 4


class UsageError(ReplicaAuditError):
    """A wrong argument, setting or path: nothing was done."""

    exit_status = 2


class InputError(ReplicaAuditError):
    """A snapshot that cannot be audited whole: no log directory or partition in it, or unreadable."""

    exit_status = 3


class EngineError(ReplicaAuditError):
    """The engine (Java, Spark, Delta, the warehouse) could not do its part."""

    exit_status = 4
