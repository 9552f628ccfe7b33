"""Evidence on one partition, put together from its rows of the bronze tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from replica_audit.auditing.bronze_rows import directories_of_rows
from replica_audit.auditing.compare.wanted_chunks import VerifiedCopy, verified_copies
from replica_audit.auditing.consumer_groups import offsets_of_rows
from replica_audit.auditing.earlier_losses import EarlierLosses, losses_of_rows
from replica_audit.auditing.leadership.broker_log_evidence import events_of_rows
from replica_audit.auditing.leadership.capture_times import CaptureTimes
from replica_audit.auditing.leadership.timeline_deviations import TimelineSummary, summary_of_row
from replica_audit.auditing.replicas.replica_facts import CopyKey
from replica_audit.config import Settings
from replica_audit.errors import UsageError
from replica_audit.model import GroupOffset, Leadership, RemoteSegment, ReplicaDir, SegmentSummary, TopicPartition
from replica_audit.protocol.versions import parse_kafka_version, protocol_of
from replica_audit.results import OptionsObject
from replica_audit.schema import PartitionStateRow, RawRow, read_row
from replica_audit.segments.summary import summary_from_json
from replica_audit.snapshot.broker_logs import BrokerLogEvent
from replica_audit.snapshot.leadership_rows import leadership_of_rows
from replica_audit.snapshot.log_dir_names import kind_of_copy


@dataclass(frozen=True, slots=True)
class PartitionEvidence:
    """Everything ingested of one partition. `replicas` are pairs of a directory and the summaries of its segments."""

    topic_partition: TopicPartition
    replicas: tuple[tuple[ReplicaDir, tuple[SegmentSummary, ...]], ...]
    leadership: Leadership | None = None
    cluster_id: str | None = None
    quiesced: bool | None = None
    """`quiesced` of manifest.json; None if it is not given."""
    protocol: str = "fetch"
    kafka_version: tuple[int, ...] | None = None
    orphans: Mapping[tuple[int, str, str], int] = field(default_factory=dict)
    brokers: frozenset[int] = frozenset()
    """Brokers of which the snapshot has a log dir, with or without the partition."""
    has_metadata_log: bool = False
    """The snapshot has one, whatever it says of the partition."""
    times: CaptureTimes = CaptureTimes()
    log_events: tuple[BrokerLogEvent, ...] = ()
    """Lines of brokers' own logs, in order of time."""
    timeline: TimelineSummary | None = None
    """Summary of the observations of the partition; None without any."""
    losses: EarlierLosses = EarlierLosses()
    """Records that earlier audits of the cluster saw and that may be gone by now."""
    group_offsets: tuple[GroupOffset, ...] = ()
    """Offsets that consumer groups committed."""
    verified: Mapping[CopyKey, VerifiedCopy] = field(default_factory=dict)
    """Copies that an earlier audit found equal and that need no second comparison; empty: all is compared."""
    remote_segments: tuple[RemoteSegment, ...] = ()
    """By `__remote_log_metadata`, of any topic of that name."""
    put_aside: tuple[tuple[ReplicaDir, tuple[SegmentSummary, ...]], ...] = ()
    """Copies that Kafka does not serve from (`snapshot.put_aside`)."""

    @property
    def was_at_rest(self) -> bool:
        """Nothing was written while the copies were made: a manifest says so, or every log dir was stopped cleanly (F.0)."""
        if self.quiesced is not None:
            return self.quiesced
        return all(directory.clean_shutdown for directory, _ in self.replicas)

    @property
    def is_tiered(self) -> bool:
        """True if older segments of the topic may be in remote storage only."""
        return self.leadership is not None and self.leadership.is_tiered


def segments_of_rows(rows: Iterable[RawRow]) -> tuple[RemoteSegment, ...]:
    """The segments of rows with their fields."""
    return tuple(
        RemoteSegment(**{**row, "epochs": tuple((epoch, start) for epoch, start in row["epochs"])}) for row in rows
    )


