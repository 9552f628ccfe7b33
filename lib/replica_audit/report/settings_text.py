"""Text of `--print-config`: every setting, its value and its origin."""

from __future__ import annotations

import json
from collections.abc import Mapping

from replica_audit.config import KEYS, Resolved
from replica_audit.redaction import NOT_SHOWN, is_secret, redact
from replica_audit.report.layout import clean


def build_settings(resolved: Resolved) -> dict[str, Mapping[str, object]]:
    """Build the object that `--print-config` prints as JSON: settings and origins by the keys of a configuration file."""
    return {
        "settings": {key: _plain(getattr(resolved.settings, name)) for key, name in KEYS.items()},
        "origins": {key: resolved.origins[name] for key, name in KEYS.items()},
    }


def render_settings(resolved: Resolved) -> str:
    """Render a configuration file that would give the same settings, with each origin in a comment."""
    lines = []
    for key, value in build_settings(resolved)["settings"].items():
        # JSON is valid YAML, and quotes what YAML would interpret otherwise.
        plain = isinstance(value, str) and key in ("protocol", "fail_on", "format")
        text = str(value) if plain else json.dumps(value, ensure_ascii=False)
        lines.append(f"{key}: {text}  # {clean(resolved.origins[KEYS[key]])}")
    return "\n".join(lines) + "\n"


def _plain(value: object) -> object:
    if isinstance(value, tuple):
        return list(value)
    if isinstance(value, Mapping):
        return {key: NOT_SHOWN if is_secret(key) else part for key, part in value.items()}
    return redact(value) if isinstance(value, str) else value
