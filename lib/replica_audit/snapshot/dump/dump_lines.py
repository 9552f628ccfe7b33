"""Lines of kafka-dump-log's text, 0.10 to 4.3: a batch, or a record in a listing without batches.

Every line is matched from its first to its last fixed word, so that a payload is not mistaken for fields. Payloads, keys
and header keys are skipped and never kept. Kafka: `DumpLogSegments`.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from replica_audit.batch_header import CONTROL, DELETE_HORIZON, LOG_APPEND_TIME, TRANSACTIONAL
from replica_audit.parsing import INT16, INT32, INT64, parse_whole
from replica_audit.segments.compression import CODEC_NAMES
from replica_audit.segments.message_set import OVERHEAD_BYTES

UINT32 = 2**32 - 1

_KEY, _PAYLOAD = b" key: ", b" payload: "
#: End of a line without header keys if key and payload are left out: a number, a verdict, or the stray brace of 3.0.
_FIELD_ENDS = (*(b"%d" % digit for digit in range(10)), b"true", b"false", b"}")
_TIME = rb"(?P<kind>CreateTime|LogAppendTime|NoTimestampType): (?P<time>-?\d+)"

# Patterns are compiled on first use, and kept by `re`: most snapshots have no such text.

#: magic 2: 0.11 has no `count`, `isControl` comes and goes, `isvalid` moved to the end in 2.2, `deleteHorizonMs` exists since
#: 3.2. Below magic 2 the line begins with the entry's own (last) offset.
_BATCH = (
    rb"(?:baseOffset: (?P<base>-?\d+) lastOffset: (?P<last>-?\d+)(?: count: (?P<count>-?\d+))? "
    rb"baseSequence: (?P<sequence>-?\d+) lastSequence: -?\d+ producerId: (?P<producer>-?\d+) "
    rb"producerEpoch: (?P<producer_epoch>-?\d+) partitionLeaderEpoch: (?P<epoch>-?\d+) "
    rb"isTransactional: (?P<transactional>true|false)(?: isControl: (?P<control>true|false))?"
    rb"(?: deleteHorizonMs: OptionalLong(?:\.empty|\[(?P<horizon>-?\d+)\]))?|offset: (?P<offset>-?\d+))"
    rb" position: (?P<position>\d+) " + _TIME + rb"(?: isvalid: (?P<early>true|false))? size: (?P<size>\d+) "
    rb"magic: (?P<magic>-?\d+) compresscodec: (?P<codec>\w+) crc: (?P<crc>\d+)(?: isvalid: (?P<valid>true|false))?\s*"
)

#: 0.10 (`payloadsize`, the same for entries and for the messages inside), and 0.11 to 2.1 with --deep-iteration.
_RECORD = (
    rb"(?s)offset: (?P<offset>-?\d+) position: (?P<position>\d+) " + _TIME + rb" isvalid: (?P<valid>true|false) "
    rb"(?:payloadsize: (?P<payload>-?\d+) magic: (?P<old_magic>[01]) compresscodec: (?P<old_codec>\w+) "
    rb"crc: (?P<old_crc>\d+)"
    rb"(?: keysize: (?P<old_key>-?\d+))?"
    rb"|keysize: (?P<key>-?\d+) valuesize: (?P<value>-?\d+) magic: (?P<magic>[012]) compresscodec: (?P<codec>\w+)"
    rb"(?: producerId: (?P<producer>-?\d+) producerEpoch: (?P<producer_epoch>-?\d+) sequence: (?P<sequence>-?\d+) "
    rb"isTransactional: (?P<transactional>true|false) headerKeys: \[| crc: (?P<crc>\d+)))"
    rb"(?: key: | payload: |.*\]|\s*$)"
)

#: A record below its batch line, 2.2 and later; 2.8 has the sizes before the time.
_INSIDE = (
    rb"\| offset: (?P<offset>\d+) (?:isValid: \w+ crc: \w+ key[sS]ize: (?P<key>-?\d+) value[sS]ize: (?P<value>-?\d+) )?"
    rb"(?:CreateTime|LogAppendTime|NoTimestampType): (?P<time>-?\d+) "
    rb"(?:key[sS]ize: (?P<new_key>-?\d+) value[sS]ize: (?P<new_value>-?\d+))?"
)


class BatchLine(NamedTuple):
    """A batch, or a whole legacy entry, from a batch line; absent values are -1."""

    position: int
    size: int
    base_offset: int | None
    """None for an entry of magic 0 or 1, whose line has only the last offset."""
    last_offset: int
    leader_epoch: int
    magic: int
    crc: int
    crc_valid: bool
    attributes: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int | None
    """None if this version does not show it."""


class Contents(NamedTuple):
    """Lengths of key and payload in a record's line."""

    key_size: int
    value_size: int
    has_headers: bool
    """True if header keys precede them."""

    @property
    def shown_size(self) -> int:
        """Bytes from ` key: ` or ` payload: ` to the end."""
        key = len(_KEY) + self.key_size if self.key_size >= 0 else 0
        return key + (len(_PAYLOAD) + self.value_size if self.value_size >= 0 else 0)

    def end(self, text: bytes) -> bool:
        """True if key and payload end where `text` ends, so that the next line is one of the tool's.

        This is so for text that the tool can print unchanged; other bytes change in length as they are printed.
        """
        shown = self.shown_size
        if not 0 < shown < len(text):
            return False
        contents, before = text[-shown:], text[:-shown]
        at = len(_KEY) + self.key_size if self.key_size >= 0 else 0
        begins = contents.startswith(_KEY if self.key_size >= 0 else _PAYLOAD)
        follows = self.value_size < 0 or contents.startswith(_PAYLOAD, at)
        return begins and follows and before.endswith(b"]" if self.has_headers else _FIELD_ENDS)

    def are_left_out(self, line: bytes) -> bool:
        """True if the record's line has neither key nor payload."""
        return _KEY not in line and _PAYLOAD not in line and (line.endswith(b"]") or not self.has_headers)


