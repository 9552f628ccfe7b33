"""The next election of a quorum: in which epoch it is held, and who can vote in it (R4 of META-FORK, KIP-853)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from replica_audit.snapshot.metadata.log_copies import MetadataCopy
from replica_audit.snapshot.metadata.quorum import CLOCKS_DIFFER_MS, name_nodes, parting
from replica_audit.snapshot.storage import Snapshot
from replica_audit.text import render_time


def find_forgotten(snapshot: Snapshot, log: MetadataCopy, other: MetadataCopy) -> str | None:
    """An election of `log` in an epoch that `other`'s voters had reached before; in words, None without one.

    A voter keeps the epoch in which it voted, so no majority elects in one that an earlier majority has reached: these
    voters had lost their quorum-state. It shows nothing about what was committed.
    """
    parted = parting(log, other)
    if parted is None:
        return None
    mine, theirs = ([one for one in copy.elections(snapshot) if one.offset >= parted] for copy in (log, other))
    for one in mine:
        earlier = [was for was in theirs if was.epoch >= one.epoch and was.time_ms + CLOCKS_DIFFER_MS < one.time_ms]
        if earlier and one not in theirs:
            was = earlier[0]
            return (
                f"node {one.leader_id} was elected in controller epoch {one.epoch} at {render_time(one.time_ms)}, though node "
                f"{was.leader_id} had already been elected in epoch {was.epoch} at {render_time(was.time_ms)}"
            )
    return None


def find_conditions(snapshot: Snapshot, log: MetadataCopy, copies: Sequence[MetadataCopy]) -> Iterator[str]:
    """What has to be mended before voters start with `log`, in sentences; `copies` are all that were captured."""
    yield from _too_early(log, copies)
    yield from _other_directories(snapshot, log, copies)


def _too_early(log: MetadataCopy, copies: Sequence[MetadataCopy]) -> Iterator[str]:
    """The next epoch has to be above every one that any node has seen (`QuorumState.initialize`).

    Brokers that have seen a later one never register; where the numbers meet, two histories share an epoch.
    """
    seen = max(map(_seen_epoch, copies))
    if log.epoch < seen:
        nodes = name_nodes(copy.node_id for copy in copies if _seen_epoch(copy) == seen)
        yield (
            f"Before voters start with the log of node {log.node_id}, which ends in controller epoch {log.epoch}, set leaderEpoch in their "
            f"quorum-state to {seen} or more: {nodes} reached that epoch, and the next one has to be above it."
        )


def _seen_epoch(copy: MetadataCopy) -> int:
    voted = -1 if copy.state is None or copy.state.leader_epoch is None else copy.state.leader_epoch
    return max(copy.epoch, voted)


def _other_directories(snapshot: Snapshot, log: MetadataCopy, copies: Sequence[MetadataCopy]) -> Iterator[str]:
    """Voters that were formatted anew: the log knows them by the directory that they had, and they do not vote."""
    voters = log.voters(snapshot)
    if voters is None:
        return
    expected = dict(voters.directories)
    found = {
        copy.node_id: copy.log.directory_id for copy in copies if not voters.admits(copy.node_id, copy.log.directory_id)
    }
    barred = [node for node in voters.ids if node in found]
    if not barred:
        return
    listed = ", ".join(f"{node} votes from {expected[node]}, and has {found[node]}" for node in barred)
    if len(voters.ids) - len(barred) > len(voters.ids) // 2:
        remedy = "remove each from the voters and add it again (kafka-metadata-quorum.sh remove-controller, then add-controller)"
    else:
        remedy = (
            "without them no majority can elect a leader. Put the directory.id that they vote from into their meta.properties, and "
            "start first the node that has the right log"
        )
    yield f"By the log of node {log.node_id} {name_nodes(barred)} cannot vote (directory.id: {listed}): {remedy}."
