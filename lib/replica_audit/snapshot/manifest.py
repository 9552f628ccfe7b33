"""`manifest.json`: how and when the snapshot was taken, with size and digest of each copied file."""

from __future__ import annotations

import hashlib
import posixpath
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import BinaryIO, NamedTuple, TypeVar

from replica_audit.errors import FormatError
from replica_audit.literals import CAPTURE_KINDS
from replica_audit.parsing import INT64, fits, is_whole, parse_json, show_value
from replica_audit.schema import QuarantineRow
from replica_audit.snapshot.file_tree import Problem, Tree, TreeEntry
from replica_audit.snapshot.inventory import CopiedLogDir, LogDir, Manifest
from replica_audit.text import parse_time

_Kind = TypeVar("_Kind")

MANIFEST = "manifest.json"
_HINT = "see docs/capture.md on manifest.json, or leave the file out"
_STEP = 1 << 20
_SHA256 = re.compile(r"[0-9a-f]{64}")
#: Name of a partition directory, perhaps with the suffix of a moved or deleted one.
_DIRECTORY = re.compile(r".*-\d+(\.[0-9A-Za-z_-]+-(delete|future|stray))?")
#: Files that are known only by name.
_NAMES_ONLY = (".index", ".timeindex", ".txnindex", ".snapshot", ".tmp", ".lock")


class CopiedFile(NamedTuple):
    """Size and digest of a file when it was copied."""

    size_bytes: int
    sha256: str
    """64 hex digits."""


@dataclass(frozen=True, slots=True)
class CopiedFiles:
    """Files of the log dirs listed in a manifest; paths are relative to the snapshot."""

    files: Mapping[str, CopiedFile] = field(default_factory=dict)
    incomplete: Mapping[str, str] = field(default_factory=dict)
    """Reason why a file, or everything in a directory, is missing or incomplete."""

    def complete(self, tree: Tree) -> Tree:
        """The tree with the missing files added, each with a problem for its reader to report."""
        known = {entry.path for entry in tree.entries}
        told = {problem.path for problem in tree.problems}
        problems = {path: f"the copy is incomplete: {why}" for path, why in self.incomplete.items() if _is_read(path)}
        problems |= {path: _MISSING for path in self.files if path not in known and _is_read(path)}
        missing = [
            TreeEntry(path, 0, bool(_DIRECTORY.fullmatch(posixpath.basename(path)))) for path in problems.keys() - known
        ]
        added = [Problem(path, reason) for path, reason in problems.items() if path not in told]
        if not added:
            return tree
        entries = (*tree.entries, *(entry for entry in missing if entry.path))
        return Tree(tuple(sorted(entries)), tuple(sorted((*tree.problems, *added), key=lambda problem: problem.path)))

    def refuse_incomplete(self, path: str) -> None:
        """Raise OSError for a file that, by the manifest, was not or not completely copied."""
        if not self.incomplete:
            return
        parts = path.split("/")
        for end in range(len(parts) + 1):
            why = self.incomplete.get("/".join(parts[:end]))
            if why is not None:
                raise OSError(f"{path}: the copy is incomplete: {why}")

    def explain_missing(self, path: str, error: OSError) -> OSError:
        """The error of opening a file, with what the manifest says about it."""
        return OSError(f"{error}; {MANIFEST} says that it was copied") if path in self.files else error

    def check(self, path: str, stream: BinaryIO) -> None:
        """Read a file that was just opened, and go back to its start. Raises OSError if it is not the file that was copied."""
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
    """Files listed in a manifest; empty if it cannot be parsed, which its own reader reports."""
    try:
        manifest = parse_json(data, MANIFEST, _HINT)
        brokers = manifest.get("brokers") if isinstance(manifest, dict) else None
        return parse_copied_files(brokers, MANIFEST) if isinstance(brokers, list) else CopiedFiles()
    except FormatError:
        return CopiedFiles()


def parse_copied_files(log_dirs: list[object], path: str) -> CopiedFiles:
    """Parse the files of the log dirs in a manifest. Raises FormatError."""
    files: dict[str, CopiedFile] = {}
    incomplete: dict[str, str] = {}
    for index, log_dir in enumerate(log_dirs):
        if not isinstance(log_dir, dict):
            raise FormatError(path, None, "a list of objects at brokers", show_value(log_dirs), _HINT)
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


