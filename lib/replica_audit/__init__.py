"""Offline audit of Kafka replica logs: high watermark, divergence, truncation replay.

`audit` runs on Spark; `show`, `elect`, `quorum`, `verify`, `salvage`, `observe`, `history` and `explain` in this process;
`read_batches`, `read_records` and `read_metadata_log` return DataFrames of a snapshot's contents. See docs/reference.md, Python.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType

__version__ = "0.1.0"

#: Modules of the public names, imported on first use, so that importing the package costs nothing.
_PLACES = {
    "Answers": "replica_audit.api.answers",
    "Audit": "replica_audit.api.answers",
    "ComparedQuorum": "replica_audit.api.compared_quorum",
    "EngineError": "replica_audit.errors",
    "Explained": "replica_audit.api.explained",
    "History": "replica_audit.api.history_tables",
    "InputError": "replica_audit.errors",
    "ObservedSnapshot": "replica_audit.api.observation",
    "PlannedElection": "replica_audit.api.elected",
    "ReplicaAuditError": "replica_audit.errors",
    "Salvaged": "replica_audit.api.salvaged",
    "Table": "replica_audit.api.typed_table",
    "UsageError": "replica_audit.errors",
    "Verified": "replica_audit.api.verified",
    "audit": "replica_audit.api.answers",
    "elect": "replica_audit.api.elected",
    "explain": "replica_audit.api.explained",
    "history": "replica_audit.api.history_tables",
    "observe": "replica_audit.api.observation",
    "quorum": "replica_audit.api.compared_quorum",
    "read_batches": "replica_audit.api.answers",
    "read_metadata_log": "replica_audit.api.answers",
    "read_records": "replica_audit.api.answers",
    "register": "replica_audit.api.answers",
    "salvage": "replica_audit.api.salvaged",
    "show": "replica_audit.api.answers",
    "verify": "replica_audit.api.verified",
}

__all__ = ["__version__", *_PLACES]  # noqa: PLE0604


def __getattr__(name: str) -> object:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_PLACES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)


class _Package(ModuleType):
    """The package. Importing one of its rooms `elect`, `observe`, `quorum`, `salvage` or `verify` does not hide the function of
    that name: the room is not bound here, and `from replica_audit.elect import …` finds it all the same."""

    def __setattr__(self, name: str, value: object) -> None:
        if name not in _PLACES or not isinstance(value, ModuleType):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
