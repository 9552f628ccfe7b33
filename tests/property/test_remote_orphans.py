"""Committed records that the simulated cluster copied to remote storage: what is said to be lost is not in the leader's log."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from tests.property.audits import AUDITED
from tests.property.capture import to_model
from tests.property.cluster import Cluster
from tests.property.history import histories, narrate
from tests.property.replica import Batch
from tests.support.snapshots import make_uuid

from replica_audit.auditing.comparison_plan import ComparisonPlan
from replica_audit.auditing.conclude import PartitionAudit, conclude
from replica_audit.auditing.evidence import SideEvidence
from replica_audit.model import RemoteSegment
from replica_audit.snapshot.remote_log_metadata import COPY_FINISHED


def segment(batch: Batch, topic_id: str) -> RemoteSegment:
    """A batch that was committed once, copied by its leader as a segment of its own."""
    return RemoteSegment(
        topic="simulated",
        partition=0,
        topic_id=topic_id,
        start_offset=batch.base_offset,
        end_offset=batch.end_offset,
        segment_id=make_uuid(batch.content.hex()),
        epochs=((batch.leader_epoch, batch.base_offset),),
        state=COPY_FINISHED,
        broker_id=0,
        size_bytes=len(batch.content),
        max_timestamp_ms=1,
        started_ms=1,
        updated_ms=2,
        updated_by=0,
        copied_ms=2,
        deleting_ms=None,
        deletions=0,
        is_whole=True,
        told_in="broker-0",
        told_until_ms=3,
    )


def audited(cluster: Cluster, source: str, *, is_leader_here: bool) -> PartitionAudit:
    evidence, batches = to_model(cluster, source=source, quiesced=True)
    here = tuple(one for one in evidence.replicas if is_leader_here or one[0].broker_id != cluster.leader_id)
    leadership = evidence.leadership
    assert leadership is not None
    configs = {**leadership.configs, "remote.storage.enable": "true"}
    side = SideEvidence(
        remote_segments=tuple(segment(one, here[0][0].topic_id or "") for one in cluster.committed.values())
    )
    evidence = replace(evidence, replicas=here, leadership=replace(leadership, configs=configs), side=side)
    return conclude(ComparisonPlan(evidence), batches)


@pytest.mark.parametrize("source", ["metadata_log", "topics_describe", "user"])
@pytest.mark.parametrize("is_leader_here", [True, False], ids=["the leader's copy", "the leader was not captured"])
def test_what_is_said_to_be_lost_is_not_in_the_leaders_log(source: str, is_leader_here: bool) -> None:
    seen: Counter[tuple[str, bool]] = Counter()
    for seed, cluster in histories(AUDITED * 2):
        segments = {make_uuid(one.content.hex()): one for one in cluster.committed.values()}
        held = {one.content for one in cluster.leader.batches}
        for found in audited(cluster, source, is_leader_here=is_leader_here).findings:
            if found.code == "TIER-ORPHAN":
                named = [segments[one.value] for one in found.evidence if one.value in segments]
                is_held = any(one.content in held for one in named)
                seen[found.confidence, is_held] += 1
                assert named and not (is_held and found.confidence == "proven"), narrate(seed, cluster)
                assert (found.verdict == "COMMITTED_LOSS") == (found.confidence == "proven")
    assert seen["proven", False] > 10 or source == "topics_describe" and not is_leader_here, seen
    assert is_leader_here or seen["suspect", True], "leaders that have what a replica has not"
    assert not is_leader_here or set(seen) == {("proven", False)}, seen
