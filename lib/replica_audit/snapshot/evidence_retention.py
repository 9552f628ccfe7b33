"""Retention of archives of evidence: an archive is needed while a later one names its files (docs/evidence.md)."""

from __future__ import annotations

import fcntl
import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

from replica_audit.collect.collect import SEGMENT
from replica_audit.errors import FormatError, UsageError
from replica_audit.snapshot.evidence_files import PREFIX, EvidenceFiles
from replica_audit.snapshot.evidence_lists import BrokenReader, HeadReader, ListReader, read_archives
from replica_audit.snapshot.storage import list_directory, local_is_directory, open_file

#: Names with a broker id, of archives and of files of unpacked ones.
_OF_BROKER = re.compile(r"evidence-([0-9]{1,10})(?:\.|-after-|-broken-|-wanted-)")


class Archive(NamedTuple):
    """An archive of evidence in a directory."""

    path: str
    broker_id: int
    kind: str
    """whole, broken off, or wanted (ranges that were collected later)."""
    started_ms: int
    """Beginning of its collection; for an incomplete archive the time of the last known write."""
    bytes: int
    named: int
    """Number of its files that an archive kept for its own sake names; the greatest such number if there are several."""
    needed: bool
    """True if it began at `since` or later, its files are named, no later evidence has everything that it may have, or any
    of this is unknown."""


class Collected(NamedTuple):
    """One collection of a broker, and the facts that decide whether a later one replaces it."""

    reader: ListReader
    names: Counter[str]
    """Number of files that it names in each earlier archive."""
    unread: frozenset[str]
    filled: frozenset[str]
    """Log dirs with segments in it; an unmounted disk has none."""

    def replaces(self, other: Collected) -> bool:
        """True if this is later and has everything that the other may have, except what was deleted on the broker."""
        mine, theirs = self.reader, other.reader
        if not isinstance(mine, HeadReader) or mine.started <= theirs.started:
            return False
        if isinstance(theirs, HeadReader):
            topics, log_dirs = theirs.topics(), theirs.log_dirs()
        else:
            # An incomplete archive does not say what was asked for.
            topics, log_dirs = [], []
        same = mine.topics() in ([], topics) and set(mine.log_dirs()) >= set(log_dirs)
        return same and self.filled >= other.filled and self.unread <= other.unread


def find_archives(directory: str, since: int) -> tuple[list[Archive], dict[str, str]]:
    """The archives in a local directory, oldest first, and the reasons why others are unreadable. Those count as needed, as
    do all archives of brokers to which they may belong.

    `since` is in ms since the epoch. Raises UsageError if there is no such directory, and OSError.
    """
    if not local_is_directory(directory):
        raise UsageError(f"{directory}: no such directory")
    root = list_directory(directory, "", PREFIX)
    found = EvidenceFiles()
    by_broker: dict[int, list[ListReader]] = defaultdict(list)
    for reader in read_archives(root, lambda path: open_file(directory, path), found):
        by_broker[reader.broker_id].append(reader)
    problems = {one.path: one.reason for one in found.problems}
    collected = {broker_id: _read_all(readers, problems) for broker_id, readers in by_broker.items()}
    unknown: set[int] = set()
    for path in problems:
        named = _OF_BROKER.match(path)
        brokers = found.brokers.get(path, frozenset()) | ({int(named[1])} if named else set())
        unknown |= brokers or set(by_broker)
    sizes = {entry.path: entry.size for entry in root}
    archives = [
        one
        for broker_id, readers in by_broker.items()
        for one in _of_broker(readers, collected[broker_id], since, sizes, broker_id not in unknown)
    ]
    return sorted(archives, key=lambda one: (one.started_ms, one.path)), problems


def collected_log_dirs(directory: str, broker_id: int, paths: Iterable[str]) -> set[str]:
    """Names of the log dirs from which a broker's archives were collected; `paths` are all archives that may be its own. Raises OSError."""
    own = set(map(os.path.basename, paths))
    # Unpacked archives count too.
    root = [
        entry for entry in list_directory(directory, "", PREFIX) if entry.path in own or not entry.path.endswith(".tar")
    ]
    readers = read_archives(root, lambda path: open_file(directory, path), EvidenceFiles())
    heads = (one for one in readers if isinstance(one, HeadReader) and one.broker_id == broker_id and not one.is_later)
    return {name for one in heads for name in one.log_dirs()}


