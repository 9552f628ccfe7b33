"""Voters of the metadata log's quorum: those named by `quorum-state` (`QuorumStateData`, versions 0 and 1), and which were
captured.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from replica_audit.errors import FormatError
from replica_audit.literals import CaptureState
from replica_audit.parsing import is_whole, parse_json, show_value
from replica_audit.schema import VoterCopy
from replica_audit.snapshot.inventory import LogDir, MetadataLog
from replica_audit.snapshot.metadata.kraft_records import Voters
from replica_audit.snapshot.storage import Snapshot

_HINT = "the voters and their epoch are taken from the logs alone; compare with quorum-state of the other controllers"


@dataclass(frozen=True, slots=True)
class QuorumState:
    """Content of a quorum-state file."""

    leader_epoch: int | None
    """The controller epoch that the node has seen last, from which it counts on when it is elected."""
    voters: Voters | None
    """None where it names none: in version 1, and in version 0 of a voter that was formatted anew (KIP-853)."""
    leader_id: int | None = None
    """Who led in that epoch, as far as the node knew."""
    voted_id: int | None = None
    """Whom the node voted for in that epoch."""


def read_quorum_state(snapshot: Snapshot, log: MetadataLog) -> QuorumState | None:
    """The file beside a metadata log, None without one; raises OSError and FormatError."""
    if not log.has_quorum_state:
        return None
    path = f"{log.path}/quorum-state"
    state = parse_json(snapshot.read_bytes(path), path, _HINT)
    if not isinstance(state, dict):
        raise FormatError(path, None, "a JSON object", show_value(state), _HINT)
    named, epoch = state.get("currentVoters"), state.get("leaderEpoch")
    if named is not None and not _is_voters(named):
        raise FormatError(path, None, "currentVoters with a voterId each", show_value(named), _HINT)
    if epoch is not None and not is_whole(epoch, least=-1):
        raise FormatError(path, None, "leaderEpoch as a whole number", show_value(epoch), _HINT)
    ids = tuple(sorted(one["voterId"] for one in named or ()))
    return QuorumState(epoch, Voters(ids) if ids else None, _node(state, "leaderId"), _node(state, "votedId"))


def _node(state: Mapping[str, object], name: str) -> int | None:
    """A node that the file names; -1 is nobody."""
    value = state.get(name)
    return value if isinstance(value, int) and is_whole(value) else None


def _is_voters(named: object) -> bool:
    return isinstance(named, list) and all(isinstance(one, dict) and is_whole(one.get("voterId")) for one in named)


def find_voters(
    voters: Iterable[int], logs: Sequence[MetadataLog], unread: Collection[str], log_dirs: Sequence[LogDir]
) -> tuple[VoterCopy, ...]:
    """Each of `voters` with its copy among `logs`; `unread` are paths, of files or of whole logs, that could not be read."""
    found = []
    for node_id in voters:
        own = [log for log in logs if log.node_id == node_id]
        if not own:
            state: CaptureState = "absent" if any(one.broker_id == node_id for one in log_dirs) else "named"
            found.append(VoterCopy(node_id, None, state, ("directory",)))
        for log in own:
            lost = sorted(path for path in unread if path == log.path or path.startswith(f"{log.path}/"))
            missing = tuple(path.rpartition("/")[2] for path in lost)
            found.append(VoterCopy(node_id, log.log_dir, "partial" if missing else "whole", missing))
    return tuple(found)
