"""A snapshot audited in this process, without Spark: one partition of it, or all."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from replica_audit import __version__
from replica_audit.auditing.accounting import account_for_input, check_answered, check_losses
from replica_audit.auditing.answer_rows import failure_rows
from replica_audit.auditing.capture_rows import voter_rows
from replica_audit.auditing.catalogue import audit_verdict
from replica_audit.auditing.conclude import conclude
from replica_audit.auditing.evidence import PartitionEvidence, options_row
from replica_audit.auditing.log_dir_findings import LogDirTally
from replica_audit.auditing.lost_producers import transactional_producers, with_transactions
from replica_audit.auditing.opened_snapshot import Examined, OpenedSnapshot, Row
from replica_audit.auditing.opening import Progress, Unseen, audit_options, open_snapshot
from replica_audit.config import Settings
from replica_audit.elect.election_rows import decided_rows
from replica_audit.errors import UsageError
from replica_audit.model import TopicPartition, TransactionState
from replica_audit.results import Results
from replica_audit.schema import REPORT_TABLES, sort_rows
from replica_audit.snapshot.record_reader import RecordReader
from replica_audit.text import now


def audit_one(uri: str, topic_partition: TopicPartition, settings: Settings) -> Results:
    """Audit one partition of the snapshot at `uri`. Raises UsageError when the snapshot does not have it."""
    started = now()
    # Square brackets and stars in a topic's name would be a pattern; Kafka's legal names have neither.
    topics = (topic_partition.topic,)
    snapshot, inventory = open_snapshot(uri, topics, settings.leadership, settings.leadership_source)
    opened = OpenedSnapshot.read(snapshot, inventory, audit_options(inventory, settings), topics, topic_partition)
    if not opened.partitions:
        known = sorted({str(one.topic_partition) for one in inventory.replicas})
        raise UsageError(f"{topic_partition} is not in {uri}; of that topic there are {', '.join(known[:10])}")
    return _audit(opened, settings, started, Unseen())


def audit_all(
    uri: str, settings: Settings, progress: Progress | None = None, asked: Collection[TopicPartition] = ()
) -> Results:
    """Audit every partition of the snapshot at `uri` that `settings.topics` match: the answers of a run.

    The costs of elections are given for those that are `asked` for too, where there is nothing to decide.

    Raises UsageError and InputError as `open_snapshot` does.
    """
    started = now()
    snapshot, inventory = open_snapshot(uri, settings.topics, settings.leadership, settings.leadership_source)
    options = audit_options(inventory, settings)
    opened = OpenedSnapshot.read(snapshot, inventory, options, settings.topics)
    return _audit(opened, settings, started, progress or Unseen(), frozenset(asked))


def _audit(
    opened: OpenedSnapshot,
    settings: Settings,
    started: str,
    progress: Progress,
    asked: Collection[TopicPartition] = (),
) -> Results:
    """The answers of all partitions of `opened`. Those that have to ask the coordinator wait until it is read, once."""
    gathered = _Gathered(opened, settings, asked)
    files = [file for partition in opened.partitions for file in opened.files(partition)]
    size_bytes = sum(file.size_bytes for file in files)
    progress.begin("auditing", len(files), size_bytes)
    try:
        unread = conclude_all(opened, gathered, progress)
    finally:
        progress.end()
    return gathered.results(started, len(files), size_bytes, unread)


def conclude_all(opened: OpenedSnapshot, gathered: _Gathered, progress: Progress) -> list[Row]:
    """Audit partition after partition; returns what of the coordinator's log could not be read."""
    waiting = []
    for partition in opened.partitions:
        try:
            examined = opened.examine(partition)
            has_to_wait = bool(examined.plan.producers)
        except Exception as error:
            gathered.fail(partition, error)
        else:
            if has_to_wait:
                waiting.append(examined)
            else:
                gathered.conclude(examined, {})
        of_one = opened.files(partition)
        progress.advance(len(of_one), sum(file.size_bytes for file in of_one))
    states, unread = opened.read_transactions(frozenset().union(*(one.plan.producers for one in waiting)))
    for examined in waiting:
        gathered.conclude(examined, states)
    writers, of_writers = opened.read_transactions(gathered.lost_writers())
    gathered.name_writers(writers)
    return [*unread, *(row for row in of_writers if row not in unread)]


