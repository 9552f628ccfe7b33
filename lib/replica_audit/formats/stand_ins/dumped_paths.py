"""Whose log a `Dumping` line names: broker, partition and segment, from that path, else from the text's own."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from replica_audit.formats.inventory import LogDir
from replica_audit.formats.log_dirs.names import parse_directory_name, parse_file_name
from replica_audit.model import TopicPartition

_BROKER = re.compile(r"broker-([0-9]{1,9})")
#: `broker-1.orders-0.dump.txt`, `broker-1_orders-0.dump.txt`, `broker-2.batches.txt`
_BROKER_PREFIX = re.compile(r"broker-([0-9]{1,9})(?![0-9])[._-]?")
#: Characters of `00000000000000000000.log`, with which the name of a text without `Dumping` lines may begin.
_LOG_NAME = 24
_NO_BROKER = (
    "neither the Dumping line nor the path of the text has a directory or name broker-<id>: rename the file to "
    "broker-<id>.….dump.txt"
)
_NO_PARTITION = "neither the Dumping line nor the path of the text has <topic>-<partition>"


class DumpedPath(NamedTuple):
    """A log that was dumped; where `problem` is not None, the rest does not count."""

    broker_id: int
    """-1 where it is not asked for."""
    folder: str
    """The log dir, as far as the Dumping line names it, without . and ..; else ''."""
    topic_partition: TopicPartition
    base_offset: int
    is_current: bool
    """Neither the metadata log, nor a -future, -delete or -stray directory, nor a file that Kafka has set aside."""
    problem: str | None = None


def read_dumped_path(dumped: str, text_path: str, log_dirs: Sequence[LogDir], snapshot_name: str = "") -> DumpedPath:
    """What the path of a `Dumping` line ('' without one) says, completed from `text_path`, relative to the snapshot."""
    parts = _components(dumped or posixpath.basename(text_path)[:_LOG_NAME])
    file = parse_file_name(parts[-1])
    kind, at = parse_directory_name(parts[-2]) if len(parts) > 1 else ("other", None)
    named = at is not None
    above = parts[:-2] if named else parts[:-1]
    if at is None:
        at = _partition_of(text_path)
    if at is None:
        return _unnamed(f"{dumped}: {_NO_PARTITION}")
    kept = file.state == "live" and (not named or kind == "current")
    if not kept:
        return DumpedPath(-1, "", at, file.base_offset or 0, False)
    folder = "/".join(above) if named else ""
    here = find_log_dir(folder, log_dirs)
    broker_id = _broker_of(above) if here is None else here.broker_id
    if broker_id is None:
        broker_id = _broker_of_text(text_path, log_dirs, snapshot_name)
    if broker_id is None:
        return _unnamed(_NO_BROKER)
    return DumpedPath(broker_id, folder, at, file.base_offset or 0, True)


def find_log_dir(folder: str, log_dirs: Iterable[LogDir]) -> LogDir | None:
    """The log dir of the snapshot that a path names, as it is or with more before it; None if it names none."""
    found = [
        one for one in log_dirs if one.path and one.broker_id is not None and f"/{folder}".endswith(f"/{one.path}")
    ]
    return max(found, key=lambda one: len(one.path), default=None)


def _unnamed(problem: str) -> DumpedPath:
    return DumpedPath(-1, "", TopicPartition("", 0), 0, False, problem)


def _components(path: str) -> list[str]:
    return posixpath.normpath(path.replace("\\", "/")).split("/")


def _broker_of(parts: Iterable[str]) -> int | None:
    found = [int(match.group(1)) for part in parts if (match := _BROKER.fullmatch(part))]
    return found[-1] if found else None


def _broker_of_text(path: str, log_dirs: Sequence[LogDir], snapshot_name: str) -> int | None:
    """From the log dir that the text lies in, else from its name and the directories above it."""
    inside = [
        one
        for one in log_dirs
        if one.broker_id is not None and f"{path}/".startswith(f"{one.path}/" if one.path else "")
    ]
    if inside:
        return max(inside, key=lambda one: len(one.path)).broker_id
    *folders, name = path.split("/")
    prefix = _BROKER_PREFIX.match(name)
    if prefix:
        return int(prefix.group(1))
    return _broker_of([snapshot_name, *folders])


def _partition_of(path: str) -> TopicPartition | None:
    """From the text's name, else from the nearest directory above it that is called like a partition."""
    *folders, name = path.split("/")
    stem = name.removesuffix(".txt").removesuffix(".dump")
    stem = stem[match.end() :] if (match := _BROKER_PREFIX.match(stem)) else stem
    for part in (stem, *reversed(folders)):
        parsed = parse_directory_name(part)
        if parsed.kind == "current" and parsed.topic_partition is not None and not _BROKER.fullmatch(part):
            return parsed.topic_partition
    return None
