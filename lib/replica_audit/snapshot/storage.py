"""A snapshot as a read-only tree of files: local, `s3://` (also as `s3a://`) or `hdfs://`.

Nothing here locks, creates or writes. Names that tools tend to skip (dotfiles, `_…`) are listed like all others.
"""

from __future__ import annotations

import errno
import os
import stat
import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, BinaryIO, Protocol

from replica_audit.errors import FormatError
from replica_audit.redaction import redact
from replica_audit.snapshot.evidence_files import PREFIX, EvidenceFiles
from replica_audit.snapshot.file_tree import PackedNames, Problem, Tree, TreeEntry
from replica_audit.snapshot.manifest import MANIFEST, CopiedFiles, find_copied_files
from replica_audit.snapshot.read_ahead import ReadAhead, read_many

if TYPE_CHECKING:
    from replica_audit.snapshot.object_store import ObjectStore

_LEADS_OUT = "a link that leads out of the snapshot, which is not followed: copy what it leads to"


def _stat(path: str) -> os.stat_result | None:
    """The state of a file; None if it cannot be examined."""
    try:
        return os.stat(path)
    except OSError:
        return None


def describe_change(state: os.stat_result) -> str:
    """Inode, and times in ns of the last change of content and inode: a text that differs once the file changes."""
    return f"{state.st_ino} {state.st_mtime_ns} {state.st_ctime_ns}"


#: Chooses directories of a folder that are not walked, given all its names and those of its directories.
LeaveOut = Callable[[Collection[str], Collection[str]], Collection[str]]


def walk(root: str, start: str = "", leave_out: LeaveOut | None = None) -> Tree:
    """Everything below the directory `start` of `root`; directories left out are `unlisted`, without their contents.

    Every directory is walked once, at its own path; a link to it only names that path.
    """
    entries: list[TreeEntry] = []
    problems: list[Problem] = []
    unlisted: dict[str, PackedNames] = {}
    pending = [start]
    while pending:
        folder = pending.pop()
        try:
            with os.scandir(os.path.join(root, folder)) as found:
                children = list(found)
        except OSError as error:
            problems.append(Problem(_shown(folder), f"the directory could not be listed: {error.strerror}"))
            continue
        left: Collection[str] = ()
        if leave_out is not None:
            names = [child.name for child in children]
            left = frozenset(leave_out(names, [*filter(None, map(_directory_name, children))]))
        if left:
            unlisted[folder] = PackedNames(left)
        for child in children:
            if child.name in left:
                continue
            path = f"{folder}/{child.name}" if folder else child.name
            entry, problem = _look_at(child, path, root)
            if problem is not None:
                problems.append(problem)
            if entry is not None:
                entries.append(entry)
                if entry.is_dir:
                    pending.append(path)
    return Tree(tuple(sorted(entries)), tuple(sorted(problems, key=lambda problem: problem.path)), unlisted)


def list_directory(root: str, folder: str, prefix: str = "") -> tuple[TreeEntry, ...]:
    """Entries directly below `folder` whose names begin with `prefix`, sorted by path; empty if there is no such directory.
    Raises OSError."""
    try:
        with os.scandir(os.path.join(root, folder)) as found:
            children = [child for child in found if child.name.startswith(prefix)]
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise OSError(f"{folder}: the directory could not be listed: {error.strerror}") from None
    looked_at = (_look_at(child, f"{folder}/{child.name}" if folder else child.name, root) for child in children)
    return tuple(sorted(entry for entry, _ in looked_at if entry is not None))


