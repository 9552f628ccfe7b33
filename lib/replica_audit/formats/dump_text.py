"""Text of kafka-dump-log: which logs it shows where, and the batches that one or several listings of a segment tell.

One text may show many files, and one segment may be shown twice, shallow and deep: their lines are put together. No
key, value or header is kept.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

from replica_audit.formats.dump_lines import (
    BatchLine,
    RecordLine,
    is_remark,
    is_start,
    parse_batch_line,
    parse_failure,
    parse_inner_offset,
    parse_invalid_bytes,
    parse_record_line,
)
from replica_audit.formats.errors import FormatError
from replica_audit.formats.names import parse_file_name

_DUMPING = b"Dumping "
_CHUNK = 1 << 20
#: Records of --skip-record-metadata; the Scala tool leaves out the bar where there is no key.
_WITHOUT_METADATA = (b"| key: ", b"| payload: ", b" key: ", b" payload: ")


class Section(NamedTuple):
    """The listing of one log within a text: bytes [start, end), from its `Dumping` line to the next one."""

    dumped_path: str
    """As the `Dumping` line has it."""
    start: int
    end: int
    digest: str
    """Of the bytes, to tell two texts apart."""


class Spread(NamedTuple):
    """The records that a deep listing shows of one entry or batch."""

    first_offset: int
    last_offset: int
    record_count: int
    first_timestamp: int | None


class Listing(NamedTuple):
    """What one listing of a segment shows."""

    batches: tuple[BatchLine, ...]
    records: dict[int, list[RecordLine]]
    """By position; empty where the listing has batch lines."""
    spreads: dict[int, Spread]
    invalid_bytes: int
    failure: tuple[str, int | None] | None
    """The tool died: of what, and the length field that it died of."""
    has_holes: bool
    """Positions do not follow each other: lines were left out of the text."""
    odd_line: int | None
    """Byte position in the text of the first line that is none of the tool's and no part of a payload."""


def find_sections(stream: BinaryIO) -> Iterator[Section]:
    """The listings of logs in a text, in order; those of indexes, snapshots and other files are passed over.

    A line `Dumping …` counts where what follows it fits, since a payload may contain one.
    """
    path, start, digest = None, 0, hashlib.sha256()
    waiting: tuple[str, int, bytes] | None = None
    end = 0
    for position, line in _lines(stream, 0, None):
        end = position + len(line)
        if waiting is not None:
            name, at, text = waiting
            is_log = parse_file_name(name.rpartition("/")[2]).kind == "log"
            if is_start(line.rstrip(b"\n")) or not is_log:
                if path is not None:
                    yield Section(path, start, at, digest.hexdigest())
                path, start, digest = (name if is_log else None), at, hashlib.sha256()
            digest.update(text)
            waiting = None
        if line.startswith(_DUMPING):
            name = line[len(_DUMPING) :].strip().decode("utf-8", "backslashreplace")
            if parse_file_name(name.rpartition("/")[2]).kind not in ("unknown", "tmp"):
                waiting = name, position, line
                continue
        digest.update(line)
    if waiting is not None:
        end = waiting[1]
    if path is not None:
        yield Section(path, start, end, digest.hexdigest())


def parse_listing(stream: BinaryIO, section: Section) -> Listing:
    """The lines of one section. Raises FormatError where the text is shorter than it was."""
    return _Reader().read(_lines(stream, section.start, section.end))


class _Reader:
    """Reads one section line by line."""

    def __init__(self) -> None:
        self._batches: list[BatchLine] = []
        self._records: dict[int, list[RecordLine]] = {}
        self._spreads: dict[int, Spread] = {}
        self._next_position = 0
        self._last_offset: int | None = None
        self._may_continue = False
        self._has_holes = False

    def read(self, lines: Iterator[tuple[int, bytes]]) -> Listing:
        invalid_bytes, failure, odd_line = 0, None, None
        for number, (at, raw) in enumerate(lines):
            line = raw.rstrip(b"\r\n")
            if number < 2 and (line.startswith(_DUMPING) or is_start(line)):
                continue
            if self._take(line):
                continue
            if line.startswith(_WITHOUT_METADATA):
                self._may_continue = True
                continue
            invalid = parse_invalid_bytes(line)
            if invalid is not None:
                invalid_bytes = invalid
            elif (died := parse_failure(line)) is not None:
                # The first line of a stack trace says more than its causes.
                failure = failure if failure is not None and died[1] is None else died
            elif not self._may_continue and failure is None and odd_line is None and not is_remark(line):
                odd_line = at
        return Listing(
            tuple(self._batches), self._records, self._spreads, invalid_bytes, failure, self._has_holes, odd_line
        )

    def _take(self, line: bytes) -> bool:
        """Whether the line is a batch or record of the log, and not of a payload that looks like one."""
        if line.startswith((b"baseOffset: ", b"offset: ")):
            batch = parse_batch_line(line)
            if batch is not None:
                return self._take_batch(batch)
            record = None if self._batches else parse_record_line(line)
            return record is not None and self._take_record(record, line)
        if line.startswith(b"| "):
            offset = parse_inner_offset(line)
            if offset is None or not self._batches:
                return False
            batch = self._batches[-1]
            known = self._spreads.get(batch.position)
            lowest = (batch.base_offset if batch.base_offset is not None else 0) if known is None else known.last_offset + 1
            if not lowest <= offset <= batch.last_offset:
                return False
            first, count = (offset, 1) if known is None else (known.first_offset, known.record_count + 1)
            self._spreads[batch.position] = Spread(first, offset, count, None)
            self._may_continue = True
            return True
        return False

    def _take_batch(self, batch: BatchLine) -> bool:
        if batch.position != self._next_position:
            if self._may_continue:
                return False
            self._has_holes = True
        self._batches.append(batch)
        self._next_position = batch.position + batch.size
        return True

    def _take_record(self, record: RecordLine, line: bytes) -> bool:
        last = next(reversed(self._records), -1)
        known = self._records.get(record.position)
        if record.position < last or (self._may_continue and record.offset <= (self._last_offset or 0)):
            return False
        self._last_offset = record.offset
        self._may_continue = self._may_continue or b" key: " in line or b" payload: " in line
        if known is None:
            self._has_holes |= last < 0 and record.position > 0
            self._records[record.position] = [record]
            self._spreads[record.position] = Spread(record.offset, record.offset, 1, record.timestamp)
        else:
            known.append(record)
            before = self._spreads[record.position]
            self._spreads[record.position] = before._replace(last_offset=record.offset, record_count=len(known))
        return True


def _lines(stream: BinaryIO, start: int, end: int | None) -> Iterator[tuple[int, bytes]]:
    """Lines with their line ends and byte positions, from `start` to `end` (None: to the end of the text)."""
    stream.seek(start)
    position, rest = start, b""
    reached = start
    while end is None or reached < end:
        chunk = stream.read(_CHUNK if end is None else min(_CHUNK, end - reached))
        if not chunk:
            if end is not None:
                name = str(getattr(stream, "name", "dump text"))
                raise FormatError(name, reached, f"text up to byte {end}", "its end", "the file changed while it was read")
            break
        reached += len(chunk)
        parts = _split(rest + chunk)
        rest = parts.pop() if parts and not parts[-1].endswith(b"\n") else b""
        for line in parts:
            yield position, line
            position += len(line)
    if rest:
        yield position, rest


def _split(text: bytes) -> list[bytes]:
    """At line feeds only; a payload may have carriage returns of its own."""
    parts = [part + b"\n" for part in text.split(b"\n")]
    parts[-1] = parts[-1][:-1]
    return parts if parts[-1] else parts[:-1]
