"""Search for a snapshot's evidence: reads the lists of its archives, and reports what does not match them.

`evidence-<broker>.json` at the snapshot's root, or at the root of a tar there, names lists of files, and these the parts of
each with their SHA-256 (docs/evidence.md).
"""

from __future__ import annotations

import hashlib
import re
import tarfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from replica_audit.collect.collect import IDENTITY, LIST_NAME, files_of, key_of
from replica_audit.errors import FormatError
from replica_audit.literals import CAPTURE_KINDS
from replica_audit.parsing import INT64, fits, is_whole, parse_json, show_value
from replica_audit.snapshot.evidence_files import (
    FORMAT,
    HINT,
    EvidenceFiles,
    EvidencePart,
    ListedFile,
    Member,
    Open,
    read_member,
    read_part,
)
from replica_audit.snapshot.file_tree import Problem, TreeEntry
from replica_audit.snapshot.inventory import CopiedLogDir

_HEAD = re.compile(r"evidence-([0-9]{1,10})(\.bytes-[0-9]{1,16})?\.json")
#: Name of an archive of wanted ranges; the end of the names in it, with the time.
_BROUGHT = re.compile(r"evidence-([0-9]{1,10})-wanted-")
_OF_BROUGHT = re.compile(r"\.bytes-([0-9]{1,16})(?:\.|$)")
_SHA256 = re.compile(r"[0-9a-f]{64}")
#: Greatest size of a part; lists and the file that names them are far smaller.
_GREATEST_PART = (8 << 20) + 4096


def find_evidence(root: Sequence[TreeEntry], open_real: Open) -> EvidenceFiles:
    """The evidence of a snapshot, given the entries of its root. Raises no error: unusable parts are in `problems`."""
    found = EvidenceFiles()
    places = list(_find_places(root, open_real, found))
    heads = list(_read_heads(places, open_real, found))
    used = _take_over([one for one in heads if not one.is_later], found)
    for place in places:
        if place.broken:
            follower = next((one for one in used if one.goes_on(place)), None)
            if follower is None:
                found.problems.append(Problem(place.path, place.broken))
            else:
                follower.earlier.append(BrokenReader(found, open_real, place, follower.broker_id))
    for reader in used:
        reader.add_same()
    later = sorted((one for one in heads if one.is_later), key=lambda one: one.started)
    for reader in later:
        reader.add_again()
    for reader in later:
        reader.add_brought()
    return found


def read_archives(root: Sequence[TreeEntry], open_real: Open, found: EvidenceFiles) -> Iterator[ListReader]:
    """A reader for each `evidence-<broker>.json` and each incomplete archive; the rest is in `found.problems`."""
    places = list(_find_places(root, open_real, found))
    yield from _read_heads(places, open_real, found)
    for place in places:
        broker_id = place.broker_id() if place.broken and not place.is_unread else None
        if broker_id is not None:
            yield BrokenReader(found, open_real, place, broker_id)
        elif (brought := place.brought()) is not None and not place.is_unread:
            yield BrokenReader(found, open_real, place, *brought)
        elif place.broken:
            found.problems.append(Problem(place.path, place.broken))


def _find_places(root: Sequence[TreeEntry], open_real: Open, found: EvidenceFiles) -> Iterator[Place]:
    """The root, if it has files of evidence, and the archives, each of one broker."""
    heads = {one.path: Member(one.path, 0, one.size) for one in root if not one.is_dir and _HEAD.fullmatch(one.path)}
    if heads:
        yield Place("", heads)
    for entry in root:
        if entry.is_dir or not entry.path.endswith(".tar"):
            continue
        found.own.add(entry.path)
        place = Place(entry.path, {})
        try:
            _list_tar(open_real, entry.path, place.members)
        except (OSError, tarfile.TarError, ValueError, RecursionError) as error:
            place.broken = f"an archive of evidence that is incomplete: {error}; {HINT}"
            place.is_unread = isinstance(error, OSError)
        brokers = sorted(
            {int(one[1]) for name in place.members if (one := _HEAD.fullmatch(name) or LIST_NAME.fullmatch(name))}
        )
        found.brokers[entry.path] = frozenset(brokers)
        if len(brokers) > 1:
            named = ", ".join(map(str, brokers))
            several = f"evidence of brokers {named} in one archive, of which none is used; {HINT}"
            found.problems.append(Problem(entry.path, several))
        else:
            yield place


