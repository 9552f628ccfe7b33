"""The log that a broker's next start would leave (`LogLoader.load`, `LogSegment.recover`).

After a clean stop nothing is checked. Otherwise the segments from the recovery point on are scanned; at the first bad
batch the file is cut and every later segment deleted, sound or not.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import NamedTuple

from replica_audit.model import SegmentSummary


class LoadedLog(NamedTuple):
    """The log end offset after a start, and where the loader cut the log, if it did."""

    log_end_offset: int
    cut_path: str | None = None
    cut_position: int | None = None
    is_checked: bool = True
    """False where the start checks a batch whose checksum was never computed here: the log may end below `log_end_offset`."""


def load_log(
    segments: Sequence[SegmentSummary], *, clean: bool, recovery_point: int | None, log_start_checkpoint: int | None
) -> LoadedLog:
    """The log that a start leaves of `segments`, in order of base offset; without a recovery point all are checked (`LogLoader.load`).

    Does not emulate the emptying of a segment whose index cannot be rebuilt (KAFKA-3919): which batches are indexed depends on
    settings that are not in the files.
    """
    loaded = LoadedLog(log_end_of(segments))
    if not clean:
        for segment, following in zip_longest(segments, segments[1:]):
            if following is not None and recovery_point is not None and following.base_offset <= recovery_point:
                continue
            if segment.unchecked_count:
                loaded = loaded._replace(is_checked=False)
            cut = _first_bad(segment)
            if cut is not None:
                position, end_offset = cut
                end = max(end_offset, segment.base_offset)
                loaded = LoadedLog(end, segment.path, position, loaded.is_checked)
                break
    if log_start_checkpoint is None:
        return loaded
    return loaded._replace(log_end_offset=max(loaded.log_end_offset, log_start_checkpoint))


def log_end_of(segments: Sequence[SegmentSummary]) -> int:
    """End of the last sound batch, or the last segment's base offset where that is greater; 0 without segments
    (`LogSegment.readNextOffset`)."""
    if not segments:
        return 0
    ends = [segment.last_offset + 1 for segment in segments if segment.last_offset is not None]
    return max([segments[-1].base_offset, *ends])


def _first_bad(segment: SegmentSummary) -> tuple[int, int] | None:
    """(position, log end offset before it) of the first batch that recovery rejects; None if all are sound."""
    bad = [
        (damage.position, segment.base_offset if damage.expected_offset is None else damage.expected_offset)
        for damage in segment.damage
    ]
    bad += [(item.position, item.base_offset) for item in segment.irregularities if item.kind == "crc"]
    return min(bad) if bad else None
