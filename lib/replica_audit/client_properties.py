"""Client properties files of Kafka's own tools, with one mapping of their names to those of librdkafka and kafka-python. Values
are never shown."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from replica_audit.errors import UsageError
from replica_audit.java_properties import Login, MalformedError, PropertyLine, read_login, read_settings
from replica_audit.redaction import NOT_SHOWN, redact

BOOTSTRAP = "bootstrap.servers"
CLIENT_ID = "client.id"
_JAAS = "sasl.jaas.config"
_MECHANISM = "sasl.mechanism"
_HANDLER = "sasl.client.callback.handler.class"
_HOSTNAME_CHECK = "ssl.endpoint.identification.algorithm"
#: Settings whose values are not secret.
_HARMLESS = re.compile(
    r"(security\.protocol|sasl\.mechanisms?|client\.id|bootstrap\.servers|.*\.(location|type|algorithm|ms|lookup))$"
)
#: Names that may be shown: anything else may be part of a password or key whose name is missing.
_NAME = re.compile(r"(?=.{1,64}$)([a-z][a-z0-9]*(\.[a-z0-9]+)+|acks|debug|retries)")
_SHORTEST_SECRET = 4
_PEM = "ssl.truststore.location and ssl.truststore.type=PEM"


class _Names(NamedTuple):
    """Names of a setting of Kafka's clients in other clients."""

    librdkafka: tuple[str, ...]
    kafka_python: str | None


#: Accepted settings of Kafka's clients, besides `sasl.jaas.config`.
KNOWN: Mapping[str, _Names] = {
    "security.protocol": _Names(("security.protocol",), "security_protocol"),
    _MECHANISM: _Names((_MECHANISM,), "sasl_mechanism"),
    "sasl.kerberos.service.name": _Names(("sasl.kerberos.service.name",), "sasl_kerberos_service_name"),
    "ssl.truststore.location": _Names(("ssl.ca.location",), "ssl_cafile"),
    "ssl.keystore.location": _Names(("ssl.certificate.location", "ssl.key.location"), "ssl_certfile"),
    "ssl.key.password": _Names(("ssl.key.password",), "ssl_password"),
    _HOSTNAME_CHECK: _Names((_HOSTNAME_CHECK,), "ssl_check_hostname"),
    CLIENT_ID: _Names(("client.id",), "client_id"),
    "client.dns.lookup": _Names(("client.dns.lookup",), "client_dns_lookup"),
    "request.timeout.ms": _Names(("socket.timeout.ms",), "request_timeout_ms"),
}
#: Settings that are assumed anyway, with the values that may be given.
_GIVEN = {
    "ssl.truststore.type": ("PEM",),
    "ssl.keystore.type": ("PEM",),
    _HANDLER: ("software.amazon.msk.auth.iam.IAMClientCallbackHandler",),
}
_INSTEAD = {
    "ssl.truststore.password": f"a PEM file has none; give {_PEM}",
    "ssl.keystore.password": "give ssl.keystore.type=PEM, a file with key and certificates, and ssl.key.password",
    "ssl.ca.location": f"that is librdkafka's name; give {_PEM}",
    "sasl.username": "that is librdkafka's name; give sasl.jaas.config",
    "sasl.password": "that is librdkafka's name; give sasl.jaas.config",
}
_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "GSSAPI", "AWS_MSK_IAM")
_IAM = "AWS_MSK_IAM"
_STORES = (".jks", ".p12", ".pfx")


class _Module(NamedTuple):
    """A login module: its mechanisms, the options that it needs, and the alternative to other options."""

    mechanisms: tuple[str, ...]
    options: tuple[str, ...]
    instead: str


_USER = ("username", "password")
_SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")
_MODULES: Mapping[str, _Module] = {
    "PlainLoginModule": _Module(("PLAIN",), _USER, "it takes username and password"),
    "ScramLoginModule": _Module(
        _SCRAM, _USER, "it takes username and password; delegation tokens are not supported, give a user's own"
    ),
    "IAMLoginModule": _Module(
        (_IAM,), (), "leave it out: credentials are taken from where botocore looks (AWS_PROFILE and the like)"
    ),
    "Krb5LoginModule": _Module(
        ("GSSAPI",), (), "leave it out, and get a ticket with kinit first (kinit -k -t KEYTAB PRINCIPAL)"
    ),
}


