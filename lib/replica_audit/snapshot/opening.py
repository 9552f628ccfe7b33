"""A snapshot opened with its inventory. If nothing can be audited, the refusal names the directory to give."""

from __future__ import annotations

import errno
import os
import shlex
from collections import defaultdict
from collections.abc import Sequence
from itertools import chain

from replica_audit.errors import FormatError, InputError, UsageError
from replica_audit.model import TopicPartition
from replica_audit.parsing import matches
from replica_audit.progress import Progress
from replica_audit.snapshot.discovery import discover
from replica_audit.snapshot.inventory import Inventory
from replica_audit.snapshot.leadership_sources import parse_leadership
from replica_audit.snapshot.log_dir_names import is_redpanda_segment, parse_directory_name, parse_file_name
from replica_audit.snapshot.spread_discovery import Spreading
from replica_audit.snapshot.storage import Snapshot, is_archive

_SHOWN = 3
#: Maximum number of snapshots for which the command is given.
_COMMANDS = 12
_WANTED = "expected directories such as broker-1/orders-0 below it, with meta.properties beside them"


def _explain_nothing_found(uri: str, snapshot: Snapshot, inventory: Inventory) -> str:
    """Reason why `inventory` has no partition, with advice, as one sentence."""
    if any(parse_file_name(entry.path).kind == "log" for entry in snapshot.list_directory("") if not entry.is_dir):
        return _one_partition(uri, snapshot)
    redpanda = next((e.path for e in snapshot.list_tree().entries if is_redpanda_segment(e.path)), None)
    if redpanda is not None:
        return (
            f"{uri} holds segments of Redpanda ({redpanda}): their format is not Kafka's, and neither is Redpanda's "
            "replication, which is Raft; only log directories of Kafka can be audited"
        )
    nameless = [log_dir.path for log_dir in inventory.log_dirs if log_dir.broker_id is None]
    if nameless == [""]:
        return (
            f"{uri} is a log directory without a broker id: no node.id or broker.id in its meta.properties; put it into a "
            "directory named broker-<id>, and give the directory above that one"
        )
    if nameless:
        return (
            f"{uri}: no broker id is known of {_join(nameless)}: name each of them broker-<id>, or copy its meta.properties with it, "
            f"and give {uri} again"
        )
    unread = [row for row in inventory.quarantine if row.code == "CAP-UNREADABLE"]
    if unread:
        more = f"; {len(unread) - 1} more could not be read" if len(unread) > 1 else ""
        return f"{uri}: no partition found; {unread[0].path}: {unread[0].reason}{more}"
    if inventory.log_dirs:
        found = "1 log directory" if len(inventory.log_dirs) == 1 else f"{len(inventory.log_dirs)} log directories"
        return f"{uri}: no partition found in {found}; {_WANTED}"
    if archives := [entry.path for entry in snapshot.list_directory("") if is_archive(entry.path)]:
        return f"{uri} has archives ({_join(archives)}) and no log directory: unpack each, and give {uri} again"
    return f"{uri}: no log directory found; {_WANTED}"


