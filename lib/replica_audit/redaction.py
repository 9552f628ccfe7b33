"""Removal of credentials from texts: user information in URIs, and values of secret settings."""

from __future__ import annotations

import re

# Patterns are compiled when they are first needed, and kept by `re`: most texts have neither.

#: Names of secret settings: Spark's own rule (spark.redaction.regex), and the words of Kafka's clients and object stores.
_NAME = r"secret|password|passwd|passphrase|token|access[._-]?key|api[._-]?key|credential|signature|jaas[._-]?config"
_SECRET_NAME = rf"(?i){_NAME}"

#: Stands for a secret value.
NOT_SHOWN = "(not shown)"

#: User information of a URI. A password may hold unescaped slashes; what looks like a port is one, except in a bucket's URI.
_USER = (
    r"(?i)\b((?:(s3a?|gs|abfss?)|[a-z][a-z0-9+.-]{0,30})://)[^\s/?#@:\"'<>]{1,200}"
    r"(?::(?(2)|(?!\d{1,5}(?:/|$)))[^\s@\"'<>]{0,400})?@"
)

#: User information in a text that was cut before the `@`: what follows the colon is not a port, so it is a password.
_CUT_USER = r"(?i)\b([a-z][a-z0-9+.-]{0,30}://)[^\s/?#@:\"'<>]{1,200}:(?!\d{0,5}(?:[/?#\s\"',;:)\]]|$))[^\s@\"'<>]+"

#: `name=value`, `name: value` and `"name": "value"`; the rest of a name is at most as long as that of any setting.
_VALUE = re.compile(
    rf"((?:{_NAME})[\w.-]{{0,60}}[\"']?\s?[=:]\s?)(\"(?:[^\"\\]|\\.){{0,4000}}\"|'[^']{{0,4000}}'|[^\s,;&\"'<>(){{}}\[\]]{{1,4000}})",
    re.IGNORECASE,
)


def is_secret(name: str) -> bool:
    """True if a setting of this name is secret, so that its value must not be shown."""
    return re.search(_SECRET_NAME, name) is not None


def redact(text: str) -> str:
    """`text` without user information in URIs and values of secret settings, in linear time."""
    if "://" in text:
        text = re.sub(_CUT_USER, rf"\1{NOT_SHOWN}", re.sub(_USER, r"\1", text))
    return _VALUE.sub(lambda found: found[1] + NOT_SHOWN, text)
