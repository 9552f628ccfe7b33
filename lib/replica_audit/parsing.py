"""Parsing of JSON, numbers and names in untrusted text, within the bounds of what Kafka writes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from typing import Any, TypeGuard

from replica_audit.errors import FormatError, UsageError
from replica_audit.model import TopicPartition

INT16, INT32, INT64 = 2**15 - 1, 2**31 - 1, 2**63 - 1

#: Kafka writes no JSON that nests deeper, and no longer numbers.
_DEEPEST = 32
_LONGEST_NUMBER = 20
_DIGITS = re.compile(r"-?[0-9]+")
_HALF_CHARACTER = re.compile("[\ud800-\udfff]")


def parse_json(data: bytes | str, path: str, hint: str, read: Callable[[dict[str, Any]], object] | None = None) -> Any:
    """The value of a JSON text. Given `read`, each object is replaced by `read(object)` before the next one is parsed.

    Raises FormatError for anything else, for deeper nesting and longer numbers than Kafka ever writes, and for values that no
    file could hold: a lone surrogate, NaN, Infinity.
    """

    def read_object(found: dict[str, Any]) -> object:
        _check(found, path, hint)
        return found if read is None else read(found)

    try:
        value = json.loads(
            data,
            object_hook=None if read is None else read_object,
            parse_int=_parse_int,
            parse_float=_parse_float,
            parse_constant=_parse_constant,
        )
    except FormatError:
        raise
    except RecursionError:
        raise FormatError(path, None, f"JSON that is nested at most {_DEEPEST} deep", "more", hint) from None
    except ValueError as error:
        raise FormatError(path, getattr(error, "pos", None), "JSON", f"something else ({error})", hint) from None
    _check(value, path, hint)
    return value


def parse_partition(text: str) -> TopicPartition:
    """The partition that a user names, such as orders-0. Raises UsageError."""
    try:
        return TopicPartition.parse(text)
    except ValueError as error:
        raise UsageError(f"{error}: give a partition such as orders-0") from error


def matches(patterns: Sequence[str], topic: str | None) -> bool:
    """True if a topic's whole name matches one of the shell patterns, or there are none; no topic matches no pattern."""
    return not patterns or (topic is not None and any(fnmatchcase(topic, pattern) for pattern in patterns))


def parse_whole(text: str | bytes, least: int = 0, greatest: int = INT64) -> int | None:
    """An integer in ASCII digits from `least` to `greatest`; None for anything else, however long."""
    text = text if isinstance(text, str) else text.decode("latin-1")
    if len(text) < _LONGEST_NUMBER and text.isascii() and text.isdigit():
        value = int(text)
        return value if least <= value <= greatest else None
    if not _DIGITS.fullmatch(text):
        return None
    digits = text.lstrip("-").lstrip("0")
    if len(digits) > _LONGEST_NUMBER:
        return None
    value = -int(digits or "0") if text.startswith("-") else int(digits or "0")
    return value if least <= value <= greatest else None


def is_whole(value: object, least: int = 0, greatest: int = INT32) -> TypeGuard[int]:
    """True for a JSON integer from `least` to `greatest`."""
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= greatest


def fits(value: object, shape: object) -> bool:
    """True for a JSON value of the given shape.

    A shape is a type (`int`: an integer of 64 bits; None: null), a list of one shape that each element has or of a shape for
    each element, a mapping of required keys to shapes, or a tuple of alternative shapes.
    """
    if isinstance(shape, tuple):
        return any(fits(value, one) for one in shape)
    if isinstance(shape, list):
        each = shape * len(value) if isinstance(value, list) and len(shape) == 1 else shape
        return isinstance(value, list) and len(value) == len(each) and all(map(fits, value, each))
    if isinstance(shape, dict):
        return isinstance(value, dict) and all(name in value and fits(value[name], one) for name, one in shape.items())
    if shape is int:
        return is_whole(value, -INT64 - 1, INT64)
    return value is None if shape is None else isinstance(shape, type) and isinstance(value, shape)


def show_value(value: object) -> str:
    """A JSON value in at most 80 characters of ASCII, for an error."""
    return json.dumps(value, default=str)[:80]


def _parse_int(text: str) -> int:
    value = parse_whole(text, -(10**_LONGEST_NUMBER), 10**_LONGEST_NUMBER)
    if value is None:
        raise ValueError(f"a number of {len(text)} digits")
    return value


def _parse_float(text: str) -> float:
    value = float(text) if len(text) <= 2 * _LONGEST_NUMBER else float("inf")
    if abs(value) == float("inf"):
        raise ValueError("a number that is too long or too great")
    return value


def _parse_constant(text: str) -> float:
    raise ValueError(f"{text} is not a number")


def _check(value: object, path: str, hint: str) -> None:
    level = [value]
    for _ in range(_DEEPEST):
        inner: list[object] = []
        for one in level:
            if isinstance(one, str):
                if not one.isascii() and _HALF_CHARACTER.search(one):
                    raise FormatError(path, None, "text in whole characters", show_value(one), hint)
            elif isinstance(one, dict):
                inner += one
                inner += one.values()
            elif isinstance(one, list):
                inner += one
        if not inner:
            return
        level = inner
    raise FormatError(path, None, f"JSON that is nested at most {_DEEPEST} deep", "more", hint)