#: Bronze tables that evidence is made of; further rows come under the keys below.
EVIDENCE_TABLES = ("replica_dirs", "segments", "leader_epochs", "offset_checkpoints", "partition_states")
#: Bronze table of brokers' own logs, if the snapshot has any.
LOG_EVENTS = "broker_log_events"
#: Key of the offsets that consumer groups committed, if the snapshot has any.
GROUPS = "group_offsets"
#: Key of the partition's segments in remote storage, if the snapshot has any.
REMOTE = "remote_segments"
#: Key of the summary of the partition's timeline, if it was observed.
TIMELINE = "timeline"
#: Key of the losses that earlier audits saw (`earlier_losses`), if there were any.
EARLIER = "earlier"
#: Key of the segments of an earlier audit that found the partition well (`compare.wanted_chunks.verified_copies`).
VERIFIED = "verified"


@dataclass(frozen=True, slots=True)
class AuditOptions:
    """Options of an audit, the same for every partition: from settings, else from the manifest."""

    protocol: str = "fetch"
    kafka_version: tuple[int, ...] | None = None
    quiesced: bool | None = None
    cluster_id: str | None = None
    times: CaptureTimes = CaptureTimes()
    brokers: tuple[int, ...] = ()
    """Brokers of which the snapshot has a log dir."""
    has_metadata_log: bool = False


def has_metadata_log(files: Mapping[str, int]) -> bool:
    """True if a snapshot's files, counted by kind, include a metadata log."""
    return any(files.get(kind) for kind in ("metadata_log", "metadata_kraft_snapshot"))


def resolve_options(
    settings: Settings,
    kafka_version: str | None,
    quiesced: bool | None,
    cluster_id: str | None,
    times: CaptureTimes,
    brokers: Iterable[int] = (),
    *,
    has_metadata_log: bool = False,
) -> AuditOptions:
    """Options from `settings`, else from the manifest's `kafka_version` and `quiesced`.

    The protocol defaults to the version's, else `fetch`. Raises UsageError for a malformed version.
    """
    try:
        version = parse_kafka_version(settings.kafka_version or kafka_version)
    except ValueError as error:
        raise UsageError(str(error)) from error
    protocol = settings.protocol or (protocol_of(version) if version else "fetch")
    return AuditOptions(protocol, version, quiesced, cluster_id, times, tuple(brokers), has_metadata_log)


def options_row(options: AuditOptions, settings: Settings) -> OptionsObject:
    """`audit.options` of audit.json: what the answers were computed with, whoever chose it."""
    version = options.kafka_version
    given = OptionsObject(
        protocol=options.protocol,
        kafka_version=None if version is None else ".".join(str(part) for part in version),
        topics=list(settings.topics),
        quiesced=options.quiesced,
        fail_on=settings.fail_on,
    )
    if settings.since:
        given["since"] = settings.since
    return given


def partition_evidence(
    topic_partition: TopicPartition, rows: Mapping[str, Iterable[Mapping]], options: AuditOptions
) -> PartitionEvidence:
    """Evidence from the rows of `EVIDENCE_TABLES` of one partition (dicts as in `bronze_tables.BRONZE_TABLES`)."""
    directories, orphans = directories_of_rows(rows)
    summaries: dict[tuple[int, str], list[SegmentSummary]] = {}
    for row in rows.get("segments", ()):
        summaries.setdefault((row["broker_id"], row["log_dir"]), []).append(summary_from_json(row["summary"]))
    copies = [(one, tuple(summaries.get((one.broker_id, one.log_dir), ()))) for one in directories]
    return PartitionEvidence(
        topic_partition=topic_partition,
        replicas=tuple(pair for pair in copies if kind_of_copy(pair[0].path, pair[0].log_dir) == "current"),
        put_aside=tuple(pair for pair in copies if kind_of_copy(pair[0].path, pair[0].log_dir) != "current"),
        leadership=leadership_of_rows(read_row(PartitionStateRow, row) for row in rows.get("partition_states", ())),
        cluster_id=options.cluster_id,
        quiesced=options.quiesced,
        protocol=options.protocol,
        kafka_version=options.kafka_version,
        times=options.times,
        group_offsets=offsets_of_rows(rows.get(GROUPS, ())),
        log_events=events_of_rows(rows.get(LOG_EVENTS, ())),
        losses=losses_of_rows(rows.get(EARLIER, ())),
        verified=verified_copies(rows.get(VERIFIED, ())),
        timeline=next((summary_of_row(row) for row in rows.get(TIMELINE, ())), None),
        orphans=orphans,
        brokers=frozenset(options.brokers),
        has_metadata_log=options.has_metadata_log,
        remote_segments=segments_of_rows(rows.get(REMOTE, ())),
    )
