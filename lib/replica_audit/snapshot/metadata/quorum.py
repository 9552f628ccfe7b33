"""Comparison of several nodes' copies of the metadata log: the newest, what is committed, and forks (Raft)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from replica_audit.snapshot.metadata.kraft_records import Voters
from replica_audit.snapshot.metadata.log_copies import MetadataCopy, StateSnapshot
from replica_audit.text import listed

#: Greatest usual difference between nodes' clocks.
CLOCKS_DIFFER_MS = 2_000
#: A greater difference cannot be due to clocks.
_CLOCK_WRONG_MS = 3_600_000


#: From so many on, consecutive ids are named by the first and the last.
_RUN = 5
#: Maximum number of ids and runs of ids that are named; the rest is counted.
_NAMED_RUNS = 20


def name_nodes(ids: Iterable[int | None]) -> str:
    """Nodes by their ids: node 1; nodes 1, 2 and 100; nodes 0 to 999 and 1001."""
    known = sorted({one for one in ids if one is not None})
    if not known:
        return "a node without an id"
    places = np.array(known)
    runs = [run.tolist() for run in np.split(places, np.flatnonzero(np.diff(places) != 1) + 1)]
    parts = [part for run in runs for part in ([run] if len(run) >= _RUN else [[one] for one in run])]
    words = [f"{part[0]} to {part[-1]}" if len(part) > 1 else str(part[0]) for part in parts[:_NAMED_RUNS]]
    if left := sum(map(len, parts[_NAMED_RUNS:])):
        words.append(f"{left} more")
    return f"node{'s' if len(known) > 1 else ''} {listed(words)}"


class Fork(NamedTuple):
    """Two copies that contradict each other, one of which was committed."""

    copy: MetadataCopy
    other: MetadataCopy
    offset: int
    reason: str


class Quorum(NamedTuple):
    """Comparison of the given copies."""

    newest: MetadataCopy
    agreed: Mapping[str, int]
    """By path of a copy, the offset up to which it is a prefix of the newest one."""
    committed_end: int | None
    """Offset from which no majority of the voters holds the records; None if too few voters were captured to tell."""
    forks: tuple[Fork, ...]
    whole: bool
    """True if a majority of the voters' copies was read to its end, so that nothing committed can be missing."""
    snapshots: tuple[StateSnapshot, ...]
    """Snapshots of all copies on the newest one's lineage, by end offset."""
    voters: Voters | None = None
    """None if unknown."""


def weigh_copies(copies: Sequence[MetadataCopy], voters: Voters | None) -> Quorum:
    """Compare the copies; `voters` are those of the newest copy, None if unknown (votes are then not counted)."""
    voting = votes(copies, voters)
    majority = math.inf if voters is None else len(voters.ids) // 2 + 1
    newest = newest_copy(copies)
    agreed = {copy.log.path: min(_agreed_end(newest, copy), newest.end_offset) for copy in copies}
    lineage = [
        one
        for copy in copies
        for one in copy.snapshots
        if one.end_offset <= max(agreed[copy.log.path], _behind(copy, newest))
    ]
    lineage.sort(key=lambda one: (one.end_offset, one.path))
    forks = tuple(_forks(copies, newest, voting, majority))
    committed = _committed_end([agreed[copy.log.path] for copy in voting], majority)
    if committed is not None and lineage:
        committed = max(committed, lineage[-1].end_offset)
    whole = sum(copy.reach <= copy.newness for copy in voting) >= majority
    return Quorum(newest, agreed, committed, forks, whole, tuple(lineage), voters)


def held_by_most(log: MetadataCopy, copies: Sequence[MetadataCopy], number: int) -> int | None:
    """Offset up to which `number` of the copies hold what `log` has; None if there are fewer copies."""
    return _committed_end([min(_agreed_end(log, copy), log.end_offset) for copy in copies], number)


def votes(copies: Sequence[MetadataCopy], voters: Voters | None) -> list[MetadataCopy]:
    """Copies that count as votes: each of a voter, in the directory from which the voter votes.

    Directories with one id are copies of one directory and count once.
    """
    voting: dict[object, MetadataCopy] = {}
    for copy in copies:
        if voters is not None and voters.admits(copy.node_id, copy.log.directory_id):
            voting.setdefault(copy.log.directory_id or copy.log.path, copy)
    return list(voting.values())


def find_seeded(copy: MetadataCopy, copies: Sequence[MetadataCopy], voters: Voters | None) -> str | None:
    """Clause on evidence that a voter's log was put there, not written or fetched, so that it does not count for a majority
    (R5); else None."""
    if voters is None or copy.node_id not in voters.ids or copy.end_offset == 0:
        return None
    same = [
        one.node_id
        for one in copies
        if one is not copy and one.log.directory_id is not None and one.log.directory_id == copy.log.directory_id
    ]
    if same:
        return f"its directory.id is that of {name_nodes(same)}: one directory was copied"
    epoch = None if copy.state is None else copy.state.leader_epoch
    if epoch is not None and epoch < copy.epoch:
        return f"its quorum-state is of epoch {epoch}, and its log has records of epoch {copy.epoch}: a voter notes an epoch first"
    return None


def newest_copy(copies: Sequence[MetadataCopy]) -> MetadataCopy:
    """The copy with the greatest (epoch, end offset); on a tie the one that reaches back furthest, then the first by path."""
    return min(copies, key=lambda copy: (-copy.epoch, -copy.end_offset, copy.start_offset, copy.log.path))