class _Gathered:
    """Rows of the report tables, partition after partition."""

    def __init__(self, opened: OpenedSnapshot, settings: Settings, asked: Collection[TopicPartition]) -> None:
        self._opened = opened
        self._asked = asked
        self._settings = settings
        self._read = RecordReader(opened.snapshot)
        self._tables: dict[str, list[Row]] = {table: [] for table in REPORT_TABLES}
        self._log_dirs = LogDirTally()
        self._replica_count = 0

    def conclude(self, examined: Examined, transactions: dict[int, TransactionState]) -> None:
        """Audit one partition and add its rows; one that raises is CAP-NOT-AUDITED."""
        try:
            batches = self._opened.read_batches(examined)
            audit = conclude(examined.plan, batches, self._read, transactions)
            tables = decided_rows(audit, batches, self._asked)
        except Exception as error:
            tables = self._failed(examined.plan.evidence.topic_partition, error, examined.plan.evidence)
        tables["quarantine"] = examined.rows["quarantine"]
        tables["partition_states"] = examined.rows["partition_states"]
        tables["high_watermark_timeline"] = examined.timeline
        for table, of_table in tables.items():
            self._tables[table] += of_table
        self._log_dirs.add(examined.rows["replica_dirs"], examined.rows["segments"])
        self._replica_count += len(examined.rows["replica_dirs"])

    def lost_writers(self) -> frozenset[int]:
        """Transactional producers of lost records."""
        return transactional_producers(self._tables["lost_producers"])

    def name_writers(self, states: dict[int, TransactionState]) -> None:
        """Add what the coordinator says of them."""
        self._tables["lost_producers"] = with_transactions(self._tables["lost_producers"], states)

    def fail(self, partition: TopicPartition, error: Exception) -> None:
        """Add the rows of a partition that could not even be examined."""
        for table, of_table in self._failed(partition, error).items():
            self._tables[table] += of_table

    def _failed(
        self, partition: TopicPartition, error: Exception, evidence: PartitionEvidence | None = None
    ) -> dict[str, list[Row]]:
        return failure_rows(partition, error, self._opened.inventory.cluster_id, evidence)

    def results(self, started: str, segment_count: int, size_bytes: int, unread: Iterable[Row]) -> Results:
        """All answers, with what belongs to no partition."""
        inventory, unplaced = self._opened.inventory, self._opened.unplaced
        self._tables["captures"] += voter_rows(one._asdict() for one in inventory.voters)
        self._tables["findings"] += self._log_dirs.findings(unplaced, inventory.cluster_id)
        verdicts = [row["verdict"] for row in self._tables["partitions"]]
        check_answered(self._opened.partitions, len(self._tables["partitions"]))
        columns = [column.name for column in REPORT_TABLES["quarantine"]]
        rows = [*unplaced, *self._tables["quarantine"], *unread]
        self._tables["quarantine"] = [{name: row[name] for name in columns} for row in rows]
        audit: dict[str, Any] = {
            "audit_id": None,
            "snapshot_id": None,
            "cluster_id": inventory.cluster_id,
            "tool_version": __version__,
            "started": started,
            "finished": now(),
            "verdict": audit_verdict(verdicts, self._tables["findings"]),
            "inputs": {
                "snapshot": self._opened.snapshot.name,
                "log_dirs": len(inventory.log_dirs),
                "replicas": self._replica_count,
                "segments": segment_count,
                "size_bytes": size_bytes,
                **account_for_input(self._tables["quarantine"]),
                "files": dict(inventory.counts),
                "brokers": self._opened.options.times.kinds(),
            },
            "options": options_row(self._opened.options, self._settings),
        }
        if observations := len(self._tables["high_watermark_timeline"]):
            audit["inputs"]["observations"] = observations
        check_losses(self._tables["partitions"], self._tables["findings"])
        tables = {table: sort_rows(of_table) for table, of_table in self._tables.items()}
        return Results(audit, tables, self._opened.snapshot.uri)
