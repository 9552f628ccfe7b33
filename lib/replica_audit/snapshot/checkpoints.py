"""The small text files of a log dir: checkpoints of offsets and epochs, partition.metadata, meta.properties.

Read as Kafka reads them (`CheckpointFile`, `OffsetCheckpointFile`, `LeaderEpochCheckpointFile`, `PartitionMetadataFile`,
`java.util.Properties`): by lines that end in LF, CR or CRLF; the last may have no end.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from replica_audit.errors import FormatError
from replica_audit.model import ReplicaDir, TopicPartition
from replica_audit.parsing import INT32, INT64, parse_whole
from replica_audit.protocol.lineage import increases

_LINE = re.compile(r"([^\r\n]*)(\r\n|\r|\n|$)")
#: The first two lines, and a line, of a file of offsets exactly as Kafka writes it.
_WRITTEN_HEAD = re.compile(rb"0\n([0-9]{1,10})\n")
_WRITTEN_OFFSET = re.compile(rb"(?m)^([A-Za-z0-9._-]+) ([0-9]{1,10}) ([0-9]{1,19})\n")
_PROPERTY = re.compile(r"((?:\\.|[^\\=:\s])*)\s*[=:]?\s*(.*)", re.S)
_HINT = "Kafka refuses such a file or reads other values from it: compare with the other replicas before repairing it"


def contradict_stop(directory: ReplicaDir) -> bool:
    """True if a replica's checkpoints are not as a clean stop leaves them (C.2): recovery point at the log end, no high
    watermark or epoch start past it. Missing or damaged files do not contradict a stop."""
    flushed, mark = directory.recovery_point_checkpoint, directory.high_watermark_checkpoint
    entries = directory.checkpoint_epochs or ()
    starts = [start for _, start in entries] if increases(entries) else []
    return flushed is not None and any(one > flushed for one in (mark or 0, *starts))


def parse_offset_checkpoint(data: bytes, path: str) -> dict[TopicPartition, int]:
    """Entries of a `*-offset-checkpoint`, in file order; an empty file has no entries. If a partition occurs twice, the last
    line counts, as in Kafka. Raises FormatError for another version, a wrong number of lines, malformed fields, and numbers
    that are negative or too large for their type."""
    found = _offsets_as_written(data)
    if found is not None:
        return found
    entries: dict[TopicPartition, int] = {}
    for line, fields in _parse_entries(data, path, 3, "`topic partition offset`"):
        partition = line.number(fields[1], INT32, "partition")
        entries[TopicPartition(fields[0], partition)] = line.number(fields[2], INT64, "offset")
    return entries


def _offsets_as_written(data: bytes) -> dict[TopicPartition, int] | None:
    """Entries of a `*-offset-checkpoint`, which has a line for each of a broker's partitions, as from `_epochs_as_written`."""
    head = _WRITTEN_HEAD.match(data)
    if head is None:
        return None
    # Topic names are shared between lines: a broker's checkpoint may name a million partitions.
    names: dict[bytes, str] = {}
    entries: dict[TopicPartition, int] = {}
    count, end = 0, head.end()
    for line in _WRITTEN_OFFSET.finditer(data, end):
        topic, partition, offset = line.groups()
        if line.start() != end or int(partition) > INT32 or int(offset) > INT64:
            return None
        count, end = count + 1, line.end()
        entries[TopicPartition(names.setdefault(topic, topic.decode()), int(partition))] = int(offset)
    return entries if count == int(head[1]) and end == len(data) else None


def parse_epoch_checkpoint(data: bytes, path: str) -> tuple[tuple[int, int], ...]:
    """Entries (leader epoch, start offset) of a `leader-epoch-checkpoint` in file order, even if they decrease.

    How Kafka treats contradictory entries is decided elsewhere. An empty file has no entries. Errors as in `parse_offset_checkpoint`.
    """
    read = _epochs_of_short if len(data) <= _SHORT else _epochs_as_written
    return read(data) or tuple(
        (line.number(fields[0], INT32, "leader epoch"), line.number(fields[1], INT64, "start offset"))
        for line, fields in _parse_entries(data, path, 2, "`epoch start-offset`")
    )


#: Maximum size of files kept for equal ones of other replicas, in bytes.
_SHORT = 4096