def _listed(path: str, place: str, value: object) -> Iterator[tuple[str, dict]]:
    if value is None:
        return
    if not isinstance(value, list) or not fits(value, [{"path": str}]):
        raise FormatError(path, None, f"a list of objects with a path at {place}", show_value(value), _HINT)
    for index, one in enumerate(value):
        yield f"{place}[{index}]", one


def _below(path: str, place: str, log_dir: object, name: str) -> str:
    """The path of `name` in a log dir, relative to the snapshot; `.` is the log dir itself."""
    parts = [part for part in (_without_dots(str(log_dir)), "" if name == "." else name) if part]
    joined = "/".join(parts)
    if any(part in ("", ".", "..") for part in joined.split("/")) and joined:
        raise FormatError(path, None, f"a path below the log dir at {place}", show_value(name), _HINT)
    return joined


def _is_read(path: str) -> bool:
    return not path.endswith(_NAMES_ONLY)


def parse_manifest(data: bytes | str, path: str) -> Manifest:
    """Parse the manifest; unknown keys are left for later versions. Raises FormatError, which names the place."""
    fields = _typed(path, "the manifest", parse_json(data, path, _HINT), dict, "an object")
    version = fields.get("schema_version")
    if not is_whole(version, 1, 1):
        raise FormatError(path, None, "schema_version 1", show_value(version), _HINT)
    brokers = _typed(path, "brokers", fields.get("brokers", []), list, "a list")
    copied = tuple(_parse_broker(path, f"brokers[{index}]", broker) for index, broker in enumerate(brokers))
    parse_copied_files(brokers, path)  # `Snapshot` compares them with what it reads
    return Manifest(
        quiesced=_optional(path, "quiesced", fields.get("quiesced"), bool, "true, false or null"),
        kafka_version=_optional(path, "kafka_version", fields.get("kafka_version"), str, "text"),
        brokers=copied,
    )


def with_log_dirs(manifest: Manifest | None, collected: Iterable[CopiedLogDir]) -> Manifest | None:
    """The manifest, with the log dirs that were collected as evidence unless it names them itself."""
    named = () if manifest is None else manifest.brokers
    known = {one.log_dir for one in named}
    added = tuple(one for one in collected if one.log_dir not in known)
    if not added:
        return manifest
    quiesced, version = (None, None) if manifest is None else (manifest.quiesced, manifest.kafka_version)
    return Manifest(quiesced, version, (*named, *added))


def with_ends_of_metadata(manifest: Manifest | None, ends: Iterable[tuple[int, str, int]]) -> Manifest | None:
    """The manifest with `ahead_ms`, from `ends`: (node id, log dir, time in ms of the last batch) of copies of the metadata log."""
    if manifest is None:
        return None
    ahead: dict[int, int] = {}
    for node_id, log_dir, time_ms in ends:
        for one in entries_around(log_dir, (entry for entry in manifest.brokers if entry.broker_id == node_id)):
            if one.finished_ms is not None:
                ahead[node_id] = min(ahead.get(node_id, one.finished_ms - time_ms), one.finished_ms - time_ms)
    return manifest._replace(brokers=tuple(one._replace(ahead_ms=ahead.get(one.broker_id)) for one in manifest.brokers))


