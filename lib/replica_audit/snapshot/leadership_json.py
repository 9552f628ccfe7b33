"""`leadership.json`: what a user says of who leads."""

from __future__ import annotations

from typing import Any

from replica_audit.errors import FormatError
from replica_audit.model import Leadership
from replica_audit.parsing import is_whole, parse_json, show_value

_REQUIRED = ("topic", "partition", "leader")
_KEYS = (*_REQUIRED, "leader_epoch", "isr")
_HINT = (
    'write [{"topic": "t", "partition": 0, "leader": 1, "leader_epoch": 5, "isr": [0, 1]}]; the last two are optional'
)


def parse_leadership(data: bytes | str, path: str) -> tuple[Leadership, ...]:
    """Leadership of the partitions that the file names, in their order.

    `leader` is a broker id, or -1 or null for none; without `isr` it is unknown. Raises FormatError, which names the
    entry, for anything else, an unknown key or a partition named twice included.
    """
    entries = parse_json(data, path, _HINT)
    if not isinstance(entries, list):
        raise FormatError(path, None, "a list", type(entries).__name__, _HINT)
    found: dict[tuple[str, int], Leadership] = {}
    for number, entry in enumerate(entries, 1):
        leadership = _parse_entry(entry, number, path)
        key = leadership.topic, leadership.partition
        if key in found:
            raise FormatError(path, None, f"in entry {number} a new partition", f"{key[0]}-{key[1]} again", _HINT)
        found[key] = leadership
    return tuple(found.values())


def _parse_entry(entry: Any, number: int, path: str) -> Leadership:
    def fail(expected: str, found: Any) -> FormatError:
        return FormatError(path, None, f"in entry {number} {expected}", show_value(found), _HINT)

    def whole(key: str, value: Any, least: int = 0) -> int:
        if not is_whole(value, least):
            raise fail(f"a whole number from {least} for {key!r}", value)
        return value

    if not isinstance(entry, dict):
        raise fail("an object", entry)
    missing = [key for key in _REQUIRED if key not in entry]
    if missing:
        raise fail(f"the key {missing[0]!r}", sorted(entry))
    unknown = sorted(set(entry) - set(_KEYS))
    if unknown:
        raise fail(f"no other keys than {', '.join(_KEYS)}", unknown[0])
    if not isinstance(entry["topic"], str) or not entry["topic"]:
        raise fail("a topic name for 'topic'", entry["topic"])
    isr = entry.get("isr")
    if isr is not None:
        if not isinstance(isr, list):
            raise fail("a list of broker ids for 'isr'", isr)
        isr = tuple(sorted({whole("isr", one) for one in isr}))
    epoch = entry.get("leader_epoch")
    leader = None if entry["leader"] is None else whole("leader", entry["leader"], -1)
    return Leadership(
        topic=entry["topic"],
        partition=whole("partition", entry["partition"]),
        source="user",
        leader_id=None if leader == -1 else leader,
        leader_epoch=None if epoch is None else whole("leader_epoch", epoch),
        isr=isr,
    )
