"""Leadership of each partition by every source in a snapshot: metadata log, listings, ZooKeeper states, leadership.json."""

from __future__ import annotations

import fnmatch
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from itertools import count, takewhile
from operator import attrgetter
from sys import intern
from typing import TypeVar

from replica_audit.errors import FormatError
from replica_audit.model import Leadership
from replica_audit.parsing import is_whole, parse_json, show_value
from replica_audit.schema import QuarantineRow
from replica_audit.snapshot.metadata.metadata_log import MetadataReading
from replica_audit.snapshot.overtaken import HeldCopies, marked_if_overtaken
from replica_audit.snapshot.remote_log_metadata import REMOTE_SEGMENTS
from replica_audit.snapshot.storage import GREATEST_LIST, Snapshot
from replica_audit.snapshot.topics_describe import DescribeListing, parse_topics_describe
from replica_audit.snapshot.zookeeper import ZOOKEEPER_PATTERN, complete_from_listing, parse_zookeeper

_REQUIRED = ("topic", "partition", "leader")
_KEYS = (*_REQUIRED, "leader_epoch", "isr")
_HINT = (
    'write [{"topic": "t", "partition": 0, "leader": 1, "leader_epoch": 5, "isr": [0, 1]}]; the last two are optional'
)


def parse_leadership(data: bytes | str, path: str) -> tuple[Leadership, ...]:
    """Leadership of the partitions in a `leadership.json`, in file order.

    `leader` is a broker id, or -1 or null for no leader; without `isr` the ISR is unknown. Raises FormatError, which names the
    entry, for anything else, an unknown key or a duplicate partition included.
    """

    def read(entry: dict[str, object]) -> object:
        try:
            return _parse_entry(entry, 0, path)
        except FormatError:
            return entry

    # Of a million partitions only one entry at a time is held as JSON.
    entries = parse_json(data, path, _HINT, read)
    if not isinstance(entries, list):
        raise FormatError(path, None, "a list", "one value", _HINT)
    seen: dict[str, set[int]] = defaultdict(set)
    for number, entry in enumerate(entries, 1):
        if not isinstance(entry, Leadership):
            _parse_entry(entry, number, path)
        if entry.partition in seen[entry.topic]:
            found = f"{entry.topic_partition} again"
            raise FormatError(path, None, f"in entry {number} a new partition", found, _HINT)
        seen[entry.topic].add(entry.partition)
    return tuple(entries)


def _parse_entry(entry: object, number: int, path: str) -> Leadership:
    def fail(expected: str, found: object) -> FormatError:
        return FormatError(path, None, f"in entry {number} {expected}", show_value(found), _HINT)

    def whole(key: str, value: object, least: int = 0) -> int:
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
        isr = _shared(tuple(sorted({whole("isr", one) for one in isr})))
    epoch = entry.get("leader_epoch")
    leader = None if entry["leader"] is None else whole("leader", entry["leader"], -1)
    return Leadership(
        topic=intern(entry["topic"]),
        partition=whole("partition", entry["partition"]),
        source="user",
        leader_id=None if leader == -1 else leader,
        leader_epoch=None if epoch is None else whole("leader_epoch", epoch),
        isr=isr,
    )


@lru_cache(maxsize=1 << 12)
def _shared(brokers: tuple[int, ...]) -> tuple[int, ...]:
    """The brokers, as one shared object for equal ones: many partitions have the same."""
    return brokers


#: By source, topic and partition.
_Found = dict[tuple[str, str, int], Leadership]

_Parsed = TypeVar("_Parsed")


class RootFiles:
    """The files beside the log dirs: read by name, with the kind of each and the problems found."""

    def __init__(self, snapshot: Snapshot, names: tuple[str, ...]) -> None:
        self.names = names
        self.kinds: dict[str, str] = {}
        self.quarantine: list[QuarantineRow] = []
        self._snapshot = snapshot

    def read(self, name: str, kind: str, parse: Callable[[bytes, str], _Parsed]) -> _Parsed | None:
        """A parsed file; None if it is missing or cannot be read (with a row in `quarantine`)."""
        if name not in self.names:
            return None
        self.kinds[name] = kind
        try:
            return parse(self._snapshot.read_bytes(name, GREATEST_LIST), name)
        except (FormatError, OSError) as error:
            self.note("CAP-UNREADABLE", name, str(error), getattr(error, "position", None))
            return None

    def read_each(
        self, pattern: str, kind: str, parse: Callable[[bytes, str], _Parsed]
    ) -> Iterator[tuple[str, _Parsed]]:
        """Name and content of each file whose name matches a shell pattern, in order, except those that cannot be read."""
        for name in fnmatch.filter(self.names, pattern):
            found = self.read(name, kind, parse)
            if found is not None:
                yield name, found

    def note(self, code: str, name: str, reason: str, position: int | None = None) -> None:
        """Add a row to `quarantine`."""
        self.quarantine.append(QuarantineRow.of(code, name, reason, position=position))


