"""What to give instead, where no partition was found in what was given as a snapshot."""

from __future__ import annotations

import os
import shlex

from replica_audit.formats.files.storage import Snapshot
from replica_audit.formats.inventory import Inventory
from replica_audit.formats.log_dirs.names import parse_directory_name, parse_file_name

_SHOWN = 3
_WANTED = "expected directories such as broker-1/orders-0 below it, with meta.properties beside them"


def explain_nothing_found(uri: str, snapshot: Snapshot, inventory: Inventory) -> str:
    """Why `inventory` has no partition, and what to do, as one sentence."""
    if any(parse_file_name(entry.path).kind == "log" for entry in snapshot.list_directory("") if not entry.is_dir):
        return _one_partition(uri, snapshot)
    nameless = [log_dir.path for log_dir in inventory.log_dirs if log_dir.broker_id is None]
    if nameless == [""]:
        return (
            f"{uri} is a log directory without a broker id: no node.id or broker.id in its meta.properties; put it into a "
            "directory named broker-<id>, and give the directory above that one"
        )
    if nameless:
        shown = ", ".join(nameless[:_SHOWN]) + (" and more" if len(nameless) > _SHOWN else "")
        return (
            f"{uri}: no broker id is known of {shown}: name each of them broker-<id>, or copy its meta.properties with it, "
            f"and give {uri} again"
        )
    unread = [row for row in inventory.quarantine if row.code == "CAP-UNREADABLE"]
    if unread:
        more = f"; {len(unread) - 1} more could not be read" if len(unread) > 1 else ""
        return f"{uri}: no partition found; {unread[0].path}: {unread[0].reason}{more}"
    if inventory.log_dirs:
        found = "1 log directory" if len(inventory.log_dirs) == 1 else f"{len(inventory.log_dirs)} log directories"
        return f"{uri}: no partition found in {found}; {_WANTED}"
    return f"{uri}: no log directory found; {_WANTED}"


def _one_partition(uri: str, snapshot: Snapshot) -> str:
    advice = "give the directory above the log directories of all brokers"
    partition = parse_directory_name(snapshot.name).topic_partition
    above = os.path.dirname(os.path.dirname(snapshot.location.rstrip("/")))
    if "://" not in uri and partition is not None and len(above) > 1:
        shown = above if os.path.isabs(uri) else os.path.relpath(above)
        advice += f": replica-audit show {shlex.quote(shown)} {shlex.quote(str(partition))}"
    return f"{uri} is the directory of one partition: {advice}"
