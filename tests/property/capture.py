"""A simulated cluster as the audit gets to see it: evidence in memory, or log directories on disk."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from tests.property.cluster import Cluster
from tests.property.replica import Batch, Replica
from tests.support import snapshots
from tests.support.snapshots import make_uuid

from replica_audit.auditing.evidence import AuditOptions, PartitionEvidence
from replica_audit.model import CheckpointFile, Leadership, ReplicaDir, SegmentSummary, TopicPartition
from replica_audit.segments.record_batch import BATCH_DTYPE
from replica_audit.segments.summary import Summariser

TOPIC = "simulated"
TOPIC_ID = make_uuid("simulated topic")


def topic_id(life: int) -> str:
    """The id of the topic as it was created the first time, or anew."""
    return TOPIC_ID if not life else make_uuid(f"simulated topic {life}")


SEGMENT_BATCHES = 7


def batch_rows(batches: Sequence[Batch]) -> np.ndarray:
    """`BATCH_DTYPE` rows of batches that lie one after the other in one file, read from their headers."""
    rows, position = [], 0
    for batch in batches:
        base, _, epoch, magic, crc = struct.unpack_from(">qiibI", batch.content)
        attributes, delta, first, last, producer, producer_epoch, sequence, count = struct.unpack_from(
            ">hiqqqhii", batch.content, 21
        )
        values = (position, len(batch.content), base, base + delta, epoch, magic, crc, True)
        rows.append((*values, attributes, first, last, producer, producer_epoch, sequence, count, False))
        position += len(batch.content)
    return np.array(rows, BATCH_DTYPE)


def _segments(replica: Replica) -> list[tuple[int, list[Batch]]]:
    """(base offset, batches) of each segment file. The first is named after the log start, which retention made so."""
    parts = [replica.batches[at : at + SEGMENT_BATCHES] for at in range(0, len(replica.batches), SEGMENT_BATCHES)]
    return [
        (replica.log_start if index == 0 else part[0].base_offset, part) for index, part in enumerate(parts or [[]])
    ]


def _summary(path: str, base_offset: int, rows: np.ndarray) -> SegmentSummary:
    summariser = Summariser(f"{path}/{base_offset:020d}.log", base_offset, int(rows["size"].sum()))
    summariser.add(rows)
    return summariser.finish()


def _directory(replica: Replica) -> ReplicaDir:
    log_dir = f"broker-{replica.broker_id}"
    path = f"{log_dir}/{TOPIC}-0"

    def present(name: str) -> CheckpointFile:
        return CheckpointFile("present", f"{log_dir}/{name}")

    return ReplicaDir(
        broker_id=replica.broker_id,
        log_dir=log_dir,
        topic=TOPIC,
        partition=0,
        path=path,
        topic_id=topic_id(replica.life),
        clean_shutdown=replica.clean_shutdown,
        directory_id=None,
        epoch_file=CheckpointFile(
            "present" if replica.is_cache_written else "empty", f"{path}/leader-epoch-checkpoint"
        ),
        checkpoint_epochs=tuple(replica.cache),
        high_watermark_file=present("replication-offset-checkpoint"),
        recovery_point_file=present("recovery-point-offset-checkpoint"),
        log_start_file=present("log-start-offset-checkpoint"),
        cleaner_file=CheckpointFile("empty", f"{log_dir}/cleaner-offset-checkpoint"),
        high_watermark_checkpoint=replica.checkpoint,
        recovery_point_checkpoint=replica.recovery_point,
        log_start_checkpoint=replica.deleted_to,
        cleaner_checkpoint=replica.cleaned_to,
        segment_bases=tuple(base for base, _ in _segments(replica)),
    )


def leadership_of(cluster: Cluster, source: str) -> Leadership | None:
    """Leadership as a source would give it: a listing has no epoch, a user gives no assignment, `inferred` is nothing."""
    if source == "inferred":
        return None
    by_user = source == "user"
    return Leadership(
        topic=TOPIC,
        partition=0,
        source=source,
        leader_id=cluster.leader_id,
        leader_epoch=None if source == "topics_describe" else cluster.leader_epoch,
        isr=tuple(sorted(cluster.isr)),
        elr=tuple(sorted(cluster.elr)),
        replicas=None if by_user else tuple(sorted(cluster.replicas)),
        topic_id=None if by_user else topic_id(cluster.life),
        configs={} if by_user else {"min.insync.replicas": str(cluster.min_insync_replicas)},
        history=tuple(cluster.history) if source == "metadata_log" else (),
        fenced=tuple(one.broker_id for one in cluster.replicas.values() if not one.alive and not one.offline)
        if source == "metadata_log"
        else None,
        fenced_since=cluster.fenced_since if source == "metadata_log" else {},
    )


def to_model(
    cluster: Cluster, *, source: str = "metadata_log", quiesced: bool | None = None, protocol: str = "fetch"
) -> tuple[PartitionEvidence, dict[tuple[int, str], np.ndarray]]:
    """The evidence of this instant, and the batches of every replica by (broker id, log dir)."""
    replicas, batches = [], {}
    for replica in cluster.replicas.values():
        directory = _directory(replica)
        segments = [(base_offset, batch_rows(part)) for base_offset, part in _segments(replica)]
        replicas.append((directory, tuple(_summary(directory.path, *segment) for segment in segments)))
        batches[replica.broker_id, directory.log_dir] = np.concatenate([rows for _, rows in segments])
    evidence = PartitionEvidence(
        TopicPartition(TOPIC, 0),
        tuple(replicas),
        leadership_of(cluster, source),
        AuditOptions(protocol, quiesced=quiesced),
    )
    return evidence, batches


def to_directory(cluster: Cluster, path: Path, *, quiesced: bool | None = None, epoch_known: bool = False) -> None:
    """Write the capture as a snapshot: log dirs, manifest, a describe listing or, with the epoch, leadership.json."""
    named = {"topic": TOPIC, "topic_id": TOPIC_ID}
    replicas = {
        replica.broker_id: snapshots.Replica(
            [batch.content for batch in replica.batches],
            tuple(replica.cache),
            high_watermark=replica.checkpoint,
            recovery_point=replica.recovery_point,
            per_segment=SEGMENT_BATCHES,
            first_base_offset=replica.log_start,
            **named,
        )
        for replica in cluster.replicas.values()
    }
    leader, isr = cluster.leader_id, sorted(cluster.isr)
    configs = {"min.insync.replicas": str(cluster.min_insync_replicas)}
    listed = snapshots.Listed(leader, sorted(cluster.replicas), isr, configs=configs, **named)
    said = {"topic": TOPIC, "partition": 0, "leader": leader, "leader_epoch": cluster.leader_epoch, "isr": isr}
    snapshots.write_snapshot(
        path,
        replicas,
        () if epoch_known else [listed],
        leadership=[said] if epoch_known else (),
        manifest=None if quiesced is None else {"quiesced": quiesced},
    )