def _read_heads(places: Iterable[Place], open_real: Open, found: EvidenceFiles) -> Iterator[HeadReader]:
    """The `evidence-<broker>.json`, written last, in each complete place; a place without one counts as broken."""
    for place in places:
        names = sorted(name for name in place.members if _HEAD.fullmatch(name)) if not place.broken else []
        if not names and not place.broken:
            place.broken = f"it has no evidence-<broker>.json, which is written last: the collection broke off; {HINT}"
        for name in names:
            try:
                yield HeadReader(found, open_real, place, name)
            except (OSError, FormatError) as error:
                found.problems.append(Problem(place.path or name, str(error)))


def _take_over(readers: Iterable[HeadReader], found: EvidenceFiles) -> list[HeadReader]:
    """Take over everything that the readers list, and return those that succeeded. Earlier evidence whose files later
    evidence may name is left to the later."""
    used: list[HeadReader] = []
    # Evidence that names files of earlier evidence comes first, the latest of it before the rest.
    for reader in sorted(readers, key=lambda one: (-one.started if one.after else 1, one.place.path, one.name)):
        newer = next((one for one in used if one.follows(reader)), None)
        if newer is not None:
            newer.earlier.append(reader)
            continue
        try:
            reader.read()
        except (OSError, FormatError) as error:
            found.problems.append(Problem(reader.path, str(error)))
        else:
            used.append(reader)
    return used


def _list_tar(open_real: Open, path: str, members: dict[str, Member]) -> None:
    """Add the files of a tar to `members`; the last counts if a name occurs twice. Raises OSError and tarfile's errors,
    after adding the files read so far."""
    with open_real(path) as stream, tarfile.open(fileobj=stream, mode="r:") as archive:
        for info in files_of(archive):
            members[info.name] = Member(path, info.offset_data, info.size, int(info.mtime))


def _with_brought(base: ListedFile, brought: ListedFile) -> ListedFile:
    """The file with ranges that were collected later, unless they belong to another file in its place."""
    inode, modified = base.change.split()[:2]
    their_inode, their_modified, digest = brought.change.split()
    if their_inode != inode:
        return base
    change = f"{base.change} {digest}"
    if their_modified == modified:
        return base._replace(change=change, brought=(*base.brought, brought.parts))
    return base._replace(change=change, brought_changed=(*base.brought_changed, brought.parts))


@dataclass(slots=True)
class Place:
    """A tar of evidence, or the root of the snapshot with files of an unpacked one."""

    path: str
    members: dict[str, Member]
    broken: str | None = None
    """Reason why the archive is incomplete, or has no last file."""
    is_unread: bool = False
    """True if the storage did not return all of it, so there may be more."""

    def broker_id(self) -> int | None:
        """Broker id of its lists, if there are any."""
        return next((int(one[1]) for name in self.members if (one := LIST_NAME.fullmatch(name))), None)

    def brought(self) -> tuple[int, int] | None:
        """Broker, and ms since the epoch, of an incomplete archive of wanted ranges; None for all others."""
        named = _BROUGHT.match(self.path) if self.broken else None
        times = [one for name in self.members if (one := _OF_BROUGHT.search(name))]
        return (int(named[1]), int(times[0][1])) if named and len(times) == len(self.members) > 0 else None

    def lists(self, broker_id: int) -> list[str]:
        """Members that list files of a broker."""
        return [name for name in self.members if (one := LIST_NAME.fullmatch(name)) and int(one[1]) == broker_id]


class ListedLine(NamedTuple):
    """A line of a list."""

    path: str
    kind: str
    """Form of the file in the evidence."""
    fields: dict

    @property
    def identity(self) -> list[object]:
        """Values that identify a file and its content."""
        return [self.fields.get(name) for name in IDENTITY]

    @property
    def key(self) -> int | None:
        """The collector's key for the file; None if a value is missing."""
        return None if None in self.identity else key_of(self.fields)

    @property
    def is_unchecked(self) -> bool:
        """True if it has batches whose checksums were never computed."""
        return bool(self.fields.get("unchecked"))


