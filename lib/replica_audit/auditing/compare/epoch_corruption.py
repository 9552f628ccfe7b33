"""Leader epochs that were changed on disk: the same batch has another epoch on another replica, and no other source knows it.

A batch's leader epoch is outside its checksum (F.2, LOG-CRC-BLIND). A producer that retries after a failover also leaves equal
bytes in two epochs; but then an election began the epoch, and epoch files or the metadata log have it. Such a batch is
restored: lineages, comparisons and replays use the other replica's epoch.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple, get_args

from replica_audit.auditing.replicas.log_contents import CorruptEpoch
from replica_audit.literals import Confidence

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from replica_audit.auditing.replicas.replica_facts import CopyKey, ReplicaFacts
    from replica_audit.model import Leadership

_RANKS: tuple[Confidence, ...] = get_args(Confidence)[::-1]


class _Stretch(NamedTuple):
    """Offsets [start, end) that one replica has in epoch `own` and another in epoch `other`."""

    start_offset: int
    end_offset: int
    own: int
    other: int
    goes_on: bool
    """True if the replica has more of this epoch after the range, where the other's has ended."""
    is_contradicted: bool
    """True if its epoch is above that of the replica's following batch, or below that of the preceding one."""


def doubtful_epochs(copies: Sequence[ReplicaFacts], leadership: Leadership | None, at_rest: bool) -> list[CorruptEpoch]:
    """Find ranges whose epoch may have been changed, by lineages and epoch files alone; `confirm_rot` checks the batches.

    `at_rest`: all copies are of one moment, so that no file was copied before its log's last batches were written.
    """
    found: dict[tuple, CorruptEpoch] = {}
    stretches = [_stretches(facts) for facts in copies]
    for facts, of_facts in zip(copies, stretches, strict=True):
        others = [(other, theirs) for other, theirs in zip(copies, stretches, strict=True) if theirs != of_facts]
        own = list(_split_by_file(facts, of_facts)) if others else []
        for other, theirs in others:
            for part in _differing(facts, own, theirs):
                confidence = _confidence(facts, other, part, copies, leadership, at_rest)
                if confidence is not None:
                    found[facts.key, other.key, part.start_offset] = CorruptEpoch(
                        facts.key,
                        part.start_offset,
                        part.end_offset,
                        part.own,
                        part.other,
                        other.key,
                        confidence,
                        _start_in_file(facts, part.own) == part.start_offset,
                    )
    # Only one side can be corrupt: keep the more confident suspicion; on a tie drop both.
    return [
        one
        for (key, other, start), one in found.items()
        if (key_back := (other, key, start)) not in found
        or _RANKS.index(found[key_back].confidence) < _RANKS.index(one.confidence)
    ]


def confirm_rot(
    doubts: Iterable[CorruptEpoch], rows: Mapping[CopyKey, NDArray[np.void]]
) -> dict[CopyKey, tuple[CorruptEpoch, ...]]:
    """Return the suspicions in `doubts` that the batches confirm, by copy: the other replica has every batch, in another epoch.

    `rows` are the batches (`BATCH_DTYPE`) of chunks whose digests differ.
    """
    confirmed = []
    for one in doubts:
        own, other = (set(_contents(some[_within(some, one)])) for some in (rows[one.key], rows[one.good_key]))
        if own and own <= other:
            confirmed.append(one)
    return rot_by_copy(confirmed)


def rot_by_copy(doubts: Iterable[CorruptEpoch]) -> dict[CopyKey, tuple[CorruptEpoch, ...]]:
    """Suspicions by copy, in order of their ranges; of several on one range, the first."""
    found: dict[CopyKey, dict[tuple[int, int], CorruptEpoch]] = {}
    for one in doubts:
        found.setdefault(one.key, {}).setdefault((one.start_offset, one.end_offset), one)
    return {key: tuple(parts[place] for place in sorted(parts)) for key, parts in found.items()}


def restore_epochs(rows: NDArray[np.void], rot: Collection[CorruptEpoch]) -> NDArray[np.void]:
    """Restore corrupt epochs in `rows` (`BATCH_DTYPE`); returns the same array if there are none."""
    rows = rows.copy() if rot else rows
    for one in rot:
        rows["leader_epoch"][_within(rows, one) & (rows["leader_epoch"] == one.leader_epoch)] = one.true_epoch
    return rows


def _within(rows: NDArray[np.void], one: CorruptEpoch) -> NDArray[np.bool_]:
    return (rows["base_offset"] >= one.start_offset) & (rows["base_offset"] < one.end_offset)


def _contents(rows: NDArray[np.void]) -> Iterator[tuple]:
    sound = rows["crc_valid"]
    return zip(*(rows[name].tolist() for name in ("base_offset", "last_offset", "crc", "size")), sound.tolist())


#: (start, end, epoch).
_Place = tuple[int, int, int]


def _stretches(facts: ReplicaFacts) -> list[_Place]:
    """(start, end, epoch) of the replica's batches above its log start, neighbours of one epoch joined."""
    starts = [*facts.epoch_starts, (-1, facts.found_end_offset)]
    floor = facts.local_start_offset
    return [(max(start, floor), end, epoch) for (epoch, start), (_, end) in pairwise(starts) if end > floor]


