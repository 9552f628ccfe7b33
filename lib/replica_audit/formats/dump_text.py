"""Text of kafka-dump-log: which logs it shows where, and what one listing of a segment tells.

One text may show many files, and one segment may be shown twice, shallow and deep. No key, value or header is kept.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

from replica_audit.formats.dump_lines import (
    BatchLine,
    Contents,
    InnerLine,
    RecordLine,
    is_remark,
    is_start,
    parse_batch_line,
    parse_failure,
    parse_inner,
    parse_invalid_bytes,
    parse_record_line,
)
from replica_audit.formats.errors import FormatError
from replica_audit.formats.names import parse_file_name

_DUMPING = b"Dumping "
_HEADLINE = re.compile(rb"(?:^|\n)Dumping ")
_STEP = 4 << 20
#: Longer paths there are none, and both lines that begin a listing fit.
_GREATEST_HEADLINES = 16 << 10
#: Records of --skip-record-metadata; the Scala tool leaves out the bar where there is no key.
_WITHOUT_METADATA = (b"| key: ", b"| payload: ", b" key: ", b" payload: ")
_RECORDS = (b"baseOffset: ", b"offset: ")
#: A payload that is not printable has no known end: so many lines at the end may be the tool's again.
_LAST_WORDS = 100


class Section(NamedTuple):
    """The listing of one log within a text: bytes [start, end), from its `Dumping` line to the next one."""

    dumped_path: str
    """As the `Dumping` line has it."""
    start: int
    end: int


class Spread(NamedTuple):
    """The records that a deep listing shows of one entry or batch."""

    first_offset: int
    last_offset: int
    record_count: int
    first_timestamp: int


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


def find_sections(stream: BinaryIO) -> list[Section]:
    """The listings of logs in a text, in order; those of indexes, snapshots and other files are passed over.

    A line `Dumping …` counts where what follows it fits, since a payload may contain one. Reads the text once, and
    little of it twice.
    """
    sections: list[Section] = []
    current: tuple[str, int] | None = None
    candidates, size = _find_headlines(stream)
    for start in candidates:
        name, is_listing = _read_headline(stream, start, size)
        if not is_listing:
            continue
        if current is not None:
            sections.append(Section(*current, start))
        current = (name, start) if parse_file_name(name.rpartition("/")[2]).kind == "log" else None
    return sections if current is None else [*sections, Section(*current, size)]


def _find_headlines(stream: BinaryIO) -> tuple[list[int], int]:
    """Byte positions of all lines that begin with `Dumping `, and the size of the text."""
    stream.seek(0)
    found, begin, kept = [], 0, b""
    while chunk := stream.read(_STEP):
        text = kept + chunk
        for match in _HEADLINE.finditer(text):
            if match.group()[:1] == b"\n" or begin + match.start() == 0:
                found.append(begin + match.end() - len(_DUMPING))
        kept = text[-len(_DUMPING) :]
        begin += len(text) - len(kept)
    # What lies in the bytes that two steps share was found twice.
    return sorted(set(found)), begin + len(kept)


def _read_headline(stream: BinaryIO, start: int, size: int) -> tuple[str, bool]:
    """The path of a line `Dumping …`, and whether a listing begins there."""
    stream.seek(start)
    text = stream.read(min(_GREATEST_HEADLINES, size - start))
    lines = text.split(b"\n", 2)
    name = lines[0][len(_DUMPING) :].strip().decode("utf-8", "backslashreplace")
    kind = parse_file_name(name.rpartition("/")[2]).kind
    if kind in ("unknown", "tmp"):
        return name, False
    # At the end of a text that broke off there is no second line.
    return name, kind != "log" or len(lines) == 1 or not lines[1].strip() or is_start(lines[1])


def parse_listing(stream: BinaryIO, section: Section) -> Listing:
    """The lines of one section. Raises FormatError where the text is shorter than it was."""
    return _Reader().read(_lines(stream, section.start, section.end))


class _Open:
    """A record whose key or payload may go on in the lines below."""

    def __init__(self, contents: Contents, parts: list[bytes], greatest: int) -> None:
        self._contents = contents
        self._parts = parts
        self._size = sum(map(len, parts))
        self._greatest = greatest
        self._end: deque[bytes] = deque(maxlen=_LAST_WORDS)

    @classmethod
    def of(cls, line: bytes, contents: Contents) -> _Open | None:
        """None where nothing can go on: the line shows neither, or all of both."""
        if contents.are_left_out(line) or contents.end(line):
            return None
        return cls(contents, [line, b"\n"], len(line) + contents.shown_size)

    def add(self, raw: bytes) -> bool:
        """Take another line, with its line end; whether key and payload are now complete."""
        self._end.append(raw)
        if self._size > self._greatest:
            return False
        self._parts.append(raw)
        self._size += len(raw)
        if self._size < self._contents.shown_size:
            return False
        return self._contents.end(b"".join(self._parts).removesuffix(b"\n"))

    def last_words(self) -> tuple[int, tuple[str, int | None] | None]:
        """Invalid bytes and failure that the tool may have told after an open record.

        They are believed in its own words only: a payload may well hold a stack trace.
        """
        lines = [raw.rstrip(b"\r\n") for raw in self._end]
        invalid = next((found for line in reversed(lines) if (found := parse_invalid_bytes(line)) is not None), 0)
        died = [found for line in lines if (found := parse_failure(line)) is not None and found[1] is not None]
        return invalid, (died[0] if died else None)


class _Reader:
    """Reads one section line by line."""

    def __init__(self) -> None:
        self._batches: list[BatchLine] = []
        self._records: dict[int, list[RecordLine]] = {}
        self._spreads: dict[int, Spread] = {}
        self._next_position = 0
        self._last_offset = -1
        self._has_holes = False
        self._has_start = False
        self._open: _Open | None = None
        """The record whose key or payload may go on."""

    def read(self, lines: Iterator[tuple[int, bytes]]) -> Listing:
        invalid_bytes, failure, odd_line, at = 0, None, None, 0
        for number, (at, raw) in enumerate(lines):
            line = raw.rstrip(b"\r\n")
            if number < 2 and (line.startswith(_DUMPING) or is_start(line)):
                self._has_start = number == 1
                continue
            # A number at the end of a text without a last line feed may have been cut.
            is_cut = not raw.endswith(b"\n") and line[-1:].isdigit()
            if not is_cut and self._take(line):
                # What stood before another record was none of the tool's last words.
                invalid_bytes, failure = 0, None
            elif line.startswith(_WITHOUT_METADATA):
                self._open = _Open(Contents(-1, -1, False), [], 0)
            elif self._open is not None:
                self._continue(raw)
            elif (invalid := parse_invalid_bytes(line)) is not None:
                invalid_bytes = invalid
            elif (died := parse_failure(line)) is not None:
                # The first line of a stack trace says more than its causes.
                failure = failure if failure is not None and died[1] is None else died
            elif failure is None and odd_line is None and not is_remark(line):
                odd_line = at
            if is_cut and odd_line is None and line.startswith(_RECORDS):
                odd_line = at
        if self._open is not None:
            invalid_bytes, failure = self._open.last_words()
        if not self._has_start and odd_line is None:
            odd_line = at
        batches = tuple(self._batches)
        return Listing(batches, self._records, self._spreads, invalid_bytes, failure, self._has_holes, odd_line)

    def _continue(self, raw: bytes) -> None:
        """Take a line for the next one of a key or payload, and see whether that is all of it."""
        if self._open.add(raw):
            self._open = None

    def _take(self, line: bytes) -> bool:
        """Whether the line is a batch or record of the log, and not of a payload that looks like one."""
        if line.startswith(_RECORDS):
            batch = parse_batch_line(line)
            if batch is not None:
                return self._take_batch(batch)
            record = None if self._batches else parse_record_line(line)
            return record is not None and self._take_record(record, line)
        if line.startswith(b"| ") and self._batches and (inner := parse_inner(line)) is not None:
            return self._take_inner(inner, line)
        return False

    def _take_batch(self, batch: BatchLine) -> bool:
        if batch.position != self._next_position:
            if self._open is not None:
                return False
            self._has_holes = True
        self._open = None
        self._batches.append(batch)
        self._next_position = batch.position + batch.size
        return True

    def _take_inner(self, inner: InnerLine, line: bytes) -> bool:
        batch = self._batches[-1]
        known = self._spreads.get(batch.position)
        lowest = max(batch.base_offset or 0, 0) if known is None else known.last_offset + 1
        if not lowest <= inner.offset <= batch.last_offset:
            return False
        if known is None:
            self._spreads[batch.position] = Spread(inner.offset, inner.offset, 1, inner.timestamp)
        else:
            count = known.record_count + 1
            self._spreads[batch.position] = known._replace(last_offset=inner.offset, record_count=count)
        self._open = _Open.of(line, inner.contents)
        return True

    def _take_record(self, record: RecordLine, line: bytes) -> bool:
        last = next(reversed(self._records), -1)
        if record.position < last or (self._open is not None and record.offset <= self._last_offset):
            return False
        self._last_offset = record.offset
        self._open = _Open.of(line, record.contents)
        self._has_holes |= last < 0 and record.position > 0
        before = self._spreads.get(record.position)
        self._records.setdefault(record.position, []).append(record)
        if record.is_oldest and record.codec != "none":
            pass  # 0.10's line for a whole wrapper: it has the last offset of what is inside, and no number
        elif before is None:
            self._spreads[record.position] = Spread(record.offset, record.offset, 1, record.timestamp)
        else:
            count = before.record_count + 1
            self._spreads[record.position] = before._replace(last_offset=record.offset, record_count=count)
        return True


def _lines(stream: BinaryIO, start: int, end: int) -> Iterator[tuple[int, bytes]]:
    """Lines with their line ends and byte positions, from `start` to `end`."""
    stream.seek(start)
    position = reached = start
    rest = b""
    while reached < end:
        chunk = stream.read(min(_STEP, end - reached))
        if not chunk:
            name = str(getattr(stream, "name", "dump text"))
            raise FormatError(name, reached, f"text up to byte {end}", "its end", "the file changed while it was read")
        reached += len(chunk)
        # At line feeds only; a payload may have carriage returns of its own.
        *parts, rest = (rest + chunk).split(b"\n")
        for line in parts:
            yield position, line + b"\n"
            position += len(line) + 1
    if rest:
        yield position, rest