def read_leaderships(
    root: RootFiles, metadata: MetadataReading, replicas: HeldCopies, is_wanted: Callable[[str], bool]
) -> tuple[tuple[Leadership, ...], tuple[str, ...], tuple[frozenset[int], ...] | None]:
    """Leaderships of the wanted topics, sorted; names of the root files that give them; and, for each partition of
    `__remote_log_metadata`, the brokers that lead it or are in sync (else eligible or last known), up to the first unknown
    partition (None if no source has the topic).

    The epoch files of `replicas`, which are read several times, show which files are older than the logs.
    """
    found: _Found = {}
    counts: dict[str, int] = {}
    paths = [*_read_listings(root, replicas, found, counts), *_read_zookeeper(root, replicas, found)]
    told_by_user = root.read("leadership.json", "leadership", parse_leadership)
    if told_by_user is not None:
        paths.append("leadership.json")
        found.update(_by_place(marked_if_overtaken(told_by_user, replicas)))
    # A metadata log whose newest part cannot be read is older than a listing made by hand.
    listed = {key[1:] for key in found} if metadata.doubtful else set()
    found.update(_by_place(one for one in metadata.leaderships if one.topic_partition not in listed))
    wanted = [one for one in found.values() if is_wanted(one.topic)]
    # Sorted by one column after the other, the last one first: keys of all columns take more memory.
    for column in ("source", "partition", "topic"):
        wanted.sort(key=attrgetter(column))
    return tuple(wanted), tuple(paths), _in_sync(found.values(), counts.get(REMOTE_SEGMENTS.name))


def _having_all(one: Leadership) -> set[int]:
    """Brokers with every committed record: the leader, those in sync, and eligible ones (KIP-966); without any, the last known."""
    leads = () if one.leader_id is None else (one.leader_id,)
    return {*leads, *(one.isr or ()), *one.elr} or set(one.last_known_elr)


def _in_sync(found: Iterable[Leadership], listed: int | None) -> tuple[frozenset[int], ...] | None:
    """The third result of `read_leaderships`: by the metadata log, else by a listing with `listed` partitions (None: number unknown)."""
    told: dict[str, dict[int, Leadership]] = defaultdict(dict)
    for one in found:
        if one.topic == REMOTE_SEGMENTS.name and not one.is_deleted:
            told[one.source][one.partition] = one
    known = told.get("metadata_log") or told.get("topics_describe")
    if not known or any(one.overtaken for one in known.values()):
        return None
    here = [known[at] for at in takewhile(known.__contains__, count())]
    groups = [_having_all(one) for one in here]
    if len(groups) != (len(known) if "metadata_log" in told else listed):
        groups.append(set())
    return tuple(frozenset(group) for group in groups)


def _by_place(leaderships: Iterable[Leadership]) -> Iterator[tuple[tuple[str, str, int], Leadership]]:
    return (((one.source, one.topic, one.partition), one) for one in leaderships)


def _read_listings(root: RootFiles, replicas: HeldCopies, found: _Found, counts: dict[str, int]) -> list[str]:
    paths = []
    for name, listing in root.read_each("*topics-describe*.txt", "topics_describe", _parse_listing):
        paths.append(name)
        # If there are several listings, the last by name counts: with a date in the name that is the newest.
        found.update(_by_place(marked_if_overtaken(listing.leaderships, replicas)))
        counts.update(listing.counts)
        for problem in listing.problems:
            root.note("CAP-UNREADABLE" if "Topic" in problem.found else "INPUT-IGNORED", name, str(problem))
    return paths


def _read_zookeeper(root: RootFiles, replicas: HeldCopies, found: _Found) -> list[str]:
    paths = []
    for name, states in root.read_each(ZOOKEEPER_PATTERN, "zookeeper", parse_zookeeper):
        paths.append(name)
        for one in marked_if_overtaken(states, replicas):
            listed = found.get(("topics_describe", one.topic, one.partition))
            found[one.source, one.topic, one.partition] = complete_from_listing(one, listed)
    return paths


def _parse_listing(data: bytes, path: str) -> DescribeListing:
    try:
        return parse_topics_describe(data.decode("utf-8"), path)
    except UnicodeDecodeError as error:
        raise FormatError(path, error.start, "UTF-8", "other bytes", "save the listing as UTF-8") from None
