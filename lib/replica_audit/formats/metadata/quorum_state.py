"""`quorum-state`: what a node of the quorum has voted, and who votes (`QuorumStateData`, versions 0 and 1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from replica_audit.formats.files.side_files import is_whole, parse_json, show_value
from replica_audit.formats.files.storage import Snapshot
from replica_audit.formats.format_error import FormatError
from replica_audit.formats.inventory import MetadataLog
from replica_audit.formats.metadata.messages import Voters

_HINT = "the voters and their epoch are taken from the logs alone; compare with quorum-state of the other controllers"


@dataclass(frozen=True, slots=True)
class QuorumState:
    """What a quorum-state file says."""

    leader_epoch: int | None
    """The controller epoch that the node has seen last, from which it counts on when it is elected."""
    voters: Voters | None
    """None where it names none: in version 1, and in version 0 of a voter that was formatted anew (KIP-853)."""


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
    return QuorumState(epoch, Voters(ids) if ids else None)


def _is_voters(named: Any) -> bool:
    return isinstance(named, list) and all(isinstance(one, dict) and is_whole(one.get("voterId")) for one in named)
