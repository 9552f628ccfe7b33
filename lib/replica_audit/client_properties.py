"""Client properties files of Kafka's own tools, parsed as Java does, and the names of their settings in librdkafka and kafka-python.
No value is ever shown."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from replica_audit.errors import UsageError
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
    login: _Login | None = None
    for number, name, value in _read_settings(text, f"--command-config {path}"):
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


_LINE_END = re.compile(r"\r\n|\r|\n")
_BLANKS = " \t\f"
#: Up to the first unescaped separator; the value follows it.
_SETTING = re.compile(r"((?:[^\\=: \t\f]|\\.)*)([ \t\f]*[=:]?)[ \t\f]*(.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|u|.)", re.DOTALL)
_CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def _read_settings(text: str, file: str) -> Iterator[tuple[int, str, str]]:
    """Number of the first line, name and value of each setting, as `Properties.load` reads them. Java keeps spaces at the end of a
    value; they can be meant only in a password. Raises UsageError."""
    for number, line in _join_lines(text):
        where = f"{file}, line {number}"
        found = _SETTING.fullmatch(line)
        if found is None:
            raise UsageError(f"{where}: expected name=value")
        try:
            name, value = _unescaped(found[1]), _unescaped(found[3])
        except ValueError:
            raise UsageError(f"{where}: expected four hexadecimal digits after \\u") from None
        if not _NAME.fullmatch(name):
            raise UsageError(
                f"{where}: expected name=value with the name of a setting; a value that goes on there needs a backslash at the end of "
                "the line before"
            )
        if not found[2] and name != _HOSTNAME_CHECK:
            raise UsageError(f"{where}: expected name=value")
        value = value if name.endswith("password") else value.strip()
        yield number, name, value.lower() if name == _HOSTNAME_CHECK else value


def _join_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines that are neither blank nor comments, each with its number and those that continue it."""
    joined, start = "", 0
    lines = _LINE_END.split(text)
    for number, line in enumerate(lines, 1):
        part = line.lstrip(_BLANKS)
        if not joined:
            start = number
            if not part or part[0] in "#!":
                continue
        joined += part
        if (len(joined) - len(joined.rstrip("\\"))) % 2 and number < len(lines):
            joined = joined[:-1]
            continue
        yield start, joined.removesuffix("\\") if number == len(lines) else joined
        joined = ""


def _unescaped(text: str) -> str:
    def one(found: re.Match[str]) -> str:
        escaped = found[1]
        return chr(int(escaped[1:], 16)) if escaped[0] == "u" else _CONTROLS.get(escaped, escaped)

    return _ESCAPE.sub(one, text)


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


_TOKEN = re.compile(r"""\s*("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[^\s;="']+|[;=])""", re.DOTALL)
_TOKEN_ESCAPE = re.compile(r"\\([0-3][0-7]{0,2}|[4-7][0-7]?|.)", re.DOTALL)
_TOKEN_CONTROLS = _CONTROLS | {"a": "\a", "b": "\b", "v": "\v"}
_FLAGS = ("required", "requisite", "sufficient", "optional")
_OPTION = re.compile(r"[A-Za-z][A-Za-z0-9]{0,30}")


@dataclass(frozen=True, slots=True)
class _Login:
    """One login module with its options."""

    module: str
    """Class name of the module without its package."""
    options: Mapping[str, str] = field(repr=False)


def _login(found: ClientProperties, value: str) -> _Login:
    """The login module of a JAAS line, with its options, all of them known."""
    login = _read_login(found, value)
    module = _MODULES.get(login.module)
    if module is None:
        raise found.refusal(_JAAS, f"expected one of {', '.join(sorted(_MODULES))}")
    for option in login.options:
        if option not in module.options:
            raise found.refusal(_JAAS, f"{option} of {login.module} has no counterpart here: {module.instead}")
    if missing := [option for option in module.options if option not in login.options]:
        raise found.refusal(_JAAS, f"{login.module} lacks {' and '.join(missing)}")
    return login


def _read_login(found: ClientProperties, value: str) -> _Login:
    """The only entry of `sasl.jaas.config` (`JaasConfig`): `package.Module flag option=value …;`."""
    tokens = []
    at, end = 0, len(value.rstrip())
    while at < end:
        token = _TOKEN.match(value, at)
        if token is None:
            raise found.refusal(_JAAS, "a quotation mark has no end")
        tokens.append(token[1])
        at = token.end()
    if len(tokens) < 2 or tokens[1].lower() not in _FLAGS:
        raise found.refusal(_JAAS, "expected the class of a login module, then `required`")
    if tokens[-1] != ";" or ";" in tokens[:-1]:
        raise found.refusal(_JAAS, "expected one login module, with `;` at its end")
    rest = tokens[2:-1]
    options: dict[str, str] = {}
    while rest:
        if len(rest) < 3 or rest[1] != "=" or rest[2] == "=" or not _OPTION.fullmatch(rest[0]):
            raise found.refusal(_JAAS, 'expected option="value" after `required`, each value in quotation marks')
        options[rest[0]] = _unquoted(rest[2])
        rest = rest[3:]
    return _Login(tokens[0].rpartition(".")[2], options)


def _unquoted(token: str) -> str:
    if token[0] not in "\"'":
        return token

    def one(found: re.Match[str]) -> str:
        escaped = found[1]
        return chr(int(escaped, 8)) if escaped.isdigit() and escaped < "8" else _TOKEN_CONTROLS.get(escaped, escaped)

    return _TOKEN_ESCAPE.sub(one, token[1:-1])


def _check_login(found: ClientProperties, login: _Login | None) -> None:
    mechanism = found.values.get(_MECHANISM)
    if login is not None and mechanism in _MECHANISMS and mechanism not in _MODULES[login.module].mechanisms:
        expected = " or ".join(_MODULES[login.module].mechanisms)
        raise found.refusal(
            _JAAS, f"{login.module} is for {_MECHANISM}={expected}, line {found.lines[_MECHANISM]} has another"
        )