def _epochs_as_written(data: bytes) -> tuple[tuple[int, int], ...] | None:
    """Entries of a file exactly as Kafka writes it, parsed at once since it may have a million lines; None for any other
    file, which is read line by line to report what is wrong."""
    words = data.split()
    between = b"\n\n" + b" \n" * (len(words) // 2 - 1)
    if len(words) < 2 or not data.endswith(b"\n") or data.translate(None, b"0123456789") != between:
        return None
    if max(map(len, words)) > len(str(INT64)):
        return None
    version, expected, *numbers = map(int, words)
    epochs, starts = numbers[::2], numbers[1::2]
    sound = version == 0 and len(epochs) == expected and max(epochs, default=0) <= INT32
    return tuple(zip(epochs, starts)) if sound and max(starts, default=0) <= INT64 else None


_epochs_of_short = lru_cache(maxsize=16)(_epochs_as_written)


def parse_partition_metadata(data: bytes, path: str) -> str:
    """The topic id of a `partition.metadata`: 22 characters of base64url, padding removed. Raises FormatError."""
    lines = list(_lines(data, path))
    values = []
    for index, key in enumerate(("version", "topic_id")):
        if index >= len(lines):
            raise FormatError(path, len(data), f"line {index + 1} `{key}: …`", "the end of the file", _HINT)
        match = re.fullmatch(r"([^:]*):\s+(\S.*)", lines[index].text)
        if not match or match.group(1) != key:
            raise lines[index].error(f"`{key}: …`")
        values.append(match.group(2).rstrip())
    if lines[0].number(values[0], INT32, "version") != 0:
        raise lines[0].error("version 0")
    return parse_uuid(values[1], lines[1])


def parse_uuid(text: str, line: Line) -> str:
    """A Kafka `Uuid`: 16 bytes of base64url, not all zero; padding, which Kafka accepts, is removed."""
    bare = text.rstrip("=")
    try:
        raw = base64.b64decode(bare + "=" * (-len(bare) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise line.error("a topic id of 16 bytes in base64url") from None
    if len(raw) != 16 or not any(raw):
        raise line.error("a topic id of 16 bytes in base64url")
    return bare


class MetaProperties(NamedTuple):
    """Owner of a log dir, from `meta.properties` of version 0 (`broker.id`) or 1 (`node.id`)."""

    node_id: int | None
    cluster_id: str | None
    directory_id: str | None


def parse_meta_properties(data: bytes, path: str) -> MetaProperties:
    """`node.id`, else `broker.id`, `cluster.id` and `directory.id`, each None if absent. Raises FormatError.

    An id that is not a number of 0 or more is an error. An empty file has no id, which the caller must judge.
    """
    properties: dict[str, tuple[Line, str]] = {}
    for line in _lines(data, path):
        text = line.text.lstrip(" \t\f")
        if text and text[0] not in "#!":
            match = _PROPERTY.match(text)
            assert match is not None  # each part may be empty
            key, value = match.groups()
            properties[re.sub(r"\\(.)", r"\1", key)] = line, re.sub(r"\\(.)", r"\1", value).rstrip()

    def text_of(key: str) -> str | None:
        return properties[key][1] or None if key in properties else None

    node_id = None
    for key in ("broker.id", "node.id"):
        if key in properties:
            line, value = properties[key]
            node_id = line.number(value, INT32, key)
    return MetaProperties(node_id, text_of("cluster.id"), text_of("directory.id"))


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a text file, and its position."""

    path: str
    index: int
    position: int
    text: str

    def error(self, expected: str) -> FormatError:
        shown = self.text if len(self.text) <= 80 else self.text[:77] + "..."
        return FormatError(self.path, self.position, f"in line {self.index} {expected}", repr(shown), _HINT)

    def number(self, text: str, greatest: int, name: str) -> int:
        """`text` as an integer from 0 to `greatest`. Raises FormatError."""
        value = parse_whole(text.removeprefix("+"), 0, greatest)  # Java accepts a plus sign
        if value is None:
            raise self.error(f"{name} from 0 to {greatest}")
        return value


def _lines(data: bytes, path: str) -> Iterator[Line]:
    """Lines as `BufferedReader.readLine` splits them."""
    # latin-1 keeps byte positions; topic names, numbers and keys are ASCII.
    text = data.decode("latin-1")
    for index, match in enumerate(_LINE.finditer(text), 1):
        if match.start() == len(text):
            return  # no line follows the last line end
        yield Line(path, index, match.start(), match.group(1))


def _parse_entries(data: bytes, path: str, width: int, shape: str) -> Iterator[tuple[Line, list[str]]]:
    lines = _lines(data, path)
    first = next(lines, None)
    if first is None:
        return
    if first.number(first.text, INT32, "version") != 0:
        raise first.error("version 0")
    second = next(lines, None)
    # Kafka treats a file that ends after its version as empty.
    if second is None:
        return
    expected = second.number(second.text, INT32, "the number of entries")
    count = 0
    for line in lines:
        # Java's split keeps an empty field before leading blanks, but drops trailing ones.
        fields = re.split(r"[ \t\x0b\f]+", line.text.rstrip(" \t\x0b\f"))
        if len(fields) != width or not fields[0]:
            raise line.error(shape)
        count += 1
        yield line, fields
    if count != expected:
        raise FormatError(path, second.position, f"{expected} entries, as line 2 says", f"{count} lines of them", _HINT)
