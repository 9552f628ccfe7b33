"""A segment as the listings of kafka-dump-log show it, in the shape that a scan of its file would give."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import numpy as np

from replica_audit.batch_header import ABSENT, CODEC_MASK, LOG_APPEND_TIME, TRANSACTIONAL, Batch
from replica_audit.formats.segments.batches import BATCH_DTYPE
from replica_audit.formats.segments.codecs import CODEC_NAMES
from replica_audit.formats.stand_ins.dump_lines import BatchLine, RecordLine
from replica_audit.formats.stand_ins.dumped_segment import Listing, Spread
from replica_audit.formats.stand_ins.second_hand import BATCHES, ENTRIES, FINGERPRINT, RECORDS, SecondHandLog
from replica_audit.model import Damage
from replica_audit.wording import count


def assemble_dumped_log(listings: Sequence[Listing], base_offset: int) -> SecondHandLog:
    """Put the listings of one segment together.

    The one with the most batch lines counts; of the others come the offsets and numbers of records inside an entry,
    which a shallow listing of magic 0 and 1 (and of 0.11 to 1.1) does not show. `base_offset` is that of the file.
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
    """Whether two listings show another entry at one place: then they are of different moments."""
    return any(
        (line.last_offset, line.crc, line.size)
        != (other[position].last_offset, other[position].crc, other[position].size)
        for position, line in lines.items()
        if position in other
    )


def _whole_entries(listing: Listing) -> dict[int, BatchLine]:
    """By position, the lines that show a batch or entry as such: its CRC and its size."""
    if listing.batches:
        return {line.position: line for line in listing.batches}
    positions = list(listing.records)
    following = dict(zip(positions, positions[1:], strict=False))
    found = {}
    for position, records in listing.records.items():
        record = records[0]
        if len(records) > 1 or record.crc is None or not (record.is_oldest or record.codec == "none"):
            continue
        # In 0.10 the only message inside a wrapper looks like an entry, but is of another size.
        if following.get(position, position + record.entry_size) == position + record.entry_size:
            found[position] = _entry(record)
    last = positions[-1] if positions else None
    if last in found and listing.records[last][0].codec == "none" and len(found) < len(positions):
        # Nothing follows that tells whether this is one more message inside a wrapper.
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
    """`line` as a batch; what neither it nor `spread` shows is derived and named in `unproven`."""
    base, last, count, timestamp = line.base_offset, line.last_offset, line.record_count, line.base_timestamp
    is_old, is_append_time = line.magic < 2, bool(line.attributes & LOG_APPEND_TIME)
    if is_old and not line.attributes & CODEC_MASK:
        spread = Spread(last, last, 1, line.max_timestamp)
    elif is_old and spread is not None and spread.last_offset != last:
        # Another moment, or a listing that broke off inside this entry.
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
    return Batch(
        position=line.position,
        size=line.size,
        base_offset=base,
        last_offset=last,
        leader_epoch=line.leader_epoch,
        magic=line.magic,
        crc=line.crc,
        crc_valid=line.crc_valid,
        attributes=line.attributes,
        base_timestamp=timestamp,
        max_timestamp=line.max_timestamp,
        producer_id=line.producer_id,
        producer_epoch=line.producer_epoch,
        base_sequence=line.base_sequence,
        record_count=count,
    )


def _fingerprinted(records: Sequence[RecordLine], unproven: set[str]) -> Batch:
    """A batch of which only records are shown: its size is that of keys and values, its CRC a fingerprint of the lines."""
    first, last = records[0], records[-1]
    if len(records) == 1 and first.crc is not None:
        # Nothing may tell whether it is an entry of its own or alone inside one: it must look the same in every log.
        unproven |= {"batch_checksums", "sizes"}
        return _row(_entry(first._replace(codec="none")), None, first.offset, unproven)
    shown = [
        (
            one.offset,
            one.timestamp,
            one.key_size,
            one.value_size,
            one.crc,
            one.producer_id,
            one.producer_epoch,
            one.sequence,
        )
        for one in records
    ]
    unproven |= {"batch_checksums", "sizes"}
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


def _damage(listing: Listing, end: int, expected: int | None, unproven: set[str]):
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
