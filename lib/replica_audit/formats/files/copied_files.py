"""What `manifest.json` says of the files of a copy: size and SHA-256 of each, and what could not be copied."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, BinaryIO, NamedTuple

from replica_audit.formats.files.side_files import fits, parse_json, show_value
from replica_audit.formats.files.trees import Entry, Problem, Tree
from replica_audit.formats.format_error import FormatError

MANIFEST = "manifest.json"

_HINT = "see docs/capture.md on manifest.json, or leave the file out"
_STEP = 1 << 20
_SHA256 = re.compile(r"[0-9a-f]{64}")
#: The directory of a partition, with what Kafka appends to the name of one that is moved or deleted.
_DIRECTORY = re.compile(r".*-\d+(\.[0-9A-Za-z_-]+-(delete|future|stray))?")
#: Files of which nothing is read but the names.
_NAMES_ONLY = (".index", ".timeindex", ".txnindex", ".snapshot", ".tmp", ".lock")


class CopiedFile(NamedTuple):
    """A file as it was copied."""

    size_bytes: int
    sha256: str
    """64 hex digits."""


@dataclass(frozen=True, slots=True)
class CopiedFiles:
    """What a manifest says of its log dirs' files; paths are relative to the snapshot."""

    files: Mapping[str, CopiedFile] = field(default_factory=dict)
    incomplete: Mapping[str, str] = field(default_factory=dict)
    """Why a file, or all of a directory, is not there as it should be."""

    def complete(self, tree: Tree) -> Tree:
        """The tree with the files that are missing, each with the problem that whoever needs it has to tell."""
        known = {entry.path for entry in tree.entries}
        told = {problem.path for problem in tree.problems}
        problems = {path: f"the copy is incomplete: {why}" for path, why in self.incomplete.items() if _is_read(path)}
        problems |= {path: _MISSING for path in self.files if path not in known and _is_read(path)}
        missing = [Entry(path, 0, _is_directory(path)) for path in problems if path not in known]
        added = [Problem(path, reason) for path, reason in problems.items() if path not in told]
        if not added:
            return tree
        entries = (*tree.entries, *(entry for entry in missing if entry.path))
        return Tree(tuple(sorted(entries)), tuple(sorted((*tree.problems, *added), key=lambda problem: problem.path)))

    def refuse_incomplete(self, path: str) -> None:
        """Raise OSError for a file that the manifest says was not copied, or not as a whole."""
        if not self.incomplete:
            return
        parts = path.split("/")
        for end in range(len(parts) + 1):
            why = self.incomplete.get("/".join(parts[:end]))
            if why is not None:
                raise OSError(f"{path}: the copy is incomplete: {why}")

    def explain_missing(self, path: str, error: OSError) -> OSError:
        """The error of opening a file, with what the manifest says of it."""
        return OSError(f"{error}; {MANIFEST} says that it was copied") if path in self.files else error

    def check(self, path: str, stream: BinaryIO) -> None:
        """Read a file that was just opened, and go back to its start; raise OSError where it is not what was copied."""
        copied = self.files.get(path)
        if copied is None:
            return
        digest, size = hashlib.sha256(), 0
        stream.seek(0)
        while chunk := stream.read(_STEP):
            digest.update(chunk)
            size += len(chunk)
        stream.seek(0)
        if size != copied.size_bytes:
            raise OSError(f"{path}: {size} bytes, but {copied.size_bytes} were copied ({MANIFEST}): copy it again")
        if digest.hexdigest() != copied.sha256:
            raise OSError(f"{path}: not the bytes that were copied (SHA-256 in {MANIFEST}): copy it again")


_MISSING = f"{MANIFEST} says that it was copied, and it is not here"


@lru_cache(maxsize=2)
def find_copied_files(data: bytes) -> CopiedFiles:
    """What a manifest says of its files; nothing where it cannot be parsed, which its own reader reports."""
    try:
        manifest = parse_json(data, MANIFEST, _HINT)
        brokers = manifest.get("brokers") if isinstance(manifest, dict) else None
        return parse_copied_files(brokers, MANIFEST) if isinstance(brokers, list) else CopiedFiles()
    except FormatError:
        return CopiedFiles()


def parse_copied_files(log_dirs: list[Any], path: str) -> CopiedFiles:
    """The files of the log dirs of a manifest. Raises FormatError."""
    if not fits(log_dirs, [dict]):
        raise FormatError(path, None, "a list of objects at brokers", show_value(log_dirs), _HINT)
    files: dict[str, CopiedFile] = {}
    incomplete: dict[str, str] = {}
    for index, log_dir in enumerate(log_dirs):
        top = log_dir.get("log_dir", "")
        for place, one in _listed(path, f"brokers[{index}].files", log_dir.get("files")):
            size, digest = one.get("size_bytes", -1), one.get("sha256", "")
            if not fits(one, {"size_bytes": int, "sha256": str}) or size < 0 or not _SHA256.fullmatch(digest):
                raise FormatError(path, None, f"size_bytes and sha256 at {place}", show_value(one), _HINT)
            files[_below(path, place, top, one["path"])] = CopiedFile(size, digest)
        for place, one in _listed(path, f"brokers[{index}].incomplete", log_dir.get("incomplete")):
            if not isinstance(one.get("reason"), str):
                raise FormatError(path, None, f"a reason at {place}", show_value(one), _HINT)
            incomplete[_below(path, place, top, one["path"])] = one["reason"]
    return CopiedFiles(files, incomplete)


def _listed(path: str, place: str, value: Any) -> Iterator[tuple[str, dict]]:
    if value is None:
        return
    if not fits(value, [{"path": str}]):
        raise FormatError(path, None, f"a list of objects with a path at {place}", show_value(value), _HINT)
    for index, one in enumerate(value):
        yield f"{place}[{index}]", one


def _below(path: str, place: str, log_dir: Any, name: str) -> str:
    """The place in the snapshot of a path in a log dir; `.` is the log dir itself."""
    parts = [part for part in (str(log_dir).strip("/"), "" if name == "." else name) if part]
    joined = "/".join(parts)
    if any(part in ("", ".", "..") for part in joined.split("/")) and joined:
        raise FormatError(path, None, f"a path below the log dir at {place}", show_value(name), _HINT)
    return joined


def _is_directory(path: str) -> bool:
    return _DIRECTORY.fullmatch(path.rpartition("/")[2]) is not None


def _is_read(path: str) -> bool:
    return not path.endswith(_NAMES_ONLY)
