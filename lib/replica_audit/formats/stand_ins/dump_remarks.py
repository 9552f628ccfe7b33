"""What kafka-dump-log prints besides batches and records: where a log begins, what it found wrong, what it died of."""

from __future__ import annotations

import re

from replica_audit.formats.files.side_files import INT32, parse_whole

_STARTING = re.compile(rb"(?:Log starting|Starting) offset: \d+\s*")
_INVALID_BYTES = re.compile(rb"Found (\d+) invalid bytes at the end of \S+\s*")
_TOO_SMALL = re.compile(rb".*CorruptRecordException: Found record size (-?\d+) smaller than minimum record overhead")
#: The tool prints a line piece by piece, so that what it died of may stand in the middle of one.
_DIED = re.compile(
    rb"(?:(?:baseOffset|offset): -?\d+ [^#]*?)?"
    rb'(?:# the dump tool threw: |Exception in thread "[^"]*" |Caused by: )([\w.$]+)'
)
_REMARK = re.compile(
    rb"\s*$|Non-(?:con)?secu?tive offsets in |  -?\d+ is followed by -?\d+|Mismatches in :|  Index offset: "
    rb"|\s+at [\w.$/]+\("
)


def is_start(line: bytes) -> bool:
    """Whether this is the line that follows `Dumping …` of a log."""
    return _STARTING.fullmatch(line) is not None


def parse_invalid_bytes(line: bytes) -> int | None:
    """How many trailing bytes the tool found not to be a batch; None for any other line."""
    match = _INVALID_BYTES.fullmatch(line)
    return parse_whole(match.group(1), 0, INT32) if match else None


def parse_failure(line: bytes) -> tuple[str, int | None] | None:
    """Why the tool died, and the length field that it died of where it was one; None for any other line."""
    died, small = _DIED.match(line), _TOO_SMALL.match(line)
    if small is not None:
        return "CorruptRecordException", parse_whole(small.group(1), -INT32 - 1, INT32)
    return (died.group(1).decode("ascii", "replace"), None) if died is not None else None


def is_remark(line: bytes) -> bool:
    """Whether the line is empty or one of the tool's remarks, which are drawn from the batches here as well."""
    return _REMARK.match(line) is not None