class InnerLine(NamedTuple):
    """A record below its batch line."""

    offset: int
    timestamp: int
    contents: Contents


class RecordLine(NamedTuple):
    """A record or, in 0.10, perhaps a whole entry: the two look alike."""

    offset: int
    position: int
    """Position of the entry or batch that contains the record."""
    timestamp: int
    is_append_time: bool
    is_valid: bool
    key_size: int
    value_size: int
    magic: int
    codec: str
    crc: int | None
    """CRC of the message, for magic 0 and 1."""
    producer_id: int
    producer_epoch: int
    sequence: int
    is_transactional: bool
    is_oldest: bool
    """True for a line of 0.10, where `codec` is that of the message, not of the entry around it."""
    contents: Contents

    @property
    def entry_size(self) -> int:
        """Size in bytes of a legacy message as an entry of its own."""
        return OVERHEAD_BYTES[self.magic] + max(self.key_size, 0) + max(self.value_size, 0)


def parse_batch_line(line: bytes) -> BatchLine | None:
    """The batch of a batch line; None for any other line, one without a verdict on its CRC, or one with numbers that no batch can have."""
    match = re.fullmatch(_BATCH, line)
    if match is None or (match.group("valid") is None) == (match.group("early") is None):
        return None
    get = match.group
    attributes = _codec(get("codec")) | (LOG_APPEND_TIME if get("kind") == b"LogAppendTime" else 0)
    attributes |= TRANSACTIONAL if get("transactional") == b"true" else 0
    # A producer numbers the records of its transactions, but not the marker (`DefaultRecordBatch`).
    is_marker = get("control") is None and get("transactional") == b"true" and get("sequence").startswith(b"-")
    attributes |= CONTROL if get("control") == b"true" or is_marker else 0
    attributes |= DELETE_HORIZON if get("horizon") is not None else 0
    is_new = get("offset") is None
    try:
        found = BatchLine(
            position=_whole(get("position"), INT32),
            size=_whole(get("size"), INT32),
            base_offset=_offset(get("base")) if is_new else None,
            last_offset=_offset(get("last") if is_new else get("offset")),
            leader_epoch=_whole(get("epoch"), INT32) if is_new else -1,
            magic=_whole(get("magic"), 127),
            crc=_whole(get("crc"), UINT32),
            crc_valid=(get("valid") or get("early")) == b"true",
            attributes=attributes,
            base_timestamp=-1 if get("horizon") is None else _whole(get("horizon")),
            max_timestamp=_whole(get("time")),
            producer_id=_whole(get("producer")) if is_new else -1,
            producer_epoch=_whole(get("producer_epoch"), INT16) if is_new else -1,
            base_sequence=_whole(get("sequence"), INT32) if is_new else -1,
            record_count=None if get("count") is None else _whole(get("count"), INT32),
        )
    except _Impossible:
        return None
    # A line of the old form has no base offset, which magic 2 requires.
    return found if is_new == (found.magic >= 2) else None


