"""A segment from listings of kafka-dump-log, in the form that a scan of its file would give.

A segment may be listed twice, shallow and deep. No key, value or header is kept.
"""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import BinaryIO, NamedTuple

import numpy as np

from replica_audit.batch_header import ABSENT, CODEC_MASK, LOG_APPEND_TIME, TRANSACTIONAL, Batch
from replica_audit.model import Damage
from replica_audit.segments.compression import CODEC_NAMES
from replica_audit.segments.record_batch import BATCH_DTYPE
from replica_audit.snapshot.dump.dump_lines import (
    BatchLine,
    Contents,
    InnerLine,
    RecordLine,
    parse_batch_line,
    parse_inner,
    parse_record_line,
    position_below_zero,
)
from replica_audit.snapshot.dump.dump_text import (
    DUMPING,
    Section,
    is_remark,
    is_start,
    parse_failure,
    parse_invalid_bytes,
    read_lines,
)
from replica_audit.snapshot.provenance import BATCHES, ENTRIES, FINGERPRINT, RECORDS, SecondHandLog
from replica_audit.text import count

#: Records of --skip-record-metadata; for a record without a key, the Scala tool omits the bar.
_WITHOUT_METADATA = (b"| key: ", b"| payload: ", b" key: ", b" payload: ")
_RECORDS = (b"baseOffset: ", b"offset: ")
#: The end of an unprintable payload is unknown: this many final lines may again be the tool's.
_LAST_WORDS = 100
_WASTE_BYTES, _WASTE_FACTOR = 16 << 20, 4


class Spread(NamedTuple):
    """Records that a deep listing shows of one entry or batch."""

    first_offset: int
    last_offset: int
    record_count: int
    first_timestamp: int


class DumpListing(NamedTuple):
    """Content of one listing of a segment."""

    batches: tuple[BatchLine, ...]
    records: dict[int, list[RecordLine]]
    """By position; empty if the listing has batch lines."""
    spreads: dict[int, Spread]
    invalid_bytes: int
    failure: tuple[str, int | None] | None
    """Error that ended the tool, and the length field at fault."""
    has_holes: bool
    """True if positions are not consecutive: lines were left out of the text."""
    odd_line: int | None
    """Byte position in the text of the first line that neither the tool nor a payload explains."""
    below_zero: int | None = None
    """Position in the segment of the first batch or record at an offset below 0."""


def parse_listing(stream: BinaryIO, section: Section) -> DumpListing:
    """Parse the lines of one section. Raises FormatError if the text has become shorter."""
    # Without its `Dumping` line a listing may lack the next line too.
    return _Reader(has_start=not section.dumped_path).read(read_lines(stream, section.start, section.end))


class _Ahead:
    """Lines of a section, with lookahead."""

    def __init__(self, lines: Iterator[tuple[int, bytes]]) -> None:
        self._lines = lines
        self._seen: deque[tuple[int, bytes]] = deque()
        self._passed_bytes = 0
        self._wasted_bytes = 0
        """Bytes read in vain; limited in proportion to those passed, so that claims of huge sizes cost no more than the text."""

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        while True:
            line = self._seen.popleft() if self._seen else next(self._lines, None)
            if line is None:
                return
            self._passed_bytes += len(line[1])
            yield line

    def pass_contents(self, line: bytes, contents: Contents) -> bool:
        """Take the lines that continue a record's key and payload, if their end can be found; True if it was.

        `line` is the record's first. Key and payload end where all their bytes are present; if the text could not print
        them unchanged, the length differs, and nothing is taken.
        """
        if contents.are_left_out(line) or contents.end(line):
            return True
        if self._has_wasted():
            return False
        parts, size, greatest = [line, b"\n"], len(line) + 1, len(line) + contents.shown_size
        for taken, (_, raw) in enumerate(self._look(), 1):
            parts.append(raw)
            size += len(raw)
            if size > greatest + 1:
                break
            if size <= contents.shown_size:
                continue
            if contents.end(b"".join(parts).removesuffix(b"\n")):
                for _ in range(taken):
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
        """True while the last record's key or payload may continue, since its end could not be found."""
        self._last_words: deque[bytes] = deque(maxlen=_LAST_WORDS)
        """Lines since then."""

    def read(self, lines: Iterator[tuple[int, bytes]]) -> DumpListing:
        invalid_bytes = at = 0
        failure = odd_line = below_zero = None
        self._ahead = _Ahead(lines)
        for number, (at, raw) in enumerate(self._ahead):
            line = raw.rstrip(b"\r\n")
            if number < 2 and (line.startswith(DUMPING) or is_start(line)):
                self._has_start |= number == 1
                continue
            # A number at the end of a text without a final line feed may be cut off.
            is_cut = not raw.endswith(b"\n") and line[-1:].isdigit()
            if not is_cut and self._take(line):
                # Lines before another record were not the tool's last words.
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
        return DumpListing(
            batches, self._records, self._spreads, invalid_bytes, failure, self._has_holes, odd_line, below_zero
        )

    def _open(self) -> None:
        self._is_open = True
        self._last_words.clear()

    def _hear_last_words(self) -> tuple[int, tuple[str, int | None] | None]:
        """Invalid bytes and failure that the tool may have reported after a record of unknown end.

        Only the tool's own words are believed: a payload may well contain a stack trace.
        """
        invalid = [found for line in self._last_words if (found := parse_invalid_bytes(line)) is not None]
        died = [
            failure
            for line in self._last_words
            if (failure := parse_failure(line)) is not None and failure[1] is not None
        ]
        return (invalid[-1] if invalid else 0), (died[0] if died else None)

    def _take(self, line: bytes) -> bool:
        """True if the line is a batch or record of the log, not part of a payload that looks like one."""
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
        self._count(batch.position, inner)
        self._pass_contents(line, inner.contents)
        return True

    def _count(self, position: int, record: InnerLine | RecordLine) -> None:
        known = self._spreads.get(position) or Spread(record.offset, record.offset, 0, record.timestamp)
        self._spreads[position] = known._replace(last_offset=record.offset, record_count=known.record_count + 1)

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
        self._records.setdefault(record.position, []).append(record)
        # The 0.10 line for a whole wrapper has the last offset of its content, and no number.
        if not record.is_oldest or record.codec == "none":
            self._count(record.position, record)
        return True


