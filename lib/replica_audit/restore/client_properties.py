"""A client properties file of Kafka's own tools, converted for librdkafka; secrets are never shown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from replica_audit.errors import UsageError
from replica_audit.redaction import NOT_SHOWN, redact

#: Settings that restore sets itself: other values would break exactly-once.
_OURS = (
    "bootstrap.servers",
    "metadata.broker.list",
    "group.id",
    "transactional.id",
    "enable.idempotence",
    "acks",
    "request.required.acks",
    "isolation.level",
    "enable.auto.commit",
    "auto.offset.reset",
    "enable.partition.eof",
)
#: Settings of Java clients that librdkafka lacks, and their replacements.
_INSTEAD = {
    "ssl.truststore.location": "ssl.ca.location, a PEM file",
    "ssl.truststore.password": "ssl.ca.location, a PEM file",
    "ssl.keystore.type": "ssl.certificate.location and ssl.key.location, PEM files",
}
_JAAS = "sasl.jaas.config"
_JAAS_VALUE = re.compile(r"""\b(username|password)\s*=\s*("(?:[^"\\]|\\.)*"|'[^']*'|[^\s;]+)""")
#: Settings whose values are not secret.
_HARMLESS = re.compile(r"(security\.protocol|sasl\.mechanisms?|client\.id|.*\.location)$")
_SHORTEST_SECRET = 4


@dataclass(frozen=True, slots=True)
class ClientProperties:
    """Settings for librdkafka, and how to hide the secrets among them."""

    values: Mapping[str, str]

    def hide(self, text: str) -> str:
        """`text` with the values of these settings replaced."""
        for name, value in self.values.items():
            if len(value) >= _SHORTEST_SECRET and not _HARMLESS.fullmatch(name):
                text = text.replace(value, NOT_SHOWN)
        return redact(text)


def read_client_properties(path: str | None) -> ClientProperties:
    """The settings in the file at `path`, none for None. Raises UsageError, which shows no value."""
    if path is None:
        return ClientProperties({})
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise UsageError(f"--command-config {path}: cannot be read: {reason}") from None
    found: dict[str, str] = {}
    for number, name, value in _lines(text, path):
        if name in _OURS:
            raise UsageError(f"--command-config {path}, line {number}: restore sets {name} itself; take the line out")
        if name in _INSTEAD:
            raise UsageError(
                f"--command-config {path}, line {number}: {name} is of Java's clients; give {_INSTEAD[name]}"
            )
        if name == _JAAS:
            found |= _login(value, path, number)
        else:
            found[name] = value
    return ClientProperties(found)


def _lines(text: str, path: str) -> Iterable[tuple[int, str, str]]:
    """Line number, name and value of each setting; a trailing backslash continues a line (`java.util.Properties`)."""
    joined = ""
    start = 0
    for number, line in enumerate(text.splitlines(), 1):
        joined, start = (joined + line.lstrip(), start) if joined else (line.strip(), number)
        if joined.endswith("\\") and not joined.endswith("\\\\"):
            joined = joined[:-1]
            continue
        whole, joined = joined, ""
        if not whole or whole[0] in "#!":
            continue
        name, equals, value = whole.partition("=")
        if not equals or not name.strip():
            raise UsageError(f"--command-config {path}, line {start}: expected name=value")
        yield start, name.strip(), value.strip()


def _login(value: str, path: str, number: int) -> dict[str, str]:
    """User and password in a JAAS line, as librdkafka's own settings."""
    parts = {name: _unquoted(text) for name, text in _JAAS_VALUE.findall(value)}
    if set(parts) != {"username", "password"}:
        expected = "username and password of PlainLoginModule or ScramLoginModule"
        raise UsageError(f"--command-config {path}, line {number}: expected in {_JAAS} {expected}")
    return {f"sasl.{name}": text for name, text in parts.items()}


def _unquoted(text: str) -> str:
    if text[0] in "\"'":
        text = text[1:-1]
    return re.sub(r"\\(.)", r"\1", text)
