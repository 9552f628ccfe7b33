"""Which voters of the metadata log's quorum have their copy in the snapshot."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from replica_audit.closed_sets import CaptureState
from replica_audit.formats.inventory import LogDir, MetadataLog, VoterCopy


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
