"""Follower truncation, one function per generation of the protocol, all with one signature.

Each takes the follower and the leader as `ReplicaState` and returns a `Replay`: where the follower's log ends when it
goes on fetching. Follows `AbstractFetcherThread.getOffsetTruncationState`, `truncateOnFetchResponse` and
`fetchOffsetAndTruncate`, and `Partition.readRecords` on the leader's side.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from replica_audit.protocol.lineage import Lineage
from replica_audit.schema import TruncationRound


class ReplicaState(NamedTuple):
    """A replica's log as truncation sees it: start, end, lineage and high watermark."""

    log_start_offset: int
    log_end_offset: int
    lineage: Lineage
    high_watermark: int
    """The replica's own, already clamped between its log start and end."""
    local_start_offset: int | None = None
    """First offset on local disk, above the log start where older segments are in remote storage only (KIP-405); None: the log start."""


class Replay(NamedTuple):
    """Outcome of a truncation: the follower keeps [its log start, truncate_to)."""

    protocol: str
    truncate_to: int
    rounds: int
    """Answers of the leader that were used."""
    reason: str
    """epoch_match, stepped_back, hw_fallback, out_of_range_tail, full_truncate, tiered_restart or none; recovery where
    the follower's own start had cut its log before."""
    steps: tuple[TruncationRound, ...] = ()
    tiered_from: int | None = None
    """With tiered_restart, the log end before the restart, below which the records are in remote storage; else None."""

    @property
    def kept_to(self) -> int:
        """End of the follower's records that stay part of the log: `truncate_to`, or `tiered_from` after a restart from
        remote storage."""
        return self.truncate_to if self.tiered_from is None else self.tiered_from


def replay_high_watermark(follower: ReplicaState, leader: ReplicaState) -> Replay:
    """0.8 to 0.10.2: cut to the follower's own high watermark, ask nobody (`ReplicaManager.makeFollowers`)."""
    return _after_fetch("high-watermark", follower, leader, follower.high_watermark, (), "hw_fallback")


def replay_kip101(follower: ReplicaState, leader: ReplicaState) -> Replay:
    """0.11 to 2.0.0 (KIP-101): ask once for the end of the follower's latest epoch; undefined means high watermark."""
    request = follower.lineage.latest_epoch
    if request is None:
        return _after_fetch("kip-101", follower, leader, follower.high_watermark, (), "hw_fallback")
    end_offset = leader.lineage.end_offset_for_kip101(request, leader.log_end_offset)
    if end_offset is None:
        truncate_to = follower.high_watermark
        reason = "hw_fallback"
    else:
        truncate_to = min(end_offset, follower.log_end_offset)
        reason = "epoch_match"
    step = TruncationRound(request, None, end_offset, None, None, truncate_to)
    return _after_fetch("kip-101", follower, leader, truncate_to, (step,), reason)


def replay_kip279(follower: ReplicaState, leader: ReplicaState) -> Replay:
    """2.0.1 to 2.7 (KIP-279): ask again with the next lower epoch until leader and follower name the same one."""
    lineage, end = follower.lineage, follower.log_end_offset
    steps: list[TruncationRound] = []
    while True:
        request = lineage.latest_epoch
        if request is None or (answer := leader.lineage.end_offset_for(request, leader.log_end_offset)) is None:
            end = min(follower.high_watermark, end)
            if request is not None:
                steps.append(TruncationRound(request, None, None, None, None, end))
            return _after_fetch("kip-279", follower, leader, end, tuple(steps), "hw_fallback")
        step, done = _diverging_step(request, answer, lineage, end)
        steps.append(step)
        end = step.truncate_to
        lineage = lineage.truncate_from_end(step.truncate_to)
        if done:
            return _after_fetch("kip-279", follower, leader, end, tuple(steps), _epoch_reason(steps))


