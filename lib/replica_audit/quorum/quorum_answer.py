"""The answer of `quorum` for one snapshot: all copies, the choice, what it loses, and the plan; also what has changed since then."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import astuple, replace

from replica_audit import __version__
from replica_audit.auditing.catalogue import codes_with
from replica_audit.elect.kafka_commands import BOOTSTRAP, Tools
from replica_audit.elect.premises import ChangedPremise
from replica_audit.errors import UsageError
from replica_audit.protocol.versions import parse_kafka_version
from replica_audit.quorum.answer_model import (
    BestCopy,
    CopyAnswer,
    CopyPremise,
    Lost,
    QuorumAnswer,
    QuorumStateFile,
    StrayDirectory,
    Unusable,
)
from replica_audit.quorum.broken_rules import find_breaks, goes_on
from replica_audit.quorum.choosing import Chosen, choose, choose_asked
from replica_audit.quorum.held_metadata import HeldMetadata, digest_of, missing_records
from replica_audit.quorum.lost_metadata import Assigned, Forgone, assigned_by, lose
from replica_audit.quorum.quorum_steps import plan_quorum
from replica_audit.snapshot.inventory import Inventory
from replica_audit.snapshot.metadata.log_copies import MetadataCopy
from replica_audit.snapshot.metadata.quorum import find_seeded, newest_copy, parting
from replica_audit.snapshot.storage import Snapshot
from replica_audit.text import capitalise


def answer_quorum(
    snapshot: Snapshot,
    inventory: Inventory,
    *,
    kafka_version: str | None = None,
    bootstrap: str = BOOTSTRAP,
    client_config: str | None = None,
    node_id: int | None = None,
) -> QuorumAnswer:
    """Answer for a snapshot. `kafka_version` overrides the manifest; `node_id` asks for that node's log instead of the
    best; `bootstrap` and `client_config` go into the plan's commands.

    Raises UsageError if the snapshot, or the node, has no readable metadata log.
    """
    held = HeldMetadata(snapshot, inventory)
    if held.compared.found is None:
        raise UsageError(_nothing(held))
    chosen = choose(held) if node_id is None else choose_asked(held, node_id)
    version = kafka_version or (inventory.manifest.kafka_version if inventory.manifest else None)
    against = chosen.copy or newest_copy(held.copies)
    keeps_epoch = chosen.verdict in ("agree", "rejoin")
    copies = tuple(_copy_answer(held, copy, against, keeps_epoch=keeps_epoch) for copy in _in_order(held))
    tools = Tools(parse_kafka_version(version), bootstrap, client_config, "kraft")
    lost = next((one.lost for one in copies if chosen.copy is not None and one.path == chosen.copy.log.path), None)
    plan = plan_quorum(held, chosen, tools, lost)
    voters = tuple(sorted(held.voters.ids))
    with_log = {one.node_id for one in held.compared.copies if one.end_offset}
    return QuorumAnswer(
        cluster_id=inventory.cluster_id,
        tool_version=__version__,
        kafka_version=version,
        verdict=chosen.verdict,
        reason=_sentence(chosen.reason),
        choice=_choice(held, chosen),
        copies=copies,
        lost=lost,
        voters=voters,
        without_log=tuple(node for node in voters if node not in with_log),
        is_dynamic=bool(held.voters.directories),
        is_tentative=chosen.is_tentative,
        steps=tuple(replace(step, number=number) for number, step in enumerate(plan.steps, 1)),
        no_plan=plan.reason,
        rests_on=tuple(_premise(copy) for copy in _in_order(held)),
        quarantine=tuple(_unusable(held)),
    )


def _nothing(held: HeldMetadata) -> str:
    location = held.snapshot.location
    if not held.inventory.metadata_logs:
        return (
            f"{location} has no __cluster_metadata-0: copy it from every controller and every broker, with meta.properties beside it. "
            "A cluster with ZooKeeper has none"
        )
    said = [f"{one.path}: {one.reason}" for one in _unusable(held)]
    return f"no copy of __cluster_metadata-0 in {location} can be read: {'; '.join(said) or 'all are empty'}"


def _in_order(held: HeldMetadata) -> list[MetadataCopy]:
    """Copies by node id, voters first."""
    return sorted(
        held.compared.copies,
        key=lambda one: (one.node_id not in held.voters.ids, -1 if one.node_id is None else one.node_id, one.log.path),
    )


def _sentence(text: str) -> str:
    return f"{capitalise(text).rstrip('.')}."


def _choice(held: HeldMetadata, chosen: Chosen) -> BestCopy | None:
    copy = chosen.copy
    if copy is None:
        return None
    return BestCopy(
        copy.node_id,
        held.role(copy),
        copy.log.path,
        copy.end_offset,
        copy.epoch,
        _sentence(chosen.reason),
        chosen.asked,
    )


def _copy_answer(held: HeldMetadata, copy: MetadataCopy, against: MetadataCopy, *, keeps_epoch: bool) -> CopyAnswer:
    number = held.history_of(copy)
    proven = 0
    proof = None
    refused = []
    if number is not None:
        of_history = held.proven[number]
        history = held.histories[number]
        proven = min(of_history.end_offset, copy.end_offset)
        proof = of_history.proof
        refused = list(history.refused)
        if copy.end_offset < of_history.end_offset:
            refused.append(f"it ends at {copy.end_offset}, and is committed to {of_history.end_offset}: {proof}")
    voters = copy.voters(held.snapshot) if number is not None else None
    lost = _lost(held, copy) if number is not None else None
    state = copy.state
    return CopyAnswer(
        node_id=copy.node_id,
        role=held.role(copy),
        path=copy.log.path,
        directory_id=copy.log.directory_id,
        start_offset=copy.start_offset,
        end_offset=copy.end_offset,
        last_epoch=copy.epoch,
        history=None if number is None else number + 1,
        parts_at=parting(against, copy) if number is not None else None,
        proven_end=proven,
        proof=proof if proven else None,
        voters=() if voters is None else voters.ids,
        voter_directories=() if voters is None else voters.directories,
        quorum_state=None if state is None else QuorumStateFile(state.leader_epoch, state.leader_id, state.voted_id),
        may_vote=held.voters.admits(copy.node_id, copy.log.directory_id) if copy.node_id in held.voters.ids else None,
        seeded=find_seeded(copy, held.compared.copies, held.voters),
        refused=tuple(refused),
        lost=lost,
        breaks=tuple(find_breaks(held, copy, lost, keeps_epoch=keeps_epoch)) if number is not None else (),
        problems=tuple(reason for _, _, reason in copy.problems),
    )


def _lost(held: HeldMetadata, copy: MetadataCopy) -> Lost | None:
    """Metadata in all other copies that `copy` lacks, and the directories that brokers would rename to -stray with it; None if
    unknown."""
    own = held.contents(copy)
    if isinstance(own, str):
        return None
    others = []
    differences = []
    for other, is_spliced in _newest_elsewhere(held, copy):
        state = held.contents(other)
        if not isinstance(state, str):
            others.append(other)
            differences.append(Forgone(own, state, held.common(copy, other)))
        elif not is_spliced:
            return None
    lost = lose(differences, missing_records(copy, others))
    forgotten = {one.topic_id for one in lost.topics} | held.unknown_topics(copy)
    assigned: set[Assigned] = {one for difference in differences for one in assigned_by(difference.other)}
    lacking = {one for one in assigned - assigned_by(own) if one[1] in own.topics} if assigned else set()
    stray = [
        StrayDirectory(one.broker_id, one.topic, one.partition, held.records_in(one))
        for one in held.inventory.replicas
        if (one.topic_id in forgotten and held.has_segments(one))
        or (one.broker_id, one.topic_id, one.partition) in lacking
    ]
    return replace(lost, stray=tuple(sorted(stray, key=astuple)))


def _newest_elsewhere(held: HeldMetadata, copy: MetadataCopy) -> Iterator[tuple[MetadataCopy, bool]]:
    """The newest copy of each history with records that `copy` lacks, and True if that history is spliced."""
    for history in held.histories:
        newest = newest_copy(history.copies)
        if goes_on(newest, copy):
            yield newest, history.is_spliced


def _premise(copy: MetadataCopy) -> CopyPremise:
    epoch = None if copy.state is None else copy.state.leader_epoch
    return CopyPremise(
        copy.node_id, copy.log.path, copy.log.directory_id, copy.end_offset, copy.epoch, digest_of(copy), epoch
    )


def _unusable(held: HeldMetadata) -> Iterator[Unusable]:
    """Quarantine rows: unreadable parts of metadata logs, of files that identify them, and of directories that would become -stray."""
    yield from held.uncounted
    for copy in held.compared.copies:
        for path, position, reason in copy.problems:
            yield Unusable(path, position, reason)
    for path, error in held.compared.refused.items():
        yield Unusable(path, getattr(error, "position", None), str(error))
    for row in held.compared.ignored:
        yield Unusable(row.path, row.position, row.reason)
    for log_dir in held.foreign:
        reason = f"of cluster {log_dir.cluster_id}, and most are of {held.inventory.cluster_id}: left out"
        yield Unusable(log_dir.path, None, reason)
    known = {one.path for one in held.inventory.metadata_logs}
    for row in held.inventory.quarantine:
        if row.path.endswith("meta.properties") and row.code in codes_with("unreadable") and row.path not in known:
            yield Unusable(row.path, row.position, row.reason)


def moved_since(before: QuorumAnswer, now: QuorumAnswer) -> Iterator[ChangedPremise]:
    """Premises that changed between the snapshot of a plan and a later one."""
    if before.cluster_id != now.cluster_id:
        yield ChangedPremise(None, None, None, "cluster", before.cluster_id, now.cluster_id)
    known = {one.path: one for one in now.rests_on}
    for was in before.rests_on:
        one = known.pop(was.path, None)
        if one is None:
            yield ChangedPremise(
                None, None, was.node_id, f"metadata log {was.path}", "in the snapshot", "not in this one"
            )
            continue
        for name, of, value in (
            ("directory.id", was.directory_id, one.directory_id),
            ("metadata log's end", was.end_offset, one.end_offset),
            ("metadata log's last epoch", was.last_epoch, one.last_epoch),
            ("quorum-state's epoch", was.leader_epoch, one.leader_epoch),
        ):
            if of != value:
                yield ChangedPremise(None, None, was.node_id, name, of, value)
        if was.digest != one.digest and was.end_offset == one.end_offset:
            yield ChangedPremise(None, None, was.node_id, "metadata log's records", was.digest, one.digest)
    for path, one in known.items():
        yield ChangedPremise(None, None, one.node_id, f"metadata log {path}", "not in the snapshot", "in this one")
