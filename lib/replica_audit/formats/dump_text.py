"""Text of kafka-dump-log: which logs it shows, and where. One text may show many files."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

from replica_audit.formats.dump_lines import is_start
from replica_audit.formats.errors import FormatError
from replica_audit.formats.names import parse_file_name

DUMPING = b"Dumping "
_HEADLINE = b"\n" + DUMPING
_STEP = 4 << 20
#: Longer paths there are none, and both lines that begin a listing fit.
_GREATEST_HEADLINES = 16 << 10


class Section(NamedTuple):
    """The listing of one log within a text: bytes [start, end), from its `Dumping` line to the next one."""

    dumped_path: str
    """As the `Dumping` line has it."""
    start: int
    end: int


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
    found, begin, kept = [], 0, b"\n"
    while chunk := stream.read(_STEP):
        text = kept + chunk
        at = text.find(_HEADLINE)
        while at >= 0:
            # The line feed before the text is none of its bytes.
            found.append(begin + at)
            at = text.find(_HEADLINE, at + 1)
        kept = text[-len(DUMPING) :]
        begin += len(text) - len(kept)
    # What lies in the bytes that two steps share was found twice.
    return sorted(set(found)), begin + len(kept) - 1


def _read_headline(stream: BinaryIO, start: int, size: int) -> tuple[str, bool]:
    """The path of a line `Dumping …`, and whether a listing begins there."""
    stream.seek(start)
    text = stream.read(min(_GREATEST_HEADLINES, size - start))
    lines = text.split(b"\n", 2)
    name = lines[0][len(DUMPING) :].strip().decode("utf-8", "backslashreplace")
    kind = parse_file_name(name.rpartition("/")[2]).kind
    if kind in ("unknown", "tmp"):
        return name, False
    # At the end of a text that broke off there is no second line.
    return name, kind != "log" or len(lines) == 1 or not lines[1].strip() or is_start(lines[1])


def read_lines(stream: BinaryIO, start: int, end: int) -> Iterator[tuple[int, bytes]]:
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