def _split_by_file(facts: ReplicaFacts, stretches: Iterable[_Place]) -> Iterator[_Place]:
    """A replica's `stretches`, split where its epoch file starts an epoch, so that a batch changed to its neighbour's epoch
    stays separate."""
    starts = sorted(start for _, start in facts.file_entries)
    for start, end, epoch in stretches:
        places = [start, *starts[bisect_right(starts, start) : bisect_left(starts, end)], end]
        yield from ((low, high, epoch) for low, high in zip(places, places[1:]))


def _differing(facts: ReplicaFacts, own: Sequence[_Place], theirs: Sequence[_Place]) -> Iterator[_Stretch]:
    """Ranges that one copy has in another epoch than a second one, from its `_split_by_file` and the other's `_stretches`,
    without batches that go back in offset."""
    at = 0
    for index, (start, end, epoch) in enumerate(own):
        falls = index + 1 < len(own) and 0 <= own[index + 1][2] < epoch
        while at > 0 and at < len(theirs) and theirs[at][0] > start:
            at -= 1
        while at < len(theirs) and theirs[at][1] <= start:
            at += 1
        for number in range(at, len(theirs)):
            low, high, their_epoch = theirs[number]
            if low >= end:
                break
            first = max(start, low)
            last = min(end, high)
            if first < last and their_epoch != epoch and their_epoch >= 0 and not _is_bare(facts, first, last):
                rises = index > 0 and own[index - 1][2] > epoch
                goes_on = end > last and last == theirs[-1][1]
                yield _Stretch(first, last, epoch, their_epoch, goes_on, falls or rises)


def _is_bare(facts: ReplicaFacts, start: int, end: int) -> bool:
    """True if the replica has no batch in [start, end); `_stretches` extends each range to the next."""
    return any(part.covers(start, end) for part in (*facts.gaps, *facts.missing))


def _confidence(
    facts: ReplicaFacts,
    other: ReplicaFacts,
    part: _Stretch,
    copies: Iterable[ReplicaFacts],
    leadership: Leadership | None,
    at_rest: bool,
) -> Confidence | None:
    """Confidence that `facts`, not `other`, has the changed epoch in `part`; None without evidence. By the first line that fits:

    | its own epoch file | and | answer |
    |---|---|---|
    | | another replica's file or batches have the epoch there | |
    | denies the epoch there | may be too old, or the other's file denies the other's epoch | |
    | denies it | a file confirms the other's epoch, or the neighbours contradict this one | proven |
    | denies it | | likely |
    | begins it there, or is unusable | it had a leader, or the other's log ends in this range | |
    | begins it there | another's file has it | |
    | begins it there, or is unusable | it had no leader, or the neighbours contradict it | proven |
    | is unusable | the other's file confirms the other's epoch | suspect |
    | is any other | | |
    """
    epoch, start = part.own, part.start_offset
    others = [one for one in copies if one is not facts]
    if any(_says(one, epoch, start) or _has(one, epoch, start) for one in others):
        return None
    led = _was_led(leadership, epoch)
    theirs = _says(other, part.other, start)
    if _says(facts, epoch, start) is False:
        is_newest = all(epoch > one for one, _ in facts.file_entries)
        is_final = at_rest or facts.killed or facts.was_stopped_before_copy or part.is_contradicted
        begins_later = any((_start_in_file(one, epoch) or 0) >= part.end_offset for one in others)
        if theirs is False or (is_newest and not is_final and not begins_later and (part.goes_on or led)):
            return None
        return "proven" if theirs or part.is_contradicted or _says(facts, part.other, start) else "likely"
    # An election wrote the file's entry, or recovery found it in the changed batch.
    is_other_entry = facts.found_lineage and (
        _start_in_file(facts, epoch) != start or any(_start_in_file(one, epoch) is not None for one in others)
    )
    if is_other_entry or part.goes_on or led:
        return None
    if led is False or part.is_contradicted:
        return "proven"
    return "suspect" if theirs and not facts.found_lineage else None


def _says(facts: ReplicaFacts, epoch: int, offset: int) -> bool | None:
    """True if the replica's epoch file gives `epoch` for `offset`; None without a usable file."""
    written = facts.found_lineage
    if not written:
        return None
    return written.epoch_for_offset(max(offset, facts.log_start_offset)) == epoch


def _has(facts: ReplicaFacts, epoch: int, offset: int) -> bool:
    return any(start <= offset < end and one == epoch for start, end, one in _stretches(facts))


def _start_in_file(facts: ReplicaFacts, epoch: int) -> int | None:
    return None if facts.found_lineage is None else facts.found_lineage.start_of(epoch)


def _was_led(leadership: Leadership | None, epoch: int) -> bool | None:
    """True if the metadata log has a leader of `epoch`; None if it does not reach back so far, or is missing."""
    if leadership is None:
        return None
    if not leadership.history:
        return True if epoch == leadership.leader_epoch else None
    if any(state.leader_epoch == epoch and state.leader_id is not None for state in leadership.history):
        return True
    return None if 0 <= epoch < min(state.leader_epoch for state in leadership.history) else False