def assemble_dumped_log(listings: Sequence[DumpListing], base_offset: int) -> SecondHandLog:
    """Combine the listings of one segment.

    The one with the most batch lines counts; the others supply the offsets and numbers of records inside an entry, which a
    shallow listing of magic 0 and 1 (and of 0.11 to 1.1) does not show. `base_offset` is that of the file.
    """
    unproven = {"checksums"}
    rows = [_whole_entries(listing) for listing in listings]
    chosen = max(range(len(listings)), key=lambda index: (len(rows[index]), len(listings[index].records)))
    listing, lines = listings[chosen], rows[chosen]
    spreads = {position: spread for other in reversed(listings) for position, spread in other.spreads.items()}
    positions = sorted({*lines, *listing.records})
    batches = np.zeros(len(positions), BATCH_DTYPE)
    expected = base_offset
    for index, position in enumerate(positions):
        line = lines.get(position)
        if line is None:
            row = _fingerprinted(listing.records[position], unproven)
        else:
            row = _row(line, spreads.get(position), expected, unproven)
        batches[index] = row
        expected = int(batches[index]["last_offset"]) + 1
    end = int(batches["position"][-1] + batches["size"][-1]) if len(batches) else 0
    damage = tuple(_damage(listing, end, expected if len(batches) else None, unproven))
    if listing.has_holes or listing.odd_line is not None:
        unproven.add("left_out")
    if any(_disagree(lines, other) for other in rows):
        unproven.add("one_moment")
    if "batch_checksums" in unproven:
        form = RECORDS
    else:
        form = ENTRIES if listing.records and not (batches["attributes"] & CODEC_MASK).any() else BATCHES
    return SecondHandLog(batches, damage, end + listing.invalid_bytes, tuple(sorted(unproven)), form)


def _disagree(lines: dict[int, BatchLine], other: dict[int, BatchLine]) -> bool:
    """True if two listings show different entries at one position, so that they were made at different times."""
    return any(
        (line.last_offset, line.crc, line.size)
        != (other[position].last_offset, other[position].crc, other[position].size)
        for position, line in lines.items()
        if position in other
    )


def _whole_entries(listing: DumpListing) -> dict[int, BatchLine]:
    """By position, the lines that show a complete batch or entry, with CRC and size."""
    if listing.batches:
        return {line.position: line for line in listing.batches}
    positions = list(listing.records)
    following = dict(zip(positions, positions[1:], strict=False))
    found = {}
    for position, records in listing.records.items():
        record = records[0]
        if len(records) > 1 or record.crc is None or not (record.is_oldest or record.codec == "none"):
            continue
        # In 0.10 the only message inside a wrapper looks like an entry, but has another size.
        if following.get(position, position + record.entry_size) == position + record.entry_size:
            found[position] = _entry(record)
    last = positions[-1] if positions else None
    if last in found and listing.records[last][0].codec == "none" and len(found) < len(positions):
        # Nothing follows to show whether this is another message inside a wrapper.
        del found[last]
    return found


