"""Parameters in the names of tests: what they hold, where pytest would only number them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import MISSING, fields, is_dataclass
from itertools import islice
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
#: Characters of a name; parts that are looked at for it, and characters after which no further one is.
_LONGEST, _PARTS, _ENOUGH = 60, 12, 240


def name_parameter(value: object) -> str | None:
    """The name of a parameter's value in one line; None where pytest's own is one."""
    if isinstance(value, str):
        return _in_one_line(value) if str(ROOT) in value else None
    if isinstance(value, (Path, Mapping, tuple, list, range, Set)) or _is_record(value):
        return _in_one_line(_told(value))
    return None


def _in_one_line(text: str) -> str:
    """The text without the place where this machine has the project; what is no UTF-8, as of an argument, is escaped, since pytest writes
    names to a file."""
    told = " ".join(text.replace(f"{ROOT}/", "").split()).encode(errors="backslashreplace").decode()
    return told if len(told) <= _LONGEST else f"{told[:_LONGEST]}.."


def _is_record(value: object) -> bool:
    return is_dataclass(value) and not isinstance(value, type)


def _told(value: Any, around: str = "{}") -> str:
    """A value in a few words; those of several parts are put into `around`."""
    if isinstance(value, Path):
        return value.name
    if isinstance(value, (bytes, bytearray)):
        return f"{len(value)} bytes"
    if isinstance(value, Mapping):
        return around.format(_named(value.items()))
    if _is_record(value):
        usual = {one.name: one.default for one in fields(value) if one.default is not MISSING}
        return _told_object(value, {one.name: getattr(value, one.name) for one in fields(value)}, usual)
    if isinstance(value, tuple) and hasattr(value, "_fields") and type(value).__str__ is object.__str__:
        return _told_object(value, value._asdict(), value._field_defaults)
    if isinstance(value, (list, Set)) or type(value) is tuple:
        if value and all(isinstance(one, bytes) for one in value):
            return f"{len(value)} of {sum(map(len, value))} bytes"
        parts = sorted(value, key=str) if isinstance(value, Set) else value
        return around.format(_joined(_told(one, "({})") for one in islice(parts, _PARTS)))
    has_words = type(value).__repr__ is not object.__repr__ or type(value).__str__ is not object.__str__
    return getattr(value, "__name__", None) or (str(value) if has_words else type(value).__name__)


def _told_object(value: object, held: Mapping[str, Any], usual: Mapping[str, Any]) -> str:
    """An object by what is not as usual in it."""
    parts = ((name, one) for name, one in held.items() if name not in usual or one is not usual[name])
    return f"{type(value).__name__}({_named(parts)})"


def _named(items: Iterable[tuple[Any, Any]]) -> str:
    return _joined(f"{_told(name)}={_told(one, '({})')}" for name, one in islice(items, _PARTS))


def _joined(parts: Iterable[str]) -> str:
    found, size = [], 0
    for part in parts:
        found.append(part)
        size += len(part)
        if size > _ENOUGH:
            break
    return " ".join(found) or "none"
