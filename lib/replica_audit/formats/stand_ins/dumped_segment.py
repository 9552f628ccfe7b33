"""One listing of a segment in text of kafka-dump-log: batches, or records where it shows no batches.

A segment may be listed twice, shallow and deep. No key, value or header is kept.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

from replica_audit.formats.stand_ins.dump_lines import (
    BatchLine,
    Contents,
    InnerLine,
    RecordLine,
    parse_batch_line,
    parse_inner,
    parse_record_line,
    position_below_zero,
)
from replica_audit.formats.stand_ins.dump_remarks import is_remark, is_start, parse_failure, parse_invalid_bytes
from replica_audit.formats.stand_ins.dump_text import DUMPING, Section, read_lines

#: Records of --skip-record-metadata; the Scala tool leaves out the bar where there is no key.
_WITHOUT_METADATA = (b"| key: ", b"| payload: ", b" key: ", b" payload: ")
_RECORDS = (b"baseOffset: ", b"offset: ")
#: A payload that is not printable has no known end: so many lines at the end may be the tool's again.
_LAST_WORDS = 100
_WASTE_BYTES, _WASTE_FACTOR = 16 << 20, 4


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
    """Byte position in the text of the first line that neither the tool wrote nor a payload explains."""
    below_zero: int | None = None
    """Position in the segment of the first batch or record that is shown at an offset below 0."""


def parse_listing(stream: BinaryIO, section: Section) -> Listing:
    """The lines of one section. Raises FormatError where the text is shorter than it was."""
    # Without its `Dumping` line a listing may be without the next line too.
    return _Reader(has_start=not section.dumped_path).read(read_lines(stream, section.start, section.end))


class _Ahead:
    """Lines of a section that can be looked at before they are taken."""

    def __init__(self, lines: Iterator[tuple[int, bytes]]) -> None:
        self._lines = lines
        self._seen: deque[tuple[int, bytes]] = deque()
        self._passed_bytes = 0
        self._wasted_bytes = 0
        """Looked at for nothing; bounded by what was passed, so that claims of great sizes cost no more than the text."""

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        while True:
            line = self._seen.popleft() if self._seen else next(self._lines, None)
            if line is None:
                return
            self._passed_bytes += len(line[1])
            yield line

    def pass_contents(self, line: bytes, contents: Contents) -> bool:
        """Take the lines that continue a record's key and payload, if their end can be found.

        `line` is the record's first. They end where all their bytes are there; a text that could not print them as they
        are has more or fewer, and then nothing is taken.
        """
        if contents.are_left_out(line) or contents.end(line):
            return True
        if self._has_wasted():
            return False
        parts, size, greatest = [line, b"\n"], len(line) + 1, len(line) + contents.shown_size
        for count, (_, raw) in enumerate(self._look(), 1):
            parts.append(raw)
            size += len(raw)
            if size > greatest + 1:
                break
            if size <= contents.shown_size:
                continue
            if contents.end(b"".join(parts).removesuffix(b"\n")):
                for _ in range(count):
                    self._seen.popleft()
                return True
            self._wasted_bytes += size
            if self._has_wasted():
                break
        self._wasted_bytes += size - len(line)
        return False

    def _look(self) -> Iterator[tuple[int, bytes]]:
        yield from self._seen
        for line in self._lines:
            self._seen.append(line)
            yield line

    def _has_wasted(self) -> bool:
        return self._wasted_bytes > _WASTE_BYTES + _WASTE_FACTOR * self._passed_bytes


class _Reader:
    """Reads one section line by line."""

    def __init__(self, has_start: bool) -> None:
        self._batches: list[BatchLine] = []
        self._records: dict[int, list[RecordLine]] = {}
        self._spreads: dict[int, Spread] = {}
        self._ahead = _Ahead(iter(()))
        self._next_position = 0
        self._last_offset = -1
        self._has_holes = False
        self._has_start = has_start
        self._is_open = False
        """The key or payload of the last record may go on: where they end could not be found."""
        self._last_words: deque[bytes] = deque(maxlen=_LAST_WORDS)
        """Lines since then."""

    def read(self, lines: Iterator[tuple[int, bytes]]) -> Listing:
        invalid_bytes, failure, odd_line, below_zero, at = 0, None, None, None, 0
        self._ahead = _Ahead(lines)
        for number, (at, raw) in enumerate(self._ahead):
            line = raw.rstrip(b"\r\n")
            if number < 2 and (line.startswith(DUMPING) or is_start(line)):
                self._has_start |= number == 1
                continue
            # A number at the end of a text without a last line feed may have been cut.
            is_cut = not raw.endswith(b"\n") and line[-1:].isdigit()
            if not is_cut and self._take(line):
                # What stood before another record was none of the tool's last words.
                invalid_bytes, failure = 0, None
            elif line.startswith(_WITHOUT_METADATA):
                self._open()
            elif self._is_open:
                self._last_words.append(line)
            elif (invalid := parse_invalid_bytes(line)) is not None:
                invalid_bytes = invalid
            elif (died := parse_failure(line)) is not None:
                # The first line of a stack trace says more than its causes.
                failure = failure if failure is not None and died[1] is None else died
            elif failure is None and odd_line is None and not is_remark(line):
                odd_line, below_zero = at, position_below_zero(line)
            if is_cut and odd_line is None and line.startswith(_RECORDS):
                odd_line = at
        if self._is_open:
            invalid_bytes, failure = self._hear_last_words()
        if not self._has_start and odd_line is None:
            odd_line = at
        batches = tuple(self._batches)
        return Listing(
            batches, self._records, self._spreads, invalid_bytes, failure, self._has_holes, odd_line, below_zero
        )

    def _open(self) -> None:
        self._is_open = True
        self._last_words.clear()

    def _hear_last_words(self) -> tuple[int, tuple[str, int | None] | None]:
        """Invalid bytes and failure that the tool may have told after a record of unknown end.

        They are believed in words that only the tool has: a payload may well hold a stack trace.
        """
        invalid = [found for line in self._last_words if (found := parse_invalid_bytes(line)) is not None]
        died = [
            failure
            for line in self._last_words
            if (failure := parse_failure(line)) is not None and failure[1] is not None
        ]
        return (invalid[-1] if invalid else 0), (died[0] if died else None)

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
            if self._is_open:
                return False
            self._has_holes = True
        self._is_open = False
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
        self._pass_contents(line, inner.contents)
        return True

    def _pass_contents(self, line: bytes, contents: Contents) -> None:
        if self._ahead.pass_contents(line, contents):
            self._is_open = False
        else:
            self._open()

    def _take_record(self, record: RecordLine, line: bytes) -> bool:
        last = next(reversed(self._records), -1)
        if record.position < last or (self._is_open and record.offset <= self._last_offset):
            return False
        self._last_offset = record.offset
        self._pass_contents(line, record.contents)
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
