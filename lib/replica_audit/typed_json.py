"""Conversion of dataclasses and named tuples to JSON objects and back, by the types of their fields, which also checks files
written by one command and read by another."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from types import UnionType
from typing import Annotated, Literal, NamedTuple, TypeGuard, TypeVar, Union, get_args, get_origin, get_type_hints

from replica_audit.errors import FormatError, UsageError
from replica_audit.parsing import INT64, is_whole, parse_json

_Object = TypeVar("_Object")


class Names(NamedTuple):
    """Annotation: in JSON the tuple is an object with these member names."""

    names: tuple[str, ...]


class Flat(NamedTuple):
    """Annotation: the fields of the class are members of the enclosing object, left out if it is None."""


class Sparse(NamedTuple):
    """Annotation: JSON leaves the member out if it is None."""


class ShapeError(ValueError):
    """A JSON value of the wrong type; `place` names the value, as in `steps[0].text`."""

    def __init__(self, place: str, expected: str) -> None:
        super().__init__(f"{place}: expected {expected}" if place else f"expected {expected}")
        self.place = place
        self._expected = expected

    def inside(self, place: str) -> ShapeError:
        """The error for the value at `place`, in which this one is."""
        dot = "." if self.place and not self.place.startswith("[") else ""
        return ShapeError(f"{place}{dot}{self.place}", self._expected)


#: Types of most values of a field, which JSON writes as they are.
_SCALARS = frozenset((type(None), bool, int, float, str))


def to_object(value: object) -> dict[str, object]:
    """A dataclass or named tuple as the object that `json` writes."""
    kind: type = value.__class__
    found: dict[str, object] = {}
    for field in _fields(kind):
        one = getattr(value, field.name)
        if one is None and field.is_left_out:
            continue
        if field.flat is None:
            found[field.name] = one if one.__class__ in _SCALARS else _plain(one, field.hint)
        else:
            found |= to_object(one)
    return found


class Written(NamedTuple):
    """A file that one command writes as JSON and another reads."""

    command: str
    schema_version: int
    members: tuple[str, ...]
    """Member names that identify it."""


def parse_written(kind: type[_Object], content: object, written: Written) -> _Object:
    """The object in JSON that a command wrote. Raises UsageError for anything else and for another version."""
    by = f"replica-audit {written.command}"
    if not isinstance(content, dict) or not content.keys() >= {*written.members}:
        raise UsageError(f"this is not the plan of {by}: expected an object with {' and '.join(written.members)}")
    if (version := content.get("schema_version")) != written.schema_version:
        raise UsageError(
            f"this plan has schema_version {version}, and this version reads {written.schema_version}: make it again"
        )
    try:
        return from_object(kind, content)
    except ShapeError as error:
        raise UsageError(f"{error.place} of this plan is not as {by} writes it: make it again") from None


def read_written(path: str, option: str, parse: Callable[[object], _Object], written: Written) -> _Object:
    """`parse` applied to the JSON in the file at `path`, which `option` named. Raises UsageError."""
    try:
        with open(path, encoding="utf-8") as file:
            return parse(parse_json(file.read(), path, f"give the plan of replica-audit {written.command}"))
    except FormatError as error:
        raise UsageError(f"{option} {error}") from error
    except OSError as error:
        why = f"cannot be read: {error.strerror}; give the plan of replica-audit {written.command}"
        raise UsageError(f"{option} {path}: {why}") from error
    except (ValueError, UsageError) as error:
        raise UsageError(f"{option} {path}: {error}") from error


def from_object(kind: type[_Object], value: object) -> _Object:
    """The dataclass or named tuple for a parsed JSON object. Unknown names are ignored; fields with a default may be missing. Raises ShapeError."""
    found = _read_object(kind, value)
    assert isinstance(found, kind)
    return found


class _Field(NamedTuple):
    name: str
    hint: object
    is_needed: bool
    is_left_out: bool
    flat: type | None
    """The class whose fields are members of the enclosing object."""


@cache
def _fields(kind: type) -> tuple[_Field, ...]:
    hints = get_type_hints(kind, include_extras=True)
    found = []
    for name, is_needed in _names_of_fields(kind):
        hint = hints[name]
        marks = {type(mark) for mark in getattr(hint, "__metadata__", ())} & {Flat, Sparse}
        if marks:
            hint = get_args(hint)[0]
        flat = next((inner for inner in get_args(hint) if inner is not type(None)), None) if Flat in marks else None
        found.append(_Field(name, hint, is_needed, bool(marks), flat))
    return tuple(found)


def _names_of_fields(kind: type) -> Iterator[tuple[str, bool]]:
    """Name of each field, and True if it has no default."""
    if dataclasses.is_dataclass(kind):
        absent = dataclasses.MISSING
        for one in dataclasses.fields(kind):
            yield one.name, one.default is absent and one.default_factory is absent
    else:
        defaults = getattr(kind, "_field_defaults", {})
        for name in kind.__annotations__:
            yield name, name not in defaults


def _plain(value: object, hint: object) -> object:
    """A field's value as JSON."""
    if value is None or isinstance(value, (str, int, float)):
        return value
    if _is_object(hint):
        return to_object(value)
    args = get_args(hint)
    if isinstance(value, tuple):
        if names := _names_of(hint):
            return dict(zip(names, value, strict=True))
        each = next((one for one in args if get_origin(one) is tuple), hint) if _is_union(hint) else hint
        return [_plain(one, kind) for one, kind in zip(value, _kinds_of_items(each, len(value)))]
    if isinstance(value, Mapping):
        return {str(name): _plain(one, args[-1]) for name, one in value.items()}
    return next(_plain(value, one) for one in args if one is not type(None))


