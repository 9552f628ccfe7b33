"""Which archives of evidence are still needed: a later one may name files of an earlier one (docs/evidence.md)."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from replica_audit.collect.collect import IDENTITY, key_of
from replica_audit.errors import FormatError, UsageError
from replica_audit.snapshot.evidence_files import PREFIX, EvidenceFiles
from replica_audit.snapshot.evidence_lists import BrokenReader, HeadReader, ListReader, read_archives
from replica_audit.snapshot.storage import list_directory, local_is_directory, open_file


class Archive(NamedTuple):
    """An archive of evidence in a directory."""

    path: str
    broker_id: int
    kind: str
    """whole, broken off, or wanted: ranges that were brought later."""
    started_ms: int
    """When its collection began; of one that broke off, when the last that is known of it was written."""
    bytes: int
    named: int
    """Files of it that archives name which are kept."""
    needed: bool
    """It is the latest whole one of its broker or later than that, it began at `since` or later, or its files are named."""


def find_archives(directory: str, since: float) -> tuple[list[Archive], dict[str, str]]:
    """The archives in a local directory, oldest first, and why others cannot be read, which count as needed.

    `since` is in ms since the epoch. Raises UsageError where there is no such directory, and OSError.
    """
    if not local_is_directory(directory):
        raise UsageError(f"{directory}: no such directory")
    root = list_directory(directory, "", PREFIX)
    found = EvidenceFiles()
    by_broker: dict[int, list[ListReader]] = defaultdict(list)
    for reader in read_archives(root, lambda path: open_file(directory, path), found):
        # What was unpacked has no archive to remove.
        if reader.place.path:
            by_broker[reader.broker_id].append(reader)
    problems = {one.path: one.reason for one in found.problems}
    sizes = {entry.path: entry.size for entry in root}
    archives = [one for readers in by_broker.values() for one in _of_broker(readers, since, sizes, problems)]
    return sorted(archives, key=lambda one: (one.started_ms, one.path)), problems


def collected_log_dirs(directory: str, broker_id: int, paths: Iterable[str]) -> set[str]:
    """Names of the log dirs that archives of a broker were collected of; `paths` are of all that may be of it. Raises OSError."""
    own = set(map(os.path.basename, paths))
    # What was unpacked counts too.
    root = [
        entry for entry in list_directory(directory, "", PREFIX) if entry.path in own or not entry.path.endswith(".tar")
    ]
    readers = read_archives(root, lambda path: open_file(directory, path), EvidenceFiles())
    heads = (one for one in readers if isinstance(one, HeadReader) and one.broker_id == broker_id)
    return {name for one in heads for name in one.log_dirs()}


def prune_archives(directory: str, archives: Iterable[Archive]) -> None:
    """Delete those that are not needed. Raises OSError."""
    for one in archives:
        if not one.needed:
            os.unlink(os.path.join(directory, one.path))


def _of_broker(
    readers: list[ListReader], since: float, sizes: dict[str, int], problems: dict[str, str]
) -> Iterable[Archive]:
    collected = sorted((one for one in readers if not _is_brought(one)), key=lambda one: one.started)
    latest = max((one.started for one in collected if isinstance(one, HeadReader)), default=0)
    kept = {one.place.path for one in readers if one.started >= since}
    kept |= {one.place.path for one in collected if one.started >= latest}
    named: dict[str, int] = defaultdict(int)
    having: dict[int, str] = {}
    is_known = True
    for reader in collected:
        path = reader.place.path
        try:
            for line in reader.lines():
                if any(line.get(name) is None for name in IDENTITY):
                    continue
                if line["as"] == "frames":
                    having[key_of(line)] = path
                elif line["as"] == "same" and path in kept and key_of(line) in having:
                    named[having[key_of(line)]] += 1
        except (OSError, FormatError) as error:
            problems[path] = str(error)
            is_known = False
    found = {}
    for reader in readers:
        path = reader.place.path
        kind = "wanted" if _is_brought(reader) else "broken off" if isinstance(reader, BrokenReader) else "whole"
        # Where one cannot be read, nobody knows what it names.
        needed = not is_known or path in kept or path in named
        found[path] = Archive(path, reader.broker_id, kind, reader.started, sizes[path], named[path], needed)
    return found.values()


def _is_brought(reader: ListReader) -> bool:
    return isinstance(reader, HeadReader) and reader.is_later
