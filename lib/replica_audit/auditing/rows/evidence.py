"""A partition's rows of the bronze tables put together again as the evidence that is audited."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from replica_audit.auditing.comparing.verified_prefix import verified_copies
from replica_audit.auditing.findings.gone import losses_of_rows
from replica_audit.auditing.leadership.capture_times import CaptureTimes
from replica_audit.auditing.leadership.deviations import summary_of_row
from replica_audit.auditing.leadership.logged_events import events_of_rows
from replica_audit.auditing.partitions.group_offsets import offsets_of_rows
from replica_audit.auditing.partitions.partition_evidence import PartitionEvidence
from replica_audit.auditing.rows.bronze import directories_of_rows
from replica_audit.auditing.rows.remote_rows import segments_of_rows
from replica_audit.config import Settings
from replica_audit.errors import UsageError
from replica_audit.formats.leadership.states import leadership_of_rows
from replica_audit.formats.log_dirs.names import kind_of_copy
from replica_audit.formats.segments.segment_summary import summary_from_json
from replica_audit.model import SegmentSummary, TopicPartition
from replica_audit.protocol.versions import parse_kafka_version, protocol_of

#: Bronze tables that evidence is made of.
EVIDENCE_TABLES = ("replica_dirs", "segments", "leader_epochs", "offset_checkpoints", "partition_states")

#: The bronze table of what brokers' own logs say; there where the snapshot has such logs.
LOG_EVENTS = "broker_log_events"

#: The name under which what consumer groups committed for a partition comes with them, where the snapshot says so.
GROUPS = "group_offsets"

#: The name under which a partition's segments in remote storage come with them, where the snapshot says so.
REMOTE = "remote_segments"

#: The name under which the summary of a partition's timeline comes with them, where the partition was observed.
TIMELINE = "timeline"

#: The name under which what earlier audits saw of a partition comes with them (`auditing.audits.gone`), where there were any.
EARLIER = "earlier"


#: The name under which come the segments of an earlier audit that found the partition well (`verified_prefix`).
VERIFIED = "verified"


@dataclass(frozen=True, slots=True)
class AuditOptions:
    """What a run chooses or the snapshot's manifest says, the same for every partition."""

    protocol: str = "fetch"
    kafka_version: tuple[int, ...] | None = None
    quiesced: bool | None = None
    cluster_id: str | None = None
    times: CaptureTimes = CaptureTimes()
    brokers: tuple[int, ...] = ()
    """Those of which a log dir is in the snapshot."""
    has_metadata_log: bool = False


def has_metadata_log(files: Mapping[str, int]) -> bool:
    """Whether files of a metadata log are among those of a snapshot, counted by kind."""
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
    """What `settings` choose, and where they do not what the manifest says: its `kafka_version` and `quiesced`.

    Without a protocol the version's is used, else `fetch`. Raises UsageError for a version that is not one.
    """
    try:
        version = parse_kafka_version(settings.kafka_version or kafka_version)
    except ValueError as error:
        raise UsageError(str(error)) from error
    protocol = settings.protocol or (protocol_of(version) if version else "fetch")
    return AuditOptions(protocol, version, quiesced, cluster_id, times, tuple(brokers), has_metadata_log)


def options_row(options: AuditOptions, settings: Settings) -> dict[str, Any]:
    """`audit.options` of audit.json: what the answers were computed with, whoever chose it."""
    version = options.kafka_version
    return {
        "protocol": options.protocol,
        "kafka_version": None if version is None else ".".join(str(part) for part in version),
        "topics": list(settings.topics),
        "quiesced": options.quiesced,
        "fail_on": settings.fail_on,
        **({"since": settings.since} if settings.since else {}),
    }


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
        leadership=leadership_of_rows(rows.get("partition_states", ())),
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