def with_own_names(
    manifest: Manifest | None, log_dirs: Sequence[LogDir]
) -> tuple[Manifest | None, list[QuarantineRow]]:
    """The manifest with the names that log dirs have in the snapshot, and rows on entries that fit none, which are left out.

    An entry applies to the log dir that it names and all below it; '' is the snapshot itself. If it names none here but, say, a path on
    the broker, it applies to the broker's only log dir if it is the broker's only entry, and to everything of a broker without a log
    dir here, such as texts in place of segments. If it names another broker's log dir it applies to none: disks were swapped.
    """
    if manifest is None:
        return None, []
    paths: dict[int | None, list[str]] = defaultdict(list)
    for log_dir in log_dirs:
        paths[log_dir.broker_id].append(log_dir.path)
    owners = {log_dir.path: log_dir.broker_id for log_dir in log_dirs if log_dir.broker_id is not None}
    entries = Counter(one.broker_id for one in manifest.brokers)
    named, rows = [], []
    for index, one in enumerate(manifest.brokers):
        own = paths.get(one.broker_id, [])
        owner = owners.get(one.log_dir, one.broker_id)
        if owner != one.broker_id:
            reason = (
                f"expected {owner} at brokers[{index}].broker_id, whose disk {show_value(one.log_dir)} is by its meta.properties, found "
                f"{one.broker_id}: its times and kind are not used; if that disk is mounted at broker {one.broker_id}, which does not start "
                "with it, disks were swapped: put them back before you start a broker"
            )
            rows.append(QuarantineRow.of("INPUT-IGNORED", MANIFEST, reason, broker_id=one.broker_id))
        elif any(_contains(one.log_dir, path) for path in own):
            named.append(one)
        elif entries[one.broker_id] == 1 and len(own) <= 1:
            named.append(one._replace(log_dir=own[0] if own else ""))
        elif not own:
            named.append(one)
        else:
            found = f"at brokers[{index}].log_dir of broker {one.broker_id}, found {show_value(one.log_dir)}"
            reason = f"expected {' or '.join(sorted(own))} {found}: its times and kind are not used; name the log directory as it is here"
            rows.append(QuarantineRow.of("INPUT-IGNORED", MANIFEST, reason, broker_id=one.broker_id))
    return manifest._replace(brokers=tuple(named)), rows


def _contains(log_dir: str, path: str) -> bool:
    """True if `path` is `log_dir` or below it; '' is the snapshot itself."""
    return not log_dir or f"{path}/".startswith(f"{log_dir}/")


def entries_around(log_dir: str, entries: Iterable[CopiedLogDir]) -> list[CopiedLogDir]:
    """The `entries` of a broker that apply to a log dir: its own, else those of the innermost directory around it with any."""
    around = [one for one in entries if _contains(one.log_dir, log_dir)]
    innermost = max((one.log_dir for one in around), key=len, default=None)
    return [one for one in around if one.log_dir == innermost]


def _without_dots(path: str) -> str:
    """A path as in the snapshot: without `./` and a final `/`; '' for `.`."""
    return "/".join(part for part in path.split("/") if part not in ("", "."))


def _parse_broker(path: str, place: str, entry: object) -> CopiedLogDir:
    fields = _typed(path, place, entry, dict, "an object")
    broker_id = fields.get("broker_id")
    if not is_whole(broker_id):
        raise FormatError(path, None, f"a broker id at {place}.broker_id", show_value(broker_id), _HINT)
    kind = fields.get("kind")
    if kind is not None and kind not in CAPTURE_KINDS:
        raise FormatError(path, None, f"one of {', '.join(CAPTURE_KINDS)} at {place}.kind", show_value(kind), _HINT)
    return CopiedLogDir(
        broker_id,
        _without_dots(_typed(path, f"{place}.log_dir", fields.get("log_dir", ""), str, "text")),
        _parse_time(path, f"{place}.started", fields.get("started")),
        _parse_time(path, f"{place}.finished", fields.get("finished")),
        kind,
        is_unseen="kind" in fields and kind is None,
    )


def _parse_time(path: str, place: str, value: object) -> int | None:
    """A time in milliseconds since the epoch, given as such or in ISO 8601 (UTC unless a zone is given)."""
    if value is None or is_whole(value, 0, INT64):
        return value
    text = _typed(path, place, value, str, "a time")
    try:
        return parse_time(text)
    except ValueError:
        raise FormatError(path, None, f"an ISO 8601 time at {place}", show_value(value), _HINT) from None


def _typed(path: str, place: str, value: object, kind: type[_Kind], expected: str) -> _Kind:
    if not isinstance(value, kind):
        raise FormatError(path, None, f"{expected} at {place}", show_value(value), _HINT)
    return value


def _optional(path: str, place: str, value: object, kind: type[_Kind], expected: str) -> _Kind | None:
    return None if value is None else _typed(path, place, value, kind, expected)
