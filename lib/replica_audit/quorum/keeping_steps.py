"""Steps before a metadata log is chosen: what else to look for, and copies of every log."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

from replica_audit.auditing.findings.meta import META_FOREIGN_DIR
from replica_audit.elect.disk_steps import tell_swapped
from replica_audit.elect.kafka_commands import Copies
from replica_audit.elect.plan_model import Step
from replica_audit.elect.step_list import list_names
from replica_audit.quorum.choosing import EMPTY_LEADS
from replica_audit.quorum.held_metadata import HeldMetadata
from replica_audit.quorum.restoration import Restoration
from replica_audit.snapshot.metadata.quorum import name_nodes
from replica_audit.text import capitalise

_OPERATORS = "Everything that starts or repairs nodes automatically is paused: systemd's Restart=, Strimzi's Cluster Operator, such jobs"
#: Maximum number of brokers to copy at once.
_FEW = 10
NO_ARCHIVE = "No archive with these names exists yet: an earlier one may be the only copy of something that is gone now"
_GET_ZOOKEEPER = "Copy what ZooKeeper has, put its partition states into the snapshot as zookeeper.json, and run quorum again, which compares them: "
_ZOOKEEPER = (
    "this cluster is migrating from ZooKeeper, and the first controller that leads overwrites the states there with those of its log, and "
    "deletes every topic that its log does not know. If ZooKeeper has more, start no controller: let brokers go back to it, as Kafka's "
    "documentation of the migration says, and migrate again. Otherwise the quorum's next epoch has to be above kraft_controller_epoch of "
    "/migration there, or no controller registers with it: a greater leaderEpoch in the quorum-state of voters raises it"
)


def check_disks(held: HeldMetadata) -> Iterator[Step]:
    """A step that tells to which node log dirs belong that are under another node's name in the snapshot."""
    misnamed = {row.path for row in held.inventory.quarantine if row.code == META_FOREIGN_DIR.code}
    wrong = [
        (one.path or ".", one.broker_id, one.kind)
        for one in held.inventory.log_dirs
        if (one.path or ".") in misnamed and one not in held.foreign and one.broker_id is not None
    ]
    if wrong:
        controllers = {node for _, node, kind in wrong if kind == "controller"}
        yield Step(
            action="check_disks",
            text=tell_swapped({path: node for path, node, _ in wrong}, "node"),
            controllers=tuple(sorted(controllers)),
            brokers=tuple(sorted({node for _, node, _ in wrong} - controllers)),
        )


def empty_disks(held: HeldMetadata) -> Mapping[int, tuple[str, str]]:
    """(log dir with the metadata log, empty log dirs) of each voter that has both kinds here."""
    empty: dict[int, list[str]] = defaultdict(list)
    for log_dir, node in held.inventory.blank.items():
        empty[node].append(log_dir)
    voters = held.voters.ids
    used = {one.node_id: one.log.log_dir for one in held.copies if one.node_id in voters}
    return {node: (used[node], list_names(names)) for node, names in sorted(empty.items()) if node in used}


def search_for_partitions(to: Restoration) -> Iterator[Step]:
    """Steps that look for partitions of voters that have none in the snapshot."""
    if nodes := sorted((*to.bare, *to.uncaptured)):
        yield Step(
            action="capture",
            text=f"Check whether the log directories of {name_nodes(nodes)} (log.dirs) still have partitions that this snapshot lacks, "
            "including those that end in -stray. If so, start nothing, copy them into the snapshot, and run quorum again: they may be the "
            "only copy of committed records",
            brokers=tuple(nodes),
        )
    if nodes := to.unseen:
        have, one = ("has its", "it") if len(nodes) == 1 else ("have their", "one of them")
        yield Step(
            action="capture",
            text=f"Check whether {name_nodes(nodes)} still {have} partitions, of which this snapshot has none. If {one} has lost any, start "
            f"nothing, copy the log directories of every node into the snapshot, and run quorum again: {EMPTY_LEADS}",
            brokers=tuple(nodes),
        )


def search_for_logs(held: HeldMetadata) -> Iterator[Step]:
    """Steps that look for sources that may know more than the snapshot."""
    if held.writes_to_zookeeper:
        text = capitalise(_ZOOKEEPER) if held.has_zookeeper else f"{_GET_ZOOKEEPER}{_ZOOKEEPER}"
        yield Step(action="check", text=text)
    here = {one.node_id for one in held.compared.copies}
    voters = held.voters.ids
    hidden = {one.node_id for one in held.hidden}
    absent = [node for node in voters if node not in held.available or node in hidden]
    silent = sorted(held.registered.union(held.brokers).difference(here, voters))
    first = ", of brokers first of those that were up last," if len(silent) > _FEW else ","
    if absent or silent:
        yield Step(
            action="capture",
            text=f"Check whether a disk with the metadata log of {name_nodes((*absent, *silent))}{first} or a backup of it, still exists: it "
            "may hold more than any copy here. If so, do not start it, copy it into the snapshot, and run quorum again",
            controllers=tuple(absent),
            brokers=tuple(silent),
        )


def keep_all(held: HeldMetadata) -> Iterator[Step]:
    """Steps that capture disks missing from the snapshot, then copy all that are present."""
    yield from search_for_logs(held)
    # Archives of elect's plan, perhaps made in the same directory, have other names.
    copies = Copies("metadata")
    nodes = {one.node_id: held.role(one) for one in held.compared.copies}
    known = {node: role for node, role in nodes.items() if node is not None}
    told = "".join(
        f"; LOG_DIR_OF_{node} means in this plan what the snapshot has as {used}, wherever it is mounted, not {empty}, which is empty"
        for node, (used, empty) in empty_disks(held).items()
    )
    yield Step(
        action="copy",
        text="Start nothing until the metadata log of every node is copied: a node that follows cuts its own without a warning. "
        f"LOG_DIR_OF_N is the log directory of node N with __cluster_metadata-0 (metadata.log.dir, else the first of log.dirs){told}; run the "
        "commands as the user that runs Kafka",
        brokers=tuple(sorted(node for node, role in known.items() if role == "broker")),
        controllers=tuple(sorted(node for node, role in known.items() if role != "broker")),
        commands=tuple(
            copies.of_metadata(node, "broker" if role == "broker" else "controller")
            for node, role in sorted(known.items())
        ),
        before=(_OPERATORS, NO_ARCHIVE),
        snapshot=tuple(one.log.path for one in held.compared.copies),
    )
