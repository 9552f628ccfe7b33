"""Offline audit of Kafka replica logs: high watermark, divergence, truncation replay.

`audit` runs on Spark, `show` in this process; `read_batches`, `read_records` and `read_metadata_log` give
DataFrames of what a snapshot has. See docs/reference.md, Python.
"""

from __future__ import annotations

from importlib import import_module

__version__ = "0.1.0"

#: Modules of the public names. They are imported on first use, so that importing the package costs nothing.
_PLACES = {
    "Answers": "replica_audit.api",
    "Audit": "replica_audit.api",
    "EngineError": "replica_audit.errors",
    "InputError": "replica_audit.errors",
    "ReplicaAuditError": "replica_audit.errors",
    "UsageError": "replica_audit.errors",
    "audit": "replica_audit.api",
    "read_batches": "replica_audit.api",
    "read_metadata_log": "replica_audit.api",
    "read_records": "replica_audit.api",
    "show": "replica_audit.api",
}

__all__ = ["__version__", *_PLACES]  # noqa: PLE0604


def __getattr__(name: str) -> object:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_PLACES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
