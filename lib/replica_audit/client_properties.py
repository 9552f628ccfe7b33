"""A client properties file of Kafka's own tools: one mapping of its names to those of librdkafka and kafka-python. Values are never shown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from replica_audit.errors import UsageError
from replica_audit.redaction import NOT_SHOWN, redact

BOOTSTRAP = "bootstrap.servers"
_JAAS = "sasl.jaas.config"
_JAAS_VALUE = re.compile(r"""\b(username|password)\s*=\s*("(?:[^"\\]|\\.)*"|'[^']*'|[^\s;]+)""")
#: Settings whose values are not secret.
_HARMLESS = re.compile(
    r"(security\.protocol|sasl\.mechanisms?|client\.id|bootstrap\.servers|.*\.(location|type|algorithm|ms|lookup))$"
)
_SHORTEST_SECRET = 4
_PEM = "ssl.truststore.location and ssl.truststore.type=PEM"


class _Names(NamedTuple):
    """What a setting of Kafka's clients is called elsewhere."""

    librdkafka: tuple[str, ...]
    kafka_python: str | None


#: Settings of Kafka's clients that are taken, `sasl.jaas.config` apart.
KNOWN: Mapping[str, _Names] = {
    "security.protocol": _Names(("security.protocol",), "security_protocol"),
    "sasl.mechanism": _Names(("sasl.mechanism",), "sasl_mechanism"),
    "sasl.kerberos.service.name": _Names(("sasl.kerberos.service.name",), "sasl_kerberos_service_name"),
    "ssl.truststore.location": _Names(("ssl.ca.location",), "ssl_cafile"),
    "ssl.keystore.location": _Names(("ssl.certificate.location", "ssl.key.location"), "ssl_certfile"),
    "ssl.key.password": _Names(("ssl.key.password",), "ssl_password"),
    "ssl.endpoint.identification.algorithm": _Names(("ssl.endpoint.identification.algorithm",), "ssl_check_hostname"),
    "client.id": _Names(("client.id",), "client_id"),
    "client.dns.lookup": _Names(("client.dns.lookup",), "client_dns_lookup"),
    "request.timeout.ms": _Names(("socket.timeout.ms",), "request_timeout_ms"),
}
#: Settings that only say what is taken for granted, with the values that may be given.
_GIVEN = {"ssl.truststore.type": ("PEM",), "ssl.keystore.type": ("PEM",)}
_INSTEAD = {
    "ssl.truststore.password": f"a PEM file has none; give {_PEM}",
    "ssl.keystore.password": "give ssl.keystore.type=PEM, a file with key and certificates, and ssl.key.password",
    "ssl.ca.location": f"that is librdkafka's name; give {_PEM}",
    "sasl.username": "that is librdkafka's name; give sasl.jaas.config",
    "sasl.password": "that is librdkafka's name; give sasl.jaas.config",
}
_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "GSSAPI", "AWS_MSK_IAM")
_STORES = (".jks", ".p12", ".pfx")


@dataclass(frozen=True, slots=True)
class ClientProperties:
    """The settings of a file by the names that it has, `sasl.username` and `sasl.password` in place of the JAAS line."""

    path: str
    values: Mapping[str, str]
    lines: Mapping[str, int]

    @property
    def bootstrap(self) -> str | None:
        """`bootstrap.servers`."""
        return self.values.get(BOOTSTRAP)

    def hide(self, text: str) -> str:
        """`text` with the values of these settings replaced."""
        for name, value in self.values.items():
            if len(value) >= _SHORTEST_SECRET and not _HARMLESS.fullmatch(name):
                text = text.replace(value, NOT_SHOWN)
        return redact(text)

    def for_librdkafka(self) -> dict[str, str]:
        """Settings by librdkafka's names; one that is none of Kafka's is taken for librdkafka's, which refuses what it does not know."""
        found: dict[str, str] = {}
        for name, value in self.values.items():
            if name in _GIVEN or name == BOOTSTRAP:
                continue
            names = KNOWN[name].librdkafka if name in KNOWN else (name,)
            if name == "ssl.endpoint.identification.algorithm":
                value = value or "none"
            found |= dict.fromkeys(names, value)
        return found

    def for_kafka_python(self) -> dict[str, str | int | bool]:
        """Settings by kafka-python's names. Raises UsageError for one that Kafka's clients do not have, or that has no counterpart."""
        found: dict[str, str | int | bool] = {}
        for name, value in self.values.items():
            if name in ("sasl.username", "sasl.password") and self.lines[name] == self.lines.get(_JAAS):
                found[f"sasl_plain_{name.rpartition('.')[2]}"] = value
            elif name == "ssl.endpoint.identification.algorithm":
                found["ssl_check_hostname"] = bool(value)
            elif name == "request.timeout.ms":
                if not value.isascii() or not value.isdigit():
                    raise self.refusal(name, "expected a number of milliseconds")
                found["request_timeout_ms"] = int(value)
            elif name in KNOWN:
                found[str(KNOWN[name].kafka_python)] = value
            elif name not in _GIVEN and name != BOOTSTRAP:
                raise self.refusal(
                    name, _INSTEAD.get(name, f"expected one of {', '.join(sorted([*KNOWN, *_GIVEN, _JAAS]))}")
                )
        mechanism = self.values.get("sasl.mechanism")
        if mechanism is not None and mechanism not in _MECHANISMS:
            raise self.refusal("sasl.mechanism", f"expected one of {', '.join(_MECHANISMS)}")
        return found

    def refusal(self, name: str, why: str) -> UsageError:
        """The error for a setting that cannot be used."""
        return UsageError(f"--command-config {self.path}, line {self.lines[name]}: {name}: {why}")


def read_client_properties(path: str | None) -> ClientProperties:
    """The settings in the file at `path`, none for None. Raises UsageError, which shows no value."""
    if path is None:
        return ClientProperties("", {}, {})
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise UsageError(f"--command-config {path}: cannot be read: {reason}") from None
    values: dict[str, str] = {}
    lines: dict[str, int] = {}
    for number, name, value in _lines(text, path):
        given = {name: value} if name != _JAAS else _login(value, path, number)
        lines |= dict.fromkeys([*given, name], number)
        values |= given
        _check(ClientProperties(path, values, lines), name, value)
    return ClientProperties(path, values, lines)


def _check(found: ClientProperties, name: str, value: str) -> None:
    if name in ("ssl.truststore.password", "ssl.keystore.password"):
        raise found.refusal(name, _INSTEAD[name])
    if name in _GIVEN and value not in _GIVEN[name]:
        raise found.refusal(name, f"expected {_GIVEN[name][0]}: Java's stores are read by Java only")
    if name in ("ssl.truststore.location", "ssl.keystore.location") and value.lower().endswith(_STORES):
        raise found.refusal(name, "expected a PEM file: Java's stores are read by Java only")


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
    """User and password in a JAAS line, by librdkafka's names."""
    parts = {name: _unquoted(text) for name, text in _JAAS_VALUE.findall(value)}
    if set(parts) != {"username", "password"}:
        expected = "username and password of PlainLoginModule or ScramLoginModule"
        raise UsageError(f"--command-config {path}, line {number}: expected in {_JAAS} {expected}")
    return {f"sasl.{name}": text for name, text in parts.items()}


def _unquoted(text: str) -> str:
    if text[0] in "\"'":
        text = text[1:-1]
    return re.sub(r"\\(.)", r"\1", text)
