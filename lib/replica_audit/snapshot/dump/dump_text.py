"""Text of kafka-dump-log: the logs that it lists, their places in the text, and the tool's remarks on them. One text may list
many files."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

from replica_audit.errors import FormatError
from replica_audit.parsing import INT32, parse_whole
from replica_audit.snapshot.log_dir_names import parse_file_name

# Patterns are compiled on first use, and kept by `re`: most snapshots have no such text.
_STARTING = rb"(?:Log starting|Starting) offset: \d+\s*"
_INVALID_BYTES = rb"Found (\d+) invalid bytes at the end of \S+\s*"
_TOO_SMALL = rb".*CorruptRecordException: Found record size (-?\d+) smaller than minimum record overhead"
#: The tool prints a line piece by piece, so its last error may be in the middle of one.
_DIED = (
    rb"(?:(?:baseOffset|offset): -?\d+ [^#]*?)?"
    rb'(?:# the dump tool threw: |Exception in thread "[^"]*" |Caused by: )([\w.$]+)'
)
_REMARK = (
    rb"\s*$|Non-(?:con)?secu?tive offsets in |  -?\d+ is followed by -?\d+|Mismatches in :|  Index offset: "
    rb"|\s+at [\w.$/]+\("
)


def is_start(line: bytes) -> bool:
    """True for the line after `Dumping …` of a log."""
    return re.fullmatch(_STARTING, line) is not None


def parse_invalid_bytes(line: bytes) -> int | None:
    """Number of trailing bytes in which the tool found no batch; None for any other line."""
    match = re.fullmatch(_INVALID_BYTES, line)
    return parse_whole(match.group(1), 0, INT32) if match else None


def parse_failure(line: bytes) -> tuple[str, int | None] | None:
    """Error that ended the tool, and the length field at fault, if any; None for any other line."""
    died, small = re.match(_DIED, line), re.match(_TOO_SMALL, line)
    if small is not None:
        return "CorruptRecordException", parse_whole(small.group(1), -INT32 - 1, INT32)
    return (died.group(1).decode("ascii", "replace"), None) if died is not None else None


def is_remark(line: bytes) -> bool:
    """True for an empty line and for remarks of the tool that are derived from the batches here too."""
    return re.match(_REMARK, line) is not None


DUMPING = b"Dumping "
#: UTF-8 byte order mark, which an editor may have put before the text.
_MARK = b"\xef\xbb\xbf"
_DEATHS = (b"# the dump tool threw: ", b"Exception in thread ")
#: Line beginnings in listings of indexes, snapshots and epoch files; those of a log differ.
_OTHER_FILES = (
    rb"offset: -?\d+ position: \d+\s*$|timestamp: |producerId: |version: |Snapshot end offset|KRaft bootstrap"
    rb"|Mismatches |\S+ is empty|\S+ passed sanity|Found timestamp|Index timestamp|Processed "
)
_FIRST_OFFSET = rb"^(?:(?:Log s|S)tarting offset|baseOffset|offset): (\d+)"
_STEP = 4 << 20
#: Longer than any path, and enough for both lines that begin a listing.
_GREATEST_HEADLINES = 16 << 10
_USUAL_HEADLINES = 512
#: Longer lines come in pieces.
_GREATEST_LINE = 64 << 20


class Section(NamedTuple):
    """The listing of one log within a text: bytes [start, end), from its `Dumping` line to the next one."""

    dumped_path: str
    """Path in the `Dumping` line; '' in a text without such lines."""
    start: int
    end: int
    base_offset: int | None = None
    """Offset at which the listing begins, if it has no path."""


def find_sections(stream: BinaryIO) -> list[Section]:
    """The listings of logs in a text, in order; those of indexes, snapshots and other files are skipped.

    A line `Dumping …` counts only if a listing follows, since a payload may contain such a line. Reads the text once, and
    little of it twice. Raises FormatError for UTF-16, which a Windows shell writes.
    """
    sections: list[Section] = []
    current: tuple[str, int] | None = None
    candidates, size = _find_headlines(stream, DUMPING)
    for start in candidates:
        name, is_listing = _read_headline(stream, start, size)
        if not is_listing:
            continue
        if current is not None:
            sections.append(Section(*current, start))
        current = (name, start) if parse_file_name(name.rpartition("/")[2]).kind == "log" else None
    if current is not None:
        sections.append(Section(*current, size))
    return sections or ([] if candidates else _nameless_sections(stream, size))


def shows_files(stream: BinaryIO) -> bool:
    """True if a text lists a file of a log; listings of indexes and snapshots do not count."""
    candidates, size = _find_headlines(stream, DUMPING)
    return any(_read_headline(stream, start, size)[1] for start in candidates)


def _nameless_sections(stream: BinaryIO, size: int) -> list[Section]:
    """The listings of a text without `Dumping` lines: each begins with its starting offset, or is the whole text."""
    starts = sorted(
        _find_headlines(stream, b"Log starting offset: ")[0] + _find_headlines(stream, b"Starting offset: ")[0]
    )
    starts = [start for start in starts if is_start(_read_head(stream, start, size)[0])]
    if not starts:
        lines = _read_head(stream, 0, size)
        starts = [0] if any(re.match(_FIRST_OFFSET, line.removeprefix(_MARK)) for line in lines) else []
    sections = []
    for start, end in zip(starts, [*starts[1:], size], strict=False):
        matches = [found for line in _read_head(stream, start, end) if (found := re.search(_FIRST_OFFSET, line))]
        first = parse_whole(matches[0].group(1)) if matches else None
        sections.append(Section("", start, end, first or 0))
    return sections


def _find_headlines(stream: BinaryIO, words: bytes) -> tuple[list[int], int]:
    """Byte positions of all lines that begin with `words`, and the size of the text."""
    stream.seek(0)
    mark = stream.read(len(_MARK))
    if mark[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise FormatError("dump text", 0, "text in UTF-8 or ASCII", "UTF-16", "save the text as UTF-8")
    begin = len(mark) if mark == _MARK else 0
    stream.seek(begin)
    found, headline, kept = [], b"\n" + words, b"\n"
    while chunk := stream.read(_STEP):
        text = kept + chunk
        at = text.find(headline)
        while at >= 0:
            # The line feed before the text is not part of it.
            found.append(begin + at)
            at = text.find(headline, at + 1)
        kept = text[-len(words) :]
        begin += len(text) - len(kept)
    return found, begin + len(kept) - 1


def _read_headline(stream: BinaryIO, start: int, size: int) -> tuple[str, bool]:
    """The path in a line `Dumping …`, and True if a listing begins there."""
    lines = _read_head(stream, start, size)
    name = lines[0][len(DUMPING) :].strip().decode("utf-8", "backslashreplace")
    kind = parse_file_name(name.rpartition("/")[2]).kind
    if kind in ("unknown", "tmp"):
        return name, False
    # A text that was cut off may have no second line; if the tool failed at once, the log has no line.
    following = lines[1] if len(lines) > 1 else b""
    fits = is_start(following) if kind == "log" else re.match(_OTHER_FILES, following) is not None
    return name, fits or start + len(lines[0]) + 1 >= size or following.startswith((DUMPING, *_DEATHS))


def _read_head(stream: BinaryIO, start: int, end: int) -> list[bytes]:
    """The first lines from `start` on, at least two complete ones unless these are longer than any line of a listing."""
    stream.seek(start)
    head = stream.read(min(_USUAL_HEADLINES, end - start))
    if head.count(b"\n") < 2:
        head += stream.read(min(_GREATEST_HEADLINES, end - start) - len(head))
    return head.split(b"\n")


def read_lines(stream: BinaryIO, start: int, end: int) -> Iterator[tuple[int, bytes]]:
    """Lines with their line ends and byte positions, from `start` to `end`."""
    stream.seek(start)
    position = reached = start
    rest = b""
    while reached < end:
        chunk = stream.read(min(_STEP, end - reached))
        if not chunk:
            hint = "the file changed while it was read"
            raise FormatError("dump text", reached, f"text up to byte {end}", "its end", hint)
        reached += len(chunk)
        # At line feeds only; a payload may contain carriage returns.
        *parts, rest = (rest + chunk).split(b"\n")
        for line in parts:
            yield position, line + b"\n"
            position += len(line) + 1
        if len(rest) > _GREATEST_LINE:
            yield position, rest
            position += len(rest)
            rest = b""
    if rest:
        yield position, rest