class ListReader:
    """Reads lists of one place, and the parts that they name."""

    broker_id: int
    started: int
    """Start of the collection in ms; for an incomplete archive the time of its last list, an upper bound."""
    is_later = False
    """True for ranges that were collected later."""

    def __init__(self, found: EvidenceFiles, open_real: Open, place: Place, shown: str) -> None:
        self.place = place
        self._found = found
        self._open = open_real
        self._shown = shown

    @property
    def path(self) -> str:
        """Path in the snapshot of the archive, or of the last unpacked file."""
        return self.place.path or self._shown

    def lines(self) -> Iterator[ListedLine]:
        """Lines of all its lists. Raises OSError and FormatError."""
        raise NotImplementedError

    def file(self, line: ListedLine) -> ListedFile:
        """The file that a line lists. Raises FormatError."""
        parts = line.fields.get("parts", [])
        numbers = [line.fields.get(name, 0) for name in ("size", "inode", "mtime_ns")]
        if not all(is_whole(one, 0, INT64) for one in numbers) or not isinstance(parts, list):
            raise self._refuse(f"size, inode and mtime_ns of {line.path}", show_value(numbers))
        size, inode, mtime = numbers
        digest = hashlib.sha256()
        read = tuple(map(self._part, parts))
        for part in read:
            digest.update(part.sha256.encode())
        if line.kind == "whole" and size != sum(part.member.size for part in read):
            raise self._refuse(f"parts of {size} bytes of {line.path}", "others")
        return ListedFile(line.kind, size, read, f"{inode} {mtime} {digest.hexdigest()[:16]}", self._shown)

    def _parse(self, name: str, data: bytes) -> Iterator[ListedLine]:
        for number, text in enumerate(data.splitlines(), 1):
            fields = parse_json(text, f"{self._shown}: line {number} of {name}", HINT)
            if not isinstance(fields, dict) or not fits(fields, {"path": str, "as": str}):
                raise self._refuse(f"an object with path and as in line {number} of {name}", "another")
            line = ListedLine(fields["path"], fields["as"], fields)
            _check_name(line.path, self._refuse)
            yield line

    def _part(self, entry: object) -> EvidencePart:
        if not isinstance(entry, list) or len(entry) != 3 or not isinstance(entry[0], str):
            raise self._refuse("parts as name, size and SHA-256", show_value(entry))
        name, size, digest = entry
        if not is_whole(size, 0, _GREATEST_PART) or not isinstance(digest, str) or not _SHA256.fullmatch(digest):
            raise self._refuse(f"size and SHA-256 of {name}", show_value(entry[1:]))
        _check_name(name, self._refuse)
        if not self.place.path:
            self._found.own.add(name)
            return EvidencePart(Member(name, 0, size), digest)
        member = self.place.members.get(name)
        if member is None or member.size != size:
            raise self._refuse(f"{name} of {size} bytes", "none" if member is None else f"{member.size} bytes")
        return EvidencePart(member, digest)

    def _refuse(self, expected: str, found: str) -> FormatError:
        return FormatError(self._shown, None, expected, found, HINT)


class BrokenReader(ListReader):
    """Reads a broker's lists in an incomplete archive, which has no last file to confirm them."""

    def __init__(
        self, found: EvidenceFiles, open_real: Open, place: Place, broker_id: int, brought_ms: int | None = None
    ) -> None:
        """`brought_ms`: time of an archive of wanted ranges, which then has no lists."""
        super().__init__(found, open_real, place, place.path)
        self.broker_id = broker_id
        self.is_later = brought_ms is not None
        written = (place.members[name].modified for name in place.lists(broker_id))
        self.started = 1000 * max(written) + 999 if brought_ms is None else brought_ms

    def lines(self) -> Iterator[ListedLine]:
        for name in self.place.lists(self.broker_id):
            member = self.place.members[name]
            data = read_member(self._open, member) if member.size <= _GREATEST_PART else b""
            if len(data) == member.size:
                yield from self._parse(name, data)


