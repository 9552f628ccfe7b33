"""Steps that tell a node's disks apart, if several were captured or their directories are named for other nodes."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from replica_audit.auditing.findings.meta import META_FOREIGN_DIR
from replica_audit.elect.cluster_state import PresentState
from replica_audit.elect.cost_matrix import Matrix
from replica_audit.elect.plan_model import Decision, Step
from replica_audit.elect.step_list import list_names
from replica_audit.model import TopicPartition
from replica_audit.results import Results, place_of, present
from replica_audit.snapshot.log_dir_names import directory_of_deleted
from replica_audit.text import name_ids


def check_disks(
    results: Results, matrix: Matrix, decisions: Sequence[Decision], controllers: Collection[int]
) -> Iterator[Step]:
    """A step that names the owner of each log dir that the snapshot has under another node's name: for brokers with decided partitions,
    and for the plan's `controllers`, too few of which would start."""
    named = [row for row in present(results.findings) if row.code == META_FOREIGN_DIR.code]
    misnamed = {item.path for row in named for item in row.evidence}
    if not misnamed:
        return
    of_brokers = {
        row.log_dir: broker
        for one in decisions
        for broker, row in matrix.replicas.get(place_of(one), {}).items()
        if row.log_dir in misnamed
    }
    of_controllers = {
        log_dir: node
        for row in results.metadata_logs
        if (node := row.broker_id) is not None
        and node in controllers
        and (log_dir := row.path.rpartition("/")[0] or ".") in misnamed
    }
    if wrong := {**of_brokers, **of_controllers}:
        yield Step(
            action="check_disks",
            text=tell_swapped(wrong, "node" if of_controllers else "broker"),
            brokers=tuple(sorted({*of_brokers.values()})),
            controllers=tuple(sorted({*of_controllers.values()})),
        )


def tell_swapped(wrong: Mapping[str, int], node: str) -> str:
    """Request to put back log dirs whose directory is named for another node; `wrong`: their nodes' ids, `node`: the word broker or node."""
    nodes = sorted({*wrong.values()})
    found = "; ".join(f"{log_dir} in this snapshot is of {node} {one}" for log_dir, one in sorted(wrong.items()))
    have = "has its own disk" if len(nodes) == 1 else "have their own disks"
    return (
        f"Before anything else, check that {name_ids(node, nodes)} {have}, and put swapped disks back: by meta.properties, {found}. "
        f"A {node} does not start with the disk of another, and LOG_DIR_OF_{nodes[0]} means here the log directory that is {node} "
        f"{nodes[0]}'s by that file, wherever it is mounted"
    )


def brokers_with_disks(matrix: Matrix, steps: Iterable[Step]) -> set[int]:
    """Brokers that have the partitions of `steps`, and `-future` copies that these move, in several log dirs."""
    brokers: dict[TopicPartition, set[int]] = defaultdict(set)
    log_dirs: dict[int, set[str]] = defaultdict(set)
    for step in steps:
        if step.action in ("copy", "recopy", "put_aside"):
            for place in step.partitions:
                brokers[place].update(step.brokers)
        if step.action == "put_aside":
            for broker in step.brokers:
                log_dirs[broker] |= _log_dirs_of(step)
    # Rows that lie packed together are opened once.
    for place in sorted(brokers):
        for broker in brokers[place]:
            log_dirs[broker] |= matrix.log_dirs((place,), broker)
    return {broker for broker, some in log_dirs.items() if len(some) > 1}


def _log_dirs_of(step: Step) -> set[str]:
    return {(directory_of_deleted(one) or one).rpartition("/")[0] for one in step.snapshot}


def name_disk(step: Step, matrix: Matrix, state: PresentState, several: Collection[int]) -> Step:
    """The step, which names the disk that LOG_DIR_OF_N is if it copies or moves directories of a broker that has `several` log
    dirs, or of which another log dir, with these partitions or empty, was captured too: that disk may no longer be mounted."""
    if step.action not in ("copy", "recopy", "put_aside") or not (state.blank or matrix.second or several):
        return step
    told = []
    for broker in sorted(step.brokers):
        of_broker = matrix.log_dirs(step.partitions, broker)
        held = _log_dirs_of(step) or of_broker
        second = of_broker.union(one.log_dir for place in step.partitions for one in matrix.other_disks(place, broker))
        others = [f"{list_names(blank)}, which is empty"] if (blank := state.blank.get(broker)) else []
        others += [f"{list_names(names)}, which has another log"] if (names := sorted(second - held)) else []
        is_used = any(re.search(rf"\bLOG_DIR_OF_{broker}\b", one) for one in step.commands)
        if held and (others or broker in several) and is_used:
            unlike = f", not {', or '.join(others)}" if others else ""
            told.append(
                f". LOG_DIR_OF_{broker} means here what the snapshot has as {list_names(sorted(held))}{', in turn' if len(held) > 1 else ''}, "
                f"wherever it is mounted{unlike}"
            )
    return replace(step, text="".join((step.text, *told)))