@cache
def _reader(hint: object) -> Callable[[object], object]:
    """A function from a JSON value to a value of type `hint`. It raises ShapeError, with a place inside that value."""
    if _is_object(hint):
        return partial(_read_object, hint)
    origin, args = get_origin(hint), get_args(hint)
    if names := _names_of(hint):
        return partial(_read_named, dict(zip(names, map(_reader, get_args(args[0])), strict=True)))
    if _is_union(hint):
        read = _reader(next(one for one in args if one is not type(None)))
        return partial(_read_or_null, read) if type(None) in args else read
    if origin in (tuple, Sequence):
        return partial(_read_list, hint)
    if origin is Mapping:
        return partial(_read_map, _reader(args[1]))
    if origin is Literal:
        return partial(_check, lambda value: value in args, f"one of {', '.join(map(str, args))}")
    return partial(_check, *_PLAIN[args[0] if origin is Annotated else hint])


def _read_or_null(read: Callable[[object], object], value: object) -> object:
    return None if value is None else read(value)


def _read_named(readers: Mapping[str, Callable[[object], object]], value: object) -> tuple:
    if not isinstance(value, dict) or any(name not in value for name in readers):
        raise ShapeError("", f"an object with {', '.join(readers)}")
    return tuple(_read_at(name, read, value[name]) for name, read in readers.items())


def _read_list(hint: object, value: object) -> tuple:
    if not isinstance(value, list):
        raise ShapeError("", "a list")
    kinds = _kinds_of_items(hint, len(value))
    if len(kinds) != len(value):
        raise ShapeError("", f"{len(kinds)} values")
    return tuple(_read_at(f"[{at}]", _reader(kind), one) for at, (one, kind) in enumerate(zip(value, kinds)))


def _read_map(read: Callable[[object], object], value: object) -> dict[str, object]:
    if not isinstance(value, dict):
        raise ShapeError("", "an object")
    return {name: _read_at(name, read, one) for name, one in value.items()}


def _check(is_right: Callable[[object], bool], expected: str, value: object) -> object:
    if not is_right(value):
        raise ShapeError("", expected)
    return value


def _read_at(place: str, read: Callable[[object], object], value: object) -> object:
    try:
        return read(value)
    except ShapeError as error:
        raise error.inside(place) from None


def _read_object(kind: type, value: object) -> object:
    if not isinstance(value, dict):
        raise ShapeError("", "an object")
    found: dict[str, object] = {}
    for field in _fields(kind):
        if field.flat is not None:
            is_there = all(one.name in value for one in _fields(field.flat) if one.is_needed)
            found[field.name] = _read_object(field.flat, value) if is_there else None
        elif field.name in value:
            found[field.name] = _read_at(field.name, _reader(field.hint), value[field.name])
        elif field.is_needed:
            raise ShapeError(field.name, "a value, found none")
    return kind(**found)


def _is_object(hint: object) -> TypeGuard[type]:
    """True for a class whose values are JSON objects: a dataclass or named tuple."""
    return isinstance(hint, type) and (dataclasses.is_dataclass(hint) or hasattr(hint, "_fields"))


def _is_union(hint: object) -> bool:
    return get_origin(hint) in (Union, UnionType)


def _names_of(hint: object) -> tuple[str, ...]:
    """Names of a tuple that is an object in JSON; () for any other type."""
    metadata = getattr(hint, "__metadata__", ())
    return metadata[0].names if metadata and isinstance(metadata[0], Names) else ()


def _kinds_of_items(hint: object, count: int) -> tuple[object, ...]:
    """The type of each item of a tuple or sequence with `count` items."""
    args = get_args(hint)
    return args[:1] * count if args[-1:] == (Ellipsis,) or get_origin(hint) is Sequence else args


_PLAIN: dict[object, tuple[Callable[[object], bool], str]] = {
    int: (lambda value: is_whole(value, -INT64 - 1, INT64), "a whole number"),
    str: (lambda value: isinstance(value, str), "text"),
    bool: (lambda value: isinstance(value, bool), "true or false"),
}