class HeadReader(ListReader):
    """Reads one `evidence-<broker>.json` and its lists."""

    def __init__(self, found: EvidenceFiles, open_real: Open, place: Place, name: str) -> None:
        """Raises OSError and FormatError."""
        self.name = name
        super().__init__(found, open_real, place, f"{place.path}: {name}" if place.path else name)
        self._head = self._read_head(place.members[name])
        self.broker_id = self._head["broker_id"]
        self.after = self._head.get("after") is True
        self._log_dirs = [self._log_dir(index, one) for index, one in enumerate(self._head["log_dirs"])]
        brought = _OF_BROUGHT.search(name)
        self.is_later = brought is not None
        began = min((one.started_ms or 0 for one, _ in self._log_dirs), default=0)
        self.started = int(brought[1]) if brought else began
        self.earlier: list[ListReader] = []
        """Readers of earlier evidence, to whose files this evidence may refer."""
        self._same: dict[str, list[object]] = {}

    def log_dirs(self) -> list[str]:
        """Names that the evidence gives to the log dirs from which it was collected."""
        return [one.log_dir for one, _ in self._log_dirs]

    def topics(self) -> list[str]:
        """Topic patterns of the collection; empty: all topics."""
        return sorted(self._head["topics"])

    def follows(self, other: HeadReader) -> bool:
        """True if this is later evidence of the same log dirs, collected with --after."""
        tops, theirs = set(self.log_dirs()), set(other.log_dirs())
        return self.after and self.broker_id == other.broker_id and self.started > other.started and theirs <= tops

    def goes_on(self, place: Place) -> bool:
        """True if this was collected with --after, later than an incomplete archive, which may then have files that it names."""
        lists = place.lists(self.broker_id)
        return self.after and bool(lists) and self.started >= 1000 * max(place.members[one].modified for one in lists)

    def read(self) -> None:
        """Take over everything listed, except what `add_same` adds. Raises OSError and FormatError; then nothing is taken over."""
        for one, source in self._log_dirs:
            if other := next(iter(self._found.copies_of(one.broker_id, source)), None):
                raise self._refuse_beside(one.log_dir, other)
        self._take(list(self.lines()))
        if topics := self.topics():
            self._found.topics.append(tuple(topics))

    def _refuse_beside(self, one: str, other: str) -> FormatError:
        return self._refuse(f"no other evidence of {other}", f"{one}: put each into a snapshot of its own")

    def _take(self, lines: list[ListedLine]) -> None:
        """Take over all files and directories of `lines`, below its log dirs; nothing if it raises."""
        tops = self.log_dirs()
        self._check_log_dirs(tops)
        files: dict[str, ListedFile] = {}
        for line in lines:
            self._check_place(line, tops)
            if line.kind in ("whole", "frames", "stub"):
                files[line.path] = self.file(line)
            elif line.kind == "same":
                identity = self._same[line.path] = line.identity
                if not all(is_whole(one, 0, INT64) for one in identity[1:]):
                    raise self._refuse(f"{', '.join(IDENTITY[1:])} of {line.path}", show_value(identity[1:]))
        for line in lines:
            if line.kind == "directory":
                self._found.add_directory(line.path)
            elif line.kind == "unread":
                self._found.incomplete[line.path] = str(line.fields.get("reason", "it could not be read"))
        for path, file in files.items():
            self._found.add(path, file)
        for one, source in self._log_dirs:
            self._found.add_directory(one.log_dir)
            self._found.log_dirs[one.log_dir] = one
            self._found.sources[one.log_dir] = source

    def _check_log_dirs(self, tops: Sequence[str]) -> None:
        """Raise FormatError for two log dirs of one name, or one inside another that is known."""
        if len(set(tops)) < len(tops):
            raise self._refuse("each of log_dirs with a name of its own", show_value(sorted(tops)))
        for top in tops:
            for other in self._found.log_dirs:
                names = sorted([top, other], key=len)
                if f"{names[1]}/".startswith(f"{names[0]}/"):
                    raise self._refuse_beside(top, other)

    def _check_place(self, line: ListedLine, tops: Sequence[str]) -> None:
        """Raise FormatError for a path outside the log dirs."""
        is_below = any(line.path.startswith(f"{top}/") for top in tops)
        if not is_below and not (line.kind == "unread" and line.path in tops):
            raise self._refuse("paths below its log dirs", show_value(line.path))

    def add_same(self) -> None:
        """Take over the files of earlier evidence that it names: of each the latest with computed checksums, else the
        latest. Missing ones are incomplete."""
        waiting = dict(self._same)
        unchecked: dict[str, ListedFile] = {}
        if not waiting:
            return
        for reader in sorted(self.earlier, key=lambda one: -one.started):
            try:
                for line in reader.lines():
                    path = line.path
                    if line.kind != "frames" or waiting.get(path) != line.identity:
                        continue
                    if not line.is_unchecked:
                        self._found.add(path, reader.file(line))
                        del waiting[path]
                    elif path not in unchecked:
                        unchecked[path] = reader.file(line)
            except (OSError, FormatError) as error:
                self._found.problems.append(Problem(reader.path, str(error)))
        for path in waiting:
            if path in unchecked:
                self._found.add(path, unchecked[path])
                continue
            self._found.incomplete[path] = "the earlier evidence that has it, as it has not changed since, is not here"

    def add_again(self) -> None:
        """Let partitions that were collected again replace their earlier collections."""
        tops = tuple(f"{one}/" for one in self.log_dirs())
        before = [top for one, source in self._log_dirs for top in self._found.copies_of(one.broker_id, source)]
        times = {self._found.log_dirs[top].finished_ms or 0 for top in before}
        if not tops or not before or self.started < max(times):
            return  # collected again before the present evidence
        # A collection made again after an image may be from the broker's own disk.
        kinds = {self._found.log_dirs[top].kind for top in before} - {None, "image"}
        if len(kinds) == 1:
            # A broker that was down at the first collection counts as down, whatever --kind says now.
            kind = kinds.pop()
            self._log_dirs = [(one._replace(kind=kind, is_unseen=False), source) for one, source in self._log_dirs]
        try:
            self._take([line for line in self.lines() if f"{line.path}/".startswith(tops)])
        except (OSError, FormatError) as error:
            self._found.problems.append(Problem(self.path, str(error)))
        else:
            self._found.leave(before, self._log_dirs[0][0].partitions)

    def add_brought(self) -> None:
        """Add ranges that were collected later to known files."""
        try:
            for line in self.lines():
                if line.kind != "bytes":
                    continue
                brought = self.file(line)
                for path in self._found.same_files(line.path):
                    self._found.files[path] = _with_brought(self._found.files[path], brought)
        except (OSError, FormatError) as error:
            self._found.problems.append(Problem(self.path, str(error)))

    def lines(self) -> Iterator[ListedLine]:
        for entry in self._head["lists"]:
            part = self._part(entry)
            yield from self._parse(str(entry[0]), read_part(self._open, self._shown, str(entry[0]), part))

    def _read_head(self, member: Member) -> dict:
        if member.size > _GREATEST_PART:
            raise self._refuse("a small file", f"{member.size} bytes")
        head = parse_json(read_member(self._open, member), self._shown, HINT)
        version = head.get("format") if isinstance(head, dict) else None
        if not isinstance(head, dict) or not is_whole(version, FORMAT, FORMAT):
            raise self._refuse(f"format {FORMAT}", show_value(version))
        wanted = {"broker_id": int, "log_dirs": [{"as": str, "log_dir": str}], "topics": [str], "lists": [list]}
        if not fits(head, wanted):
            raise self._refuse("broker_id, log_dirs, topics and lists", "others")
        if not re.match(rf"evidence-{head['broker_id']}\.", self.name):
            raise self._refuse("the broker_id of its name", show_value(head["broker_id"]))
        if not self.place.path:
            self._found.own.add(member.file)
        return head

    def _log_dir(self, index: int, entry: dict) -> tuple[CopiedLogDir, str]:
        _check_name(entry["as"], self._refuse)
        broker_id = self._head["broker_id"]
        started, finished = (entry.get(name) for name in ("started", "finished"))
        if not (is_whole(broker_id) and is_whole(started, 0, INT64) and is_whole(finished, 0, INT64)):
            raise self._refuse(f"broker_id, started and finished of log_dirs[{index}]", show_value(entry))
        kind = next((one for one in CAPTURE_KINDS if one == self._head.get("kind")), None)
        again = self._head.get("again", [])
        if not isinstance(again, list) or not all(isinstance(one, str) for one in again):
            raise self._refuse("names of partitions in again", show_value(again))
        copied = CopiedLogDir(broker_id, entry["as"], started, finished, kind, True, tuple(again), kind is None)
        return copied, entry["log_dir"]


def _check_name(name: str, refuse: Callable[[str, str], FormatError]) -> None:
    if any(part in ("", ".", "..") for part in name.split("/")):
        raise refuse("relative paths", show_value(name))
