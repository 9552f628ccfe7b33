"""Search of a snapshot's partitions, one at a time, for records to salvage, and the inputs that the answer depends on."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from replica_audit.auditing.answer_rows import report_rows
from replica_audit.auditing.conclude import PartitionAudit, conclude
from replica_audit.auditing.evidence import options_row
from replica_audit.auditing.opened_snapshot import Examined, OpenedSnapshot
from replica_audit.auditing.replicas.replica_facts import CopyKey
from replica_audit.auditing.snapshot_id import (
    SegmentDigest,
    digest_texts,
    hash_piece,
    identify_snapshot,
    inventory_lines,
    pieces_of,
    text_files,
)
from replica_audit.config import Settings
from replica_audit.elect.cost_matrix import Matrix
from replica_audit.elect.plan_model import Decision, Plan, PlannedPartition, is_salvaged
from replica_audit.elect.premises import ChangedPremise, moved_since, rests_on
from replica_audit.errors import UsageError
from replica_audit.model import ReplicaDir, TopicPartition, TransactionState
from replica_audit.parsing import matches
from replica_audit.progress import Progress
from replica_audit.results import Results, place_of
from replica_audit.salvage.compared_logs import Unread, unread_directories
from replica_audit.salvage.partition_salvage import Choices, PartitionSalvage, salvage_partition
from replica_audit.salvage.salvage_manifest import ManifestAudit
from replica_audit.schema import PartitionStateRow
from replica_audit.snapshot.record_reader import RecordReader
from replica_audit.text import count


class PlannedLeaders:
    """The part of a plan that concerns some topics, and the state of its partitions in a snapshot."""

    def __init__(self, plan: Plan, digest: str, topics: Sequence[str] = ()) -> None:
        """`digest` is the SHA-256 of plan.json; `topics` are shell patterns, empty for all topics."""
        self.digest = digest
        decisions = [one for one in plan.decisions if matches(topics, one.topic)]
        self.leaders = {place_of(one): one for one in decisions if one.procedure != "unplanned"}
        self.without_steps = tuple(place_of(one) for one in decisions if one.procedure == "unplanned")
        """Partitions decided without steps: their future leader is unknown."""
        self._plan = replace(plan, rests_on=tuple(one for one in plan.rests_on if matches(topics, one.topic)))
        self.places = frozenset(map(place_of, self._plan.rests_on))
        """Partitions that the plan is based on."""
        self._seen: list[PlannedPartition] = []

    def note(self, audit: PartitionAudit, states: list[PartitionStateRow]) -> None:
        """Record a partition's state in the snapshot; `states` are its rows of `partition_states`."""
        results = Results.of({}, replace(report_rows(audit), partition_states=states).in_order())
        place = audit.evidence.topic_partition
        self._seen += rests_on(results, Matrix(results), {place_of(place)})

    def check(self, cluster_id: str | None) -> None:
        """Raise UsageError if the snapshot contradicts anything that the plan is based on."""
        changes = list(moved_since(self._plan, cluster_id, self._seen))
        if changes:
            more = f", and {count(len(changes) - 1, 'other thing')}" if len(changes) > 1 else ""
            raise UsageError(
                f"the plan was made from another snapshot: {_say(changes[0])}{more} (elect --check lists them); "
                "give the snapshot that it was made from, or make a new plan"
            )


def _say(change: ChangedPremise) -> str:
    if change.topic is None:
        return f"it is of another {change.what}"
    of_broker = "" if change.broker_id is None else f" on broker {change.broker_id}"
    place = f"{change.topic}-{change.partition}{of_broker}"
    is_missing = change.what in ("partition", "replica")
    return f"{place} is {change.now}" if is_missing else f"the {change.what} of {place} is not the same"


@dataclass(frozen=True, slots=True)
class SnapshotSalvage:
    """The partitions that were searched, and the snapshot they belong to."""

    snapshot_id: str
    cluster_id: str | None
    options: ManifestAudit
    plan_sha256: str | None
    """SHA-256 of the plan.json whose leaders' losses these are; None for those of the present leaders."""
    partitions: tuple[PartitionSalvage, ...]
    internal: tuple[TopicPartition, ...]
    """Partitions of Kafka's own topics, which were skipped."""
    without_steps: tuple[TopicPartition, ...]
    """Partitions skipped because the plan decides them without steps."""
    unread: tuple[Unread, ...]
    """Unread input that belongs to no particular partition."""


