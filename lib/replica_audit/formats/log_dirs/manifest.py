"""`manifest.json`: how and when the snapshot was taken."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

from replica_audit.formats.files.copied_files import parse_copied_files
from replica_audit.formats.files.side_files import INT64, is_whole, parse_json, show_value
from replica_audit.formats.format_error import FormatError
from replica_audit.formats.inventory import CopiedLogDir, Manifest

_HINT = "see docs/capture.md on manifest.json, or leave the file out"
_KINDS = ("live", "stopped", "killed")


def parse_manifest(data: bytes | str, path: str) -> Manifest:
    """The manifest; unknown keys are left for later versions. Raises FormatError, which names the place."""
    fields = _typed(path, "the manifest", parse_json(data, path, _HINT), dict, "an object")
    version = fields.get("schema_version")
    if not is_whole(version, 1, 1):
        raise FormatError(path, None, "schema_version 1", show_value(version), _HINT)
    brokers = _typed(path, "brokers", fields.get("brokers", []), list, "a list")
    copied = tuple(_parse_broker(path, f"brokers[{index}]", broker) for index, broker in enumerate(brokers))
    parse_copied_files(brokers, path)  # `Snapshot` compares them with what it reads
    return Manifest(
        quiesced=_optional(path, "quiesced", fields.get("quiesced"), bool, "true, false or null"),
        kafka_version=_optional(path, "kafka_version", fields.get("kafka_version"), str, "text"),
        brokers=copied,
    )


def _parse_broker(path: str, place: str, fields: Any) -> CopiedLogDir:
    fields = _typed(path, place, fields, dict, "an object")
    broker_id = fields.get("broker_id")
    if not is_whole(broker_id):
        raise FormatError(path, None, f"a broker id at {place}.broker_id", show_value(broker_id), _HINT)
    kind = fields.get("kind")
    if kind is not None and kind not in _KINDS:
        raise FormatError(path, None, f"one of {', '.join(_KINDS)} at {place}.kind", show_value(kind), _HINT)
    return CopiedLogDir(
        broker_id,
        _typed(path, f"{place}.log_dir", fields.get("log_dir", ""), str, "text").strip("/"),
        _parse_time(path, f"{place}.started", fields.get("started")),
        _parse_time(path, f"{place}.finished", fields.get("finished")),
        kind,
    )


def _parse_time(path: str, place: str, value: Any) -> int | None:
    """ISO 8601 (UTC where no zone is given) or ms since the epoch."""
    if value is None or is_whole(value, 0, INT64):
        return value
    try:
        # Python 3.10 does not know the Z.
        time = datetime.fromisoformat(_typed(path, place, value, str, "a time").replace("Z", "+00:00"))
    except ValueError as error:
        if isinstance(error, FormatError):
            raise
        raise FormatError(path, None, f"an ISO 8601 time at {place}", show_value(value), _HINT) from None
    if time.tzinfo is None:
        time = time.replace(tzinfo=timezone.utc)
    return round(time.timestamp() * 1000)  # of years 1 to 9999


def _typed(path: str, place: str, value: Any, kind: type, expected: str) -> Any:
    if not isinstance(value, kind):
        raise FormatError(path, None, f"{expected} at {place}", show_value(value), _HINT)
    return value


def _optional(path: str, place: str, value: Any, kind: type, expected: str) -> Any:
    return None if value is None else _typed(path, place, value, kind, expected)
