"""Settings of a call from Python: its arguments, then a configuration file. Environment variables are not read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from replica_audit.config import DEFAULTS, Settings, resolve_settings


def resolved(given: Mapping[str, object], config: str | None) -> Settings:
    """Settings from the arguments that differ from their defaults, then from the file. Raises UsageError."""
    chosen = {name: one for name, one in given.items() if one is not None and one != getattr(DEFAULTS, name)}
    if "quality" in given:
        chosen["quality"] = given["quality"]
    return resolve_settings(chosen, {}, config, source="argument").settings


def of_snapshot(
    topics: Sequence[str],
    leadership: str | None,
    leadership_source: str | None,
    protocol: str | None,
    kafka_version: str | None,
    remote: str | None = None,
) -> dict[str, object]:
    """Arguments common to calls on a snapshot, by name of the setting."""
    return {
        "topics": tuple(topics),
        "leadership": leadership,
        "leadership_source": leadership_source,
        "protocol": protocol,
        "kafka_version": kafka_version,
        "remote": remote,
    }
