"""Files of `java.util.Properties`, and the JAAS line in them, parsed as Java does. No error shows more than the name of a setting."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

_LINE_END = re.compile(r"\r\n|\r|\n")
_BLANKS = " \t\f"
#: Up to the first unescaped separator; the value follows it.
_SETTING = re.compile(r"((?:[^\\=: \t\f]|\\.)*)([ \t\f]*[=:]?)[ \t\f]*(.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|u|.)", re.DOTALL)
_CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}

_TOKEN = re.compile(r"""\s*("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[^\s;="']+|[;=])""", re.DOTALL)
_TOKEN_ESCAPE = re.compile(r"\\([0-3][0-7]{0,2}|[4-7][0-7]?|.)", re.DOTALL)
_TOKEN_CONTROLS = _CONTROLS | {"a": "\a", "b": "\b", "v": "\v"}
_FLAGS = ("required", "requisite", "sufficient", "optional")
_OPTION = re.compile(r"[A-Za-z][A-Za-z0-9]{0,30}")


class MalformedError(Exception):
    """A line that Java rejects; the text says what was expected, and quotes nothing of the line."""

    def __init__(self, text: str, line: int = 0) -> None:
        super().__init__(text)
        self.line = line


class PropertyLine(NamedTuple):
    """One setting, with continued lines joined."""

    line: int
    """Number of its first line."""
    name: str
    value: str
    has_separator: bool


def read_settings(text: str) -> Iterator[PropertyLine]:
    """Each setting (`Properties.load`), without its escapes. Raises MalformedError."""
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
        found = _SETTING.fullmatch(joined.removesuffix("\\") if number == len(lines) else joined)
        joined = ""
        if found is None:
            raise MalformedError("expected name=value", start)
        name, separator, value = found.groups()
        try:
            yield PropertyLine(start, _unescaped(name), _unescaped(value), bool(separator))
        except ValueError:
            raise MalformedError("expected four hexadecimal digits after \\u", start) from None


def _unescaped(text: str) -> str:
    def one(found: re.Match[str]) -> str:
        escaped = found[1]
        return chr(int(escaped[1:], 16)) if escaped[0] == "u" else _CONTROLS.get(escaped, escaped)

    return _ESCAPE.sub(one, text)


@dataclass(frozen=True, slots=True)
class Login:
    """One login module with its options."""

    module: str
    """Class name of the module without its package."""
    options: Mapping[str, str] = field(repr=False)


def read_login(value: str) -> Login:
    """The only entry of `sasl.jaas.config` (`JaasConfig`): `package.Module flag option=value …;`. Raises MalformedError."""
    tokens = []
    at, end = 0, len(value.rstrip())
    while at < end:
        found = _TOKEN.match(value, at)
        if found is None:
            raise MalformedError("a quotation mark has no end")
        tokens.append(found[1])
        at = found.end()
    if len(tokens) < 2 or tokens[1].lower() not in _FLAGS:
        raise MalformedError("expected the class of a login module, then `required`")
    if tokens[-1] != ";" or ";" in tokens[:-1]:
        raise MalformedError("expected one login module, with `;` at its end")
    module, options = tokens[0].rpartition(".")[2], tokens[2:-1]
    found_options: dict[str, str] = {}
    while options:
        if len(options) < 3 or options[1] != "=" or options[2] == "=" or not _OPTION.fullmatch(options[0]):
            raise MalformedError('expected option="value" after `required`, each value in quotation marks')
        found_options[options[0]] = _unquoted(options[2])
        options = options[3:]
    return Login(module, found_options)


def _unquoted(token: str) -> str:
    if token[0] not in "\"'":
        return token

    def one(found: re.Match[str]) -> str:
        escaped = found[1]
        return chr(int(escaped, 8)) if escaped.isdigit() and escaped < "8" else _TOKEN_CONTROLS.get(escaped, escaped)

    return _TOKEN_ESCAPE.sub(one, token[1:-1])
