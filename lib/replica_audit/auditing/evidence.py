"""Evidence on one partition, independent of the snapshot's form."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

from replica_audit.auditing.compare.remote_contents import StoredContent
from replica_audit.auditing.compare.wanted_chunks import VerifiedCopy
from replica_audit.auditing.earlier_losses import EarlierLosses
from replica_audit.auditing.leadership.capture_times import CaptureTimes
from replica_audit.auditing.leadership.timeline_deviations import TimelineSummary
from replica_audit.auditing.replicas.replica_facts import CopyKey, is_left_by_stop
from replica_audit.cached_property import cached_property
from replica_audit.config import Settings, given_words
from replica_audit.errors import UsageError
from replica_audit.model import (
    GroupOffset,
    Leadership,
    RemoteListing,
    RemoteSegment,
    ReplicaDir,
    SegmentSummary,
    TopicPartition,
)
from replica_audit.protocol.loading import log_end_of
from replica_audit.protocol.versions import parse_kafka_version, protocol_of
from replica_audit.redaction import redact
from replica_audit.results import OptionsObject
from replica_audit.snapshot.broker_logs import BrokerLogEvent
from replica_audit.snapshot.remote_log_metadata import DELETE_FINISHED

#: True if a topic is tiered; None where nothing decides it.
Tiering = bool | None


class AuditOptions(NamedTuple):
    """Options of an audit, the same for every partition, from settings, else from the manifest."""

    protocol: str = "fetch"
    kafka_version: tuple[int, ...] | None = None
    quiesced: bool | None = None
    """`quiesced` of manifest.json; None if absent."""
    cluster_id: str | None = None
    times: CaptureTimes = CaptureTimes()
    """Times of the copies, from the manifest."""
    brokers: tuple[int, ...] = ()
    """Brokers with a log dir in the snapshot, with or without the partition."""
    has_metadata_log: bool = False
    """True if the snapshot has a metadata log, whatever it contains."""
    leaves_out_ids: bool = False
    """True if several partition directories were copied, and no partition.metadata of any."""
    remote: str | None = None
    """Directory or URI of the remote store; None if it is not checked or the snapshot has a listing of it."""
    verify_remote: bool = False
    """True if segments in the remote store are read."""


class SideEvidence(NamedTuple):
    """Evidence on one partition from input that covers many."""

    log_events: tuple[BrokerLogEvent, ...] = ()
    """Lines of broker logs."""
    group_offsets: tuple[GroupOffset, ...] = ()
    """Offsets that consumer groups committed, and share groups reached."""
    remote_segments: tuple[RemoteSegment, ...] = ()
    """Segments from `__remote_log_metadata`, of any topic id with that name."""
    remote_logs: tuple[str, ...] | None = None
    """Log dirs of the copies that together list every segment (`RemoteLogs`)."""
    store: RemoteListing | None = None
    """Objects in the remote store; None if it was not checked."""
    contents: tuple[StoredContent, ...] = ()
    """Segments that were read in the remote store."""
    timeline: TimelineSummary | None = None
    """Summary of the partition's observations; None without any."""
    losses: EarlierLosses = EarlierLosses()
    """Records seen by earlier audits of the cluster that may be gone by now."""
    verified: Mapping[CopyKey, VerifiedCopy] = {}
    """Copies that an earlier audit found equal and that need no second comparison; if empty, everything is compared."""


@dataclass(frozen=True)
class PartitionEvidence:
    """Everything ingested for one partition; `replicas` are pairs of a directory and the summaries of its segments."""

    topic_partition: TopicPartition
    replicas: tuple[tuple[ReplicaDir, tuple[SegmentSummary, ...]], ...]
    leadership: Leadership | None = None
    options: AuditOptions = AuditOptions()
    side: SideEvidence = SideEvidence()
    orphans: Mapping[tuple[int, str, str], int] = field(default_factory=dict)
    """Checkpoint values by (broker id, log dir, file) for log dirs without a directory of the partition."""
    put_aside: tuple[tuple[ReplicaDir, tuple[SegmentSummary, ...]], ...] = ()
    """Copies that Kafka does not serve from (`snapshot.inventory.Inventory.put_aside`)."""

    @property
    def copies(self) -> tuple[tuple[ReplicaDir, tuple[SegmentSummary, ...]], ...]:
        """Copies that Kafka serves from, then those put aside."""
        return (*self.replicas, *self.put_aside)

    @property
    def named(self) -> frozenset[int]:
        """Brokers that the source of leadership names as having a replica."""
        return frozenset() if self.leadership is None else self.leadership.named

    @property
    def orphaned(self) -> frozenset[int]:
        return frozenset(broker_id for broker_id, _, _ in self.orphans)

    @cached_property
    def was_at_rest(self) -> bool:
        """True if nothing was written while the copies were made: the manifest declares it, or every broker was
        stopped cleanly before (F.0)."""
        if self.options.quiesced is not None:
            return self.options.quiesced
        return all(self._stopped_before_copy)

    @cached_property
    def _stopped_before_copy(self) -> tuple[bool, ...]:
        """For each of `replicas`, True if its broker was stopped cleanly before its files were copied."""
        return tuple(self._was_stopped(directory, segments) for directory, segments in self.replicas)

    def _was_stopped(self, directory: ReplicaDir, segments: Iterable[SegmentSummary]) -> bool:
        if directory.clean_shutdown is not True:
            return False
        ordered = sorted(segments, key=lambda one: one.base_offset)
        is_older = self.options.times.is_flag_older(directory, log_end_of(ordered), self.leadership)
        return is_older or is_left_by_stop(directory, ordered)

    @cached_property
    def tiering(self) -> Tiering:
        """True if older segments of the topic may be in remote storage only: by its configs, else by segments of its id in
        remote storage, else by what its copies show (J)."""
        if self.leadership is not None and self.leadership.said_tiered is not None:
            return self.leadership.said_tiered
        ids = {directory.topic_id for directory, _ in self.replicas}
        stored = {one.topic_id for one in self.side.remote_segments if one.state != DELETE_FINISHED}
        if self.side.store is not None:
            stored |= {one.topic_id for one in self.side.store.objects}
        if ids & stored:
            return True
        shown = {
            _shows_tiering(*one, was_stopped)
            for one, was_stopped in zip(self.replicas, self._stopped_before_copy, strict=True)
        }
        if True in shown:
            return True
        return None if None in shown else False

    @cached_property
    def is_tiered(self) -> bool:
        """True if older segments of the topic are known to be in remote storage, if anywhere."""
        return self.tiering is True