def replay_fetch(follower: ReplicaState, leader: ReplicaState) -> Replay:
    """2.8 and later: fetch from the log end; a leader that sees a divergence answers with its epoch and end offset
    (`AbstractFetcherThread.truncateOnFetchResponse`, KIP-595).

    Goes on until a fetch is served. The fetch that is served right after a matching epoch brings no news and is not
    counted, so that rounds are those of `kip-279` on the same logs.
    """
    lineage, end = follower.lineage, follower.log_end_offset
    steps: list[TruncationRound] = []
    if not lineage:
        return _after_fetch("fetch", follower, leader, follower.high_watermark, (), "hw_fallback")
    matched = False
    while True:
        request = lineage.latest_epoch
        if request is None:
            # A log cut to before its first epoch fetches without an epoch and is served.
            return _after_fetch("fetch", follower, leader, end, tuple(steps), _epoch_reason(steps))
        answer = leader.lineage.end_offset_for(request, leader.log_end_offset)
        if answer is None or end < leader.log_start_offset:
            # OFFSET_OUT_OF_RANGE: from here on only the start and end of the leader's log decide.
            leader_epoch, leader_end = answer or (None, None)
            steps.append(
                TruncationRound(request, leader_epoch, leader_end, None, None, min(end, leader.log_end_offset))
            )
            return _after_fetch("fetch", follower, leader, end, tuple(steps), "out_of_range_tail")
        served = answer[0] == request and answer[1] >= end
        if served and matched:
            return _after_fetch("fetch", follower, leader, end, tuple(steps), _epoch_reason(steps))
        step, matched = _diverging_step(request, answer, lineage, end)
        steps.append(step)
        end = step.truncate_to
        lineage = lineage.truncate_from_end(step.truncate_to)
        if served:
            return _after_fetch("fetch", follower, leader, end, tuple(steps), _epoch_reason(steps))


def _diverging_step(request: int, answer: tuple[int, int], lineage: Lineage, end: int) -> tuple[TruncationRound, bool]:
    """The follower's step after the answer (epoch, end offset), and True if both sides name the same epoch, which ends the search."""
    leader_epoch, leader_end = answer
    own = lineage.end_offset_for(leader_epoch, end)
    assert own is not None  # the follower has the requested epoch, and the leader answers with none above it
    own_epoch, own_end = own
    is_same = own_epoch == leader_epoch
    truncate_to = min(own_end, leader_end, end) if is_same else min(own_end, end)
    return TruncationRound(request, leader_epoch, leader_end, own_epoch, own_end, truncate_to), is_same


def _epoch_reason(steps: list[TruncationRound]) -> str:
    return "stepped_back" if len(steps) > 1 else "epoch_match"


def _after_fetch(
    protocol: str,
    follower: ReplicaState,
    leader: ReplicaState,
    truncate_to: int,
    steps: tuple[TruncationRound, ...],
    reason: str,
) -> Replay:
    """Apply the out-of-range step that every generation ends with; reason `none` where nothing is cut."""
    local_start = leader.local_start_offset or 0
    if truncate_to > leader.log_end_offset:
        truncate_to = leader.log_end_offset
        reason = "out_of_range_tail"
    elif leader.log_start_offset > truncate_to:
        # The follower's log is emptied and restarts at the leader's log start.
        truncate_to = leader.log_start_offset
        reason = "full_truncate"
    elif protocol == "fetch" and truncate_to < local_start:
        # OFFSET_MOVED_TO_TIERED_STORAGE: its log is emptied and begins at the leader's local start.
        return Replay(protocol, local_start, len(steps), "tiered_restart", steps, truncate_to)
    elif truncate_to >= follower.log_end_offset and (reason != "hw_fallback" or protocol == "high-watermark"):
        truncate_to = follower.log_end_offset
        reason = "none"
    return Replay(protocol, truncate_to, len(steps), reason, steps)


PROTOCOL_REPLAYS: dict[str, Callable[[ReplicaState, ReplicaState], Replay]] = {
    "high-watermark": replay_high_watermark,
    "kip-101": replay_kip101,
    "kip-279": replay_kip279,
    "fetch": replay_fetch,
}


def replay(protocol: str, follower: ReplicaState, leader: ReplicaState) -> Replay:
    """Replay one generation by its name in `literals.PROTOCOLS`; KeyError for another name."""
    return PROTOCOL_REPLAYS[protocol](follower, leader)
