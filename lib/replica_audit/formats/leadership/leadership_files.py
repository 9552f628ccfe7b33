"""Who leads, from everything in a snapshot that says so: metadata logs, listings, ZooKeeper states, leadership.json."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Any

from replica_audit.formats.files.storage import Snapshot
from replica_audit.formats.format_error import FormatError
from replica_audit.formats.leadership.describe import Listing, parse_topics_describe
from replica_audit.formats.leadership.leadership_json import parse_leadership
from replica_audit.formats.leadership.overtaken import marked_if_overtaken
from replica_audit.formats.leadership.zookeeper import ZOOKEEPER_PATTERN, complete_from_listing, parse_zookeeper
from replica_audit.formats.metadata.reading import MetadataReading
from replica_audit.model import Leadership, QuarantineRow, ReplicaDir

#: By source, topic and partition.
_Found = dict[tuple[str, str, int], Leadership]


class RootFiles:
    """The files beside the log dirs: read by name, with what each is counted as and what was wrong with it."""

    def __init__(self, snapshot: Snapshot, names: tuple[str, ...]) -> None:
        self.names = names
        self.kinds: dict[str, str] = {}
        self.quarantine: list[QuarantineRow] = []
        self._snapshot = snapshot

    def read(self, name: str, kind: str, parse: Callable[[bytes, str], Any]) -> Any:
        """A file, parsed; None where it is missing or, with a row in `quarantine`, cannot be read."""
        if name not in self.names:
            return None
        self.kinds[name] = kind
        try:
            return parse(self._snapshot.read_bytes(name), name)
        except (FormatError, OSError) as error:
            self.note("CAP-UNREADABLE", name, str(error), getattr(error, "position", None))
            return None

    def note(self, code: str, name: str, reason: str, position: int | None = None) -> None:
        """A row for `quarantine`."""
        self.quarantine.append(QuarantineRow(None, name, position, None, code, reason))


def read_leaderships(
    root: RootFiles, metadata: MetadataReading, replicas: Sequence[ReplicaDir], is_wanted: Callable[[str], bool]
) -> tuple[tuple[Leadership, ...], tuple[str, ...]]:
    """Leaderships of the wanted topics, sorted, with the names of the files of the root that say them.

    The epoch files of `replicas` tell which of the files are older than the logs.
    """
    found: _Found = {}
    paths = [*_read_listings(root, replicas, found), *_read_zookeeper(root, replicas, found)]
    given = root.read("leadership.json", "leadership", parse_leadership)
    if given is not None:
        paths.append("leadership.json")
        found.update(_by_place(marked_if_overtaken(given, replicas)))
    # A metadata log whose newest part cannot be read is older than a listing that somebody made.
    given = {key[1:] for key in found} if metadata.doubtful else set()
    found.update(
        {
            (one.source, one.topic, one.partition): one
            for one in metadata.leaderships
            if (one.topic, one.partition) not in given
        }
    )
    wanted = [one for one in found.values() if is_wanted(one.topic)]
    return tuple(sorted(wanted, key=lambda one: (one.topic, one.partition, one.source))), tuple(paths)


def _by_place(leaderships: Iterable[Leadership]) -> _Found:
    return {(one.source, one.topic, one.partition): one for one in leaderships}


def _read_listings(root: RootFiles, replicas: Sequence[ReplicaDir], found: _Found) -> list[str]:
    paths = []
    for name in root.names:
        if not fnmatchcase(name, "*topics-describe*.txt"):
            continue
        listing = root.read(name, "topics_describe", _parse_listing)
        if listing is None:
            continue
        paths.append(name)
        # Of several listings the last by name counts; a date in the name makes that the newest.
        found.update(_by_place(marked_if_overtaken(listing.leaderships, replicas)))
        for problem in listing.problems:
            root.note("CAP-UNREADABLE" if "Topic" in problem.found else "INPUT-IGNORED", name, str(problem))
    return paths


def _read_zookeeper(root: RootFiles, replicas: Sequence[ReplicaDir], found: _Found) -> list[str]:
    paths = []
    for name in root.names:
        if not fnmatchcase(name, ZOOKEEPER_PATTERN):
            continue
        states = root.read(name, "zookeeper", parse_zookeeper)
        if states is None:
            continue
        paths.append(name)
        for one in marked_if_overtaken(states, replicas):
            listed = found.get(("topics_describe", one.topic, one.partition))
            found[one.source, one.topic, one.partition] = complete_from_listing(one, listed)
    return paths


def _parse_listing(data: bytes, path: str) -> Listing:
    try:
        return parse_topics_describe(data.decode("utf-8"), path)
    except UnicodeDecodeError as error:
        raise FormatError(path, error.start, "UTF-8", "other bytes", "save the listing as UTF-8") from None
