"""Observations of replicas over time: `replica_progress` as JSON lines, CSV or Parquet, read part by part.

A row is one replica at one moment (columns: `PROGRESS_SCHEMA`); the rows of one topic, partition, `time_ms` and
`sequence` are one observation, and what is said of the leader is the same in all of them. A file is cut into parts, so
that many tasks can read it; a part becomes Arrow columns at once, and is looked at row by row only where that fails.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from replica_audit.formats.files.storage import TABLE_ERRORS, Snapshot
from replica_audit.formats.format_error import FormatError
from replica_audit.formats.progress.progress_columns import HINT, REQUIRED, from_columns
from replica_audit.formats.progress.progress_text import from_text
from replica_audit.model import QuarantineRow
from replica_audit.wording import count

_NAME = re.compile(r"(?:^|/)replica_progress[^/]*(?:/.*)?$")
_ENDINGS = {".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl", ".csv": "csv", ".parquet": "parquet"}

#: Bytes of text in a part.
PART_BYTES = 32 << 20
#: Unusable rows of one part are reported one by one up to this many, then counted.
_TOLD = 20


@dataclass(frozen=True, slots=True)
class ProgressPart:
    """A piece of a file that one task reads: bytes [start, end) of a text, or row groups [start, end) of Parquet."""

    path: str
    form: str
    start: int
    end: int


def progress_form(path: str) -> str | None:
    """jsonl, csv or parquet for a file called `replica_progress*`, or in a directory called so; else None."""
    name = path.rpartition("/")[2]
    if not _NAME.match(path) or name.startswith((".", "_")):
        return None
    return next((form for ending, form in _ENDINGS.items() if name.lower().endswith(ending)), None)


def plan_progress(snapshot: Snapshot, files: Iterable[tuple[str, int]]) -> Iterator[ProgressPart | QuarantineRow]:
    """Parts of the files (path, size); a quarantine row for a file that cannot be divided."""
    for path, size in files:
        form = progress_form(path)
        if form is None:
            raise ValueError(f"{path} is not called as observations are")
        if form != "parquet":
            yield from (ProgressPart(path, form, at, min(size, at + PART_BYTES)) for at in range(0, size, PART_BYTES))
            continue
        try:
            with snapshot.open_file(path) as stream:
                groups = pq.ParquetFile(stream).num_row_groups
        except (OSError, *TABLE_ERRORS) as error:
            yield _unreadable(path, None, str(error))
            continue
        yield from (ProgressPart(path, form, group, group + 1) for group in range(groups))


def read_progress(
    snapshot: Snapshot, part: ProgressPart, topics: Sequence[str] = ()
) -> Iterator[pa.Table | QuarantineRow]:
    """Tables of `PROGRESS_SCHEMA`, cut to topics that match a shell pattern, and what could not be used."""
    bad: list[QuarantineRow] = []
    try:
        with snapshot.open_file(part.path) as stream:
            if part.form == "parquet":
                group = pq.ParquetFile(stream).read_row_groups(list(range(part.start, part.end)))
                found = from_columns(group)
            else:
                header, data, position = _cut(stream, part)
                found, bad = from_text(part.path, part.form, header, data, position)
    except (OSError, *TABLE_ERRORS) as error:
        yield _unreadable(part.path, part.start if part.form != "parquet" else None, str(error))
        return
    except FormatError as error:
        yield QuarantineRow(None, part.path, error.position, None, "CAP-UNREADABLE", str(error))
        return
    yield from bad[:_TOLD]
    if len(bad) > _TOLD:
        yield _ignored(part.path, bad[_TOLD].position, f"{count(len(bad) - _TOLD, 'more unusable row')} from here on")
    whole = pc.is_valid(found["time_ms"])
    for name in REQUIRED:
        whole = pc.and_(whole, pc.is_valid(found[name]))
    lacking = found.num_rows - pc.sum(whole).as_py() if found.num_rows else 0
    if lacking:
        text = f"{count(lacking, 'row')} without a topic, partition, time or broker_id"
        yield _ignored(part.path, part.start if part.form != "parquet" else None, text)
        found = found.filter(whole)
    if topics:
        names = [one for one in pc.unique(found["topic"]).to_pylist() if any(fnmatchcase(one, each) for each in topics)]
        found = found.filter(pc.is_in(found["topic"], pa.array(names, pa.string())))
    if found.num_rows:
        yield found


def _cut(stream, part: ProgressPart) -> tuple[bytes, bytes, int]:
    """Header line (CSV only), the lines that begin in the part, and the position of the first of them."""
    header = b""
    if part.form == "csv":
        stop = _next_line(stream, 1)
        stream.seek(0)
        header = stream.read(stop)
    start = max(len(header), _next_line(stream, part.start))
    end = _next_line(stream, part.end)
    if start >= end:
        return header, b"", start
    stream.seek(start)
    return header, stream.read(end - start), start


def _next_line(stream, position: int) -> int:
    """Where the first line at or after `position` begins."""
    if position == 0:
        return 0
    stream.seek(position - 1)
    at = position - 1
    while chunk := stream.read(64 << 10):
        found = chunk.find(b"\n")
        if found >= 0:
            return at + found + 1
        at += len(chunk)
    return at


def _unreadable(path: str, position: int | None, reason: str, code: str = "CAP-UNREADABLE") -> QuarantineRow:
    text = f"{path}: expected rows of replica_progress, found {' '.join(reason.split())[:200]}; {HINT}"
    return QuarantineRow(None, path, position, None, code, text)


def _ignored(path: str, position: int | None, reason: str) -> QuarantineRow:
    """Rows that cannot be used, in a file that can."""
    return _unreadable(path, position, reason, "INPUT-IGNORED")