def claim_archives(directory: str, since: int, held: ExitStack) -> tuple[list[Archive], dict[str, str], list[int]]:
    """`find_archives`, and the brokers whose collection is running: all their archives count as needed. No other collection
    can begin while `held` is open. Raises UsageError and OSError."""
    archives, problems = find_archives(directory, since)
    free, busy = set(), []
    for broker_id in sorted({one.broker_id for one in archives if not one.needed}):
        if held.enter_context(_claim_broker(directory, broker_id)):
            free.add(broker_id)
        else:
            busy.append(broker_id)
    if free:
        # A collection may have ended meanwhile, and its archive may name others.
        archives, problems = find_archives(directory, since)
    return [one._replace(needed=one.needed or one.broker_id not in free) for one in archives], problems, busy


def delete_archives(directory: str, archives: Iterable[Archive]) -> dict[str, str]:
    """Delete archives; returns those that could not be deleted, with the reason."""
    left = {}
    for one in archives:
        try:
            os.unlink(os.path.join(directory, one.path))
        except OSError as error:
            left[one.path] = error.strerror or str(error)
    return left


def lock_of(directory: str, broker_id: int) -> str:
    """Path of the lock that a running collection of the broker holds."""
    return os.path.join(directory, f".lock-{broker_id}")


@contextmanager
def _claim_broker(directory: str, broker_id: int) -> Iterator[bool]:
    """True if the broker was claimed: no collection from it into the directory can begin until the claim ends. False if one
    is running. Raises OSError.

    The scripts of `capture-plan` use the same lock: a file, or without flock a directory.
    """
    lock = lock_of(directory, broker_id)
    try:
        held = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
    except IsADirectoryError:
        yield False
        return
    try:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Its previous holder may have removed it since.
            is_mine = os.path.samestat(os.fstat(held), os.stat(lock))
        except (BlockingIOError, FileNotFoundError):
            is_mine = False
        try:
            yield is_mine
        finally:
            if is_mine:
                os.unlink(lock)
    finally:
        os.close(held)


def _read_all(readers: Iterable[ListReader], problems: dict[str, str]) -> list[Collected]:
    """Contents of a broker's collections by time; unreadable ones are added to `problems`."""
    having: dict[int, str] = {}
    # As chosen by `HeadReader.add_same`.
    checked: set[int] = set()
    found = []
    for reader in sorted((one for one in readers if not one.is_later), key=lambda one: one.started):
        names: Counter[str] = Counter()
        unread, filled = set(), set()
        try:
            for line in reader.lines():
                if line.kind == "unread":
                    unread.add(line.path)
                if SEGMENT.fullmatch(line.path.rpartition("/")[2]) and line.kind in ("frames", "same", "whole"):
                    filled.add(line.path.rsplit("/", 2)[0])
                key = line.key
                if key is None:
                    continue
                if line.kind == "frames" and not (line.is_unchecked and key in checked):
                    having[key] = reader.place.path
                    if not line.is_unchecked:
                        checked.add(key)
                elif line.kind == "same" and key in having:
                    names[having[key]] += 1
        except (OSError, FormatError) as error:
            problems[reader.place.path or f"{PREFIX}-{reader.broker_id}.json"] = str(error)
        found.append(Collected(reader, names, frozenset(unread), frozenset(filled)))
    return found


def _of_broker(
    readers: Iterable[ListReader], collected: list[Collected], since: int, sizes: dict[str, int], is_known: bool
) -> Iterable[Archive]:
    readers = list(readers)
    kept = {one.place.path for one in readers if one.started >= since}
    kept |= {one.reader.place.path for one in collected if not any(later.replaces(one) for later in collected)}
    first = min((one.reader.started for one in collected if one.reader.place.path in kept), default=None)
    again = [one for one in readers if one.is_later and isinstance(one, HeadReader) and one.log_dirs()]
    # Partitions collected again belong to the evidence that is kept.
    kept |= {one.place.path for one in again if first is not None and one.started >= first}
    named: Counter[str] = Counter()
    for one in collected:
        if one.reader.place.path in kept:
            named |= one.names
    found = {}
    for reader in readers:
        path = reader.place.path
        kind = "broken off" if isinstance(reader, BrokenReader) else "whole"
        if reader.is_later:
            kind = "wanted"
        # An unpacked archive has no file to delete.
        if path:
            needed = not is_known or path in kept or path in named
            found[path] = Archive(path, reader.broker_id, kind, reader.started, sizes[path], named[path], needed)
    return found.values()