def _shows_tiering(directory: ReplicaDir, segments: Sequence[SegmentSummary], was_stopped: bool) -> Tiering:
    """Evidence of one copy: its checkpoint of the log start, and where its epoch file begins, beside its first file. By the first line
    that fits:

    | the log start by the checkpoint | and | tiered |
    |---|---|---|
    | is not known | its file is here, or the epoch file begins no earlier than the files | no |
    | is not known | the epoch file begins earlier | unknown |
    | is not below the files | | no |
    | is below | the broker was stopped before the copy, and no index is here of a file below | yes |
    | is 0 | the epoch file begins earlier, or has no entry | yes |
    | is below | the epoch file begins earlier, or has no entry though batches have epochs | unknown |
    | is below | anything else | no |

    Kafka writes the start of a log that is not tiered only while it is inside its first segment, so never 0, and all starts
    again as it stops cleanly (`LogManager.checkpointLogStartOffsetsInDir`). In between, retention may have moved it past the
    segment since, and then has cut the epoch file there (`UnifiedLog.maybeIncrementLogStartOffset`): a copy made meanwhile, or
    after a crash, has the old entry of one, of the other, or of both.
    """
    base = min((one.base_offset for one in segments), default=0)
    first = min((start for _, start in directory.checkpoint_epochs or ()), default=None)
    start = directory.log_start_checkpoint
    if start is None:
        # A broker writes no start into this file for a log that begins with its first segment.
        is_here = directory.log_start_file.state == "present"
        return False if is_here or first is None or first >= base else None
    if start >= base:
        return False
    # Other files of a segment without its .log show that the .log was not copied, not that it is in remote storage.
    is_whole = all(one >= base for one in directory.index_bases)
    if was_stopped and is_whole:
        return True
    begins_below = any(one.has_epochs for one in segments) if first is None else first < base
    if start == 0 and (first is None or begins_below):
        return True
    return None if begins_below else False


def resolve_options(
    settings: Settings,
    kafka_version: str | None,
    quiesced: bool | None,
    cluster_id: str | None,
    times: CaptureTimes,
    brokers: Iterable[int] = (),
    counts: Mapping[str, int] = MappingProxyType({}),
) -> AuditOptions:
    """Resolve options from `settings`, else from the manifest's `kafka_version` and `quiesced`; `counts`: the snapshot's files and
    directories by kind.

    The protocol defaults to the version's, else to `fetch`. Raises UsageError for a malformed version.
    """
    try:
        version = parse_kafka_version(settings.kafka_version or kafka_version)
    except ValueError as error:
        raise UsageError(str(error)) from error
    protocol = settings.protocol or (protocol_of(version) if version else "fetch")
    return AuditOptions(
        protocol=protocol,
        kafka_version=version,
        quiesced=quiesced,
        cluster_id=cluster_id,
        times=times,
        brokers=tuple(brokers),
        has_metadata_log=any(counts.get(kind) for kind in ("metadata_log", "metadata_kraft_snapshot")),
        leaves_out_ids=counts.get("directory_current", 0) > 1 and not counts.get("partition_metadata"),
        remote=settings.remote,
        verify_remote=settings.verify_remote,
    )


def options_row(options: AuditOptions, settings: Settings) -> OptionsObject:
    """Object `audit.options` of audit.json: the options in effect, from settings or manifest."""
    version = options.kafka_version
    given = OptionsObject(
        protocol=options.protocol,
        kafka_version=None if version is None else ".".join(str(part) for part in version),
        topics=list(settings.topics),
        quiesced=options.quiesced,
        fail_on=settings.fail_on,
    )
    if options.remote is not None:
        given["remote"] = redact(options.remote)
        given["verify_remote"] = options.verify_remote
    if words := given_words(settings):
        given["given"] = {name: [redact(word) for word in some] for name, some in words.items()}
    if settings.since:
        given["since"] = settings.since
    return given