def local_is_directory(path: str) -> bool | None:
    """True if `path` is a directory, None if it does not exist. Raises OSError if that cannot be determined."""
    try:
        return stat.S_ISDIR(os.stat(path).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return None


def open_file(root: str, path: str) -> BinaryIO:
    """Open an ordinary file without blocking. Raises OSError, with a text that does not name a place outside `root`."""
    place = os.path.join(root, path)
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        try:
            number = os.open(place, flags | os.O_NOFOLLOW)
        except OSError as error:
            if error.errno != errno.ELOOP:
                raise
            target = os.path.realpath(place)
            if not _is_below(target, os.path.realpath(root)):
                raise OSError(f"{path}: {_LEADS_OUT}") from None
            number = os.open(target, flags | os.O_NOFOLLOW)
    except OSError as error:
        if error.errno is None:
            raise
        if error.errno == errno.ENXIO:  # a socket, or a device without a driver
            raise OSError(f"{path}: neither a file nor a directory") from None
        raise OSError(f"{path}: could not be opened: {error.strerror}") from None
    try:
        mode = os.fstat(number).st_mode
        if not stat.S_ISREG(mode):
            raise OSError(f"{path}: {_describe_special(mode)}")
        return open(number, "rb")
    except BaseException:
        os.close(number)
        raise


def _directory_name(child: os.DirEntry) -> str | None:
    """The name of a directory that is not a link, in UTF-8; None for anything else."""
    try:
        return child.name if child.is_dir(follow_symlinks=False) and _shown(child.name) == child.name else None
    except OSError:
        return None


def _look_at(child: os.DirEntry, path: str, root: str) -> tuple[TreeEntry | None, Problem | None]:
    """The entry for one name of a directory, and the problem with it.

    An unreadable file is an entry all the same: its reader gets the error on opening it.
    """
    if _shown(path) != path:
        return None, Problem(_shown(path), "the name is not UTF-8")
    try:
        if child.is_symlink():
            target, top = os.path.realpath(child.path), os.path.realpath(root)
            if not _is_below(target, top):
                return TreeEntry(path, 0, False), Problem(path, _LEADS_OUT)
            if os.path.isdir(target):
                if _is_below(os.path.realpath(os.path.dirname(child.path)), target):
                    return None, Problem(path, "a link that leads back to a directory above it")
                there = os.path.relpath(target, top).replace(os.sep, "/")
                return None, Problem(path, f"a link to {_shown(there)}, which is read there", is_told_elsewhere=True)
        state = child.stat()
    except OSError as error:
        return TreeEntry(path, 0, False), Problem(path, f"could not be looked at: {error.strerror}")
    if stat.S_ISDIR(state.st_mode):
        return TreeEntry(path, 0, True), None
    if stat.S_ISREG(state.st_mode):
        return TreeEntry(path, state.st_size, False), None
    return TreeEntry(path, 0, False), Problem(path, _describe_special(state.st_mode))


def _describe_special(mode: int) -> str:
    kinds = {
        stat.S_IFDIR: "a directory where a file is expected",
        stat.S_IFIFO: "a named pipe, not a file",
        stat.S_IFSOCK: "a socket, not a file",
        stat.S_IFCHR: "a device, not a file",
        stat.S_IFBLK: "a device, not a file",
    }
    return kinds.get(stat.S_IFMT(mode), "neither a file nor a directory")


def _is_below(path: str, top: str) -> bool:
    return path == top or path.startswith(top.rstrip("/") + "/")


def is_archive(path: str) -> bool:
    """True if the name is that of an archive or a compressed file."""
    return path.lower().endswith(_ARCHIVES)


def _shown(path: str) -> str:
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


#: Number of files, or of small files together, that a task opens ahead; each has a piece in memory if it is in a store (`read_ahead`).
OPENED_AHEAD = 8
#: Larger files are not prefetched.
GREATEST_AHEAD = 1 << 20
#: Small files are read in one piece; no checkpoint is larger than this.
GREATEST_SMALL_FILE = 64 << 20
#: The same limit for lists of all partitions: there may be a million, each with some 100 to 400 bytes.
GREATEST_LIST = 512 << 20
#: Bytes of a small file that are read first.
_STEP = 64 << 10
_ARCHIVES = (".tar", ".tgz", ".tar.gz", ".tar.bz2", ".tar.xz", ".tar.zst", ".tar.lz4", ".zip", ".7z", ".gz", ".zst")


#: Prefix of an object's path in the snapshot's remote store (`Snapshot.remote_store`); no path in the snapshot itself has it.
IN_STORE = "remote://"


class OpensFiles(Protocol):
    """Opens files by their paths."""

    def open_file(self, path: str) -> BinaryIO:
        """The file at `path`, seekable, to be closed by the caller. Raises OSError and FormatError."""


class Snapshot:
    """A directory of copied log dirs, opened for reading. Can be pickled: an executor opens it again from its URI."""

    def __init__(self, uri: str, root: str, store: ObjectStore | None = None) -> None:
        """`store` has the files below `root`; None: they are local."""
        self.uri = uri
        self._store = store
        self._root = root.rstrip("/") or "/"
        self._times: dict[str, int | None] = {}
        self._small: dict[str, bytes | BaseException] = {}
        self._checked: set[str] = set()
        # Used by several threads, which would each read all evidence and the manifest.
        self._lock = threading.RLock()
        self._found_evidence: EvidenceFiles | None = None
        self._found_copied: CopiedFiles | None = None
        self.remote_store: OpensFiles | None = None
        """The remote store of its tiered topics, from which paths that begin with `IN_STORE` are read."""

    @classmethod
    def open(cls, uri: str | os.PathLike[str]) -> Snapshot:
        """The snapshot at a local path or a URI.

        Raises FileNotFoundError or NotADirectoryError if there is no such directory, ValueError for an unknown scheme, OSError
        if the storage cannot be reached.
        """
        uri = os.fspath(uri)
        store: ObjectStore | None = None
        root = os.path.abspath(uri)
        if "://" in uri or uri.startswith("file:"):
            # Imported here: pyarrow loads more slowly than a small local snapshot is audited.
            from replica_audit.snapshot.object_store import open_store

            store, root = open_store(uri)
        is_directory = local_is_directory(root) if store is None else store.is_directory(root.rstrip("/") or "/")
        shown = redact(uri)
        if is_directory is None:
            raise FileNotFoundError(f"{shown}: no such directory")
        if not is_directory:
            if is_archive(root):
                raise NotADirectoryError(
                    f"{shown} is an archive: unpack it, and give the directory that comes out of it"
                )
            raise NotADirectoryError(f"{shown} is a file: give the directory above the log directories of all brokers")
        return cls(uri, root, store)

    def __reduce__(self) -> tuple:
        return Snapshot.open, (self.location,)

    @property
    def location(self) -> str:
        """Path or URI that opens this snapshot from any directory and process: absolute, credentials included."""
        return self._root if self._store is None else self.uri

    @property
    def is_remote(self) -> bool:
        """True for a store behind an address, False for a local directory."""
        return self._store is not None

    @property
    def name(self) -> str:
        """The last part of the root's path."""
        return self._root.rsplit("/", 1)[-1]

    def absolute(self, path: str) -> str:
        """`path`, relative to the root, as an absolute path of the storage."""
        return f"{self._root.rstrip('/')}/{path}" if path else self._root

    def list_tree(self) -> Tree:
        """Everything below the root, including files that evidence represents and files that the manifest lists. An
        unreadable directory is a problem, not an error."""
        return self._copied.complete(self.evidence.overlay(self.list_below("")))

    @property
    def evidence(self) -> EvidenceFiles:
        with self._lock:
            if self._found_evidence is None:
                self._found_evidence = self._find_evidence()
            return self._found_evidence

    def _find_evidence(self) -> EvidenceFiles:
        try:
            found = self._list_directory("", PREFIX)
        except OSError:  # a root that cannot be listed is a problem of the tree
            found = ()
        if not found:
            return EvidenceFiles()
        # Imported here: few snapshots have evidence, and reading it loads the collector.
        from replica_audit.snapshot.evidence_lists import find_evidence

        return find_evidence(found, self._open)

    def list_skeleton(self, leave_out: LeaveOut) -> Tree | None:
        """`list_tree` without the directories left to `list_below`; None if evidence represents files, or the manifest lists them."""
        if self.evidence or self._copied.files or self._copied.incomplete:
            return None
        return walk(self._root, leave_out=leave_out) if self._store is None else self._walk_store(leave_out)

    def list_below(self, folder: str) -> Tree:
        """Everything below a directory, with paths relative to the root. An unreadable directory is a problem."""
        if self._store is None:
            return walk(self._root, folder)
        found = self._store.list_below(self._root, folder, recursive=True)
        self._times.update((entry.path, time_ns) for entry, time_ns in found)
        return Tree(tuple(sorted(entry for entry, _ in found)), ())

    def list_each(self, folders: Sequence[str]) -> list[Tree]:
        """`list_below` for each of `folders`, in order; many at once if each takes a request. Raises OSError for a store."""
        if self._store is None:
            return [self.list_below(folder) for folder in folders]
        found = []
        for _, tree in read_many(self.list_below, folders):
            if isinstance(tree, BaseException):
                raise tree
            found.append(tree)
        return found

    def _walk_store(self, leave_out: LeaveOut) -> Tree:
        assert self._store is not None
        entries: list[TreeEntry] = []
        unlisted: dict[str, PackedNames] = {}
        pending = [""]
        while pending:
            listings = read_many(partial(self._store.list_below, self._root), pending)
            pending = []
            for folder, found in listings:
                if isinstance(found, BaseException):
                    raise found
                names = {entry.name: entry for entry, _ in found}
                left = frozenset(leave_out(names, [name for name, entry in names.items() if entry.is_dir]))
                if left:
                    unlisted[folder] = PackedNames(left)
                for entry, time_ns in found:
                    if entry.name in left:
                        continue
                    entries.append(entry)
                    self._times[entry.path] = time_ns
                    if entry.is_dir:
                        pending.append(entry.path)
        return Tree(tuple(sorted(entries)), (), unlisted)

    @property
    def _copied(self) -> CopiedFiles:
        with self._lock:
            if self._found_copied is None:
                self._found_copied = self._find_copied()
            return self._found_copied

    def _find_copied(self) -> CopiedFiles:
        try:
            with self._open(MANIFEST) as file:
                copied = find_copied_files(file.read(GREATEST_LIST))
        except OSError:  # most snapshots have none; its reader reports one that is unreadable
            copied = CopiedFiles()
        unread = self.evidence.incomplete
        return replace(copied, incomplete={**unread, **copied.incomplete}) if unread else copied

    def list_directory(self, path: str, prefix: str = "") -> tuple[TreeEntry, ...]:
        """Entries directly below a directory whose names begin with `prefix`, sorted by path; empty if there is no such
        directory. Raises OSError."""
        return self.evidence.children(path, self._list_directory(path, prefix), prefix)

    def _list_directory(self, path: str, prefix: str) -> tuple[TreeEntry, ...]:
        if self._store is None:
            return list_directory(self._root, path, prefix)
        found = (entry for entry, _ in self._store.list_below(self._root, path))
        return tuple(sorted(entry for entry in found if entry.name.startswith(prefix)))

    def last_changes(self, paths: Sequence[str]) -> list[str | None]:
        """Description of each file's last change, in the storage's own form; None if unknown.

        Locally it includes the time of the inode's change, which copying tools cannot set back.
        """
        if self.evidence:
            known = self.evidence.files
            others = iter(self._last_changes([path for path in paths if path not in known]))
            return [known[path].change if path in known else next(others) for path in paths]
        return self._last_changes(paths)

    def _last_changes(self, paths: Sequence[str]) -> list[str | None]:
        if self._store is None:
            states = (_stat(self.absolute(path)) for path in paths)
            return [None if state is None else describe_change(state) for state in states]
        if not all(path in self._times for path in paths):
            found = self._store.times_ns([self.absolute(path) for path in paths])
            self._times.update(zip(paths, found, strict=True))
        return [None if self._times[path] is None else str(self._times[path]) for path in paths]

    def modified_ms(self, paths: Sequence[str]) -> list[int | None]:
        """Time of each file's last change, by its storage; None if unknown."""
        if self._store is None:
            states = (_stat(self.absolute(path)) for path in paths)
            return [None if state is None else state.st_mtime_ns // 1_000_000 for state in states]
        self._last_changes(paths)
        times = (self._times[path] for path in paths)
        return [None if time_ns is None else time_ns // 1_000_000 for time_ns in times]

    def last_change(self, path: str, stream: BinaryIO) -> str | None:
        """Description of an open file's last change, for `is_unchanged`; the ETag if an object has one."""
        if path in self.evidence.files:
            return self.evidence.files[path].change
        if not isinstance(stream, ReadAhead):
            return describe_change(os.fstat(stream.fileno()))
        return stream.etag or self.last_changes([path])[0]

    def open_file(self, path: str, *, checked: bool = True) -> BinaryIO:
        """The file at `path`, seekable, to be closed by the caller.

        Raises OSError, with a text that does not name a place outside the snapshot, also for anything but an ordinary file,
        and for a file that differs from the manifest. Never blocks, and follows no link out of the snapshot. With `checked`
        False the comparison with the manifest is left to `check_copy`.
        """
        if path.startswith(IN_STORE) and self.remote_store is not None:
            return self.remote_store.open_file(path.removeprefix(IN_STORE))
        self._copied.refuse_incomplete(path)
        if path in self.evidence.files:
            return self.evidence.open(path, self._open)
        try:
            stream = self._open(path)
        except OSError as error:
            raise self._copied.explain_missing(path, error) from None
        if checked:
            try:
                self.check_copy(path, stream)
            except BaseException:
                stream.close()
                raise
        return stream

    def check_copy(self, path: str, stream: BinaryIO) -> None:
        """Read a newly opened file once to compare it with the manifest. Raises OSError if it differs."""
        if path not in self._checked:
            self._copied.check(path, stream)
            self._checked.add(path)

    def _open(self, path: str) -> BinaryIO:
        if self._store is None:
            return open_file(self._root, path)
        try:
            opened = self._store.open(self.absolute(path))
            etag = (opened.metadata() or {}).get("ETag")
        except OSError as error:
            raise self._in_own_words(path, "opened", error) from None

        def read_at(count: int, position: int) -> bytes:
            try:
                return opened.read_at(count, position)
            except OSError as error:
                raise self._in_own_words(path, "read", error) from None

        return ReadAhead(read_at, opened.size(), opened.close, etag and f"etag {etag.decode()}")

    def _in_own_words(self, path: str, what: str, error: OSError) -> OSError:
        reason = str(error).replace(self.absolute(path), path).replace(self._root, self.name)
        return OSError(redact(f"{path}: could not be {what}: {reason}"))

    def expect(self, stream: BinaryIO, position: int) -> None:
        """Prefetch an open file that will be read from `position` on."""
        if isinstance(stream, ReadAhead):
            stream.expect(position)

    @property
    def opens_ahead(self) -> int:
        """Number of large files to open ahead if opening takes a request; 0 on a local disk, where reading takes longer than opening."""
        return 0 if self._store is None else OPENED_AHEAD

    def read_ahead(self, paths: Iterable[str]) -> None:
        """Prefetch small files for `read_bytes`, many at once, if each takes a request."""
        if self._store is not None:
            self._small.update(read_many(self.read_bytes, paths))

    def read_bytes(self, path: str, limit: int = GREATEST_SMALL_FILE) -> bytes:
        """All bytes of a small file. Raises OSError, and FormatError if it is larger than `limit` bytes."""
        if (known := self._small.pop(path, None)) is not None:
            if isinstance(known, BaseException):
                raise known
            return known
        with self.open_file(path) as file:
            # Room for the greatest file would be reserved for each, and most have a few lines.
            data = file.read(min(limit + 1, _STEP))
            if len(data) == _STEP:
                data += file.read(limit + 1 - _STEP)
        if len(data) > limit:
            raise FormatError(
                path, limit, f"at most {limit} bytes", "more", "neither Kafka nor its tools write such a file"
            )
        return data