def _join(names: Sequence[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (" and more" if len(names) > _SHOWN else "")


def _one_partition(uri: str, snapshot: Snapshot) -> str:
    advice = "give the directory above the log directories of all brokers"
    partition = parse_directory_name(snapshot.name).topic_partition
    above = os.path.dirname(os.path.dirname(snapshot.location.rstrip("/")))
    if "://" not in uri and partition is not None and len(above) > 1:
        shown = above if os.path.isabs(uri) else os.path.relpath(above)
        advice += f": replica-audit show {shlex.quote(shown)} {shlex.quote(str(partition))}"
    return f"{uri} is the directory of one partition: {advice}"


def _snapshots_below(inventory: Inventory) -> list[str]:
    """Names of the snapshots in a directory with captures of one cluster at different times, or of several clusters.

    Empty if the directory is itself a snapshot, e.g. one with a directory for each disk or rack.
    """
    if inventory.manifest is not None or inventory.leadership_files:
        return []
    brokers: dict[str, set[int]] = defaultdict(set)
    clusters: dict[str, set[str]] = defaultdict(set)
    for log_dir in inventory.log_dirs:
        if log_dir.broker_id is not None and log_dir.kind == "broker":
            above, _, _ = log_dir.path.partition("/")
            brokers[above].add(log_dir.broker_id)
            clusters[above].update(() if log_dir.cluster_id is None else (log_dir.cluster_id,))
    several = sorted(above for above, ids in brokers.items() if len(ids) > 1)
    if len(several) <= 1:
        return []
    copies: dict[tuple[int, TopicPartition], set[str]] = defaultdict(set)
    for replica in chain(inventory.replicas, inventory.spread):
        copies[replica.broker_id, replica.topic_partition].add(replica.path.partition("/")[0])
    twice = sum(len(found.intersection(several)) > 1 for found in copies.values())
    # A disk may have an outdated copy of a partition; only another snapshot captures most of them again.
    is_again = twice * 2 > len(copies)
    are_foreign = len(set().union(*(clusters[above] for above in several))) > 1
    return several if is_again or are_foreign else []


def _one_of_several(uri: str, names: Sequence[str]) -> str:
    above = uri.rstrip("/")
    commands = [f"replica-audit show {shlex.quote(f'{above}/{name}')}" for name in names]
    more = f", and {len(names) - _COMMANDS} more" if len(names) > _COMMANDS else ""
    return f"{uri} is the directory above {len(names)} snapshots; audit one: {', '.join(commands[:_COMMANDS])}{more}"


def open_location(uri: str) -> Snapshot:
    """Open the directory or store at `uri`. Raises UsageError if it does not exist, InputError if a directory cannot be listed."""
    try:
        snapshot = Snapshot.open(uri)
    except (OSError, ValueError) as error:
        raise UsageError(str(error)) from error
    if not snapshot.is_remote and not os.access(snapshot.location, os.R_OK | os.X_OK):
        raise _forbidden(uri, os.strerror(errno.EACCES))
    return snapshot


def _forbidden(uri: str, reason: str) -> InputError:
    return InputError(f"{uri} cannot be read: {reason}; run this as a user that can")


def open_snapshot(
    uri: str,
    topics: tuple[str, ...],
    leadership: str | None,
    source: str | None = None,
    spreading: Spreading | None = None,
    progress: Progress | None = None,
) -> tuple[Snapshot, Inventory]:
    """Open a snapshot and take its inventory, with the leadership of the file `leadership` in place of its own `user` entries.

    `spreading` as in `discover`. `source`, one of LEADERSHIP_SOURCES, ignores the other sources of leadership.

    Raises UsageError if the snapshot does not exist or `uri` contains several, `topics` match nothing, the leadership file is
    wrong, or `source` names no leader; InputError if there is no log dir or partition.
    """
    progress = progress or Progress()
    progress.begin("listing log dirs")
    try:
        snapshot, inventory = _open_with_leadership(uri, topics, leadership, spreading)
    finally:
        progress.end()
    if source is None:
        return snapshot, inventory
    told = tuple(one for one in inventory.leaderships if one.source == source)
    if not told:
        others = ", ".join(sorted({one.source for one in inventory.leaderships})) or "no other either"
        raise UsageError(f"--leadership-source {source}: {uri} has nothing from that source; it has {others}")
    return snapshot, inventory._replace(leaderships=told)


def _open_with_leadership(
    uri: str, topics: tuple[str, ...], leadership: str | None, spreading: Spreading | None
) -> tuple[Snapshot, Inventory]:
    snapshot = open_location(uri)
    try:
        inventory = discover(snapshot, topics, spreading)
    except PermissionError as error:
        raise _forbidden(uri, error.strerror or str(error)) from error
    named = inventory.replica_count or inventory.leaderships or inventory.progress_files
    if topics and inventory.topics and not named:
        known = ", ".join(inventory.topics[:10]) or "none"
        raise UsageError(f"{' '.join(topics)} matches no topic of {uri}; topics there: {known}")
    if not named:
        raise InputError(_explain_nothing_found(uri, snapshot, inventory))
    if several := _snapshots_below(inventory):
        raise UsageError(_one_of_several(uri, several))
    if leadership is None:
        return snapshot, inventory
    try:
        with open(leadership, "rb") as file:
            given = parse_leadership(file.read(), leadership)
    except (OSError, FormatError) as error:
        raise UsageError(f"--leadership {leadership}: {error}") from error
    kept = tuple(one for one in inventory.leaderships if one.source != "user")
    asked = {(one.topic, one.partition) for one in given}
    held = ((one.topic, one.partition) for one in chain(inventory.replicas, inventory.spread))
    names = asked.intersection(held)
    if not names and not any(topic in inventory.topics and not matches(topics, topic) for topic, _ in asked):
        raise UsageError(f"--leadership {leadership}: it names none of the partitions that are here")
    return snapshot, inventory._replace(
        leaderships=(*kept, *(one for one in given if (one.topic, one.partition) in names))
    )