def _behind(copy: MetadataCopy, newest: MetadataCopy) -> int:
    """End of an older copy that has no record in common with the newest one and lies wholly before it; else 0."""
    apart = copy.end_offset <= newest.start_offset and copy.epoch <= newest.epoch
    return copy.end_offset if apart else 0


def parting(one: MetadataCopy, other: MetadataCopy) -> int | None:
    """The first offset at which two copies hold different records; None if they never do.

    For copies without a common offset, the first in the earlier one that cannot precede the later one.
    """
    start, end = max(one.start_offset, other.start_offset), min(one.end_offset, other.end_offset)
    mine, theirs = one.keys, other.keys
    mine = mine[(mine["base_offset"] >= start) & (mine["base_offset"] < end)]
    theirs = theirs[(theirs["base_offset"] >= start) & (theirs["base_offset"] < end)]
    length = min(len(mine), len(theirs))
    differs = np.flatnonzero(mine[:length] != theirs[:length])
    if len(differs):
        return int(min(mine["base_offset"][differs[0]], theirs["base_offset"][differs[0]]))
    if len(mine) != len(theirs):
        longer = mine if len(mine) > len(theirs) else theirs
        return int(longer["base_offset"][length])
    return _ahead_of(one, other) if one.end_offset <= other.start_offset else _ahead_of(other, one)


def _ahead_of(earlier: MetadataCopy, later: MetadataCopy) -> int | None:
    """First offset in a copy that ends before another begins whose record has a later epoch than the other's beginning, or
    was written after it; None if there is none. In a log epochs never go down, nor does time by an hour."""
    if earlier.end_offset > later.start_offset or earlier.epoch < 0:
        return None
    begins = [snapshot.epoch for snapshot in later.snapshots if snapshot.end_offset >= earlier.end_offset]
    time_ms = None
    if later.pieces:
        begins.append(int(later.pieces[0].headers["leader_epoch"][0]))
        time_ms = int(later.pieces[0].headers["base_timestamp"][0])
    if not begins:
        return None
    highest = min(begins)
    for piece in earlier.pieces:
        headers = piece.headers
        ahead = headers["leader_epoch"] > highest
        if time_ms is not None:
            ahead |= headers["base_timestamp"] > time_ms + _CLOCK_WRONG_MS
        if ahead.any():
            return int(headers["base_offset"][ahead][0])
    return earlier.end_offset - 1 if earlier.epoch > highest else None


def find_splice(one: MetadataCopy, other: MetadataCopy) -> tuple[int, int] | None:
    """Offsets [start, end) in which two logs differ although they have the same records after them; None if there are none.

    A log truncated where it parts from its leader's never does: it differs up to its end.
    """
    start = parting(one, other)
    if start is None:
        return None
    common = np.intersect1d(one.keys, other.keys)
    after = common["base_offset"][common["base_offset"] > start]
    return (start, int(after.min())) if len(after) else None


def _agreed_end(one: MetadataCopy, other: MetadataCopy) -> int:
    """Offset up to which `other` does not contradict `one`: its end, or where the two part, possibly 0."""
    parting_at = parting(one, other)
    return other.end_offset if parting_at is None else parting_at


def _committed_end(ends: Sequence[int], majority: float) -> int | None:
    """Offset up to which a majority of the voters hold the newest copy's records, given the `ends` of their copies on its lineage."""
    return sorted(ends, reverse=True)[int(majority) - 1] if len(ends) >= majority else None


def _forks(
    copies: Sequence[MetadataCopy], newest: MetadataCopy, voting: Sequence[MetadataCopy], majority: float
) -> list[Fork]:
    """Contradictions that no uncommitted tail explains.

    A voter's tail that the newest copy lacks is legal unless it was committed: its node took a snapshot of it, or a majority of
    the voters hold it. Two records of one epoch at one offset are never legal, nor are logs that agree again after they differ.
    """
    found = []
    apart: dict[str, int] = {}
    for copy in copies:
        parting_at = parting(newest, copy) if copy is not newest else None
        if parting_at is None:
            continue
        apart[copy.log.path] = parting_at
        mine, theirs = epoch_at(copy, parting_at), epoch_at(newest, parting_at)
        covering = [one for one in copy.snapshots if one.end_offset > parting_at and one.epoch < newest.epoch]
        if mine == theirs and mine is not None:
            reason = f"both have records of controller epoch {mine} there, but different ones"
            found.append(Fork(copy, newest, parting_at, reason))
        elif find_splice(copy, newest) is not None:
            reason = "further on they have the same records again, which no log has that was cut where it parts"
            found.append(Fork(copy, newest, parting_at, reason))
        elif covering:
            reason = f"its snapshot {covering[0].path} was taken of what it has there, so that was committed"
            found.append(Fork(copy, newest, parting_at, reason))
    dissenters = [copy for copy in voting if copy.log.path in apart]
    if len(dissenters) >= majority:
        first = min(dissenters, key=lambda copy: copy.log.path)
        together = [copy for copy in dissenters if _agreed_end(copy, first) > apart[first.log.path]]
        if len(together) >= majority and not any(fork.copy is first for fork in found):
            names = name_nodes(copy.node_id for copy in together)
            reason = f"{names}, a majority of the voters, agree on it, as voters that were seeded from one disk do too"
            found.append(Fork(first, newest, apart[first.log.path], reason))
    return found


def epoch_at(copy: MetadataCopy, offset: int) -> int | None:
    """The controller epoch of a copy's record at an offset; None without one."""
    for piece in copy.pieces:
        at = (piece.headers["base_offset"] <= offset) & (offset <= piece.headers["last_offset"])
        if at.any():
            return int(piece.headers["leader_epoch"][at][0])
    return None
