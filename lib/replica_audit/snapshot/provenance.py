"""Logs known from a listing or table instead of their files, and what such input leaves unproven."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from replica_audit.model import Damage

#: Bit that marks a fingerprint of records in place of a batch's own CRC; every CRC is less.
FINGERPRINT = 1 << 40

#: The word of `UNPROVEN` for bytes that evidence lacks.
NOT_CAPTURED = "not_captured"

#: The word of `UNPROVEN` for the end of a log that was read through its broker.
ABOVE_HIGH_WATERMARK = "above_high_watermark"

#: Clauses on what second-hand input leaves unproven, by the words of `SegmentSummary.unproven`.
UNPROVEN = {
    "checksums": "checksums are what the input says of them, and were not computed again",
    "checksum_verdicts": "nothing says which checksums are right; all were taken to be",
    "batch_checksums": "no checksums of batches: records are compared by their offsets, times and sizes, and by what else "
    "is shown of them",
    "contents": "nothing stands for the contents of records: equal offsets, times and sizes do not prove equal records",
    "sizes": "sizes are not those of the file",
    "positions": "no positions in the file: the order of batches in it, and repeated ones, cannot be judged",
    "leader_epochs": "no leader epochs: they would say whether a difference is a tail that will be cut, or stays",
    "base_offsets": "offsets at which compressed entries begin are not shown, and taken from where the entry before ends",
    "record_counts": "numbers of records are not shown, and taken from the offsets",
    "first_timestamps": "times of first records are not shown",
    "timestamps": "no times of records",
    "attributes": "codecs, control records and transactions are not told apart",
    "producers": "no producer fields: repeated batches of a producer are not seen",
    "tail": "what the bytes after the last batch are is not shown",
    NOT_CAPTURED: "bytes after the last sound batch are not part of the evidence: the log may go on, or be damaged, there",
    ABOVE_HIGH_WATERMARK: "records above the replica's own high watermark are not captured: a broker gives them to no client",
    "rest": "what follows the place where the dump tool stopped is not shown",
    "left_out": "lines of the listing are missing or cannot be read: the log goes on, or has more in the middle",
    "cut_short": "the replica's own checkpoints lie past the end of what is shown: the listing may have been cut short",
    "one_moment": "two listings of the same file show different batches: they are of different moments, and the longer "
    "one counts",
    "overlap": "rows claim the same bytes of one file for different batches: they were not taken at one moment",
}

#: Words of `UNPROVEN` that leave the log's contents open, so that it cannot be compared.
UNDECIDED = ("leader_epochs", "left_out", NOT_CAPTURED, "cut_short", "one_moment", "overlap")

#: Forms: what represents a record batch. A segment file has the first; uncompressed legacy entries look the same there and
#: in a deep listing of 0.10 to 2.1, where a fingerprint represents a compressed entry.
BATCHES, ENTRIES, RECORDS = "batches", "entries", "records of kafka-dump-log"


class SecondHandLog(NamedTuple):
    """Items of a segment as `scan_segment` would give them, as far as a listing or table shows them."""

    batches: NDArray[np.void]
    damage: tuple[Damage, ...]
    size_bytes: int
    unproven: tuple[str, ...]
    """Words of `UNPROVEN`."""
    form: str
    """Form of the record batches: only logs of one form can be compared batch by batch."""


def are_comparable(one: str, other: str) -> bool:
    """True if logs of these two forms can be compared batch by batch; '' is the form of a log without batches."""
    return one == other or not one or not other or {one, other} in ({BATCHES, ENTRIES}, {RECORDS, ENTRIES})


def join_forms(forms: Iterable[str]) -> str:
    """Form of a log whose segments have these forms; incompatible ones make a form of their own."""
    found = set(forms)
    if len(found) > 1:
        found.discard(ENTRIES)
    return " and ".join(sorted(found))
