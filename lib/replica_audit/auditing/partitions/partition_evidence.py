"""What was ingested of one partition."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from replica_audit.auditing.comparing.verified_prefix import VerifiedCopy
from replica_audit.auditing.findings.gone import EarlierLosses
from replica_audit.auditing.leadership.capture_times import CaptureTimes
from replica_audit.auditing.leadership.deviations import TimelineSummary
from replica_audit.auditing.replicas.facts import CopyKey
from replica_audit.formats.leadership.broker_log_event import BrokerLogEvent
from replica_audit.model import GroupOffset, Leadership, RemoteSegment, ReplicaDir, SegmentSummary, TopicPartition


@dataclass(frozen=True, slots=True)
class PartitionEvidence:
    """Everything ingested of one partition. `replicas` are pairs of a directory and the summaries of its segments."""

    topic_partition: TopicPartition
    replicas: tuple[tuple[ReplicaDir, tuple[SegmentSummary, ...]], ...]
    leadership: Leadership | None = None
    cluster_id: str | None = None
    quiesced: bool | None = None
    """From manifest.json; None: it does not say."""
    protocol: str = "fetch"
    kafka_version: tuple[int, ...] | None = None
    orphans: Mapping[tuple[int, str, str], int] = field(default_factory=dict)
    brokers: frozenset[int] = frozenset()
    """Those of which a log dir is in the snapshot, with or without the partition."""
    has_metadata_log: bool = False
    """The snapshot has one, whatever it says of the partition."""
    times: CaptureTimes = CaptureTimes()
    log_events: tuple[BrokerLogEvent, ...] = ()
    """From brokers' own logs, in order of time."""
    timeline: TimelineSummary | None = None
    """What observations of the partition come to; None without any."""
    losses: EarlierLosses = EarlierLosses()
    """What earlier audits of the cluster saw that may be gone by now."""
    group_offsets: tuple[GroupOffset, ...] = ()
    """What consumer groups committed for it."""
    verified: Mapping[CopyKey, VerifiedCopy] = field(default_factory=dict)
    """What an earlier audit found equal and need not be compared again; empty: all is compared."""
    remote_segments: tuple[RemoteSegment, ...] = ()
    """By `__remote_log_metadata`, of any topic of that name."""
    put_aside: tuple[tuple[ReplicaDir, tuple[SegmentSummary, ...]], ...] = ()
    """Copies that Kafka does not serve from (`formats.log_dirs.put_aside`)."""

    @property
    def was_at_rest(self) -> bool:
        """Nothing was written while the copies were made: a manifest says so, or every log dir was stopped cleanly (F.0)."""
        if self.quiesced is not None:
            return self.quiesced
        return all(directory.clean_shutdown for directory, _ in self.replicas)

    @property
    def is_tiered(self) -> bool:
        """Whether the topic's older segments may be in remote storage only."""
        return self.leadership is not None and self.leadership.is_tiered
