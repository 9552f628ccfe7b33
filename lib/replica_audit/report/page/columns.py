"""Rows as columns, small before they are compressed: constants once, repeated values numbered, offsets as distances.

A column is one of
- {"c": value}: the same value in every row;
- {"d": [value…], "i": [number…]}: a value's number among the distinct ones;
- {"v": [value…]}: as they are;
with "r": 1 where the numbers are distances from the base of the row's partition. `data.js` reads them.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping, Sequence

from replica_audit.report.layout import clean

#: Largest exact integer in JavaScript; greater ones are stored as text.
SAFE_INTEGER = 2**53 - 1

#: Values of these types are their own keys; others go by their repr, since True equals 1 and a list has no hash.
_PLAIN = (int, str, type(None))

_ENCODER = json.JSONEncoder(separators=(",", ":"), allow_nan=False)


def encode_column(values: Sequence[object], bases: Sequence[int | None] | None = None) -> dict[str, object]:
    """Encode a column for the page. With `bases`, one a row, integers become differences from them if that is shorter."""
    keys, told = _distinct(values)
    best = _encode(keys, told)
    if bases is not None:
        moved = [
            value - base if type(value) is int and base is not None and abs(value - base) <= SAFE_INTEGER else value
            for value, base in zip((told[key] for key in keys), bases, strict=True)
        ]
        # Without a base a row's distance could not be resolved.
        if all(base is not None for base in bases):
            distances = {**_encode(*_distinct(moved)), "r": 1}
            best = min(best, distances, key=lambda column: len(_text(column)))
    return best


def portable(value: object) -> object:
    """Return `value` with integers beyond JavaScript's exact range as text, and texts without control characters."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, int):
        return value if abs(value) <= SAFE_INTEGER else str(value)
    if isinstance(value, Mapping):
        return {key: portable(part) for key, part in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return portable(value._asdict())
    if isinstance(value, (list, tuple)):
        return [portable(part) for part in value]
    return value


def pack(content: object) -> str:
    """`content` as base64 of zlib-compressed JSON (the browser's DecompressionStream("deflate"))."""
    return base64.b64encode(zlib.compress(_text(content).encode("ascii"), 9)).decode("ascii")


def _distinct(values: Sequence[object]) -> tuple[list[object], dict[object, object]]:
    """(keys, distinct values by key): a key for each value, equal for equal values, and each distinct value in portable form."""
    # Rows that were read together share equal lists: of each the repr is made once.
    others = {id(value): value for value in values if value.__class__ not in _PLAIN}
    told = {number: (repr(value),) for number, value in others.items()}
    keys = [told.get(id(value), value) for value in values] if told else list(values)
    return keys, {key: portable(value) for key, value in dict(zip(keys, values, strict=True)).items()}


def _encode(keys: Sequence[object], told: Mapping[object, object]) -> dict[str, object]:
    if len(told) <= 1:
        return {"c": next(iter(told.values()), None)}
    if len(told) * 2 > len(keys):
        return {"v": [told[key] for key in keys]}
    numbers = {key: number for number, key in enumerate(told)}
    return {"d": list(told.values()), "i": [numbers[key] for key in keys]}


def _text(content: object) -> str:
    return _ENCODER.encode(content)
