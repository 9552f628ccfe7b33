"""Shell commands that change a node's log dir while the node is down: its metadata log, its identity, and directories put aside."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable

from replica_audit.snapshot.log_dir_names import META_PROPERTIES, METADATA_PARTITION
from replica_audit.snapshot.message_fields import ZERO_UUID

#: Archive of the chosen metadata log.
CHOSEN_LOG = "chosen-metadata.tgz"


def pack_metadata(node_id: int) -> str:
    """Command that packs a node's metadata log without its quorum-state, which records the node's own vote."""
    begin = ["tar", "-czf", CHOSEN_LOG, "--exclude=quorum-state", "-C", f"LOG_DIR_OF_{node_id}"]
    return shlex.join([*begin, "--", f"./{METADATA_PARTITION}"])


def put_metadata_aside(node_id: int, *then: str) -> list[str]:
    """Commands that move a node's metadata log, if any, out of its log dir before another is put in its place."""
    own = f"LOG_DIR_OF_{node_id}/{METADATA_PARTITION}"
    moved = shlex.join(["mv", "-T", own, f"put-aside-{node_id}"])
    return [shlex.join(["mkdir", "-p", own]), " && ".join((moved, *then))]


def unpack_metadata(node_id: int) -> str:
    """Command that unpacks the chosen log into a node's log dir."""
    return shlex.join(["tar", "-xzf", CHOSEN_LOG, "-C", f"LOG_DIR_OF_{node_id}"])


def restore_stray(broker_id: int, name: str, directory: str) -> str:
    """Command that gives a -stray directory its partition's name back; fails if the name is taken."""
    log_dir = f"LOG_DIR_OF_{broker_id}"
    return shlex.join(["mv", "-T", "--", f"{log_dir}/{name}", f"{log_dir}/{directory}"])


def set_directory_id(node_id: int, directory_id: str) -> str:
    """Command that writes the id of a log dir, by which a voter is known, into its meta.properties."""
    # Added before old lines are deleted, so that it works if the file lacks the line or ends with it.
    edits = ("-e", f"$adirectory.id={directory_id}", "-e", "/^directory[.]id=/d")
    return shlex.join(["sed", "-i", *edits, f"LOG_DIR_OF_{node_id}/{META_PROPERTIES}"])


def put_quorum_state(node_id: int, file: str) -> str:
    """Command that puts a quorum-state of the plan beside a node's metadata log."""
    return shlex.join(["cp", file, f"LOG_DIR_OF_{node_id}/{METADATA_PARTITION}/quorum-state"])


def quorum_state_file(voters: Iterable[int], leader_epoch: int, *, is_dynamic: bool) -> str:
    """A quorum-state (`QuorumStateData`) without leader and vote, for voters that must continue from `leader_epoch`.

    Version 1, of a dynamic quorum (KIP-853), names no voters.
    """
    state: dict[str, object] = {"leaderId": -1, "leaderEpoch": leader_epoch, "votedId": -1}
    if is_dynamic:
        state |= {"votedDirectoryId": ZERO_UUID, "data_version": 1}
    else:
        named = [{"voterId": one} for one in sorted(voters)]
        state = {"clusterId": "", **state, "appliedOffset": 0, "currentVoters": named, "data_version": 0}
    return f"{json.dumps(state, separators=(',', ':'))}\n"