class SalvageSearch:
    """A snapshot opened for salvage; its reader supplies the records found."""

    def __init__(self, uri: str, settings: Settings, choices: Choices, planned: PlannedLeaders | None = None) -> None:
        """Raises UsageError and InputError as `open_snapshot` does."""
        self._opened = OpenedSnapshot.open(uri, settings)
        self._settings = settings
        self.choices = choices
        self.snapshot = self._opened.snapshot
        self.reader = RecordReader(self.snapshot)
        self._planned = planned
        self._digests: list[SegmentDigest] = []

    def find(self, progress: Progress | None = None) -> SnapshotSalvage:
        """Audit every partition and compare its copies with the log of its leader, present or planned.

        Raises UsageError if the plan was made from another snapshot.
        """
        progress = progress or Progress()
        opened = self._opened
        files = [file for partition in opened.partitions for file in opened.files(partition)]
        progress.begin("looking for records", len(files), sum(file.size_bytes for file in files))
        unplaced: dict[TopicPartition, list[ReplicaDir]] = defaultdict(list)
        for directory in opened.inventory.unplaced:
            unplaced[directory.topic_partition].append(directory)
        try:
            found = [
                salvage_partition(
                    opened.snapshot,
                    self.reader,
                    audit,
                    batches,
                    examined.files,
                    unplaced.get(audit.evidence.topic_partition, ()),
                    self.choices,
                    self._leader_of(audit.evidence.topic_partition),
                )
                for examined, batches, audit in self._audits(progress)
            ]
        finally:
            progress.end()
        if self._planned is not None:
            self._planned.check(opened.inventory.cluster_id)
        return SnapshotSalvage(
            snapshot_id=self._identify(),
            cluster_id=opened.inventory.cluster_id,
            options=self._options(),
            plan_sha256=None if self._planned is None else self._planned.digest,
            partitions=tuple(sorted(found, key=lambda one: one.audit.evidence.topic_partition)),
            internal=tuple(partition for partition in opened.partitions if self._is_passed_over(partition)),
            without_steps=() if self._planned is None else self._planned.without_steps,
            unread=tuple(unread_directories(opened.inventory)),
        )

    def _options(self) -> ManifestAudit:
        row = options_row(self._opened.options, self._settings)
        return ManifestAudit(
            row["protocol"], row["kafka_version"], tuple(row["topics"]), row["quiesced"], row.get("remote")
        )

    def _audits(
        self, progress: Progress
    ) -> Iterator[tuple[Examined, Mapping[CopyKey, NDArray[np.void]], PartitionAudit]]:
        """Audits of the wanted partitions: with a plan, of those that it decides. Partitions that need the coordinator's log
        come last, so that it is read once."""
        waiting = []
        for examined in self._examined(progress):
            if examined.plan.producers:
                waiting.append(examined)
            else:
                yield from self._audit(examined, {})
        states, _ = self._opened.read_transactions(frozenset().union(*(one.plan.producers for one in waiting)))
        for examined in waiting:
            yield from self._audit(examined, states)

    def _examined(self, progress: Progress) -> Iterator[Examined]:
        for partition in self._opened.partitions:
            examined = self._opened.examine(partition)
            self._note(examined)
            if self._planned is None or partition in self._planned.places:
                yield examined
            progress.advance(len(examined.files), sum(file.size_bytes for file in examined.files))

    def _audit(
        self, examined: Examined, states: Mapping[int, TransactionState]
    ) -> Iterator[tuple[Examined, Mapping[CopyKey, NDArray[np.void]], PartitionAudit]]:
        """Audit one partition; yield nothing if it is only a premise of the plan, or is skipped."""
        partition = examined.plan.evidence.topic_partition
        batches = self._opened.read_batches(examined)
        audit = conclude(examined.plan, batches, self.reader, states)
        if self._planned is not None:
            self._planned.note(audit, examined.rows.partition_states)
        if self._is_decided(partition) and not self._is_passed_over(partition):
            yield examined, batches, audit

    def _is_decided(self, partition: TopicPartition) -> bool:
        return self._planned is None or partition in self._planned.leaders

    def _leader_of(self, partition: TopicPartition) -> Decision | None:
        return None if self._planned is None else self._planned.leaders[partition]

    def _is_passed_over(self, partition: TopicPartition) -> bool:
        return not is_salvaged(partition.topic, self._settings.topics) and self._is_decided(partition)

    def _note(self, examined: Examined) -> None:
        digests = {
            (directory.broker_id, one.path): one.digest
            for directory, segments in examined.plan.evidence.copies
            for one in segments
        }
        for file in examined.files:
            digest = digests.get((file.broker_id, file.path))
            self._digests.append(SegmentDigest(file.broker_id, file.path, file.size_bytes, digest))

    def _identify(self) -> str:
        """The id that `run` gives the same snapshot with the same topics."""
        inventory = self._opened.inventory
        snapshot = self._opened.snapshot
        texts = text_files(inventory)
        pieces = [(piece, hash_piece(snapshot, piece)) for piece in pieces_of(texts)]
        lines = inventory_lines(inventory, self._settings.topics)
        return identify_snapshot(lines, self._digests, digest_texts(texts, pieces))