def _entry(record: RecordLine) -> BatchLine:
    plain = record.codec == "none"
    attributes = CODEC_NAMES.index(record.codec) if record.codec in CODEC_NAMES else CODEC_MASK
    return BatchLine(
        position=record.position,
        size=record.entry_size,
        base_offset=record.offset if plain else None,
        last_offset=record.offset,
        leader_epoch=ABSENT,
        magic=record.magic,
        crc=record.crc or 0,
        crc_valid=record.is_valid,
        attributes=attributes | (LOG_APPEND_TIME if record.is_append_time else 0),
        base_timestamp=ABSENT,
        max_timestamp=record.timestamp,
        producer_id=ABSENT,
        producer_epoch=ABSENT,
        base_sequence=ABSENT,
        record_count=1 if plain else None,
    )


def _row(line: BatchLine, spread: Spread | None, expected: int, unproven: set[str]) -> Batch:
    """`line` as a batch; values that neither it nor `spread` shows are derived and named in `unproven`."""
    base, last = line.base_offset, line.last_offset
    count, timestamp = line.record_count, line.base_timestamp
    is_old, is_append_time = line.magic < 2, bool(line.attributes & LOG_APPEND_TIME)
    if is_old and not line.attributes & CODEC_MASK:
        spread = Spread(last, last, 1, line.max_timestamp)
    elif is_old and spread is not None and spread.last_offset != last:
        # Made at another time, or cut off inside this entry.
        spread = None
    if is_old and spread is not None:
        base = spread.first_offset
    elif base is None:
        base = min(expected, last)
        unproven.add("base_offsets")
    if spread is not None:
        count = spread.record_count if count is None else count
        if timestamp < 0 and not is_append_time:
            timestamp = spread.first_timestamp
    if is_append_time and is_old:
        timestamp = line.max_timestamp
    if count is None:
        count = last - base + 1
        unproven.add("record_counts")
    if timestamp < 0 <= line.max_timestamp:
        unproven.add("first_timestamps")
    derived = line._replace(base_offset=base, base_timestamp=timestamp, record_count=count)
    return Batch(**derived._asdict())


_FINGERPRINTED = attrgetter(
    "offset", "timestamp", "key_size", "value_size", "crc", "producer_id", "producer_epoch", "sequence"
)


def _fingerprinted(records: Sequence[RecordLine], unproven: set[str]) -> Batch:
    """A batch known only from its records: its size is that of keys and values, its CRC a fingerprint of the lines."""
    first, last = records[0], records[-1]
    unproven |= {"batch_checksums", "sizes"}
    if len(records) == 1 and first.crc is not None:
        # Alone inside an entry or an entry of its own: it must look the same in every log.
        return _row(_entry(first._replace(codec="none")), None, first.offset, unproven)
    shown = [_FINGERPRINTED(one) for one in records]
    if first.magic == 2:
        unproven |= {"contents", "leader_epochs"}
    attributes = CODEC_NAMES.index(first.codec) if first.codec in CODEC_NAMES else 0
    attributes |= LOG_APPEND_TIME if first.is_append_time else 0
    attributes |= TRANSACTIONAL if first.is_transactional else 0
    size = sum(max(one.key_size, 0) + max(one.value_size, 0) for one in records)
    crc = FINGERPRINT | zlib.crc32(repr(shown).encode("ascii"))
    valid = all(one.is_valid for one in records)
    times = [one.timestamp for one in records]
    return Batch(
        position=first.position,
        size=size,
        base_offset=first.offset,
        last_offset=last.offset,
        leader_epoch=ABSENT,
        magic=first.magic,
        crc=crc,
        crc_valid=valid,
        attributes=attributes,
        base_timestamp=times[0],
        max_timestamp=max(times),
        producer_id=first.producer_id,
        producer_epoch=first.producer_epoch,
        base_sequence=first.sequence,
        record_count=len(records),
    )


def _damage(listing: DumpListing, end: int, expected: int | None, unproven: set[str]) -> Iterator[Damage]:
    if listing.below_zero is not None:
        reason = "the listing of kafka-dump-log shows an offset below 0 here, which no log has"
        yield Damage(listing.below_zero, 0, reason, "corrupt", None, None)
    if listing.invalid_bytes:
        unproven.add("tail")
        reason = (
            f"kafka-dump-log found {count(listing.invalid_bytes, 'byte')} at the end, not a whole batch; "
            "its text does not tell an incomplete batch from other bytes"
        )
        yield Damage(end, listing.invalid_bytes, reason, "partial", expected, None)
    elif listing.failure is not None:
        what, length = listing.failure
        unproven.add("rest")
        place = f"a length field of {length}" if length is not None else what
        reason = f"kafka-dump-log stopped here at {place}; its text does not show what follows"
        yield Damage(end, 0, reason, "zero_filled" if length == 0 else "garbage", expected, None)