def parse_record_line(line: bytes) -> RecordLine | None:
    """The record of a line of 0.10, or of 0.11 to 2.1 with --deep-iteration; None for any other line."""
    match = re.match(_RECORD, line)
    if match is None:
        return None
    get = match.group
    old = get("payload") is not None
    crc = get("old_crc") if old else get("crc")
    try:
        key_size = _whole((get("old_key") or b"-1") if old else get("key"), INT32)
        value_size = _whole(get("payload") if old else get("value"), INT32)
        return RecordLine(
            offset=_offset(get("offset")),
            position=_whole(get("position"), INT32),
            timestamp=_whole(get("time")),
            is_append_time=get("kind") == b"LogAppendTime",
            is_valid=get("valid") == b"true",
            key_size=key_size,
            value_size=value_size,
            magic=int(get("old_magic") if old else get("magic")),
            codec=(get("old_codec") if old else get("codec")).decode("ascii", "replace").lower(),
            crc=None if crc is None else _whole(crc, UINT32),
            producer_id=_whole(get("producer") or b"-1"),
            producer_epoch=_whole(get("producer_epoch") or b"-1", INT16),
            sequence=_whole(get("sequence") or b"-1", INT32),
            is_transactional=get("transactional") == b"true",
            is_oldest=old,
            contents=Contents(key_size, value_size, get("producer") is not None),
        )
    except _Impossible:
        return None


def parse_inner(line: bytes) -> InnerLine | None:
    """The record of a line below its batch (2.2 and later); None for any other line."""
    match = re.match(_INSIDE, line)
    if match is None:
        return None
    get = match.group
    try:
        key, value = (_whole(get(name) or get(f"new_{name}") or b"-1", INT32) for name in ("key", "value"))
        offset, time = _offset(get("offset")), _whole(get("time"))
    except _Impossible:
        return None
    return InnerLine(offset, time, Contents(key, value, b" headerKeys: [" in line))


def position_below_zero(line: bytes) -> int | None:
    """Position in the segment of a batch or record at an offset below 0; None for any other line."""
    match = re.fullmatch(_BATCH, line) or re.match(_RECORD, line)
    if match is None:
        return None
    names = match.groupdict()
    texts = (names.get("base"), names.get("last"), names.get("offset"))
    if not any(text is not None and text.startswith(b"-") for text in texts):
        return None
    return parse_whole(match.group("position"), 0, INT32)


class _Impossible(ValueError):
    """A number that the field cannot have."""


def _whole(text: bytes, greatest: int = INT64) -> int:
    value = parse_whole(text, -greatest - 1, greatest)
    if value is None:
        raise _Impossible
    return value


def _offset(text: bytes) -> int:
    value = _whole(text, INT64 - 1)
    if value < 0:
        raise _Impossible
    return value


def _codec(name: bytes) -> int:
    text = name.decode("ascii", "replace").lower()
    return CODEC_NAMES.index(text) if text in CODEC_NAMES else 7
