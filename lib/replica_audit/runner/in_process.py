"""Audit of a snapshot in this process, without Spark, straight from its files: nothing is written."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from replica_audit import __version__
from replica_audit.auditing.audit_results import audit_results
from replica_audit.auditing.evidence import AuditOptions, options_row
from replica_audit.auditing.opened_snapshot import Examined, OpenedSnapshot
from replica_audit.config import Settings
from replica_audit.errors import UsageError
from replica_audit.model import TopicPartition, TransactionState
from replica_audit.progress import Progress
from replica_audit.results import Results
from replica_audit.runner.audit_stage import AuditAnswers, audit
from replica_audit.runner.executor import Executor, InProcess
from replica_audit.runner.partition_tasks import Outlet, PartitionTask, to_read
from replica_audit.schema import AttemptRow, MetadataLogRow, QuarantineRow, ReportRows, VoterCopy
from replica_audit.snapshot.record_reader import RecordReader
from replica_audit.text import now

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from replica_audit.auditing.replicas.replica_facts import CopyKey
    from replica_audit.snapshot.internal_topics import Each


def audit_one(uri: str, topic_partition: TopicPartition, settings: Settings) -> Results:
    """Audit one partition of the snapshot at `uri`. Raises UsageError if the snapshot does not have it."""
    started = now()
    # Square brackets and stars in a topic's name would be a pattern; Kafka's legal names have neither.
    opened = OpenedSnapshot.open(uri, replace(settings, topics=(topic_partition.topic,)), topic_partition)
    if not opened.partitions:
        raise not_in(uri, topic_partition, (one.topic_partition for one in opened.inventory.replicas))
    source = SnapshotSource(opened)
    return audit(InProcess(), source, InMemory(source, settings, started), Progress())


def not_in(uri: str, missing: TopicPartition, found: Iterable[TopicPartition]) -> UsageError:
    """Error for a partition that the snapshot at `uri` lacks, with those of its topic, else the topics, that it has."""
    held = sorted(set(found))
    if of_topic := [str(one) for one in held if one.topic == missing.topic]:
        return UsageError(f"{missing} is not in {uri}; of that topic there are {', '.join(of_topic[:10])}")
    topics = dict.fromkeys(one.topic for one in held)
    return UsageError(f"{missing} is not in {uri}; topics there: {', '.join(list(topics)[:10])}")


def audit_all(
    uri: str,
    settings: Settings,
    progress: Progress | None = None,
    asked: Collection[TopicPartition] = (),
    up: Collection[int] | None = None,
) -> Results:
    """Audit every partition of the snapshot at `uri` that matches `settings.topics`, with the answers of `run`.

    Costs of elections are also given for partitions that are `asked` for, or whose leader is not among the brokers said to be `up`.

    Raises UsageError and InputError as `open_snapshot` does.
    """
    started = now()
    source = SnapshotSource(OpenedSnapshot.open(uri, settings, progress=progress))
    return audit(InProcess(), source, InMemory(source, settings, started), progress or Progress(), frozenset(asked), up)


#: Size of a small batch, to estimate the cost of partitions whose batches were not counted yet.
_BATCH_BYTES = 250


class SnapshotSource:
    """The partitions of an opened snapshot (`runner.audit_stage.Source`), and their reader in tasks."""

    def __init__(self, opened: OpenedSnapshot) -> None:
        self.snapshot = opened
        self._examined: dict[TopicPartition, Examined] = {}

    @property
    def options(self) -> AuditOptions:
        return self.snapshot.options

    @property
    def cluster_id(self) -> str | None:
        return self.snapshot.inventory.cluster_id

    @property
    def reader(self) -> SnapshotSource:
        return self

    @property
    def voters(self) -> Iterable[VoterCopy]:
        return self.snapshot.inventory.voters

    @property
    def metadata_logs(self) -> Iterable[MetadataLogRow]:
        return self.snapshot.inventory.metadata_copies

    def unplaced(self) -> list[QuarantineRow]:
        return self.snapshot.unplaced

    def tasks(self, executor: Executor | None = None) -> Sequence[PartitionTask]:
        found = []
        for partition in self.snapshot.partitions:
            files = self.snapshot.files(partition)
            size_bytes = sum(file.size_bytes for file in files)
            found.append(PartitionTask(partition, size_bytes // _BATCH_BYTES, files=len(files), size_bytes=size_bytes))
        return found

    def opened(self, tasks: Sequence[PartitionTask]) -> SnapshotSource:
        return self

    def examine(self, task: PartitionTask) -> Examined:
        """A partition's facts; its segments are scanned once, even if it has to wait for the coordinator."""
        examined = self._examined.pop(task.partition, None)
        if examined is None:
            examined = self.snapshot.examine(task.partition)
            if examined.plan.producers:
                self._examined[task.partition] = examined
        return examined

    def read_batches(self, examined: Examined) -> dict[CopyKey, NDArray[np.void]]:
        return self.snapshot.read_batches(examined)

    def read_records(self) -> RecordReader:
        return RecordReader(self.snapshot.snapshot)

    def rows_read(self, examined: Examined, rows: ReportRows) -> ReportRows:
        return replace(
            rows,
            quarantine=examined.rows.quarantine,
            partition_states=examined.rows.partition_states,
            high_watermark_timeline=examined.rows.high_watermark_timeline,
        )

    def read_transactions(
        self, producers: Collection[int], each: Each
    ) -> tuple[dict[int, TransactionState], list[QuarantineRow]]:
        return self.snapshot.read_transactions(producers, each)


class InMemory:
    """Answers in memory only (`runner.audit_stage.Sink`)."""

    def __init__(self, source: SnapshotSource, settings: Settings, started: str) -> None:
        self._source, self._settings, self._started = source, settings, started

    def outlet(self, tasks: Sequence[PartitionTask]) -> Outlet:
        return Outlet()

    def keep(self, answers: AuditAnswers) -> None:
        pass

    def fail(self) -> None:
        pass

    def results(self, answers: AuditAnswers) -> Results:
        opened = self._source.snapshot
        files, size_bytes = to_read(self._source.tasks())
        inputs = {
            "snapshot": opened.snapshot.name,
            "log_dirs": len(opened.inventory.log_dirs),
            "replicas": sum(opened.count_copies(partition) for partition in opened.partitions),
            "segments": files,
            "size_bytes": size_bytes,
            "files": dict(opened.inventory.counts),
            **opened.options.times.as_inputs(),
        }
        run = AttemptRow(
            cluster_id=opened.inventory.cluster_id,
            snapshot_id=None,
            audit_id=None,
            ingest_id=None,
            stage="audit",
            state="finished",
            started=self._started,
            finished=now(),
            tool_version=__version__,
            table_versions=None,
            row_counts=None,
            options=None,
        )
        refused = [row.as_input() for row in (*opened.unplaced, *answers.unread)]
        rows = replace(answers.rows, quarantine=[*answers.rows.quarantine, *refused])
        options = options_row(opened.options, self._settings)
        observations = len(rows.high_watermark_timeline)
        blank = opened.inventory.blank
        return audit_results(run, inputs, blank, options, rows, observations, opened.snapshot.uri)
