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
                confidence = confidence_of(_signs(facts, other, part, copies, leadership, at_rest))
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
                        any(_has(one, part.own, part.start_offset) for one in copies if one is not facts),
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
        own = rows[one.key]
        other = rows[one.good_key]
        own = own[_within(own, one) & (own["leader_epoch"] == one.leader_epoch)]
        other = other[_within(other, one) & (other["leader_epoch"] == one.true_epoch)]
        held = set(_contents(other))
        if one.in_file and one.confidence == "suspect" and len(own) > 1:
            # One changed header is plausible; several in a row are more likely due to an election.
            continue
        if one.is_contested and not _is_foreign(own, one, rows):
            continue
        if len(own) and all(content in held for content in _contents(own)):
            confirmed.append(one)
    return rot_by_copy(confirmed)


def rot_by_copy(doubts: Iterable[CorruptEpoch]) -> dict[CopyKey, tuple[CorruptEpoch, ...]]:
    """Suspicions by copy, in order of their ranges; of several on one range, the first."""
    found: dict[CopyKey, dict[tuple[int, int], CorruptEpoch]] = {}
    for one in doubts:
        found.setdefault(one.key, {}).setdefault((one.start_offset, one.end_offset), one)
    return {key: tuple(parts[place] for place in sorted(parts)) for key, parts in found.items()}


def _is_foreign(own: NDArray[np.void], one: CorruptEpoch, rows: Mapping[CopyKey, NDArray[np.void]]) -> bool:
    """True if other copies have different batches there in the epoch of `own`: an epoch has one leader, and so one log."""
    contents = set(_contents(own))
    found = False
    for key in rows.keys() - {one.key}:
        theirs = rows[key]
        overlaps = (theirs["last_offset"] >= one.start_offset) & (theirs["base_offset"] < one.end_offset)
        held = set(_contents(theirs[overlaps & (theirs["leader_epoch"] == one.leader_epoch)]))
        if contents & held:
            return False
        found |= bool(held)
    return found


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


class EpochSigns(NamedTuple):
    """Evidence on which of two copies has the changed epoch in a range; "there" is its first offset."""

    own: bool | None
    """True if the copy's epoch file gives its batches' epoch there; None without a usable file."""
    theirs: bool | None
    """True if the other's epoch file gives the other's epoch there; None without a usable file."""
    known: bool
    """True if a third copy's file or batches have the epoch there."""
    led: bool | None
    """True if the epoch had a leader; None if the history does not reach back so far."""
    goes_on: bool
    contradicted: bool
    late: bool
    """True if the file may have been copied before the leader began the epoch and continued to write."""
    own_is_other: bool
    """True if the copy's epoch file gives the other's epoch there."""
    begins_there: bool
    """True if the copy's epoch file starts the epoch there."""
    in_others: bool
    """True if another copy's epoch file has the epoch."""
    has_other: bool
    """True if the copy's epoch file has the other's epoch."""
    settled: bool


def confidence_of(signs: EpochSigns) -> Confidence | None:
    """Confidence that this copy, not the other, has the changed epoch; None without evidence. By the first line that fits:

    | own file has it there | and | answer |
    |---|---|---|
    | yes, or no file | a third copy knows it there | |
    | no file | it had no leader, the other's file confirms the other's epoch | proven |
    | no file | it had no leader | likely |
    | no file | it had a leader, or the other's file does not confirm the other's epoch, or the stretch goes on | |
    | no file | the stretch is contradicted | proven |
    | no file | | suspect |
    | no | the other's file denies the other's epoch, or the own file may be too old | |
    | no | the other's or the own file confirms the other's epoch, or the stretch is contradicted | proven |
    | no | | likely |
    | yes | the file begins it elsewhere, the stretch goes on, or it had a leader | |
    | yes | another's file has the epoch | |
    | yes | it had no leader, or the stretch is contradicted | proven |
    | yes | the file lacks the other's epoch: two histories | |
    | yes | the range was settled before | suspect |
    | yes | | |
    """
    if signs.known and signs.own is not False:
        return None
    if signs.own is None:
        if signs.led is False:
            return "proven" if signs.theirs else "likely"
        if signs.led or not signs.theirs or signs.goes_on:
            return None
        return "proven" if signs.contradicted else "suspect"
    if not signs.own:
        if signs.theirs is False or signs.late:
            return None
        return "proven" if signs.theirs or signs.contradicted or signs.own_is_other else "likely"
    # The copy's epoch file has the epoch: an election wrote it, or recovery found it in the changed batch.
    if not signs.begins_there or signs.goes_on or signs.led or signs.in_others:
        return None
    if signs.led is False or signs.contradicted:
        return "proven"
    return "suspect" if signs.has_other and signs.settled else None


def _signs(
    facts: ReplicaFacts,
    other: ReplicaFacts,
    part: _Stretch,
    copies: Sequence[ReplicaFacts],
    leadership: Leadership | None,
    at_rest: bool,
) -> EpochSigns:
    epoch = part.own
    start = part.start_offset
    others = [one for one in copies if one is not facts]
    starts = [_start_in_file(one, epoch) for one in others]
    known = any(_says(one, epoch, start) or _has(one, epoch, start) for one in others)
    led = _was_led(leadership, epoch)
    is_newest = all(epoch > one for one, _ in facts.file_entries)
    is_final = at_rest or facts.killed or facts.was_stopped_before_copy or part.is_contradicted
    may_be_late = is_newest and not is_final and (part.goes_on or (led and not known))
    return EpochSigns(
        own=_says(facts, epoch, start),
        theirs=_says(other, part.other, start),
        known=known,
        led=led,
        goes_on=part.goes_on,
        contradicted=part.is_contradicted,
        late=bool(may_be_late) and not any((one or 0) >= part.end_offset for one in starts),
        own_is_other=_says(facts, part.other, start) or False,
        begins_there=_start_in_file(facts, epoch) == start,
        in_others=any(one is not None for one in starts),
        has_other=_start_in_file(facts, part.other) is not None,
        settled=_is_settled(facts, other, leadership, start),
    )


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


def _is_settled(facts: ReplicaFacts, other: ReplicaFacts, leadership: Leadership | None, start: int) -> bool:
    """True if both replicated their records from `start` on unchanged, so that no producer resent them.

    If both are in sync, neither has records that the other's election replaced. Without an ISR, the other replica's checkpoint
    must show that they were committed in its epoch.
    """
    if leadership is None or leadership.source == "inferred" or leadership.isr is None:
        checkpoint = other.directory.high_watermark_checkpoint
        return checkpoint is not None and checkpoint > start
    return {facts.broker_id, other.broker_id} <= set(leadership.isr)