@dataclass(frozen=True, slots=True)
class ClientProperties:
    """The settings of a file by their names in it, with `sasl.username` and `sasl.password` in place of the JAAS line."""

    path: str
    values: Mapping[str, str]
    lines: Mapping[str, int]

    def bootstrap(self, command: str, given: str | None) -> str:
        """Addresses to contact first: those `given` to the command, else `bootstrap.servers`. Raises UsageError without either."""
        found = given or self.values.get(BOOTSTRAP)
        if found is None:
            raise UsageError(f"{command}: --bootstrap-servers is missing: give HOST:PORT of a broker")
        return found

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences to show before a cluster is contacted."""
        if self.values.get(_HOSTNAME_CHECK) != "":
            return ()
        where = f"--command-config {self.path}, line {self.lines[_HOSTNAME_CHECK]}"
        return (f"{where}: {_HOSTNAME_CHECK} is empty: whether a certificate is the broker's own is not checked.",)

    def hide(self, text: str) -> str:
        """`text` with secret values of these settings replaced."""
        for name, value in self.values.items():
            if len(value) >= _SHORTEST_SECRET and not _HARMLESS.fullmatch(name):
                text = text.replace(value, NOT_SHOWN)
        return redact(text)

    def for_librdkafka(self) -> dict[str, str]:
        """Settings by librdkafka's names. A name that Kafka lacks is passed on as librdkafka's, which rejects unknown ones."""
        found: dict[str, str] = {}
        for name, value in self.values.items():
            if name in _GIVEN or name == BOOTSTRAP:
                continue
            if name == _MECHANISM and value == _IAM:
                raise self.refusal(
                    name, f"librdkafka, which restore uses, has no {_IAM}; give a user of {' or '.join(_SCRAM)}"
                )
            names = KNOWN[name].librdkafka if name in KNOWN else (name,)
            if name == _HOSTNAME_CHECK:
                value = value or "none"
            found |= dict.fromkeys(names, value)
        return found

    def for_kafka_python(self) -> dict[str, str | int | bool]:
        """Settings by kafka-python's names. Raises UsageError for one that Kafka's clients do not have, or that has no counterpart."""
        found: dict[str, str | int | bool] = {}
        for name, value in self.values.items():
            if name in ("sasl.username", "sasl.password") and self.lines[name] == self.lines.get(_JAAS):
                found[f"sasl_plain_{name.rpartition('.')[2]}"] = value
            elif name == _HOSTNAME_CHECK:
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
        mechanism = self.values.get(_MECHANISM)
        if mechanism is not None and mechanism not in _MECHANISMS:
            raise self.refusal(_MECHANISM, f"expected one of {', '.join(_MECHANISMS)}")
        return found

    def refusal(self, name: str, why: str) -> UsageError:
        """The error for a setting that cannot be used."""
        # A colon right after a secret setting's name would make `redact` hide the reason.
        return UsageError(f"--command-config {self.path}, line {self.lines[name]}: {name} cannot be used: {why}")


def read_client_properties(path: str | None) -> ClientProperties:
    """The settings in the file at `path`, empty for None. Raises UsageError, which shows no value."""
    if path is None:
        return ClientProperties("", {}, {})
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise UsageError(f"--command-config {path}: cannot be read: {reason}") from None
    values: dict[str, str] = {}
    lines: dict[str, int] = {}
    found = ClientProperties(path, values, lines)
    login: Login | None = None
    for number, name, value in _named(read_settings(text), path):
        lines[name] = number
        given = {name: value}
        if name == _JAAS:
            login = _login(found, value)
            given = {f"sasl.{option}": text for option, text in login.options.items()}
        lines |= dict.fromkeys(given, number)
        values |= given
        _check(found, name, value)
    _check_login(found, login)
    return found


def _named(settings: Iterator[PropertyLine], path: str) -> Iterator[tuple[int, str, str]]:
    """Line, name and value of each setting. Java keeps spaces at the end of a value; they can be meant only in a password."""
    where = f"--command-config {path}, line"
    try:
        for one in settings:
            if not _NAME.fullmatch(one.name):
                raise UsageError(
                    f"{where} {one.line}: expected name=value with the name of a setting; a value that goes on there needs a backslash "
                    "at the end of the line before"
                )
            if not one.has_separator and one.name != _HOSTNAME_CHECK:
                raise UsageError(f"{where} {one.line}: expected name=value")
            value = one.value if one.name.endswith("password") else one.value.strip()
            yield one.line, one.name, value.lower() if one.name == _HOSTNAME_CHECK else value
    except MalformedError as error:
        raise UsageError(f"{where} {error.line}: {error}") from None


def _check(found: ClientProperties, name: str, value: str) -> None:
    if name in ("ssl.truststore.password", "ssl.keystore.password"):
        raise found.refusal(name, _INSTEAD[name])
    if name == _HANDLER and value not in _GIVEN[name]:
        raise found.refusal(name, f"expected {_GIVEN[name][0]}: no other class of Java can be called")
    if name in _GIVEN and value not in _GIVEN[name]:
        raise found.refusal(name, f"expected {_GIVEN[name][0]}: Java's stores are read by Java only")
    if name in ("ssl.truststore.location", "ssl.keystore.location") and value.lower().endswith(_STORES):
        raise found.refusal(name, "expected a PEM file: Java's stores are read by Java only")
    if name == _HOSTNAME_CHECK and value not in ("https", ""):
        raise found.refusal(name, "expected https, or nothing where names in certificates shall not be checked")


def _login(found: ClientProperties, value: str) -> Login:
    """The login module of a JAAS line, with its options, all of them known."""
    try:
        login = read_login(value)
    except MalformedError as error:
        raise found.refusal(_JAAS, str(error)) from None
    module = _MODULES.get(login.module)
    if module is None:
        raise found.refusal(_JAAS, f"expected one of {', '.join(sorted(_MODULES))}")
    for option in login.options:
        if option not in module.options:
            raise found.refusal(_JAAS, f"{option} of {login.module} has no counterpart here: {module.instead}")
    if missing := [option for option in module.options if option not in login.options]:
        raise found.refusal(_JAAS, f"{login.module} lacks {' and '.join(missing)}")
    return login


def _check_login(found: ClientProperties, login: Login | None) -> None:
    mechanism = found.values.get(_MECHANISM)
    if login is not None and mechanism in _MECHANISMS and mechanism not in _MODULES[login.module].mechanisms:
        expected = " or ".join(_MODULES[login.module].mechanisms)
        raise found.refusal(
            _JAAS, f"{login.module} is for {_MECHANISM}={expected}, line {found.lines[_MECHANISM]} has another"
        )
