"""A snapshot's partitions, one after the other: what can be salvaged of each, and what the answer stands on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from replica_audit.auditing.partitions.conclusion import PartitionAudit, conclude
from replica_audit.auditing.rows.evidence import options_row
from replica_audit.auditing.rows.identity import (
    SegmentDigest,
    digest_texts,
    hash_piece,
    identify_snapshot,
    inventory_lines,
    pieces_of,
    text_files,
)
from replica_audit.config import Settings
from replica_audit.formats.segments.record_reader import RecordReader
from replica_audit.formats.segments.segment_summary import summary_from_json
from replica_audit.local.audit import Progress, Unseen, audit_options, open_snapshot
from replica_audit.local.opened_snapshot import Examined, OpenedSnapshot
from replica_audit.model import TopicPartition
from replica_audit.salvaging.copies_of_topic import Unread, find_put_aside
from replica_audit.salvaging.partition_salvage import Choices, PartitionSalvage, salvage_partition

#: Kafka's own topics: they are rebuilt by their owners, and their records mean nothing elsewhere.
INTERNAL_PREFIX = "__"


@dataclass(frozen=True, slots=True)
class SnapshotSalvage:
    """The partitions that were looked into, and what they are of."""

    snapshot_id: str
    cluster_id: str | None
    options: dict[str, Any]
    """As in audit.json."""
    partitions: tuple[PartitionSalvage, ...]
    internal: tuple[TopicPartition, ...]
    """Partitions of Kafka's own topics, which were passed over."""
    unread: tuple[Unread, ...]
    """Of no partition in particular."""


class SalvagedSnapshot:
    """A snapshot opened for salvage; its reader gives the records that were found."""

    def __init__(self, uri: str, settings: Settings, choices: Choices) -> None:
        """Raises UsageError and InputError as `open_snapshot` does."""
        snapshot, inventory = open_snapshot(uri, settings.topics, settings.leadership, settings.leadership_source)
        self._opened = OpenedSnapshot.read(snapshot, inventory, audit_options(inventory, settings), settings.topics)
        self._settings = settings
        self.choices = choices
        self.reader = RecordReader(snapshot)
        self._digests: list[SegmentDigest] = []

    def find(self, progress: Progress | None = None) -> SnapshotSalvage:
        """Audit every partition and lay its copies beside its reference."""
        progress = progress or Unseen()
        opened = self._opened
        files = [file for partition in opened.partitions for file in opened.files(partition)]
        progress.begin("looking for records", len(files), sum(file.size_bytes for file in files))
        put_aside, unread = find_put_aside(opened.snapshot, opened.inventory)
        try:
            found = [
                salvage_partition(opened.snapshot, self.reader, audit, examined.files, put_aside, self.choices)
                for examined, audit in self._audits(progress)
            ]
        finally:
            progress.end()
        return SnapshotSalvage(
            snapshot_id=self._identify(),
            cluster_id=opened.inventory.cluster_id,
            options=options_row(opened.options, self._settings),
            partitions=tuple(found),
            internal=tuple(partition for partition in opened.partitions if not self._is_wanted(partition)),
            unread=tuple(unread),
        )

    def _audits(self, progress: Progress) -> Iterator[tuple[Examined, PartitionAudit]]:
        """Every partition that is wanted, audited."""
        opened = self._opened
        for partition in opened.partitions:
            examined = opened.examine(partition)
            self._note(examined)
            if self._is_wanted(partition):
                states, _ = opened.read_transactions(examined.plan.producers)
                batches = opened.read_batches(examined)
                yield examined, conclude(examined.plan, batches, self.reader, states)
            progress.advance(len(examined.files), sum(file.size_bytes for file in examined.files))

    def _is_wanted(self, partition: TopicPartition) -> bool:
        named = any(pattern.startswith(INTERNAL_PREFIX) for pattern in self._settings.topics)
        return named or not partition.topic.startswith(INTERNAL_PREFIX)

    def _note(self, examined: Examined) -> None:
        digests = {
            (row["broker_id"], row["path"]): summary_from_json(row["summary"]).digest
            for row in examined.rows["segments"]
        }
        for file in examined.files:
            digest = digests.get((file.broker_id, file.path))
            self._digests.append(SegmentDigest(file.broker_id, file.path, file.size_bytes, digest))

    def _identify(self) -> str:
        """The id that `run` gives the same snapshot with the same topics."""
        inventory, snapshot = self._opened.inventory, self._opened.snapshot
        texts = text_files(inventory)
        pieces = [(piece, hash_piece(snapshot, piece)) for piece in pieces_of(texts)]
        lines = inventory_lines(inventory, self._settings.topics)
        return identify_snapshot(lines, self._digests, digest_texts(texts, pieces))
