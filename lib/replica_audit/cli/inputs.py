"""Checks a snapshot that an argument names."""

from __future__ import annotations

import os

from replica_audit.cli.output import print_note
from replica_audit.errors import UsageError
from replica_audit.paths import local_path


def check_snapshot(snapshot: str) -> None:
    """Raise UsageError unless a local `snapshot` is a directory or an archive; other URIs are left to the file system.

    Notes on stderr that the log dir of a single broker is audited alone.
    """
    path = local_path(snapshot)
    if path is None:
        return
    if not os.path.exists(path):
        raise UsageError(f"snapshot {snapshot} does not exist")
    if not os.path.isdir(path):
        from replica_audit.snapshot.storage import Snapshot

        try:
            Snapshot.open(path)
        except OSError as error:
            raise UsageError(str(error)) from error
    if os.path.isfile(os.path.join(path, "meta.properties")):
        print_note(
            f"note: {snapshot} is the log dir of one broker, which is audited alone; to compare replicas, give the "
            "directory that contains the log dirs of all brokers"
        )
